//! Finds the users of calls, and serves the service `Auth`. The stages of a call:
//!
//! ```text
//! a read with credentials:  call -> (sync) -> lock: find the user -> check its rights, read
//! a write with credentials: call -> lock: find the user -> command that names the user
//!                           if the token is unknown: -> sync -> lock: find the user
//! a call with a password:   call -> (sync) -> lock: check its rights -> hash elsewhere -> command
//! ```
//!
//! While permissions are not enforced, credentials have no effect, and nobody looks at them. Rights
//! are checked when a command is applied, and for reads in [`Read::check`]. Both checks use the
//! revision of users and roles at which the user was found. Sources: `EtcdServer.AuthInfoFromCtx`,
//! `doSerialize` and `Authenticate` of etcd 3.6.

use std::sync::Arc;

use bytes::Bytes;
use etcd::Error;
use etcd::convert::{self, AuthChange, AuthFlaw, AuthMethod, AuthRequest, NO_PASSWORD_USER};
use etcd::pb::{Message, etcdserverpb as pb};
use machine::Level;
use machine::etcd::Store;
use machine::etcd::auth::{Access, Auth, AuthCommand, AuthInfo, is_valid};
use machine::etcd::command::Command as EtcdCommand;
use machine::etcd::reply::Refusal;
use machine::etcd::token::{Token, TokenPrefix};

use super::calls::{Call, PendingChange, Read, Then};
use super::credentials::{Asker, ClientIdentity, NotFound};
use super::method::{CallRefused, EtcdMethod, Need};
use super::passwords::{PasswordCall, PasswordDone, PasswordTask, PasswordWork};
use super::reply::Reply;
use super::{EtcdFront, EtcdFrontConfig, Now};
use crate::fronts::etcd::limits::ETCD_CALL_MS_MAX;
use crate::message::Ticket;

/// The longest password in bytes. To compare a longer one, bcrypt ignores all further bytes; to
/// hash a longer one, it refuses.
const PASSWORD_BYTES_MAX: usize = 72;

/// The text of the error for a password that is too long (`bcrypt.ErrPasswordTooLong`). The code is
/// `Unknown`.
const PASSWORD_TOO_LONG: &str = "bcrypt: password length exceeds 72 bytes";

impl Read {
    /// Checks that the user has the right to this read.
    ///
    /// # Errors
    /// Permissions are enforced, and the user lacks the right.
    pub fn check(&self, store: &Store, who: Option<AuthInfo<'_>>) -> Result<(), Refusal> {
        let auth = store.auth();
        if !auth.is_enabled() {
            return Ok(());
        }
        match self {
            Read::Range(range) => auth.require(who, Access::Read, range.range()),
            Read::Stream(stream) => auth.require(who, Access::Read, stream.range()),
            // `TxnCall::permit_step` checks the parts of a transaction.
            Read::Txn(_) => Ok(()),
            // The steps of these reads check the keys of the lease.
            Read::AskLease(..) | Read::TimeToLive { .. } | Read::Leases(_) => {
                auth.require_user(who)
            }
            Read::Need(Need::User) => auth.require_user(who),
            // A request for the list alone needs no rights; see `convert::alarms`.
            Read::Alarms(request) if request.action == 0 => auth.require_user(who),
            Read::Alarms(_) => auth.require_root(who),
            Read::Cluster(call) => match call.need() {
                Need::User => auth.require_user(who),
                Need::Root => auth.require_root(who),
            },
            Read::Need(Need::Root) | Read::Change(_) | Read::Hash(_) => auth.require_root(who),
            // As in etcd, users of etcd v3 have nothing to do with etcd v2.
            Read::V2(_) => Ok(()),
            // The answer to a question depends on the user.
            Read::Auth(_) | Read::Authenticate(_) | Read::Signed(_) => Ok(()),
        }
    }
}

/// Returns a function that uses a token now, and says whether the token was used lately.
fn use_of(config: &EtcdFrontConfig, now: Now) -> impl FnOnce(Token) -> bool {
    move |token| config.token_times.use_now(token.made, now.monotonic_ms)
}

impl EtcdFront {
    // Users of calls.

    /// Keeps a write until its user is looked up under the lock.
    pub(super) fn queue_user_lookup(
        &mut self,
        ticket: Ticket,
        (method, request): (EtcdMethod, Bytes),
        client: Box<ClientIdentity>,
    ) {
        self.calls.insert(ticket, Call::Finding { method, request, client });
        self.turns.runnable.push_back(ticket);
    }

    /// Finds the user of a write under the lock, and begins the write anew.
    pub(super) fn find_user_of_write(&mut self, ticket: Ticket, auth: &Auth) {
        self.may_be_enforced = auth.is_enabled();
        let Some(Call::Finding { method, request, mut client }) = self.calls.remove(&ticket) else {
            return;
        };
        let begun = match client.find(auth, use_of(&self.config, self.now)) {
            Err(NotFound::NotYet) => {
                self.calls.insert(ticket, Call::Finding { method, request, client });
                return self.ask_for_sync(ticket);
            }
            Err(NotFound::Never) => Err(Error::InvalidAuthToken.into()),
            Ok(()) => {
                if let Some(user) = client.user().filter(|_| self.config.names_users) {
                    self.output.users.push((ticket, user.clone()));
                }
                self.begin(ticket, method, request, Some(client))
            }
        };
        if let Err(refused) = begun {
            self.output.results.push((ticket, Err(refused)));
        }
    }

