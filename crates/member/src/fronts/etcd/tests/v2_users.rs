//! Tests of requests about users and roles of etcd v2, from the path to the answer.

use etcd::v2::auth::PatternLists;
use etcd::v2::{Form, Request, Verb};

use super::*;
use crate::fronts::etcd::v2::clients::{Done, Presented, UserSearch, UserStep, Work};
use crate::fronts::etcd::v2::users::{
    BadBody, RoleBody, UserBody, UserGiven, UsersAnswer, UsersCall, UsersStep,
};

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The credentials of a request with this `user:password`; those of a guest if the text is empty.
/// The base64 is made by hand, so that `member` needs no crate for its tests.
fn authorization(credentials: &str) -> Presented {
    if credentials.is_empty() {
        return Presented::default();
    }
    let mut text = "Basic ".to_string();
    for part in credentials.as_bytes().chunks(3) {
        let bits = part.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > part.len() { '=' } else { letter.into() });
        }
    }
    Presented { credentials: Some(text.into_bytes()), certificate: None }
}

/// The body of a request. `None` if the body fails to come.
enum Body {
    None,
    User(UserBody),
    Role(RoleBody),
}

fn user(name: &str, given: UserGiven) -> Body {
    Body::User(UserBody { user: name.into(), given: Ok(given) })
}

fn password(password: &str) -> UserGiven {
    UserGiven { password: password.into(), ..<_>::default() }
}

fn role(name: &str, key: &str) -> Body {
    let lists = PatternLists { read: Some(vec![key.into()]), write: None };
    let given = Ok([lists, <_>::default(), <_>::default()]);
    Body::Role(RoleBody { role: name.into(), given })
}

/// The hash of a password in these tests.
fn hash(password: &[u8]) -> Vec<u8> {
    [b"#", password].concat()
}

impl Rig {
    /// Does a step's work, as a driver does.
    fn work(&mut self, work: Work) -> Done {
        match work {
            Work::Call(request) => {
                let ticket = self.front.on_v2_call(request);
                self.take();
                self.apply();
                let is_it = |(of, _): &(Ticket, V2Result)| *of == ticket;
                if let Some(at) = self.v2_results.iter().position(is_it) {
                    return Done::Called(Ok(self.v2_results.remove(at).1));
                }
                let at = self.results.iter().position(|(of, _)| *of == ticket);
                let (_, result) = self.results.remove(at.expect("it has a result"));
                Done::Called(Err(result.expect_err("etcd v2 has results of its own")))
            }
            Work::Password { password, task } => Done::Password(match task {
                PasswordTask::Hash => PasswordDone::Hashed(hash(&password)),
                PasswordTask::Verify { hash: right, .. } if *right == hash(&password) => {
                    PasswordDone::Right
                }
                PasswordTask::Verify { .. } | PasswordTask::Pretend => PasswordDone::Wrong,
                PasswordTask::Check { .. } => unreachable!("that is for v3"),
            }),
        }
    }

    /// The answer to a request of a client with these credentials, and the work it took as letters
    /// ([`Rig::check`]).
    fn users(&mut self, line: &str, credentials: &str, body: Body) -> (UsersAnswer, String) {
        let (method, rest) = line.split_once(' ').unwrap();
        let begun = UsersCall::begin(method, rest, authorization(credentials));
        let mut step = begun.expect("something is there");
        let (mut body, mut steps) = (body, String::new());
        loop {
            step = match step {
                UsersStep::Work(call, work) => {
                    steps += match &work {
                        Work::Call(request) if request.command().is_some() => "w",
                        Work::Call(_) => "r",
                        Work::Password { task: PasswordTask::Hash, .. } => "h",
                        Work::Password { task: PasswordTask::Pretend, .. } => "p",
                        Work::Password { .. } => "v",
                    };
                    call.on_done(self.work(work))
                }
                UsersStep::ReadUser(reading) => {
                    steps += "b";
                    let Body::User(body) = core::mem::replace(&mut body, Body::None) else {
                        return (reading_fails(reading.on_body(Err(BadBody::Missing))), steps);
                    };
                    reading.on_body(Ok(body))
                }
                UsersStep::ReadRole(reading) => {
                    steps += "b";
                    let Body::Role(body) = core::mem::replace(&mut body, Body::None) else {
                        return (reading_fails(reading.on_body(Err(BadBody::Invalid))), steps);
                    };
                    reading.on_body(Ok(body))
                }
                UsersStep::Show(shown) => {
                    assert!(shown.kept_bytes() > 0);
                    UsersStep::Answer(shown.answer())
                }
                UsersStep::Answer(answer) => return (answer, steps),
            };
        }
    }

