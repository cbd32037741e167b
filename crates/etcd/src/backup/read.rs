//! Turns the buckets of an etcd database into a state that an ensemble can begin with. It does what
//! etcd's server does when it starts on its own database (`mvcc.store.restore`, `lease.lessor`,
//! `auth.authStore`).

use std::io::{self, Read, Seek};

use machine::etcd::alarm::Alarm;
use machine::etcd::auth::{Auth, Permission, Role, User, is_valid};
use machine::etcd::event::{Event, Place, Version};
use machine::etcd::import::{Import, ImportError, MissingLease};
use machine::limits::RESTORED_NUMBER_MAX;
use machine::{LeaseId, LogIndex, Machine};
use prost::Message;
use thiserror::Error;

use super::bolt_reader::BoltReader;
use super::buckets::{
    ALARM, AUTH, AUTH_ENABLED, AUTH_REVISION, COMPACTED, INDEX, KEY, LEASE, META, REMOVAL, ROLES,
    STORAGE_VERSION_KEY, USERS,
};
use crate::convert::{alarm_kind, permission};
use crate::pb::{authpb, etcdserverpb as pb, leasepb, mvccpb};

/// Why a database cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file is damaged, or is no database of etcd's.
    #[error("{0}")]
    Damaged(String),
    /// The database has something that the state machine does not allow.
    #[error(transparent)]
    Refused(#[from] ImportError),
}

/// The versions of the storage format that can be read, as prefixes. A file that states no version
/// can be read too: etcd writes the version only since 3.6.
const KNOWN_VERSIONS: [&str; 3] = ["3.5.", "3.6.", "3.7."];

/// The result of reading a backup.
#[derive(Debug)]
pub struct Imported {
    /// The state that an ensemble can begin with.
    pub machine: Machine,
    /// Differences between the file and the state, for a person to read, one line each.
    pub differences: Vec<String>,
}

/// Reads the database in the first `bytes` of a file: keys with their history, leases, users,
/// roles and alarms. The cluster's members are not in the state.
///
/// A key may name a lease that does not exist. etcd serves such a key, and it never expires. Here
/// the key is kept without a lease, and `differences` says so.
///
/// # Errors
/// The file cannot be read, is damaged, or has something that the state machine does not allow.
pub fn read(file: impl Read + Seek, bytes: u64) -> Result<Imported, ReadError> {
    let mut database = BoltReader::open(file, bytes)?;
    let About { index, compacted } = about(&mut database)?;
    let mut differences = Vec::new();
    let auth = auth(&mut database, &mut differences)?;
    let mut import = |detached: &[MissingLease]| {
        let mut import = Import::new(compacted)?;
        import.detach(detached.iter().map(|missing| missing.place));
        import.set_auth(auth.clone());
        fill(&mut database, &mut import)?;
        Ok::<_, ReadError>(import.finish(index))
    };
    let machine = match import(&[])? {
        Ok(machine) => machine,
        Err(missing) => {
            differences.extend(missing.iter().map(|MissingLease { key, lease, .. }| {
                let key = key.escape_ascii();
                format!("the key \"{key}\" has no lease: lease {lease:x} does not exist")
            }));
            import(&missing)?.expect("the versions with missing leases have lost them")
        }
    };
    Ok(Imported { machine, differences })
}

/// Adds alarms, leases and versions of keys to `import`.
fn fill<F: Read + Seek>(
    database: &mut BoltReader<F>,
    import: &mut Import,
) -> Result<(), ReadError> {
    database.for_each(ALARM, |key, _| {
        let alarm = message::<pb::AlarmMember>(ALARM, key)?;
        let kind = alarm_kind(alarm.alarm).ok_or_else(|| wrong(ALARM, key))?;
        Ok(import.add_alarm(Alarm { kind, member: alarm.member_id })?)
    })?;
    database.for_each(LEASE, |key, value| {
        let lease = message::<leasepb::Lease>(LEASE, value)?;
        ensure(key == lease.id.to_be_bytes(), LEASE, key)?;
        Ok(import.add_lease(LeaseId(lease.id), lease.ttl)?)
    })?;
    database.for_each(KEY, |key, value| {
        let (place, is_removal) = place_of(key).ok_or_else(|| wrong(KEY, key))?;
        if value.is_empty() {
            // `etcdutl snapshot restore --bump-revision` leaves a record without a value, only to
            // raise the revision.
            return Ok(import.move_to(place)?);
        }
        let version = message::<mvccpb::KeyValue>(KEY, value)?;
        let event = event(place, is_removal, &version).ok_or_else(|| wrong(KEY, key))?;
        Ok(import.push(event)?)
    })
}

/// Facts about the whole database, from the bucket `meta`.
#[derive(Default)]
struct About {
    /// The index of the last log entry whose effects are in the database.
    index: LogIndex,
    /// The compacted revision; `None` if nothing was compacted. A compaction counts once it is
    /// scheduled, even if it has not removed everything yet.
    compacted: Option<i64>,
}

