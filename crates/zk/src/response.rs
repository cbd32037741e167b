//! The responses of a ZooKeeper server. The server encodes them. For three parts (the connect
//! response, the reply header and the Stat) this module also has the decoder, which our own clients
//! use.

use machine::{AclEntry, Identity, QueryResult, Refusal, Stat, ZkOutcome};

use crate::auth::{masked_digest_id, user_name};
use crate::error_code::ErrorCode;
use crate::jute::{JuteError, JuteReader, JuteWrite, begin_frame, end_frame};
use crate::request::{
    CreateKind, ReadKind, WriteRequest, XID_EVENT, encode_acl, encode_multi_header, opcode,
};

/// The header of every response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The xid of the request.
    pub xid: i32,
    /// The zxid of the write; for a read, the last zxid that the server had applied when the read
    /// ran.
    pub zxid: i64,
    /// The error code. After an error most responses have no body.
    pub error: ErrorCode,
}

/// The answer to a connect request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The negotiated session timeout; 0 if the session does not exist.
    pub timeout_ms: i32,
    /// The session id; 0 if the session does not exist.
    pub session: i64,
    /// The session's password, which the client must send when it reconnects.
    pub password: [u8; 16],
    /// Whether the server is read-only. `None`, and left out, for a client whose request lacks the
    /// field.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The answer that tells a client that its session does not exist. `read_only` is the field of
    /// the request.
    pub fn refused(read_only: Option<bool>) -> ConnectResponse {
        let read_only = read_only.map(|_| false);
        ConnectResponse { timeout_ms: 0, session: 0, password: [0; 16], read_only }
    }

    /// Appends the whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = begin_frame(out);
        out.put_int(0);
        out.put_int(self.timeout_ms);
        out.put_long(self.session);
        out.put_buffer(Some(&self.password));
        if let Some(read_only) = self.read_only {
            out.put_bool(read_only);
        }
        end_frame(out, start);
    }

    /// Decodes the body of the frame.
    pub fn decode(body: &[u8]) -> Result<ConnectResponse, JuteError> {
        let mut reader = JuteReader::new(body);
        reader.int()?;
        let timeout_ms = reader.int()?;
        let session = reader.long()?;
        let bytes = reader.buffer()?.unwrap_or_default();
        let password = bytes.try_into().map_err(|_| reader.bad("password"))?;
        Ok(ConnectResponse { timeout_ms, session, password, read_only: reader.bool().ok() })
    }
}

impl ReplyHeader {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_int(self.xid);
        out.put_long(self.zxid);
        out.put_int(self.error.0);
    }

    /// Decodes a header and leaves the reader at the body.
    pub fn decode(reader: &mut JuteReader<'_>) -> Result<ReplyHeader, JuteError> {
        let (xid, zxid) = (reader.int()?, reader.long()?);
        Ok(ReplyHeader { xid, zxid, error: ErrorCode(reader.int()?) })
    }
}

/// Appends a response without a body.
pub fn encode_empty(header: ReplyHeader, out: &mut Vec<u8>) {
    let start = begin_frame(out);
    header.encode(out);
    end_frame(out, start);
}

/// Appends the response to a SASL token. Even after an error it has a body: a token, or null.
pub fn encode_sasl(header: ReplyHeader, token: Option<&[u8]>, out: &mut Vec<u8>) {
    let start = begin_frame(out);
    header.encode(out);
    out.put_buffer(token);
    end_frame(out, start);
}

/// The form of the body of a write's reply. While a write is under way, this is all that the server
/// keeps of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteForm {
    /// The body is the path.
    Create,
    /// The body is the path and the stat.
    CreateWithStat,
    /// The body is empty.
    Delete,
    /// The body is the stat.
    SetData,
    /// The body is the stat.
    SetAcl,
    /// The body is empty.
    Check,
    /// The body is a result for each operation.
    Multi(Box<[WriteForm]>),
    /// The reply is this error. The server refused the request; in place of the request it logged a
    /// command that is always refused, to consume a zxid. If that command is refused because the
    /// session may not write at all, the reply is that error instead.
    Refused(ErrorCode),
}

impl WriteForm {
    /// The form of the reply to a single write.
    pub fn of(write: &WriteRequest<'_>) -> WriteForm {
        match write {
            WriteRequest::Create { kind: CreateKind::Create, .. } => WriteForm::Create,
            WriteRequest::Create { .. } => WriteForm::CreateWithStat,
            WriteRequest::Delete { .. } => WriteForm::Delete,
            WriteRequest::SetData { .. } => WriteForm::SetData,
            WriteRequest::SetAcl { .. } => WriteForm::SetAcl,
            WriteRequest::Check { .. } => WriteForm::Check,
        }
    }

