//! Runs rounds on one of the two servers, and describes its answers as lines of text. Servers that
//! behave alike give the same lines: times are left out, session ids become slots, and zxids count
//! from the highest zxid before the seed.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use zk::JuteReader;
use zk::jute::JuteError;
use zk::request::{ConnectRequest, Request, XID_EVENT, XID_PING, opcode};
use zk::response::{ReplyHeader, decode_stat};

use super::generate::{Asked, AskedSession, Body, Burst, Greeting, Round, SLOTS, Slot};
use super::wire::{Connection, Received};

/// The xid of the sync that is sent at the end of each round.
const XID_BARRIER: i32 = i32::MAX;

/// The session and the connection of a slot.
#[derive(Default)]
struct Seat {
    session: i64,
    password: Vec<u8>,
    connection: Option<Connection>,
    /// For each xid that was used on this connection, what a good reply contains, and whether the
    /// request takes a zxid.
    asked: HashMap<i32, (Body, bool)>,
    last_zxid: i64,
}

/// One of the two servers.
pub struct Side {
    name: &'static str,
    address: SocketAddr,
    /// The highest zxid before the seed; zxids are shown relative to it.
    base: i64,
    /// The highest zxid in any reply so far.
    top: i64,
    /// Names for zxids whose value depends on how sessions interleave.
    labels: HashMap<i64, String>,
    owners: HashMap<i64, String>,
    /// The zxids of closes of sessions.
    closes: HashSet<i64>,
    opened: usize,
    round: usize,
    seats: [Seat; SLOTS],
}

/// Which zxids of replies are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zxids {
    /// The zxids of all replies.
    Exact,
    /// Only the zxids of the session's own writes, because other sessions write at the same time.
    OwnWrites,
}

impl Side {
    /// A side without connections.
    pub fn new(name: &'static str, address: SocketAddr) -> Side {
        Side {
            name,
            address,
            base: 0,
            top: 0,
            labels: HashMap::new(),
            owners: HashMap::new(),
            closes: HashSet::new(),
            opened: 0,
            round: 0,
            seats: Default::default(),
        }
    }

    /// Starts a seed: from here on zxids count from the highest one seen.
    pub fn begin_seed(&mut self) {
        self.base = self.top;
        self.labels.clear();
        self.owners.clear();
        self.opened = 0;
        self.round = 0;
    }

    /// The state of each slot.
    pub fn slots(&self) -> [Slot; SLOTS] {
        std::array::from_fn(|slot| match &self.seats[slot] {
            Seat { session: 0, .. } => Slot::Vacant,
            Seat { connection: None, .. } => Slot::Detached,
            _ => Slot::Attached,
        })
    }

    /// Runs a round, then waits until no request is under way on any connection. Returns one line
    /// for each frame.
    ///
    /// # Errors
    /// See [`Side::run_alone`].
    pub fn run(&mut self, round: &Round) -> anyhow::Result<Vec<String>> {
        let mut lines = self.run_alone(round)?;
        for slot in 0..SLOTS {
            lines.extend(self.barrier(slot));
        }
        Ok(lines)
    }

    /// Like [`Side::run`], but does not wait for the other connections after the round.
    ///
    /// # Errors
    /// The server does not answer a connect request.
    pub fn run_alone(&mut self, round: &Round) -> anyhow::Result<Vec<String>> {
        self.round += 1;
        Ok(match round {
            Round::Burst(burst) => self.burst(burst),
            Round::Together(bursts) => self.together(bursts),
            Round::Greet(greeting) => self.greet(greeting)?,
            Round::Drop(slot) => {
                self.seats[*slot].connection = None;
                Vec::new()
            }
        })
    }

