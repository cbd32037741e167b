//! Storage for data that only some znodes have, found by 32-bit indices. Its chunks never move, so
//! adding an item costs the same at any size.

/// Items in a chunk.
const CHUNK_ITEMS: usize = 4096;

/// Items, each with an index. The index of a removed item is used again.
pub(super) struct Side<T> {
    chunks: Vec<Vec<T>>,
    vacant: Vec<u32>,
}

impl<T> Default for Side<T> {
    fn default() -> Side<T> {
        Side { chunks: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Side<T> {
    pub(super) fn get(&self, index: u32) -> &T {
        &self.chunks[index as usize / CHUNK_ITEMS][index as usize % CHUNK_ITEMS]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[index as usize / CHUNK_ITEMS][index as usize % CHUNK_ITEMS]
    }

    /// Adds an item. Returns its index.
    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.vacant.pop() {
            *self.get_mut(index) = item;
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ITEMS) {
            self.chunks.push(Vec::with_capacity(CHUNK_ITEMS));
        }
        let full = (self.chunks.len() - 1) * CHUNK_ITEMS;
        let chunk = self.chunks.last_mut().expect("a chunk was just pushed");
        chunk.push(item);
        (full + chunk.len() - 1) as u32
    }

    /// Number of items in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum::<usize>() - self.vacant.len()
    }

    /// Frees an index, which must be in use. The next item gets it.
    pub(super) fn remove(&mut self, index: u32) {
        self.vacant.push(index);
    }
}
