//! The metadata of a call: headers chosen by its client.

use grpc_code::Code;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use hyper::header::{HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::Status;

/// The suffix of keys whose values may be any bytes, in base64 on the wire.
const BINARY_SUFFIX: &str = "-bin";

/// Base64 as grpc-go reads it: padded or not, with any bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Bytes of a value that is kept at most; the rest is dropped. No token has as many.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// A value with more bytes is looked for among the last ones of its connection, and counts.
const SMALL_BYTES: usize = 256;

/// Bytes of large values that all connections of a face may have kept.
pub const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of large values that one connection may have kept.
const CONNECTION_BYTES_MAX: usize = KEPT_BYTES_MAX / 16;

/// Values of a connection that a further one may be equal to. A table of HPACK has 4 KiB, so no
/// more large values than these can be sent again by a reference of a few bytes.
const RECENT_MAX: usize = 16;

/// The headers of a request that handlers read: of each key the first value that is text.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Vec<(&'static str, Value)>);

/// A value that a client has sent. Clones share its bytes.
#[derive(Clone, Debug)]
pub struct Value(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    text: Arc<str>,
    /// What a large value takes of all that is kept, and of its connection's part.
    _permits: Option<[OwnedSemaphorePermit; 2]>,
}

/// The values that calls of a connection keep.
#[derive(Debug)]
pub struct KeptValues {
    /// The bytes left for all connections of the face, and for this one.
    left: [Arc<Semaphore>; 2],
    recent: Mutex<VecDeque<Weak<Kept>>>,
}

impl Value {
    /// Its text. A caller that keeps a reference keeps the value beside it, which counts.
    pub fn text(&self) -> &Arc<str> {
        &self.0.text
    }
}

impl KeptValues {
    /// The values of a new connection; `of_face` counts the bytes left for the whole face.
    pub fn new(of_face: &Arc<Semaphore>) -> KeptValues {
        let left = [of_face.clone(), Arc::new(Semaphore::new(CONNECTION_BYTES_MAX))];
        KeptValues { left, recent: Mutex::default() }
    }

    /// Keeps a value, or finds it kept. `None` if as many bytes are kept as may be.
    pub fn keep(&self, text: &str) -> Option<Value> {
        let text = &text[..text.floor_char_boundary(VALUE_BYTES_MAX)];
        if text.len() <= SMALL_BYTES {
            return Some(Value(Arc::new(Kept { text: text.into(), _permits: None })));
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = recent.iter().filter_map(Weak::upgrade);
        if let Some(kept) = found.find(|kept| *kept.text == *text) {
            return Some(Value(kept));
        }
        let bytes = u32::try_from(text.len()).expect("a value was cut");
        let [of_face, own] = &self.left;
        let of_face = of_face.clone().try_acquire_many_owned(bytes).ok()?;
        let own = own.clone().try_acquire_many_owned(bytes).ok()?;
        let kept = Arc::new(Kept { text: text.into(), _permits: Some([of_face, own]) });
        recent.truncate(RECENT_MAX - 1);
        recent.push_front(Arc::downgrade(&kept));
        Some(Value(kept))
    }
}

impl Metadata {
    /// Checks that the value of every binary key can be decoded, and keeps those of `keys`.
    ///
    /// # Errors
    /// A value cannot be decoded, with grpc-go's status; or too many bytes are kept.
    pub(super) fn of(
        headers: &HeaderMap,
        (keys, prefix): (&'static [&'static str], &'static str),
        kept: &KeptValues,
    ) -> Result<Metadata, Status> {
        for (key, value) in headers {
            if !key.as_str().ends_with(BINARY_SUFFIX) {
                continue;
            }
            for part in parts(value) {
                if let Err(error) = BASE64.decode(part) {
                    return Err(malformed(key.as_str(), value, &error));
                }
            }
        }
        let first = |key: &'static str| {
            let text = headers.get_all(key).iter().find_map(|value| value.to_str().ok())?;
            let text = text.strip_prefix(prefix).unwrap_or(text);
            // A copy: what the library gives keeps other headers in memory.
            Some(kept.keep(text).map(|value| (key, value)).ok_or_else(too_many))
        };
        keys.iter().filter_map(|key| first(key)).collect::<Result<_, _>>().map(Metadata)
    }

    /// The first value of a key that is text.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(of, _)| *of == key).map(|(_, value)| value)
    }

    /// Its text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key).map(|value| &**value.text())
    }
}

fn too_many() -> Status {
    Status::new(Code::ResourceExhausted, "too many large headers are kept")
}

/// The status that grpc-go answers to a binary value that is not base64.
fn malformed(key: &str, value: &HeaderValue, error: &DecodeError) -> Status {
    let value = String::from_utf8_lossy(value.as_bytes());
    let at = match error {
        DecodeError::InvalidByte(at, _) => *at,
        _ => value.len(),
    };
    let text = format!(
        "malformed binary metadata {value:?} in header {key:?}: \
         illegal base64 data at input byte {at}"
    );
    Status::new(Code::Internal, text)
}

/// The values that one header holds: the protocol lets binary values be joined with commas.
fn parts(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
