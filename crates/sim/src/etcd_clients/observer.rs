//! Follows an election as `Election.Observe` does: a read of the leader, then a watch of its key
//! until that is deleted, then a read again.

use workload::etcd::history::History;
use workload::etcd::locks::Shown;
use workload::etcd::op::{Answer, KeyValue, Op};
use workload::etcd::watch::{Response, Wanted};

use super::recipe;

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It reads, or is to read, who leads.
    Asking,
    /// It waits for anybody who leads, from this revision on.
    Finding(i64),
    /// It watches the leader's key from this revision on.
    Following(Vec<u8>, i64),
}

/// One observer of an election.
#[derive(Debug)]
pub struct Observer {
    client: u32,
    name: Vec<u8>,
    stage: Stage,
    /// The line of its watch, while it has one.
    line: Option<usize>,
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(client: u32, name: &[u8]) -> Observer {
        Observer { client, name: name.to_vec(), stage: Stage::Asking, line: None }
    }

    /// The line of its watch, while it has one.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The read that it is to make now, if it is to make one.
    pub fn read(&self) -> Option<Op> {
        (self.stage == Stage::Asking).then(|| Op::Range(recipe::first_created(&self.name)))
    }

    /// The watch that it is to have now, if it has none.
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

    /// The watch is this line.
    pub fn on_watch(&mut self, line: usize) {
        self.line = Some(line);
    }

    /// Its read is answered, or lost.
    pub fn on_read(&mut self, answer: Option<&Answer>, history: &mut History) {
        let Some(Ok(response)) = answer else { return };
        match recipe::first_pair(response) {
            None => self.stage = Stage::Finding(response.revision()),
            Some(pair) => self.follow(pair, response.revision(), history),
        }
    }

    /// Something has come on its watch. Gives the line that it wants no longer.
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
