//! Writes a bbolt database in one pass, from records in the order of their keys. A page is written
//! as soon as it is full, and its first key goes to the branch above; so memory holds one page for
//! each level of the tree.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::bolt::{
    BRANCH, ENTRY_BYTES, FREELIST, IS_BUCKET, LEAF, MAGIC, META, PAGE_HEAD_BYTES, VERSION, fnv_1a,
};

/// Bytes of each page that is written.
const PAGE_BYTES: usize = 4096;

/// Bytes that are gathered before they are written to the file.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a bbolt database.
pub(super) struct BoltWriter<F: Write + Seek> {
    pages: Pages<F>,
    /// The tree of the bucket that is being written.
    tree: Tree,
    /// The name and the root page of each bucket that has ended.
    buckets: Vec<(&'static str, u64)>,
}

/// The file as a sequence of pages, written in order.
struct Pages<F: Write + Seek> {
    file: BufWriter<F>,
    /// The number of the next page.
    next: u64,
}

impl<F: Write + Seek> BoltWriter<F> {
    /// Begins a database in an empty file. This method and those below fail only if the file fails.
    pub fn new(file: F) -> io::Result<BoltWriter<F>> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        // The two metas are known only at the end; zeros keep their place.
        file.write_all(&[0; 2 * PAGE_BYTES])?;
        Ok(BoltWriter {
            pages: Pages { file, next: 2 },
            tree: Tree::default(),
            buckets: Vec::new(),
        })
    }

    /// Adds a record to the bucket that is being written. Its key must be greater than the keys
    /// added to the bucket before.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.tree.add(&mut self.pages, Entry { flags: 0, key, value })
    }

    /// Ends the bucket that is being written, gives it this name, and begins another bucket.
    pub fn end_bucket(&mut self, name: &'static str) -> io::Result<()> {
        let root = std::mem::take(&mut self.tree).finish(&mut self.pages)?;
        self.buckets.push((name, root));
        Ok(())
    }

    /// Ends the database. Returns the file, and its length in bytes.
    pub fn finish(mut self) -> io::Result<(F, u64)> {
        let freelist = self.pages.write(FREELIST, 0, &[])?;
        self.buckets.sort_unstable();
        for (name, root) in &self.buckets {
            let value = [root.to_le_bytes(), 0_u64.to_le_bytes()].concat();
            let entry = Entry { flags: IS_BUCKET, key: name.as_bytes(), value: &value };
            self.tree.add(&mut self.pages, entry)?;
        }
        let root = self.tree.finish(&mut self.pages)?;
        let count = self.pages.next;
        let mut file = self.pages.file;
        file.seek(SeekFrom::Start(0))?;
        for number in 0..2 {
            file.write_all(&meta(number, root, freelist, count))?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file, count * PAGE_BYTES as u64))
    }
}

/// The page of one of the two metas; `count` is the file's count of pages. The meta's number is
/// also its transaction: bbolt uses the meta with the higher one.
fn meta(number: u64, root: u64, freelist: u64, count: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for field in [MAGIC, VERSION, PAGE_BYTES as u32, 0] {
        body.extend_from_slice(&field.to_le_bytes());
    }
    for field in [root, 0, freelist, count, number] {
        body.extend_from_slice(&field.to_le_bytes());
    }
    let hash = fnv_1a(&body);
    body.extend_from_slice(&hash.to_le_bytes());
    page(number, META, 0, &body)
}

/// Encodes a page and the overflow pages that its body needs, filled up with zeros.
fn page(number: u64, flags: u16, count: u16, body: &[u8]) -> Vec<u8> {
    let bytes = PAGE_HEAD_BYTES + body.len();
    let pages = bytes.div_ceil(PAGE_BYTES);
    let mut out = Vec::with_capacity(pages * PAGE_BYTES);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(pages as u32 - 1).to_le_bytes());
    out.extend_from_slice(body);
    out.resize(pages * PAGE_BYTES, 0);
    out
}

impl<F: Write + Seek> Pages<F> {
    /// Writes the next page, and returns its number.
    fn write(&mut self, flags: u16, count: u16, body: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let page = page(number, flags, count, body);
        self.file.write_all(&page)?;
        self.next += (page.len() / PAGE_BYTES) as u64;
        Ok(number)
    }
}

/// A record to add to a leaf.
struct Entry<'a> {
    flags: u32,
    key: &'a [u8],
    value: &'a [u8],
}

