//! The machine: all replicated state of a member in one struct, and the functions that apply
//! commands to it. A command goes to the module of its space; the machine numbers it, and keeps the
//! few things that concern all spaces.

use std::fmt;
use std::sync::Arc;

use crate::change::Changes;
use crate::command::Command;
use crate::control::list_change::{
    Asker, ChangeId, ChangeRefused, ChangeRequest, ChangeRules, LeaderRefused,
};
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
use crate::reply::{ControlOutcome, Outcome, Reply};
use crate::stamp::Stamp;
use crate::together::Together;
use crate::zk::pause::Step;
use crate::zk::reply::Refusal;
use crate::zk::steps::Steps;
use crate::zk::txn::Call;
use crate::zk::{self, Zk};

/// All replicated state. Apply is the only writer; readers hold the lock around it for a short
/// time.
pub struct Machine {
    pub(crate) control: Control,
    pub(crate) zk: Zk,
    pub(crate) etcd: Store,
    pub(crate) etcd_v2: etcd_v2::Store,
    /// The log index of the last entry that was applied to its end.
    pub(crate) index: LogIndex,
    /// The ordinal of the last command that was applied to its end.
    pub(crate) ordinal: Ordinal,
    /// The part of a running freeze that is not in the spaces; `None` if no freeze is running.
    pub(crate) freeze: Option<Freeze>,
    /// The image that a later `InstallImage` command will install, and the state that the last such
    /// command replaced. Neither is a part of the replicated state.
    pub(crate) prepared: Option<PreparedImage>,
    pub(crate) replaced: Option<Box<Machine>>,
}

/// An image that was read and checked, but is not installed yet.
#[derive(Debug)]
pub struct PreparedImage {
    /// The hash of the snapshot's file. The log names the image by it.
    pub hash: u128,
    /// The state that the image holds.
    pub machine: Box<Machine>,
}

