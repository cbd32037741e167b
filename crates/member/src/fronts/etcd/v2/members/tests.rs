use std::sync::Arc;

use machine::etcd_v2::auth::Auth;

use super::super::V2Found;
use super::*;

fn member(id: u64) -> pb::Member {
    pb::Member {
        id,
        name: format!("m{id}"),
        peer_ur_ls: vec![format!("http://peer{id}:2380")],
        client_ur_ls: vec![format!("http://client{id}:2379")],
        ..<_>::default()
    }
}

fn view() -> MembersView {
    MembersView { members: vec![member(0x1f), member(2)], leader: Some(2), own: 0x1f }
}

/// The answer to a request (`METHOD path`) with this body, and its steps: w works, l looks at the
/// members, b reads the body. Permissions are not enforced.
fn ask(
    line: &str,
    content_type: &str,
    urls: Result<Vec<String>, BadUrls>,
    view: MembersView,
) -> (MembersAnswer, String) {
    let (method, path) = line.split_once(' ').unwrap();
    let presented = Presented::default();
    let request = MembersRequest { method, path, content_type, presented };
    let mut step = MembersCall::begin(request).expect("something is there");
    let mut steps = String::new();
    loop {
        step = match step {
            MembersStep::Work(call, Work::Call(_)) => {
                steps += "w";
                let auth = Arc::new(Auth::default());
                call.on_done(Done::Called(Ok(Ok(V2Found::Auth(auth)))))
            }
            MembersStep::Work(_, work) => panic!("{work:?}"),
            MembersStep::Look(looking) => {
                steps += "l";
                looking.on_view(view.clone())
            }
            MembersStep::ReadUrls(reading) => {
                steps += "b";
                reading.on_body(urls.clone())
            }
            MembersStep::Answer(answer) => return (answer, steps),
        };
    }
}

/// Checks a refusal of a request whose body is JSON.
fn check(line: &str, urls: &[&str], (status, expected, steps): (u16, &str, &str)) {
    let urls = Ok(urls.iter().map(ToString::to_string).collect());
    let (answer, made) = ask(line, "application/json; charset=utf-8", urls, view());
    let content = refused(status, expected);
    let expected = MembersAnswer { names_cluster: true, content };
    assert_eq!((answer, made.as_str()), (expected, steps), "{line}");
}

const NEW: &[&str] = &["http://new:2380"];
const UNCHANGEABLE: &str = "etcdserver: re-configuration failed due to not enough started members";

#[test]
fn members_are_shown() {
    let get = |path: &str, view| {
        let (answer, steps) = ask(&format!("GET {path}"), "", Ok(Vec::new()), view);
        assert_eq!(steps, "l");
        answer
    };
    let named = |content| MembersAnswer { names_cluster: true, content };
    let all = MembersContent::Members(view().members);
    assert_eq!(get("/v2/members", view()), named(all.clone()));
    assert_eq!(get("/v2/members/", view()), named(all));
    assert_eq!(get("/v2/members/leader", view()), named(MembersContent::Member(member(2))));
    let electing = MembersView { leader: None, ..view() };
    let election = refused(503, "During election");
    assert_eq!(get("/v2/members/leader", electing), named(election));
    assert_eq!(get("/v2/members/2", view()), named(refused(404, "Not found")));
    let urls = MembersContent::Machines("http://client2:2379, http://client31:2379".into());
    let expected = MembersAnswer { names_cluster: false, content: urls };
    assert_eq!(get("/v2/machines", view()), expected);
}

#[test]
fn statistics_of_the_leader_are_only_with_the_leader() {
    let get = |which: &str, view| ask(&format!("GET /v2/stats/{which}"), "", Ok(Vec::new()), view);
    let content = |which, view| get(which, view).0.content;
    let leading = MembersView { own: 2, ..view() };
    let statistics = MembersContent::Statistics;
    assert_eq!(content("leader", leading), statistics(Statistics::Leader));
    assert_eq!(content("leader", view()), refused(403, "not current leader"));
    let electing = MembersView { leader: None, ..view() };
    assert_eq!(content("leader", electing), refused(403, "not current leader"));
    assert_eq!(content("self", view()), statistics(Statistics::Own));
    assert_eq!(content("store", view()), statistics(Statistics::Store));
}

