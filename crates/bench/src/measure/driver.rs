//! The driver: one thread that runs many ZooKeeper sessions. It asks a [`Load`] for the next step
//! of each client, writes the requests, reads the answers, and measures how long each took.
//!
//! A *client* is the index of a session. A *load* is the work of all clients in one phase; it sees
//! every answer.
//!
//! Every step happens in one loop around one `poll`. So the generator costs little, and its cost is
//! known: the CPU time of this one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use zk::JuteReader;
use zk::response::ReplyHeader;

use crate::limits::{CONNECT_LIMIT, CONNECTING_MAX, NAP, OUTPUT_BYTES, READ_BYTES, SILENCE_LIMIT};
use crate::measure::open_files;
use crate::random::Random;
use crate::workloads::zk::client::{Incoming, Session, SessionError};

/// The next step of a client, as its load decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The load has queued a request. Ask for the next step at once.
    Sent,
    /// Send nothing until something arrives for this client.
    Wait,
    /// Send nothing until this time, ns of the driver.
    At(u64),
    /// The client sends nothing more in this phase. It is done once its open requests are answered.
    Finished,
}

/// The work of many clients, and what happens to their requests. Times are ns since the driver was
/// made.
pub trait Load {
    /// Returns the next step of client `client`; may queue at most one request on its session.
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next;

    /// An answer arrived, `took_ns` after its request.
    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        body: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    );

    /// A watch of client `client` fired. `kind` is the number of ZooKeeper's `EventType`.
    fn on_event(&mut self, client: usize, kind: i32, path: &str, now_ns: u64) {
        let _ = (client, kind, path, now_ns);
    }

    /// The connection of a client ended, and the driver will connect the client again: see
    /// [`Driver::reconnect_after`].
    fn on_lost(&mut self, client: usize, loss: &Loss, now_ns: u64) {
        let _ = (client, loss, now_ns);
    }

    /// Whether the phase ends now, though some clients have not finished. The driver asks this in
    /// every pass of its loop.
    fn is_given_up(&mut self, now_ns: u64) -> bool {
        let _ = now_ns;
        false
    }

    /// The client is done: it has finished and got all answers, or its session was lost.
    fn on_finished(&mut self, client: usize, now_ns: u64) {
        let _ = (client, now_ns);
    }
}

/// The end of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The cause. [`SessionError::Refused`] means that the session has expired, and that the
    /// client's next connection opens a new session.
    pub error: SessionError,
    /// Whether the connection had its session open; false if it ended while still connecting.
    pub was_open: bool,
    /// Requests without an answer. Each may have been executed or not.
    pub unanswered: usize,
}

struct Connection {
    stream: TcpStream,
    session: Session,
    /// Whether the socket accepts no more bytes for now.
    is_blocked: bool,
    is_finished: bool,
    heard_ns: u64,
    /// The newest entry of this client in `timers`: when the load wants to be asked again, ns of
    /// the driver.
    timer_ns: u64,
    /// The index of its server in the driver's addresses.
    place: usize,
    /// Set while the client has no connection: when it dials again.
    away_until_ns: Option<u64>,
    lost: Option<SessionError>,
}

/// How clients connect again after their connection has ended.
struct Reconnect {
    /// The upper bound of the random pause before each attempt, ns.
    pause_ns_max: u64,
    random: Random,
}

/// The sessions of one run, all with one target.
pub struct Driver {
    poll: Poll,
    started: Instant,
    connections: Vec<Connection>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    next_ping_ns: u64,
    /// When bytes last arrived or a timer last fired, ns. Too long a silence ends the run.
    heard_ns: u64,
    buffer: Vec<u8>,
    addresses: Vec<SocketAddr>,
    /// `None` if a session is lost as soon as its connection ends.
    reconnect: Option<Reconnect>,
}

/// The load that waits until all sessions are open. It is not measured.
struct Connecting;

impl Load for Connecting {
    fn next(&mut self, _: usize, session: &mut Session, _: u64) -> Next {
        match session.is_open() {
            true => Next::Finished,
            false => Next::Wait,
        }
    }

    fn on_reply(&mut self, _: usize, _: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {
        unreachable!("nothing was asked");
    }
}

impl Driver {
    /// Opens `count` sessions, spread evenly over the addresses.
    ///
    /// # Errors
    /// A session cannot be opened.
    pub fn connect(
        addresses: &[SocketAddr],
        count: usize,
        timeout_ms: i32,
    ) -> anyhow::Result<Driver> {
        open_files::make_room(count)?;
        let mut driver = Driver {
            poll: Poll::new()?,
            started: Instant::now(),
            connections: Vec::with_capacity(count),
            timers: BinaryHeap::new(),
            next_ping_ns: 0,
            heard_ns: 0,
            buffer: vec![0; READ_BYTES],
            addresses: addresses.to_vec(),
            reconnect: None,
        };
        while driver.connections.len() < count {
            let from = driver.connections.len();
            for number in from..count.min(from + CONNECTING_MAX) {
                driver.open(number % addresses.len(), timeout_ms)?;
            }
            driver.run_until(&mut Connecting, CONNECT_LIMIT)?;
            driver.ensure_all_open()?;
        }
        Ok(driver)
    }