    /// Checks an answer. The first text is the status, with `+` if the response names the cluster;
    /// then the body; then the work: r reads, w writes, v and p compare passwords, h hashes one, b
    /// reads the body.
    fn check(&mut self, line: &str, by: &str, body: Body, expected: (&str, &str, &str)) {
        let (answer, steps) = self.users(line, by, body);
        let (head, text) = match answer {
            UsersAnswer::Line { status, text } => {
                (format!("{status}+"), String::from_utf8(text).unwrap())
            }
            UsersAnswer::Refused { status, text, names_cluster } => {
                (format!("{status}{}", if names_cluster { "+" } else { "" }), text)
            }
            UsersAnswer::NotAllowed(methods) => ("405".to_string(), methods.to_string()),
        };
        assert_eq!((head.as_str(), text.as_str(), steps.as_str()), expected, "{line}");
    }

    /// Makes the user root with the password `r`, and enforces permissions.
    fn enforce_v2(&mut self) {
        let made = ("201+", "{\"user\":\"root\",\"roles\":[\"root\"]}\n", "rbhw");
        self.check("PUT users/root", "", user("root", password("r")), made);
        self.check("PUT enable", "", Body::None, ("200+", "", "rw"));
    }

    /// The user that a request about a key is found to have, or the error of the request.
    fn user_of(&mut self, presented: Presented) -> Result<Option<Arc<str>>, (u16, Vec<u8>)> {
        let mut step = UserSearch::begin(presented);
        loop {
            step = match step {
                UserStep::Work(search, work) => search.on_done(self.work(work)),
                UserStep::Found(user) => return Ok(user),
                UserStep::Failed(failure) => return Err((failure.code.status(), failure.cause)),
            };
        }
    }
}

fn reading_fails(step: UsersStep) -> UsersAnswer {
    match step {
        UsersStep::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn users_and_roles_are_made_shown_changed_and_deleted() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    rig.check("GET enable", "", Body::None, ("200+", "{\"enabled\":false}\n", "r"));
    let no_root = "auth: No root user available, please create one";
    rig.check("PUT enable", "", Body::None, ("409+", no_root, "rw"));
    rig.enforce_v2();
    rig.check("GET enable", "", Body::None, ("200+", "{\"enabled\":true}\n", "r"));
    let app = "{\"role\":\"app\",\"permissions\":{\"kv\":{\"read\":[\"/a\"],\"write\":null}}}\n";
    rig.check("PUT roles/app", "root:r", role("app", "/a"), ("201+", app, "rvbw"));
    let again = "auth: Role app already exists.";
    rig.check("PUT roles/app", "root:r", role("app", "/a"), ("409+", again, "rvbw"));
    // As in etcd: making a new user whose roles the request lists is answered with 200.
    let given = UserGiven { roles: vec!["app".into()], ..password("a") };
    let made = "{\"user\":\"ada\",\"roles\":[\"app\"]}\n";
    rig.check("PUT users/ada", "root:r", user("ada", given), ("200+", made, "rvbhw"));
    let given = UserGiven { revoke: vec!["app".into()], ..<_>::default() };
    let changed = "{\"user\":\"ada\",\"roles\":[]}\n";
    rig.check("PUT users/ada", "root:r", user("ada", given), ("200+", changed, "rvbw"));
    rig.check("GET users/ada", "root:r", Body::None, ("200+", "{\"user\":\"ada\"}\n", "rv"));
    rig.check("DELETE users/ada", "root:r", Body::None, ("200+", "", "rvw"));
    let gone = "auth: User ada does not exist.";
    rig.check("GET users/ada", "root:r", Body::None, ("404+", gone, "rv"));
    rig.check("DELETE roles/app", "root:r", Body::None, ("200+", "", "rvw"));
    let gone = "auth: Role app does not exist.";
    rig.check("GET roles/app", "root:r", Body::None, ("404+", gone, "rv"));
    rig.check("DELETE enable", "root:r", Body::None, ("200+", "", "rvw"));
    rig.check_empty();
}

/// No body is read and no password hashed before the client is known to be root.
#[test]
fn a_client_that_is_not_root_is_refused_before_its_body_is_read() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    rig.enforce_v2();
    let given = user("ada", password("a"));
    let made = ("201+", "{\"user\":\"ada\",\"roles\":null}\n", "rvbhw");
    rig.check("PUT users/ada", "root:r", given, made);
    let text = "Insufficient credentials";
    for (by, steps) in [("", "r"), ("root:x", "rv"), ("eve:r", "rp"), ("ada:a", "rv")] {
        for line in ["PUT users/ada", "DELETE roles/x", "GET users", "GET roles/x", "PUT enable"] {
            rig.check(line, by, Body::None, ("401", text, steps));
        }
    }
    let missing = "the body has more than 131072 bytes, or does not come";
    rig.check("PUT users/ada", "root:r", Body::None, ("400+", missing, "rvb"));
    let invalid = "Invalid JSON in request body.";
    rig.check("PUT roles/r", "root:r", Body::None, ("400+", invalid, "rvb"));
    rig.check_empty();
}

