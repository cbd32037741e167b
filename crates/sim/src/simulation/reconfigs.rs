//! Operators that change the list of servers as ZooKeeper's clients do: by incremental and whole
//! lists, with observers among the joining servers, and so that removed servers serve on without a
//! vote (*guests*). Nobody waits for the answers of these requests; the judges look at the log.

use std::collections::BTreeMap;

use machine::control::list_change::{Asker, ChangeFlags, ChangeRequest, JoiningServer, ListChange};
use machine::{ServerList, ServerRole, ZkAddresses};
use workload::generate::Random;

use crate::member_changes::ReconfigLoad;

/// The operators' random choices, and the requests that they still make.
#[derive(Clone, Debug)]
pub(super) struct Reconfigs {
    random: Random,
    left: u64,
    rest_us_max: u64,
    /// The number of requests so far. Each request has its own number.
    count: u16,
}

impl Reconfigs {
    /// Operators that have asked for nothing.
    pub fn new(load: &ReconfigLoad) -> Reconfigs {
        let ReconfigLoad { seed, calls, rest_us_max } = *load;
        Reconfigs { random: Random::new(seed), left: calls, rest_us_max, count: 0 }
    }

    /// How long the operators wait until their next request, in us; `None` if they make none.
    pub fn next_us(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        Some(self.random.magnitude(10_000, self.rest_us_max))
    }

    /// Draws a request. `spare` are the numbers of servers that could join.
    pub fn draw(&mut self, list: &ServerList, spare: &[u64]) -> ChangeRequest {
        let random = &mut self.random;
        let listed: Vec<u64> = list.servers.keys().copied().collect();
        let change = match random.one_in(3) {
            true => {
                let mut all = BTreeMap::new();
                for (number, record) in &list.servers {
                    if !random.one_in(4) {
                        let zk = record.zk.clone().unwrap_or_else(|| addresses(*number, 0));
                        all.insert(*number, JoiningServer { role: record.role, zk });
                    }
                }
                if !spare.is_empty() && random.one_in(2) {
                    let number = *random.pick(spare);
                    all.insert(number, joining(number, random));
                }
                ListChange::Whole(all)
            }
            false => {
                let mut leaving = Vec::new();
                if !listed.is_empty() && random.one_in(2) {
                    leaving.push(*random.pick(&listed));
                }
                let mut servers = BTreeMap::new();
                for _ in 0..random.between(u64::from(leaving.is_empty()), 2) {
                    let from = match spare.is_empty() || random.one_in(3) {
                        true => &listed[..],
                        false => spare,
                    };
                    if let Some(number) = (!from.is_empty()).then(|| *random.pick(from)) {
                        servers.insert(number, joining(number, random));
                    }
                }
                leaving.retain(|number| !servers.contains_key(number));
                ListChange::Incremental { leaving, joining: servers }
            }
        };
        self.count += 1;
        // A forced change without a majority of the next voters would stay open for a minute.
        let stay = !random.one_in(4);
        let flags = ChangeFlags { is_strict: false, is_forced: false, stay };
        ChangeRequest {
            by: Asker::Operator,
            // The judges' copy of the list has other versions.
            version: None,
            flags,
            // Only an add looks at this number.
            learners_max: self.count,
            change,
        }
    }
}

/// A server that joins, or gets another role or another address.
fn joining(number: u64, random: &mut Random) -> JoiningServer {
    let role = if random.one_in(2) { ServerRole::Observer } else { ServerRole::Voter };
    JoiningServer { role, zk: addresses(number, random.below(2)) }
}

/// One of the addresses that a server can have. No two servers share one.
pub(super) fn addresses(number: u64, which: u64) -> ZkAddresses {
    let servers = format!("server{number}-{which}:2888:3888");
    ZkAddresses { servers, clients: Some(format!("server{number}-{which}:2181")) }
}
