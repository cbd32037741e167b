//! A tree of znodes of a given shape, and how clients make, count and remove it. Several workloads
//! do this before or around what they measure.
//!
//! The tree has a root, *parents* below it, and *children* below each parent. Children are indexed
//! from 0 through all parents; all of them hold the same data.
//!
//! Each step of the work is a number of requests, shared between all clients. Client `c` of `n`
//! sends the requests with index `c`, `c + n`, `c + 2n` and so on, with at most
//! [`PIPELINE_REQUESTS`] under way.

pub mod steady;
pub mod traffic;

use std::fmt::Write;

use clap::Args;
use zk::request::{CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ReplyHeader, decode_stat};
use zk::{AclEntry, ErrorCode, JuteReader};

use crate::limits::{CLIENTS_MAX, DATA_BYTES_MAX, PIPELINE_REQUESTS, TREE_ZNODES_MAX};
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::meter::{Meter, Tally};
use crate::measure::stats::Phase;
use crate::servers::target::Target;
use crate::workloads::zk::client::Session;

/// Options of workloads that fill a tree.
#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    /// Znodes below the root of the test
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub parents: usize,
    /// Znodes below each parent
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pub children: usize,
    /// Bytes of data in each child
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub size: usize,
    /// Sessions that fill the tree
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub clients: usize,
    /// Leave the tree there at the end
    #[arg(long)]
    pub keep: bool,
}

impl TreeArgs {
    /// Checks the options, and names the first one that is impossible.
    ///
    /// # Errors
    /// An option asks for something impossible.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, number, max) in [
            ("parents", self.parents, TREE_ZNODES_MAX),
            ("children", self.children, TREE_ZNODES_MAX),
            ("parents times --children", self.znode_count(), TREE_ZNODES_MAX),
            ("clients", self.clients, CLIENTS_MAX),
        ] {
            anyhow::ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
        }
        let (bytes, max) = (self.size, DATA_BYTES_MAX);
        anyhow::ensure!(bytes <= max, "--size: {bytes} is more than {max}");
        Ok(())
    }

    /// The number of children below all parents.
    pub fn znode_count(&self) -> usize {
        self.parents.saturating_mul(self.children)
    }
}

impl std::fmt::Display for TreeArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TreeArgs { parents, children, size, clients, .. } = self;
        let count = self.znode_count();
        write!(f, "{count} znodes, {parents} x {children} of {size} bytes, by {clients} clients")
    }
}

/// A step over the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    MakeRoot,
    MakeParents,
    MakeChildren,
    Sync,
    Count,
    RemoveChildren,
    RemoveParents,
    RemoveRoot,
}

/// A tree on one target, and which of its creates the servers have acknowledged.
#[derive(Clone, Debug)]
pub struct Tree {
    root: String,
    parents: usize,
    children: usize,
    data: Vec<u8>,
    /// For each parent, how many creates of its children were acknowledged.
    acknowledged: Vec<u32>,
    /// The index of the child whose create was acknowledged last.
    last: usize,
}

/// The result of counting the children of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Children that were found, below all parents.
    pub found: u64,
    /// Children that were acknowledged and not found.
    pub missing: u64,
    /// Children that were found and not acknowledged.
    pub surplus: u64,
}

impl Tree {
    /// A tree that does not exist on the server yet. `label` makes its root differ from any other.
    pub fn new(args: &TreeArgs, label: &str) -> Tree {
        Tree {
            root: format!("/bench-{label}"),
            parents: args.parents,
            children: args.children,
            data: vec![b'x'; args.size],
            acknowledged: vec![0; args.parents],
            last: 0,
        }
    }

    /// The number of children below all parents.
    pub fn znode_count(&self) -> usize {
        self.parents * self.children
    }

    /// The path of the root. All other paths begin with it.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The data that each child holds.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Writes the path of the child with this index into `path`.
    pub fn child(&self, path: &mut String, index: usize) {
        self.child_of(path, index / self.children, index % self.children);
    }

    /// Writes the path of child `number` of parent `parent` into `path`. The tree need not have
    /// this child: a workload may create it itself.
    pub fn child_of(&self, path: &mut String, parent: usize, number: usize) {
        path.clear();
        write!(path, "{}/p{parent}/c{number}", self.root).expect("a String takes everything");
    }

    /// The path of the child whose create was acknowledged last.
    pub fn last_child(&self) -> String {
        let mut path = String::new();
        self.child(&mut path, self.last);
        path
    }

    /// Makes the tree. The phase covers only the creates of the children.
    ///
    /// # Errors
    /// The server stays silent, or refuses the root or a parent.
    pub fn make(&mut self, driver: &mut Driver, target: &Target) -> anyhow::Result<Phase> {
        for step in [Step::MakeRoot, Step::MakeParents] {
            let made = self.step(driver, target, step, "make parents")?.0;
            let is_made = made.errors == 0 && made.operations == self.request_count(step) as u64;
            anyhow::ensure!(is_made, "the parents of the tree cannot be made below {}", self.root);
        }
        Ok(self.step(driver, target, Step::MakeChildren, "fill")?.0)
    }

