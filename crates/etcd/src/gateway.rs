//! The JSON of HTTP clients.

pub mod schema;
#[rustfmt::skip]
pub mod table;
