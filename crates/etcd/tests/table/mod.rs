//! Generates the gateway's table: every message with its fields, every enum with its values, and
//! every call, as constants of the types in `src/gateway/schema.rs`.

use std::fmt::Write;

use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
};

/// Every message and enum of `proto/`, by its full name.
struct Named<'a> {
    messages: Vec<(String, &'a DescriptorProto)>,
    enums: Vec<(String, &'a EnumDescriptorProto)>,
}

impl<'a> Named<'a> {
    fn of(files: &'a FileDescriptorSet) -> Named<'a> {
        let mut named = Named { messages: Vec::new(), enums: Vec::new() };
        for file in &files.file {
            let package = file.package();
            let full = |name: &str| format!("{package}.{name}");
            for message in &file.message_type {
                let name = full(message.name());
                assert!(message.nested_type.is_empty(), "{name} has messages inside");
                let inside =
                    |inside: &'a EnumDescriptorProto| (format!("{name}.{}", inside.name()), inside);
                named.enums.extend(message.enum_type.iter().map(inside));
                named.messages.push((name, message));
            }
            named.enums.extend(file.enum_type.iter().map(|of| (full(of.name()), of)));
        }
        named
    }

    fn message(&self, name: &str) -> usize {
        let name = name.trim_start_matches('.');
        self.messages.iter().position(|(of, _)| of == name).expect("the message is known")
    }

    fn enumeration(&self, name: &str) -> usize {
        let name = name.trim_start_matches('.');
        self.enums.iter().position(|(of, _)| of == name).expect("the enum is known")
    }

    fn kind(&self, field: &FieldDescriptorProto) -> String {
        match field.r#type() {
            Type::Bool => "Bool".to_string(),
            Type::Int64 => "Int64".to_string(),
            Type::Uint64 => "Uint64".to_string(),
            Type::Uint32 => "Uint32".to_string(),
            Type::String => "String".to_string(),
            Type::Bytes => "Bytes".to_string(),
            Type::Enum => format!("Enum({})", self.enumeration(field.type_name())),
            Type::Message => format!("Message({})", self.message(field.type_name())),
            other => panic!("the gateway knows no {other:?}"),
        }
    }

    fn field(&self, message: &str, of: &DescriptorProto, field: &FieldDescriptorProto) -> String {
        let oneof = field.oneof_index.map_or("None".to_string(), |index| {
            let name = of.oneof_decl[index as usize].name();
            format!("Some({:?})", format!("{message}.{name}"))
        });
        format!(
            "Field {{ number: {}, name: {:?}, json_name: {:?}, kind: Kind::{}, repeated: {}, \
             oneof: {oneof} }}",
            field.number(),
            field.name(),
            field.json_name(),
            self.kind(field),
            field.label() == Label::Repeated,
        )
    }
}

/// The source code of the table.
pub fn table(files: &FileDescriptorSet) -> String {
    let named = Named::of(files);
    let mut text =
        String::from("\nuse super::schema::{Enum, Field, GatewayMethod, Kind, Message};\n");
    text.push_str("\n/// Every message. Fields refer to it by position.\n");
    let add = |text: &mut String, line: &str| writeln!(text, "{line}").expect("it is a string");
    add(&mut text, &format!("pub static MESSAGES: [Message; {}] = [", named.messages.len()));
    for (name, message) in &named.messages {
        add(&mut text, &format!("    Message {{ name: {name:?}, fields: &["));
        for field in &message.field {
            add(&mut text, &format!("        {},", named.field(name, message, field)));
        }
        add(&mut text, "    ] },");
    }
    add(&mut text, "];\n\n/// Every enum. Fields refer to it by position.");
    add(&mut text, &format!("pub static ENUMS: [Enum; {}] = [", named.enums.len()));
    for (name, of) in &named.enums {
        let values: Vec<String> = of
            .value
            .iter()
            .map(|value| format!("({}, {:?})", value.number(), value.name()))
            .collect();
        add(
            &mut text,
            &format!("    Enum {{ name: {name:?}, values: &[{}] }},", values.join(", ")),
        );
    }
    add(&mut text, "];\n\n/// Every call of every service.");
    let services = files.file.iter().flat_map(|file| {
        file.service
            .iter()
            .map(move |service| (format!("{}.{}", file.package(), service.name()), service))
    });
    let methods =
        services.flat_map(|(service, of)| of.method.iter().map(move |m| (service.clone(), m)));
    let methods: Vec<String> = methods
        .map(|(service, method)| {
            format!(
                "    GatewayMethod {{ path: \"/{service}/{}\", input: {}, output: {}, \
                 client_streams: {}, server_streams: {} }},",
                method.name(),
                named.message(method.input_type()),
                named.message(method.output_type()),
                method.client_streaming(),
                method.server_streaming(),
            )
        })
        .collect();
    add(&mut text, &format!("pub static METHODS: [GatewayMethod; {}] = [", methods.len()));
    add(&mut text, &methods.join("\n"));
    add(&mut text, "];");
    text
}