    /// The form of the reply to a multi.
    pub fn of_multi(writes: &[WriteRequest<'_>]) -> WriteForm {
        WriteForm::Multi(writes.iter().map(WriteForm::of).collect())
    }

    /// The opcode in front of this form's result in a multi. All creates that return a stat share
    /// one (`OpResult.CreateResult`).
    fn opcode(&self) -> i32 {
        match self {
            WriteForm::Create => opcode::CREATE,
            WriteForm::CreateWithStat => opcode::CREATE2,
            WriteForm::Delete => opcode::DELETE,
            WriteForm::SetData => opcode::SET_DATA,
            WriteForm::SetAcl => opcode::SET_ACL,
            WriteForm::Check => opcode::CHECK,
            WriteForm::Multi(_) => opcode::MULTI,
            WriteForm::Refused(_) => unreachable!("it is no result of a multi"),
        }
    }
}

/// Appends the response to a write, from the outcome that the state machine returned.
pub fn encode_write(
    xid: i32,
    zxid: i64,
    form: &WriteForm,
    outcome: &Result<ZkOutcome, Refusal>,
    out: &mut Vec<u8>,
) {
    let error = match (form, outcome) {
        (WriteForm::Refused(error), Err(Refusal::BadArguments)) => *error,
        (_, Err(refusal)) => ErrorCode::of(refusal),
        (_, Ok(_)) => ErrorCode::OK,
    };
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error }.encode(out);
    match outcome {
        Ok(outcome) => encode_outcome(form, outcome, out),
        Err(Refusal::Multi { position, count, refusal }) => {
            encode_refused_multi(*position, *count, ErrorCode::of(refusal), out);
        }
        Err(_) => {}
    }
    end_frame(out, start);
}

/// Appends the response to a write that was not carried out, with `error`. For a multi the error is
/// in a result for each operation and not in the header: the C client reads the results whatever
/// the header says, and crashes if there are none.
pub fn encode_unavailable(
    xid: i32,
    zxid: i64,
    form: &WriteForm,
    error: ErrorCode,
    out: &mut Vec<u8>,
) {
    let WriteForm::Multi(forms) = form else {
        return encode_empty(ReplyHeader { xid, zxid, error }, out);
    };
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    for _ in forms {
        encode_error_result(error, out);
    }
    encode_multi_header(-1, true, out);
    end_frame(out, start);
}

fn encode_outcome(form: &WriteForm, outcome: &ZkOutcome, out: &mut Vec<u8>) {
    match (form, outcome) {
        (WriteForm::Create, ZkOutcome::Created { path, .. }) => out.put_text(path),
        (WriteForm::CreateWithStat, ZkOutcome::Created { path, stat }) => {
            out.put_text(path);
            encode_stat(stat, out);
        }
        (WriteForm::SetData, ZkOutcome::DataSet(stat))
        | (WriteForm::SetAcl, ZkOutcome::AclSet(stat)) => encode_stat(stat, out),
        (WriteForm::Delete, ZkOutcome::Deleted) | (WriteForm::Check, ZkOutcome::Checked) => {}
        (WriteForm::Multi(forms), ZkOutcome::Multi(outcomes)) => {
            assert!(forms.len() == outcomes.len());
            for (form, outcome) in forms.iter().zip(outcomes) {
                encode_result_header(form.opcode(), ErrorCode::OK, out);
                encode_outcome(form, outcome, out);
            }
            encode_multi_header(-1, true, out);
        }
        _ => unreachable!("apply answers a {form:?} with its own outcome, not {outcome:?}"),
    }
}

/// Appends the header of a result in a multi: the operation and its error
/// (`MultiResponse.serialize`).
fn encode_result_header(opcode: i32, error: ErrorCode, out: &mut Vec<u8>) {
    out.put_int(opcode);
    out.put_bool(false);
    out.put_int(error.0);
}

/// Appends the results of a refused multi, an error for each of `count` operations: 0 before the
/// one at `position`, `culprit` for that one, runtime inconsistency after it
/// (`DataTree.processTxn`).
fn encode_refused_multi(position: usize, count: usize, culprit: ErrorCode, out: &mut Vec<u8>) {
    for index in 0..count {
        let error = match index.cmp(&position) {
            core::cmp::Ordering::Less => ErrorCode::OK,
            core::cmp::Ordering::Equal => culprit,
            core::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
        };
        encode_error_result(error, out);
    }
    encode_multi_header(-1, true, out);
}

