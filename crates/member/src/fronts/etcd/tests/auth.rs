//! Tests of the users of calls, and of passwords.

use etcd::convert::AuthMethod;
use machine::Ordinal;
use machine::etcd::auth::{AuthCommand, Permission, PermissionKind};
use machine::etcd::command::KeyRange;
use machine::etcd::token::Token;
use machine::limits::ETCD_TOKENS_MAX;

use super::*;

const LETTERS: [u8; 16] = *b"abcdefghijklmnop";

impl Rig {
    /// Applies a change of users and roles, as if a client of another member had asked for it.
    fn change(&mut self, command: AuthCommand<'_>) {
        // Loop's own connection, which has all rights.
        let connection = ConnectionId(0);
        let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection, identities: &[] };
        let mut changes = Changes::default();
        let command = Command::Etcd(EtcdCommand::Auth(command));
        let reply = self.machine.apply(&stamp, &command, &mut changes);
        assert!(matches!(reply.outcome, Outcome::Etcd(Ok(_))), "{:?}", reply.outcome);
        self.deliver(changes, Vec::new());
    }

    /// Makes `root`, and `alice` with the right to read and write the key `a`.
    fn add_users(&mut self) {
        let range = KeyRange { key: b"a", end: b"" };
        let permission = Some(Permission { kind: PermissionKind::ReadWrite, range });
        for command in [
            AuthCommand::AddUser { user: "root", password: Some(b"hash") },
            AuthCommand::GrantRole { user: "root", role: "root" },
            AuthCommand::AddUser { user: "alice", password: Some(b"hash") },
            AuthCommand::AddRole { role: "r" },
            AuthCommand::GrantPermission { role: "r", permission },
            AuthCommand::GrantRole { user: "alice", role: "r" },
        ] {
            self.change(command);
        }
    }

    /// Makes a token for alice, as if she had asked another member for it.
    fn token(&mut self) -> Credentials {
        let revision = self.machine.etcd().auth().revision();
        let made = self.machine.mark().ordinal.next();
        self.change(AuthCommand::Authenticate { user: "alice", prefix: LETTERS, revision });
        Credentials::Token(Token { prefix: LETTERS, made }.to_string().into())
    }

    fn enforced(is_alone: bool) -> Rig {
        let mut rig = Rig::new(is_alone, Level::ETCD);
        rig.add_users();
        rig.change(AuthCommand::Enable);
        rig
    }
}

const DENIED: CallRefused = CallRefused::Error(Error::PermissionDenied);
const NOBODY: CallRefused = CallRefused::Error(Error::UserEmpty);
const INVALID: CallRefused = CallRefused::Error(Error::InvalidAuthToken);

#[test]
fn a_call_has_the_rights_of_its_user() {
    let mut rig = Rig::enforced(true);
    let alice = rig.token();
    for (credentials, key, expected) in [
        (Credentials::Nobody, "a", Err(NOBODY)),
        (alice.clone(), "a", Ok(())),
        (alice, "b", Err(DENIED)),
        (Credentials::Member, "b", Ok(())),
        (Credentials::Certificate("alice".into()), "a", Ok(())),
        (Credentials::Certificate("zoe".into()), "a", Err(DENIED)),
        (Credentials::InvalidToken, "a", Err(INVALID)),
        (Credentials::Token("x".into()), "a", Err(INVALID)),
    ] {
        let put = rig.call_by(credentials.clone(), EtcdMethod::Put, &a_put(key, "1"));
        rig.apply();
        let result = rig.result::<pb::PutResponse>(put).map(drop);
        assert_eq!(result, expected, "{credentials:?}");
        let range = rig.call_by(credentials.clone(), EtcdMethod::Range, &a_range(key, false));
        let result = rig.result::<pb::RangeResponse>(range).map(drop);
        assert_eq!(result, expected, "{credentials:?}");
    }
    let old = Credentials::Signed { user: "alice".into(), revision: 3 };
    let put = rig.call_by(old, EtcdMethod::Put, &a_put("a", "1"));
    rig.apply();
    let refused = rig.result::<pb::PutResponse>(put);
    assert_eq!(refused, Err(Error::AuthOldRevision.into()));
    rig.check_empty();
}

