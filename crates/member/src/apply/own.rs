//! Keeps the batches that this member handed over itself (its *own* batches) and that are not
//! applied yet: their sequence numbers, and the clients that wait for their outcomes.

use std::collections::VecDeque;

use machine::entry::Framed;
use machine::{BootId, Command, ConnectionId, ControlCommand, Machine, Origin};

use crate::message::{FrontId, Ticket, Unavailable, Waiter};

/// The command that replaces one that was given up.
pub(super) const NOTHING: Command<'static> = Command::Control(ControlCommand::Nothing);

/// This member's own batches. Loop announces each before its entry can be committed, and entries
/// bring them in that order.
pub(super) struct OwnBatches {
    origin: Origin,
    /// Batches under way, in the order of their sequences, and refused ones between them.
    expected: VecDeque<Expected>,
    /// The sequence of the last own batch that was applied.
    applied: u64,
    /// The sequence of the last own batch that Loop announced.
    announced: u64,
}

enum Expected {
    Batch { sequence: u64, front: Option<FrontId>, waiters: Vec<Waiter> },
    Refused { front: FrontId, waiters: VecDeque<Waiter>, reason: Unavailable },
}

/// A refused command whose caller has no answer yet.
pub(super) struct Refusal {
    /// The Front of the caller.
    pub front: FrontId,
    /// The caller.
    pub waiter: Waiter,
    /// The reason of the refusal.
    pub reason: Unavailable,
}

/// The own batch that is being applied: those of its waiters that have no answer yet.
pub(super) struct Expecting {
    sequence: u64,
    /// The number of waiters when the batch was begun.
    count: usize,
    front: Option<FrontId>,
    waiters: std::vec::IntoIter<Waiter>,
}

impl Expecting {
    /// The sequence of the batch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether a waiter takes the outcome of the next command: it exists and has not given up.
    #[inline]
    pub fn takes_next(&self) -> bool {
        self.waiters.as_slice().first().is_some_and(|waiter| !waiter.is_given_up)
    }

    /// Whether the next command of the batch is the one that its waiter handed over, or `Nothing`
    /// in place of a command that was given up. Loop reports that a command was given up before it
    /// puts `Nothing` in its place.
    #[inline]
    pub fn is_for_next(&self, framed: &Framed<'_>) -> bool {
        self.waiters.as_slice().first().is_none_or(|waiter| {
            waiter.connection == framed.connection
                && (waiter.is_given_up || framed.command != NOTHING)
        })
    }

    /// Takes the waiter of the next command of the batch, and its Front; `None` if there is no
    /// waiter, or it gave the command up.
    pub fn next(&mut self) -> Option<(FrontId, Waiter)> {
        let waiter = self.waiters.next()?;
        (!waiter.is_given_up).then_some((self.front?, waiter))
    }

    /// Whether every waiter's command was applied. To be asked at the end of the batch.
    pub fn is_complete(&self) -> bool {
        self.waiters.as_slice().is_empty()
    }

    /// The waiter of a command of the batch, by its position; `None` if the command is applied.
    pub fn waiter(&mut self, position: usize) -> Option<&mut Waiter> {
        let waiters = self.waiters.as_mut_slice();
        let done = self.count - waiters.len();
        waiters.get_mut(position.checked_sub(done)?)
    }
}

impl OwnBatches {
    /// The batches of a start that has handed over none yet.
    pub fn new(origin: Origin) -> OwnBatches {
        OwnBatches { origin, expected: VecDeque::new(), applied: 0, announced: 0 }
    }

    /// The id of this member and the number of its start.
    #[inline]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The sequence of the last own batch that was applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Notes that the own batch with this sequence is applied.
    pub fn on_applied(&mut self, sequence: u64) {
        self.applied = sequence;
    }

    /// Takes the waiters of an own batch that Loop is about to give to the leader.
    pub fn announce(&mut self, sequence: u64, front: Option<FrontId>, waiters: Vec<Waiter>) {
        self.announced = sequence;
        self.expected.push_back(Expected::Batch { sequence, front, waiters });
    }