    fn burst(&mut self, burst: &Burst) -> Vec<String> {
        let slot = burst.slot;
        let ends = burst.asked.last().is_some_and(|asked| asked.ends);
        let mut frames = Vec::new();
        let mut sent = Vec::new();
        for asked in &burst.asked {
            if asked.alone {
                frames.extend(self.flush(burst, &mut sent));
            }
            sent.push(asked);
        }
        if !ends {
            frames.extend(self.flush(burst, &mut sent));
        } else {
            let bytes = self.bytes_of(slot, &sent);
            self.send_in_pieces(slot, &bytes, &burst.pieces);
            frames.extend(self.receive_until(slot, None));
        }
        let closes = burst.asked.last().filter(|asked| asked.shown == "CloseSession");
        if let Some(zxid) = closes.and_then(|asked| zxid_of_reply(&frames, asked.xid)) {
            self.seats[slot].session = 0;
            self.closes.insert(zxid);
        }
        self.describe(slot, &frames, Zxids::Exact)
    }

    /// Sends the requests in `sent`, and waits until all of them are answered.
    fn flush(&mut self, burst: &Burst, sent: &mut Vec<&Asked>) -> Vec<Received> {
        let slot = burst.slot;
        let pings = 1 + sent.iter().filter(|asked| asked.xid == XID_PING).count();
        let mut bytes = self.bytes_of(slot, sent);
        sent.clear();
        Request::Ping.encode(XID_PING, &mut bytes);
        self.send_in_pieces(slot, &bytes, &burst.pieces);
        self.receive_until(slot, Some(pings))
    }

    /// The bytes of requests, with this side's zxids filled in. Also notes the requests in the
    /// slot's seat.
    fn bytes_of(&mut self, slot: usize, sent: &[&Asked]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for asked in sent {
            let start = bytes.len();
            bytes.extend_from_slice(&asked.bytes);
            if let Some((offset, back)) = asked.zxid_back {
                let zxid = (self.top - back).max(0);
                bytes[start + offset..start + offset + 8].copy_from_slice(&zxid.to_be_bytes());
            }
            self.seats[slot].asked.insert(asked.xid, (asked.body, asked.writes));
        }
        bytes
    }

    fn send_in_pieces(&mut self, slot: usize, bytes: &[u8], pieces: &[usize]) {
        let Some(connection) = &mut self.seats[slot].connection else { return };
        let mut rest = bytes;
        for &piece in pieces {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            connection.send(now);
            rest = later;
        }
        connection.send(rest);
    }

    /// Receives frames until `pings` pings were answered (`None`: without limit), or the connection
    /// ends.
    fn receive_until(&mut self, slot: usize, pings: Option<usize>) -> Vec<Received> {
        let mut frames = Vec::new();
        let mut answered = 0;
        while let Some(connection) = &mut self.seats[slot].connection {
            let received = connection.receive();
            match &received {
                Received::Frame(body) => {
                    let mut reader = JuteReader::new(body);
                    if reader.int() == Ok(XID_PING) {
                        answered += 1;
                    }
                }
                Received::End | Received::Silence => self.seats[slot].connection = None,
            }
            frames.push(received);
            if pings == Some(answered) {
                break;
            }
        }
        frames
    }

    fn together(&mut self, bursts: &[Burst]) -> Vec<String> {
        let mut left: Vec<(usize, Vec<u8>, usize)> = Vec::new();
        for burst in bursts {
            let sent: Vec<&Asked> = burst.asked.iter().collect();
            let mut bytes = self.bytes_of(burst.slot, &sent);
            Request::Ping.encode(XID_PING, &mut bytes);
            let pings = 1 + sent.iter().filter(|asked| asked.xid == XID_PING).count();
            left.push((burst.slot, bytes, pings));
        }
        let piece_count = bursts.iter().map(|burst| burst.pieces.len()).max().unwrap_or(0);
        let mut from = vec![0; bursts.len()];
        for piece in 0..=piece_count {
            for (index, burst) in bursts.iter().enumerate() {
                let (slot, bytes, _) = &left[index];
                let length = burst.pieces.get(piece).copied().unwrap_or(bytes.len());
                let to = (from[index] + length).min(bytes.len());
                self.send_in_pieces(*slot, &bytes[from[index]..to], &[]);
                from[index] = to;
            }
        }
        let mut lines = Vec::new();
        for (slot, _, pings) in left {
            let frames = self.receive_until(slot, Some(pings));
            self.label_writes(slot, &frames);
            lines.extend(self.describe(slot, &frames, Zxids::OwnWrites));
        }
        lines
    }

