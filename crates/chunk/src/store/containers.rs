//! Containers: made, closed, deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::disk::Disk;

use crate::block::{BlockId, KeyValue};
use crate::container::{Container, ContainerInfo, ContainerSpec, Index, State, encode_container};
use crate::error::ChunkError;
use crate::layout::container_dirs;
use crate::log::Record;
use crate::record::Kind;
use crate::store::{Durability, Store};

impl<D: Disk> Store<D> {
    /// Makes a container. It is durable with the first thing in it that is.
    pub fn create_container(&self, id: u64, spec: &ContainerSpec) -> Result<(), ChunkError> {
        let layout = spec.layout.unwrap_or(self.options.layout);
        let state = if spec.is_recovering { State::Recovering } else { State::Open };
        let index = Index::new(state, spec.metadata.clone(), spec.replica_index);
        let body = encode_container(layout, &index);
        let dirs = container_dirs(&self.cluster_id, id);
        let path = if layout.has_files() { dirs[5].clone() } else { String::new() };
        let mut containers = self.containers.write();
        if containers.contains_key(&id) {
            return Err(ChunkError::ContainerExists { container_id: id });
        }
        if layout.has_files() {
            for dir in &dirs {
                let made = self.disk.create_dir(dir);
                made.map_err(|error| ChunkError::io(dir, "create", error))?;
            }
        }
        self.log.append(&container_record(Kind::Container, id, &body))?;
        containers.insert(id, Arc::new(Container::new(id, layout, path, index)));
        Ok(())
    }

    /// What is known of a container.
    pub fn container(&self, id: u64) -> Result<ContainerInfo, ChunkError> {
        Ok(self.find(id)?.info())
    }

    /// The ids of all containers, sorted.
    pub fn container_ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.containers.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many containers there are.
    pub fn container_count(&self) -> usize {
        self.containers.read().len()
    }

    /// No more writes: the container is closed, durably, with all that is in it. A closed one stays
    /// so; one that is unhealthy or invalid is not closed.
    pub fn close_container(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::Closed, "close", |state| {
            !matches!(state, State::Unhealthy | State::Invalid)
        })
    }

    /// No more writes, though nobody else agreed: for a container whose writers are lost.
    pub fn quasi_close_container(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::QuasiClosed, "quasi-close", |state| {
            state.takes_writes() || state == State::QuasiClosed
        })
    }

    /// Something in the container is damaged.
    pub fn mark_unhealthy(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::Unhealthy, "mark", |_| true)
    }

    /// Adds to what the client says about a container, in whatever state it is; a key that is there
    /// gets the new value.
    pub fn update_container_metadata(
        &self,
        id: u64,
        metadata: &[KeyValue],
    ) -> Result<(), ChunkError> {
        let container = self.find(id)?;
        self.change(&container, |index| {
            for pair in metadata {
                index.metadata.retain(|known| known.key != pair.key);
                index.metadata.push(pair.clone());
            }
            Ok(())
        })
    }

    fn change_state(
        &self,
        id: u64,
        state: State,
        what: &'static str,
        may: impl FnOnce(State) -> bool,
    ) -> Result<(), ChunkError> {
        let container = self.find(id)?;
        if container.index.lock().state == state {
            // It may have become so in this moment, by somebody who still waits.
            return self.log.sync_all();
        }
        self.sync_path(&container)?;
        self.change(&container, |index| {
            if !may(index.state) {
                return Err(wrong_state(id, index.state, what));
            }
            index.state = state;
            Ok(())
        })
    }

    /// Changes what is known of a container, durably.
    fn change(
        &self,
        container: &Container,
        change: impl FnOnce(&mut Index) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        let at = {
            let mut index = container.index.lock();
            if index.is_gone {
                return Err(ChunkError::NoSuchContainer { container_id: container.id });
            }
            self.write_gathered_any(container, &mut index)?;
            let mut changed = Index::new(index.state, index.metadata.clone(), index.replica_index);
            change(&mut changed)?;
            let body = encode_container(container.layout, &changed);
            let at = self.log.append(&container_record(Kind::Container, container.id, &body))?;
            (index.state, index.metadata) = (changed.state, changed.metadata);
            at
        };
        self.settle(at, Durability::GroupSynced)
    }

    /// Deletes a container, durably. One that is still written to is not deleted, and one with
    /// blocks only by force.
    pub fn delete_container(&self, id: u64, is_forced: bool) -> Result<(), ChunkError> {
        let container = self.find(id)?;
        let at = {
            let mut index = container.index.lock();
            if index.is_gone {
                return Err(ChunkError::NoSuchContainer { container_id: id });
            }
            if !is_forced && index.state.takes_writes() {
                return Err(ChunkError::DeleteOfOpen { container_id: id });
            }
            if !is_forced && !index.blocks.is_empty() {
                let block_count = index.blocks.len() as u64;
                return Err(ChunkError::DeleteOfNonEmpty { container_id: id, block_count });
            }
            let at = self.log.append(&container_record(Kind::ContainerDeleted, id, &[]))?;
            index.is_gone = true;
            index.gathered = None;
            at
        };
        self.has_garbage.store(true, Ordering::Relaxed);
        self.settle(at, Durability::GroupSynced)?;
        if !container.path.is_empty() {
            remove_folder(&self.disk, &container.path)?;
            for local_id in container.index.lock().blocks.keys() {
                self.files.forget_block(BlockId { container_id: id, local_id: *local_id });
            }
        }
        self.containers.write().remove(&id);
        Ok(())
    }

    /// Makes the names of a container's folders durable.
    pub(super) fn sync_path(&self, container: &Container) -> Result<(), ChunkError> {
        if container.has_durable_path.load(Ordering::Acquire) {
            return Ok(());
        }
        let dirs = container_dirs(&self.cluster_id, container.id);
        let parents = core::iter::once("").chain(dirs[..5].iter().map(String::as_str));
        for dir in parents {
            self.disk.sync_dir(dir).map_err(|error| ChunkError::io(dir, "sync", error))?;
        }
        container.has_durable_path.store(true, Ordering::Release);
        Ok(())
    }
}

/// A record about a whole container.
fn container_record(kind: Kind, container_id: u64, body: &[u8]) -> Record<'_> {
    Record { kind, container_id, local_id: 0, block_offset: 0, body }
}

/// Refuses what the state does not allow.
pub(super) fn wrong_state(container_id: u64, state: State, what: &'static str) -> ChunkError {
    ChunkError::WrongState { container_id, state, what }
}

/// Removes a container's folder with its files, from inside out; what is gone already is fine.
pub(super) fn remove_folder<D: Disk>(disk: &D, chunks: &str) -> Result<(), ChunkError> {
    let container = chunks.strip_suffix("/chunks").unwrap_or(chunks);
    let removed =
        remove_files(disk, chunks).and_then(|()| disk.remove_dir(container).or_else(is_gone));
    removed.map_err(|error| ChunkError::io(container, "remove", error))
}

/// Removes a folder of files; one that is gone already is fine.
pub(super) fn remove_files<D: Disk>(disk: &D, dir: &str) -> std::io::Result<()> {
    let names = match disk.list(dir) {
        Err(error) => return is_gone(error),
        Ok(names) => names,
    };
    names.iter().try_for_each(|name| disk.remove(&format!("{dir}/{name}")))?;
    disk.remove_dir(dir)
}

fn is_gone(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
