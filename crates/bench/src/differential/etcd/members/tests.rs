use super::*;
use crate::differential::etcd::services::grpc_call;

/// The answer of a single server `@0`, with a learner if there is one.
fn list(learner: Option<&str>) -> Value {
    let own = json!({ "ID": "@0", "peerURLs": ["http://own:1"] });
    let learner = learner
        .map(|mark| json!({ "ID": mark, "peerURLs": ["http://learner:1"], "isLearner": true }));
    let members: Vec<Value> = [own].into_iter().chain(learner).collect();
    json!({ "members": members })
}

#[test]
fn every_call_can_be_made() {
    let ids = Ids((0..=3).map(|id| id.to_string()).collect());
    for seed in 1..=20 {
        let mut members = Members::new(seed);
        members.observe(&list(Some("@2")));
        members.observe(&list(Some("@3")));
        for _ in 0..CALLS {
            let call = members.draw();
            assert!(grpc_call(call.path, &ids.body(&call).unwrap()).is_ok(), "{call:?}");
        }
        assert!(members.last().is_some());
    }
}

/// A voter that is added and does not exist takes the real etcd's quorum away.
#[test]
fn every_voter_to_add_must_be_refused() {
    let mut refused = 0;
    for seed in 1..=100 {
        let mut members = Members::new(seed);
        members.observe(&list((seed % 2 == 0).then_some("@1")));
        for _ in 0..CALLS {
            let MemberCall { path, body, .. } = members.draw();
            if path != "cluster/member/add" || body["isLearner"] == true {
                continue;
            }
            let urls = body["peerURLs"].as_array().unwrap();
            let is_refused = |url: &Value| {
                let url = url.as_str().unwrap();
                BAD_URLS.contains(&url) || url == "http://own:1" || url == "http://learner:1"
            };
            assert!(urls.is_empty() || urls.iter().any(is_refused), "{body}");
            refused += 1;
        }
    }
    assert!(refused > 100);
}

#[test]
fn members_have_marks_by_the_order_in_which_they_appeared() {
    let mut ids = Ids::default();
    let mut masked = |text: &str| {
        let mut answer = serde_json::from_str(text).unwrap();
        ids.mask(&mut answer);
        answer.to_string()
    };
    let own = r#"{"ID":"77","name":"n","peerURLs":["http://b:1"],"clientURLs":["c"]}"#;
    let other = r#"{"ID":"5","peerURLs":["http://a:1"],"isLearner":true}"#;
    let header = r#""header":{"member_id":"77","raft_term":"9"}"#;
    let shown = masked(&format!(r#"{{{header},"members":[{own},{other}]}}"#));
    let own = r##"{"ID":"@0","clientURLs":"*","name":"*","peerURLs":["http://b:1"]}"##;
    let other = r##"{"ID":"@1","isLearner":true,"peerURLs":["http://a:1"]}"##;
    let header = r#""header":{"member_id":"*","raft_term":"*"}"#;
    assert_eq!(shown, format!(r#"{{{header},"members":[{other},{own}]}}"#));
    let moved = masked(r#"{"members":[{"ID":"5","peerURLs":["http://z:1"]}]}"#);
    assert_eq!(moved, r##"{"members":[{"ID":"@1","peerURLs":["http://z:1"]}]}"##);
}
