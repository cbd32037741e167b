//! The machine: all replicated state behind one door, and apply.

use std::fmt;
use std::sync::Arc;

use crate::change::Changes;
use crate::command::Command;
use crate::control::{self, Control};
use crate::digest::Digest;
use crate::entry::Framed;
use crate::etcd::Store;
use crate::etcd::auth::{AuthCommand, AuthInfo};
use crate::etcd::change::{Change as EtcdChange, Changes as EtcdChanges};
use crate::etcd::command::Command as EtcdCommand;
use crate::etcd::reply::{Outcome as EtcdOutcome, Refusal as EtcdRefusal};
use crate::etcd::txn::At;
use crate::etcd_v2;
use crate::etcd_v2::auth::{ETCD_V2_SCHEME, Who as V2Who};
use crate::etcd_v2::change::Changes as EtcdV2Changes;
use crate::etcd_v2::command::Command as V2Command;
use crate::etcd_v2::removal::Budget;
use crate::etcd_v2::reply::{Outcome as V2Outcome, Refusal as V2Refusal};
use crate::held::HeldBounds;
use crate::ids::{ConnectionId, LogIndex, Ordinal, Origin};
use crate::image::Freeze;
use crate::level::Level;
use crate::limits::{LOOK_AHEAD_COMMANDS_MIN, ZNODES_MAX};
use crate::mark::Mark;
use crate::reply::{Outcome, Reply};
use crate::stamp::Stamp;
use crate::together::Together;
use crate::zk::pause::Step;
use crate::zk::steps::Steps;
use crate::zk::txn::Call;
use crate::zk::{self, Zk};

/// All replicated state. One writer (Apply); readers hold the one lock for a short time.
pub struct Machine {
    pub(crate) control: Control,
    pub(crate) zk: Zk,
    pub(crate) etcd: Store,
    pub(crate) etcd_v2: etcd_v2::Store,
    /// The last whole entry applied.
    pub(crate) index: LogIndex,
    /// The last command applied.
    pub(crate) ordinal: Ordinal,
    /// The part of a running freeze that belongs to no space.
    pub(crate) freeze: Option<Freeze>,
    /// The image that a command is to install, and the state that one has replaced. Neither is
    /// state.
    pub(crate) prepared: Option<PreparedImage>,
    pub(crate) replaced: Option<Box<Machine>>,
}

/// An image that was read and checked, and is not installed yet.
#[derive(Debug)]
pub struct PreparedImage {
    /// The hash of the file that it came in, which names it in the log.
    pub hash: u128,
    /// The state.
    pub machine: Box<Machine>,
}

/// What a step of a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyStep {
    /// The most keys that it may look at, from 1.
    pub keys_max: u64,
    /// Whether somebody takes the outcome. Only the member that answers the client does; on the
    /// others the outcome shows no versions, and reads look at no keys. The state is the same. It
    /// counts in the first step of a command.
    pub is_taken: bool,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Machine");
        shown.field("index", &self.index).field("mark", &self.mark()).finish_non_exhaustive()
    }
}

impl Default for Machine {
    /// The state of a new ensemble.
    fn default() -> Self {
        Machine {
            control: Control::default(),
            zk: Zk::default(),
            etcd: Store::default(),
            etcd_v2: etcd_v2::Store::default(),
            index: LogIndex(1),
            ordinal: Ordinal::default(),
            freeze: None,
            prepared: None,
            replaced: None,
        }
    }
}

