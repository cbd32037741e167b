//! The figures of a run, and its checks: which events the watches missed, which updates were lost.

use std::collections::HashMap;

use anyhow::ensure;
use bytes::Bytes;

use super::acts;
use super::cluster::Kind;
use super::run::{Answers, CallKind, Counted, Run};
use super::value::Head;
use super::watcher::{Seen, Watched};
use crate::measure::figures::{Figure, Good, of_latencies, of_phase};
use crate::measure::stats::{Latencies, Phase};
use crate::workloads::etcd::client::EtcdClient;

/// The names of the figures of each kind of call: how many were answered, and latencies.
const NAMES: [(CallKind, [&str; 4]); CallKind::COUNT] = [
    (CallKind::Update, ["guarded updates", "update p50", "update p99", "update max"]),
    (CallKind::Create, ["creates", "create p50", "create p99", "create max"]),
    (CallKind::Delete, ["deletes", "delete p50", "delete p99", "delete max"]),
    (CallKind::Event, ["events put", "event p50", "event p99", "event max"]),
    (CallKind::Lease, ["leases granted", "grant p50", "grant p99", "grant max"]),
    (CallKind::Get, ["gets", "get p50", "get p99", "get max"]),
    (CallKind::Count, ["counts", "count p50", "count p99", "count max"]),
    (CallKind::Page, ["pages of lists", "page p50", "page p99", "page max"]),
    (CallKind::Compaction, ["compactions", "compaction p50", "compaction p99", "compaction max"]),
];

/// The cost of a run.
pub struct Cost {
    /// Time from the first due call until all calls were answered, ns.
    pub elapsed_ns: u64,
    /// CPU time of the servers, ns; `None` if they are not on this machine.
    pub server_cpu_ns: Option<u64>,
    /// CPU time of the thread that runs all clients and watches, ns.
    pub own_cpu_ns: u64,
}

impl Cost {
    /// The figures of rate, CPU and latencies. `rate` is the number of calls a second that were
    /// due.
    pub fn figures(&self, rate: f64, answers: &Answers) -> Vec<Figure> {
        let phase = Phase {
            operations: answers.tallies.iter().map(|it| it.answered).sum(),
            elapsed_ns: self.elapsed_ns,
            server_cpu_ns: self.server_cpu_ns,
            own_cpu_ns: self.own_cpu_ns,
            ..Phase::default()
        };
        let names = ["calls", "server CPU per call", "generator CPU per call"];
        let [calls, server_cpu, own_cpu] = of_phase(names, &phase);
        let due = Figure::once("calls due", "per s", rate, Good::Neither);
        let mut figures = vec![due, calls.of_open_loop(), server_cpu, own_cpu];
        for (kind, [count, p50, p99, max]) in NAMES {
            let tally = &answers.tallies[kind as usize];
            figures.push(Figure::once(count, "", tally.answered as f64, Good::Neither));
            figures.extend(of_latencies([p50, p99, max], &tally.latencies, Good::Less));
        }
        let gap_ms = answers.gap_ns as f64 / 1e6;
        figures.push(Figure::once("longest gap without an answer", "ms", gap_ms, Good::Less));
        figures
    }
}

/// The delays of the watch events, all watches together.
pub fn delays(seen: &[(Kind, Seen)]) -> Vec<Figure> {
    let mut all = Latencies::default();
    seen.iter().for_each(|(_, seen)| all.add(&seen.delays));
    let mut figures =
        vec![Figure::once("puts that watches saw", "", all.count() as f64, Good::Neither)];
    let names = ["watch delay p50", "watch delay p99", "watch delay max"];
    figures.extend(of_latencies(names, &all, Good::Less));
    figures
}

/// The results of the checks. All counters but `counts` must be 0.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Versions of keys that watches missed or saw twice.
    missed: u64,
    /// Events with a lower revision than an earlier one.
    out_of_order: u64,
    /// Watches that saw other puts than those acknowledged.
    disagree: u64,
    /// Keys on which a watch and the server disagree in the end, summed over the watches: for
    /// example after a delete that the watch missed.
    differences: u64,
    /// Counts, and first pages of lists, whose number of keys differs from what the watches saw.
    wrong_counts: u64,
    /// Counts and first pages that could be compared.
    counts: u64,
    /// Keys that exist although they were deleted or never created.
    surplus_keys: u64,
    /// Watches that a server ended.
    ended: u64,
    /// Updates that were acknowledged and are missing in the object's value.
    lost: u64,
    /// Updates in a value that were never sent.
    surplus: u64,
}

