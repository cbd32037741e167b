//! Bounds of changes of the membership, and of what a hello contains.

/// How long a command that registers or forgets a member may take before it is handed over again.
pub const REGISTERS_INTERVAL_MS: u64 = 1_000;

/// How long a leader that is to lose its vote tries to hand leadership over, before it ends a joint
/// membership itself and steps down.
pub const LEAVE_PATIENCE_MS: u64 = 2_000;

/// How long an accepted change of the list of servers may wait for its first change of the votes,
/// because too few of its voters are present. Then the leader gives it up.
pub const CHANGE_PATIENCE_MS: u64 = 60_000;

/// How often the leader is asked for a level that clients need, until the state has it: as often as
/// a person might try.
pub const RAISES_INTERVAL_MS: u64 = 1_000;

/// How soon a leader tries again to raise the level when it could not, because a server had no link
/// yet or the membership was being changed.
pub const REFUSED_RAISES_INTERVAL_MS: u64 = 20;

/// How long a majority of unborn servers waits for the others before it agrees on a birth without
/// them. The present server with the lowest number waits this long, the second one twice as long,
/// and so on.
pub const ABSENT_PATIENCE_MS: u64 = 1_000;

/// How long a server that may propose a birth waits for servers whose links are down: a server's
/// links go down for a moment whenever its hello changes.
pub const PROPOSAL_PATIENCE_MS: u64 = 300;

/// How often an unborn server that takes part in an agreement decides again what to do.
pub const AGREEMENT_INTERVAL_MS: u64 = 100;

/// Maximum number of servers that vote, in the configuration and in a birth. A configuration with
/// more is refused.
pub const VOTERS_MAX: usize = replica::limits::MEMBERS_MAX;

/// Maximum number of URLs for etcd's clients in a hello. A configuration with more is refused. The
/// maximum number of URLs for other servers is the same.
pub const CLIENT_URLS_MAX: usize = 8;

/// Maximum bytes of a URL in a hello: a scheme, a DNS name and a port.
pub const CLIENT_URL_BYTES_MAX: usize = 300;

/// Maximum bytes of a server's name in a hello: room for a DNS name, which etcd's names often are.
pub const NAME_BYTES_MAX: usize = 255;

/// Maximum bytes of a hello.
pub const HELLO_BYTES_MAX: usize =
    64 + 2 * 8 * VOTERS_MAX + 2 * CLIENT_URLS_MAX * (2 + CLIENT_URL_BYTES_MAX) + NAME_BYTES_MAX;
