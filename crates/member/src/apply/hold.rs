//! Collects the output of one hold of the state's lock, step by step.

use machine::change::SharedChanges;
use machine::{Changes, ControlChange, LogIndex, Machine, Replacement};

use crate::limits::APPLY_HOLD_ANSWER_BYTES_MAX;
use crate::message::{Answer, Delivery, FromApply, FrontCounts, FrontId};
use crate::spaces::News;
use crate::watch_interest::WatchInterest;

/// The output of one hold of the state's lock, to be passed on before the lock is released.
#[derive(Debug, Default)]
pub struct ApplyOutput {
    /// Answers by Front. A Front without any still gets the changes.
    pub answers: Vec<(FrontId, Vec<Answer>)>,
    /// Changes for every Front, unless empty.
    pub changes: SharedChanges,
    /// Messages for Loop.
    pub to_loop: Vec<FromApply>,
    /// The state that was replaced. Dropping it takes long, so the driver does that where nobody
    /// has to wait for it.
    pub replaced: Option<Box<Machine>>,
    /// The leader's stamp of the last entry with an applied command, in ms since 1970.
    pub stamped_ms: Option<i64>,
}

impl ApplyOutput {
    /// Splits the output into a delivery for each Front that gets any. A Front of etcd's clients
    /// gets the changes only if one concerns it.
    pub fn deliveries(
        &mut self,
        fronts: FrontCounts,
        interest: &WatchInterest,
    ) -> Vec<(FrontId, Delivery)> {
        let mut deliveries = Vec::new();
        let none = SharedChanges::default();
        let Changes { control, zk, etcd, etcd_v2 } = &*self.changes;
        let is_watched = !etcd.keys().is_empty() || !etcd_v2.is_empty();
        let concerns_etcd = !control.is_empty() || etcd.concerns_all();
        let concerns_zk = !control.is_empty() || !zk.is_empty();
        let for_zk = if concerns_zk { &self.changes } else { &none };
        let zk = fronts.zk_fronts().map(|front| (front, for_zk));
        let etcd = fronts.etcd_fronts().map(|front| {
            let concerns = concerns_etcd || (is_watched && interest.has(front));
            (front, if concerns { &self.changes } else { &none })
        });
        for (front, changes) in zk.chain(etcd) {
            let at = self.answers.iter().position(|(for_front, _)| *for_front == front);
            let answers = at.map(|at| self.answers.swap_remove(at).1).unwrap_or_default();
            if !answers.is_empty() || !changes.is_empty() {
                deliveries.push((front, Delivery { changes: changes.clone(), answers }));
            }
        }
        assert!(self.answers.is_empty(), "every answer is for a Front that exists");
        deliveries
    }
}

/// The output of the steps since the last [`Hold::take`].
pub(super) struct Hold {
    output: ApplyOutput,
    changes: Changes,
    /// Bytes of answers to travelling reads in the output.
    answer_bytes: u64,
    /// The applied index that Loop was last told.
    reported_index: LogIndex,
    /// The most bytes that an image of the machine can have after the last step.
    image_bytes_max: u64,
}

impl Hold {
    /// An empty output of a member that has applied everything up to `index`.
    pub fn new(index: LogIndex) -> Hold {
        Hold {
            output: ApplyOutput::default(),
            changes: Changes::default(),
            answer_bytes: 0,
            reported_index: index,
            image_bytes_max: 0,
        }
    }

    /// Whether this hold has built as many answers to travelling reads as it may.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.answer_bytes >= APPLY_HOLD_ANSWER_BYTES_MAX
    }

    /// Bytes of answers to travelling reads in the output.
    pub fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Counts the bytes of an answer to a travelling read.
    #[inline]
    pub fn count_answer(&mut self, bytes: u64) {
        self.answer_bytes += bytes;
    }

    /// Adds an answer for a Front.
    #[inline]
    pub fn answer(&mut self, front: FrontId, answer: Answer) {
        match self.output.answers.iter_mut().find(|(other, _)| *other == front) {
            Some((_, list)) => list.push(answer),
            None => self.output.answers.push((front, vec![answer])),
        }
    }

    /// Adds a message for Loop.
    #[inline]
    pub fn tell(&mut self, message: FromApply) {
        self.output.to_loop.push(message);
    }

    /// The changes, for the machine to add to.
    #[inline]
    pub fn changes(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// Notes the leader's timestamp on the entry of a command that is applied.
    pub fn stamp(&mut self, time_ms: i64) {
        self.output.stamped_ms = Some(time_ms);
    }

    /// Takes a state that was replaced, if there is one.
    pub fn replaced(&mut self, machine: Option<Box<Machine>>) {
        self.output.replaced = machine.or(self.output.replaced.take());
    }

    /// Notes the most bytes that an image of the machine can have now.
    pub fn set_image_bytes_max(&mut self, bytes: u64) {
        self.image_bytes_max = bytes;
    }

    /// Takes the output. `last_index` is the index of the last whole entry, `own_sequence` the
    /// sequence of the last own batch that was applied.
    pub fn take(&mut self, last_index: LogIndex, own_sequence: u64) -> ApplyOutput {
        let mut output = core::mem::take(&mut self.output);
        self.answer_bytes = 0;
        output.changes = core::mem::take(&mut self.changes).into();
        // A turn of Loop may fall between two messages. `Applied` comes last, so that a leader that
        // has applied an entry knows the level and the servers as that entry left them.
        let mut first = Vec::new();
        let mut installed = None;
        for change in output.changes.control.iter() {
            match change {
                ControlChange::Servers(servers) => {
                    first.push(FromApply::Servers(servers.clone()));
                }
                ControlChange::Raised(level) => first.push(FromApply::Raised(level.clone())),
                ControlChange::Replaced { mark, by: Replacement::Image } => installed = Some(*mark),
                ControlChange::Replaced { by: Replacement::Snapshot, .. }
                | ControlChange::ListChangeEnded { .. } => {}
            }
        }
        let news = News::from_changes(&output.changes);
        if last_index != self.reported_index || !news.is_empty() {
            self.reported_index = last_index;
            let (index, image_bytes_max) = (last_index, self.image_bytes_max);
            first.push(FromApply::Applied {
                index,
                news,
                installed,
                image_bytes_max,
                own_sequence,
            });
        }
        output.to_loop.splice(0..0, first);
        output
    }
}