/// A tree in the making. It holds, for each level from the leaves up, the one page that is not
/// written yet.
struct Tree {
    leaf: OpenPage,
    branches: Vec<OpenPage>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { leaf: OpenPage::new(LEAF), branches: Vec::new() }
    }
}

impl Tree {
    fn add<F: Write + Seek>(&mut self, pages: &mut Pages<F>, entry: Entry<'_>) -> io::Result<()> {
        if !self.leaf.has_room(entry.key.len() + entry.value.len()) {
            let written = self.leaf.write(pages)?;
            self.add_child(pages, 0, written)?;
        }
        let [key_bytes, value_bytes] = [entry.key, entry.value].map(|it| it.len() as u32);
        // In a leaf's entry the position follows the flags.
        let fields = [entry.flags, 0, key_bytes, value_bytes];
        self.leaf.push(fields, 1, &[entry.key, entry.value]);
        Ok(())
    }

    /// Adds a written page, given by its first key and its number, to the branch at this level.
    fn add_child<F: Write + Seek>(
        &mut self,
        pages: &mut Pages<F>,
        level: usize,
        (first_key, number): (Vec<u8>, u64),
    ) -> io::Result<()> {
        if self.branches.len() == level {
            self.branches.push(OpenPage::new(BRANCH));
        }
        if !self.branches[level].has_room(first_key.len()) {
            let written = self.branches[level].write(pages)?;
            self.add_child(pages, level + 1, written)?;
        }
        let (lower, upper) = (number as u32, (number >> 32) as u32);
        let fields = [0, first_key.len() as u32, lower, upper];
        self.branches[level].push(fields, 0, &[&first_key]);
        Ok(())
    }

    /// Writes the pages that are still open. Returns the page of the root.
    fn finish<F: Write + Seek>(mut self, pages: &mut Pages<F>) -> io::Result<u64> {
        let mut written = self.leaf.write(pages)?;
        let mut level = 0;
        while level < self.branches.len() {
            self.add_child(pages, level, written)?;
            written = self.branches[level].write(pages)?;
            level += 1;
        }
        Ok(written.1)
    }
}

/// A page that is still being filled.
struct OpenPage {
    flags: u16,
    /// The four numbers of each entry. One of them is the position of the entry's data; until the
    /// page is written, the position counts from the first key.
    entries: Vec<[u32; 4]>,
    /// Index, among the four numbers of an entry, of the one that says where the entry's data
    /// begin: 0 in a branch, 1 in a leaf.
    position_at: usize,
    first_key_bytes: usize,
    data: Vec<u8>,
}

impl OpenPage {
    fn new(flags: u16) -> OpenPage {
        OpenPage {
            flags,
            entries: Vec::new(),
            position_at: 0,
            first_key_bytes: 0,
            data: Vec::new(),
        }
    }

    /// Whether an entry with this many bytes of data fits. An empty page takes an entry of any
    /// size.
    fn has_room(&self, bytes: usize) -> bool {
        let entries = (self.entries.len() + 1) * ENTRY_BYTES;
        let whole = PAGE_HEAD_BYTES + entries + self.data.len() + bytes;
        self.entries.is_empty() || whole <= PAGE_BYTES
    }

    /// Adds an entry. `parts` are its data, the key first. `position_at` is the index in `fields`
    /// where the position belongs.
    fn push(&mut self, mut fields: [u32; 4], position_at: usize, parts: &[&[u8]]) {
        if self.entries.is_empty() {
            self.first_key_bytes = parts[0].len();
        }
        self.position_at = position_at;
        fields[position_at] = self.data.len() as u32;
        self.entries.push(fields);
        for part in parts {
            self.data.extend_from_slice(part);
        }
    }

    /// Writes the page, and begins another one. Returns the written page's first key and number.
    fn write<F: Write + Seek>(&mut self, pages: &mut Pages<F>) -> io::Result<(Vec<u8>, u64)> {
        let count = self.entries.len();
        let mut body = Vec::with_capacity(count * ENTRY_BYTES + self.data.len());
        for (at, fields) in self.entries.iter_mut().enumerate() {
            fields[self.position_at] += ((count - at) * ENTRY_BYTES) as u32;
            for field in fields {
                body.extend_from_slice(&field.to_le_bytes());
            }
        }
        body.extend_from_slice(&self.data);
        let first_key = self.data[..self.first_key_bytes].to_vec();
        let number = pages.write(self.flags, count as u16, &body)?;
        self.entries.clear();
        self.data.clear();
        // Frees the memory that a large record has taken.
        self.data.shrink_to(PAGE_BYTES);
        self.first_key_bytes = 0;
        Ok((first_key, number))
    }
}
