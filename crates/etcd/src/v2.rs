//! etcd v2: turns the parameters of an HTTP request into a [`Request`], and outcomes into JSON. The
//! behaviour is that of etcd 3.4. The heads of most modules name the parts of etcd (or Go) that
//! they follow, and `docs/etcd.md` lists the differences.
//!
//! ```text
//! path, query, form -> Request -> a command | a read | a wait
//! outcome | node | event -> the text of the answer; refusal -> Failure -> status and text
//! ```

pub mod auth;
mod basic;
mod failure;
mod form;
mod json;
mod path;
mod request;

pub use basic::basic;
pub use failure::{Code, Failure};
pub use form::{Form, FormError};
pub use json::{Listing, time_text, write_event, write_file};
pub use path::{BadEscape, clean, decoded, escaped, is_plain};
pub use request::{Ask, Request, Verb, WaitAsk, WriteAsk};

/// The path in URLs below which the keys are.
pub const KEYS: &str = "/v2/keys";

/// The content type of every answer about keys, errors included.
pub const CONTENT_TYPE: &str = "application/json";
