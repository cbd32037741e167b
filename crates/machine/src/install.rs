//! The command that installs an image: it replaces the data of all protocols (trees, keys,
//! sessions, users) by those of a snapshot. An image is the bytes of a snapshot.
//!
//! The command only names the image; the log does not carry the image's bytes. Every member must
//! have prepared the image before it applies the command. The ensemble keeps its own settings,
//! servers (and `/zookeeper/config`, which shows them), and last batches. It keeps its level too,
//! unless the image has data of etcd that need a higher one. Counters such as the zxid and the
//! revisions may rise, but never fall: a client that was connected before finds no zxid below the
//! last one that it has seen.

use std::sync::Arc;

use crate::change::Changes;
use crate::control::change::Replacement;
use crate::etcd::change::Change as EtcdChange;
use crate::ids::{BootId, ConnectionId, LogIndex, MemberId, Origin, Zxid};
use crate::level::Level;
use crate::limits::ETCD_REVISION_MAX;
use crate::machine::{Machine, PreparedImage};
use crate::stamp::Stamp;
use crate::zk::txn::Call;

/// How much the zxid of a new ensemble that begins with an image exceeds the image's zxid. Clients
/// may have seen transactions after the image, and must find no zxid below theirs. It is as many
/// transactions as one of ZooKeeper's epochs has.
const ZXID_BEYOND_IMAGE: i64 = 1 << 32;

/// The log index of a state that a new ensemble begins with. It is behind that of the empty state
/// of a member that joins later: such a member must get a snapshot, and not only the entries that
/// follow.
const GIVEN_FROM: LogIndex = LogIndex(2);

impl Machine {
    /// The state of a new ensemble that begins with the tree, the sessions and the level of an
    /// image. Equal wherever it is made from that image.
    pub fn begin_with(image: Machine) -> Machine {
        Machine::begin(image, None)
    }

    /// Like [`Machine::begin_with`], for the server of `member` alone, which keeps its number, its
    /// record and its id. The other servers are not on the list any more. Below level 5 the new
    /// state has no list: the configuration of the server says it.
    pub fn begin_alone_with(image: Machine, member: MemberId) -> Machine {
        Machine::begin(image, Some(member))
    }

    fn begin(image: Machine, alone: Option<MemberId>) -> Machine {
        let mut machine = Machine::default();
        machine.ordinal = machine.ordinal.next();
        machine.index = GIVEN_FROM;
        // Clear the low half, as ZooKeeper does at the beginning of an epoch.
        let zxid = (image.zk.zxid.0 & !(ZXID_BEYOND_IMAGE - 1)) + ZXID_BEYOND_IMAGE;
        machine.zk.zxid = Zxid(zxid);
        let bounds = machine.bounds_for_stores();
        let _ = machine.control.raise(image.control.level(), bounds);
        machine.follow_level();
        if let Some(member) = alone {
            machine.control.keep_only(image.control.servers(), member, zxid.unsigned_abs());
        }
        machine.prepare_image(PreparedImage { hash: 0, machine: Box::new(image) });
        let nobody = Origin { member: MemberId(0), boot: BootId(0) };
        let (time_ms, connection) = (0, ConnectionId(0));
        let stamp = Stamp { time_ms, origin: nobody, connection, identities: &[] };
        machine.install_image(&stamp, 0, &mut Changes::for_nobody());
        machine.replaced = None;
        machine
    }

    /// Raises the revision of etcd's keys by `by`, and compacts the keys at the new revision. For a
    /// restore: clients may have seen revisions above the restored one, and must not see other keys
    /// under equal revisions; their watches start anew. False if the revision would be too high.
    #[must_use]
    pub fn bump_etcd_revision(&mut self, by: u64) -> bool {
        let revision = self.etcd.revision.saturating_add_unsigned(by);
        if revision > ETCD_REVISION_MAX {
            return false;
        }
        self.etcd.revision = revision;
        self.etcd.compact(revision).is_ok()
    }

    /// Keeps an image for a later command to install. Replaces an image kept before.
    pub fn prepare_image(&mut self, image: PreparedImage) {
        self.prepared = Some(image);
    }

    /// Whether the image with this hash is prepared. If not, a command that installs it panics.
    pub fn has_image(&self, hash: u128) -> bool {
        self.prepared.as_ref().is_some_and(|image| image.hash == hash)
    }

    /// Takes the state that the last installed image has replaced. The caller drops it on a thread
    /// where no client waits, because that takes long.
    pub fn take_replaced(&mut self) -> Option<Box<Machine>> {
        self.replaced.take()
    }

    /// Replaces the state by the prepared image. Panics unless the image with this hash is
    /// prepared: the caller checks [`Machine::has_image`] first.
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

    /// Raises the level if the image has brought a space that needs a higher one.
    fn raise_for_image(&mut self, level: Level, changes: &mut Changes) {
        let bounds = self.bounds_for_stores();
        let raised = self.control.raise(&level.into(), bounds);
        raised.into_iter().for_each(|change| changes.control.push(change));
    }

    /// Takes etcd v2's tree of the image. Its index does not fall, and all times to live start
    /// anew. False, without a change, if both the old tree and the new one were never used.
    fn install_etcd_v2(&mut self, image: &mut Machine) -> bool {
        if self.etcd_v2.is_unused() && image.etcd_v2.is_unused() {
            return false;
        }
        core::mem::swap(&mut self.etcd_v2, &mut image.etcd_v2);
        self.etcd_v2.take_place_of(image.etcd_v2.index());
        // A running walk belongs to the old state. Abort it: its next step reports that.
        self.etcd_v2.walk = image.etcd_v2.walk.take();
        self.etcd_v2.abort_walk();
        true
    }

    /// Takes etcd's keys and leases of the image. The revision does not fall, and all leases count
    /// as granted now. False, without a change, if both the old store and the new one were never
    /// used.
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
