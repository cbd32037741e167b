//! A request as a client may send it: header and body. What is served is read back as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zk::{JuteReader, Request, RequestHeader};

fuzz_target!(|frame: &[u8]| {
    let Some(request) = decode(frame) else { return };
    if matches!(request, Request::Unserved | Request::Unknown) {
        return;
    }
    let mut encoded = Vec::new();
    request.encode(1, &mut encoded);
    assert_eq!(decode(&encoded[4..]), Some(request));
});

fn decode(frame: &[u8]) -> Option<Request<'_>> {
    let mut reader = JuteReader::new(frame);
    let header = RequestHeader::decode(&mut reader).ok()?;
    Request::decode(header.opcode, &mut reader).ok()
}