/// Appends a result that is an error (`OpResult.ErrorResult`).
fn encode_error_result(error: ErrorCode, out: &mut Vec<u8>) {
    encode_result_header(opcode::ERROR, error, out);
    out.put_int(error.0);
}

/// Appends the response to a read of one znode.
pub fn encode_read(
    xid: i32,
    zxid: i64,
    kind: ReadKind,
    result: &Result<QueryResult<'_>, Refusal>,
    out: &mut Vec<u8>,
) {
    let error = result.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error }.encode(out);
    if let Ok(result) = result {
        encode_result(kind, result, out);
    }
    end_frame(out, start);
}

/// Appends the result of one read of a multi-read; [`encode_multi_read`] puts the header in front.
pub fn encode_read_result(
    kind: ReadKind,
    result: &Result<QueryResult<'_>, Refusal>,
    out: &mut Vec<u8>,
) {
    match result {
        Ok(result) => {
            encode_result_header(kind.opcode(), ErrorCode::OK, out);
            encode_result(kind, result, out);
        }
        Err(refusal) => {
            let error = ErrorCode::of(refusal);
            encode_result_header(opcode::ERROR, error, out);
            out.put_int(error.0);
        }
    }
}

/// Like [`encode_read_result`], for a list of children that was collected in steps.
pub fn encode_list_result(kind: ReadKind, names: &ChildNames, stat: &Stat, out: &mut Vec<u8>) {
    encode_result_header(kind.opcode(), ErrorCode::OK, out);
    encode_list(kind, names, stat, out);
}

/// Appends the response to a multi-read. `results` are the encoded results, one behind the other.
pub fn encode_multi_read(xid: i32, zxid: i64, results: &[u8], out: &mut Vec<u8>) {
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    out.extend_from_slice(results);
    encode_multi_header(-1, true, out);
    end_frame(out, start);
}

/// Names of children in encoded form. The server collects them in steps, because a znode may have
/// very many.
#[derive(Default)]
pub struct ChildNames {
    count: usize,
    encoded: Vec<u8>,
}

impl ChildNames {
    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.count += 1;
        self.encoded.put_text(name);
    }

    /// Removes all names.
    pub fn clear(&mut self) {
        self.count = 0;
        self.encoded.clear();
    }

    /// Length of the encoded names, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded.len()
    }
}

/// Appends the response to a getChildren or getChildren2 whose names were collected in steps.
pub fn encode_children(
    (xid, zxid): (i32, i64),
    kind: ReadKind,
    names: &ChildNames,
    stat: &Stat,
    out: &mut Vec<u8>,
) {
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    encode_list(kind, names, stat, out);
    end_frame(out, start);
}

fn encode_list(kind: ReadKind, names: &ChildNames, stat: &Stat, out: &mut Vec<u8>) {
    out.put_count(names.count);
    out.extend_from_slice(&names.encoded);
    end_list(kind, stat, out);
}

/// Ends a list of children: only `GetChildren2Response` has a stat.
fn end_list(kind: ReadKind, stat: &Stat, out: &mut Vec<u8>) {
    if kind == ReadKind::GetChildren2 {
        encode_stat(stat, out);
    }
}

/// The approximate length of a read's response, in bytes, computed without encoding it. It leaves
/// out the header, a Stat and one or two length fields.
pub fn result_bytes(result: &Result<QueryResult<'_>, Refusal>) -> u64 {
    match result {
        Ok(QueryResult::Data { data, .. }) => data.map_or(0, |data| data.len() as u64),
        Ok(QueryResult::Children { znode }) => {
            znode.child_name_bytes() + 4 * u64::from(znode.child_count())
        }
        Ok(QueryResult::Acl { entries, .. }) => {
            let of_entry = |entry: &AclEntry| (12 + entry.scheme.len() + entry.id.len()) as u64;
            entries.iter().map(of_entry).sum()
        }
        Ok(QueryResult::Exists(_)) | Err(_) => 0,
    }
}

fn encode_result(kind: ReadKind, result: &QueryResult<'_>, out: &mut Vec<u8>) {
    match result {
        QueryResult::Exists(stat) => encode_stat(stat, out),
        QueryResult::Data { data, stat } => {
            out.put_buffer(*data);
            encode_stat(stat, out);
        }
        QueryResult::Children { znode } => {
            out.put_count(znode.child_count() as usize);
            znode.child_names().for_each(|name| out.put_text(name));
            end_list(kind, &znode.stat(), out);
        }
        QueryResult::Acl { entries, masked: false, stat } => {
            encode_acl(entries, out);
            encode_stat(stat, out);
        }
        QueryResult::Acl { entries, masked: true, stat } => {
            let masked: Vec<AclEntry> = entries.iter().map(mask).collect();
            encode_acl(&masked, out);
            encode_stat(stat, out);
        }
    }
}