    /// Finds the user of a read that is about to run. Returns false if the read must wait for a
    /// sync, or was refused.
    pub(super) fn find_user_of_read(&mut self, ticket: Ticket, auth: &Auth) -> bool {
        let Some(Call::Ready(_, Some(client))) = self.calls.get_mut(&ticket) else { return true };
        let names_user = self.config.names_users && client.user().is_none();
        match client.find(auth, use_of(&self.config, self.now)) {
            Ok(()) => {
                if let Some(user) = client.user().filter(|_| names_user) {
                    self.output.users.push((ticket, user.clone()));
                }
                true
            }
            Err(not_found) => {
                let Some(Call::Ready(read, asker)) = self.calls.remove(&ticket) else {
                    return false;
                };
                match not_found {
                    NotFound::NotYet => {
                        self.calls.insert(ticket, Call::Confirming(read, asker));
                        self.ask_for_sync(ticket);
                    }
                    NotFound::Never => {
                        self.forget_cluster_call(ticket);
                        let refused = Err(Error::InvalidAuthToken.into());
                        self.output.results.push((ticket, refused));
                    }
                }
                false
            }
        }
    }

    // The service `Auth`.

    /// Begins a call of the service `Auth`.
    pub(super) fn begin_of_auth(
        &mut self,
        ticket: Ticket,
        method: AuthMethod,
        request: Bytes,
        asker: Asker,
    ) -> Result<(), CallRefused> {
        let kept = (EtcdMethod::Auth(method), request.clone());
        let decoded = AuthRequest::decode(method, request).map_err(|_| CallRefused::Malformed)?;
        match decoded {
            AuthRequest::Question(question) => {
                self.begin_read(ticket, Read::Auth(question), false, asker);
                Ok(())
            }
            // Only the password counts, as in etcd: a token that the client sends too may have
            // expired.
            AuthRequest::Authenticate(request) => {
                self.begin_read(ticket, Read::Authenticate(request), false, None);
                Ok(())
            }
            AuthRequest::Change(_) if self.level < Level::ETCD => {
                self.hold(ticket, Level::ETCD, kept, asker);
                Ok(())
            }
            AuthRequest::Change(mut change) => {
                let (password, flaw) = (change.take_password(), change.flaw());
                if password.is_none() && flaw.is_none() {
                    let hash = change.given_hash().unwrap_or_default();
                    return self.begin_change(ticket, &change, &hash, asker, kept);
                }
                let read = Read::Change(Box::new(PendingChange { change, password, kept }));
                // A sync, so that rights that were given through another member count here.
                self.begin_read(ticket, read, false, asker);
                Ok(())
            }
        }
    }

    fn begin_change(
        &mut self,
        ticket: Ticket,
        change: &AuthChange,
        hash: &[u8],
        asker: Asker,
        kept: (EtcdMethod, Bytes),
    ) -> Result<(), CallRefused> {
        let command = EtcdCommand::Auth(change.command(hash)?);
        let bytes = kept.1.len() + hash.len();
        self.begin_write(ticket, command, bytes, kept, asker)
    }

    /// Looks, under the lock, whether a user may get a token, and hands over the comparison of the
    /// password. The order of the refusals is etcd's (`authStore.CheckPassword`).
    pub(super) fn check_password(
        &mut self,
        ticket: Ticket,
        request: pb::AuthenticateRequest,
        store: &Store,
    ) {
        let auth = store.auth();
        let (revision, user) = (auth.revision(), request.name.as_str().into());
        let known = auth.user(&request.name).map(|known| known.password.clone());
        let task: Result<PasswordTask, CallRefused> = match known {
            _ if !auth.is_enabled() => Err(Error::AuthNotEnabled.into()),
            None => Ok(PasswordTask::Pretend),
            Some(None) => Err(CallRefused::Unknown(NO_PASSWORD_USER)),
            Some(Some(hash)) => Ok(PasswordTask::Check { hash, user, revision }),
        };
        let task = match task {
            Ok(task) => task,
            Err(refused) => return self.output.results.push((ticket, Err(refused))),
        };
        // The hash does not look at further bytes.
        let bytes = request.password.as_bytes();
        let password = bytes[..bytes.len().min(PASSWORD_BYTES_MAX)].to_vec();
        let call = PasswordCall::Authenticate(request, revision);
        self.work_on_password(ticket, password, task, call);
    }

