use etcd::Error;

use super::*;

/// A member with given state, and given results of its reads.
struct Rig {
    member: MemberHealth,
    /// The results of a serializable and of a linearizable read.
    reads: [Result<(), CallRefused>; 2],
    counts: HealthCounts,
}

impl Rig {
    fn healthy() -> Rig {
        let member = MemberHealth { has_leader: true, ..<_>::default() };
        Rig { member, reads: [Ok(()), Ok(())], counts: HealthCounts::default() }
    }

    /// The answer, and the steps to it: `l` looks at the member, `s` and `r` are a serializable and
    /// a linearizable read.
    fn ask(&self, target: &str) -> (HealthAnswer, String) {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let mut step = HealthCall::at(path, query).expect("it is a question").begin();
        let mut steps = String::new();
        loop {
            step = match step {
                HealthStep::Look(call) => {
                    steps += "l";
                    call.on_member(&self.member, &self.counts)
                }
                HealthStep::Read(call, request) => {
                    let request = pb::RangeRequest::decode(request).unwrap();
                    assert_eq!(request.key, KEY);
                    steps += if request.serializable { "s" } else { "r" };
                    call.on_read(self.reads[usize::from(!request.serializable)], &self.counts)
                }
                HealthStep::Answer(answer) => return (answer, steps),
            };
        }
    }

    fn check(&self, target: &str, (is_good, text, steps): (bool, &str, &str)) {
        let (answer, made) = self.ask(target);
        let forbids_guesses = !text.starts_with("{\"health\":\"true\"");
        let expected = HealthAnswer { is_good, text: text.to_string(), forbids_guesses };
        assert_eq!((answer, made.as_str()), (expected, steps), "{target}");
    }
}

const GOOD: &str = "{\"health\":\"true\",\"reason\":\"\"}";

fn ill(reason: &str) -> String {
    format!("{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n")
}

#[test]
fn a_member_is_healthy_without_alarms_with_a_leader_and_with_a_read() {
    let mut rig = Rig::healthy();
    rig.check("/health", (true, GOOD, "lr"));
    rig.check("/health?serializable=true", (true, GOOD, "ls"));
    rig.check("/health?serializable=1", (true, GOOD, "lr"));
    rig.reads[1] = Err(Error::TimedOut.into());
    let late = ill("RANGE ERROR:etcdserver: request timed out");
    rig.check("/health", (false, &late, "lr"));
    rig.check("/health?serializable=true", (true, GOOD, "ls"));
    rig.member.has_leader = false;
    rig.check("/health", (false, &ill("RAFT NO LEADER"), "l"));
    rig.check("/health?serializable=true", (true, GOOD, "ls"));
    rig.member.alarms = vec!["NOSPACE", "CORRUPT"];
    rig.check("/health?serializable=true", (false, &ill("ALARM NOSPACE"), "l"));
    let query = "serializable=true&exclude=NOSPACE";
    rig.check(&format!("/health?{query}"), (false, &ill("ALARM CORRUPT"), "l"));
    rig.check(&format!("/health?{query}&exclude=CORRUPT"), (true, GOOD, "ls"));
    assert_eq!(rig.counts.health(), [6, 4]);
}

#[test]
fn checks_are_made_in_order_and_all_of_them() {
    let mut rig = Rig::healthy();
    rig.check("/livez", (true, "ok\n", "s"));
    rig.check("/readyz", (true, "ok\n", "lsrl"));
    let all = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n\
               [+]non_learner ok\nok\n";
    rig.check("/readyz?verbose", (true, all, "lsrl"));
    rig.member = MemberHealth { alarms: vec!["CORRUPT"], has_leader: false, is_learner: true };
    rig.reads[1] = Err(Error::NoLeader.into());
    let all = "[-]data_corruption failed: alarm activated: CORRUPT\n[+]serializable_read ok\n\
               [-]linearizable_read failed: etcdserver: no leader\n\
               [-]non_learner failed: the local server is a learner\n\n";
    rig.check("/readyz", (false, all, "lsrl"));
    rig.check("/livez?verbose", (true, "[+]serializable_read ok\nok\n", "s"));
}

#[test]
fn a_route_leaves_out_what_it_is_told_to_and_a_check_does_not() {
    let mut rig = Rig::healthy();
    rig.reads[1] = Err(Error::NoLeader.into());
    let without = "/readyz?exclude=linearizable_read&exclude=data_corruption";
    rig.check(without, (true, "ok\n", "sl"));
    let failed = "[-]linearizable_read failed: etcdserver: no leader\n\n";
    rig.check("/readyz/linearizable_read?exclude=linearizable_read", (false, failed, "r"));
    let none = "/livez?verbose&exclude=serializable_read";
    rig.check(none, (true, "ok\n", ""));
}

#[test]
fn paths_name_a_route_or_one_of_its_checks() {
    let names = |path| {
        let checks = Checks::at(path, false)?;
        let names: Vec<&str> = checks.left.iter().map(|check| check.name()).collect();
        Some((checks.route, checks.is_all, names))
    };
    assert_eq!(names("/livez"), Some(("livez", true, vec!["serializable_read"])));
    assert_eq!(names("/readyz").map(|(_, _, names)| names.len()), Some(4));
    let one = Some(("readyz", false, vec!["non_learner"]));
    assert_eq!(names("/readyz/non_learner"), one);
    for path in ["/livez/non_learner", "/readyz/", "/readyznon_learner", "/live", "readyz"] {
        assert_eq!(names(path), None, "{path}");
        assert!(HealthCall::at(path, None).is_none(), "{path}");
    }
}

#[test]
fn parameters_have_values_or_none() {
    let query = Some("verbose&exclude=a&exclude=b&serializable=true");
    assert_eq!(values(query, "exclude").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(values(query, "verbose").next(), Some(""));
    assert_eq!(values(query, "serializable").next(), Some("true"));
    assert_eq!(values(query, "xclude").next(), None);
    assert_eq!(values(None, "verbose").next(), None);
}

#[test]
fn checks_are_counted_by_route_and_result() {
    let counts = HealthCounts::default();
    counts.count("readyz", Check::LinearizableRead, true);
    counts.count("readyz", Check::LinearizableRead, false);
    counts.count("livez", Check::SerializableRead, true);
    counts.count_health(false);
    let found: Vec<_> =
        counts.checks().map(|it| (it.route, it.check, it.good, it.failed, it.is_good)).collect();
    let expected =
        [("livez", "serializable_read", 1, 0, true), ("readyz", "linearizable_read", 1, 1, false)];
    assert_eq!(found, expected);
    assert_eq!(counts.health(), [0, 1]);
}

#[test]
fn the_server_serves_and_no_other_service_is_known() {
    let request =
        |service: &str| HealthCheckRequest { service: service.to_string() }.encode_to_vec().into();
    let answer = |method, service: &str| serving(method, request(service)).unwrap();
    assert_eq!(answer(HealthMethod::Check, ""), Serving::Once(vec![8, 1]));
    assert_eq!(answer(HealthMethod::Check, "x"), Serving::UnknownService);
    assert_eq!(answer(HealthMethod::Watch, ""), Serving::Lasting(vec![8, 1]));
    assert_eq!(answer(HealthMethod::Watch, "x"), Serving::Lasting(vec![8, 3]));
    assert_eq!(answer(HealthMethod::List, ""), Serving::Once(LIST.to_vec()));
    let malformed = serving(HealthMethod::Check, Bytes::from_static(&[0xff]));
    assert_eq!(malformed, Err(CallRefused::Malformed));
}
