//! Deliberate mistakes with watches. The judge must notice each of them.

use bytes::Bytes;
use etcd::Error;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::{Message, mvccpb};
use member::fronts::etcd::CallRefused;

use crate::world::World;

/// A deliberate mistake with watches, mostly made at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchSabotage {
    /// A message with events is lost.
    EventsLost,
    /// A message with events is sent twice.
    EventsDoubled,
    /// Two messages with events are swapped.
    EventsSwapped,
    /// The events of one revision come in two separate responses.
    RevisionsSplit,
    /// A notice of progress overtakes the events that it covers.
    PromisesEarly,
    /// Notices of progress are lost.
    PromisesLost,
    /// A watch ends as compacted although it is not.
    EndedAsCompacted,
    /// A watch that starts at a revision starts one later, sometimes.
    StartsSkip,
    /// A watch that starts at a revision starts earlier.
    StartsEarly,
    /// A watch that asks for previous pairs does not get them.
    PrevKvLost,
    /// Filters are ignored.
    FiltersIgnored,
    /// The header of a message with events has too old a revision.
    HeadersOld,
    /// The answer to a request for a watch comes twice.
    CreatedTwice,
    /// The answer to a request for a watch is lost.
    CreatedLost,
    /// An event shows a wrong value.
    ValuesChanged,
    /// A Front does not learn that a snapshot was installed.
    InstallsForgotten,
    /// A stream ends for want of a leader although there is one.
    EndedAsLeaderless,
    /// A Front does not know that its member has no leader.
    LeaderlessIgnored,
}

/// Applies the sabotage to requests and messages of watches; does nothing without one.
#[derive(Default)]
pub(super) struct WatchForger {
    sabotage: Option<WatchSabotage>,
}

impl WatchForger {
    pub fn new(sabotage: WatchSabotage) -> WatchForger {
        WatchForger { sabotage: Some(sabotage) }
    }

    /// Changes a client's request on its way to the Front.
    pub fn request(&self, request: Bytes, world: &mut World) -> Bytes {
        let Some(sabotage) = self.sabotage else { return request };
        let mut decoded = pb::WatchRequest::decode(request.clone()).expect("a client encoded it");
        let Some(RequestUnion::CreateRequest(create)) = &mut decoded.request_union else {
            return request;
        };
        match sabotage {
            // Done seldom: a start that skips the newest revision also delays progress, and a run
            // that fails for that reason does not test whether the judge finds the gap.
            WatchSabotage::StartsSkip if create.start_revision > 0 && world.random.one_in(40) => {
                create.start_revision += 1;
            }
            WatchSabotage::StartsEarly if create.start_revision > 8 => create.start_revision -= 8,
            WatchSabotage::FiltersIgnored if world.random.one_in(2) => create.filters.clear(),
            WatchSabotage::PrevKvLost if world.random.one_in(2) => create.prev_kv = false,
            _ => return request,
        }
        decoded.encode_to_vec().into()
    }

    /// Changes messages on their way to the client.
    pub fn messages(&self, messages: Vec<Vec<u8>>, world: &mut World) -> Vec<Vec<u8>> {
        let Some(sabotage) = self.sabotage else { return messages };
        let decode = |message: &Vec<u8>| {
            pb::WatchResponse::decode(message.as_slice()).expect("a Front encoded it")
        };
        let mut decoded: Vec<pb::WatchResponse> = messages.iter().map(decode).collect();
        let mut forged = Vec::new();
        if sabotage == WatchSabotage::EventsSwapped {
            swap(&mut decoded);
        }
        for message in decoded {
            forged.extend(forge(sabotage, message, world));
        }
        forged.iter().map(|message| message.encode_to_vec()).collect()
    }

    /// The error that ends a stream now because of the sabotage, if one does.
    pub fn end(&self, world: &mut World) -> Option<CallRefused> {
        let is_made = self.sabotage == Some(WatchSabotage::EndedAsLeaderless);
        (is_made && world.random.one_in(1_000)).then(|| Error::NoLeader.into())
    }
}

/// Swaps two neighbouring messages of one watch, if there are any.
fn swap(messages: &mut [pb::WatchResponse]) {
    let is_whole = |it: &pb::WatchResponse| !it.events.is_empty() && !it.fragment;
    for at in 1..messages.len() {
        let (one, other) = (&messages[at - 1], &messages[at]);
        if is_whole(one) && is_whole(other) && one.watch_id == other.watch_id {
            return messages.swap(at - 1, at);
        }
    }
}

fn forge(
    sabotage: WatchSabotage,
    mut message: pb::WatchResponse,
    world: &mut World,
) -> Vec<pb::WatchResponse> {
    let has_events = !message.events.is_empty() && !message.fragment;
    let is_progress = message.events.is_empty() && !message.created && !message.canceled;
    let is_now = world.random.one_in(10);
    match sabotage {
        WatchSabotage::EventsLost if has_events && is_now => Vec::new(),
        WatchSabotage::EventsDoubled if has_events && is_now => vec![message.clone(), message],
        WatchSabotage::RevisionsSplit if has_events => split(message),
        WatchSabotage::PromisesEarly if has_events && is_now => {
            let early = pb::WatchResponse {
                header: message.header,
                watch_id: message.watch_id,
                ..pb::WatchResponse::default()
            };
            vec![early, message]
        }
        WatchSabotage::PromisesLost if is_progress => Vec::new(),
        WatchSabotage::EndedAsCompacted if has_events && is_now => {
            message.events.clear();
            message.canceled = true;
            message.compact_revision = message.header.as_ref().map_or(0, |it| it.revision);
            vec![message]
        }
        WatchSabotage::HeadersOld if has_events => {
            message.header.iter_mut().for_each(|header| header.revision -= 1);
            vec![message]
        }
        WatchSabotage::CreatedTwice if message.created && is_now => vec![message.clone(), message],
        WatchSabotage::CreatedLost if message.created && is_now => Vec::new(),
        WatchSabotage::ValuesChanged if has_events && is_now => {
            if let Some(mvccpb::KeyValue { value, .. }) = &mut message.events[0].kv {
                *value = Bytes::from_static(b"another");
            }
            vec![message]
        }
        _ => vec![message],
    }
}

/// Splits off the first event, if the second one has the same revision.
fn split(mut message: pb::WatchResponse) -> Vec<pb::WatchResponse> {
    let revision = |event: &mvccpb::Event| event.kv.as_ref().map(|kv| kv.mod_revision);
    match message.events.as_slice() {
        [one, other, ..] if revision(one) == revision(other) => {
            let others = message.events.split_off(1);
            let behind = pb::WatchResponse { events: others, ..message.clone() };
            vec![message, behind]
        }
        _ => vec![message],
    }
}
