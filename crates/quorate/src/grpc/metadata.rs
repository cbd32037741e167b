//! The metadata of a call: headers chosen by its client.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine};
use hyper::header::{HeaderMap, HeaderValue};

use super::status::{Code, Status};

/// The suffix of keys whose values may be any bytes, in base64 on the wire.
const BINARY_SUFFIX: &str = "-bin";

/// Base64 as grpc-go reads it: padded or not, with any bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Values of a request that are kept at most, and bytes of one; the rest is dropped. No token has
/// as many.
const VALUES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// The headers of a request that handlers read. The values of binary keys are well-formed, unless
/// they were cut.
#[derive(Clone, Debug, Default)]
pub struct Metadata(Vec<(&'static str, HeaderValue)>);

impl Metadata {
    /// Checks that the value of every binary key can be decoded, and keeps those of `keys`.
    ///
    /// # Errors
    /// A value cannot be decoded; the status is grpc-go's.
    pub(super) fn of(
        headers: &HeaderMap,
        keys: &'static [&'static str],
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
        let of_key = |key: &'static str| headers.get_all(key).iter().map(move |value| (key, value));
        let kept = keys.iter().flat_map(|key| of_key(key)).take(VALUES_MAX);
        // A copy: what the library gives keeps other headers in memory.
        let copied = kept.filter_map(|(key, value)| {
            let bytes = &value.as_bytes()[..value.len().min(VALUE_BYTES_MAX)];
            Some((key, HeaderValue::from_bytes(bytes).ok()?))
        });
        Ok(Metadata(copied.collect()))
    }

    fn values(&self, key: &str) -> impl Iterator<Item = &HeaderValue> {
        self.0.iter().filter(move |(of, _)| *of == key).map(|(_, value)| value)
    }

    /// The first value of a key, if it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.texts(key).next()
    }

    /// All values of a key that are text, in the order in which they came.
    pub fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.values(key).filter_map(|value| value.to_str().ok())
    }

    /// All values of a binary key, decoded, in the order in which they came.
    pub fn binaries(&self, key: &str) -> impl Iterator<Item = Vec<u8>> {
        assert!(key.ends_with(BINARY_SUFFIX), "{key} is not a binary key");
        // A value that was cut may be malformed at its end.
        self.values(key).flat_map(parts).filter_map(|part| BASE64.decode(part).ok())
    }
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