    /// Names the zxids of a session's writes by the round, the slot and a count.
    fn label_writes(&mut self, slot: usize, frames: &[Received]) {
        let mut count = 0;
        for frame in frames {
            let Received::Frame(body) = frame else { continue };
            let Ok(header) = ReplyHeader::decode(&mut JuteReader::new(body)) else { continue };
            if self.seats[slot].asked.get(&header.xid).is_some_and(|(_, writes)| *writes) {
                count += 1;
                self.labels.insert(header.zxid, format!("round {} w{slot}.{count}", self.round));
            }
        }
    }

    fn greet(&mut self, greeting: &Greeting) -> anyhow::Result<Vec<String>> {
        let seat = &self.seats[greeting.slot];
        let (session, password) = match greeting.session {
            AskedSession::New => (0, vec![0; 16]),
            AskedSession::Own => (seat.session, seat.password.clone()),
            AskedSession::WrongPassword => (seat.session, vec![7; 16]),
            AskedSession::ShortPassword => (seat.session, vec![7; 3]),
            AskedSession::Unknown => (0x1234, vec![7; 16]),
        };
        let request = ConnectRequest {
            protocol_version: greeting.protocol_version,
            last_zxid_seen: (self.top + greeting.seen_ahead).max(0),
            timeout_ms: greeting.timeout_ms,
            session,
            password,
            read_only: greeting.read_only,
        };
        let mut lines = self.attach(greeting.slot, &request)?;
        if greeting.session == AskedSession::New {
            lines.push(format!("slot {} session {}", greeting.slot, self.opened));
        }
        Ok(lines)
    }

    /// Asks for a session on a new connection. If that works, reads the slot's old connection to
    /// its end.
    fn attach(&mut self, slot: usize, request: &ConnectRequest) -> anyhow::Result<Vec<String>> {
        let (mut connection, response) = Connection::attach(self.address, request)?;
        let Some(response) = response else {
            return Ok(vec![format!("slot {slot} closed without an answer")]);
        };
        let mut lines = vec![format!(
            "slot {slot} timeout={} same session={} read_only={:?}",
            response.timeout_ms,
            response.session == request.session,
            response.read_only
        )];
        if response.session == 0 {
            lines.push(format!("slot {slot} {:?}", connection.receive()));
            return Ok(lines);
        }
        if self.seats[slot].connection.is_some() {
            let frames = self.receive_until(slot, None);
            lines.extend(self.describe(slot, &frames, Zxids::Exact));
        }
        if request.session == 0 {
            self.opened += 1;
            let label = format!("session {} of slot {slot}", self.opened);
            self.owners.insert(response.session, label);
        }
        self.seats[slot] = Seat {
            session: response.session,
            password: response.password.to_vec(),
            connection: Some(connection),
            asked: HashMap::new(),
            last_zxid: 0,
        };
        Ok(lines)
    }

