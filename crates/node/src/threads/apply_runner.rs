//! Runs Apply on a thread of the node, one hold of the state's lock at a time.

use std::sync::atomic::Ordering;
use std::time::Instant;

use machine::Changes;
use member::Apply;
use member::limits::APPLY_HOLD_COMMANDS_MAX;
use member::message::{LoopInput, ToApply};

use super::Shared;
use crate::limits::{APPLY_HOLD, APPLY_STEP_COMMANDS};

/// Apply, and the input that it has not taken yet.
pub(crate) struct ApplyRunner {
    apply: Apply,
    inputs: Vec<ToApply>,
    listener: ChangeListener,
}

/// Called with the changes of each hold of the state's lock, after the lock is released. The flag
/// tells whether clients are served already. Used for the program's log; must return quickly.
pub type ChangeListener = Box<dyn FnMut(&Changes, bool) + Send>;

impl ApplyRunner {
    pub fn new(apply: Apply, listener: ChangeListener) -> ApplyRunner {
        ApplyRunner { apply, inputs: Vec::new(), listener }
    }

    /// Runs one hold of the state's lock. Returns whether there is more to do.
    pub fn hold(&mut self, shared: &Shared) -> bool {
        shared.to_apply.take_now(&mut self.inputs);
        self.inputs.drain(..).for_each(|input| self.apply.receive(input));
        if !self.apply.has_work() {
            return false;
        }
        let mut machine = shared.machine.write();
        let held_since = Instant::now();
        let mut count = 0;
        while self.apply.has_work() && count < APPLY_HOLD_COMMANDS_MAX {
            count += self.apply.step(&mut machine, APPLY_STEP_COMMANDS);
            if held_since.elapsed() >= APPLY_HOLD {
                break;
            }
        }
        let mut output = self.apply.take_output();
        let deliveries = output.deliveries(shared.front_counts, self.apply.watch_interest());
        let is_serving = shared.serving.load(Ordering::Acquire);
        if let Some(stamped_ms) = output.stamped_ms.filter(|_| is_serving) {
            shared.note_propagation(stamped_ms);
        }
        if is_serving {
            for (front, delivery) in deliveries {
                let is_urgent = delivery.is_urgent();
                shared.fronts[front.0 as usize].push(delivery, is_urgent);
            }
        }
        drop(machine);
        if output.replaced.take().is_some() {
            tracing::warn!("the state was replaced by a snapshot");
        }
        (self.listener)(&output.changes, is_serving);
        shared.to_loop.push_quietly(output.to_loop.into_iter().map(LoopInput::Apply));
        self.apply.has_work()
    }
}
