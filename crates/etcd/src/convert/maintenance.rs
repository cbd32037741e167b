//! Requests and responses of the service `Maintenance`: turns requests about alarms into commands,
//! and encodes the responses about alarms and hashes.

use machine::etcd::Store;
use machine::etcd::alarm::{Alarm, AlarmKind};
use machine::etcd::command::Command;
use machine::etcd::hash::HashRead;
use prost::Message;

use super::Header;
use crate::pb::etcdserverpb as pb;
use crate::pb::etcdserverpb::AlarmType;
use crate::pb::etcdserverpb::alarm_request::AlarmAction;

/// The command that a request about alarms asks for. `None` if the request only lists alarms, or
/// has an unknown action or kind; etcd changes nothing then either.
pub fn alarm(request: &pb::AlarmRequest) -> Option<Command<'static>> {
    let kind = alarm_kind(request.alarm)?;
    let alarm = Alarm { kind, member: request.member_id };
    match AlarmAction::try_from(request.action) {
        Ok(AlarmAction::Activate) => Some(Command::RaiseAlarm(alarm)),
        Ok(AlarmAction::Deactivate) => Some(Command::DisarmAlarm(alarm)),
        Ok(AlarmAction::Get) | Err(_) => None,
    }
}

/// The kind with this number (`etcdserverpb.AlarmType`); `None` for 0 and for an unknown number.
pub(crate) fn alarm_kind(number: i32) -> Option<AlarmKind> {
    match AlarmType::try_from(number) {
        Ok(AlarmType::Nospace) => Some(AlarmKind::NoSpace),
        Ok(AlarmType::Corrupt) => Some(AlarmKind::Corrupt),
        Ok(AlarmType::None) | Err(_) => None,
    }
}

/// The encoded response to a change of an alarm.
pub fn alarmed(header: Header, revision: i64, alarm: Option<Alarm>) -> Vec<u8> {
    let header = Some(header.with_revision(revision));
    let alarms = alarm.into_iter().map(alarm_member).collect();
    pb::AlarmResponse { header, alarms }.encode_to_vec()
}

/// The encoded response to a request for which [`alarm`] returned `None`. A request to list alarms
/// gets the alarms of the kind that it names, or all alarms if it names none; any other request
/// gets an empty list.
pub fn alarms(header: Header, store: &Store, request: &pb::AlarmRequest) -> Vec<u8> {
    let header = Some(header.with_revision(store.revision()));
    let kind = alarm_kind(request.alarm);
    let is_asked = request.action == i32::from(AlarmAction::Get);
    let is_shown = |alarm: &Alarm| is_asked && kind.is_none_or(|kind| kind == alarm.kind);
    let alarms = store.alarms().iter().filter(is_shown).map(alarm_member).collect();
    pb::AlarmResponse { header, alarms }.encode_to_vec()
}

/// An alarm as a message.
pub(crate) fn alarm_member(alarm: Alarm) -> pb::AlarmMember {
    let kind = match alarm.kind {
        AlarmKind::NoSpace => AlarmType::Nospace,
        AlarmKind::Corrupt => AlarmType::Corrupt,
    };
    pb::AlarmMember { member_id: alarm.member, alarm: kind.into() }
}

/// The encoded `HashKVResponse`.
pub fn hash_kv(header: Header, store: &Store, read: &HashRead) -> Vec<u8> {
    pb::HashKvResponse {
        header: Some(header.with_revision(store.revision())),
        hash: read.hash(),
        compact_revision: read.compacted,
        hash_revision: read.revision,
    }
    .encode_to_vec()
}

/// The encoded `HashResponse`.
pub fn hash(header: Header, store: &Store, read: &HashRead) -> Vec<u8> {
    let header = Some(header.with_revision(store.revision()));
    pb::HashResponse { header, hash: read.hash() }.encode_to_vec()
}
