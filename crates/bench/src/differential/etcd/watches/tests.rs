use super::*;

fn event(key: &'static str, mod_revision: i64) -> mvccpb::Event {
    let kv = mvccpb::KeyValue { key: key.into(), mod_revision, ..Default::default() };
    mvccpb::Event { kv: Some(kv), ..Default::default() }
}

fn response(watch_id: i64, revision: i64, events: &[mvccpb::Event]) -> pb::WatchResponse {
    let header = pb::ResponseHeader { cluster_id: 7, member_id: 8, revision, raft_term: 9 };
    let events = events.to_vec();
    pb::WatchResponse { header: Some(header), watch_id, events, ..Default::default() }
}

fn sent(responses: &[pb::WatchResponse]) -> anyhow::Result<Sent> {
    let mut sent = Sent::default();
    for response in responses {
        sent.take(Received::Message(response.encode_to_vec().into()))?;
    }
    Ok(sent)
}

#[test]
fn events_are_compared_whatever_response_they_come_in() {
    let [one, two] = [event("a", 2), event("b", 3)];
    let apart =
        [response(1, 2, std::slice::from_ref(&one)), response(1, 9, std::slice::from_ref(&two))];
    let together = sent(&[response(1, 3, &[one.clone(), two.clone()])]).unwrap();
    let is_same = |responses: &[_]| sent(responses).unwrap().has_same(&together);
    assert!(is_same(&apart));
    assert!(!is_same(&apart[..1]));
    assert!(!is_same(&[response(1, 3, &[two.clone(), one.clone()])]));
    assert!(!is_same(&[response(2, 3, &[one.clone(), two.clone()])]));
    let mut with_pair = two.clone();
    with_pair.prev_kv = one.kv.clone();
    assert!(!is_same(&[response(1, 3, &[one, with_pair])]));
}

#[test]
fn responses_without_events_are_compared_with_their_headers() {
    let created = |revision, cluster_id| {
        let mut created = response(0, revision, &[]);
        created.created = true;
        created.header.as_mut().unwrap().cluster_id = cluster_id;
        sent(&[created]).unwrap()
    };
    assert!(created(5, 1).has_same(&created(5, 2)));
    assert!(!created(5, 1).has_same(&created(5, 0)));
    assert!(!created(5, 1).has_same(&created(6, 1)));
    assert_eq!(created(5, 1).shown, 5);
}

#[test]
fn what_no_server_may_send_is_an_error() {
    assert!(sent(&[response(1, 2, &[event("a", 3)])]).is_err());
    assert!(sent(&[response(1, 2, &[])]).is_err());
    // A revision in two responses, and a fragment that was not asked for.
    let [one, two] = [response(1, 2, &[event("a", 2)]), response(1, 2, &[event("b", 2)])];
    assert!(sent(&[one.clone(), two.clone()]).is_err());
    let fragment = pb::WatchResponse { fragment: true, ..one };
    assert!(sent(std::slice::from_ref(&fragment)).is_err());
    let mut taking = Sent { asks_for_fragments: true, ..Sent::default() };
    let created = pb::WatchResponse { created: true, ..response(1, 1, &[]) };
    for part in [created, fragment, two] {
        taking.take(Received::Message(part.encode_to_vec().into())).unwrap();
    }
    assert_eq!(taking.events[&1].len(), 2);
    assert_eq!(sent(&[response(-1, 2, &[])]).unwrap().promised, 2);
    let ended = Received::Ended { code: 0, message: String::new() };
    assert!(Sent::default().take(ended).is_err());
}
