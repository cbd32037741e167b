//! Encodes operations as requests, and decodes replies to answers.

use machine::AclEntry;
use workload::op::{Answer, CreateRequest, Op, Owner, Stat, USERS, Watching, error, perms};
use zk::jute::{JuteError, JuteReader};
use zk::request::{
    AddWatchMode, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest,
};
use zk::response::decode_stat;

// Encoding.

fn texts(paths: &[String]) -> Vec<&str> {
    paths.iter().map(String::as_str).collect()
}

fn watcher_type(which: Watching) -> WatcherType {
    match which {
        Watching::Children => WatcherType::Children,
        Watching::Data => WatcherType::Data,
        Watching::Persistent => WatcherType::Persistent,
        Watching::Recursive => WatcherType::PersistentRecursive,
        Watching::Any => WatcherType::Any,
    }
}

fn acl(perms: u32) -> Vec<AclEntry> {
    vec![AclEntry { perms, scheme: "world".into(), id: "anyone".into() }]
}

fn owned_acl(owner: Owner, others: u32) -> Vec<AclEntry> {
    let (scheme, id) = match owner {
        Owner::User(user) => ("digest", USERS[user].id),
        Owner::Asker => ("auth", ""),
    };
    let owner = AclEntry { perms: perms::ALL, scheme: scheme.into(), id: id.into() };
    [vec![owner], acl(others)].concat()
}

/// Appends the frame of a request to `out`.
pub fn encode(op: &Op, xid: i32, out: &mut Vec<u8>) {
    match op {
        Op::Multi(ops) => Request::Multi(ops.iter().filter_map(write).collect()).encode(xid, out),
        Op::MultiRead(ops) => {
            Request::MultiRead(ops.iter().filter_map(read).collect()).encode(xid, out);
        }
        Op::Sync { path } => Request::Sync { path: Some(path) }.encode(xid, out),
        Op::SetWatches { relative_zxid, data, exist, child } => {
            let request = SetWatchesRequest {
                relative_zxid: *relative_zxid,
                data: texts(data),
                exist: texts(exist),
                child: texts(child),
                null_behind: false,
            };
            Request::SetWatches(request).encode(xid, out);
        }
        Op::SetWatches2 { relative_zxid, data, exist, child, persistent, recursive } => {
            let watches = SetWatchesRequest {
                relative_zxid: *relative_zxid,
                data: texts(data),
                exist: texts(exist),
                child: texts(child),
                null_behind: false,
            };
            let (persistent, persistent_recursive) = (texts(persistent), texts(recursive));
            let request = SetWatches2Request { watches, persistent, persistent_recursive };
            Request::SetWatches2(request).encode(xid, out);
        }
        Op::AddWatch { path, is_recursive } => {
            let mode = match is_recursive {
                true => AddWatchMode::PersistentRecursive,
                false => AddWatchMode::Persistent,
            };
            Request::AddWatch { path, mode }.encode(xid, out);
        }
        Op::FindWatch { path, which, removes } => {
            let watcher_type = watcher_type(*which);
            match removes {
                true => Request::RemoveWatches { path, watcher_type }.encode(xid, out),
                false => Request::CheckWatches { path, watcher_type }.encode(xid, out),
            }
        }
        Op::Auth { user } => {
            let credentials = Some(USERS[*user].credentials.as_bytes());
            Request::Auth { scheme: "digest", credentials }.encode(xid, out);
        }
        Op::BadFrame { bytes, .. } | Op::Undecodable { bytes, .. } => out.extend_from_slice(bytes),
        Op::Ping => Request::Ping.encode(xid, out),
        Op::CloseSession => Request::CloseSession.encode(xid, out),
        op => match (write(op), read(op)) {
            (Some(write), _) => Request::Write(write).encode(xid, out),
            (None, Some(read)) => Request::Read(read).encode(xid, out),
            (None, None) => unreachable!("every operation is one or the other"),
        },
    }
}

fn write(op: &Op) -> Option<WriteRequest<'_>> {
    Some(match op {
        Op::Create { path, data, perms, flag, request } => {
            let (kind, ttl_ms) = match request {
                CreateRequest::Create => (CreateKind::Create, -1),
                CreateRequest::Create2 => (CreateKind::Create2, -1),
                CreateRequest::Container => (CreateKind::Container, -1),
                CreateRequest::Ttl { ttl_ms } => (CreateKind::Ttl, *ttl_ms),
            };
            let (data, acl, flags) = (data.as_deref(), acl(*perms), *flag);
            WriteRequest::Create { kind, path, data, acl, flags, ttl_ms }
        }
        Op::Delete { path, version } => WriteRequest::Delete { path, version: *version },
        Op::SetData { path, data, version } => {
            WriteRequest::SetData { path, data: data.as_deref(), version: *version }
        }
        Op::SetAcl { path, perms, version } => {
            WriteRequest::SetAcl { path, acl: acl(*perms), version: *version }
        }
        Op::CreateOwned { path, data, owner, others, flag } => WriteRequest::Create {
            kind: CreateKind::Create,
            path,
            data: data.as_deref(),
            acl: owned_acl(*owner, *others),
            flags: *flag,
            ttl_ms: -1,
        },
        Op::SetAclOwned { path, owner, others, version } => {
            let acl = owned_acl(*owner, *others);
            WriteRequest::SetAcl { path, acl, version: *version }
        }
        Op::Check { path, version } => WriteRequest::Check { path, version: *version },
        _ => return None,
    })
}

