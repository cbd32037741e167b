//! Restoring: from the records of etcd's section of an image to the store.

use crate::codec::{DecodeError, Reader};
use crate::etcd::event::{Event, Place};
use crate::etcd::settings::Settings;
use crate::etcd::store::Store;
use crate::etcd::tail::Sum;
use crate::etcd::walk::{TAG_BASE, TAG_EDGE, TAG_START, TAG_TAIL};
use crate::image::error::RestoreError;

/// The records of one piece, each of the right form.
#[derive(Default)]
pub(crate) struct Records {
    start: Option<Start>,
    base: Vec<Event>,
    edge: Vec<Event>,
    tail: Vec<Event>,
}

/// The first record.
#[derive(Clone, Copy)]
struct Start {
    revision: i64,
    compacted: i64,
    settings: Settings,
}

/// Reads the records of an image, in order.
#[derive(Default)]
pub(crate) struct RecordDecoder {
    start: Option<Start>,
    /// The place of the last event at the compacted revision, or of the tail.
    last: Option<Place>,
}

impl RecordDecoder {
    /// Reads the records of a frame, to its end.
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
                    if start.revision < 1 || !(-1..=start.revision).contains(&start.compacted) {
                        return Err(reader.bad("revisions", start.compacted as u64).into());
                    }
                    self.start = Some(start);
                    decoded.start = Some(start);
                }
                (TAG_BASE, Some(start)) if self.last.is_none() => {
                    decoded.base.push(base_event(reader, start)?);
                }
                (TAG_EDGE, Some(start)) => decoded.edge.push(self.edge_event(reader, start)?),
                (TAG_TAIL, Some(start)) => decoded.tail.push(self.tail_event(reader, start)?),
                _ => return Err(reader.bad("order of etcd records", u64::from(tag)).into()),
            }
        }
        Ok(())
    }

    fn edge_event(&mut self, reader: &mut Reader<'_>, start: Start) -> Result<Event, DecodeError> {
        let event = self.next_event(reader)?;
        if !event.is_delete() || event.revision() != start.compacted {
            return Err(reader.bad("removal in the base", event.revision() as u64));
        }
        Ok(event)
    }

    fn tail_event(&mut self, reader: &mut Reader<'_>, start: Start) -> Result<Event, DecodeError> {
        let event = self.next_event(reader)?;
        if event.revision() <= start.compacted || event.revision() > start.revision {
            return Err(reader.bad("revision of an event", event.revision() as u64));
        }
        Ok(event)
    }

    /// The next event of those that are in the order of their places.
    fn next_event(&mut self, reader: &mut Reader<'_>) -> Result<Event, DecodeError> {
        let event = Event::decode(reader.bytes()?)?;
        let place = event.place();
        if self.last.is_some_and(|last| last >= place) {
            return Err(reader.bad("order of an event", place.revision as u64));
        }
        self.last = Some(place);
        Ok(event)
    }
}

fn base_event(reader: &mut Reader<'_>, start: Start) -> Result<Event, DecodeError> {
    let event = Event::decode(reader.bytes()?)?;
    if event.is_delete() || event.revision() > start.compacted {
        return Err(reader.bad("version in the base", event.revision() as u64));
    }
    Ok(event)
}

/// Puts a store together from the records of an image.
#[derive(Default)]
pub(crate) struct StoreRestore {
    store: Store,
    /// The events at the compacted revision so far.
    edge: Vec<Event>,
}

impl StoreRestore {
    /// Takes the records of the next piece.
    ///
    /// # Errors
    /// The keys of the base are not in their order.
    pub fn install(&mut self, records: Records) -> Result<(), RestoreError> {
        if let Some(Start { revision, compacted, settings }) = records.start {
            (self.store.revision, self.store.compacted) = (revision, compacted);
            self.store.settings = settings;
        }
        for event in records.base {
            self.store.base_sum.add(Sum::of(&event));
            if event.revision() == self.store.compacted {
                self.edge.push(event.clone());
            }
            let shown = event.clone();
            if !self.store.index.push_behind(event) {
                let key = shown.key().escape_ascii();
                return Err(RestoreError::Inconsistent(format!("key {key} does not fit")));
            }
        }
        self.edge.extend(records.edge);
        for event in records.tail {
            self.store.push(event);
        }
        Ok(())
    }

    /// The store. It is unused if the image has no section of it.
    pub fn finish(mut self) -> Store {
        self.edge.sort_by_key(Event::place);
        self.store.set_edge(self.edge.into());
        self.store
    }
}
