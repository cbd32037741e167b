//! Translates a ZooKeeper request into the state machine's command or query.

use machine::zk::command::AskedAcl;
use machine::{AclEntry, Command, CreateMode, Op, Query, QueryKind, SessionId, ZkCommand};

use crate::path;
use crate::request::{CreateKind, ReadKind, ReadRequest, WriteRequest};

/// The command for a single write.
pub fn write_command<'a>(session: SessionId, write: &WriteRequest<'a>) -> Command<'a> {
    Command::Zk(ZkCommand::Write { session, op: op(write) })
}

/// The command for a multi.
pub fn multi_command<'a>(session: SessionId, writes: &[WriteRequest<'a>]) -> Command<'a> {
    Command::Zk(ZkCommand::Multi { session, ops: writes.iter().map(op).collect() })
}

/// The command for a request that the server refuses, but that consumes a zxid like a write: a
/// multi that does not decode, or a reconfig (`PrepRequestProcessor.pRequestHelper`).
pub fn refused_command(session: SessionId) -> Command<'static> {
    Command::Zk(ZkCommand::Write { session, op: Op::Malformed })
}

/// The machine's operation for one write. Checks the syntax of the path and notes the result in the
/// operation, so that the machine refuses a malformed path.
fn op<'a>(write: &WriteRequest<'a>) -> Op<'a> {
    match write {
        WriteRequest::Create { kind, path, data, acl, flags, ttl_ms } => {
            let Some(mode) = create_mode(*kind, *flags) else { return Op::Malformed };
            let valid = match mode.is_sequential() {
                true => path::is_valid_with_suffix(path),
                false => path::is_valid(path),
            };
            let (malformed, acl) = (!valid, asked_acl(acl));
            Op::Create { path, malformed, data: *data, acl, mode, ttl_ms: *ttl_ms }
        }
        WriteRequest::Delete { path, version } => Op::Delete { path, version: *version },
        WriteRequest::SetData { path, data, version } => {
            let malformed = !path::is_valid(path);
            Op::SetData { path, malformed, data: *data, version: *version }
        }
        WriteRequest::SetAcl { path, acl, version } => {
            let malformed = !path::is_valid(path);
            Op::SetAcl { path, malformed, acl: asked_acl(acl), version: *version }
        }
        WriteRequest::Check { path, version } => {
            Op::Check { path, malformed: !path::is_valid(path), version: *version }
        }
    }
}

/// The mode of the znode that a create makes; `None` if the flag is unknown or ZooKeeper refuses it
/// with this opcode. Only the opcode `createContainer` makes a container, and only `createTTL` a
/// znode with a time to live (`PrepRequestProcessor.pRequest2TxnCreate` logs one transaction per
/// opcode). So a plain create with the container's flag makes a persistent znode, and
/// `createContainer` with the flag of another mode makes a container; it takes from the flag only
/// whether the name is sequential. A `createTTL` with the flag of a mode without a time to live is
/// refused; ZooKeeper refuses it too, or fails.
fn create_mode(kind: CreateKind, flags: i32) -> Option<CreateMode> {
    let mode = CreateMode::from_flag(flags)?;
    match kind {
        CreateKind::Create | CreateKind::Create2 => match mode {
            CreateMode::Container => Some(CreateMode::Persistent),
            mode => Some(mode),
        },
        // Apply refuses this command, because of the setting or the missing time to live.
        CreateKind::Container if mode.is_ttl() => Some(mode),
        CreateKind::Container if mode.is_sequential() => Some(CreateMode::ContainerSequential),
        CreateKind::Container => Some(CreateMode::Container),
        CreateKind::Ttl => Some(mode).filter(|mode| mode.is_ttl()),
    }
}

fn asked_acl(acl: &[AclEntry]) -> AskedAcl {
    match acl {
        [only]
            if only.perms == machine::zk::acl::perms::ALL
                && &*only.scheme == "world"
                && &*only.id == "anyone" =>
        {
            AskedAcl::Open
        }
        _ => AskedAcl::Entries(acl.to_vec()),
    }
}

/// The query for a read.
pub fn query<'a>(read: &ReadRequest<'a>) -> Query<'a> {
    let kind = match read.kind {
        ReadKind::Exists => QueryKind::Exists,
        ReadKind::GetData => QueryKind::Data,
        ReadKind::GetChildren | ReadKind::GetChildren2 => QueryKind::Children,
        ReadKind::GetAcl => QueryKind::Acl,
    };
    Query { kind, path: read.path }
}

/// A getEphemerals returns only paths that begin with this prefix. It is empty, so that every path
/// matches, if the request's prefix is null, blank or the root (`FinalRequestProcessor`; Java's
/// `trim` removes every character up to the space).
pub fn ephemerals_prefix(asked: Option<&str>) -> &str {
    let asked = asked.unwrap_or_default();
    match asked.trim_matches(|character| character <= ' ') {
        "" | "/" => "",
        _ => asked,
    }
}

#[cfg(test)]
mod tests;