    /// Sends a sync and a ping, and returns the frames that the connection has received since its
    /// last round. The answer to the sync shows that the connection works.
    fn barrier(&mut self, slot: usize) -> Vec<String> {
        if self.seats[slot].connection.is_none() {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        Request::Sync { path: Some("/") }.encode(XID_BARRIER, &mut bytes);
        Request::Ping.encode(XID_PING, &mut bytes);
        self.seats[slot].asked.insert(XID_BARRIER, (Body::Path, false));
        self.send_in_pieces(slot, &bytes, &[]);
        let frames = self.receive_until(slot, Some(1));
        self.describe(slot, &frames, Zxids::Exact)
    }

    /// Sends one request on a slot's connection. Returns its reply, decoded by `decode`, or its
    /// error code.
    ///
    /// # Errors
    /// No answer comes, or it cannot be decoded.
    pub fn call<T>(
        &mut self,
        slot: usize,
        asked: &Asked,
        decode: impl Fn(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> anyhow::Result<Result<T, i32>> {
        let mut bytes = self.bytes_of(slot, &[asked]);
        Request::Ping.encode(XID_PING, &mut bytes);
        self.send_in_pieces(slot, &bytes, &[]);
        let frames = self.receive_until(slot, Some(1));
        self.describe(slot, &frames, Zxids::Exact);
        for frame in &frames {
            let Received::Frame(body) = frame else { continue };
            let mut reader = JuteReader::new(body);
            let header = ReplyHeader::decode(&mut reader)?;
            if header.xid == asked.xid && header.error.0 == 0 {
                return Ok(Ok(decode(&mut reader)?));
            } else if header.xid == asked.xid {
                return Ok(Err(header.error.0));
            }
        }
        anyhow::bail!("{}: no answer to {}", self.name, asked.shown)
    }

    // The methods from here on turn frames into text.

    fn describe(&mut self, slot: usize, frames: &[Received], zxids: Zxids) -> Vec<String> {
        let mut lines: Vec<(bool, String)> = Vec::new();
        for frame in frames {
            let Received::Frame(body) = frame else {
                lines.push((false, format!("slot {slot} {frame:?}")));
                continue;
            };
            let header = ReplyHeader::decode(&mut JuteReader::new(body)).ok();
            let unordered = header.is_some_and(|header| {
                header.xid == XID_EVENT && self.closes.contains(&header.zxid)
            });
            lines.push((unordered, format!("slot {slot} {}", self.line(slot, body, zxids))));
        }
        // The real server deletes the ephemerals of a closed session in the order of a hash set, so
        // these events are sorted.
        for run in lines.chunk_by_mut(|a, b| a.0 == b.0) {
            if run[0].0 {
                run.sort();
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn line(&mut self, slot: usize, body: &[u8], zxids: Zxids) -> String {
        let mut reader = JuteReader::new(body);
        let Ok(header) = ReplyHeader::decode(&mut reader) else {
            return format!("no header: {}", hex(body));
        };
        self.top = self.top.max(header.zxid);
        if header.xid == XID_EVENT {
            let zxid = self.zxid(header.zxid);
            let event = self.event(&mut reader).unwrap_or_else(|_| hex(body));
            return format!("event {zxid} error={} {event}", header.error.0);
        }
        let mut falls = "";
        if header.zxid > 0 {
            let last = &mut self.seats[slot].last_zxid;
            falls = if header.zxid < *last { " which is a step back" } else { "" };
            *last = header.zxid;
        }
        let (asked, writes) =
            self.seats[slot].asked.get(&header.xid).copied().unwrap_or((Body::Empty, false));
        let zxid = match zxids {
            Zxids::OwnWrites if !writes => "~".to_string(),
            Zxids::OwnWrites => self.zxid(header.zxid),
            Zxids::Exact => self.count(header.zxid),
        };
        let mut text =
            format!("reply xid={} zxid={zxid}{falls} error={}", header.xid, header.error.0);
        let start = reader.offset();
        if header.error.0 == 0 || reader.remaining() > 0 {
            text += &match self.body(asked, &mut reader) {
                Ok(body) => body,
                Err(_) => format!(" undecodable {}", hex(&body[start..])),
            };
        }
        if reader.remaining() > 0 {
            text += &format!(" and {}", hex(&body[reader.offset()..]));
        }
        text
    }

    fn event(&self, reader: &mut JuteReader<'_>) -> Result<String, JuteError> {
        let (kind, state) = (reader.int()?, reader.int()?);
        Ok(format!("type={kind} state={state} path={:?}", reader.text()?))
    }

    fn body(&self, body: Body, reader: &mut JuteReader<'_>) -> Result<String, JuteError> {
        Ok(match body {
            Body::Empty => String::new(),
            Body::Path => format!(" {:?}", reader.optional_text()?),
            Body::PathStat => format!(" {:?}{}", reader.text()?, self.stat(reader)?),
            Body::Stat => self.stat(reader)?,
            Body::DataStat => format!(" {}{}", data(reader.buffer()?), self.stat(reader)?),
            Body::Names => names(reader)?,
            Body::NamesStat => format!("{}{}", names(reader)?, self.stat(reader)?),
            Body::AclStat => {
                let mut entries = Vec::new();
                for _ in 0..reader.count(12)? {
                    let (perms, scheme, id) = (reader.int()?, reader.text()?, reader.text()?);
                    entries.push(format!(" {perms}:{scheme}:{id}"));
                }
                // The real server expands `auth` in the order of a hash set, so the entries are
                // sorted.
                entries.sort_unstable();
                entries.concat() + &self.stat(reader)?
            }
            Body::Results => self.results(reader)?,
            Body::Number => format!(" {}", reader.int()?),
        })
    }

    fn results(&self, reader: &mut JuteReader<'_>) -> Result<String, JuteError> {
        let mut text = String::new();
        loop {
            let (code, done, error) = (reader.int()?, reader.bool()?, reader.int()?);
            text += &format!(" [{code} {done} {error}");
            if done {
                return Ok(text + "]");
            }
            text += &match code {
                opcode::CREATE => self.body(Body::Path, reader)?,
                opcode::CREATE2 => self.body(Body::PathStat, reader)?,
                opcode::SET_DATA => self.body(Body::Stat, reader)?,
                opcode::GET_DATA => self.body(Body::DataStat, reader)?,
                opcode::GET_CHILDREN => self.body(Body::Names, reader)?,
                opcode::ERROR => format!(" {}", reader.int()?),
                _ => String::new(),
            };
            text += "]";
        }
    }

    fn stat(&self, reader: &mut JuteReader<'_>) -> Result<String, JuteError> {
        let stat = decode_stat(reader)?;
        let owner = match stat.ephemeral_owner {
            0 => "none",
            id => self.owners.get(&id).map_or("unknown", String::as_str),
        };
        Ok(format!(
            " stat(czxid={} mzxid={} pzxid={} version={} cversion={} aversion={} owner={owner} \
             bytes={} children={} touched={})",
            self.zxid(stat.czxid),
            self.zxid(stat.mzxid),
            self.zxid(stat.pzxid),
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.data_bytes,
            stat.child_count,
            stat.mtime >= stat.ctime,
        ))
    }

    fn zxid(&self, zxid: i64) -> String {
        match self.labels.get(&zxid) {
            Some(label) => format!("<{label}>"),
            None => self.count(zxid),
        }
    }

    fn count(&self, zxid: i64) -> String {
        if zxid <= 0 { zxid.to_string() } else { format!("{:+}", zxid - self.base) }
    }
}

fn zxid_of_reply(frames: &[Received], xid: i32) -> Option<i64> {
    frames.iter().find_map(|frame| {
        let Received::Frame(body) = frame else { return None };
        let header = ReplyHeader::decode(&mut JuteReader::new(body)).ok()?;
        (header.xid == xid && header.error.0 == 0).then_some(header.zxid)
    })
}

fn names(reader: &mut JuteReader<'_>) -> Result<String, JuteError> {
    let mut names = reader.texts()?;
    names.sort_unstable();
    Ok(format!(" {names:?}"))
}

fn data(data: Option<&[u8]>) -> String {
    match data {
        None => "null".to_string(),
        Some(bytes) if bytes.len() <= 40 => hex(bytes),
        Some(bytes) => {
            let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
            format!("{} bytes summing to {sum}", bytes.len())
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(200).map(|byte| format!("{byte:02x}")).collect();
    format!("({}) {shown}", bytes.len())
}
