//! Restoring: builds etcd's store from the records of etcd's section of an image (an image is the
//! bytes of a snapshot).
//!
//! A [`RecordDecoder`] checks the form of each record, and needs nothing of the state.
//! [`StoreRestore`] then puts the records into the store, and checks at the end that they fit
//! together.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader};
use crate::etcd::alarm::Alarm;
use crate::etcd::auth::Auth;
use crate::etcd::edge::Edge;
use crate::etcd::event::{Event, Place};
use crate::etcd::lease::{self, Grant};
use crate::etcd::settings::Settings;
use crate::etcd::store::Store;
use crate::etcd::tail::{Passed, Sum, TailRestore};
use crate::etcd::walk::{
    TAG_ALARM, TAG_AUTH, TAG_AUTH_SINCE, TAG_CHUNK, TAG_EDGE, TAG_EVENT, TAG_LEASE, TAG_START,
};
use crate::ids::{LeaseId, Ordinal};
use crate::image::error::RestoreError;
use crate::limits::RESTORED_NUMBER_MAX;

/// The records of one piece of an image; the form of each is checked.
#[derive(Default)]
pub(crate) struct Records {
    start: Option<Start>,
    auth: Option<Auth>,
    alarms: Vec<Alarm>,
    leases: Vec<(LeaseId, Grant)>,
    edge: Vec<Event>,
    chunks: Vec<Place>,
    events: Vec<DecodedEvent>,
}

/// The records of etcd's section in one piece of an image, for programs that build no store.
#[derive(Default)]
pub struct EtcdPart {
    /// The revision of the image, and the compacted revision. Only in the first piece with records.
    pub revisions: Option<(i64, i64)>,
    /// Users and roles. At most once in an image, and not if there was never a change to them.
    pub auth: Option<Auth>,
    /// Alarms.
    pub alarms: Vec<Alarm>,
    /// Leases with their times to live, in seconds.
    pub leases: Vec<(LeaseId, i64)>,
    /// Versions of keys. First the deletions at the compacted revision, in order. Then, by key: the
    /// version that each key had at the compacted revision, and its later versions and deletions,
    /// oldest first.
    pub events: Vec<Event>,
}

impl Records {
    /// The records, in the form for programs that build no store.
    pub fn into_part(self) -> EtcdPart {
        let events = self.events.into_iter().map(|decoded| decoded.event);
        EtcdPart {
            revisions: self.start.map(|start| (start.revision, start.compacted)),
            auth: self.auth,
            alarms: self.alarms,
            leases: self.leases.into_iter().map(|(lease, grant)| (lease, grant.ttl_s)).collect(),
            events: self.edge.into_iter().chain(events).collect(),
        }
    }
}

/// The start record of the section.
#[derive(Clone, Copy)]
struct Start {
    revision: i64,
    compacted: i64,
    settings: Settings,
}

/// An event, with what the install needs to know about it. The decoder computes these facts while
/// the event's bytes are in the cache, so that the install need not read them.
struct DecodedEvent {
    event: Event,
    /// The event's place and a second reference to the event, for the tail. `None` if the event is
    /// one of the versions or deletions at the compacted revision.
    tail: Option<(Place, Event)>,
    sum: Sum,
    is_delete: bool,
    has_lease: bool,
    /// Whether it is the first event of its key in the image.
    begins_key: bool,
}

/// Decodes the records of an image, in order.
#[derive(Default)]
pub(crate) struct RecordDecoder {
    start: Option<Start>,
    has_auth: bool,
    last_alarm: Option<Alarm>,
    /// The place of the last deletion at the compacted revision.
    last_of_edge: Option<Place>,
    last: Option<Event>,
}

impl RecordDecoder {
    /// Decodes all records of a frame.
    pub fn decode(
        &mut self,
        reader: &mut Reader<'_>,
        decoded: &mut Records,
    ) -> Result<(), RestoreError> {
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            match (tag, self.start) {
                (TAG_START, None) => {
                    let (revision, compacted) = (reader.i64()?, reader.i64()?);
                    let settings = Settings::decode(reader)?;
                    let start = Start { revision, compacted, settings };
                    if !(1..=RESTORED_NUMBER_MAX as i64).contains(&start.revision) {
                        return Err(reader.bad("revision", start.revision as u64).into());
                    }
                    if !(-1..=start.revision).contains(&start.compacted) {
                        return Err(reader.bad("revisions", start.compacted as u64).into());
                    }
                    self.start = Some(start);
                    decoded.start = Some(start);
                }
                (TAG_AUTH | TAG_AUTH_SINCE, Some(_)) if self.last.is_none() && !self.has_auth => {
                    self.has_auth = true;
                    decoded.auth = Some(Auth::decode(reader, tag == TAG_AUTH_SINCE)?);
                }
                (TAG_ALARM, Some(_)) if self.last.is_none() => {
                    let alarm = Alarm::decode(reader)?;
                    if self.last_alarm.replace(alarm).is_some_and(|last| last >= alarm) {
                        return Err(reader.bad("order of alarms", alarm.member).into());
                    }
                    decoded.alarms.push(alarm);
                }
                (TAG_LEASE, Some(_)) if self.last.is_none() => {
                    decoded.leases.push(lease::decode(reader)?);
                }
                (TAG_EDGE, Some(start)) if self.last.is_none() => {
                    decoded.edge.push(self.edge_event(reader, start)?);
                }
                (TAG_CHUNK, Some(start)) if self.last.is_none() => {
                    let place = Place { revision: reader.i64()?, sub: reader.u32()? };
                    if place.revision <= start.compacted || place.revision > start.revision {
                        return Err(reader.bad("start of a chunk", place.revision as u64).into());
                    }
                    decoded.chunks.push(place);
                }
                (TAG_EVENT, Some(start)) => decoded.events.push(self.event(reader, start)?),
                _ => return Err(reader.bad("order of etcd records", u64::from(tag)).into()),
            }
        }
        Ok(())
    }

    fn edge_event(&mut self, reader: &mut Reader<'_>, start: Start) -> Result<Event, DecodeError> {
        let event = Event::decode(reader.bytes()?)?;
        let place = event.place();
        let is_next = self.last_of_edge.replace(place).is_none_or(|last| last < place);
        if !is_next || !event.is_delete() || place.revision != start.compacted {
            return Err(reader.bad("removal at the compacted revision", place.revision as u64));
        }
        Ok(event)
    }

    fn event(
        &mut self,
        reader: &mut Reader<'_>,
        start: Start,
    ) -> Result<DecodedEvent, DecodeError> {
        let event = Event::decode(reader.bytes()?)?;
        let (place, is_delete) = (event.place(), event.is_delete());
        let is_base = place.revision <= start.compacted;
        let last = self.last.replace(event.clone());
        let begins_key = last.as_ref().is_none_or(|last| last.key() < event.key());
        let follows = || last.is_some_and(|last| last.key() == event.key() && last.place() < place);
        let fits = if is_base { begins_key && !is_delete } else { begins_key || follows() };
        if !fits || place.revision > start.revision {
            return Err(reader.bad("revision of an event", place.revision as u64));
        }
        let tail = (!is_base).then(|| (place, event.clone()));
        let has_lease = event.numbers().lease != 0;
        Ok(DecodedEvent { tail, sum: Sum::of(&event), is_delete, has_lease, begins_key, event })
    }
}

