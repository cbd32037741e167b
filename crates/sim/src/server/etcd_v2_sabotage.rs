//! Deliberate mistakes with etcd v2. The judge must notice each of them.

use std::sync::Arc;

use etcd::v2::Ask;
use machine::etcd_v2::change::DeadlineChange;
use machine::etcd_v2::reply::{Reason, Refusal};
use member::fronts::etcd::{EtcdOutput, V2Found, V2Result, V2Waited};
use member::spaces::etcd_v2::News;

use crate::etcd_clients::network::FromClient;
use crate::world::World;

/// A deliberate mistake with etcd v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V2Sabotage {
    /// The first of several events of a wait is lost.
    EventsLost,
    /// Some events of waits come twice.
    EventsDoubled,
    /// Reads with a quorum are served without one.
    ReadsUnconfirmed,
    /// Some writes that took effect are answered as refused.
    WritesRefused,
    /// Some writes are answered with a wrong index.
    IndexesForged,
    /// Some reads return a wrong index.
    ReadIndexesForged,
    /// Loop believes that each node has a shorter time to live than it was given.
    LivesShortened,
    /// Loop does not learn of times to live.
    LivesUntold,
    /// Some waits are refused as if the history no longer held their events.
    WaitsRefused,
}

impl V2Sabotage {
    /// Changes a client's message on its way to the Front.
    pub(super) fn message(self, message: &mut FromClient) {
        if let FromClient::V2(_, request) = message
            && let Ask::Get { is_quorum, .. } = &mut request.ask
            && self == V2Sabotage::ReadsUnconfirmed
        {
            *is_quorum = false;
        }
    }

    /// Changes some results of reads and writes.
    pub(super) fn result(self, result: &mut V2Result, world: &mut World) {
        if !world.random.one_in(10) {
            return;
        }
        match (self, &mut *result) {
            (V2Sabotage::WritesRefused, Ok(V2Found::Written(event))) => {
                let reason = Reason::KeyExists(event.key.as_ref().into());
                *result = Err(Refusal { reason, index: event.index() });
            }
            (V2Sabotage::IndexesForged, Ok(V2Found::Written(event))) => {
                Arc::make_mut(event).node.modified += 1;
            }
            (V2Sabotage::ReadIndexesForged, Ok(V2Found::Node(found))) => found.index += 1,
            _ => {}
        }
    }

    /// Changes what the Front sends to clients.
    pub(super) fn output(self, output: &mut EtcdOutput, world: &mut World) {
        for (_, result) in &mut output.v2_results {
            self.result(result, world);
        }
        for (_, waited) in &mut output.v2_waited {
            match (self, &*waited) {
                (V2Sabotage::WaitsRefused, V2Waited::Begun { index })
                    if world.random.one_in(10) =>
                {
                    let reason = Reason::HistoryCleared { first: *index, asked: 0 };
                    *waited = V2Waited::Refused(Refusal { reason, index: *index });
                }
                _ => {}
            }
            let V2Waited::Events(events) = waited else { continue };
            match self {
                V2Sabotage::EventsLost if events.len() > 1 => drop(events.remove(0)),
                V2Sabotage::EventsDoubled if world.random.one_in(10) => {
                    events.push(events[0].clone());
                }
                _ => {}
            }
        }
    }

    /// Changes what Apply tells Loop about times to live.
    pub(super) fn deadlines(self, news: &mut News) {
        match self {
            V2Sabotage::LivesUntold => news.deadlines.clear(),
            V2Sabotage::LivesShortened => {
                for change in &mut news.deadlines {
                    if let DeadlineChange::Began { ttl_s, .. } = change {
                        *ttl_s = 1;
                    }
                }
            }
            _ => {}
        }
    }
}
