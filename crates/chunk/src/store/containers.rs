//! Makes, describes, closes and deletes containers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::disk::{Disk, is_out_of_descriptors};

use crate::block::{BlockId, KeyValue};
use crate::container::{Container, ContainerInfo, ContainerSpec, Index, State, encode_container};
use crate::error::ChunkError;
use crate::layout::container_dirs;
use crate::limits::RECORD_BODY_BYTES_MAX;
use crate::log::Record;
use crate::record::Kind;
use crate::store::{Durability, Store};

impl<D: Disk + Clone> Store<D> {
    /// Makes a container. It becomes durable together with the first durable thing in it.
    pub fn create_container(&self, id: u64, spec: &ContainerSpec) -> Result<(), ChunkError> {
        let layout = spec.layout.unwrap_or(self.options.layout);
        let state = if spec.is_recovering { State::Recovering } else { State::Open };
        let index = Index::new(state, spec.metadata.clone(), spec.replica_index);
        let body = encode_container(layout, &index);
        check_metadata(&body)?;
        let dirs = container_dirs(&self.cluster_id, id);
        let path = if layout.has_files() { dirs[5].clone() } else { String::new() };
        let mut containers = self.containers.write();
        if containers.contains_key(&id) {
            return Err(ChunkError::ContainerExists { container_id: id });
        }
        if self.deleted.lock().contains(&id) {
            return Err(ChunkError::ContainerBeingDeleted { container_id: id });
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

    /// Describes a container for clients.
    pub fn container(&self, id: u64) -> Result<ContainerInfo, ChunkError> {
        Ok(self.find(id)?.info())
    }

    /// The ids of all containers, sorted.
    pub fn container_ids(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.containers.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Number of containers.
    pub fn container_count(&self) -> usize {
        self.containers.read().len()
    }

    /// Closes a container durably, with all its blocks: it takes no more writes. A closed container
    /// stays closed; an unhealthy or invalid one is refused.
    pub fn close_container(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::Closed, "close", |state| {
            !matches!(state, State::Unhealthy | State::Invalid)
        })
    }

    /// Quasi-closes a container: it takes no more writes, without agreement of the other replicas.
    /// For a container whose writers are lost.
    pub fn quasi_close_container(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::QuasiClosed, "quasi-close", |state| {
            state.takes_writes() || state == State::QuasiClosed
        })
    }

    /// Marks a container as unhealthy, because something in it is damaged.
    pub fn mark_unhealthy(&self, id: u64) -> Result<(), ChunkError> {
        self.change_state(id, State::Unhealthy, "mark", |_| true)
    }

    /// Adds key-value pairs to a container, in any state; a key that exists gets the new value.
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
        may: impl Fn(State) -> bool,
    ) -> Result<(), ChunkError> {
        let container = self.find(id)?;
        if container.index.lock().state == state {
            // Another thread may have changed the state just now, and still wait for the sync.
            return self.log.sync_all();
        }
        self.sync_names(&container)?;
        let set = |index: &mut Index| match may(index.state) {
            true => {
                index.state = state;
                Ok(())
            }
            false => Err(wrong_state(id, index.state, what)),
        };
        self.with_room(|| self.change(&container, set))
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
            check_metadata(&body)?;
            let at = self.log.append(&container_record(Kind::Container, container.id, &body))?;
            (index.state, index.metadata) = (changed.state, changed.metadata);
            at
        };
        self.settle(at, Durability::GroupSynced)
    }

    /// Deletes a container durably. Unless forced, refuses one that is still written to, or that
    /// has blocks.
    pub fn delete_container(&self, id: u64, is_forced: bool) -> Result<(), ChunkError> {
        self.with_room(|| self.try_delete_container(id, is_forced))
    }

    fn try_delete_container(&self, id: u64, is_forced: bool) -> Result<(), ChunkError> {
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
            if container.layout.has_files() {
                // Before the record is in the log: no checkpoint behind the record may miss this
                // id.
                self.deleted.lock().insert(id);
            }
            let appended = self.log.append(&container_record(Kind::ContainerDeleted, id, &[]));
            let at = appended.inspect_err(|_| {
                self.deleted.lock().remove(&id);
            })?;
            index.is_gone = true;
            index.gathered = None;
            index.forget(&self.live);
            at
        };
        self.has_garbage.store(true, Ordering::Relaxed);
        self.containers.write().remove(&id);
        self.settle(at, Durability::GroupSynced)?;
        if container.layout.has_files() {
            for local_id in container.index.lock().blocks.keys() {
                self.files.forget_block(BlockId { container_id: id, local_id: *local_id });
            }
            // The container is deleted. A writer that was under way may still add a file to its
            // folder; so removing the folder is tried again in the background.
            let _ = self.finish_deletion(id);
        }
        Ok(())
    }

    /// Removes the folders of deleted containers that still exist; in a damaged store, removes
    /// none.
    ///
    /// # Errors
    /// The log has stopped, or the disk does not tell which folders exist.
    pub(super) fn finish_deletions(&self) -> Result<(), ChunkError> {
        let deleted: Vec<u64> = self.deleted.lock().iter().copied().collect();
        for id in deleted {
            let [.., dir, _] = &container_dirs(&self.cluster_id, id);
            let is_left = || self.disk.exists(dir);
            if self.is_damaged && is_left().map_err(|error| ChunkError::io(dir, "find", error))? {
                continue;
            }
            if let Err(error @ ChunkError::Stopped(_)) = self.finish_deletion(id) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the folder of a container whose deletion is durable. Then its id may be used again.
    fn finish_deletion(&self, id: u64) -> Result<(), ChunkError> {
        let dirs = container_dirs(&self.cluster_id, id);
        let [.., many, _, chunks] = &dirs;
        if self.disk.exists(many).map_err(|error| ChunkError::io(many, "find", error))? {
            remove_folder(&self.disk, chunks)?;
            self.sync_dir(many)?;
        }
        self.deleted.lock().remove(&id);
        Ok(())
    }

    /// Makes the names of a container's folders durable.
    pub(super) fn sync_names(&self, container: &Container) -> Result<(), ChunkError> {
        if container.is_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        let dirs = container_dirs(&self.cluster_id, container.id);
        let mut parents = core::iter::once("").chain(dirs[..5].iter().map(String::as_str));
        parents.try_for_each(|dir| self.sync_dir(dir))
    }

    /// Makes the names in a folder durable. A failed sync stops the store.
    pub(super) fn sync_dir(&self, dir: &str) -> Result<(), ChunkError> {
        match self.disk.sync_dir(dir) {
            // The folder was removed meanwhile, with its container.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ChunkError::io(dir, "sync", error))
            }
            Err(error) => Err(self.sync_failed(dir, error)),
            Ok(()) => Ok(()),
        }
    }

    /// Makes a file durable. A failed sync stops the store: the system has dropped what it could
    /// not write, and a second sync would report success.
    pub(super) fn sync_file(&self, path: &str, file: &D::File) -> Result<(), ChunkError> {
        self.disk.sync_data(file).map_err(|error| self.sync_failed(path, error))
    }

    fn sync_failed(&self, path: &str, error: std::io::Error) -> ChunkError {
        let path = path.to_owned();
        match is_out_of_descriptors(&error) {
            // Syncing a folder opens it.
            true => ChunkError::Io { file: path, op: "sync", error },
            false => self.log.fail(ChunkError::Io { file: path, op: "sync", error }),
        }
    }
}

