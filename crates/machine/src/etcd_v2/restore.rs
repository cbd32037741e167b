//! Restoring: builds etcd v2's store from the records of etcd v2's section of an image (an image is
//! the bytes of a snapshot).
//!
//! A [`RecordDecoder`] checks the form and the order of the records, and needs nothing of the
//! state. [`StoreRestore`] then puts the records into the store, and checks at the end that they
//! fit together.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader};
use crate::etcd_v2::auth::{Auth, RecordAt, TAG_AUTH, TAG_ROLE, TAG_USER};
use crate::etcd_v2::event::Event;
use crate::etcd_v2::history::{History, TAG_EVENT};
use crate::etcd_v2::key::Key;
use crate::etcd_v2::store::{FIRST_INDEX, Store};
use crate::etcd_v2::tree::{self, Node, TAG_NODE};
use crate::etcd_v2::walk::TAG_START;
use crate::image::error::RestoreError;
use crate::limits::ETCD_V2_INDEX_MAX;

/// The records of one piece of an image; the form of each is checked.
#[derive(Default)]
pub struct Records {
    start: Option<Start>,
    /// The users and roles of the piece; `None` if it has no record of them.
    auth: Option<Auth>,
    nodes: Vec<(Box<str>, Node)>,
    events: Vec<Event>,
}

/// The start record of the section.
#[derive(Clone, Copy)]
struct Start {
    index: u64,
    cleared: u64,
}

/// Decodes the records of an image, in order.
#[derive(Default)]
pub struct RecordDecoder {
    start: Option<Start>,
    /// Tag and name of the last record of users and roles.
    last_of_auth: Option<RecordAt>,
    /// The key of the last node.
    last_key: Option<Box<str>>,
    /// The index of the last event.
    last_event: Option<u64>,
}

impl RecordDecoder {
    /// Decodes all records of a frame.
    ///
    /// # Errors
    /// A record breaks the format, or is out of order.
    pub fn decode(
        &mut self,
        reader: &mut Reader<'_>,
        decoded: &mut Records,
    ) -> Result<(), RestoreError> {
        while reader.remaining() > 0 {
            let tag = reader.u8()?;
            match (tag, self.start) {
                (TAG_START, None) => {
                    let start = decode_start(reader)?;
                    self.start = Some(start);
                    decoded.start = Some(start);
                }
                (TAG_AUTH | TAG_USER | TAG_ROLE, Some(_)) if self.is_before_nodes() => {
                    let auth = decoded.auth.get_or_insert_default();
                    let last = self.last_of_auth.take();
                    self.last_of_auth = Some(auth.take_record(tag, last, reader)?);
                }
                (TAG_NODE, Some(start)) if self.last_event.is_none() => {
                    decoded.nodes.push(self.node(reader, start)?);
                }
                (TAG_EVENT, Some(start)) => decoded.events.push(self.event(reader, start)?),
                _ => return Err(reader.bad("order of etcd v2 records", u64::from(tag)).into()),
            }
        }
        Ok(())
    }

    fn is_before_nodes(&self) -> bool {
        self.last_key.is_none() && self.last_event.is_none()
    }

    fn node(
        &mut self,
        reader: &mut Reader<'_>,
        start: Start,
    ) -> Result<(Box<str>, Node), DecodeError> {
        let (key, node) = tree::decode(reader, start.index)?;
        let last = self.last_key.replace(key.text().into());
        if last.is_some_and(|last| !Key::known(&last).names().lt(key.names())) {
            return Err(reader.bad("order of nodes at one with levels", key.level_count() as u64));
        }
        Ok((key.text().into(), node))
    }

    fn event(&mut self, reader: &mut Reader<'_>, start: Start) -> Result<Event, DecodeError> {
        let event = Event::decode(reader)?;
        let index = event.index();
        let last = self.last_event.replace(index);
        let before = last.unwrap_or(start.cleared.max(FIRST_INDEX));
        if Some(index) != before.checked_add(1) || index > start.index {
            return Err(reader.bad("index of an event", index));
        }
        Ok(event)
    }
}

fn decode_start(reader: &mut Reader<'_>) -> Result<Start, DecodeError> {
    let start = Start { index: reader.u64()?, cleared: reader.u64()? };
    if start.index < FIRST_INDEX || start.index > ETCD_V2_INDEX_MAX {
        return Err(reader.bad("index", start.index));
    }
    if start.cleared > start.index {
        return Err(reader.bad("index of the events that are gone", start.cleared));
    }
    Ok(start)
}

/// Builds a store from the records of an image, in order.
#[derive(Default)]
pub struct StoreRestore {
    store: Store,
    /// Whether the start record was read.
    has_start: bool,
    /// The users and roles so far; `None` if there was no record of them.
    auth: Option<Auth>,
}

impl StoreRestore {
    /// Puts the records of the next piece into the store.
    ///
    /// # Errors
    /// A node's directory is missing in the image.
    pub fn install(&mut self, records: Records) -> Result<(), RestoreError> {
        if let Some(Start { index, cleared }) = records.start {
            self.store.index = index;
            self.store.history = History::behind(cleared);
            self.has_start = true;
        }
        if let Some(auth) = records.auth {
            self.auth.get_or_insert_default().take_more(auth);
        }
        for (text, node) in records.nodes {
            let key = Key::known(&text);
            let parent = key.split().and_then(|(parent, _)| self.store.tree.find(parent).ok());
            if !parent.is_some_and(|parent| parent.is_dir()) {
                return Err(does_not_fit(format!("the node {text:?}")));
            }
            let index = node.stat.created;
            self.store.tree.insert(key, node, index);
        }
        for event in records.events {
            self.store.history.push(Arc::new(event));
        }
        Ok(())
    }

    /// Checks that everything fits together, and returns the store. It is an unused one if the
    /// image has no section of etcd v2.
    ///
    /// # Errors
    /// The events do not end at the store's index, or the users and roles are not as commands can
    /// make them.
    pub fn finish(mut self) -> Result<Store, RestoreError> {
        if let Some(auth) = self.auth {
            if auth.is_unused() || !auth.is_sound() {
                return Err(does_not_fit("a user or role".to_string()));
            }
            self.store.auth = Arc::new(auth);
        }
        if self.has_start && self.store.is_unused() {
            return Err(does_not_fit("the start".to_string()));
        }
        let Store { index, history, .. } = &self.store;
        let last = history.events().next_back().map_or(history.cleared(), |last| last.index());
        if self.has_start && last.max(FIRST_INDEX) != *index {
            return Err(does_not_fit(format!("index {index}")));
        }
        Ok(self.store)
    }
}

fn does_not_fit(what: String) -> RestoreError {
    RestoreError::Inconsistent(format!("{what} of etcd v2 does not fit"))
}