impl Machine {
    /// Notes a batch if it is the next of its origin. False for a duplicate, a gap or an older
    /// boot: the batch must be skipped, and its member sends missing batches again.
    pub fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        self.control.begin_batch(origin, sequence)
    }

    /// Loads the places in the tree that the next commands to apply will change. It changes
    /// nothing: many loads at once take little longer than one.
    pub fn look_ahead(&self, commands: &[Framed<'_>]) {
        if commands.len() < LOOK_AHEAD_COMMANDS_MIN {
            return;
        }
        self.zk.tree.touch(commands.iter().filter_map(|framed| match &framed.command {
            Command::Zk(zk::command::Command::Write { op, .. }) => op.path(),
            _ => None,
        }));
    }

    /// Applies one command of a batch that was begun: gives it its ordinal, changes the state,
    /// returns the outcome, and appends the changes that clients may watch to `changes`.
    pub fn apply(
        &mut self,
        stamp: &Stamp<'_>,
        command: &Command<'_>,
        changes: &mut Changes,
    ) -> Reply {
        let whole = ApplyStep { keys_max: u64::MAX, is_taken: true };
        self.apply_step(stamp, command, whole, changes).expect("a step without a bound is whole")
    }

    /// As [`Machine::apply`], but does a part of the command if that looks at many of etcd's keys,
    /// of etcd v2's nodes or of ZooKeeper's znodes. `None` if more are left. Then the same command
    /// comes again, before any other, and before the entry ends; its ordinal is the next one until
    /// it is done.
    pub fn apply_step(
        &mut self,
        stamp: &Stamp<'_>,
        command: &Command<'_>,
        step: ApplyStep,
        changes: &mut Changes,
    ) -> Option<Reply> {
        let ordinal = self.ordinal.next();
        let outcome = match command {
            Command::Control(command) => {
                self.ordinal = ordinal;
                self.apply_control(stamp, command, changes);
                Outcome::Control
            }
            Command::Zk(command) => {
                let keys_max = step.keys_max;
                let mut step = Step { steps: Steps::new(keys_max), changes: &mut changes.zk };
                let outcome = self.zk.apply_step(Call { stamp, ordinal }, command, &mut step);
                assert!(step.steps.looked_at() <= keys_max, "a step is bounded");
                let outcome = outcome?;
                self.ordinal = ordinal;
                Outcome::Zk(outcome)
            }
            Command::Etcd(command) => {
                let changes = &mut changes.etcd;
                Outcome::Etcd(self.apply_etcd(stamp, ordinal, command, step, changes)?)
            }
            Command::EtcdV2(command) => {
                let changes = &mut changes.etcd_v2;
                let outcome = self.apply_etcd_v2(stamp, command, step.keys_max, changes)?;
                self.ordinal = ordinal;
                Outcome::EtcdV2(outcome)
            }
        };
        Some(Reply { mark: self.mark(), outcome })
    }

    /// A step of a command of etcd's keys.
    fn apply_etcd(
        &mut self,
        stamp: &Stamp<'_>,
        ordinal: Ordinal,
        command: &EtcdCommand<'_>,
        ApplyStep { keys_max, is_taken }: ApplyStep,
        changes: &mut EtcdChanges,
    ) -> Option<Result<EtcdOutcome, EtcdRefusal>> {
        let who = match stamp.connection {
            ConnectionId(0) => Some(AuthInfo::LOOP),
            _ => AuthInfo::of(stamp.identities),
        };
        let at = At { ordinal, time_ms: stamp.time_ms, who, member: stamp.origin.member };
        let outcome = self.etcd.apply_step(at, command, (keys_max, is_taken), changes)?;
        self.ordinal = ordinal;
        changes.note_revision(self.etcd.revision);
        match (command, &outcome) {
            (EtcdCommand::Configure(settings), _) => changes.push_settings(*settings),
            (EtcdCommand::Auth(AuthCommand::Enable), Ok(_)) => {
                changes.push(EtcdChange::AuthEnabled);
            }
            (_, Ok(EtcdOutcome::Authenticated { .. })) => {
                changes.push(EtcdChange::Authenticated(ordinal));
            }
            _ => {}
        }
        Some(outcome)
    }

    /// A step of a command of etcd v2's.
    fn apply_etcd_v2(
        &mut self,
        stamp: &Stamp<'_>,
        command: &V2Command<'_>,
        keys_max: u64,
        changes: &mut EtcdV2Changes,
    ) -> Option<Result<V2Outcome, V2Refusal>> {
        let quota = self.etcd.settings.quota_bytes;
        let (store, whose) = (&mut self.etcd_v2, (v2_client(stamp), stamp.time_ms));
        store.held_max = self.control.bounds().map(|bounds| bounds.etcd_v2(quota));
        let mut budget = Budget::new(keys_max);
        let outcome = store.apply_step(whose, command, &mut budget, changes);
        assert!(budget.looked_at() <= keys_max, "a step is bounded");
        if changes.is_for_nobody() {
            // A start applies many commands, and prunes behind the last only.
            store.garbage.drop_all();
        }
        outcome
    }

    /// Whether a command is done in part. Reads of etcd's keys do not see its changes, readers of
    /// ZooKeeper's tree wait ([`Zk::is_amid_change`]), and those of etcd v2's see whole removals;
    /// the digest shows them.
    pub fn is_amid_command(&self) -> bool {
        self.etcd.is_paused() || self.zk.is_paused() || self.etcd_v2.is_paused()
    }

    fn apply_control(
        &mut self,
        stamp: &Stamp<'_>,
        command: &control::Command,
        changes: &mut Changes,
    ) {
        let change = match command {
            control::Command::InstallImage { hash } => {
                return self.install_image(stamp, *hash, changes);
            }
            control::Command::Register { member, server } => {
                self.control.register(*member, *server)
            }
            control::Command::Forget { member } => self.control.forget(*member),
            control::Command::Nothing => return,
            control::Command::Raise(stated) => {
                let bounds = self.bounds_for_stores();
                let Some(raised) = self.control.raise(stated, bounds) else { return };
                self.follow_level();
                raised
            }
            control::Command::SetServers(list) => {
                let set = self.control.set_servers(list, stamp.origin.member, self.ordinal);
                changes.control.push(set);
                let changes = &mut changes.zk;
                return self.zk.show_servers_to_clients(self.ordinal, stamp, list, changes);
            }
        };
        changes.control.push(change);
    }

    /// Begins what the level of the state allows. Called when it has risen, and once an image is
    /// restored.
    pub(crate) fn follow_level(&mut self) {
        self.etcd.bounds = self.control.bounds();
        let auth = &mut self.etcd.auth;
        let knows = self.control.level().level >= Level::TOKENS;
        // Users of an image have been judged at its install; one without users comes as it is.
        if knows != auth.knows_passwords_since() {
            Arc::make_mut(auth).know_passwords_since(knows);
        }
    }

    /// The bounds for the stores as they are.
    pub(crate) fn bounds_for_stores(&self) -> HeldBounds {
        let Machine { etcd, etcd_v2, .. } = self;
        let quota = etcd.settings().quota_bytes;
        HeldBounds::for_stores(quota, (etcd.bytes(), etcd.held()), etcd_v2.tree().held())
    }

    /// Notes that everything up to `index` is applied. Called at the end of each entry, even of one
    /// without commands.
    pub fn finish_entry(&mut self, index: LogIndex) {
        assert!(index.0 == self.index.0 + 1, "entries are applied without a gap");
        assert!(!self.is_amid_command(), "an entry ends with its last command");
        self.index = index;
    }

    /// Makes room for this many more znodes at once, so that applying their creates does not grow
    /// the tables in steps. It affects memory only: any number is right.
    pub fn reserve_znodes(&mut self, count: u32) {
        let room = ZNODES_MAX.saturating_sub(self.zk.tree.znode_count());
        self.zk.tree.reserve(count.min(room));
    }

    /// Stops computing the digest of znodes that change, until [`Machine::settle_digest`]. Neither
    /// the digest nor an image may be asked for meanwhile. For a start, which replays many
    /// commands.
    pub fn defer_digest(&mut self) {
        assert!(self.freeze.is_none(), "an image has the digest");
        self.zk.tree.defer_digest();
    }

    /// Computes the deferred digest, with the result as if it had never been deferred.
    pub fn settle_digest(&mut self, together: Together) {
        self.zk.tree.settle_digest(together);
    }

    /// The last whole entry applied.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// The numbers of the last command.
    pub fn mark(&self) -> Mark {
        Mark { ordinal: self.ordinal, zxid: self.zk.zxid() }
    }

    /// The state of the ensemble.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The state that ZooKeeper's clients see.
    pub fn zk(&self) -> &Zk {
        &self.zk
    }

    /// etcd's keys.
    pub fn etcd(&self) -> &Store {
        &self.etcd
    }

    /// etcd v2's tree.
    pub fn etcd_v2(&self) -> &etcd_v2::Store {
        &self.etcd_v2
    }

    /// Whether [`Machine::prune`] has something to do.
    pub fn has_garbage(&self) -> bool {
        self.etcd.has_garbage() || self.etcd_v2.has_garbage()
    }

    /// Frees some memory that no read needs any more. It is not part of the state.
    pub fn prune(&mut self) {
        self.etcd.prune();
        self.etcd_v2.prune();
    }

    /// The digest of everything replicated: each space adds its own terms.
    pub fn digest(&self) -> Digest {
        let mut digest = self.zk.digest();
        digest.add(self.etcd.digest());
        digest.add(self.etcd_v2.digest());
        digest.add(self.control.digest(self.ordinal));
        digest
    }
}

/// Whom a command of etcd v2 is for.
fn v2_client<'a>(stamp: &Stamp<'a>) -> V2Who<'a> {
    match stamp.connection {
        ConnectionId(0) => V2Who::Member,
        _ => {
            let user = stamp.identities.iter().find(|it| it.scheme == ETCD_V2_SCHEME);
            user.map_or(V2Who::Guest, |user| V2Who::User(user.id))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
