//! Draws faults and their times from a seed, and carries them out.

use std::time::Duration;

use workload::generate::Random;

use super::ensemble::Ensemble;
use super::load::TIMEOUT_MS;
use super::proxy::Cut;

/// Which member a fault hits.
#[derive(Clone, Copy, Debug)]
pub enum Whom {
    /// The member at this position.
    Member(usize),
    /// The leader at that time, or the member at this position if none says that it leads.
    Leader(usize),
}

/// A fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// SIGKILL; the members are started again at the end of the fault.
    Kill(Vec<Whom>),
    /// SIGKILL; the member is started again at the end of the fault without its data. This happens
    /// once in a run, because only one other member may have what this member forgets.
    Forget(Whom),
    /// SIGSTOP until the end of the fault.
    Pause(Whom),
    /// Cuts the connections between a member and all others.
    Isolate(Whom, Cut),
    /// Cuts the connections between two members, whichever of them opened them.
    Part(usize, usize, Cut),
    /// Cuts the connections between a member and its clients.
    CutClients(Whom, Cut),
    /// Breaks all connections between a member and its clients once.
    BreakClients(Whom),
    /// Breaks all connections between members once.
    BreakMembers,
}

/// A fault with its time.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Time from the start of the previous fault to the start of this one.
    pub pause: Duration,
    pub fault: Fault,
    /// How long the fault lasts.
    pub lasts: Duration,
    /// Whether bytes that a cut held back are lost when it ends.
    pub is_lossy: bool,
}

fn draw_cut(random: &mut Random) -> Cut {
    match random.below(4) {
        0 => Cut { there: true, back: false },
        1 => Cut { there: false, back: true },
        _ => Cut { there: true, back: true },
    }
}

fn draw_whom(random: &mut Random, count: usize) -> Whom {
    let any = random.below(count as u64) as usize;
    if random.one_in(2) { Whom::Leader(any) } else { Whom::Member(any) }
}

impl Planned {
    /// Draws the next fault for an ensemble of `count` members.
    pub fn draw(random: &mut Random, count: usize) -> Planned {
        let any = random.below(count as u64) as usize;
        let other = (any + random.between(1, (count as u64 - 1).max(1)) as usize) % count;
        let fault = match random.below(16) {
            // A single member has no connections to others.
            9..=12 | 15 if count == 1 => Fault::BreakClients(Whom::Member(any)),
            4 | 5 if count == 1 => Fault::Kill(vec![Whom::Member(any)]),
            0..=3 => Fault::Kill(vec![draw_whom(random, count)]),
            4 => Fault::Kill(vec![Whom::Member(any), Whom::Member(other)]),
            5 => Fault::Kill((0..count).map(Whom::Member).collect()),
            6..=8 => Fault::Pause(draw_whom(random, count)),
            9 | 10 => Fault::Isolate(draw_whom(random, count), draw_cut(random)),
            11 | 12 => Fault::Part(any, other, draw_cut(random)),
            13 => Fault::CutClients(draw_whom(random, count), draw_cut(random)),
            14 => Fault::BreakClients(draw_whom(random, count)),
            _ => Fault::BreakMembers,
        };
        // Half of the faults are shorter than any timeout; a few outlast a session.
        let lasts_ms = match random.below(8) {
            0..=3 => random.between(20, 800),
            4..=6 => random.between(800, TIMEOUT_MS),
            _ => random.between(TIMEOUT_MS, 2 * TIMEOUT_MS),
        };
        Planned {
            pause: Duration::from_millis(random.between(500, 4000)),
            fault,
            lasts: Duration::from_millis(lasts_ms),
            is_lossy: random.one_in(2),
        }
    }

    /// Draws a fault in which a member loses its data.
    pub fn forget(random: &mut Random, count: usize) -> Planned {
        let fault = Fault::Forget(draw_whom(random, count));
        Planned { fault, ..Planned::draw(random, count) }
    }
}

fn find(whom: Whom, ensemble: &Ensemble) -> usize {
    match whom {
        Whom::Member(own) => own,
        Whom::Leader(own) => ensemble.leader().unwrap_or(own),
    }
}

