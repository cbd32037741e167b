//! Sorts records by key in bounded memory: writes sorted runs of records to a file, and merges the
//! runs at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// Bytes of records held in memory; at this size they are written to the file as a run.
const RUN_BYTES: usize = 32 * 1024 * 1024;

/// Bytes read from a run at once: 1/512 of a run, so 512 runs are merged in about the memory of
/// one.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of the two u32 before a record in the file: the lengths of its key and of its value.
const HEAD_BYTES: usize = 8;

/// Sorts records by key. No two records have the same key.
pub(super) struct Sorter<F: Read + Write + Seek> {
    file: F,
    run_bytes: usize,
    data: Vec<u8>,
    /// The positions of the records in `data`.
    places: Vec<Place>,
    /// The offset in the file of each run; the last offset is the end of the file.
    starts: Vec<u64>,
}

/// The position of a record in a buffer: its key, then its value.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl Place {
    fn record(self, data: &[u8]) -> (&[u8], &[u8]) {
        let (key, rest) = data[self.start..].split_at(self.key_bytes as usize);
        (key, &rest[..self.value_bytes as usize])
    }
}

impl<F: Read + Write + Seek> Sorter<F> {
    /// A sorter that uses an empty file for what does not fit into memory.
    pub fn new(file: F) -> Sorter<F> {
        Sorter::with_run_bytes(file, RUN_BYTES)
    }

    pub fn with_run_bytes(file: F, run_bytes: usize) -> Sorter<F> {
        Sorter { file, run_bytes, data: Vec::new(), places: Vec::new(), starts: vec![0] }
    }

    /// Adds a record.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if self.data.len() + self.places.len() * size_of::<Place>() >= self.run_bytes {
            self.spill()?;
        }
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        self.places.push(Place { start: self.data.len(), key_bytes, value_bytes });
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
        Ok(())
    }

    /// Calls `visit` with all records, in the order of their keys.
    pub fn for_each(
        mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.starts.len() > 1 {
            self.spill()?;
            (self.data, self.places) = (Vec::new(), Vec::new());
            return self.merge(visit);
        }
        self.sort();
        self.places.iter().try_for_each(|place| {
            let (key, value) = place.record(&self.data);
            visit(key, value)
        })
    }

    fn sort(&mut self) {
        let data = &self.data;
        self.places.sort_unstable_by_key(|place| place.record(data).0);
    }

    /// Sorts the records in memory and writes them to the file as a run.
    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut end = *self.starts.last().expect("there is a first start");
        self.file.seek(SeekFrom::Start(end))?;
        let mut out = BufWriter::with_capacity(READ_BYTES, &mut self.file);
        for place in &self.places {
            let (key, value) = place.record(&self.data);
            out.write_all(&place.key_bytes.to_le_bytes())?;
            out.write_all(&place.value_bytes.to_le_bytes())?;
            out.write_all(key)?;
            out.write_all(value)?;
            end += (HEAD_BYTES + key.len() + value.len()) as u64;
        }
        out.flush()?;
        drop(out);
        self.starts.push(end);
        self.data.clear();
        self.places.clear();
        Ok(())
    }

    fn merge(mut self, mut visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut runs: Vec<Run> = self.starts.windows(2).map(|at| Run::new(at[0], at[1])).collect();
        let mut next = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            if run.advance(&mut self.file)? {
                next.push(Reverse((run.record().0.to_vec(), number)));
            }
        }
        while let Some(Reverse((mut key, number))) = next.pop() {
            let run = &mut runs[number];
            visit(&key, run.record().1)?;
            if run.advance(&mut self.file)? {
                key.clear();
                key.extend_from_slice(run.record().0);
                next.push(Reverse((key, number)));
            }
        }
        Ok(())
    }
}

/// A run that is being read.
struct Run {
    /// The range of the file that is not read yet, up to `end`.
    offset: u64,
    end: u64,
    /// A buffer of bytes read from the file.
    bytes: Vec<u8>,
    /// The present record in `bytes`.
    place: Place,
    /// Where the next record begins in `bytes`.
    next: usize,
}

impl Run {
    fn new(offset: u64, end: u64) -> Run {
        let place = Place { start: 0, key_bytes: 0, value_bytes: 0 };
        Run { offset, end, bytes: Vec::new(), place, next: 0 }
    }

    /// Key and value of the present record.
    fn record(&self) -> (&[u8], &[u8]) {
        self.place.record(&self.bytes)
    }

    /// Goes on to the next record; false at the end of the run.
    fn advance(&mut self, file: &mut (impl Read + Seek)) -> io::Result<bool> {
        if self.next == self.bytes.len() && self.offset == self.end {
            return Ok(false);
        }
        self.need(file, HEAD_BYTES)?;
        let number = |at: usize| {
            let bytes = self.bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let (key_bytes, value_bytes) = (number(self.next), number(self.next + 4));
        let bytes = HEAD_BYTES + key_bytes as usize + value_bytes as usize;
        self.need(file, bytes)?;
        self.place = Place { start: self.next + HEAD_BYTES, key_bytes, value_bytes };
        self.next += bytes;
        Ok(true)
    }

    /// Reads until `self.bytes` holds at least this many bytes from the next record on.
    fn need(&mut self, file: &mut (impl Read + Seek), bytes: usize) -> io::Result<()> {
        let present = self.bytes.len() - self.next;
        if present >= bytes {
            return Ok(());
        }
        self.bytes.drain(..self.next);
        self.next = 0;
        let left = (self.end - self.offset) as usize;
        let more = left.min((bytes - present).max(READ_BYTES));
        self.bytes.resize(present + more, 0);
        // Frees the memory that a large record has taken.
        self.bytes.shrink_to(2 * READ_BYTES);
        file.seek(SeekFrom::Start(self.offset))?;
        file.read_exact(&mut self.bytes[present..])?;
        self.offset += more as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Sorts records with at most `run_bytes` of them in memory, and returns them in order.
    fn sorted(records: &[(Vec<u8>, Vec<u8>)], run_bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut sorter = Sorter::with_run_bytes(Cursor::new(Vec::new()), run_bytes);
        for (key, value) in records {
            sorter.push(key, value).unwrap();
        }
        let mut out = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            out.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        sorter.for_each(visit).unwrap();
        out
    }

    #[test]
    fn records_come_out_by_key_whatever_fits_into_memory() {
        let record = |number: u32| {
            let scattered = number.wrapping_mul(2_654_435_761);
            let bytes =
                if number.is_multiple_of(97) { 3 * READ_BYTES } else { number as usize % 50 };
            (scattered.to_be_bytes().to_vec(), vec![number as u8; bytes])
        };
        let records: Vec<_> = (0..2_000).map(record).collect();
        let mut expected = records.clone();
        expected.sort();
        for run_bytes in [1, 100, 10_000, 300_000, RUN_BYTES] {
            assert!(sorted(&records, run_bytes) == expected, "with {run_bytes} bytes in memory");
        }
    }

    #[test]
    fn nothing_and_one_record_are_sorted() {
        assert_eq!(sorted(&[], 1), []);
        let one = [(b"key".to_vec(), Vec::new())];
        assert_eq!(sorted(&one, 1), one);
    }

    #[test]
    fn what_cannot_be_read_back_is_an_error() {
        let mut sorter = Sorter::with_run_bytes(Cursor::new(Vec::new()), 1);
        sorter.push(b"a", b"1").unwrap();
        sorter.push(b"b", b"2").unwrap();
        sorter.push(b"c", b"3").unwrap();
        sorter.file.get_mut().truncate(5);
        let error = sorter.merge(|_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
