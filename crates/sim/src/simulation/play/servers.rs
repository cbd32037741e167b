//! Scripts of ensembles whose servers change.

use std::collections::BTreeMap;

use machine::control::list_change::{Asker, ChangeFlags, ChangeRequest, JoiningServer, ListChange};
use machine::{Level, MemberId, ServerRole};

use super::Play;
use crate::fault::{Fault, Whom};
use crate::server::Server;
use crate::simulation::cluster::Cluster;
use crate::simulation::damage::Damage;
use crate::simulation::hosts::Hosts;
use crate::simulation::members::Changes;
use crate::simulation::reconfigs;
use crate::simulation::roster::Standing;

/// The servers as the output last showed them.
#[derive(Default)]
pub(super) struct Told {
    votes: String,
    list: String,
    change: &'static str,
    standings: Vec<Standing>,
    /// The number of requests so far. Each request has its own number.
    asked: u16,
}

impl Told {
    /// The servers of a cluster that the output has not shown yet.
    pub fn of(cluster: &Cluster) -> Told {
        let standings = cluster.hosts.iter().map(|host| host.place.standing).collect();
        Told { standings, change: change(&cluster.hosts), ..Told::default() }
    }
}

impl Play {
    /// Does a line about servers. Returns whether it is one.
    pub(super) fn servers_line(&mut self, words: &[&str]) -> bool {
        match *words {
            ["begin", who] => {
                let member = self.member(who);
                let cluster = &mut self.simulation.cluster;
                Changes::of(cluster).begin(member, true).expect("the server starts");
            }
            ["raise"] => {
                let leader = self.member("leader");
                let Cluster { hosts, world, .. } = &mut self.simulation.cluster;
                let server = hosts[leader].server.as_mut().expect("it runs");
                server.need(Level::MEMBERS, world);
                self.run_until("the level has risen", |it| {
                    let level = |host: &Server| host.machine().control().level().level;
                    it.simulation.cluster.hosts.servers().all(|it| level(it) >= Level::MEMBERS)
                });
            }
            ["list", who, ref listed @ ..] => self.ask(who, listed, false),
            ["stay", who, ref listed @ ..] => self.ask(who, listed, true),
            ["empty", who] => {
                let member = self.member(who);
                self.simulation.cluster.damage_now(member, Damage::Loss);
            }
            ["stop", who, ops] => {
                let ops = ops.parse().expect("a number is valid here");
                let whom = Whom::one(self.member(who));
                self.simulation.begin_fault(whom, Fault::StopAt { ops, power_is_cut: true });
            }
            _ => return false,
        }
        true
    }

    /// Asks a member for a whole list. If `stay`, removed servers serve on without a vote.
    fn ask(&mut self, who: &str, listed: &[&str], stay: bool) {
        let servers = listed.iter().map(|word| {
            let member = word.trim_end_matches('o');
            let number = member.parse::<u64>().expect("a number is valid here") + 1;
            let role = if member == *word { ServerRole::Voter } else { ServerRole::Observer };
            (number, JoiningServer { role, zk: reconfigs::addresses(number, 0) })
        });
        self.told.asked += 1;
        let request = ChangeRequest {
            by: Asker::Operator,
            version: None,
            flags: ChangeFlags { is_strict: false, is_forced: false, stay },
            // Only an add looks at this number.
            learners_max: self.told.asked,
            change: ListChange::Whole(servers.collect::<BTreeMap<_, _>>()),
        };
        let member = self.member(who);
        let Cluster { hosts, world, witness, .. } = &mut self.simulation.cluster;
        witness.members.on_asked(&request);
        let server = hosts[member].server.as_mut().expect("it runs");
        server.ask_change(&request, world);
    }

