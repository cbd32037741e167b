//! Tests of reads, writes and waits of etcd v2.

use etcd::v2::auth::{AuthWrite, RoleWrite, UserWrite};
use etcd::v2::{Form, Request, Verb};
use machine::etcd_v2::reply::Reason;

use super::*;

fn request(verb: Verb, key: &str, parameters: &str) -> Request {
    let mut form = Form::default();
    form.add(parameters.as_bytes()).unwrap();
    Request::new(verb, key, form).unwrap()
}

impl Rig {
    fn call_v2(&mut self, verb: Verb, key: &str, parameters: &str) -> Ticket {
        let ticket = self.front.on_v2_call(request(verb, key, parameters));
        self.take();
        ticket
    }

    /// The store's result of a call: the value, or the reason of a refusal.
    fn v2_result(&mut self, ticket: Ticket) -> Result<String, Reason> {
        let at = self.v2_results.iter().position(|(of, _)| *of == ticket).expect("it is done");
        let value = match self.v2_results.remove(at).1 {
            Ok(V2Found::Node(found)) => found.node.value().cloned(),
            Ok(V2Found::Written(event)) => event.node.value.clone(),
            Ok(V2Found::Auth(_) | V2Found::AuthDone(_)) => None,
            Err(refusal) => return Err(refusal.reason),
        };
        Ok(String::from_utf8(value.unwrap_or_default().to_vec()).unwrap())
    }

    /// The error of a call that did not reach the store.
    fn v2_refused(&mut self, ticket: Ticket) -> CallRefused {
        let at = self.results.iter().position(|(of, _)| *of == ticket).expect("it is done");
        self.results.remove(at).1.expect_err("it is refused")
    }
}

#[test]
fn a_write_and_a_read_have_the_answers_of_the_store() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    let ticket = rig.call_v2(Verb::Put, "/a", "value=1");
    rig.apply();
    assert_eq!(rig.v2_result(ticket), Ok("1".to_string()));
    let ticket = rig.call_v2(Verb::Get, "/a", "");
    assert_eq!(rig.v2_result(ticket), Ok("1".to_string()));
    let ticket = rig.call_v2(Verb::Get, "/b", "");
    assert_eq!(rig.v2_result(ticket), Err(Reason::KeyNotFound("/b".into())));
    let ticket = rig.call_v2(Verb::Post, "/a", "value=2");
    rig.apply();
    assert_eq!(rig.v2_result(ticket), Err(Reason::NotDir("/a".into())));
    rig.check_empty();
}

/// A command names its user, and is judged by the permissions at its place in the log.
#[test]
fn commands_and_reads_are_for_their_user() {
    let of_root = |verb, parameters| {
        let mut request = request(verb, "/b", parameters);
        request.user = Some("root".into());
        request
    };
    let mut rig = Rig::new(true, Level::ETCD_V2);
    let change = |rig: &mut Rig, write| {
        let ticket = rig.front.on_v2_call(Request::write_auth(None, write));
        rig.take();
        rig.apply();
        rig.v2_result(ticket).unwrap();
    };
    let (name, hash) = ("root".to_string(), b"hash".to_vec());
    let root = UserWrite { name, hash, may_create: true, ..UserWrite::default() };
    change(&mut rig, AuthWrite::PutUser(root));
    change(&mut rig, AuthWrite::PutRole(RoleWrite { name: "guest".into(), ..<_>::default() }));
    // The guest's write is sent before permissions are enforced, and applied after.
    let enforce = rig.front.on_v2_call(Request::write_auth(None, AuthWrite::Enforce(true)));
    let by_guest = rig.front.on_v2_call(request(Verb::Put, "/a", "value=1"));
    let by_root = rig.front.on_v2_call(of_root(Verb::Put, "value=2"));
    rig.take();
    rig.apply();
    assert_eq!(rig.v2_result(enforce), Ok(String::new()));
    assert_eq!(rig.v2_result(by_guest), Err(Reason::Unauthorized));
    assert_eq!(rig.v2_result(by_root), Ok("2".to_string()));
    let ticket = rig.call_v2(Verb::Get, "/b", "");
    assert_eq!(rig.v2_result(ticket), Err(Reason::Unauthorized));
    let ticket = rig.front.on_v2_call(of_root(Verb::Get, ""));
    rig.take();
    assert_eq!(rig.v2_result(ticket), Ok("2".to_string()));
    rig.check_empty();
}