/// Clients keep leases alive with signed tokens. A change of a role invalidates no token, and a new
/// password invalidates only the tokens of its user.
#[test]
fn signed_tokens_keep_leases_alive_until_the_password_changes() {
    const STREAMS: usize = 5_000;
    let mut rig = Rig::enforced(true);
    let raise = Command::Control(machine::ControlCommand::Raise(Level::TOKENS.into()));
    let stamp = Stamp { time_ms: 0, origin: ORIGIN, connection: ConnectionId(0), identities: &[] };
    rig.machine.apply(&stamp, &raise, &mut Changes::default());
    rig.run_etcd(EtcdCommand::Grant { lease: LeaseId(7), ttl_s: 100 });
    rig.take();
    let revision = rig.machine.etcd().auth().revision();
    let kept = |rig: &mut Rig| {
        let alice = Credentials::Signed { user: "alice".into(), revision };
        for _ in 0..STREAMS {
            let request = pb::LeaseKeepAliveRequest { id: 7 };
            rig.call_by(alice.clone(), EtcdMethod::LeaseKeepAlive, &request);
        }
        let refused = core::mem::take(&mut rig.results);
        assert!(refused.into_iter().all(|(_, result)| result.err() == Some(INVALID)));
        core::mem::take(&mut rig.asked).len()
    };
    assert_eq!(kept(&mut rig), STREAMS);
    rig.change(AuthCommand::AddRole { role: "new" });
    rig.change(AuthCommand::GrantRole { user: "root", role: "new" });
    assert_eq!(kept(&mut rig), STREAMS);
    rig.change(AuthCommand::ChangePassword { user: "root", password: b"new" });
    assert_eq!(kept(&mut rig), STREAMS, "that of another user");
    rig.change(AuthCommand::ChangePassword { user: "alice", password: b"new" });
    assert_eq!(kept(&mut rig), 0);
}

#[test]
fn times_of_tokens_that_are_gone_are_forgotten() {
    let mut rig = Rig::enforced(true);
    let times = rig.front.config.token_times.clone();
    // Tokens of a user that was removed.
    let gone = 1_000_000..1_000_000 + 2 * ETCD_TOKENS_MAX as u64;
    gone.for_each(|made| _ = times.on_made(Ordinal(made), 0));
    let alice = rig.token();
    assert_eq!(times.count(), 1);
    let put = rig.call_by(alice, EtcdMethod::Put, &a_put("a", "1"));
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(put).is_ok());
}

#[test]
fn the_user_of_a_call_is_named_once() {
    let mut rig = Rig::enforced(true);
    let range = KeyRange { key: b"a", end: b"b" };
    let permission = Some(Permission { kind: PermissionKind::ReadWrite, range });
    rig.change(AuthCommand::GrantPermission { role: "r", permission });
    let alice = rig.token();
    let named = |rig: &mut Rig| core::mem::take(&mut rig.users);
    for key in ["a1", "a2", "a3", "a4", "a5", "a6", "a7"] {
        let put = rig.call_by(alice.clone(), EtcdMethod::Put, &a_put(key, "1"));
        assert_eq!(named(&mut rig), [(put, "alice".into())]);
        rig.apply();
        assert!(rig.result::<pb::PutResponse>(put).is_ok());
    }
    // This read takes several holds of the lock.
    let request = pb::RangeRequest { range_end: "b".into(), ..a_range("a", false) };
    let read = rig.call_by(alice.clone(), EtcdMethod::Range, &request);
    assert_eq!(rig.result::<pb::RangeResponse>(read).unwrap().count, 7);
    assert_eq!(named(&mut rig), [(read, "alice".into())]);
    // A user without the right to the call is named, too; a client without a user is not.
    let denied = rig.call_by(alice, EtcdMethod::Put, &a_put("b", "1"));
    assert_eq!(named(&mut rig), [(denied, "alice".into())]);
    for credentials in [Credentials::Nobody, Credentials::InvalidToken] {
        rig.call_by(credentials, EtcdMethod::Put, &a_put("a", "1"));
    }
    rig.apply();
    assert_eq!(named(&mut rig), []);
    rig.front.config.names_users = false;
    let put = rig.call_by(Credentials::Member, EtcdMethod::Put, &a_put("a", "1"));
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(put).is_ok() && rig.users.is_empty());
}

