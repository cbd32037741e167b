//! The children of a directory, sorted by name, in reference-counted chunks.
//!
//! A reader may share a directory. A write into a shared directory copies one chunk and the list of
//! chunks, and not all children: so the copy costs little more for a large directory than for a
//! small one.

use std::sync::Arc;

use crate::limits::ETCD_V2_CHUNK_NODES_MAX;

/// A child: its name, and the node.
type Child<T> = (Arc<str>, Arc<T>);

/// Some children, sorted by name.
pub type Chunk<T> = Vec<Child<T>>;

/// The children of a directory.
#[derive(Clone, Debug)]
pub struct Children<T> {
    /// Chunks that are not empty. Names ascend within each chunk, and from chunk to chunk.
    chunks: Vec<Arc<Chunk<T>>>,
}

impl<T> Default for Children<T> {
    fn default() -> Children<T> {
        Children { chunks: Vec::new() }
    }
}

impl<T: PartialEq> PartialEq for Children<T> {
    /// Whether both have equal names and nodes, however they are split into chunks.
    fn eq(&self, other: &Children<T>) -> bool {
        self.behind(None).eq(other.behind(None))
    }
}

impl<T: Eq> Eq for Children<T> {}

impl<T> Children<T> {
    /// The child with this name; `None` if there is none.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        let chunk = self.chunks.get(self.place(name))?;
        let at = find(chunk, name).ok()?;
        Some(&chunk[at].1)
    }

    /// The child with this name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Arc<T>> {
        let place = self.place(name);
        let chunk = self.chunks.get_mut(place)?;
        let at = find(chunk, name).ok()?;
        Some(&mut Arc::make_mut(chunk)[at].1)
    }

    /// Adds or replaces a child. Returns the child that it replaces.
    pub fn insert(&mut self, name: &str, node: Arc<T>) -> Option<Arc<T>> {
        let place = self.place(name);
        let Some(chunk) = self.chunks.get_mut(place) else {
            self.chunks.push(Arc::new(vec![(name.into(), node)]));
            return None;
        };
        let at = find(chunk, name);
        let chunk = Arc::make_mut(chunk);
        match at {
            Ok(at) => Some(core::mem::replace(&mut chunk[at].1, node)),
            Err(at) => {
                chunk.insert(at, (name.into(), node));
                if chunk.len() > ETCD_V2_CHUNK_NODES_MAX {
                    // If names arrive in order, split at the end, so that full chunks stay behind.
                    let is_last = at == ETCD_V2_CHUNK_NODES_MAX;
                    let kept = if is_last { at } else { ETCD_V2_CHUNK_NODES_MAX / 2 };
                    let moved = chunk.split_off(kept);
                    self.chunks.insert(place + 1, Arc::new(moved));
                }
                None
            }
        }
    }

    /// Removes a child and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Arc<T>> {
        let place = self.place(name);
        let chunk = self.chunks.get_mut(place)?;
        let at = find(chunk, name).ok()?;
        let (_, removed) = Arc::make_mut(chunk).remove(at);
        self.join(place);
        Some(removed)
    }

    /// The children whose names sort after `after`, in order; all children if it is `None`.
    pub fn behind(&self, after: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &Arc<T>)> {
        let place = after.map_or(0, |after| self.place(after));
        let (first, others) = match &self.chunks[place.min(self.chunks.len())..] {
            [] => ([].as_slice(), [].as_slice()),
            [first, others @ ..] => (first.as_slice(), others),
        };
        let begin = after.map_or(0, |after| first.partition_point(|(name, _)| **name <= *after));
        let others = others.iter().flat_map(|chunk| chunk.iter());
        first[begin..].iter().chain(others).map(|(name, node)| (name, node))
    }

    /// All chunks, so that the caller can drop them one by one.
    pub fn into_chunks(self) -> Vec<Arc<Chunk<T>>> {
        self.chunks
    }

    /// The index of the chunk that has this name, or would have it.
    fn place(&self, name: &str) -> usize {
        self.chunks.partition_point(|chunk| *chunk[0].0 <= *name).saturating_sub(1)
    }

    /// Removes the chunk at this index if it is empty, or merges it with a neighbour if both are
    /// small.
    fn join(&mut self, place: usize) {
        if self.chunks[place].is_empty() {
            self.chunks.remove(place);
            return;
        }
        for first in [place, place.saturating_sub(1)] {
            let Some(pair) = self.chunks.get(first..first + 2) else { continue };
            if pair[0].len() + pair[1].len() <= ETCD_V2_CHUNK_NODES_MAX / 2 {
                let second = self.chunks.remove(first + 1);
                Arc::make_mut(&mut self.chunks[first]).extend(second.iter().cloned());
                return;
            }
        }
    }
}

/// The position of a name in a chunk: `Ok` if it is there, `Err` where it would be inserted.
fn find<T>(chunk: &[Child<T>], name: &str) -> Result<usize, usize> {
    chunk.binary_search_by(|(found, _)| (**found).cmp(name))
}

#[cfg(test)]
mod tests;