fn read(op: &Op) -> Option<ReadRequest<'_>> {
    Some(match op {
        Op::Exists { path, watch } => ReadRequest { kind: ReadKind::Exists, path, watch: *watch },
        Op::GetData { path, watch } => ReadRequest { kind: ReadKind::GetData, path, watch: *watch },
        Op::GetChildren { path, watch, with_stat } => ReadRequest {
            kind: if *with_stat { ReadKind::GetChildren2 } else { ReadKind::GetChildren },
            path,
            watch: *watch,
        },
        Op::GetAcl { path } => ReadRequest { kind: ReadKind::GetAcl, path, watch: false },
        _ => return None,
    })
}

// Decoding.

fn stat(reader: &mut JuteReader<'_>) -> Result<Stat, JuteError> {
    let stat = decode_stat(reader)?;
    Ok(Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_bytes: stat.data_bytes,
        child_count: stat.child_count,
        pzxid: stat.pzxid,
    })
}

fn names(reader: &mut JuteReader<'_>) -> Result<Vec<String>, JuteError> {
    let mut names: Vec<String> = reader.texts()?.into_iter().map(str::to_string).collect();
    names.sort();
    Ok(names)
}

/// Decodes the body of the reply to an operation.
///
/// # Errors
/// The bytes are not such a body.
pub fn decode_answer(op: &Op, reader: &mut JuteReader<'_>) -> Result<Answer, JuteError> {
    Ok(match op {
        Op::Create { request: CreateRequest::Create, .. }
        | Op::CreateOwned { .. }
        | Op::Sync { .. } => Answer::Path(reader.text()?.to_string()),
        Op::Create { .. } => Answer::PathStat(reader.text()?.to_string(), stat(reader)?),
        Op::SetData { .. } | Op::SetAcl { .. } | Op::SetAclOwned { .. } | Op::Exists { .. } => {
            Answer::Stat(stat(reader)?)
        }
        Op::GetData { .. } => {
            let data = reader.buffer()?.map(<[u8]>::to_vec);
            Answer::Data(data, stat(reader)?)
        }
        Op::GetChildren { with_stat: false, .. } => Answer::Children(names(reader)?),
        Op::GetChildren { .. } => Answer::ChildrenStat(names(reader)?, stat(reader)?),
        Op::GetAcl { .. } => {
            let count = reader.count(12)?;
            let (mut owners, mut everyone) = (Vec::new(), 0);
            for _ in 0..count {
                let perms = reader.int()? as u32;
                match (reader.text()?, reader.text()?) {
                    ("world", "anyone") => everyone |= perms,
                    ("digest", id) if perms == perms::ALL => owners.push(id.to_string()),
                    _ => return Err(reader.bad("ACL")),
                }
            }
            let stat = stat(reader)?;
            match owners.is_empty() {
                true => Answer::Acl(everyone, stat),
                false => Answer::OwnedAcl(owners, everyone, stat),
            }
        }
        Op::Multi(ops) | Op::MultiRead(ops) => decode_results(ops, reader)?,
        // `ErrorResponse`
        Op::AddWatch { .. } => match reader.int()? {
            error::OK => Answer::Empty,
            _ => return Err(reader.bad("result of addWatch")),
        },
        Op::Delete { .. }
        | Op::Check { .. }
        | Op::SetWatches { .. }
        | Op::SetWatches2 { .. }
        | Op::FindWatch { .. }
        | Op::Auth { .. }
        | Op::BadFrame { .. }
        | Op::Undecodable { .. }
        | Op::Ping
        | Op::CloseSession => Answer::Empty,
    })
}

/// A multi that failed as a whole reports the error in each of its results and not in the header.
/// Returns the error code and the answer as if it were in the header.
pub(super) fn refusal_of_all(answer: Answer) -> (i32, Answer) {
    let is_refused = |result: &Result<Answer, i32>| *result == Err(error::SYSTEM_ERROR);
    match &answer {
        Answer::Multi(results) if !results.is_empty() && results.iter().all(is_refused) => {
            (error::SYSTEM_ERROR, Answer::Empty)
        }
        _ => (error::OK, answer),
    }
}

/// Decodes `MultiResponse`: a header before each result, and a last header that marks the end.
fn decode_results(ops: &[Op], reader: &mut JuteReader<'_>) -> Result<Answer, JuteError> {
    let mut results = Vec::new();
    loop {
        let kind = reader.int()?;
        let is_last = reader.bool()?;
        let code = reader.int()?;
        if is_last {
            break;
        }
        let Some(op) = ops.get(results.len()) else { return Err(reader.bad("result count")) };
        if kind == zk::request::opcode::ERROR {
            if reader.int()? != code {
                return Err(reader.bad("error result"));
            }
            results.push(Err(code));
        } else {
            if kind != result_kind_of(op) || code != error::OK {
                return Err(reader.bad("result header"));
            }
            results.push(Ok(decode_answer(op, reader)?));
        }
    }
    match results.len() == ops.len() {
        true => Ok(Answer::Multi(results)),
        false => Err(reader.bad("result count")),
    }
}

/// `OpResult.CreateResult`: a result with a stat has the code of create2, for every kind of create.
fn result_kind_of(op: &Op) -> i32 {
    match op {
        Op::Create { request: CreateRequest::Create, .. } | Op::CreateOwned { .. } => {
            zk::request::opcode::CREATE
        }
        Op::Create { .. } => zk::request::opcode::CREATE2,
        op => opcode_of(op),
    }
}

fn opcode_of(op: &Op) -> i32 {
    match (write(op), read(op)) {
        (Some(write), _) => write.opcode(),
        (None, Some(read)) => read.kind.opcode(),
        (None, None) => 0,
    }
}
