//! The differential test of etcd's protocol: sends equal, seeded requests to two servers. Each
//! response and each error must be equal.
//!
//! Some seeds first call all services other than keys and watches ([`services`]). Some change the
//! members ([`members`]). Some have users whose permissions change ([`users`]). Some first make
//! revisions so large that they are sent in fragments ([`fragments`]), and then have watches beside
//! the requests ([`watches`]).
//!
//! Requests go one at a time, each to both servers at once. Both servers must be at the same
//! revision at the start, for example fresh. Their revisions then stay equal through all seeds, so
//! revisions are compared as they are. A seed begins with a delete of all keys. Its requests mostly
//! name revisions after that delete.
//!
//! The reference server's answers are the expected ones; the other server is the one that is
//! tested.

pub mod fragments;
pub mod generate;
pub mod members;
pub mod request;
pub mod services;
pub mod users;
pub mod watches;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, ensure};
use etcd::pb::etcdserverpb as pb;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{Compared, Mismatch};
use crate::limits::{
    DIFFERENTIAL_ETCD_REQUESTS, DIFFERENTIAL_SHOWN, DIFFERENTIAL_SILENCE, MEMBER_CHANGE_LIMIT,
    MEMBER_CHANGE_PAUSE,
};
use crate::workloads::etcd::client::{Call, EtcdClient, runtime};
use crate::workloads::etcd::grpc::Answer;
use fragments::Fragments;
use generate::Generator;
use members::{Ids, MemberCall, Members};
use request::{Reply, Request, everything};
use services::Shown;
use users::{AuthCall, AuthReply, Next, Users};
use watches::{Difference, Watches};

/// The connections to both servers.
#[derive(Debug)]
pub struct Pair {
    runtime: Runtime,
    /// The reference server.
    expected: EtcdClient,
    /// The server in question.
    got: EtcdClient,
    /// A second connection to each (reference first), for watch streams.
    watching: (EtcdClient, EtcdClient),
    /// The addresses of both, reference first.
    addresses: (SocketAddr, SocketAddr),
    /// Whether both servers are known to judge changes of the members.
    judges_members: bool,
}

impl Pair {
    /// Connects to the reference server and to the server in question.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn connect(expected: SocketAddr, got: SocketAddr) -> anyhow::Result<Pair> {
        let runtime = runtime()?;
        let connect = || {
            runtime.block_on(async {
                anyhow::Ok((EtcdClient::connect(expected).await?, EtcdClient::connect(got).await?))
            })
        };
        let ((expected_client, got_client), watching) = (connect()?, connect()?);
        let (addresses, judges_members) = ((expected, got), false);
        let (expected, got) = (expected_client, got_client);
        Ok(Pair { runtime, expected, got, watching, addresses, judges_members })
    }

    /// Waits until both servers judge changes of the members. etcd refuses all changes for some
    /// seconds after its start, and Quorate until its level has risen. Done once.
    fn wait_for_members(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.judges_members {
            let list = ("cluster/member/list", services::Way::Grpc);
            let (expected, got) = self.ask_service(list, ("{}", "{}"))?;
            let probe = |list: &Shown| {
                let url = list.body.pointer("/members/0/peerURLs/0").and_then(Value::as_str);
                url.map(Members::probe).context("a list without a member")
            };
            let MemberCall { path, way, body } = probe(&expected)?;
            let bodies = (body.to_string(), probe(&got)?.body.to_string());
            let (expected, got) = self.ask_service((path, way), (&bodies.0, &bodies.1))?;
            self.judges_members = [&expected, &got].iter().all(|it| it.body == members::JUDGED);
            let is_late = began.elapsed() > MEMBER_CHANGE_LIMIT;
            ensure!(!is_late, "changes of the members are refused: {expected:?}, {got:?}");
            if !self.judges_members {
                std::thread::sleep(MEMBER_CHANGE_PAUSE);
            }
        }
        Ok(())
    }

    /// Sends a request to both servers. Returns the replies, the reference's first. `tokens` are a
    /// user's tokens, the reference server's first.
    fn ask(
        &mut self,
        request: &Request,
        tokens: Option<&(String, String)>,
    ) -> anyhow::Result<(Reply, Reply)> {
        let call = request.call()?;
        let of_expected = call.clone().with_token(tokens.map(|(expected, _)| &**expected))?;
        let of_got = call.with_token(tokens.map(|(_, got)| &**got))?;
        let (expected, got) = self.answers(&of_expected, &of_got)?;
        Ok((request.reply(expected)?, request.reply(got)?))
    }

    /// Makes a call of another service on both servers. Returns the answers, the reference's first.
    fn ask_service(
        &mut self,
        (path, way): (&str, services::Way),
        (for_expected, for_got): (&str, &str),
    ) -> anyhow::Result<(Shown, Shown)> {
        if way == services::Way::Gateway {
            let expected = services::ask_gateway(self.addresses.0, path, for_expected);
            let got = services::ask_gateway(self.addresses.1, path, for_got);
            return Ok((expected.context("the server that is right")?, got?));
        }
        let (method, of_expected) = services::grpc_call(path, for_expected)?;
        let (_, of_got) = services::grpc_call(path, for_got)?;
        let (expected, got) = self.answers(&of_expected, &of_got)?;
        Ok((services::of_grpc(method, expected)?, services::of_grpc(method, got)?))
    }

    fn answers(&mut self, of_expected: &Call, of_got: &Call) -> anyhow::Result<(Answer, Answer)> {
        let Pair { runtime, expected, got, .. } = self;
        let (expected, got) = runtime.block_on(async {
            tokio::join!(
                timeout(DIFFERENTIAL_SILENCE, expected.ask(of_expected)),
                timeout(DIFFERENTIAL_SILENCE, got.ask(of_got)),
            )
        });
        let expected = expected.context("silent")?.context("the server that is right")?;
        let got = got.context("silent")?.context("the server in question")?;
        Ok((expected, got))
    }
}