/// A fault that has begun, with the positions of the members that it hit.
pub struct Begun {
    planned: Planned,
    whom: Vec<usize>,
}

impl Begun {
    pub fn begin(planned: Planned, ensemble: &mut Ensemble) -> Begun {
        let whom: Vec<usize> = match &planned.fault {
            Fault::Kill(all) => all.iter().map(|whom| find(*whom, ensemble)).collect(),
            Fault::Forget(whom)
            | Fault::Pause(whom)
            | Fault::Isolate(whom, _)
            | Fault::CutClients(whom, _)
            | Fault::BreakClients(whom) => vec![find(*whom, ensemble)],
            Fault::Part(one, other, _) => vec![*one, *other],
            Fault::BreakMembers => Vec::new(),
        };
        match &planned.fault {
            Fault::Kill(_) => whom.iter().for_each(|own| ensemble.kill_nine(*own)),
            Fault::Forget(_) => ensemble.kill_nine(whom[0]),
            Fault::Pause(_) => ensemble.pause(whom[0], true),
            Fault::Isolate(_, cut) => isolate(ensemble, whom[0], *cut),
            Fault::Part(one, other, cut) => part(ensemble, *one, *other, *cut),
            Fault::CutClients(_, cut) => ensemble.cut_clients(whom[0], *cut),
            Fault::BreakClients(_) => ensemble.break_clients(whom[0]),
            Fault::BreakMembers => break_members(ensemble),
        }
        Begun { planned, whom }
    }

    pub fn end(self, ensemble: &mut Ensemble) {
        match self.planned.fault {
            Fault::Kill(_) => self.whom.iter().for_each(|own| ensemble.restart(*own)),
            Fault::Forget(_) => ensemble.forget(self.whom[0]),
            Fault::Pause(_) => ensemble.pause(self.whom[0], false),
            Fault::Isolate(..) => isolate(ensemble, self.whom[0], Cut::NONE),
            Fault::Part(one, other, _) => part(ensemble, one, other, Cut::NONE),
            Fault::CutClients(..) => {
                if self.planned.is_lossy {
                    ensemble.break_clients(self.whom[0]);
                }
                ensemble.cut_clients(self.whom[0], Cut::NONE);
                return;
            }
            Fault::BreakClients(_) | Fault::BreakMembers => return,
        }
        let is_cut = matches!(self.planned.fault, Fault::Isolate(..) | Fault::Part(..));
        if self.planned.is_lossy && is_cut {
            break_members(ensemble);
        }
    }

    pub fn lasts(&self) -> Duration {
        self.planned.lasts
    }
}

/// Cuts bytes from `one` to `other` if `there` is set, and bytes the other way if `back` is,
/// whichever of them opened the connection.
fn part(ensemble: &Ensemble, one: usize, other: usize, cut: Cut) {
    ensemble.cut_way(one, other, cut);
    ensemble.cut_way(other, one, Cut { there: cut.back, back: cut.there });
}

fn isolate(ensemble: &Ensemble, own: usize, cut: Cut) {
    for other in (0..ensemble.count()).filter(|other| *other != own) {
        part(ensemble, own, other, cut);
    }
}

fn break_members(ensemble: &Ensemble) {
    for from in 0..ensemble.count() {
        (0..ensemble.count()).filter(|to| *to != from).for_each(|to| ensemble.break_way(from, to));
    }
}

#[test]
fn one_seed_is_one_plan_with_everything_in_it() {
    let plan = |seed| {
        let mut random = Random::new(seed);
        let planned = (0..200).map(|_| format!("{:?}", Planned::draw(&mut random, 3)));
        planned.collect::<Vec<_>>()
    };
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7), plan(8));
    for kind in ["Kill", "Pause", "Isolate", "Part", "CutClients", "BreakClients", "BreakMembers"] {
        assert!(
            plan(7).iter().any(|planned| planned.contains(&format!("fault: {kind}"))),
            "{kind}"
        );
    }
}
