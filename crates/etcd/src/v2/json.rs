//! Encodes the answers of etcd v2 as JSON: events, and nodes with everything below them.
//!
//! Source: etcd 3.4, `v2store.Event`, `v2store.NodeExtern`. Strings are written as Go's
//! `encoding/json` writes them.

use std::io::Write as _;
use std::sync::Arc;

use machine::etcd_v2::event::{Event, Expiration, NodeState};
use machine::etcd_v2::tree::Node;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Appends the line of JSON for an event. `hides_nodes` leaves the nodes out.
pub fn write_event(event: &Event, hides_nodes: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"action\":\"");
    out.extend_from_slice(event.action.name().as_bytes());
    out.push(b'"');
    if !hides_nodes {
        out.extend_from_slice(b",\"node\":");
        put_node(event.key.as_bytes(), &event.node, out);
        if let Some(prev) = &event.prev {
            out.extend_from_slice(b",\"prevNode\":");
            put_node(event.key.as_bytes(), prev, out);
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Appends the line of JSON for the node at a key, as a [`Listing`] writes it. Appends nothing and
/// returns false if the node is a directory.
pub fn write_file(key: &str, node: &Node, now_ms: i64, out: &mut Vec<u8>) -> bool {
    if node.is_dir() {
        return false;
    }
    out.extend_from_slice(LISTING_BEGINS);
    put_node(key.as_bytes(), &node.shown(now_ms), out);
    out.extend_from_slice(b"}\n");
    true
}

/// Writes the line of JSON for a node and the nodes below it, in pieces: so a large tree needs
/// little memory, and no call takes long. The listing shares the nodes with the store.
pub struct Listing {
    /// The node to show; `None` once writing has begun.
    top: Option<Arc<Node>>,
    /// The directories that are open, the outermost first.
    open: Vec<Open>,
    /// The large value that is being written in parts.
    value: Option<OpenValue>,
    /// The key of the node that was written last.
    key: String,
    is_recursive: bool,
    now_ms: i64,
}

/// A directory whose nodes are being written.
struct Open {
    dir: Arc<Node>,
    /// Length of the directory's key.
    key_bytes: usize,
    /// The name of the last node that was written; `None` before the first.
    after: Option<Arc<str>>,
}

/// A file whose value is being written.
struct OpenValue {
    state: NodeState,
    value: Arc<[u8]>,
    /// How many bytes of the value are written.
    written: usize,
}

/// The beginning of the line of a read.
const LISTING_BEGINS: &[u8] = b"{\"action\":\"get\",\"node\":";

/// Values longer than this are written in parts of this many bytes.
const VALUE_PART_BYTES: usize = 8 * 1024;

impl Listing {
    /// The listing of the node at a key. `is_recursive` shows everything below it. The times to
    /// live are those left at `now_ms`, in ms since 1970.
    pub fn new(key: &str, node: Arc<Node>, is_recursive: bool, now_ms: i64) -> Listing {
        let (top, open, value, key) = (Some(node), Vec::new(), None, key.to_string());
        Listing { top, open, value, key, is_recursive, now_ms }
    }

    /// Appends the next part of the line: about `bytes`, at most a key and a part of a value more.
    /// Returns whether more follows.
    pub fn write(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len().saturating_add(bytes);
        if let Some(node) = self.top.take() {
            out.extend_from_slice(LISTING_BEGINS);
            self.begin(node, true, out);
        }
        loop {
            if out.len() >= end && (self.value.is_some() || !self.open.is_empty()) {
                return true;
            }
            if self.value.is_some() {
                self.go_on_with_value(out);
                continue;
            }
            let Some(place) = self.open.last_mut() else { break };
            self.key.truncate(place.key_bytes);
            let Some((name, child)) = place.dir.listed_behind(place.after.as_deref()).next() else {
                let is_empty = place.after.is_none();
                if !is_empty {
                    out.push(b']');
                }
                put_indexes(place.dir.stat.modified, place.dir.stat.created, out);
                self.open.pop();
                continue;
            };
            self.key.push('/');
            self.key.push_str(name);
            let child = child.clone();
            let is_first = place.after.replace(name.clone()).is_none();
            out.extend_from_slice(if is_first { b",\"nodes\":[" } else { b"," });
            let is_recursive = self.is_recursive;
            self.begin(child, is_recursive, out);
        }
        out.extend_from_slice(b"}\n");
        false
    }

    /// Appends the next part of the large value; after its last part, also the rest of its node.
    fn go_on_with_value(&mut self, out: &mut Vec<u8>) {
        let Some(OpenValue { state, value, written }) = &mut self.value else { return };
        let rest = &value[*written..];
        let mut end = rest.len().min(VALUE_PART_BYTES);
        // A part never ends inside a character. Bytes that are not UTF-8 may be cut anywhere.
        let is_inside = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
        let begins = (end.saturating_sub(3)..=end).rev();
        if end < rest.len()
            && let Some(begin) = begins.into_iter().find(|at| *at > 0 && !is_inside(rest[*at]))
        {
            end = begin;
        }
        put_escaped(&rest[..end], out);
        *written += end;
        if *written == value.len() {
            out.push(b'"');
            put_rest(state, out);
            put_indexes(state.modified, state.created, out);
            self.value = None;
        }
    }

    /// Appends the node at `self.key`. For a directory whose content is `shown`, and for a file
    /// with a large value, appends only the beginning and opens it.
    fn begin(&mut self, node: Arc<Node>, shown: bool, out: &mut Vec<u8>) {
        let state = node.shown(self.now_ms);
        if let Some(value) = state.value.clone().filter(|value| value.len() > VALUE_PART_BYTES) {
            put_key(self.key.as_bytes(), out);
            out.extend_from_slice(b",\"value\":\"");
            self.value = Some(OpenValue { state, value, written: 0 });
            return;
        }
        if !(node.is_dir() && shown) {
            return put_node(self.key.as_bytes(), &state, out);
        }
        put_start(self.key.as_bytes(), &state, out);
        self.open.push(Open { dir: node, key_bytes: self.key.len(), after: None });
    }
}

fn put_node(key: &[u8], state: &NodeState, out: &mut Vec<u8>) {
    put_start(key, state, out);
    put_indexes(state.modified, state.created, out);
}

/// Appends a node up to its content. The root has no key.
fn put_start(key: &[u8], state: &NodeState, out: &mut Vec<u8>) {
    put_key(key, out);
    if let Some(value) = &state.value {
        out.extend_from_slice(b",\"value\":");
        put_text(value, out);
    }
    if state.is_dir {
        let separator: &[u8] = if key.is_empty() { b"" } else { b"," };
        out.extend_from_slice(separator);
        out.extend_from_slice(b"\"dir\":true");
    }
    put_rest(state, out);
}

/// Appends the beginning of a node. The root, which is a directory, has no key.
fn put_key(key: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    if !key.is_empty() {
        out.extend_from_slice(b"\"key\":");
        put_text(key, out);
    }
}

/// Appends the expiration of a node, if it has one.
fn put_rest(state: &NodeState, out: &mut Vec<u8>) {
    if let Some(Expiration { at_ms, ttl_s }) = state.expiration {
        out.extend_from_slice(b",\"expiration\":\"");
        out.extend_from_slice(time_text(at_ms).as_bytes());
        out.push(b'"');
        if ttl_s != 0 {
            put(out, format_args!(",\"ttl\":{ttl_s}"));
        }
    }
}

/// Appends the indexes and the end of a node. Indexes of 0 are left out.
fn put_indexes(modified: u64, created: u64, out: &mut Vec<u8>) {
    for (name, index) in [("modifiedIndex", modified), ("createdIndex", created)] {
        if index > 0 {
            for text in [",\"", name, "\":", itoa::Buffer::new().format(index)] {
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    out.push(b'}');
}

/// A time in ms since 1970, as text in UTC in the form of Go's `time.RFC3339Nano`.
pub fn time_text(ms: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    // A time to live is bounded, so only a clock that is far off leads to a year beyond four
    // digits.
    let text = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    text.unwrap_or_else(|| "9999-12-31T23:59:59Z".to_string())
}

fn put(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes everything");
}

/// Appends a text in quotes. Each byte that is not UTF-8 becomes U+FFFD.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    put_escaped(text, out);
    out.push(b'"');
}

fn put_escaped(text: &[u8], out: &mut Vec<u8>) {
    if let Ok(text) = core::str::from_utf8(text) {
        return put_valid(text, out);
    }
    for chunk in text.utf8_chunks() {
        put_valid(chunk.valid(), out);
        // Go replaces each byte on its own.
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
}

fn put_valid(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((at, bytes)) = first_escaped(rest.as_bytes()) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let character = rest[at..].chars().next().map_or(0, u32::from);
                put(out, format_args!("\\u{character:04x}"));
            }
        }
        rest = &rest[at + bytes..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Offset and length of the first character that Go escapes in JSON: the characters that JSON
/// requires, and those that could end a script in HTML (`<`, `>`, `&`, U+2028 and U+2029).
fn first_escaped(text: &[u8]) -> Option<(usize, usize)> {
    let is_special = |byte: u8| matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | ..b' ');
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|byte| is_special(*byte) || *byte == 0xe2)?;
        match text[at..] {
            [0xe2, 0x80, 0xa8 | 0xa9, ..] => return Some((at, 3)),
            [0xe2, ..] => at += 1,
            _ => return Some((at, 1)),
        }
    }
}

#[cfg(test)]
mod tests;