    /// Goes on with a change that is permitted so far: hands its password over to be hashed, or
    /// refuses it because of its flaw. The order of the refusals is etcd's
    /// (`authStore.UserChangePassword`, `authStore.RoleGrantPermission`).
    pub(super) fn go_on_with_change(
        &mut self,
        ticket: Ticket,
        pending: PendingChange,
        asker: Asker,
        auth: &Auth,
    ) {
        let PendingChange { change, password, kept } = pending;
        if let Some(password) = password {
            let call = PasswordCall::Change(change, asker, kept);
            return self.hash_password(ticket, password, call);
        }
        let refused = match change.flaw() {
            Some(AuthFlaw::Hash { user }) => match auth.user(user) {
                None => Err(Error::UserNotFound.into()),
                Some(user) if user.password.is_some() => {
                    Err(CallRefused::Unknown(NO_PASSWORD_USER))
                }
                // A user without a password keeps having none.
                Some(_) => self.begin_change(ticket, &change, &[], asker, kept),
            },
            Some(AuthFlaw::PermissionKind { role, range })
                if is_valid(range) && auth.role(role).is_none() =>
            {
                Err(Error::RoleNotFound.into())
            }
            // etcd stores a permission of this kind, and it permits nothing.
            _ => Err(Error::InvalidAuthManagement.into()),
        };
        if let Err(refused) = refused {
            self.output.results.push((ticket, Err(refused)));
        }
    }

    fn hash_password(&mut self, ticket: Ticket, password: String, call: PasswordCall) {
        if password.len() > PASSWORD_BYTES_MAX {
            let refused = Err(CallRefused::Unknown(PASSWORD_TOO_LONG));
            return self.output.results.push((ticket, refused));
        }
        self.work_on_password(ticket, password.into_bytes(), PasswordTask::Hash, call);
    }

    fn work_on_password(
        &mut self,
        ticket: Ticket,
        password: Vec<u8>,
        task: PasswordTask,
        call: PasswordCall,
    ) {
        let waits = Arc::new(());
        let work = PasswordWork { password, task, waits: Arc::downgrade(&waits) };
        self.output.passwords.push((ticket, work));
        self.calls.insert(ticket, Call::Password(Box::new((call, waits))));
    }

    /// Takes the result of work on a password, and goes on with the call.
    pub fn on_password(&mut self, ticket: Ticket, done: PasswordDone) {
        if !matches!(self.calls.get(&ticket), Some(Call::Password(_))) {
            return;
        }
        let Some(Call::Password(call)) = self.calls.remove(&ticket) else { return };
        let begun = match (call.0, done) {
            (_, PasswordDone::TooMuchWork) => Err(Error::TooManyRequests.into()),
            (_, PasswordDone::Wrong) => Err(Error::AuthFailed.into()),
            (_, PasswordDone::NoToken(text)) => Err(CallRefused::Unknown(text)),
            (PasswordCall::Change(change, asker, kept), PasswordDone::Hashed(hash)) => {
                self.begin_change(ticket, &change, &hash, asker, kept)
            }
            (PasswordCall::Authenticate(request, revision), PasswordDone::Signed(token)) => {
                let read = Read::Signed(Box::new((request, revision, token)));
                self.begin_read(ticket, read, false, None);
                Ok(())
            }
            (PasswordCall::Authenticate(request, revision), PasswordDone::RightFor(prefix)) => {
                self.ask_for_token(ticket, request, revision, prefix)
            }
            (call, done) => unreachable!("{done:?} is no result for {}", call.name()),
        };
        if let Err(refused) = begun {
            self.output.results.push((ticket, Err(refused)));
        }
    }

    fn ask_for_token(
        &mut self,
        ticket: Ticket,
        request: pb::AuthenticateRequest,
        revision: u64,
        prefix: TokenPrefix,
    ) -> Result<(), CallRefused> {
        let command = AuthCommand::Authenticate { user: &request.name, prefix, revision };
        // If the command must wait for a level, this call begins anew once the level is there.
        let kept = (EtcdMethod::Auth(AuthMethod::Authenticate), request.encode_to_vec().into());
        let bytes = request.name.len();
        self.begin_write(ticket, EtcdCommand::Auth(command), bytes, kept, None)?;
        if let Some(Call::Command { then, .. }) = self.calls.get_mut(&ticket) {
            *then = Then::Token(Box::new(request));
        }
        Ok(())
    }

    /// Gives a signed token to the client, unless users or roles have changed since the password
    /// was compared.
    pub(super) fn give_signed(
        &mut self,
        ticket: Ticket,
        (request, revision, token): (pb::AuthenticateRequest, u64, String),
        store: &Store,
    ) {
        if store.auth().revision() != revision {
            return self.authenticate_again(ticket, request);
        }
        let response = convert::authenticated(self.header(), store.revision(), token);
        self.output.results.push((ticket, Ok(Reply::from_bytes(self.header(), response))));
    }

    /// Compares the password anew, because users or roles have changed meanwhile.
    pub(super) fn authenticate_again(&mut self, ticket: Ticket, request: pb::AuthenticateRequest) {
        self.turns.due.push_back((self.now.monotonic_ms + ETCD_CALL_MS_MAX, ticket));
        self.begin_read(ticket, Read::Authenticate(request), true, None);
    }
}