#[test]
fn an_unknown_token_makes_a_member_catch_up_once() {
    let mut rig = Rig::enforced(false);
    // The ordinal that the token will have.
    let made = rig.machine.mark().ordinal.next();
    let token = Credentials::Token(Token { prefix: LETTERS, made }.to_string().into());
    let range = rig.call_by(token.clone(), EtcdMethod::Range, &a_range("a", true));
    let put = rig.call_by(token.clone(), EtcdMethod::Put, &a_put("a", "1"));
    assert_eq!(core::mem::take(&mut rig.synced), [range, put]);
    assert!(rig.results.is_empty() && rig.submitted.is_empty());
    rig.token();
    rig.sync(range);
    rig.sync(put);
    rig.apply();
    assert!(rig.result::<pb::RangeResponse>(range).is_ok());
    assert!(rig.result::<pb::PutResponse>(put).is_ok());
    // A token that nobody has made.
    let unknown = Credentials::Token("abcdefghijklmnop.12345".into());
    let range = rig.call_by(unknown.clone(), EtcdMethod::Range, &a_range("a", false));
    let put = rig.call_by(unknown, EtcdMethod::Put, &a_put("a", "1"));
    assert_eq!(core::mem::take(&mut rig.synced), [range, put]);
    rig.sync(range);
    rig.sync(put);
    assert_eq!(rig.result::<pb::RangeResponse>(range), Err(INVALID));
    assert_eq!(rig.result::<pb::PutResponse>(put), Err(INVALID));
    rig.check_empty();
}

#[test]
fn a_member_that_does_not_know_that_permissions_are_enforced_catches_up_for_a_token() {
    let mut rig = Rig::new(false, Level::ETCD);
    rig.add_users();
    // This call shows the Front that nothing is enforced so far.
    let member = rig.call_by(Credentials::Member, EtcdMethod::Put, &a_put("a", "0"));
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(member).is_ok());
    let made = Ordinal(rig.machine.mark().ordinal.0 + 2);
    let token = Credentials::Token(Token { prefix: LETTERS, made }.to_string().into());
    let put = rig.call_by(token.clone(), EtcdMethod::Put, &a_put("a", "1"));
    let range = rig.call_by(token.clone(), EtcdMethod::Range, &a_range("a", true));
    let watch = rig.front.on_watch(false, &token);
    let create = pb::WatchCreateRequest { key: "a".into(), ..Default::default() };
    let create = pb::watch_request::RequestUnion::CreateRequest(create);
    let request = pb::WatchRequest { request_union: Some(create) };
    rig.front.on_watch_request(watch, request.encode_to_vec().into(), token);
    rig.take();
    assert_eq!(rig.synced, [put, range, watch]);
    assert!(rig.submitted.is_empty() && rig.watched.is_empty());
    rig.change(AuthCommand::Enable);
    rig.token();
    rig.sync(put);
    rig.sync(range);
    rig.sync(watch);
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(put).is_ok());
    assert!(rig.result::<pb::RangeResponse>(range).is_ok());
    let mut created = Vec::new();
    let (of, messages) = rig.watched.pop().expect("the watch is answered");
    messages.iter().for_each(|message| message.write(&mut created));
    let created = pb::WatchResponse::decode(&created[..]).unwrap();
    assert_eq!((of, created.created, created.canceled), (watch, true, false));
    // A client's certificate does not show whether it knows that permissions are enforced.
    let mut rig = Rig::new(false, Level::ETCD);
    let alice = || Credentials::Certificate("alice".into());
    for _ in 0..2 {
        let put = rig.call_by(alice(), EtcdMethod::Put, &a_put("a", "1"));
        rig.apply();
        assert!(rig.result::<pb::PutResponse>(put).is_ok());
    }
    assert!(rig.synced.is_empty());
    rig.check_empty();
}

#[test]
fn a_token_that_is_unused_for_long_is_invalid() {
    let mut rig = Rig::enforced(true);
    let token = rig.token();
    let at = |monotonic_ms| Now { monotonic_ms, raft_term: 1, contact_at_ms: None };
    for (ms, expected) in [(300_000, Ok(())), (600_000, Ok(())), (900_001, Err(INVALID))] {
        rig.front.set_now(at(ms));
        let range = rig.call_by(token.clone(), EtcdMethod::Range, &a_range("a", false));
        assert_eq!(rig.result::<pb::RangeResponse>(range).map(drop), expected, "{ms}");
    }
}

