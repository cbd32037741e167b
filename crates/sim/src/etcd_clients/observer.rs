//! Observes an election like `Election.Observe` of etcd's Go client: reads who leads, watches that
//! key until it is deleted, and reads again. While nobody leads, it watches for a new key.

use workload::etcd::history::History;
use workload::etcd::locks::Shown;
use workload::etcd::op::{Answer, KeyValue, Op};
use workload::etcd::watch::{Response, Wanted};

use super::recipe;

/// The state of an observer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The observer reads who leads.
    Asking,
    /// No candidate leads, so the observer watches for a new key from this revision on.
    Finding(i64),
    /// The observer watches the leader's key from this revision on.
    Following(Vec<u8>, i64),
}

/// One observer of an election.
#[derive(Debug)]
pub struct Observer {
    client: u32,
    name: Vec<u8>,
    stage: Stage,
    /// The line of the observer's watch; `None` without a watch.
    line: Option<usize>,
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(client: u32, name: &[u8]) -> Observer {
        Observer { client, name: name.to_vec(), stage: Stage::Asking, line: None }
    }

    /// The line of the observer's watch; `None` without a watch.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The read that the observer must make now; `None` if none.
    pub fn read(&self) -> Option<Op> {
        (self.stage == Stage::Asking).then(|| Op::Range(recipe::first_created(&self.name)))
    }

    /// The watch that the observer needs now; `None` if none, or if it has one.
    pub fn watch(&self) -> Option<Wanted> {
        let (key, range_end, start) = match &self.stage {
            _ if self.line.is_some() => return None,
            Stage::Asking => return None,
            Stage::Finding(start) => {
                (recipe::prefix(&self.name), recipe::prefix_end(&self.name), *start)
            }
            Stage::Following(key, start) => (key.clone(), Vec::new(), *start),
        };
        Some(Wanted { key, range_end, start, ..Wanted::default() })
    }

    /// The observer's watch exists, with this line.
    pub fn on_watch(&mut self, line: usize) {
        self.line = Some(line);
    }

    /// The observer's read was answered, or its answer was lost (`None`).
    pub fn on_read(&mut self, answer: Option<&Answer>, history: &mut History) {
        let Some(Ok(response)) = answer else { return };
        match recipe::first_pair(response) {
            None => self.stage = Stage::Finding(response.revision()),
            Some(pair) => self.follow(pair, response.revision(), history),
        }
    }

    /// A response arrived on the observer's watch. Returns the line of the watch if the observer no
    /// longer needs it.
    pub fn on_response(&mut self, response: &Response, history: &mut History) -> Option<usize> {
        if response.is_canceled {
            self.stage = Stage::Asking;
            self.line = None;
            return None;
        }
        for event in &response.events {
            match &self.stage {
                Stage::Finding(_) if !event.is_delete => {
                    self.follow(&event.pair, event.pair.mod_revision, history);
                    return self.line.take();
                }
                Stage::Following(..) if event.is_delete => {
                    self.stage = Stage::Asking;
                    return self.line.take();
                }
                Stage::Following(..) => self.show(&event.pair, history),
                _ => {}
            }
        }
        None
    }

    fn follow(&mut self, pair: &KeyValue, revision: i64, history: &mut History) {
        self.show(pair, history);
        self.stage = Stage::Following(pair.key.clone(), revision + 1);
    }

    fn show(&self, pair: &KeyValue, history: &mut History) {
        let (client, name) = (self.client, self.name.clone());
        let (token, revision) = (pair.create_revision, pair.mod_revision);
        history.shown.push(Shown { client, name, token, revision });
    }
}