/// How much work one step of a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyStep {
    /// The most keys, nodes or znodes that the step may look at; at least 1.
    pub keys_max: u64,
    /// Whether somebody will read the outcome. True only on the member that answers the client. If
    /// false, the outcome of an etcd command contains no versions, and reads in it look at no keys;
    /// the state becomes the same. The first step that makes changes decides for the later steps.
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
    /// Records a batch as applied if it is the next one of its origin (one boot of one member).
    /// False for a duplicate, a gap or an older boot: the caller must skip the batch, and its
    /// member sends missing batches again.
    pub fn begin_batch(&mut self, origin: Origin, sequence: u64) -> bool {
        self.control.begin_batch(origin, sequence)
    }

    /// Loads the znodes that the next commands will change into the processor's caches. Many loads
    /// at once take little longer than one. Changes no state.
    pub fn look_ahead(&self, commands: &[Framed<'_>]) {
        if commands.len() < LOOK_AHEAD_COMMANDS_MIN {
            return;
        }
        self.zk.tree.touch(commands.iter().filter_map(|framed| match &framed.command {
            Command::Zk(zk::command::Command::Write { op, .. }) => op.path(),
            _ => None,
        }));
    }

    /// Applies one command: gives it the next ordinal, changes the state, appends the changes that
    /// clients may watch to `changes`, and returns the reply. The caller has recorded the command's
    /// batch ([`Machine::begin_batch`]).
    pub fn apply(
        &mut self,
        stamp: &Stamp<'_>,
        command: &Command<'_>,
        changes: &mut Changes,
    ) -> Reply {
        let whole = ApplyStep { keys_max: u64::MAX, is_taken: true };
        self.apply_step(stamp, command, whole, changes).expect("a step without a bound is whole")
    }

    /// As [`Machine::apply`], but does only a part of a command that has to look at more than
    /// `step.keys_max` of etcd's keys, etcd v2's nodes or ZooKeeper's znodes. Returns `None` if
    /// more is left: the caller must then pass the same command again, before any other command and
    /// before the end of the entry. The command keeps its ordinal over all its steps.
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
                Outcome::Control(self.apply_control(stamp, command, changes))
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

    /// One step of a command on etcd's keys.
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
        let member_id = self.control.etcd_id_of(stamp.origin.member);
        let at = At { ordinal, time_ms: stamp.time_ms, who, member_id };
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

    /// One step of a command of etcd v2.
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
            // A member that starts applies many commands, and calls `prune` only after the last
            // one: free the garbage now.
            store.garbage.drop_all();
        }
        outcome
    }

    /// Whether a command is partly applied. Meanwhile reads of etcd's keys do not see its changes,
    /// readers of ZooKeeper's tree wait ([`Zk::is_amid_change`]), readers of etcd v2 see each
    /// removal whole or not at all, and the digest shows the partial changes.
    pub fn is_amid_command(&self) -> bool {
        self.etcd.is_paused() || self.zk.is_paused() || self.etcd_v2.is_paused()
    }

    fn apply_control(
        &mut self,
        stamp: &Stamp<'_>,
        command: &control::Command,
        changes: &mut Changes,
    ) -> ControlOutcome {
        let change = match command {
            control::Command::InstallImage { hash } => {
                self.install_image(stamp, *hash, changes);
                None
            }
            control::Command::Register { member, server } => {
                Some(self.control.register(*member, *server))
            }
            control::Command::Forget { member } => Some(self.control.forget(*member)),
            control::Command::Nothing => None,
            control::Command::Raise(stated) => {
                let bounds = self.bounds_for_stores();
                let raised = self.control.raise(stated, bounds);
                if !raised.is_empty() {
                    self.follow_level();
                }
                raised.into_iter().for_each(|change| changes.control.push(change));
                None
            }
            control::Command::SetServers(list) => {
                let set = self.control.set_servers(list, stamp.origin.member, self.ordinal);
                if set.is_some() {
                    let changes = &mut changes.zk;
                    self.zk.show_servers_to_clients(self.ordinal, stamp, list, changes);
                }
                set
            }
            control::Command::Request(request) => {
                return ControlOutcome::Requested(self.request_change(stamp, request, changes));
            }
            control::Command::Accept(id) => self.control.accept_change(*id),
            control::Command::Refuse { change, reason } => {
                self.drop_change(*change, *reason, changes);
                None
            }
            control::Command::GiveUp(id) => {
                self.drop_change(*id, LeaderRefused::GivenUp, changes);
                None
            }
            control::Command::Finish(id) => {
                self.finish_change(stamp, *id, changes);
                None
            }
            control::Command::Retire(member) => Some(self.control.retire(*member, self.ordinal)),
            control::Command::Admit { member, server, peer_urls } => {
                self.control.admit(*member, *server, peer_urls)
            }
            control::Command::Describe { server, name, client_urls } => {
                self.control.describe(*server, name, client_urls)
            }
        };
        change.into_iter().for_each(|change| changes.control.push(change));
        ControlOutcome::Done
    }

    /// Judges a request for a change of the list. As in ZooKeeper, a refused one takes a zxid if
    /// one of its clients has sent it.
    fn request_change(
        &mut self,
        stamp: &Stamp<'_>,
        request: &ChangeRequest,
        changes: &mut Changes,
    ) -> Result<ChangeId, ChangeRefused> {
        let rules = self.change_rules(stamp, request.by);
        let checked = match request.by {
            // 0 is no session. Only tests ask without one.
            Asker::Zk(session) if session.0 != 0 => self.zk.check_owner(stamp, session),
            _ => Ok(()),
        };
        let opened = match checked {
            Ok(()) => self.control.request_change(self.ordinal, request, rules),
            Err(Refusal::SessionMoved) => Err(ChangeRefused::SessionMoved),
            Err(_) => Err(ChangeRefused::SessionExpired),
        };
        if opened.is_err() && matches!(request.by, Asker::Zk(_)) {
            self.zk.consume_zxid(self.ordinal);
        }
        let (id, change) = opened?;
        changes.control.push(change);
        Ok(id)
    }

    fn drop_change(&mut self, id: ChangeId, reason: LeaderRefused, changes: &mut Changes) {
        let dropped = self.control.drop_change(id, reason).into_iter().flatten();
        dropped.for_each(|change| changes.control.push(change));
    }

    /// The settings that decide about a request of this kind of client.
    fn change_rules(&self, stamp: &Stamp<'_>, by: Asker) -> ChangeRules {
        let settings = self.zk.settings();
        let is_permitted = match by {
            Asker::Zk(_) => self.zk.may_change_servers(stamp),
            Asker::Etcd => self.etcd.auth().require_root(AuthInfo::of(stamp.identities)).is_ok(),
            Asker::Operator => true,
        };
        let voters_min = if settings.standalone_enabled { 2 } else { 1 };
        ChangeRules { is_enabled: settings.reconfig_enabled, voters_min, is_permitted }
    }

    /// Makes the list of an accepted change the list of servers. The change takes a zxid, which is
    /// the version of the new list, as in ZooKeeper.
    fn finish_change(&mut self, stamp: &Stamp<'_>, id: ChangeId, changes: &mut Changes) {
        if !self.control.is_accepted(id) {
            return;
        }
        let mark = self.zk.consume_zxid(self.ordinal);
        let by = (stamp.origin.member, self.ordinal);
        let finished = self.control.finish_change(id, mark.zxid.0 as u64, by);
        let (list, all) = finished.expect("it is open and accepted");
        self.zk.show_servers_to_clients(self.ordinal, stamp, &list, &mut changes.zk);
        all.into_iter().for_each(|change| changes.control.push(change));
    }

    /// Switches on what the level of the state allows. Called when the level has risen, and after
    /// an image is restored or installed.
    pub(crate) fn follow_level(&mut self) {
        self.etcd.bounds = self.control.bounds();
        let auth = &mut self.etcd.auth;
        let knows = self.control.level().level >= Level::TOKENS;
        // After an install this is done already, unless the image has no users.
        if knows != auth.knows_passwords_since() {
            Arc::make_mut(auth).know_passwords_since(knows);
        }
    }

    /// The bounds that allow what the stores hold now.
    pub(crate) fn bounds_for_stores(&self) -> HeldBounds {
        let Machine { etcd, etcd_v2, .. } = self;
        let quota = etcd.settings().quota_bytes;
        HeldBounds::for_stores(quota, (etcd.bytes(), etcd.held()), etcd_v2.tree().held())
    }

    /// Records that every entry up to `index` is applied. Called at the end of each entry, even if
    /// it has no commands.
    pub fn finish_entry(&mut self, index: LogIndex) {
        assert!(index.0 == self.index.0 + 1, "entries are applied without a gap");
        assert!(!self.is_amid_command(), "an entry ends with its last command");
        self.index = index;
    }

    /// Reserves memory for this many more znodes, so that creates do not grow the tables in steps.
    /// Any number is right: the state does not change.
    pub fn reserve_znodes(&mut self, count: u32) {
        let room = ZNODES_MAX.saturating_sub(self.zk.tree.znode_count());
        self.zk.tree.reserve(count.min(room));
    }

    /// Stops updating the digest for znodes that change, until [`Machine::settle_digest`].
    /// Meanwhile neither the digest nor an image may be asked for. Used when a member starts,
    /// because it then replays many commands.
    pub fn defer_digest(&mut self) {
        assert!(self.freeze.is_none(), "an image has the digest");
        self.zk.tree.defer_digest();
    }

    /// Computes the digest that [`Machine::defer_digest`] has put off.
    pub fn settle_digest(&mut self, together: Together) {
        self.zk.tree.settle_digest(together);
    }

    /// The log index of the last entry that was applied to its end.
    pub fn index(&self) -> LogIndex {
        self.index
    }

    /// The numbers of the last command that was applied to its end.
    pub fn mark(&self) -> Mark {
        Mark { ordinal: self.ordinal, zxid: self.zk.zxid() }
    }

    /// The state of the ensemble itself.
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

    /// Whether [`Machine::prune`] has anything to free.
    pub fn has_garbage(&self) -> bool {
        self.etcd.has_garbage() || self.etcd_v2.has_garbage()
    }

    /// Frees some of the memory that no read needs any more, in one short step. The state does not
    /// change.
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

/// The client for which a command of etcd v2 acts: Loop itself, a guest, or an authenticated user.
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
