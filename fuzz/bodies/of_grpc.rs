//! The body for compressed gRPC messages.

const MESSAGE_BYTES_MAX: usize = 100_000;

/// A message compressed with gzip. Decompressed, it must not exceed the limit.
pub fn gzip_message(bytes: &[u8]) {
    if let Ok(message) = grpc::decompressed(bytes, MESSAGE_BYTES_MAX) {
        assert!(message.len() <= MESSAGE_BYTES_MAX);
    }
}

pub fn gzip_message_seeds() -> Vec<Vec<u8>> {
    // Output of `printf 'a message' | gzip -9n`, the same with a file name, and both concatenated.
    let deflated = [0x4b, 0x54, 0xc8, 0x4d, 0x2d, 0x2e, 0x4e, 0x4c, 0x4f, 0x05, 0x00];
    let trailer = [0x1e, 0x0c, 0xb6, 0x7f, 0x09, 0x00, 0x00, 0x00];
    let plain = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3][..], &deflated, &trailer].concat();
    let head = [0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 2, 3, b'n', 0];
    let named = [&head[..], &deflated, &trailer].concat();
    vec![[&plain[..], &named].concat(), plain, named]
}