#[test]
fn a_member_that_does_not_know_that_nothing_is_enforced_catches_up_for_a_token_that_is_over() {
    let mut rig = Rig::enforced(false);
    let unused = rig.token();
    rig.front.set_now(Now { monotonic_ms: 900_001, raft_term: 1, contact_at_ms: None });
    let invalid = [unused, Credentials::Token("x".into()), Credentials::InvalidToken];
    let puts = invalid.map(|token| rig.call_by(token, EtcdMethod::Put, &a_put("a", "1")));
    assert_eq!(core::mem::take(&mut rig.synced), puts);
    rig.change(AuthCommand::Disable);
    puts.iter().for_each(|put| rig.sync(*put));
    rig.apply();
    for put in puts {
        assert!(rig.result::<pb::PutResponse>(put).is_ok());
    }
    rig.check_empty();
}

#[test]
fn a_long_read_ends_with_a_change_of_users() {
    let mut rig = Rig::enforced(true);
    let range = KeyRange { key: b"a", end: b"b" };
    let permission = Some(Permission { kind: PermissionKind::Read, range });
    rig.change(AuthCommand::GrantPermission { role: "r", permission });
    for key in ["a1", "a2", "a3", "a4", "a5", "a6", "a7"] {
        let put = rig.call_by(Credentials::Member, EtcdMethod::Put, &a_put(key, "1"));
        rig.apply();
        assert!(rig.result::<pb::PutResponse>(put).is_ok());
    }
    let alice = rig.token();
    let request = pb::RangeRequest { range_end: "b".into(), ..a_range("a", false) };
    let read = |rig: &mut Rig, is_cut: bool| {
        let ticket =
            rig.front.on_call(EtcdMethod::Range, request.encode_to_vec().into(), alice.clone());
        rig.front.run_reads(&rig.machine);
        assert!(rig.front.is_runnable(), "three keys are read in a hold");
        if is_cut {
            rig.change(AuthCommand::AddRole { role: "other" });
        }
        rig.take();
        rig.result::<pb::RangeResponse>(ticket).map(|found| found.count)
    };
    assert_eq!(read(&mut rig, false), Ok(7));
    assert_eq!(read(&mut rig, true), Err(Error::AuthOldRevision.into()));
    assert_eq!(read(&mut rig, false), Ok(7), "the token itself is good");
}

#[test]
fn the_parts_of_a_transaction_that_reads_are_permitted_in_several_holds() {
    let mut rig = Rig::enforced(true);
    let range = KeyRange { key: b"a", end: b"b" };
    let permission = Some(Permission { kind: PermissionKind::Read, range });
    rig.change(AuthCommand::GrantPermission { role: "r", permission });
    let alice = rig.token();
    let compare = |key: &'static str| pb::Compare { key: key.into(), ..pb::Compare::default() };
    let op = |request| pb::RequestOp { request: Some(request) };
    let nested = |last: &'static str| pb::TxnRequest {
        compare: ["a1", "a2", "a3", last].map(compare).into(),
        success: vec![op(Request::RequestRange(a_range("a1", false)))],
        failure: Vec::new(),
    };
    let txn = |last: &'static str| pb::TxnRequest {
        compare: ["a"; 7].map(compare).into(),
        success: vec![op(Request::RequestTxn(nested(last)))],
        failure: vec![op(Request::RequestRange(a_range("a2", false))); 5],
    };
    let mut call = |last: &'static str, is_cut: bool| {
        let request = txn(last).encode_to_vec().into();
        let ticket = rig.front.on_call(EtcdMethod::Txn, request, alice.clone());
        let mut holds = 0;
        while rig.front.is_runnable() {
            rig.front.run_reads(&rig.machine);
            holds += 1;
            if is_cut && holds == 2 {
                rig.change(AuthCommand::AddRole { role: "other" });
            }
        }
        rig.take();
        (rig.result::<pb::TxnResponse>(ticket).map(|done| done.succeeded), holds)
    };
    let (done, holds) = call("a4", false);
    assert_eq!(done, Ok(true));
    assert!(holds > 20 / 3, "three parts are looked at in a hold: {holds}");
    assert_eq!(call("b", false).0, Err(DENIED));
    assert_eq!(call("a4", true).0, Err(Error::AuthOldRevision.into()));
    rig.check_empty();
}

