//! The first packet of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zk::ConnectRequest;

fuzz_target!(|body: &[u8]| {
    let Ok(request) = ConnectRequest::decode(body) else { return };
    let mut encoded = Vec::new();
    request.encode(&mut encoded);
    assert_eq!(ConnectRequest::decode(&encoded[4..]), Ok(request));
});