/// Builds a store from the records of an image, in order.
#[derive(Default)]
pub(crate) struct StoreRestore {
    store: Store,
    /// The events at the compacted revision, as far as they were read.
    edge: Vec<Event>,
    tail: TailRestore,
    /// The versions of the last key, as far as they were read.
    versions: Vec<Event>,
    /// The sum of the newest of these versions; `None` if it is a deletion, or the key has none
    /// yet.
    before: Option<Sum>,
    /// Whether the newest of these versions names a lease.
    has_lease: bool,
    /// Whether some key names a lease that does not exist.
    has_astray: bool,
}

impl StoreRestore {
    /// Puts the records of the next piece into the store.
    ///
    /// # Errors
    /// An event belongs to no chunk, the chunks are not in order, two leases have one id, or there
    /// are too many alarms.
    pub fn install(&mut self, records: Records) -> Result<(), RestoreError> {
        if let Some(Start { revision, compacted, settings }) = records.start {
            (self.store.revision, self.store.compacted) = (revision, compacted);
            self.store.settings = settings;
        }
        if let Some(auth) = records.auth {
            self.store.auth = Arc::new(auth);
        }
        for alarm in records.alarms {
            if self.store.alarms.raise(alarm).is_err() {
                return Err(RestoreError::Inconsistent("there are too many alarms".to_string()));
            }
        }
        for (lease, grant) in records.leases {
            if !self.store.leases.add(lease, grant) {
                let text = format!("two leases have number {:x}", lease.0);
                return Err(RestoreError::Inconsistent(text));
            }
        }
        self.edge.extend(records.edge);
        for start in records.chunks {
            if !self.tail.begin_chunk(start) {
                return Err(does_not_fit(start));
            }
        }
        for DecodedEvent { event, tail, sum, is_delete, has_lease, begins_key } in records.events {
            if begins_key {
                self.end_key();
            }
            match tail {
                None => {
                    self.store.base_sum.add(sum);
                    if event.revision() == self.store.compacted {
                        self.edge.push(event.clone());
                    }
                }
                Some((place, shared)) => {
                    self.store.tail_sum.add(sum);
                    let passed = Passed::from_sums(sum, is_delete, self.before);
                    if !self.tail.push(place, shared, passed) {
                        return Err(does_not_fit(place));
                    }
                }
            }
            self.before = (!is_delete).then_some(sum);
            self.has_lease = has_lease;
            self.versions.push(event);
        }
        Ok(())
    }

    /// Puts the last key into the index, and attaches it to its lease.
    fn end_key(&mut self) {
        self.before = None;
        if core::mem::take(&mut self.has_lease)
            && let Some(newest) = self.versions.last()
        {
            self.has_astray |= self.store.leases.is_astray(newest);
            self.store.leases.on_put(newest, None, 0);
        }
        if !self.versions.is_empty() {
            // Collect into a new list, which has no spare capacity.
            self.store.index.push_behind(self.versions.drain(..).collect());
        }
    }

    /// Checks that everything fits together, and returns the store. `ordinal` is the ordinal of the
    /// image. The store is an unused one if the image has no section of etcd.
    ///
    /// # Errors
    /// A chunk does not have its full number of events, a key names a lease that does not exist, or
    /// a lease was granted after the ordinal.
    pub fn finish(mut self, ordinal: Ordinal) -> Result<Store, RestoreError> {
        self.end_key();
        let leases = &self.store.leases;
        let has_later = leases.iter().any(|(_, lease)| lease.grant().granted > ordinal);
        if self.has_astray || has_later {
            let text = "the leases and their keys do not fit".to_string();
            return Err(RestoreError::Inconsistent(text));
        }
        let incomplete =
            || RestoreError::Inconsistent("a chunk of events is not whole".to_string());
        self.store.tail = self.tail.finish().ok_or_else(incomplete)?;
        self.edge.sort_by_key(Event::place);
        self.store.set_edge(Edge::of(self.edge));
        Ok(self.store)
    }
}

fn does_not_fit(Place { revision, sub }: Place) -> RestoreError {
    RestoreError::Inconsistent(format!("the event at {revision}/{sub} does not fit"))
}
