//! The parts of etcd's state that `quorate inspect --etcd` prints: one line each, with neither
//! values nor passwords. What is not printable ASCII is escaped, as in a byte string of Rust.

use std::io::{self, Write};

use machine::etcd::Store;
use machine::etcd::auth::{Permission, PermissionKind};
use machine::etcd::command::KeyRange;

use crate::cli::EtcdPart;

/// Every key.
const ALL: KeyRange<'static> = KeyRange { key: b"\0", end: b"\0" };

/// Prints a summary and these parts.
pub fn print(store: &Store, parts: &[EtcdPart], out: &mut impl Write) -> io::Result<()> {
    let auth = store.auth();
    let enforced = if auth.is_enabled() { "enforced" } else { "not enforced" };
    writeln!(
        out,
        "etcd: revision {}, compacted {}, {} keys, {} leases, {} users, {} roles, permissions are \
         {enforced}",
        store.revision(),
        store.compacted().max(0),
        store.key_count(),
        store.leases().len(),
        auth.users().len(),
        auth.roles().len(),
    )?;
    for part in parts {
        match part {
            EtcdPart::Keys => print_keys(store, out)?,
            EtcdPart::Leases => print_leases(store, out)?,
            EtcdPart::Users => print_users(store, out)?,
        }
    }
    Ok(())
}

fn print_keys(store: &Store, out: &mut impl Write) -> io::Result<()> {
    let mut written = Ok(());
    let walked = store.walk_range(ALL, store.revision(), |event| {
        let numbers = event.numbers();
        written = write!(
            out,
            "key {} created {} modified {} version {} value {} bytes",
            event.key().escape_ascii(),
            numbers.create_revision,
            event.revision(),
            numbers.version,
            event.value().len()
        );
        if written.is_ok() && numbers.lease != 0 {
            written = write!(out, " lease {:x}", numbers.lease);
        }
        written = std::mem::replace(&mut written, Ok(())).and_then(|()| writeln!(out));
        written.is_ok()
    });
    walked.expect("the present revision can be read");
    written
}

fn print_leases(store: &Store, out: &mut impl Write) -> io::Result<()> {
    for (id, lease) in store.leases().iter() {
        write!(out, "lease {:x} ttl {} s keys", id.0, lease.grant().ttl_s)?;
        for key in lease.keys() {
            write!(out, " {}", key.escape_ascii())?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn print_users(store: &Store, out: &mut impl Write) -> io::Result<()> {
    for (name, user) in store.auth().users() {
        let password = if user.password.is_some() { "password" } else { "no password" };
        write!(out, "user {} {password} roles", name.as_bytes().escape_ascii())?;
        for role in &user.roles {
            write!(out, " {}", role.as_bytes().escape_ascii())?;
        }
        writeln!(out)?;
    }
    for (name, role) in store.auth().roles() {
        write!(out, "role {}", name.as_bytes().escape_ascii())?;
        for permission in role.permissions() {
            write_permission(permission, out)?;
        }
        writeln!(out)?;
    }
    for alarm in store.alarms().iter() {
        writeln!(out, "alarm {} member {:x}", alarm.kind.name(), alarm.member)?;
    }
    Ok(())
}

/// A permission: for one key, from a key on, or for a range without its end.
fn write_permission(permission: Permission<'_>, out: &mut impl Write) -> io::Result<()> {
    let kind = match permission.kind {
        PermissionKind::Read => "read",
        PermissionKind::Write => "write",
        PermissionKind::ReadWrite => "readwrite",
    };
    let KeyRange { key, end } = permission.range;
    let key = key.escape_ascii();
    match end {
        b"" => write!(out, " {kind} {key}"),
        b"\0" => write!(out, " {kind} [{key}, all behind"),
        end => write!(out, " {kind} [{key}, {})", end.escape_ascii()),
    }
}
