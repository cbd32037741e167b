//! Refuses ACLs whose `auth` entries would expand to too much, before they reach the log.
//!
//! Apply replaces each `auth` entry of an ACL by all identities that the connection has proved. So
//! a request of 1 MiB could become an ACL of 1 GiB on every member, and one that no snapshot can
//! hold. The Front knows the identities and the entries, and so an upper bound of the expanded
//! size.

use machine::limits::ACL_ENTRIES_MAX;
use machine::zk::command::AskedAcl;
use machine::{AclEntry, Command, Op, ZkCommand};

use crate::fronts::zk::limits::ACL_AUTH_BYTES_MAX;
use crate::identities::OwnedIdentity;

/// Bytes of an ACL entry in a snapshot, in addition to its scheme and its id.
const ENTRY_BYTES: usize = 12;

/// Empties each ACL of the command that would expand to more entries than an ACL may have, or to
/// more bytes than a request may have. Apply refuses an empty ACL (`InvalidACL`), in a multi at the
/// place of its operation.
pub(super) fn empty_expanded_acls(command: &mut Command<'_>, identities: &[OwnedIdentity]) {
    let ops = match command {
        Command::Zk(ZkCommand::Write { op, .. }) => std::slice::from_mut(op),
        Command::Zk(ZkCommand::Multi { ops, .. }) => &mut ops[..],
        _ => return,
    };
    let mut expansion = None;
    for op in ops {
        let (Op::Create { acl, .. } | Op::SetAcl { acl, .. }) = op else { continue };
        let AskedAcl::Entries(entries) = acl else { continue };
        let auth_count = entries.iter().filter(|entry| &*entry.scheme == "auth").count();
        if auth_count == 0 {
            continue;
        }
        let expansion = expansion.get_or_insert_with(|| Expansion::of(identities));
        if !expansion.takes(entries, auth_count) {
            entries.clear();
        }
    }
}

/// The size of one `auth` entry after its expansion on this connection, and the bytes that the rest
/// of the request may still expand to.
struct Expansion {
    identity_count: usize,
    identity_bytes: usize,
    bytes_left: usize,
}

impl Expansion {
    fn of(identities: &[OwnedIdentity]) -> Expansion {
        // Nobody can prove an address (`resolve`), so `auth` does not expand to it.
        let proved = || identities.iter().filter(|identity| &*identity.scheme != "ip");
        let bytes = |it: &OwnedIdentity| ENTRY_BYTES + it.scheme.len() + it.id.len();
        Expansion {
            identity_count: proved().count(),
            identity_bytes: proved().map(bytes).sum(),
            bytes_left: ACL_AUTH_BYTES_MAX,
        }
    }

    /// Subtracts the expanded bytes of an ACL with `auth_count` `auth` entries from `bytes_left`.
    /// Returns false, and subtracts nothing, if the ACL is too large.
    fn takes(&mut self, entries: &[AclEntry], auth_count: usize) -> bool {
        let count = entries.len() - auth_count + auth_count.saturating_mul(self.identity_count);
        let bytes = auth_count.saturating_mul(self.identity_bytes);
        let fits = count <= ACL_ENTRIES_MAX && bytes <= self.bytes_left;
        if fits {
            self.bytes_left -= bytes;
        }
        fits
    }
}
