//! Equal seeded requests to two servers that speak etcd's protocol: every response and every error
//! must be equal.
//!
//! In some seeds there are streams of watches beside the requests, and some revisions before them
//! that are large enough for fragments.
//!
//! Requests go one at a time, each to both servers at once. Both must be fresh, or as far as each
//! other: their revisions stay equal through all seeds, so that numbers are compared as they are. A
//! seed begins with a delete of all keys, and refers to revisions from there on.

pub mod fragments;
pub mod generate;
pub mod request;
pub mod watches;

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::Context;
use etcd::pb::etcdserverpb as pb;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{Compared, Mismatch};
use crate::client_etcd::{Client, runtime};
use crate::limits::{DIFFERENTIAL_ETCD_REQUESTS, DIFFERENTIAL_SHOWN, DIFFERENTIAL_SILENCE};
use fragments::Fragments;
use generate::Generator;
use request::{Reply, Request, everything};
use watches::{Difference, Watches};

/// A connection to each of the two servers.
#[derive(Debug)]
pub struct Pair {
    runtime: Runtime,
    /// The server that is right.
    expected: Client,
    /// The server in question.
    got: Client,
    /// A connection to each for streams of watches.
    watching: (Client, Client),
}

impl Pair {
    /// Connects to the server that is right, and to the one in question.
    ///
    /// # Errors
    /// One does not answer.
    pub fn connect(expected: SocketAddr, got: SocketAddr) -> anyhow::Result<Pair> {
        let runtime = runtime()?;
        let connect = || {
            runtime.block_on(async {
                anyhow::Ok((Client::connect(expected).await?, Client::connect(got).await?))
            })
        };
        let ((expected_client, got_client), watching) = (connect()?, connect()?);
        Ok(Pair { runtime, expected: expected_client, got: got_client, watching })
    }

    /// The replies of the server that is right, and of the other.
    fn ask(&mut self, request: &Request) -> anyhow::Result<(Reply, Reply)> {
        let call = request.call()?;
        let Pair { runtime, expected, got, .. } = self;
        let (expected, got) = runtime.block_on(async {
            tokio::join!(
                timeout(DIFFERENTIAL_SILENCE, expected.ask(&call)),
                timeout(DIFFERENTIAL_SILENCE, got.ask(&call)),
            )
        });
        let expected = expected.context("silent")?.context("the server that is right")?;
        let got = got.context("silent")?.context("the server in question")?;
        Ok((request.reply(expected)?, request.reply(got)?))
    }
}

/// One in so many seeds has watches: they take longer than others.
const WATCHES_ONE_IN: u64 = 10;

/// The requests that end a seed: they hide its keys from the old revisions that the next one reads.
const LAST_REQUESTS: usize = 2;

/// Runs one seed. The servers are in step before and after it, unless they differ.
///
/// # Errors
/// A server does not answer, or not in etcd's protocol.
pub fn run_seed(
    seed: u64,
    pair: &mut Pair,
    compared: &mut Compared,
) -> anyhow::Result<Option<Mismatch>> {
    let mut play = Play { seed, transcript: Vec::new(), last: VecDeque::new(), compared };
    let start = match play.ask(&Request::DeleteRange(everything()), pair)? {
        Asked::Same(reply) => reply.revision().context("a delete of all keys is refused")?,
        Asked::Differs(mismatch) => return Ok(Some(mismatch)),
    };
    let mut generator = Generator::new(seed, start);
    if seed.is_multiple_of(WATCHES_ONE_IN)
        && let Some(mismatch) = play.compare_fragments(&mut generator, pair)?
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
        match play.ask(&request, pair)? {
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

/// A seed under way.
struct Play<'c> {
    seed: u64,
    transcript: Vec<String>,
    /// The newest lines of the transcript, cut short.
    last: VecDeque<String>,
    compared: &'c mut Compared,
}

enum Asked {
    /// The reply of both.
    Same(Reply),
    Differs(Mismatch),
}

impl Play<'_> {
    fn ask(&mut self, request: &Request, pair: &mut Pair) -> anyhow::Result<Asked> {
        let number = self.compared.requests + 1;
        let asked = format!("{number} {request:?}");
        let (expected, got) = pair
            .ask(request)
            .with_context(|| format!("seed {}: no answer to {}", self.seed, shortened(&asked)))?;
        self.compared.requests = number;
        match expected {
            Reply::Error { .. } => self.compared.errors += 1,
            _ => self.compared.good_answers += 1,
        }
        let answer = format!("    {expected:?}");
        if expected == got {
            self.last.extend([shortened(&asked), shortened(&answer)]);
            self.last.drain(..self.last.len().saturating_sub(2 * DIFFERENTIAL_SHOWN));
            self.transcript.extend([asked, answer]);
            return Ok(Asked::Same(expected));
        }
        Ok(Asked::Differs(self.mismatch(asked, answer, &format!("{got:?}"))))
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

    /// Makes large revisions, and compares the fragments that watches get. The values are compacted
    /// in the end: nothing reads them any more.
    fn compare_fragments(
        &mut self,
        generator: &mut Generator,
        pair: &mut Pair,
    ) -> anyhow::Result<Option<Mismatch>> {
        let opened = pair.runtime.block_on(Fragments::open(&mut pair.watching));
        let mut fragments = opened.with_context(|| self.of_seed())?;
        for request in fragments::writes(self.seed) {
            match self.ask(&request, pair)? {
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
        match self.ask(&compact, pair)? {
            Asked::Same(reply) => generator.observe(&compact, &reply),
            Asked::Differs(mismatch) => return Ok(Some(mismatch)),
        }
        Ok(None)
    }

    /// Compares what all watches have shown.
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

    /// Does something with watches.
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

/// A line without the middle of what is very long.
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
