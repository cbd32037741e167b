//! Prints the output of `quorate inspect --etcd`: etcd's keys, leases, users or v2 nodes, a line
//! for each, with neither values nor passwords. Bytes that are not printable ASCII are escaped as
//! in a Rust byte string.

use std::io::{self, Write};

use machine::Machine;
use machine::etcd::Store;
use machine::etcd::auth::{Permission, PermissionKind};
use machine::etcd::command::KeyRange;
use machine::etcd_v2::Store as V2Store;
use machine::etcd_v2::auth::Auth as V2Auth;
use machine::etcd_v2::tree::Node;

use crate::cli::EtcdPart;

/// The range of all keys.
const ALL: KeyRange<'static> = KeyRange { key: b"\0", end: b"\0" };

/// Prints a summary of etcd's state, and the chosen parts of it.
pub fn print(machine: &Machine, parts: &[EtcdPart], out: &mut impl Write) -> io::Result<()> {
    let store = machine.etcd();
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
            EtcdPart::V2 => print_v2(machine.etcd_v2(), out)?,
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

/// Prints the nodes and users of etcd v2; nothing if etcd v2 was never used.
fn print_v2(store: &V2Store, out: &mut impl Write) -> io::Result<()> {
    if store.is_unused() {
        return Ok(());
    }
    let (index, events) = (store.index(), store.history().len());
    let count = store.tree().sums().node_count;
    writeln!(out, "etcd v2: index {index}, {count} nodes, the last {events} events")?;
    print_v2_users(store.auth(), out)?;
    print_nodes(store.tree().root(), &mut String::new(), out)
}

/// Prints the users and roles of etcd v2; nothing if there are none.
fn print_v2_users(auth: &V2Auth, out: &mut impl Write) -> io::Result<()> {
    if auth.is_unused() {
        return Ok(());
    }
    let is_enforced = if auth.is_enabled() { "enforced" } else { "not enforced" };
    writeln!(out, "permissions are {is_enforced}")?;
    for (name, user) in auth.users() {
        write!(out, "user {}", name.as_bytes().escape_ascii())?;
        for role in &user.roles {
            write!(out, " {}", role.as_bytes().escape_ascii())?;
        }
        writeln!(out)?;
    }
    for (name, role) in auth.roles() {
        write!(out, "role {}", name.as_bytes().escape_ascii())?;
        for (kind, patterns) in [("read", &role.read), ("write", &role.write)] {
            for pattern in patterns {
                write!(out, " {kind} {}", pattern.as_bytes().escape_ascii())?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Prints all nodes below `node`. `key` is the key of `node`; it is the same again on return.
fn print_nodes(node: &Node, key: &mut String, out: &mut impl Write) -> io::Result<()> {
    for (name, child) in node.children() {
        let end = key.len();
        key.push('/');
        key.push_str(name);
        let stat = child.stat;
        let shown = key.as_bytes().escape_ascii();
        write!(out, "node {shown} created {} modified {}", stat.created, stat.modified)?;
        match child.value() {
            Some(value) => write!(out, " value {} bytes", value.len())?,
            None => write!(out, " directory")?,
        }
        if let Some(ttl) = stat.ttl {
            write!(out, " ttl {} s", ttl.ttl_s)?;
        }
        writeln!(out)?;
        print_nodes(child, key, out)?;
        key.truncate(end);
    }
    Ok(())
}

/// Prints a permission: for a single key, for all keys from one on, or for a range, whose end is
/// not included.
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