    /// Fails if a session could not be opened. The error names `maxClientCnxns` if other sessions
    /// are open: ZooKeeper closes a connection beyond that limit without an answer.
    fn ensure_all_open(&self) -> anyhow::Result<()> {
        let Some((client, error)) = self.lost().next() else { return Ok(()) };
        let open_count = self.client_count() - self.lost().count();
        let hint = match error {
            SessionError::Lost(_) if open_count > 0 => format!(
                "; {open_count} are open, and a server takes no more connections of an address \
                 than its maxClientCnxns, 60 by default"
            ),
            _ => String::new(),
        };
        anyhow::bail!("session {client} cannot be opened: {error}{hint}")
    }

    fn open(&mut self, place: usize, timeout_ms: i32) -> anyhow::Result<()> {
        let stream = self.dial(place, self.connections.len())?;
        self.connections.push(Connection {
            stream,
            session: Session::connect(timeout_ms),
            // The socket is not writable until the poll says that it is connected.
            is_blocked: true,
            is_finished: false,
            heard_ns: self.now_ns(),
            timer_ns: 0,
            place,
            away_until_ns: None,
            lost: None,
        });
        Ok(())
    }

    /// Starts a connection of a client to the address with index `place`.
    fn dial(&self, place: usize, client: usize) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.addresses[place])?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(client), interest)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// From now on a client whose connection ends connects again and keeps its session: at the next
    /// address, after a random pause of up to `pause_max` before each attempt. The Java client's
    /// pause is up to a second (`ClientCnxn.SendThread.startConnect`). If the server has expired
    /// the session, the client opens a new one. Like the Java client, the driver gives up a
    /// connection that has been silent for two thirds of the session's timeout.
    pub fn reconnect_after(&mut self, pause_max: Duration, seed: u64) {
        let pause_ns_max = pause_max.as_nanos() as u64;
        self.reconnect = Some(Reconnect { pause_ns_max, random: Random::new(seed) });
    }

    /// The number of all sessions, lost ones included.
    pub fn client_count(&self) -> usize {
        self.connections.len()
    }

    /// The server of each session, or its last server: an index into the addresses.
    pub fn places(&self) -> Vec<usize> {
        self.connections.iter().map(|connection| connection.place).collect()
    }

    /// The lost sessions, each with the cause.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &SessionError)> {
        let all = self.connections.iter().enumerate();
        all.filter_map(|(client, it)| it.lost.as_ref().map(|error| (client, error)))
    }

    /// When the driver was made. All its times count from there.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Now, as ns since the driver was made.
    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Runs a load until every session has finished or is lost.
    ///
    /// # Errors
    /// Nothing arrived for [`SILENCE_LIMIT`], or a system call failed.
    pub fn run(&mut self, load: &mut impl Load) -> anyhow::Result<()> {
        self.run_until(load, SILENCE_LIMIT)
    }

    fn run_until(&mut self, load: &mut impl Load, silence: Duration) -> anyhow::Result<()> {
        let silence_ns = silence.as_nanos() as u64;
        self.timers.clear();
        let mut left = 0;
        for client in 0..self.connections.len() {
            let connection = &mut self.connections[client];
            connection.is_finished = connection.lost.is_some();
            // The timers were cleared, so a time of an earlier load may be asked for again.
            connection.timer_ns = 0;
            left += usize::from(!connection.is_finished);
            if let Some(until_ns) = connection.away_until_ns {
                self.timers.push(Reverse((until_ns, client)));
            }
        }
        for client in 0..self.connections.len() {
            left -= usize::from(self.pump(client, load));
        }
        let mut events = Events::with_capacity(1024);
        self.heard_ns = self.now_ns();
        while left > 0 && !load.is_given_up(self.now_ns()) {
            let now_ns = self.now_ns();
            if now_ns >= self.next_ping_ns {
                self.next_ping_ns = now_ns + 500_000_000;
                self.give_silent_up(now_ns, load);
                self.ping(now_ns);
            }
            let wait = self.wait(now_ns);
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            if wait.is_zero() && events.is_empty() {
                self.maybe_nap();
            }
            for event in &events {
                // If clients connect again and again, the end of a connection is no sign of life.
                if self.reconnect.is_none() {
                    self.heard_ns = self.now_ns();
                }
                left -= usize::from(self.on_ready(event, load));
            }
            let now_ns = self.now_ns();
            while let Some(Reverse((at_ns, client))) = self.timers.peek().copied()
                && at_ns <= now_ns
            {
                self.timers.pop();
                if self.connections[client].away_until_ns.is_none() {
                    self.heard_ns = now_ns;
                }
                left -= usize::from(self.pump(client, load));
            }
            if now_ns.saturating_sub(self.heard_ns) > silence_ns {
                anyhow::bail!("nothing came back for {} s", silence.as_secs());
            }
        }
        Ok(())
    }

    /// How long the next poll may wait. A poll is not exact below a millisecond, so it ends a
    /// millisecond early.
    fn wait(&self, now_ns: u64) -> Duration {
        let next_ns = match self.timers.peek() {
            Some(Reverse((at_ns, _))) => *at_ns,
            None => return Duration::from_millis(500),
        };
        let wait = Duration::from_nanos(next_ns.saturating_sub(now_ns));
        match wait < Duration::from_millis(1) {
            true => Duration::ZERO,
            false => (wait - Duration::from_millis(1)).min(Duration::from_millis(500)),
        }
    }

    /// Sleeps for [`NAP`] if no timer is due yet. A loop that only looks at the clock would take a
    /// whole core from servers on the same machine.
    fn maybe_nap(&self) {
        let now_ns = self.now_ns();
        if self.timers.peek().is_none_or(|Reverse((at_ns, _))| *at_ns > now_ns) {
            std::thread::sleep(NAP);
        }
    }

    /// Ends each connection that has been silent for too long, if clients may connect again.
    fn give_silent_up(&mut self, now_ns: u64, load: &mut impl Load) {
        if self.reconnect.is_none() {
            return;
        }
        for client in 0..self.connections.len() {
            self.maybe_go_on(client, load);
            let connection = &mut self.connections[client];
            let timeout_ns = connection.session.timeout_ms() as u64 * 1_000_000;
            let limit_ns = match connection.session.is_open() {
                true => timeout_ns * 2 / 3,
                false => timeout_ns / self.addresses.len() as u64,
            };
            let is_here = connection.lost.is_none() && connection.away_until_ns.is_none();
            if is_here && now_ns.saturating_sub(connection.heard_ns) > limit_ns {
                connection.lose("silent for too long");
                self.maybe_go_on(client, load);
            }
        }
    }

    /// If a client's connection has ended and clients may connect again, plans its next attempt.
    fn maybe_go_on(&mut self, client: usize, load: &mut impl Load) {
        let now_ns = self.now_ns();
        let connection = &mut self.connections[client];
        let Some(reconnect) = &mut self.reconnect else { return };
        // Any other error means that the answer was not ZooKeeper's: a fault of the server, not an
        // outage.
        if !matches!(connection.lost, Some(SessionError::Refused | SessionError::Lost(_))) {
            return;
        }
        let error = connection.lost.take().expect("it was just looked at");
        let was_open = connection.session.is_open();
        let loss = Loss { error, was_open, unanswered: connection.session.under_way() };
        match loss.error {
            SessionError::Refused => {
                connection.session = Session::connect(connection.session.timeout_ms());
            }
            _ => connection.session.reconnect(),
        }
        // Closing the socket would also take it out of the poll, but the old stream is dropped only
        // later.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        let _ = connection.stream.shutdown(Shutdown::Both);
        let until_ns = now_ns + reconnect.random.below(reconnect.pause_ns_max.max(1));
        connection.away_until_ns = Some(until_ns);
        connection.is_blocked = true;
        connection.timer_ns = 0;
        self.timers.push(Reverse((until_ns, client)));
        load.on_lost(client, &loss, now_ns);
    }

    /// Dials the next address if the client has no connection and its pause is over.
    fn maybe_dial(&mut self, client: usize) {
        let now_ns = self.now_ns();
        let connection = &mut self.connections[client];
        if connection.away_until_ns.is_none_or(|until_ns| now_ns < until_ns) {
            return;
        }
        connection.away_until_ns = None;
        connection.heard_ns = now_ns;
        connection.place = (connection.place + 1) % self.addresses.len();
        match self.dial(self.connections[client].place, client) {
            Ok(stream) => self.connections[client].stream = stream,
            Err(error) => self.connections[client].lose(&error.to_string()),
        }
    }

    /// Sends a ping on each session that has heard nothing for a third of its timeout.
    fn ping(&mut self, now_ns: u64) {
        for client in 0..self.connections.len() {
            let connection = &mut self.connections[client];
            let third_ns = connection.session.timeout_ms() as u64 * 1_000_000 / 3;
            let is_due = connection.session.is_open()
                && connection.session.under_way() == 0
                && connection.lost.is_none()
                && now_ns.saturating_sub(connection.heard_ns) > third_ns;
            if is_due {
                connection.heard_ns = now_ns;
                connection.session.ping();
                connection.flush();
            }
        }
    }

    /// Reads from a client's socket and writes to it, as the event allows. True if the client
    /// finished by that.
    fn on_ready(&mut self, event: &Event, load: &mut impl Load) -> bool {
        let client = event.token().0;
        let connection = &mut self.connections[client];
        // The event may be a late one of a connection that has ended.
        if connection.lost.is_some() || connection.away_until_ns.is_some() {
            return false;
        }
        if event.is_writable() {
            connection.is_blocked = false;
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(client, event.is_read_closed(), load);
        }
        self.pump(client, load)
    }

    fn read(&mut self, client: usize, is_read_closed: bool, load: &mut impl Load) {
        let started = self.started;
        let connection = &mut self.connections[client];
        loop {
            let count = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return connection.lose("by the server"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return connection.lose(&error.to_string()),
            };
            connection.session.input().extend_from_slice(&self.buffer[..count]);
            let now_ns = started.elapsed().as_nanos() as u64;
            connection.heard_ns = now_ns;
            self.heard_ns = now_ns;
            loop {
                match connection.session.take() {
                    Ok(None) => break,
                    Ok(Some(Incoming::Connected | Incoming::Pong)) => {}
                    Ok(Some(Incoming::Reply { since_ns, header, body })) => {
                        load.on_reply(
                            client,
                            header,
                            body,
                            now_ns.saturating_sub(since_ns),
                            now_ns,
                        );
                    }
                    Ok(Some(Incoming::Event { kind, path })) => {
                        load.on_event(client, kind, path, now_ns);
                    }
                    Err(error) => {
                        connection.lost = Some(error);
                        return;
                    }
                }
            }
            if count < self.buffer.len() && !is_read_closed {
                // After a short read the socket is empty, or another event will come. After a full
                // read bytes may be left. And the end of the connection may have no event of its
                // own, so once the read side is closed the loop reads up to that end.
                return;
            }
        }
    }

    /// Lets a client send what its load wants to send. True if the client has finished now.
    fn pump(&mut self, client: usize, load: &mut impl Load) -> bool {
        let started = self.started;
        let mut now_ns = self.now_ns();
        let was_finished = self.connections[client].is_finished;
        self.maybe_dial(client);
        let connection = &mut self.connections[client];
        // The load is asked only once there is an open session to send on.
        let mut wants_more = connection.session.is_open() && !was_finished;
        if !wants_more {
            connection.flush();
        }
        while wants_more && connection.lost.is_none() {
            let mut next = Next::Sent;
            now_ns = started.elapsed().as_nanos() as u64;
            while next == Next::Sent && connection.session.output().len() < OUTPUT_BYTES {
                next = load.next(client, &mut connection.session, now_ns);
            }
            connection.flush();
            wants_more = next == Next::Sent && !connection.is_blocked;
            match next {
                Next::At(at_ns) if connection.timer_ns != at_ns => {
                    connection.timer_ns = at_ns;
                    self.timers.push(Reverse((at_ns, client)));
                }
                Next::Finished if connection.session.under_way() == 0 => {
                    connection.is_finished = true;
                    load.on_finished(client, now_ns);
                }
                _ => {}
            }
        }
        self.maybe_go_on(client, load);
        let connection = &mut self.connections[client];
        if connection.lost.is_some() && !connection.is_finished {
            connection.is_finished = true;
            load.on_finished(client, now_ns);
        }
        connection.is_finished && !was_finished
    }

    /// Closes every session by a request, so that the servers delete their ephemerals at once.
    pub fn close(mut self) {
        self.reconnect = None;
        for connection in &mut self.connections {
            if connection.away_until_ns.take().is_some() {
                connection.lose("and there is no other one yet");
            }
            connection.session.send(&zk::request::Request::CloseSession, 0);
            connection.flush();
        }
        // Ends when each session has its answer or its connection has ended. A server that does
        // neither is waited for five seconds.
        let _ = self.run_until(&mut Closing, Duration::from_secs(5));
    }
}

struct Closing;

impl Load for Closing {
    fn next(&mut self, _: usize, _: &mut Session, _: u64) -> Next {
        Next::Finished
    }

    fn on_reply(&mut self, _: usize, _: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {}
}

impl Connection {
    fn lose(&mut self, why: &str) {
        self.lost = Some(SessionError::Lost(why.to_string()));
    }

    fn flush(&mut self) {
        while !self.is_blocked && self.lost.is_none() && !self.session.output().is_empty() {
            match self.stream.write(self.session.output()) {
                Ok(count) => self.session.on_written(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.lose(&error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