/// One in this many seeds has watches; such seeds take longer.
const WATCHES_ONE_IN: u64 = 10;

/// One in this many seeds has users.
const USERS_ONE_IN: u64 = 6;

/// Two in this many seeds call all other services, one seed for each order of the two
/// [`services::Way`]s.
const SERVICES_ONE_IN: u64 = 15;

/// One in this many seeds changes the members.
const MEMBERS_ONE_IN: u64 = 7;

/// How many requests end a seed: a delete of all keys and a compaction. The next seed reads old
/// revisions, and must not see this seed's keys.
const LAST_REQUESTS: usize = 2;

/// Runs one seed. Both servers are at the same revision before it, and after it unless they differ.
///
/// # Errors
/// A server does not answer, or its answer is not etcd's protocol.
pub fn run_seed(
    seed: u64,
    pair: &mut Pair,
    compared: &mut Compared,
) -> anyhow::Result<Option<Mismatch>> {
    let mut play = Play { seed, transcript: Vec::new(), last: VecDeque::new(), compared };
    let start = match play.ask(&Request::DeleteRange(everything()), None, pair)? {
        Asked::Same(reply) => reply.revision().context("a delete of all keys is refused")?,
        Asked::Differs(mismatch) => return Ok(Some(mismatch)),
    };
    if seed % SERVICES_ONE_IN < 2
        && let Some(mismatch) = play.compare_services(pair)?
    {
        return Ok(Some(mismatch));
    }
    if seed.is_multiple_of(MEMBERS_ONE_IN)
        && let Some(mismatch) = play.compare_members(pair)?
    {
        return Ok(Some(mismatch));
    }
    let mut generator = Generator::new(seed, start);
    if seed.is_multiple_of(WATCHES_ONE_IN)
        && let Some(mismatch) = play.compare_fragments(&mut generator, pair)?
    {
        return Ok(Some(mismatch));
    }
    if seed.is_multiple_of(USERS_ONE_IN)
        && let Some(mismatch) = play.compare_users(&mut generator, pair)?
    {
        return Ok(Some(mismatch));
    }
    let mut watches = seed.is_multiple_of(WATCHES_ONE_IN).then(|| Watches::new(seed, start));
    for number in 0..DIFFERENTIAL_ETCD_REQUESTS + LAST_REQUESTS {
        let request = match number.checked_sub(DIFFERENTIAL_ETCD_REQUESTS) {
            None => generator.request(),
            Some(0) => Request::DeleteRange(everything()),
            Some(_) => generator.compact_all(),
        };
        if let Some(watches) = &mut watches
            && matches!(request, Request::Compact(_))
            && let Some(mismatch) = play.settle(watches, &generator, pair)?
        {
            return Ok(Some(mismatch));
        }
        match play.ask(&request, None, pair)? {
            Asked::Same(reply) => generator.observe(&request, &reply),
            Asked::Differs(mismatch) => return Ok(Some(mismatch)),
        }
        if let Some(watches) = &mut watches
            && let Some(mismatch) = play.watch(watches, &generator, pair)?
        {
            return Ok(Some(mismatch));
        }
    }
    match &mut watches {
        Some(watches) => play.settle(watches, &generator, pair),
        None => Ok(None),
    }
}

