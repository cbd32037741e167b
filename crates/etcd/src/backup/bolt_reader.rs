//! Reads the records of a bucket of a bbolt database, in the order of their keys. Every number in
//! the file is checked before it is used, because bbolt has checksums only over its two meta pages.

use std::io::{Read, Seek, SeekFrom};

use super::bolt::{
    BRANCH, ENTRY_BYTES, IS_BUCKET, LEAF, MAGIC, META, META_BYTES, PAGE_HEAD_BYTES, VERSION, fnv_1a,
};
use super::read::ReadError;

/// The page sizes that a database may have, in bytes. bbolt takes the page size of the operating
/// system that creates the file.
const PAGE_BYTES: [usize; 8] = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072];

/// The most levels of a tree. A page has at least two entries, so no file has room for more levels:
/// a deeper tree is a cycle of pages.
const DEPTH_MAX: usize = 64;

/// Whether a file that begins with these bytes looks like a bbolt database.
pub fn is_database(head: &[u8]) -> bool {
    u32_at(head, PAGE_HEAD_BYTES) == Some(MAGIC)
}

/// An open database.
pub(super) struct BoltReader<F: Read + Seek> {
    file: F,
    page_bytes: usize,
    /// How many pages the file has.
    pages: u64,
    root: u64,
}

/// The contents of a meta page.
struct Meta {
    page_bytes: usize,
    root: u64,
    pages: u64,
    transaction: u64,
}

/// A page, together with its overflow pages.
struct Page {
    bytes: Vec<u8>,
    is_branch: bool,
    count: usize,
    /// Index of the entry that a walk visits next.
    next: usize,
}

/// The root page of a bucket's tree.
enum Root {
    Page(u64),
    /// The page is inside the record of the bucket; these are its bytes.
    Inline(Vec<u8>),
}

impl<F: Read + Seek> BoltReader<F> {
    /// Opens the database in the first `bytes` of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no sound database.
    pub fn open(mut file: F, bytes: u64) -> Result<BoltReader<F>, ReadError> {
        let mut meta_at = |at: usize| -> Result<Option<Meta>, ReadError> {
            let mut page = [0; PAGE_HEAD_BYTES + META_BYTES];
            if bytes < (at + page.len()) as u64 {
                return Ok(None);
            }
            file.seek(SeekFrom::Start(at as u64))?;
            file.read_exact(&mut page)?;
            Ok(Meta::read(&page).filter(|meta| at == 0 || meta.page_bytes == at))
        };
        // A sound first meta says where the second one is. No other place is tried then, because
        // the bytes of a value may look like a meta.
        let first = meta_at(0)?;
        let second = match &first {
            Some(first) => meta_at(first.page_bytes)?,
            None => PAGE_BYTES.into_iter().find_map(|at| meta_at(at).transpose()).transpose()?,
        };
        let newest = first.into_iter().chain(second).max_by_key(|meta| meta.transaction);
        let Some(Meta { page_bytes, root, pages, .. }) = newest else {
            return Err(damaged("no meta page is sound"));
        };
        if pages.checked_mul(page_bytes as u64).is_none_or(|end| end > bytes) {
            return Err(damaged(format!("it ends before its {pages} pages do")));
        }
        Ok(BoltReader { file, page_bytes, pages, root })
    }

