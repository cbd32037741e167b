//! Makes the requests for a higher level: planned ones, random ones, and a last one at the end of
//! the run. The last one must succeed soon if every member knows the level, and must not succeed
//! otherwise.

use super::Simulation;
use super::cluster::Cluster;
use super::levels::Question;
use crate::build::Ask;
use crate::fault::{Fault, Whom};
use crate::limits::{NO_RAISE_US, RAISE_US_MAX};
use crate::world::Event;

impl Simulation {
    /// Schedules the planned requests, and the first random one.
    pub(super) fn begin_asking(&mut self) {
        let Cluster { levels, world, .. } = &mut self.cluster;
        for (number, (at_us, _)) in levels.planned().iter().enumerate() {
            world.schedule(*at_us, Event::Ask { planned: Some(number) });
        }
        self.ask_later();
    }

    fn ask_later(&mut self) {
        let Cluster { levels, world, .. } = &mut self.cluster;
        if let Some(wait_us) = levels.draw_interval_us() {
            world.schedule(world.now_us + wait_us, Event::Ask { planned: None });
        }
    }

    /// Handles an [`Event::Ask`]: a planned request, or a random act, which may restart a server
    /// instead.
    pub(super) fn on_ask(&mut self, planned: Option<usize>) {
        if let Some(number) = planned {
            let ask = self.cluster.levels.planned().get(number).map(|(_, ask)| *ask);
            ask.into_iter().for_each(|ask| _ = self.ask(ask));
            return;
        }
        if self.course.is_calm() {
            return;
        }
        self.ask_later();
        let Cluster { levels, hosts, .. } = &mut self.cluster;
        if hosts.is_any_deceiving() {
            return;
        }
        match levels.draw_question(hosts) {
            Question::Restart(member) => self.begin_fault(Whom::one(member), Fault::Stop),
            Question::Raise { ask, is_struck_before, is_struck_after, apart_us } => {
                if is_struck_before {
                    self.strike(false);
                }
                let is_raising = self.ask(ask);
                if is_raising || is_struck_after {
                    let world = &mut self.cluster.world;
                    world.schedule(world.now_us + apart_us, Event::Strike { is_raising });
                }
            }
        }
    }

    /// Asks for a higher level. Returns whether an operator has just made the leader start a raise.
    fn ask(&mut self, ask: Ask) -> bool {
        let cluster = &mut self.cluster;
        match ask {
            Ask::OldBuild(member) => {
                cluster.hosts[member].build.wants_old = true;
                false
            }
            Ask::Client(member) => {
                let Some(server) = &mut cluster.hosts[member].server else { return false };
                if server.is_open() {
                    let level = cluster.levels.ask_as_client();
                    server.need(level, &mut cluster.world);
                    cluster.say(Some(member), || "a client needs a higher level".to_string());
                }
                false
            }
            Ask::Operator => {
                let Some(leader) = cluster.hosts.leaders().last().copied() else { return false };
                let Some(server) = &mut cluster.hosts[leader].server else { return false };
                let raised = server.upgrade(&mut cluster.world);
                cluster.levels.count_answer(&raised);
                cluster.say(Some(leader), || format!("an operator asks for a raise: {raised:?}"));
                raised.is_ok_and(|level| level > cluster.witness.levels.level())
            }
        }
    }

    /// Begins a fault close to a request for a higher level, unless the faults have stopped or a
    /// member deceives the others.
    pub(super) fn strike(&mut self, is_raising: bool) {
        let Cluster { levels, hosts, options, .. } = &mut self.cluster;
        if self.course.is_calm() || hosts.is_any_deceiving() || !options.faults.is_any() {
            return;
        }
        let (whom, fault) = levels.draw_strike(is_raising, hosts);
        self.begin_fault(whom, fault);
    }

    /// Asks for a raise after the faults have stopped. The raise must succeed soon if every member
    /// knows the level, and must not happen otherwise. Returns whether the result is still open.
    pub(super) fn ask_at_last(&mut self) -> Result<bool, String> {
        let Cluster { levels, hosts, witness, world, .. } = &mut self.cluster;
        let Some(new) = levels.level_of_new_builds() else { return Ok(false) };
        if witness.levels.level() >= new {
            self.cluster.check_levels()?;
            return Ok(false);
        }
        let now_us = world.now_us;
        let are_new = hosts.iter().all(|host| host.level_max() >= new);
        let (waited_us, ask) = levels.ask_at_last(hosts.len(), now_us);
        if let Some(ask) = ask {
            self.ask(ask);
        }
        match are_new {
            true if waited_us > RAISE_US_MAX => {
                let cluster = &mut self.cluster;
                let leader = cluster.hosts.leaders().last().copied();
                let server = leader.and_then(|leader| cluster.hosts[leader].server.as_mut());
                let answer = server.map(|server| server.upgrade(&mut cluster.world));
                let states = cluster.hosts.describe();
                Err(format!(
                    "the level that was asked for is not raised, the leader says {answer:?}: \
                     {states}"
                ))
            }
            true => Ok(true),
            false => Ok(waited_us <= NO_RAISE_US),
        }
    }
}