/// The state of a running seed.
struct Play<'c> {
    seed: u64,
    transcript: Vec<String>,
    /// The newest lines of the transcript, shortened.
    last: VecDeque<String>,
    compared: &'c mut Compared,
}

enum Asked {
    /// Both servers gave this reply.
    Same(Reply),
    Differs(Mismatch),
}

impl Play<'_> {
    fn ask(
        &mut self,
        request: &Request,
        tokens: Option<&(String, String)>,
        pair: &mut Pair,
    ) -> anyhow::Result<Asked> {
        let number = self.compared.requests + 1;
        let by = tokens.map(|(token, _)| format!(" by {token}")).unwrap_or_default();
        let asked = format!("{number}{by} {request:?}");
        let (expected, got) = pair
            .ask(request, tokens)
            .with_context(|| format!("seed {}: no answer to {}", self.seed, shortened(&asked)))?;
        self.compared.requests = number;
        match expected {
            Reply::Error { .. } => self.compared.errors += 1,
            _ => self.compared.good_answers += 1,
        }
        let answer = format!("    {expected:?}");
        if expected == got {
            self.note(asked, answer);
            return Ok(Asked::Same(expected));
        }
        Ok(Asked::Differs(self.mismatch(asked, answer, &format!("{got:?}"))))
    }

    fn note(&mut self, asked: String, answer: String) {
        self.last.extend([shortened(&asked), shortened(&answer)]);
        self.last.drain(..self.last.len().saturating_sub(2 * DIFFERENTIAL_SHOWN));
        self.transcript.extend([asked, answer]);
    }

    /// Makes a call of the service `Auth` on both servers. Returns the tokens in the answers, or
    /// the difference.
    fn ask_auth(
        &mut self,
        call: &AuthCall,
        tokens: Option<&(String, String)>,
        pair: &mut Pair,
    ) -> anyhow::Result<Result<Option<(String, String)>, Mismatch>> {
        let number = self.compared.requests + 1;
        let by = tokens.map(|(token, _)| format!(" by {token}")).unwrap_or_default();
        let asked = format!("{number}{by} {} {}", call.name, call.shown);
        let of_expected = call.call(tokens.map(|(expected, _)| &**expected))?;
        let of_got = call.call(tokens.map(|(_, got)| &**got))?;
        let answers = pair.answers(&of_expected, &of_got);
        let (expected, got) = answers.with_context(|| format!("seed {}: {asked}", self.seed))?;
        let ((expected, token), (got, other)) = (call.reply(expected)?, call.reply(got)?);
        self.compared.requests = number;
        match expected {
            AuthReply::Error { .. } => self.compared.errors += 1,
            AuthReply::Good { .. } => self.compared.good_answers += 1,
        }
        let answer = format!("    {expected:?}");
        if expected != got {
            return Ok(Err(self.mismatch(asked, answer, &format!("{got:?}"))));
        }
        self.note(asked, answer);
        Ok(Ok(token.zip(other)))
    }

    /// Calls all services besides keys and watches, each call both ways (gateway and gRPC), and
    /// compares the answers.
    fn compare_services(&mut self, pair: &mut Pair) -> anyhow::Result<Option<Mismatch>> {
        let mut known = (services::Known::default(), services::Known::default());
        let [first, second] = services::ways(self.seed);
        let calls = services::CALLS.iter().flat_map(|call| [(call, first), (call, second)]);
        let last = services::LAST_CALLS.iter().map(|call| (call, first));
        for ((path, body), way) in calls.chain(last) {
            let bodies = (known.0.body(body, way), known.1.body(body, way));
            let number = self.compared.requests + 1;
            let asked = format!("{number} over {way:?} {path} {}", bodies.0);
            let answers = pair.ask_service((path, way), (&bodies.0, &bodies.1));
            let (mut expected, mut got) =
                answers.with_context(|| format!("seed {}: {asked}", self.seed))?;
            self.compared.requests = number;
            known.0.observe(&expected.body);
            known.1.observe(&got.body);
            match expected.status {
                0 | 200 => self.compared.good_answers += 1,
                _ => self.compared.errors += 1,
            }
            services::mask(path, &mut expected.body);
            services::mask(path, &mut got.body);
            let answer = format!("    {} {}", expected.status, expected.body);
            if expected != got {
                let got = format!("{} {}", got.status, got.body);
                return Ok(Some(self.mismatch(asked, answer, &got)));
            }
            self.note(asked, answer);
        }
        Ok(None)
    }

    /// Makes random calls about the members, and compares the answers. In the end each server is
    /// alone again.
    fn compare_members(&mut self, pair: &mut Pair) -> anyhow::Result<Option<Mismatch>> {
        pair.wait_for_members()?;
        let mut members = Members::new(self.seed);
        // A list shows each server's own id.
        let list = ("cluster/member/list", services::Way::Grpc);
        let (mut expected, mut got) = pair.ask_service(list, ("{}", "{}"))?;
        let mut ids = (Ids::default(), Ids::default());
        ids.0.mask(&mut expected.body);
        ids.1.mask(&mut got.body);
        for number in 0..=members::CALLS {
            let call = if number == 0 { members.first() } else { members.draw() };
            if let Some(mismatch) = self.ask_members(&call, &mut members, &mut ids, pair)? {
                return Ok(Some(mismatch));
            }
        }
        match members.last() {
            Some(call) => self.ask_members(&call, &mut members, &mut ids, pair),
            None => Ok(None),
        }
    }

    /// Makes a call about the members on both servers. Returns the difference.
    fn ask_members(
        &mut self,
        call: &MemberCall,
        members: &mut Members,
        ids: &mut (Ids, Ids),
        pair: &mut Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let MemberCall { path, body, way } = call;
        let number = self.compared.requests + 1;
        let asked = format!("{number} over {way:?} {path} {body}");
        let bodies = (ids.0.body(call)?, ids.1.body(call)?);
        let answers = pair.ask_service((path, *way), (&bodies.0, &bodies.1));
        let (mut expected, mut got) =
            answers.with_context(|| format!("seed {}: {asked}", self.seed))?;
        self.compared.requests = number;
        match expected.status {
            0 | 200 => self.compared.good_answers += 1,
            _ => self.compared.errors += 1,
        }
        ids.0.mask(&mut expected.body);
        ids.1.mask(&mut got.body);
        let answer = format!("    {} {}", expected.status, expected.body);
        if expected != got {
            let got = format!("{} {}", got.status, got.body);
            return Ok(Some(self.mismatch(asked, answer, &got)));
        }
        members.observe(&expected.body);
        self.note(asked, answer);
        Ok(None)
    }

    /// Makes random calls of users whose permissions change, and compares the answers. In the end
    /// all users are removed.
    fn compare_users(
        &mut self,
        generator: &mut Generator,
        pair: &mut Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let mut users = Users::new(self.seed);
        for call in users.first() {
            if let Err(mismatch) = self.ask_auth(&call, None, pair)? {
                return Ok(Some(mismatch));
            }
        }
        for _ in 0..users::CALLS {
            let tokens = users.tokens();
            match users.draw() {
                Next::Auth(call) => match self.ask_auth(&call, tokens.as_ref(), pair)? {
                    Ok(Some((expected, got))) => users.on_login(expected, got),
                    Ok(None) => {}
                    Err(mismatch) => return Ok(Some(mismatch)),
                },
                Next::Other => {
                    let request = generator.request();
                    match self.ask(&request, tokens.as_ref(), pair)? {
                        Asked::Same(reply) => generator.observe(&request, &reply),
                        Asked::Differs(mismatch) => return Ok(Some(mismatch)),
                    }
                }
            }
        }
        let tokens = match self.ask_auth(&users.login_of_root(), None, pair)? {
            Ok(tokens) => tokens,
            Err(mismatch) => return Ok(Some(mismatch)),
        };
        for (call, tokens) in std::iter::once((users.disable(), tokens.as_ref()))
            .chain(users.last().into_iter().map(|call| (call, None)))
        {
            if let Err(mismatch) = self.ask_auth(&call, tokens, pair)? {
                return Ok(Some(mismatch));
            }
        }
        Ok(None)
    }

    fn mismatch(&mut self, asked: String, answer: String, got: &str) -> Mismatch {
        let text = format!(
            "seed {} differs; before it:\n{}\nat request {}\n  right: {}\n  other: {}",
            self.seed,
            self.last.make_contiguous().join("\n"),
            shortened(&asked),
            shortened(answer.trim_start()),
            shortened(got),
        );
        self.transcript.extend([asked, answer]);
        let transcript = std::mem::take(&mut self.transcript);
        Mismatch { text, transcript }
    }

    /// Makes large revisions, and compares the fragments that watches get. Compacts in the end,
    /// since nothing reads the large values any more.
    fn compare_fragments(
        &mut self,
        generator: &mut Generator,
        pair: &mut Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let opened = pair.runtime.block_on(Fragments::open(&mut pair.watching));
        let mut fragments = opened.with_context(|| self.of_seed())?;
        for request in fragments::writes(self.seed) {
            match self.ask(&request, None, pair)? {
                Asked::Same(reply) => generator.observe(&request, &reply),
                Asked::Differs(mismatch) => return Ok(Some(mismatch)),
            }
            let difference = pair.runtime.block_on(fragments.compare());
            if let Some(difference) = difference.with_context(|| self.of_seed())? {
                return Ok(Some(self.watch_mismatch(difference)));
            }
        }
        self.compared.fragments += fragments.count;
        let (revision, _) = generator.revisions();
        let compact = Request::Compact(pb::CompactionRequest { revision, physical: true });
        match self.ask(&compact, None, pair)? {
            Asked::Same(reply) => generator.observe(&compact, &reply),
            Asked::Differs(mismatch) => return Ok(Some(mismatch)),
        }
        Ok(None)
    }

    /// Waits until all watches are settled, and compares what they have received.
    fn settle(
        &mut self,
        watches: &mut Watches,
        generator: &Generator,
        pair: &Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let (newest, _) = generator.revisions();
        let difference = pair.runtime.block_on(watches.settle(newest));
        self.compared.events += std::mem::take(&mut watches.event_count);
        Ok(difference.with_context(|| self.of_seed())?.map(|it| self.watch_mismatch(it)))
    }

    /// Makes a random step with watches.
    fn watch(
        &mut self,
        watches: &mut Watches,
        generator: &Generator,
        pair: &mut Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let Pair { runtime, watching, .. } = pair;
        let difference = runtime.block_on(watches.act(watching, generator.revisions()));
        self.compared.events += std::mem::take(&mut watches.event_count);
        Ok(difference.with_context(|| self.of_seed())?.map(|it| self.watch_mismatch(it)))
    }

    fn of_seed(&self) -> String {
        format!("seed {}: watches behind request {}", self.seed, self.compared.requests)
    }

    fn watch_mismatch(&mut self, difference: Difference) -> Mismatch {
        let Difference { asked, expected, got } = difference;
        let asked = format!("{}, of watches: {asked}", self.compared.requests);
        self.mismatch(asked, format!("    {expected}"), &got)
    }
}

/// The line; if it is very long, without its middle.
fn shortened(line: &str) -> String {
    let (head, tail): (Vec<char>, Vec<char>) =
        (line.chars().take(3_000).collect(), line.chars().rev().take(500).collect());
    let length = line.chars().count();
    if length <= head.len() + tail.len() {
        return line.to_string();
    }
    let (head, tail) = (String::from_iter(head), String::from_iter(tail.into_iter().rev()));
    format!("{head} ... {length} characters ... {tail}")
}

#[cfg(test)]
mod tests;
