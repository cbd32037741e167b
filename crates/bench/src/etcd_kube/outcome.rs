//! The figures of a run, and the checks: what watches missed, and which updates were lost.

use std::collections::HashMap;

use anyhow::ensure;
use bytes::Bytes;

use super::acts;
use super::cluster::Kind;
use super::run::{Answers, Run, What};
use super::value::Head;
use super::watcher::Seen;
use crate::client_etcd::Client;
use crate::figures::{Figure, Good, of_phase};
use crate::stats::{Latencies, Phase};

/// The names of the figures of each kind of call: how many, and their latencies.
const NAMES: [(What, [&str; 4]); What::COUNT] = [
    (What::Update, ["guarded updates", "update p50", "update p99", "update max"]),
    (What::Create, ["creates", "create p50", "create p99", "create max"]),
    (What::Delete, ["deletes", "delete p50", "delete p99", "delete max"]),
    (What::Event, ["events put", "event p50", "event p99", "event max"]),
    (What::Lease, ["leases granted", "grant p50", "grant p99", "grant max"]),
    (What::Get, ["gets", "get p50", "get p99", "get max"]),
    (What::Count, ["counts", "count p50", "count p99", "count max"]),
    (What::Page, ["pages of lists", "page p50", "page p99", "page max"]),
    (What::Compaction, ["compactions", "compaction p50", "compaction p99", "compaction max"]),
];

/// What a run has cost.
pub struct Cost {
    /// From when the first call was due to the last answer.
    pub elapsed_ns: u64,
    /// CPU of the servers, if they are on this machine.
    pub server_cpu_ns: Option<u64>,
    /// CPU of the thread with all clients and watches.
    pub own_cpu_ns: u64,
}

impl Cost {
    /// The rate, the CPU and the latencies.
    pub fn figures(&self, rate: f64, answers: &Answers) -> Vec<Figure> {
        let phase = Phase {
            operations: answers.tallies.iter().map(|it| it.answered).sum(),
            elapsed_ns: self.elapsed_ns,
            server_cpu_ns: self.server_cpu_ns,
            own_cpu_ns: self.own_cpu_ns,
            ..Phase::default()
        };
        let names = ["calls", "server CPU per call", "generator CPU per call"];
        let mut figures = vec![Figure::once("calls due", "per s", rate, Good::Neither)];
        figures.extend(of_phase(names, &phase));
        for (what, [count, p50, p99, max]) in NAMES {
            let tally = &answers.tallies[what as usize];
            figures.push(Figure::once(count, "", tally.answered as f64, Good::Neither));
            figures.extend(latencies([p50, p99, max], &tally.latencies));
        }
        let gap_ms = answers.gap_ns as f64 / 1e6;
        figures.push(Figure::once("longest gap without an answer", "ms", gap_ms, Good::Less));
        figures
    }
}

fn latencies(names: [&'static str; 3], of: &Latencies) -> [Figure; 3] {
    let us = [of.percentile_us(50.0), of.percentile_us(99.0), of.max_us()];
    core::array::from_fn(|at| Figure::once(names[at], "ms", us[at] / 1_000.0, Good::Less))
}

/// The delays of all watches together.
pub fn delays(seen: &[(Kind, Seen)]) -> Vec<Figure> {
    let mut all = Latencies::default();
    seen.iter().for_each(|(_, seen)| all.add(&seen.delays));
    let mut figures =
        vec![Figure::once("puts that watches saw", "", all.count() as f64, Good::Neither)];
    figures.extend(latencies(["watch delay p50", "watch delay p99", "watch delay max"], &all));
    figures
}

/// What the checks have found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Versions of keys that watches missed or saw twice.
    missed: u64,
    /// Events that were older than the one before.
    out_of_order: u64,
    /// Watches with other puts than were acknowledged.
    disagree: u64,
    /// Watches that the servers ended.
    ended: u64,
    /// Updates that were acknowledged and are not in the value.
    lost: u64,
    /// Updates in a value that were never sent.
    surplus: u64,
}

impl Account {
    /// Checks what the watches have seen, and reads all objects.
    ///
    /// # Errors
    /// A kind cannot be listed.
    pub async fn of(
        run: &Run,
        client: &mut Client,
        seen: &[(Kind, Seen)],
    ) -> anyhow::Result<Account> {
        let mut account = Account::default();
        for (kind, seen) in seen {
            let puts = run.objects.puts(*kind);
            account.missed += seen.missed;
            account.out_of_order += seen.out_of_order;
            account.disagree += u64::from(!puts.agree(seen.puts, seen.revision_sum));
            account.ended += u64::from(seen.has_ended);
        }
        for kind in [Kind::Leases, Kind::Nodes, Kind::Pods, Kind::EndpointSlices] {
            account.read(run, client, kind).await?;
        }
        Ok(account)
    }

    /// Compares the objects of a kind with what was acknowledged. An object that is not there has
    /// lost all its updates, and itself.
    async fn read(&mut self, run: &Run, client: &mut Client, kind: Kind) -> anyhow::Result<()> {
        let mut found: HashMap<Bytes, u64> = HashMap::new();
        let show = |kv: &etcd::pb::mvccpb::KeyValue| {
            let updates = Head::of(&kv.value).map_or(0, |head| head.updates);
            found.insert(kv.key.clone(), updates);
        };
        ensure!(acts::list(run, client, kind, run.now_ns(), show).await, "a list is refused");
        for object in run.objects.all(kind) {
            let (state, found) = (object.state(), found.get(&object.key));
            let (lost, surplus) = found.map_or((state.acknowledged + 1, 0), |it| state.judge(*it));
            self.lost += lost;
            self.surplus += surplus;
        }
        Ok(())
    }

    /// The counts, all of which should be 0.
    pub fn figures(&self, answers: &Answers) -> Vec<Figure> {
        let errors: u64 = answers.tallies.iter().map(|it| it.errors).sum();
        let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
        vec![
            count("conflicts of guarded updates", answers.conflicts),
            count("updates given up", answers.given_up),
            count("lists whose revision was compacted", answers.lists_compacted),
            count("errors and missing answers", errors),
            count("events missed", self.missed),
            count("events out of order", self.out_of_order),
            count("watches with other puts", self.disagree),
            count("watches ended", self.ended),
            count("guarded updates lost", self.lost),
            count("updates that were never sent", self.surplus),
        ]
    }

    /// How much of it must not be.
    pub fn trouble(&self) -> u64 {
        let Account { missed, out_of_order, disagree, ended, lost, surplus } = self;
        missed + out_of_order + disagree + ended + lost + surplus
    }
}