#[test]
fn a_list_of_leases_takes_several_holds() {
    let mut rig = Rig::enforced(true);
    for id in 1..=4 {
        let grant = pb::LeaseGrantRequest { id, ttl: 100 };
        let ticket = rig.call_by(Credentials::Member, EtcdMethod::LeaseGrant, &grant);
        rig.apply();
        assert!(rig.result::<pb::LeaseGrantResponse>(ticket).is_ok());
    }
    let alice = rig.token();
    let request = Bytes::from(pb::LeaseLeasesRequest {}.encode_to_vec());
    for credentials in [alice.clone(), Credentials::Member] {
        let ticket = rig.front.on_call(EtcdMethod::LeaseLeases, request.clone(), credentials);
        rig.front.run_reads(&rig.machine);
        assert!(rig.front.is_runnable(), "three leases are read in a hold");
        rig.take();
        let listed: pb::LeaseLeasesResponse = rig.result(ticket).unwrap();
        assert_eq!(listed.leases.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
    let put = pb::PutRequest { lease: 4, ..a_put("b", "1") };
    let ticket = rig.call_by(Credentials::Member, EtcdMethod::Put, &put);
    rig.apply();
    assert!(rig.result::<pb::PutResponse>(ticket).is_ok());
    let denied = rig.call_by(alice, EtcdMethod::LeaseLeases, &pb::LeaseLeasesRequest {});
    assert_eq!(rig.result::<pb::LeaseLeasesResponse>(denied), Err(DENIED));
    rig.check_empty();
}

fn authenticate(name: &str, password: &str) -> pb::AuthenticateRequest {
    pb::AuthenticateRequest { name: name.to_string(), password: password.to_string() }
}

#[test]
fn a_password_is_compared_again_where_users_have_changed_meanwhile() {
    let mut rig = Rig::enforced(true);
    let method = EtcdMethod::Auth(AuthMethod::Authenticate);
    let ticket = rig.call(method, &authenticate("alice", "secret"));
    for hash in [&b"hash"[..], b"new hash"] {
        let (of, work) = rig.passwords.pop().expect("it is to be compared");
        assert_eq!((of, &work.password[..]), (ticket, &b"secret"[..]));
        let PasswordTask::Check { hash: compared, .. } = &work.task else { panic!("{work:?}") };
        assert_eq!(&**compared, hash);
        if hash == b"hash" {
            rig.change(AuthCommand::ChangePassword { user: "alice", password: b"new hash" });
        }
        rig.front.on_password(ticket, PasswordDone::RightFor(LETTERS));
        rig.take();
        rig.apply();
    }
    let response = rig.result::<pb::AuthenticateResponse>(ticket).unwrap();
    let token = Credentials::Token(response.token.as_str().into());
    let range = rig.call_by(token, EtcdMethod::Range, &a_range("a", false));
    assert!(rig.result::<pb::RangeResponse>(range).is_ok());
    // An expired token does not matter for this call.
    let ticket = rig.call_by(Credentials::InvalidToken, method, &authenticate("alice", "wrong"));
    rig.front.on_password(ticket, PasswordDone::Wrong);
    rig.take();
    let refused = rig.result::<pb::AuthenticateResponse>(ticket);
    assert_eq!(refused, Err(Error::AuthFailed.into()));
    // The time of the answer must not reveal whether the user exists.
    let ticket = rig.call(method, &authenticate("zoe", "x"));
    let (of, work) = rig.passwords.pop().expect("it takes as long");
    assert!(of == ticket && matches!(work.task, PasswordTask::Pretend));
    rig.front.on_password(ticket, PasswordDone::Wrong);
    rig.take();
    let refused = rig.result::<pb::AuthenticateResponse>(ticket);
    assert_eq!(refused, Err(Error::AuthFailed.into()));
    rig.check_empty();
}

/// A Front may learn of the level after its state has users (sim seed 1005508501 of three members).
#[test]
fn a_login_that_waits_for_the_level_is_of_the_same_user_afterwards() {
    let mut rig = Rig::new(true, Level::FIRST);
    rig.add_users();
    rig.change(AuthCommand::Enable);
    let method = EtcdMethod::Auth(AuthMethod::Authenticate);
    let ticket = rig.call(method, &authenticate("alice", "secret"));
    for round in 0..2 {
        let (of, work) = rig.passwords.pop().expect("it is to be compared");
        assert_eq!((of, &work.password[..]), (ticket, &b"secret"[..]));
        rig.front.on_password(ticket, PasswordDone::RightFor(LETTERS));
        rig.take();
        if round == 0 {
            assert_eq!(rig.told, ["Need(Level(2))"]);
            let mut changes = Changes::default();
            let raised = ControlChange::Raised(StatedLevel::from(Level::ETCD));
            changes.control.push(raised);
            rig.deliver(changes, Vec::new());
        }
    }
    rig.apply();
    assert!(rig.result::<pb::AuthenticateResponse>(ticket).is_ok());
    rig.check_empty();
}

#[test]
fn a_signed_token_is_not_given_out_behind_a_change_of_users() {
    let mut rig = Rig::enforced(false);
    let method = EtcdMethod::Auth(AuthMethod::Authenticate);
    let ticket = rig.call(method, &authenticate("alice", "secret"));
    for round in 0..2 {
        assert_eq!(
            core::mem::take(&mut rig.synced),
            if round == 0 { vec![ticket] } else { vec![] }
        );
        if round == 0 {
            rig.sync(ticket);
        }
        assert_eq!(rig.passwords.pop().map(|(of, _)| of), Some(ticket));
        if round == 0 {
            rig.change(AuthCommand::ChangePassword { user: "alice", password: b"new hash" });
        }
        rig.front.on_password(ticket, PasswordDone::Signed("a.b.c".to_string()));
        rig.take();
        assert_eq!(core::mem::take(&mut rig.synced), [ticket]);
        rig.sync(ticket);
    }
    let response = rig.result::<pb::AuthenticateResponse>(ticket).unwrap();
    assert_eq!(response.token, "a.b.c");
    rig.check_empty();
}

#[test]
fn a_long_password_is_cut_or_refused_before_it_waits() {
    let mut rig = Rig::enforced(true);
    let long = "p".repeat(73);
    let ticket =
        rig.call(EtcdMethod::Auth(AuthMethod::Authenticate), &authenticate("alice", &long));
    assert_eq!(rig.passwords.pop().unwrap().1.password.len(), 72);
    rig.front.on_cancel(ticket);
    let add =
        pb::AuthUserAddRequest { name: "bob".to_string(), password: long, ..Default::default() };
    let ticket = rig.call_by(Credentials::Member, EtcdMethod::Auth(AuthMethod::UserAdd), &add);
    let refused = rig.result::<pb::AuthUserAddResponse>(ticket);
    let text = "bcrypt: password length exceeds 72 bytes";
    assert_eq!(refused, Err(CallRefused::Unknown(text)));
    rig.check_empty();
}

#[test]
fn work_on_a_password_ends_with_its_call_and_is_not_begun_without_rights() {
    let mut rig = Rig::enforced(true);
    let add = pb::AuthUserAddRequest {
        name: "bob".to_string(),
        password: "secret".to_string(),
        ..Default::default()
    };
    let method = EtcdMethod::Auth(AuthMethod::UserAdd);
    let refused = rig.call(method, &add);
    assert_eq!(rig.result::<pb::AuthUserAddResponse>(refused), Err(NOBODY));
    let alice = rig.token();
    let refused = rig.call_by(alice, method, &add);
    assert_eq!(rig.result::<pb::AuthUserAddResponse>(refused), Err(DENIED));
    assert!(rig.passwords.is_empty());
    let ticket = rig.call_by(Credentials::Member, method, &add);
    let (_, work) = rig.passwords.pop().unwrap();
    assert!(work.waits.upgrade().is_some());
    rig.front.on_cancel(ticket);
    assert!(work.waits.upgrade().is_none());
    rig.front.on_password(ticket, PasswordDone::Hashed(b"hash".to_vec()));
    let ticket = rig.call_by(Credentials::Member, method, &add);
    rig.front.on_password(ticket, PasswordDone::Hashed(b"hash".to_vec()));
    rig.take();
    rig.apply();
    assert!(rig.result::<pb::AuthUserAddResponse>(ticket).is_ok());
    assert_eq!(
        rig.machine.etcd().auth().user("bob").unwrap().password.as_deref(),
        Some(&b"hash"[..])
    );
    rig.check_empty();
}