impl Account {
    /// Checks what the watches have seen, and reads all objects.
    ///
    /// # Errors
    /// The objects of a kind cannot be listed.
    pub async fn of(
        run: &Run,
        client: &mut EtcdClient,
        watched: &Watched,
        counts: &[Counted],
    ) -> anyhow::Result<Account> {
        let mut account = Account::default();
        for (kind, seen) in &watched.seen {
            let puts = run.objects.puts(*kind);
            account.missed += seen.missed;
            account.out_of_order += seen.out_of_order;
            account.disagree += u64::from(!puts.agree(seen.puts, seen.revision_sum));
            account.ended += u64::from(seen.has_ended);
        }
        for kind in Kind::ALL {
            let whole = watched.seen.iter().filter(|(of, seen)| *of == kind && !seen.has_ended);
            let whole: Vec<&Seen> = whole.map(|(_, seen)| seen).collect();
            let revision = watched.revisions[kind.place()];
            account.read(run, client, (kind, revision), &whole).await?;
            if let Some(seen) = whole.first() {
                account.judge_counts(counts.iter().filter(|it| it.kind == kind), seen);
            }
        }
        Ok(account)
    }

    /// Reads all keys of a kind at the revision at which its watches ended. Compares the keys with
    /// those of the watches, and the objects with what was acknowledged. If an object is missing,
    /// all its updates and its create count as lost.
    async fn read(
        &mut self,
        run: &Run,
        client: &mut EtcdClient,
        (kind, revision): (Kind, i64),
        seen: &[&Seen],
    ) -> anyhow::Result<()> {
        // For each key its version, and the updates that its value contains.
        let mut found: HashMap<Bytes, (i64, u64)> = HashMap::new();
        let show = |kv: &etcd::pb::mvccpb::KeyValue| {
            let updates = Head::of(&kv.value).map_or(0, |head| head.updates);
            found.insert(kv.key.clone(), (kv.version, updates));
        };
        let listed = acts::list(run, client, (kind, revision), run.now_ns(), show).await;
        ensure!(listed, "a list is refused");
        let version = |key: &Bytes| found.get(key).map(|(version, _)| *version);
        self.differences += seen.iter().map(|it| it.differences(found.len(), version)).sum::<u64>();
        let mut known = 1;
        for object in run.objects.all(kind) {
            let (state, found) = (object.state(), found.get(&object.key));
            let (lost, surplus) =
                found.map_or((state.acknowledged + 1, 0), |(_, updates)| state.judge(*updates));
            self.lost += lost;
            self.surplus += surplus;
            known += u64::from(found.is_some());
        }
        // Events are not kept as objects, since they go when their leases expire.
        if kind != Kind::Events {
            let beside = (found.len() as u64).saturating_sub(known);
            self.surplus_keys += beside.saturating_sub(run.objects.spare(kind));
        }
        Ok(())
    }

    /// Compares the counts of a kind with the number of keys that a watch saw at the same
    /// revisions.
    fn judge_counts<'a>(&mut self, counts: impl Iterator<Item = &'a Counted>, seen: &Seen) {
        for Counted { revision, keys, .. } in counts {
            let Some(expected) = seen.keys_at(*revision) else { continue };
            self.counts += 1;
            self.wrong_counts += u64::from(*keys != expected);
        }
    }

    /// The figures of the checks.
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
            count("keys that watches have otherwise", self.differences),
            count("counts compared with watches", self.counts),
            count("wrong counts", self.wrong_counts),
            count("deleted keys that are there", self.surplus_keys),
            count("watches ended", self.ended),
            count("guarded updates lost", self.lost),
            count("updates that were never sent", self.surplus),
        ]
    }

    /// How many things were found that must not happen.
    pub fn trouble(&self) -> u64 {
        let Account { missed, out_of_order, disagree, ended, lost, surplus, .. } = self;
        let Account { differences, wrong_counts, surplus_keys, .. } = self;
        let events = missed + out_of_order + disagree + ended + differences;
        events + lost + surplus + wrong_counts + surplus_keys
    }
}
