//! Encodes and decodes the messages of watch streams, from and to the types of `workload`.

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_create_request::FilterType;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::{Message, mvccpb};
use workload::etcd::watch::{Event, Response, Wanted};

use super::wire::{Served, pair, revision};

/// The request that creates a watch.
pub fn create(wanted: &Wanted) -> Bytes {
    let filters = [(wanted.no_put, FilterType::Noput), (wanted.no_delete, FilterType::Nodelete)];
    let filters = filters.into_iter().filter(|(is_set, _)| *is_set).map(|(_, it)| it as i32);
    request(RequestUnion::CreateRequest(pb::WatchCreateRequest {
        key: Bytes::copy_from_slice(&wanted.key),
        range_end: Bytes::copy_from_slice(&wanted.range_end),
        start_revision: wanted.start,
        progress_notify: wanted.progress_notify,
        filters: filters.collect(),
        prev_kv: wanted.prev_kv,
        watch_id: wanted.id,
        fragment: wanted.fragment,
    }))
}

/// The request that cancels a watch.
pub fn cancel(watch_id: i64) -> Bytes {
    request(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id }))
}

/// The request for a notice of progress about all watches of the stream.
pub fn ask_progress() -> Bytes {
    request(RequestUnion::ProgressRequest(pb::WatchProgressRequest {}))
}

fn request(union: RequestUnion) -> Bytes {
    pb::WatchRequest { request_union: Some(union) }.encode_to_vec().into()
}

/// Decodes a message from the member `by`.
///
/// # Errors
/// The client could not understand it.
pub fn decode(message: &[u8], by: Served) -> Result<Response, String> {
    let message = pb::WatchResponse::decode(Bytes::copy_from_slice(message));
    let message = message.map_err(|error| format!("a message of a watch: {error}"))?;
    let events = message.events.into_iter().map(event).collect::<Result<_, _>>()?;
    Ok(Response {
        revision: revision(message.header, Some(by))?,
        watch_id: message.watch_id,
        is_created: message.created,
        is_canceled: message.canceled,
        compact_revision: message.compact_revision,
        reason: message.cancel_reason,
        is_fragment: message.fragment,
        events,
    })
}

fn event(event: mvccpb::Event) -> Result<Event, String> {
    let kv = event.kv.ok_or("an event without a key")?;
    let is_delete = event.r#type == mvccpb::event::EventType::Delete as i32;
    Ok(Event { is_delete, pair: pair(kv), before: event.prev_kv.map(pair) })
}