#[test]
fn the_user_of_a_request_about_a_key_is_proven() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    assert_eq!(rig.user_of(authorization("eve:x")), Ok(None), "nobody asks yet");
    rig.enforce_v2();
    let certificate = |name: &str| Presented { certificate: Some(name.into()), credentials: None };
    assert_eq!(rig.user_of(authorization("root:r")), Ok(Some("root".into())));
    assert_eq!(rig.user_of(certificate("root")), Ok(Some("root".into())));
    // The client is a guest if no user has the name in its certificate.
    assert_eq!(rig.user_of(certificate("eve")), Ok(None));
    let refused = Err((401, b"Insufficient credentials".to_vec()));
    // Credentials take precedence over the certificate.
    let both = Presented { certificate: Some("root".into()), ..authorization("root:x") };
    let bearer = Presented { credentials: Some(b"Bearer x".to_vec()), certificate: None };
    for wrong in [authorization("root:x"), authorization("eve:r"), both, bearer] {
        assert_eq!(rig.user_of(wrong.clone()), refused, "{wrong:?}");
    }
    rig.check_empty();
}

/// The Front has as many calls as it may have, and the driver has no room for work on passwords.
#[test]
fn a_request_without_room_is_answered_with_500() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    rig.enforce_v2();
    let refused = CallRefused::from(Error::TooManyRequests);
    let answer = |step| match step {
        UsersStep::Answer(UsersAnswer::Refused { status, text, names_cluster }) => {
            (status, text, names_cluster)
        }
        other => panic!("{other:?}"),
    };
    let expected = (500, Error::TooManyRequests.text().to_string(), true);
    let begin = || match UsersCall::begin("GET", "users", authorization("root:r")) {
        Some(UsersStep::Work(call, work)) => (call, work),
        other => panic!("{other:?}"),
    };
    let (call, _) = begin();
    assert_eq!(answer(call.on_done(Done::Called(Err(refused)))), expected);
    let (call, work) = begin();
    let UsersStep::Work(call, Work::Password { .. }) = call.on_done(rig.work(work)) else {
        panic!("its password is compared");
    };
    assert_eq!(answer(call.on_done(Done::Password(PasswordDone::TooMuchWork))), expected);
    let step = UserSearch::begin(authorization("root:r"));
    let UserStep::Work(search, _) = step else { panic!("{step:?}") };
    let UserStep::Failed(failure) = search.on_done(Done::Called(Err(refused))) else { panic!() };
    assert_eq!(failure.code.status(), 500);
}

/// Apply judges the client's role again.
#[test]
fn a_change_is_refused_if_its_client_lost_the_role_meanwhile() {
    let mut rig = Rig::new(true, Level::ETCD_V2);
    rig.enforce_v2();
    let given = UserGiven { roles: vec!["root".into()], ..password("a") };
    let (answer, _) = rig.users("PUT users/ada", "root:r", user("ada", given));
    assert!(matches!(answer, UsersAnswer::Line { status: 200, .. }), "{answer:?}");
    let mut step = UsersCall::begin("DELETE", "roles/x", authorization("ada:a")).unwrap();
    for _ in 0..2 {
        let UsersStep::Work(call, work) = step else { panic!("{step:?}") };
        step = call.on_done(rig.work(work));
    }
    let revoke = UserGiven { revoke: vec!["root".into()], ..<_>::default() };
    rig.users("PUT users/ada", "root:r", user("ada", revoke));
    let UsersStep::Work(call, work) = step else { panic!("{step:?}") };
    let UsersStep::Answer(answer) = call.on_done(rig.work(work)) else { panic!("it is made") };
    let (text, names_cluster) = ("Insufficient credentials".to_string(), false);
    assert_eq!(answer, UsersAnswer::Refused { status: 401, text, names_cluster });
    // Reads by this user are refused too.
    let mut get = Request::new(Verb::Get, "/a", Form::default()).unwrap();
    get.user = Some("ada".into());
    assert!(matches!(rig.work(Work::Call(get)), Done::Called(Ok(Err(_)))));
}
