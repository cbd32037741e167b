//! Bounds of members that come and go, and of what they say of themselves.

/// How long a command that registers a member, or forgets one, may take before it is handed over
/// again.
pub const REGISTERS_INTERVAL_MS: u64 = 1_000;

/// How often a level that clients need is asked for until the state has it: as often as a person
/// might try.
pub const RAISES_INTERVAL_MS: u64 = 1_000;

/// How long a majority of unborn servers waits for the others before it agrees on a birth without
/// them. A server with so many present ones before it, by number, waits as many times longer.
pub const ABSENT_PATIENCE_MS: u64 = 1_000;

/// How long a server that may propose a birth waits for servers whose links are gone: each is gone
/// for a moment when its server says something new of itself.
pub const PROPOSAL_PATIENCE_MS: u64 = 300;

/// How often an unborn server that takes part in an agreement looks at the clock.
pub const AGREEMENT_INTERVAL_MS: u64 = 100;

/// Servers that vote, as configured and as an ensemble begins. A configuration with more is
/// refused.
pub const VOTERS_MAX: usize = replica::limits::MEMBERS_MAX;

/// URLs for etcd's clients that a server tells the others. A configuration with more is refused.
pub const CLIENT_URLS_MAX: usize = 8;

/// Bytes of such a URL: a scheme, a DNS name and a port.
pub const CLIENT_URL_BYTES_MAX: usize = 300;

/// Bytes of a hello.
pub const HELLO_BYTES_MAX: usize =
    64 + 2 * 8 * VOTERS_MAX + CLIENT_URLS_MAX * (2 + CLIENT_URL_BYTES_MAX);
