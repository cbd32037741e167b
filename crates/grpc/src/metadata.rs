//! Keeps the metadata of a call: the headers that a client adds to its call, if a handler of the
//! face reads them. Calls may be open for long, so the bytes of large values are limited: for each
//! connection, and for all connections of the face.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use grpc_code::Code;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::status::Status;

/// The suffix of keys whose values are arbitrary bytes, in base64 on the wire.
const BINARY_SUFFIX: &str = "-bin";

/// Base64 as grpc-go accepts it: padded or not, with any bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The most bytes of a value that are kept; the rest is dropped. No token is as long.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// A value longer than this is large: it counts against the limits below, and calls share its
/// memory if their connection sent the same value recently.
const SMALL_BYTES: usize = 256;

/// The most bytes of large values that all connections of a face keep.
pub const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes of large values that one connection keeps.
const CONNECTION_BYTES_MAX: usize = KEPT_BYTES_MAX / 16;

/// How many recent large values of a connection a new one is compared with. HPACK's table has 4
/// KiB, so a client can repeat no more large values than these by a reference of a few bytes.
const RECENT_MAX: usize = 16;

/// The headers that handlers read: for each key the first value that is text.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Vec<(&'static str, Value)>);

/// The value of a header. Clones share its bytes.
#[derive(Clone, Debug)]
pub struct Value(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    text: Arc<str>,
    /// The permits for the bytes of a large value, from the limit of the face and from that of the
    /// connection; `None` for a small value.
    _permits: Option<[OwnedSemaphorePermit; 2]>,
}

/// The large values that the calls of one connection keep.
#[derive(Debug)]
pub struct KeptValues {
    /// The bytes that may still be kept: for the whole face, and for this connection.
    left: [Arc<Semaphore>; 2],
    recent: Mutex<VecDeque<Weak<Kept>>>,
}

impl Value {
    /// The text. A caller that keeps a clone must also keep the value, so that its bytes stay
    /// counted.
    pub fn text(&self) -> &Arc<str> {
        &self.0.text
    }
}

impl KeptValues {
    /// No values, for a new connection. `of_face` counts the bytes left for the whole face.
    pub fn new(of_face: &Arc<Semaphore>) -> KeptValues {
        let left = [of_face.clone(), Arc::new(Semaphore::new(CONNECTION_BYTES_MAX))];
        KeptValues { left, recent: Mutex::default() }
    }

    /// Keeps a value, or shares an equal one that is kept. `None` if the limits are reached.
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
    /// Checks that the values of all binary keys can be decoded, and keeps the values of `keys`.
    ///
    /// # Errors
    /// A value cannot be decoded; the status is grpc-go's. Or too many bytes are kept.
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
            // The text is copied, because the library's value would keep other headers in memory.
            Some(kept.keep(text).map(|value| (key, value)).ok_or_else(too_many))
        };
        keys.iter().filter_map(|key| first(key)).collect::<Result<_, _>>().map(Metadata)
    }

    /// The first value of a key that is text; `None` if the face does not read the key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(of, _)| *of == key).map(|(_, value)| value)
    }

    /// The text of [`Metadata::value`].
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key).map(|value| &**value.text())
    }
}

fn too_many() -> Status {
    Status::new(Code::ResourceExhausted, "too many large headers are kept")
}

/// grpc-go's status for a binary value that is not base64.
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

/// The values in one header. Binary values may be joined with commas.
fn parts(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