    /// Calls `visit` with key and value of each record of a bucket. A missing bucket counts as
    /// empty.
    ///
    /// # Errors
    /// The file cannot be read, a page is damaged, or `visit` fails.
    pub fn for_each(
        &mut self,
        bucket: &str,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut found = None;
        self.walk(Root::Page(self.root), |flags, name, value| {
            if name == bucket.as_bytes() && flags == IS_BUCKET {
                found = Some(value.to_vec());
            }
            Ok(())
        })?;
        let Some(found) = found else { return Ok(()) };
        let root = u64_at(&found, 0).ok_or_else(|| damaged("a bucket has no root"))?;
        let root = match root {
            0 => Root::Inline(found[16.min(found.len())..].to_vec()),
            page => Root::Page(page),
        };
        let mut last: Option<Vec<u8>> = None;
        self.walk(root, |flags, key, value| {
            if flags != 0 || last.as_deref().is_some_and(|last| last >= key) {
                return Err(damaged(format!(
                    "the records of the bucket {bucket} are not in order"
                )));
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            visit(key, value)
        })
    }

    /// Calls `visit` with flags, key and value of each record of a tree.
    fn walk(
        &mut self,
        root: Root,
        mut visit: impl FnMut(u32, &[u8], &[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let first = match root {
            Root::Page(number) => self.page(number)?,
            Root::Inline(bytes) => Page::of(bytes, 0)?,
        };
        let (mut path, mut pages_left) = (vec![first], self.pages);
        while let Some(page) = path.last_mut() {
            if page.next == page.count {
                path.pop();
            } else if page.is_branch {
                let child = page.child().ok_or_else(|| damaged("a branch is not whole"))?;
                page.next += 1;
                pages_left -= 1;
                if path.len() == DEPTH_MAX || pages_left == 0 {
                    return Err(damaged("a page is used twice"));
                }
                path.push(self.page(child)?);
            } else {
                let (flags, key, value) =
                    page.record().ok_or_else(|| damaged("a leaf is not whole"))?;
                visit(flags, key, value)?;
                page.next += 1;
            }
        }
        Ok(())
    }

    /// Reads a page together with its overflow pages.
    fn page(&mut self, number: u64) -> Result<Page, ReadError> {
        let beyond = || damaged(format!("page {number} is not in the file"));
        if number < 2 || number >= self.pages {
            return Err(beyond());
        }
        self.file.seek(SeekFrom::Start(number * self.page_bytes as u64))?;
        let mut bytes = vec![0; self.page_bytes];
        self.file.read_exact(&mut bytes)?;
        let more = u64::from(u32_at(&bytes, 12).ok_or_else(beyond)?);
        if more >= self.pages - number {
            return Err(beyond());
        }
        bytes.resize(self.page_bytes * (1 + more as usize), 0);
        self.file.read_exact(&mut bytes[self.page_bytes..])?;
        Page::of(bytes, number)
    }
}

impl Meta {
    /// The meta in a page; `None` if its magic, version, checksum or page size is wrong.
    fn read(page: &[u8; PAGE_HEAD_BYTES + META_BYTES]) -> Option<Meta> {
        let (head, body) = page.split_at(PAGE_HEAD_BYTES);
        let is_meta = u16_at(head, 8)? & META != 0;
        let is_known = u32_at(body, 0)? == MAGIC && u32_at(body, 4)? == VERSION;
        let is_sound = fnv_1a(&body[..META_BYTES - 8]) == u64_at(body, META_BYTES - 8)?;
        let page_bytes = u32_at(body, 8)? as usize;
        if !is_meta || !is_known || !is_sound || !PAGE_BYTES.contains(&page_bytes) {
            return None;
        }
        let (root, pages) = (u64_at(body, 16)?, u64_at(body, 40)?);
        Some(Meta { page_bytes, root, pages, transaction: u64_at(body, 48)? })
    }
}

impl Page {
    /// The page in these bytes, which must be a branch or a leaf and state this number.
    fn of(bytes: Vec<u8>, number: u64) -> Result<Page, ReadError> {
        let read = || Some((u64_at(&bytes, 0)?, u16_at(&bytes, 8)?, u16_at(&bytes, 10)?));
        let wrong = || damaged(format!("page {number} is not one of a tree"));
        let (stated, flags, count) = read().ok_or_else(wrong)?;
        let is_branch = flags == BRANCH;
        if stated != number || !(is_branch || flags == LEAF) {
            return Err(wrong());
        }
        Ok(Page { bytes, is_branch, count: usize::from(count), next: 0 })
    }

    /// The offset of the next entry in the page.
    fn entry(&self) -> usize {
        PAGE_HEAD_BYTES + self.next * ENTRY_BYTES
    }

    /// The page number of the child that the next entry names.
    fn child(&self) -> Option<u64> {
        u64_at(&self.bytes, self.entry() + 8)
    }

    /// Flags, key and value of the next record; `None` if the page is too short for it.
    fn record(&self) -> Option<(u32, &[u8], &[u8])> {
        let at = self.entry();
        let field =
            |number: usize| u32_at(&self.bytes, at + 4 * number).map(|field| field as usize);
        let key = at.checked_add(field(1)?)?;
        let value = key.checked_add(field(2)?)?;
        let end = value.checked_add(field(3)?)?;
        Some((u32_at(&self.bytes, at)?, self.bytes.get(key..value)?, self.bytes.get(value..end)?))
    }
}

fn damaged(what: impl Into<String>) -> ReadError {
    ReadError::Damaged(what.into())
}

fn array_at<const LEN: usize>(bytes: &[u8], at: usize) -> Option<[u8; LEN]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}