    /// Follows the list of servers, and writes to the output what has changed about the servers.
    pub(super) fn tell_servers(&mut self) {
        let cluster = &mut self.simulation.cluster;
        if cluster.options.changes.is_none() {
            return;
        }
        Changes::of(cluster).pursue_list(false).expect("no rule about members is broken");
        let cluster = &*cluster;
        for (member, told) in self.told.standings.iter_mut().enumerate() {
            let standing = cluster.hosts[member].place.standing;
            if core::mem::replace(told, standing) != standing {
                let what = if standing == Standing::Gone { "is gone" } else { "begins" };
                self.out.push(format!("member {member} {what}"));
            }
        }
        let change = change(&cluster.hosts);
        if core::mem::replace(&mut self.told.change, change) != change {
            self.out.push(change.to_string());
        }
        let votes = votes(cluster);
        if self.terms_told > 0 && votes != self.told.votes {
            self.out.push(format!("votes: {votes}"));
            self.told.votes = votes;
        }
        let list = list(cluster);
        if list != self.told.list {
            self.out.push(format!("the list is {list}"));
            self.told.list = list;
        }
    }
}

/// How far a change has come, in the newest state of a member.
fn change(hosts: &Hosts) -> &'static str {
    let servers = hosts.newest().map(|it| it.machine().control().servers());
    match servers.and_then(|it| it.open_change()) {
        None => "no change is open",
        Some(open) if open.is_accepted => "a change is accepted",
        Some(_) => "a change is asked for",
    }
}

/// The members that vote, as the member with the newest state knows.
fn votes(cluster: &Cluster) -> String {
    let Some(newest) = cluster.hosts.newest() else { return String::new() };
    let of = |id: &u64| match cluster.hosts.position(MemberId(*id)) {
        Some(member) => member.to_string(),
        None => "somebody".to_string(),
    };
    let mut votes: Vec<String> = newest.voters().iter().map(of).collect();
    votes.sort();
    let joint = if newest.is_joint() { ", and those of before" } else { "" };
    format!("{}{joint}", votes.join(" "))
}

/// The newest list that a change has made; `o` marks an observer.
fn list(cluster: &Cluster) -> String {
    let Some((_, list)) = cluster.witness.members.newest_list() else { return String::new() };
    let server = |(number, listed): (&u64, &_)| -> String {
        let listed: &crate::witness::members::Listed = listed;
        let mark = if listed.role == ServerRole::Observer { "o" } else { "" };
        format!("{}{mark}", number - 1)
    };
    list.iter().map(server).collect::<Vec<_>>().join(" ")
}

/// A server of two is removed, and one of them loses power at any operation of its disk meanwhile.
/// Whatever it had done, the ensemble goes on, and the change is done once or not at all.
#[test]
fn two_become_one_whenever_power_fails() {
    for who in ["leader", "follower"] {
        let mut count = 0;
        while lose_power(who, count + 1) {
            count += 1;
        }
        assert!(count > 5, "a {who} does {count} operations of its disk");
    }
}

/// Ends a process before operation `ops` of its disk, during the removal of the other server.
/// Returns whether the process did so many operations.
fn lose_power(who: &str, ops: u64) -> bool {
    let mut play = Play::new(2, Some("changing"));
    let mut lines = |lines: &[&str]| lines.iter().for_each(|line| play.line(line));
    lines(&["settle", "raise", "settle"]);
    let (leader, struck) = (play.member("leader"), play.member(who));
    let life = play.simulation.cluster.hosts[struck].life;
    let mut lines = |lines: &[&str]| lines.iter().for_each(|line| play.line(line));
    lines(&[&format!("stop {struck} {ops}"), &format!("list {leader} {leader}")]);
    // The removed server ends by itself after a second.
    lines(&["run 900ms"]);
    let has_ended = play.simulation.cluster.hosts[struck].life != life;
    if has_ended {
        play.line("run 20s");
        play.line("settle");
        let list = &play.told.list;
        let was_done = *list == leader.to_string();
        assert!(was_done || list.is_empty(), "{who}, {ops} operations: the list is {list}");
        assert_eq!(was_done, play.told.votes == leader.to_string(), "{who}, {ops} operations");
    }
    has_ended
}
