use super::*;

#[test]
fn every_call_is_one_and_can_be_made() {
    let mut known = Known::default();
    known.observe(&serde_json::json!({"header": {"member_id": "7"}}));
    known.observe(&serde_json::json!({"leader": {"key": "YQ==", "rev": "9"}}));
    for (path, body) in CALLS.iter().chain(LAST_CALLS) {
        for way in ways(1) {
            let body = known.body(body, way);
            assert!(!body.contains('@'), "{path} {body}");
            assert!(grpc_call(path, &body).is_ok(), "{path} {body}");
        }
    }
}

#[test]
fn what_must_differ_is_compared_by_whether_it_is_there() {
    let masked = |path: &str, text: &str| {
        let mut value = serde_json::from_str(text).unwrap();
        mask(path, &mut value);
        value.to_string()
    };
    let status = r#"{"header":{"member_id":"1","revision":"5"},"leader":"3","version":"3.6.16"}"#;
    let expected = r#"{"header":{"member_id":"*","revision":"5"},"leader":"*","version":"3.6.16"}"#;
    assert_eq!(masked("maintenance/status", status), expected);
    assert_eq!(masked("maintenance/hashkv", r#"{"hash":7}"#), r#"{"hash":"*"}"#);
    assert_eq!(masked("maintenance/hashkv", "{}"), "{}");
    assert_eq!(masked("lease/timetolive", r#"{"ID":"1","TTL":"9"}"#), r#"{"ID":"1","TTL":"*"}"#);
    assert_eq!(masked("lease/timetolive", r#"{"TTL":"-1"}"#), r#"{"TTL":"-1"}"#);
    let leader = r#"{"leader":{"key":"YQ==","rev":"9"}}"#;
    assert_eq!(masked("election/campaign", leader), leader);
}
