//! Scenarios 1 and 3: connections update znodes that nobody watches. Each connection goes through
//! its own paths in turn.

use zk::request::{CreateKind, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{AclEntry, ErrorCode, JuteReader};

use super::pace::Pace;
use super::{Kind, Shape};
use crate::measure::comparison::Turn;
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::figures::{Block, Figure, Good, of_mean_and_latencies, of_phase};
use crate::measure::meter::{Meter, Tally};
use crate::measure::stats::Phase;
use crate::workloads::zk::client::Session;
use crate::workloads::zk::latencies::EPHEMERAL;
use crate::workloads::zk::tree::{Tree, open_acl};

/// Runs one test on one target: first the warm-up items, then those that count.
///
/// # Errors
/// The server stays silent.
pub fn run(
    driver: &mut Driver,
    turn: &Turn<'_>,
    shape: &Shape,
    tree: &Tree,
    block: &mut Block,
) -> anyhow::Result<()> {
    for (name, items) in [("warm-up", shape.warmup), ("updates", shape.items)] {
        turn.say(name);
        let meter = Meter::start(driver, turn.target);
        let mut load = UpdateLoad::new(shape, tree, items, Pace::start(driver, shape.rate));
        driver.run(&mut load)?;
        let mut phase = meter.stop(driver, name, load.all());
        phase.elapsed_ns = load.pace.elapsed_ns(load.last_ns);
        block.blame(&phase);
        if name == "updates" {
            block.figures.extend(load.figures(&phase));
            block.latencies.push(("updates", phase.latencies.clone()));
        }
    }
    Ok(())
}

/// With `n` connections, connection `i % n` makes item `i`: by one setData, or by the create and
/// then the delete of an ephemeral.
struct UpdateLoad<'a> {
    tree: &'a Tree,
    acl: Vec<AclEntry>,
    /// The number of paths of each connection.
    paths: usize,
    items: u64,
    pace: Pace,
    is_ephemeral: bool,
    /// For each connection, how many requests it has sent.
    sent: Vec<u64>,
    /// For each connection, how many answers it has got.
    answered: Vec<u64>,
    /// The answers to creates, or to setData.
    firsts: Tally,
    deletes: Tally,
    last_ns: u64,
    path: String,
}

impl UpdateLoad<'_> {
    fn new<'a>(shape: &Shape, tree: &'a Tree, items: u64, pace: Pace) -> UpdateLoad<'a> {
        let none = vec![0; shape.connections.publishers];
        UpdateLoad {
            tree,
            acl: open_acl(),
            paths: shape.paths,
            items,
            pace,
            is_ephemeral: shape.kind == Kind::Ephemerals,
            sent: none.clone(),
            answered: none,
            firsts: Tally::default(),
            deletes: Tally::default(),
            last_ns: pace.start_ns,
            path: String::new(),
        }
    }

    /// The item that request `number` of a connection belongs to, counted among the connection's
    /// own items; and whether the request is the delete.
    fn item_of(&self, number: u64) -> (u64, bool) {
        if self.is_ephemeral { (number / 2, !number.is_multiple_of(2)) } else { (number, false) }
    }

    /// The answers to all requests in one tally.
    fn all(&self) -> Tally {
        let mut all = self.firsts.clone();
        all.answered += self.deletes.answered;
        all.errors += self.deletes.errors;
        all.latencies.add(&self.deletes.latencies);
        all
    }

    fn figures(&self, phase: &Phase) -> Vec<Figure> {
        let count = |name, value: u64| Figure::once(name, "", value as f64, Good::Neither);
        let done = self.firsts.answered - self.firsts.errors;
        let name = if self.is_ephemeral { "ephemerals created" } else { "items set" };
        let mut all = vec![
            count(name, done),
            count("failed requests", phase.errors),
            Figure::once("time", "s", phase.seconds(), Good::Neither),
        ];
        let names = ["updates", "server CPU per update", "generator CPU per update"];
        all.extend(of_phase(names, phase));
        if !self.is_ephemeral {
            let names =
                ["setData mean", "setData p50", "setData p90", "setData p99", "setData max"];
            all.extend(of_mean_and_latencies(names, &self.firsts.latencies));
            return all;
        }
        let names = ["update mean", "update p50", "update p90", "update p99", "update max"];
        all.extend(of_mean_and_latencies(names, &phase.latencies));
        let names = ["create mean", "create p50", "create p90", "create p99", "create max"];
        all.extend(of_mean_and_latencies(names, &self.firsts.latencies));
        let names = ["delete mean", "delete p50", "delete p90", "delete p99", "delete max"];
        all.extend(of_mean_and_latencies(names, &self.deletes.latencies));
        all
    }
}

impl Load for UpdateLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let clients = self.sent.len() as u64;
        let (own, is_delete) = self.item_of(self.sent[client]);
        let item = own * clients + client as u64;
        if item >= self.items {
            return Next::Finished;
        }
        // In open loop a delete is due half way to the connection's next create.
        let later = if is_delete { clients as f64 / 2.0 } else { 0.0 };
        let since_ns = match self.pace.since(item as f64 + later, session.under_way(), now_ns) {
            Ok(since_ns) => since_ns,
            Err(next) => return next,
        };
        self.sent[client] += 1;
        self.tree.child_of(&mut self.path, client, own as usize % self.paths);
        let (path, data) = (self.path.as_str(), Some(self.tree.data()));
        let request = if is_delete {
            WriteRequest::Delete { path, version: -1 }
        } else if self.is_ephemeral {
            let (kind, flags, ttl_ms) = (CreateKind::Create, EPHEMERAL, -1);
            WriteRequest::Create { kind, path, data, acl: self.acl.clone(), flags, ttl_ms }
        } else {
            WriteRequest::SetData { path, data, version: -1 }
        };
        session.send(&Request::Write(request), since_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        _: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        let (_, is_delete) = self.item_of(self.answered[client]);
        self.answered[client] += 1;
        self.last_ns = now_ns;
        let tally = if is_delete { &mut self.deletes } else { &mut self.firsts };
        tally.count(header.error == ErrorCode::OK, took_ns);
    }
}

#[cfg(test)]
mod tests;