    /// Takes the waiters of a refused batch. They are answered after everything handed over before.
    pub fn refuse(&mut self, front: FrontId, waiters: Vec<Waiter>, reason: Unavailable) {
        let waiters = waiters.into();
        self.expected.push_back(Expected::Refused { front, waiters, reason });
    }

    /// Takes the waiters of an own batch whose entry is being applied. `None` if this is not the
    /// batch that Loop announced next. A batch of an earlier boot is never asked for here: its
    /// origin differs, and it has no waiters left.
    pub fn begin(&mut self, wanted: u64) -> Option<Expecting> {
        match self.expected.pop_front() {
            Some(Expected::Batch { sequence, front, waiters }) if sequence == wanted => {
                let count = waiters.len();
                Some(Expecting { sequence, count, front, waiters: waiters.into_iter() })
            }
            _ => None,
        }
    }

    /// Whether refused commands are the next to be answered.
    #[inline]
    pub fn has_refusal(&self) -> bool {
        matches!(self.expected.front(), Some(Expected::Refused { .. }))
    }

    /// Takes the next refused command, once everything handed over before it is answered.
    pub fn next_refusal(&mut self) -> Option<Refusal> {
        while let Some(Expected::Refused { front, waiters, reason }) = self.expected.front_mut() {
            let (front, reason) = (*front, *reason);
            match waiters.pop_front() {
                Some(waiter) if !waiter.is_given_up => {
                    return Some(Refusal { front, waiter, reason });
                }
                Some(_) => {}
                None => _ = self.expected.pop_front(),
            }
        }
        None
    }

    /// Forgets the waiters of own batches up to `sequence`: a snapshot contains their effects, but
    /// their outcomes are not known.
    pub fn forget_up_to(&mut self, sequence: u64) {
        let last = self.expected.iter().rposition(|expected| {
            matches!(expected, Expected::Batch { sequence: own, .. } if *own <= sequence)
        });
        self.expected.drain(..last.map_or(0, |last| last + 1));
        self.applied = sequence;
    }

    /// Whether commands of clients were handed over, or are about to be, and are not applied.
    /// Loop's own commands are not counted: handing them over again does no harm.
    pub fn has_clients(&self) -> bool {
        let of_clients =
            |it: &Expected| matches!(it, Expected::Batch { front, .. } if front.is_some());
        self.expected.iter().any(of_clients)
    }

    /// Whether an own batch comes from a start of this member that this start has no record of: a
    /// later start, or another one with the same number. The directory is then an old copy.
    pub fn is_of_unknown_start(&self, boot: BootId, sequence: u64) -> bool {
        (boot, sequence) > (self.origin.boot, self.announced)
    }

    /// Whether the state holds a batch of this member. Only such a member has to end when the state
    /// forgets it. A member that came and went before any of its batches was applied is forgotten,
    /// too, but that does no harm: it may have come back since, and may even have a vote before it
    /// applies the entry that forgets it, but all batches that it has handed over are behind that
    /// entry.
    pub fn is_known(&self, machine: &Machine) -> bool {
        machine.control().last_batch(self.origin.member).is_some()
    }

    /// The waiter of a command of a batch that is not begun; `None` if there is no such batch.
    pub fn waiter(&mut self, wanted: u64, position: usize) -> Option<&mut Waiter> {
        self.expected.iter_mut().find_map(|expected| match expected {
            Expected::Batch { sequence, waiters, .. } if *sequence == wanted => {
                waiters.get_mut(position)
            }
            _ => None,
        })
    }

    /// The waiter of a refused command, and the reason of the refusal. The caller has no answer
    /// yet, since commands before it still wait.
    pub fn refused(
        &mut self,
        of_front: FrontId,
        connection: ConnectionId,
        ticket: Ticket,
    ) -> Option<(&mut Waiter, Unavailable)> {
        let is_wanted = |it: &&mut Waiter| (it.connection, it.ticket) == (connection, ticket);
        self.expected.iter_mut().find_map(|expected| match expected {
            Expected::Refused { front, waiters, reason } if *front == of_front => {
                Some((waiters.iter_mut().find(is_wanted)?, *reason))
            }
            _ => None,
        })
    }
}
