//! The types of the gateway's table: what a message is made of.

use super::table::{ENUMS, MESSAGES};

/// A message.
#[derive(Debug)]
pub struct Message {
    /// The name with its package, as `etcdserverpb.PutRequest`.
    pub name: &'static str,
    /// The fields in the order of the text, which is the order that JSON has.
    pub fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// The number on the wire.
    pub number: u32,
    /// The name in the text. JSON has this one in responses, and either in requests.
    pub name: &'static str,
    /// The name in lower camel case.
    pub json_name: &'static str,
    /// The type of the value, or of each value of a list.
    pub kind: Kind,
    /// Whether it is a list.
    pub repeated: bool,
    /// The full name of the oneof that the field belongs to. Such a field is present also with a
    /// zero, and only one of the oneof may be set.
    pub oneof: Option<&'static str>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A truth value.
    Bool,
    /// A signed number, which JSON has as a string.
    Int64,
    /// A number, which JSON has as a string.
    Uint64,
    /// A number, which JSON has as a number.
    Uint32,
    /// Text.
    String,
    /// Bytes, which JSON has in base64.
    Bytes,
    /// An enum, by its position in the table.
    Enum(usize),
    /// A message, by its position in the table.
    Message(usize),
}

/// An enum.
#[derive(Debug)]
pub struct Enum {
    /// The name with its package and message.
    pub name: &'static str,
    /// Numbers and names, in the order of the text.
    pub values: &'static [(i32, &'static str)],
}

/// A call of a service.
#[derive(Debug)]
pub struct GatewayMethod {
    /// The path in gRPC, as `/etcdserverpb.KV/Put`.
    pub path: &'static str,
    /// The message of a request, by its position in the table.
    pub input: usize,
    /// The message of a response, by its position in the table.
    pub output: usize,
    /// Whether a client sends a stream of requests.
    pub client_streams: bool,
    /// Whether the server answers with a stream of responses.
    pub server_streams: bool,
}

impl Message {
    /// The message at a position that the table names.
    pub fn at(position: usize) -> &'static Message {
        &MESSAGES[position]
    }

    /// The position of the field with that name, in either spelling.
    pub fn named(&self, name: &str) -> Option<usize> {
        let by_json = self.fields.iter().position(|field| field.json_name == name);
        by_json.or_else(|| self.fields.iter().position(|field| field.name == name))
    }
}

impl Enum {
    /// The enum at a position that the table names.
    pub fn at(position: usize) -> &'static Enum {
        &ENUMS[position]
    }

    /// The number of that name.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(_, of)| *of == name).map(|(number, _)| *number)
    }

    /// The name of that number.
    pub fn name(&self, number: i32) -> Option<&'static str> {
        self.values.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
    }
}

impl Kind {
    /// Whether the wire has it as a number, and so a list of it in one piece.
    pub fn is_number(self) -> bool {
        !matches!(self, Kind::String | Kind::Bytes | Kind::Message(_))
    }

    /// The type's name in the texts and in error messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int64 => "int64",
            Kind::Uint64 => "uint64",
            Kind::Uint32 => "uint32",
            Kind::String => "string",
            Kind::Bytes => "bytes",
            Kind::Enum(_) => "enum",
            Kind::Message(_) => "message",
        }
    }
}