    /// Asks each parent how many children it has. Each session sends a sync first: in an ensemble
    /// its server may not have applied yet what other sessions wrote.
    ///
    /// # Errors
    /// The server stays silent, or refuses a sync.
    pub fn count(
        &mut self,
        driver: &mut Driver,
        target: &Target,
    ) -> anyhow::Result<(Phase, Count)> {
        let synced = self.step(driver, target, Step::Sync, "sync")?.0;
        anyhow::ensure!(synced.errors == 0, "sync is answered with an error");
        self.step(driver, target, Step::Count, "count")
    }

    /// Removes the tree. The phase covers only the deletes of the children.
    ///
    /// # Errors
    /// The server stays silent.
    pub fn remove(&mut self, driver: &mut Driver, target: &Target) -> anyhow::Result<Phase> {
        let phase = self.step(driver, target, Step::RemoveChildren, "remove")?.0;
        for step in [Step::RemoveParents, Step::RemoveRoot] {
            self.step(driver, target, step, "remove parents")?;
        }
        Ok(phase)
    }

    fn step(
        &mut self,
        driver: &mut Driver,
        target: &Target,
        step: Step,
        name: &'static str,
    ) -> anyhow::Result<(Phase, Count)> {
        let meter = Meter::start(driver, target);
        let sent = vec![0; driver.client_count()];
        let mut load = TreeLoad {
            step,
            request_count: match step {
                Step::Sync => sent.len(),
                _ => self.request_count(step),
            },
            answered: sent.clone(),
            sent,
            acl: open_acl(),
            tree: self,
            count: Count::default(),
            tally: Tally::default(),
            path: String::new(),
        };
        driver.run(&mut load)?;
        let (tally, count) = (load.tally, load.count);
        Ok((meter.stop(driver, name, tally), count))
    }

    fn request_count(&self, step: Step) -> usize {
        match step {
            Step::MakeRoot | Step::RemoveRoot | Step::Sync => 1,
            Step::MakeParents | Step::Count | Step::RemoveParents => self.parents,
            Step::MakeChildren | Step::RemoveChildren => self.znode_count(),
        }
    }

    fn path_of(&self, path: &mut String, step: Step, index: usize) {
        path.clear();
        match step {
            Step::MakeRoot | Step::RemoveRoot | Step::Sync => path.push_str(&self.root),
            Step::MakeParents | Step::Count | Step::RemoveParents => {
                write!(path, "{}/p{index}", self.root).expect("a String takes everything");
            }
            Step::MakeChildren | Step::RemoveChildren => self.child(path, index),
        }
    }
}

/// The ACL that lets everybody do everything.
pub fn open_acl() -> Vec<AclEntry> {
    vec![AclEntry { perms: 31, scheme: "world".into(), id: "anyone".into() }]
}

struct TreeLoad<'a> {
    step: Step,
    /// The number of requests of all clients in this step. A sync step has one for each client.
    request_count: usize,
    tree: &'a mut Tree,
    acl: Vec<AclEntry>,
    /// For each client, how many requests it has sent.
    sent: Vec<usize>,
    /// For each client, how many answers it has got.
    answered: Vec<usize>,
    count: Count,
    tally: Tally,
    path: String,
}

impl Load for TreeLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let index = self.sent[client] * self.sent.len() + client;
        if index >= self.request_count {
            return Next::Finished;
        }
        if session.under_way() >= PIPELINE_REQUESTS {
            return Next::Wait;
        }
        self.sent[client] += 1;
        self.tree.path_of(&mut self.path, self.step, index);
        let path = self.path.as_str();
        let create = |data| {
            let (kind, acl, flags, ttl_ms) = (CreateKind::Create, self.acl.clone(), 0, -1);
            Request::Write(WriteRequest::Create { kind, path, data, acl, flags, ttl_ms })
        };
        let request = match self.step {
            Step::MakeRoot | Step::MakeParents => create(None),
            Step::MakeChildren => create(Some(&self.tree.data)),
            Step::Sync => Request::Sync { path: Some(path) },
            Step::Count => {
                let (kind, watch) = (ReadKind::Exists, false);
                Request::Read(ReadRequest { kind, path, watch })
            }
            Step::RemoveChildren | Step::RemoveParents | Step::RemoveRoot => {
                Request::Write(WriteRequest::Delete { path, version: -1 })
            }
        };
        session.send(&request, now_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        mut body: JuteReader<'_>,
        took_ns: u64,
        _: u64,
    ) {
        let index = self.answered[client] * self.sent.len() + client;
        self.answered[client] += 1;
        let is_done = header.error == ErrorCode::OK;
        let is_right = match self.step {
            Step::MakeChildren if is_done => {
                self.tree.acknowledged[index / self.tree.children] += 1;
                self.tree.last = index;
                self.tree.child(&mut self.path, index);
                body.text() == Ok(self.path.as_str())
            }
            Step::Count => {
                let found = decode_stat(&mut body).map_or(0, |stat| stat.child_count.max(0) as u32);
                let found = if is_done { found } else { 0 };
                let due = self.tree.acknowledged[index];
                self.count.found += u64::from(found);
                self.count.missing += u64::from(due.saturating_sub(found));
                self.count.surplus += u64::from(found.saturating_sub(due));
                is_done && found == due
            }
            _ => is_done,
        };
        self.tally.count(is_right, took_ns);
    }
}

#[cfg(test)]
mod tests;