fn about<F: Read + Seek>(database: &mut BoltReader<F>) -> Result<About, ReadError> {
    let mut about = About::default();
    database.for_each(META, |key, value| {
        if COMPACTED.iter().any(|name| name.as_bytes() == key) {
            let (place, _) = place_of(value).ok_or_else(|| wrong(META, key))?;
            about.compacted = about.compacted.max(Some(place.revision));
        } else if key == INDEX.as_bytes() {
            about.index = LogIndex(number(META, key, value)?);
        } else if key == STORAGE_VERSION_KEY.as_bytes() {
            let is_known = |known: &str| value.starts_with(known.as_bytes());
            if !KNOWN_VERSIONS.into_iter().any(is_known) {
                let version = value.escape_ascii();
                return Err(ReadError::Damaged(format!("its format {version} is not known here")));
            }
        }
        Ok(())
    })?;
    Ok(about)
}

/// Reads users and roles. Permissions with a range that can hold no key are left out and named in
/// `differences`: old versions of etcd accepted them, and they grant nothing there either
/// (`auth.getMergedPerms`).
fn auth<F: Read + Seek>(
    database: &mut BoltReader<F>,
    differences: &mut Vec<String>,
) -> Result<Auth, ReadError> {
    let (mut is_enabled, mut revision) = (false, 0);
    database.for_each(AUTH, |key, value| {
        if key == AUTH_ENABLED.as_bytes() {
            is_enabled = value == [1];
        } else if key == AUTH_REVISION.as_bytes() {
            revision = number(AUTH, key, value)?;
            ensure(revision <= RESTORED_NUMBER_MAX, AUTH, key)?;
        }
        Ok(())
    })?;
    let mut users = Vec::new();
    database.for_each(USERS, |key, value| {
        let user = message::<authpb::User>(USERS, value)?;
        let has_none = user.options.is_some_and(|options| options.no_password);
        let password = (!has_none).then(|| user.password[..].into());
        let roles = user.roles.iter().map(|role| role.as_str().into()).collect();
        users.push((name(USERS, key, &user.name)?, User { password, roles }));
        Ok(())
    })?;
    let mut roles = Vec::new();
    database.for_each(ROLES, |key, value| {
        let role = message::<authpb::Role>(ROLES, value)?;
        let name = name(ROLES, key, &role.name)?;
        let permissions: Result<Vec<_>, _> = role.key_permission.iter().map(permission).collect();
        let permissions = permissions.map_err(|_| wrong(ROLES, key))?;
        let (valid, others): (Vec<_>, Vec<_>) =
            permissions.into_iter().partition(|permission| is_valid(permission.range));
        differences.extend(others.iter().map(|Permission { range, .. }| {
            let (from, end) = (range.key.escape_ascii(), range.end.escape_ascii());
            format!(
                "the role {name} has no permission from \"{from}\" to \"{end}\": it is for no key"
            )
        }));
        roles.push((name, Role::of(valid).ok_or_else(|| wrong(ROLES, key))?));
        Ok(())
    })?;
    let auth = Auth::imported(is_enabled, revision, users, roles);
    auth.map_err(|_| ReadError::Damaged("users and roles are larger than a server keeps".into()))
}

/// The number that is the value of a record.
fn number(bucket: &str, key: &[u8], value: &[u8]) -> Result<u64, ReadError> {
    value.try_into().map(u64::from_be_bytes).map_err(|_| wrong(bucket, key))
}

/// The name in a record's value, which must equal the record's key.
fn name(bucket: &str, key: &[u8], name: &[u8]) -> Result<String, ReadError> {
    ensure(key == name && !name.is_empty(), bucket, key)?;
    String::from_utf8(name.to_vec()).map_err(|_| wrong(bucket, key))
}

/// The place of a version (its revision, and its number within the revision), and whether the
/// version is a removal, from a key of the bucket `key` (`mvcc.BytesToBucketKey`).
fn place_of(key: &[u8]) -> Option<(Place, bool)> {
    let (revision, rest) = key.split_first_chunk()?;
    let (sub, mark) = rest.strip_prefix(b"_")?.split_first_chunk()?;
    let (revision, sub) = (i64::from_be_bytes(*revision), u64::from_be_bytes(*sub));
    let is_removal = match mark {
        [] => false,
        [REMOVAL] => true,
        _ => return None,
    };
    Some((Place { revision, sub: u32::try_from(sub).ok()? }, is_removal))
}

fn event(place: Place, is_removal: bool, version: &mvccpb::KeyValue) -> Option<Event> {
    if version.key.is_empty() {
        return None;
    }
    if is_removal {
        return Some(Event::delete(place, &version.key));
    }
    let mvccpb::KeyValue { create_revision, version: number, lease, .. } = *version;
    // Each put of a key has another revision, so a version cannot be greater than the revisions
    // allow.
    let fits = version.mod_revision == place.revision
        && (1..=place.revision).contains(&create_revision)
        && (1..=place.revision - create_revision + 1).contains(&number);
    let numbers = Version { create_revision, version: number, lease };
    fits.then(|| Event::put(place, &version.key, numbers, &version.value))
}

fn message<M: Message + Default>(bucket: &str, bytes: &[u8]) -> Result<M, ReadError> {
    M::decode(bytes)
        .map_err(|error| ReadError::Damaged(format!("a record of the bucket {bucket}: {error}")))
}

fn ensure(is_right: bool, bucket: &str, key: &[u8]) -> Result<(), ReadError> {
    if is_right { Ok(()) } else { Err(wrong(bucket, key)) }
}

fn wrong(bucket: &str, key: &[u8]) -> ReadError {
    let key = key.escape_ascii();
    ReadError::Damaged(format!("the record \"{key}\" of the bucket {bucket} cannot be used"))
}

#[cfg(test)]
mod tests;
