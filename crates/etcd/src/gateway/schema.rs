//! The types of the gateway's table, which describes every message, enum and call of `proto/`. A
//! position is an index into the table's list of messages or enums.

use super::table::{ENUMS, MESSAGES};

/// The description of a message.
#[derive(Debug)]
pub struct Message {
    /// The name with its package, as `etcdserverpb.PutRequest`.
    pub name: &'static str,
    /// The fields in the order of `proto/`, in which JSON has them.
    pub fields: &'static [Field],
}

/// The description of a field of a message.
#[derive(Debug)]
pub struct Field {
    /// The field's number on the wire.
    pub number: u32,
    /// The name in `proto/`. Responses use this name; requests may use this one or `json_name`.
    pub name: &'static str,
    /// The name in JSON: `name` in lower camel case.
    pub json_name: &'static str,
    /// The type of the value; of one item if the field is a list.
    pub kind: Kind,
    /// Whether the field is a list.
    pub repeated: bool,
    /// The full name of the oneof that the field belongs to; `None` if it belongs to none. Only one
    /// field of a oneof may be set, and a field of a oneof counts as set even if its value is zero.
    pub oneof: Option<&'static str>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A truth value.
    Bool,
    /// A signed 64-bit number; a string in JSON.
    Int64,
    /// An unsigned 64-bit number; a string in JSON.
    Uint64,
    /// An unsigned 32-bit number; a number in JSON.
    Uint32,
    /// A string.
    String,
    /// Bytes; base64 in JSON.
    Bytes,
    /// An enum, by its position in the table.
    Enum(usize),
    /// A message, by its position in the table.
    Message(usize),
}

/// The description of an enum.
#[derive(Debug)]
pub struct Enum {
    /// The full name: package, message, enum.
    pub name: &'static str,
    /// Number and name of each value, in the order of `proto/`.
    pub values: &'static [(i32, &'static str)],
}

/// The description of a call of a service.
#[derive(Debug)]
pub struct GatewayMethod {
    /// The path in gRPC, as `/etcdserverpb.KV/Put`.
    pub path: &'static str,
    /// The position of the request's message.
    pub input: usize,
    /// The position of the response's message.
    pub output: usize,
    /// Whether a client sends a stream of requests.
    pub client_streams: bool,
    /// Whether the server answers with a stream of responses.
    pub server_streams: bool,
}

impl Message {
    /// The message at a position from the table.
    pub fn at(position: usize) -> &'static Message {
        &MESSAGES[position]
    }

    /// The index in `fields` of the field with this name, in either spelling.
    pub fn named(&self, name: &str) -> Option<usize> {
        let by_json = self.fields.iter().position(|field| field.json_name == name);
        by_json.or_else(|| self.fields.iter().position(|field| field.name == name))
    }
}

impl Enum {
    /// The enum at a position from the table.
    pub fn at(position: usize) -> &'static Enum {
        &ENUMS[position]
    }

    /// The number of the value with this name.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.values.iter().find(|(_, of)| *of == name).map(|(number, _)| *number)
    }

    /// The name of the value with this number.
    pub fn name(&self, number: i32) -> Option<&'static str> {
        self.values.iter().find(|(of, _)| *of == number).map(|(_, name)| *name)
    }
}

impl Kind {
    /// Whether a value of this type is a number on the wire, so that a list of them may be packed.
    pub fn is_number(self) -> bool {
        !matches!(self, Kind::String | Kind::Bytes | Kind::Message(_))
    }

    /// The type's name in `proto/` and in error messages.
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