#[test]
fn a_read_with_a_quorum_waits_for_a_sync_where_there_are_others() {
    let mut rig = Rig::new(false, Level::ETCD_V2);
    let local = rig.call_v2(Verb::Get, "/a", "");
    assert_eq!(rig.v2_result(local), Err(Reason::KeyNotFound("/a".into())));
    assert!(rig.synced.is_empty());
    let ticket = rig.call_v2(Verb::Get, "/a", "quorum=true");
    assert_eq!((rig.synced.as_slice(), rig.v2_results.len()), ([ticket].as_slice(), 0));
    rig.sync(ticket);
    assert_eq!(rig.v2_result(ticket), Err(Reason::KeyNotFound("/a".into())));
    // If the sync is not answered, the read fails at its deadline.
    let ticket = rig.call_v2(Verb::Get, "/a", "quorum=true");
    rig.front.set_now(Now { monotonic_ms: ETCD_CALL_MS_MAX, raft_term: 1, contact_at_ms: None });
    rig.front.on_tick();
    rig.take();
    assert_eq!(rig.v2_refused(ticket), Error::TimedOut.into());
    rig.check_empty();
}

#[test]
fn only_a_read_that_needs_no_sync_runs_at_once() {
    let failed = |rig: &Rig| {
        let numbers = rig.front.config.command_counts.etcd_v2.numbers();
        numbers.into_iter().find(|(name, _)| *name == "getsFail").map(|(_, count)| count)
    };
    for is_alone in [false, true] {
        let rig = Rig::new(is_alone, Level::ETCD_V2);
        let run = |verb, parameters| {
            rig.front.get_v2(&request(verb, "/a", parameters), rig.machine.etcd_v2())
        };
        let is_missing = |result: Option<V2Result>| {
            result.is_some_and(|it| it.unwrap_err().reason == Reason::KeyNotFound("/a".into()))
        };
        assert!(is_missing(run(Verb::Get, "")));
        assert_eq!(is_missing(run(Verb::Get, "quorum=true")), is_alone);
        assert!(run(Verb::Put, "value=1").is_none());
        assert!(run(Verb::Get, "wait=true").is_none());
        assert_eq!(failed(&rig), Some(if is_alone { 2 } else { 1 }));
        rig.check_empty();
    }
}

#[test]
fn a_write_waits_for_the_level_of_etcd_v2() {
    let mut rig = Rig::new(true, Level::ETCD);
    let ticket = rig.call_v2(Verb::Put, "/a", "value=1");
    assert_eq!(rig.told, ["Need(Level(3))"]);
    assert!(rig.submitted.is_empty());
    let mut changes = Changes::default();
    changes.control.push(ControlChange::Raised(StatedLevel::from(Level::ETCD_V2)));
    rig.deliver(changes, Vec::new());
    rig.apply();
    assert_eq!(rig.v2_result(ticket), Ok("1".to_string()));
    rig.check_empty();
}

#[test]
fn a_write_that_is_too_large_or_given_up_has_an_error() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    let large = format!("value={}", "v".repeat(1_000));
    let ticket = rig.call_v2(Verb::Put, "/a", &large);
    assert_eq!(rig.v2_refused(ticket), Error::RequestTooLarge.into());
    let ticket = rig.call_v2(Verb::Put, "/a", "value=1");
    rig.fail(ticket, Unavailable::GivenUp(Fate::Unknown));
    assert_eq!(rig.v2_refused(ticket), Error::TimedOut.into());
    rig.submitted.clear();
    // The third client waits no longer.
    let ticket = rig.call_v2(Verb::Put, "/a", "value=1");
    rig.front.on_cancel(ticket);
    rig.apply();
    assert!(rig.v2_results.is_empty());
    rig.check_empty();
}

#[test]
fn a_wait_gets_the_event_that_a_write_of_another_front_makes() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    let ticket = rig.front.on_v2_wait(request(Verb::Get, "/a", "wait=true"));
    rig.take();
    assert!(matches!(rig.v2_waited[..], [(of, V2Waited::Begun { index: 3 })] if of == ticket));
    rig.call_v2(Verb::Put, "/a", "value=1");
    rig.apply();
    assert!(matches!(&rig.v2_waited[1], (of, V2Waited::Events(events))
        if *of == ticket && events.len() == 1));
    rig.v2_results.clear();
    rig.check_empty();
}
