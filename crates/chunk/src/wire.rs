//! Apache Ozone's datanode protocol. Source: Ozone 2.2.0, `DatanodeClientProtocol.proto`.

#[rustfmt::skip]
#[expect(
    clippy::len_without_is_empty,
    reason = "`len` is a field of a message, not of a collection"
)]
pub mod pb;