fn mask(entry: &AclEntry) -> AclEntry {
    match &*entry.scheme {
        "digest" => AclEntry { id: masked_digest_id(&entry.id).into(), ..entry.clone() },
        _ => entry.clone(),
    }
}

/// Appends the response to a sync, which repeats the path of the request.
pub fn encode_sync(xid: i32, zxid: i64, path: Option<&str>, out: &mut Vec<u8>) {
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    out.put_buffer(path.map(str::as_bytes));
    end_frame(out, start);
}

/// Appends the response to an addWatch: an `ErrorResponse`, whose body repeats the error of the
/// header.
pub fn encode_add_watch(header: ReplyHeader, out: &mut Vec<u8>) {
    let start = begin_frame(out);
    header.encode(out);
    out.put_int(header.error.0);
    end_frame(out, start);
}

/// Appends the response to a getAllChildrenNumber: the count.
pub fn encode_all_children_number(
    xid: i32,
    zxid: i64,
    result: &Result<u32, Refusal>,
    out: &mut Vec<u8>,
) {
    let error = result.as_ref().err().map_or(ErrorCode::OK, ErrorCode::of);
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error }.encode(out);
    if let Ok(count) = result {
        out.put_count(*count as usize);
    }
    end_frame(out, start);
}

/// Appends the response to a getEphemerals: the paths.
pub fn encode_ephemerals(xid: i32, zxid: i64, paths: &[String], out: &mut Vec<u8>) {
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    out.put_count(paths.len());
    paths.iter().for_each(|path| out.put_text(path));
    end_frame(out, start);
}

/// Appends the response to a whoAmI: scheme and user name of each identity (`zookeeper.jute`:
/// WhoAmIResponse).
pub fn encode_who_am_i(xid: i32, zxid: i64, identities: &[Identity<'_>], out: &mut Vec<u8>) {
    let start = begin_frame(out);
    ReplyHeader { xid, zxid, error: ErrorCode::OK }.encode(out);
    out.put_count(identities.len());
    for identity in identities {
        out.put_text(identity.scheme);
        out.put_text(user_name(identity.scheme, identity.id));
    }
    end_frame(out, start);
}

/// Event types (`Watcher.Event.EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The znode was made.
    Created = 1,
    /// The znode was removed.
    Deleted = 2,
    /// The data was set.
    DataChanged = 3,
    /// A child was made or removed.
    ChildrenChanged = 4,
}

/// The connection state in every event: `SyncConnected`, because the server only sends events on a
/// working connection.
const STATE_CONNECTED: i32 = 3;

/// Appends a watch event. `zxid` is that of the change; -1 for an event that the server makes up
/// when a client sets watches again.
pub fn encode_event(zxid: i64, kind: EventType, path: &str, out: &mut Vec<u8>) {
    let start = begin_frame(out);
    ReplyHeader { xid: XID_EVENT, zxid, error: ErrorCode::OK }.encode(out);
    out.put_int(kind as i32);
    out.put_int(STATE_CONNECTED);
    out.put_text(path);
    end_frame(out, start);
}

/// Appends a Stat (`zookeeper.jute`: Stat).
pub fn encode_stat(stat: &Stat, out: &mut Vec<u8>) {
    out.put_long(stat.czxid);
    out.put_long(stat.mzxid);
    out.put_long(stat.ctime);
    out.put_long(stat.mtime);
    out.put_int(stat.version);
    out.put_int(stat.cversion);
    out.put_int(stat.aversion);
    out.put_long(stat.ephemeral_owner);
    out.put_int(stat.data_bytes);
    out.put_int(stat.child_count);
    out.put_long(stat.pzxid);
}

/// Decodes a Stat.
pub fn decode_stat(reader: &mut JuteReader<'_>) -> Result<Stat, JuteError> {
    Ok(Stat {
        czxid: reader.long()?,
        mzxid: reader.long()?,
        ctime: reader.long()?,
        mtime: reader.long()?,
        version: reader.int()?,
        cversion: reader.int()?,
        aversion: reader.int()?,
        ephemeral_owner: reader.long()?,
        data_bytes: reader.int()?,
        child_count: reader.int()?,
        pzxid: reader.long()?,
    })
}

#[cfg(test)]
mod tests;
