//! Installing an image: a command that replaces the whole state by that of a snapshot.
//!
//! The command names the image; its bytes do not pass the log. Every member that applies the
//! command has prepared the image before. The ensemble keeps its own settings, level, servers (and
//! `/zookeeper/config`, which shows them), the batches of the members, and the counters, which
//! never fall. So a client that was connected before finds no zxid below the last one that it has
//! seen.

use std::sync::Arc;

use crate::change::Changes;
use crate::control::change::Replacement;
use crate::etcd::change::Change as EtcdChange;
use crate::ids::{BootId, ConnectionId, MemberId, Origin, Zxid};
use crate::level::Level;
use crate::limits::ETCD_REVISION_MAX;
use crate::machine::{Machine, PreparedImage};
use crate::stamp::Stamp;
use crate::zk::txn::Call;

/// How far the zxid of a state that begins anew is beyond that of its image: clients have seen
/// transactions after the image, and must find no zxid below theirs. ZooKeeper's zxid has as much
/// for one epoch.
const ZXID_BEYOND_IMAGE: i64 = 1 << 32;

impl Machine {
    /// The state of a new ensemble that begins with the tree and the sessions of an image, and with
    /// its level. It is equal wherever it is made from that image.
    pub fn begin_with(image: Machine) -> Machine {
        let mut machine = Machine::default();
        machine.ordinal = machine.ordinal.next();
        // The low half is empty, as in ZooKeeper at the beginning of an epoch.
        let zxid = (image.zk.zxid.0 & !(ZXID_BEYOND_IMAGE - 1)) + ZXID_BEYOND_IMAGE;
        machine.zk.zxid = Zxid(zxid);
        let bounds = machine.bounds_for_stores();
        // The level may be that of a new ensemble, which is no change.
        let _ = machine.control.raise(image.control.level(), bounds);
        machine.follow_level();
        machine.prepare_image(PreparedImage { hash: 0, machine: Box::new(image) });
        let nobody = Origin { member: MemberId(0), boot: BootId(0) };
        let (time_ms, connection) = (0, ConnectionId(0));
        let stamp = Stamp { time_ms, origin: nobody, connection, identities: &[] };
        machine.install_image(&stamp, 0, &mut Changes::for_nobody());
        machine.replaced = None;
        machine
    }

    /// Raises the revision of etcd's keys, and compacts them at it: clients that have seen
    /// revisions above this state's see none of them again, and their watches start anew. False if
    /// the revision would be too high.
    #[must_use]
    pub fn bump_etcd_revision(&mut self, by: u64) -> bool {
        let revision = self.etcd.revision.saturating_add_unsigned(by);
        if revision > ETCD_REVISION_MAX {
            return false;
        }
        self.etcd.revision = revision;
        self.etcd.compact(revision).is_ok()
    }

    /// Takes the image that a later command will install.
    pub fn prepare_image(&mut self, image: PreparedImage) {
        self.prepared = Some(image);
    }

    /// Whether the image with this hash is prepared, so that a command can install it.
    pub fn has_image(&self, hash: u128) -> bool {
        self.prepared.as_ref().is_some_and(|image| image.hash == hash)
    }

    /// Takes the state before the last image was installed, to be dropped where nobody waits.
    pub fn take_replaced(&mut self) -> Option<Box<Machine>> {
        self.replaced.take()
    }

    /// Installs the prepared image. Panics if there is none: the caller checks it
    /// ([`Machine::has_image`]).
    pub(crate) fn install_image(&mut self, stamp: &Stamp<'_>, hash: u128, changes: &mut Changes) {
        let prepared = self.prepared.take().filter(|image| image.hash == hash);
        let Some(PreparedImage { machine: mut image, .. }) = prepared else {
            panic!("the log installs image {hash:032x}, which is not in the data directory");
        };
        let call = Call { stamp, ordinal: self.ordinal };
        let mark = self.zk.install(call, &mut image.zk, self.control.servers().list());
        let has_etcd = self.install_store(&mut image);
        let has_etcd_v2 = self.install_etcd_v2(&mut image);
        changes.on_replaced(self, mark, Replacement::Image);
        if has_etcd {
            changes.etcd.push(EtcdChange::HistoryReplaced);
            self.raise_for_image(Level::ETCD, changes);
        }
        if has_etcd_v2 {
            self.raise_for_image(Level::ETCD_V2, changes);
        }
        self.control.widen(self.bounds_for_stores());
        if let Some(bounds) = image.control.bounds() {
            self.control.widen(bounds);
        }
        self.follow_level();
        self.replaced = Some(image);
    }

    /// Raises the level to that of a space which the image has brought.
    fn raise_for_image(&mut self, level: Level, changes: &mut Changes) {
        let bounds = self.bounds_for_stores();
        if let Some(raised) = self.control.raise(&level.into(), bounds) {
            changes.control.push(raised);
        }
    }

    /// Takes etcd v2's tree of an image. Its index never falls, and each time to live counts anew.
    /// False if both trees are unused.
    fn install_etcd_v2(&mut self, image: &mut Machine) -> bool {
        if self.etcd_v2.is_unused() && image.etcd_v2.is_unused() {
            return false;
        }
        core::mem::swap(&mut self.etcd_v2, &mut image.etcd_v2);
        self.etcd_v2.take_place_of(image.etcd_v2.index());
        // A running walk belongs to the old state: its next step reports that it is worthless.
        self.etcd_v2.walk = image.etcd_v2.walk.take();
        self.etcd_v2.abort_walk();
        true
    }

    /// Takes etcd's keys and leases of an image. Their revision never falls. Each lease counts as
    /// granted now. False if both stores are unused.
    fn install_store(&mut self, image: &mut Machine) -> bool {
        if self.etcd.is_unused() && image.etcd.is_unused() {
            return false;
        }
        core::mem::swap(&mut self.etcd, &mut image.etcd);
        self.etcd.revision = self.etcd.revision.max(image.etcd.revision);
        if !(self.etcd.auth.is_unused() && image.etcd.auth.is_unused()) {
            let before = image.etcd.auth.revision();
            let knows_passwords = self.control.level().level >= Level::TOKENS;
            Arc::make_mut(&mut self.etcd.auth).on_installed(before, knows_passwords);
        }
        // The settings are those of this ensemble.
        self.etcd.settings = image.etcd.settings;
        self.etcd.leases.grant_all_anew(self.ordinal);
        // A running walk belongs to the old state: its next step reports that it is worthless.
        self.etcd.walk = image.etcd.walk.take();
        self.etcd.abort_walk();
        true
    }
}

#[cfg(test)]
mod tests;
