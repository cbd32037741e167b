//! Encodes the records in the buckets of etcd's database (`server/storage/schema`). Numbers in keys
//! are big-endian.

use bytes::Bytes;
use machine::LeaseId;
use machine::etcd::alarm::Alarm;
use machine::etcd::auth::{Auth, User};
use machine::etcd::event::Event;
use prost::Message;

use super::{Applied, STORAGE_VERSION};
use crate::convert::{alarm_member, permission_message};
use crate::pb::{authpb, leasepb, mvccpb};

/// The names of the buckets. `key` has each version of a key under its revision; `alarm` has
/// alarms, each a message that is its own key; `lease` has leases by id; `authUsers` and
/// `authRoles` have users and roles by name; `auth` and `meta` have facts about the whole database.
pub(super) const KEY: &str = "key";
pub(super) const ALARM: &str = "alarm";
pub(super) const LEASE: &str = "lease";
pub(super) const USERS: &str = "authUsers";
pub(super) const ROLES: &str = "authRoles";
pub(super) const AUTH: &str = "auth";
pub(super) const META: &str = "meta";

/// Keys of the records in the bucket `auth`.
pub(super) const AUTH_ENABLED: &str = "authEnabled";
pub(super) const AUTH_REVISION: &str = "authRevision";

/// Keys of the records in the bucket `meta`. etcd records a compaction as scheduled first, and as
/// finished once all that it hides is removed.
pub(super) const COMPACTED: [&str; 2] = ["finishedCompactRev", "scheduledCompactRev"];
pub(super) const INDEX: &str = "consistent_index";
pub(super) const STORAGE_VERSION_KEY: &str = "storageVersion";

/// The mark of a removal: the last byte, behind the revision, of its record's key in the bucket
/// `key`.
pub(super) const REMOVAL: u8 = b't';

/// Buckets about members. They stay empty here: a restore fills them for the new cluster.
const OF_MEMBERS: [&str; 3] = ["cluster", "members", "members_removed"];

/// A record: key and value.
pub(super) type Record = (Vec<u8>, Vec<u8>);

/// The key of a version in the bucket `key` (`mvcc.RevToBytes`, `NewTombstone`): its revision, its
/// number within the revision, and a mark if it is a removal.
pub(super) fn revision_key(event: &Event) -> Vec<u8> {
    let place = event.place();
    let mut key = revision_bytes(place.revision, u64::from(place.sub));
    if event.is_delete() {
        key.push(REMOVAL);
    }
    key
}

fn revision_bytes(revision: i64, sub: u64) -> Vec<u8> {
    [&revision.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat()
}

/// The value of a version's record in the bucket `key`: an encoded `KeyValue`. The `KeyValue` of a
/// removal has only the key.
pub(super) fn version(event: &Event) -> Vec<u8> {
    let key = Bytes::copy_from_slice(event.key());
    if event.is_delete() {
        return mvccpb::KeyValue { key, ..Default::default() }.encode_to_vec();
    }
    let numbers = event.numbers();
    mvccpb::KeyValue {
        key,
        create_revision: numbers.create_revision,
        mod_revision: event.revision(),
        version: numbers.version,
        value: Bytes::copy_from_slice(event.value()),
        lease: numbers.lease,
    }
    .encode_to_vec()
}

/// The records of all buckets but `key`. They fit into memory.
#[derive(Default)]
pub(super) struct Small {
    auth: Vec<Record>,
    users: Vec<Record>,
    roles: Vec<Record>,
    alarms: Vec<Record>,
    leases: Vec<Record>,
}

impl Small {
    pub fn add_auth(&mut self, auth: &Auth) {
        self.auth = vec![
            (AUTH_ENABLED.into(), vec![u8::from(auth.is_enabled())]),
            (AUTH_REVISION.into(), auth.revision().to_be_bytes().to_vec()),
        ];
        let user = |(name, user)| (Vec::from(str::as_bytes(name)), user_bytes(name, user));
        self.users = auth.users().map(user).collect();
        let role = |(name, role): (&str, &machine::etcd::auth::Role)| {
            let key_permission = role.permissions().map(permission_message).collect();
            let role =
                authpb::Role { name: Bytes::copy_from_slice(name.as_bytes()), key_permission };
            (name.as_bytes().to_vec(), role.encode_to_vec())
        };
        self.roles = auth.roles().map(role).collect();
    }

    pub fn add_alarm(&mut self, alarm: Alarm) {
        self.alarms.push((alarm_member(alarm).encode_to_vec(), Vec::new()));
    }

    pub fn add_lease(&mut self, lease: LeaseId, ttl_s: i64) {
        let message = leasepb::Lease { id: lease.0, ttl: ttl_s, remaining_ttl: 0 };
        self.leases.push((lease.0.to_be_bytes().to_vec(), message.encode_to_vec()));
    }

    /// Each bucket with its records, sorted by key.
    pub fn buckets(
        self,
        applied: Applied,
        compacted: Option<i64>,
    ) -> Vec<(&'static str, Vec<Record>)> {
        let Small { auth, users, roles, mut alarms, mut leases } = self;
        alarms.sort();
        leases.sort();
        let mut buckets = vec![
            (ALARM, alarms),
            (AUTH, auth),
            (ROLES, roles),
            (USERS, users),
            (LEASE, leases),
            (META, meta(applied, compacted)),
        ];
        buckets.extend(OF_MEMBERS.map(|name| (name, Vec::new())));
        buckets
    }
}

fn user_bytes(name: &str, user: &User) -> Vec<u8> {
    authpb::User {
        name: Bytes::copy_from_slice(name.as_bytes()),
        password: user.password.as_deref().map(Bytes::copy_from_slice).unwrap_or_default(),
        roles: user.roles.iter().map(|role| role.to_string()).collect(),
        options: Some(authpb::UserAddOptions { no_password: user.password.is_none() }),
    }
    .encode_to_vec()
}

/// The records of the bucket `meta`: the last log entry in the backup, and the compacted revision.
fn meta(applied: Applied, compacted: Option<i64>) -> Vec<Record> {
    let mut meta = vec![
        (INDEX.into(), applied.index.to_be_bytes().to_vec()),
        (STORAGE_VERSION_KEY.into(), STORAGE_VERSION.as_bytes().to_vec()),
        (b"term".to_vec(), applied.term.to_be_bytes().to_vec()),
    ];
    // -1 means that nothing was ever compacted.
    if let Some(compacted) = compacted.filter(|compacted| *compacted >= 0) {
        for name in COMPACTED {
            meta.push((name.into(), revision_bytes(compacted, 0)));
        }
    }
    meta.sort();
    meta
}