/// Refuses metadata that do not fit into a record.
fn check_metadata(body: &[u8]) -> Result<(), ChunkError> {
    let (bytes, bytes_max) = (body.len() as u64, RECORD_BODY_BYTES_MAX as u64);
    match bytes > bytes_max {
        true => Err(ChunkError::MetadataTooLarge { bytes, bytes_max }),
        false => Ok(()),
    }
}

/// A record about a whole container.
fn container_record(kind: Kind, container_id: u64, body: &[u8]) -> Record<'_> {
    Record { kind, container_id, local_id: 0, block_offset: 0, body }
}

/// The error for a container whose state does not allow the operation.
pub(super) fn wrong_state(container_id: u64, state: State, what: &'static str) -> ChunkError {
    ChunkError::WrongState { container_id, state, what }
}

/// Removes a container's folder with its files. Whatever is gone already is fine.
pub(super) fn remove_folder<D: Disk>(disk: &D, chunks: &str) -> Result<(), ChunkError> {
    let container = chunks.strip_suffix("/chunks").unwrap_or(chunks);
    let removed =
        remove_files(disk, chunks).and_then(|()| disk.remove_dir(container).or_else(is_gone));
    removed.map_err(|error| ChunkError::io(container, "remove", error))
}

/// Removes a folder with its files. A folder that is gone already is fine.
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