#[test]
fn other_methods_are_not_allowed() {
    for (line, names_cluster, methods) in [
        ("POST /v2/machines", false, Some("GET,HEAD")),
        ("HEAD /v2/stats/self", false, Some("GET")),
        ("PUT /v2/stats/leader", false, Some("GET")),
        ("HEAD /v2/members", true, Some("GET,POST,DELETE,PUT")),
        ("PATCH /v2/members/2", true, Some("GET,POST,DELETE,PUT")),
        ("DELETE /v2/members", true, None),
        ("PUT /v2/members/", true, None),
    ] {
        let (answer, _) = ask(line, "", Ok(Vec::new()), view());
        let content = MembersContent::NotAllowed(methods);
        assert_eq!(answer, MembersAnswer { names_cluster, content }, "{line}");
    }
    for path in ["/v2/member", "/v2/membersx", "/v2/stats", "/v2/", "/v3/members"] {
        let request = MembersRequest { method: "GET", path, ..<_>::default() };
        assert!(MembersCall::begin(request).is_none(), "{path}");
    }
}

#[test]
fn a_change_is_refused_behind_the_checks_of_etcd() {
    check("POST /v2/members", NEW, (500, UNCHANGEABLE, "wlb"));
    let known = &["http://new:2380", "http://peer2:2380"];
    check("POST /v2/members", known, (409, "etcdserver: Peer URLs already exists", "wlb"));
    check("POST /v2/members", &[], (400, "no valid URLs given", "wlb"));
    check("PUT /v2/members/1f", NEW, (500, UNCHANGEABLE, "wlb"));
    // A member may keep its URLs.
    check("PUT /v2/members/2", known, (500, UNCHANGEABLE, "wlb"));
    check("PUT /v2/members/3", NEW, (404, "No such member: 3", "wlb"));
    check("PUT /v2/members/3", &[], (400, "no valid URLs given", "wlb"));
    // A name that is no id is refused before the body is read.
    for name in ["x", "+2", "leader", "10000000000000000"] {
        let unknown = format!("No such member: {name}");
        check(&format!("PUT /v2/members/{name}"), NEW, (404, &unknown, "wl"));
        check(&format!("DELETE /v2/members/{name}"), &[], (404, &unknown, "wl"));
    }
    check("DELETE /v2/members/1F", &[], (500, UNCHANGEABLE, "wl"));
}

#[test]
fn a_body_must_be_json_with_texts() {
    let post = |content_type, urls| {
        let (answer, steps) = ask("POST /v2/members", content_type, urls, view());
        let MembersContent::Refused { status, text } = answer.content else { panic!() };
        (status, text, steps)
    };
    let good = || Ok(vec!["http://new:2380".to_string()]);
    let refused = |status, text: &str, steps: &str| (status, text.to_string(), steps.to_string());
    let bad = "Bad Content-Type text/plain, accept application/json";
    assert_eq!(post("text/plain; a=b", good()), refused(415, bad, "wl"));
    let none = "Bad Content-Type , accept application/json";
    assert_eq!(post("", good()), refused(415, none, "wl"));
    assert_eq!(post("Application/JSON", good()), refused(500, UNCHANGEABLE, "wlb"));
    for (urls, text) in [
        (BadUrls::Missing, "the body is too large, too slow, or cut off"),
        (BadUrls::NoJson("at 1".into()), "at 1"),
        (BadUrls::NoTexts, "peerURLs is no list of texts"),
    ] {
        assert_eq!(post("application/json", Err(urls)), refused(400, text, "wlb"));
    }
}

#[test]
fn a_change_needs_the_role_root() {
    let presented = Presented::default();
    let (method, path) = ("POST", "/v2/members");
    let request = MembersRequest { method, path, content_type: "", presented };
    let Some(MembersStep::Work(call, _)) = MembersCall::begin(request) else { panic!() };
    let refused = Error::TooManyRequests;
    let step = call.on_done(Done::Called(Err(refused.into())));
    let MembersStep::Answer(answer) = step else { panic!("{step:?}") };
    let content = super::refused(500, refused.text());
    assert_eq!(answer, MembersAnswer { names_cluster: false, content });
}
