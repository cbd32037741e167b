use hyper::Request;

use super::super::health_counts::Checked;
use super::*;

fn parts(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri("/health");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("it is a request").into_parts().0
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn parameters_have_values_or_none() {
    let query = Some("verbose&exclude=a&exclude=b&serializable=true");
    assert_eq!(values_of(query, "exclude").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(value_of(query, "verbose"), Some(""));
    assert_eq!(value_of(query, "serializable"), Some("true"));
    assert_eq!(value_of(query, "xclude"), None);
    assert_eq!(value_of(None, "verbose"), None);
}

#[test]
fn paths_name_a_route_or_one_of_its_checks() {
    let names = |path| {
        let asked = Asked::of_path(path)?;
        let names: Vec<&str> = asked.checks.iter().map(|check| check.name()).collect();
        Some((asked.route, asked.is_all, names))
    };
    assert_eq!(names("/livez"), Some(("livez", true, vec!["serializable_read"])));
    assert_eq!(names("/readyz").map(|(_, _, names)| names.len()), Some(4));
    let one = Some(("readyz", false, vec!["non_learner"]));
    assert_eq!(names("/readyz/non_learner"), one);
    for path in ["/livez/non_learner", "/readyz/", "/readyznon_learner", "/live", "readyz"] {
        assert_eq!(names(path), None, "{path}");
    }
}

#[test]
fn checks_are_counted_by_route_and_result() {
    let checked = Checked::default();
    checked.count("readyz", Check::LinearizableRead, true);
    checked.count("readyz", Check::LinearizableRead, false);
    checked.count("livez", Check::SerializableRead, true);
    checked.count_health(false);
    let counts: Vec<_> =
        checked.checks().map(|it| (it.route, it.check, it.good, it.failed, it.is_good)).collect();
    let expected =
        [("livez", "serializable_read", 1, 0, true), ("readyz", "linearizable_read", 1, 1, false)];
    assert_eq!(counts, expected);
    assert_eq!(checked.health(), [0, 1]);
}

#[test]
fn hosts_are_compared_without_their_ports() {
    let hosts = texts(&["etcd.local", "::1", "10.0.0.1"]);
    let is_refused = |host| refuse_host(&hosts, &parts(&[("host", host)])).is_some();
    for host in ["etcd.local", "etcd.local:2379", "[::1]:2379", "[::1]", "10.0.0.1:1"] {
        assert!(!is_refused(host), "{host}");
    }
    assert!(is_refused("evil.example:2379") && is_refused(""));
    assert!(refuse_host(&texts(&["*"]), &parts(&[])).is_none());
}

#[test]
fn origins_are_allowed_by_name_or_all() {
    let allowed = |origins: &[&str], origin| {
        let mut answer = not_found();
        allow_origin(&texts(origins), &parts(&[("origin", origin)]), &mut answer);
        let found = answer.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN);
        found.map(|value| value.to_str().expect("it is text").to_string())
    };
    assert_eq!(allowed(&["*"], "http://a").as_deref(), Some("*"));
    assert_eq!(allowed(&["http://a"], "http://a").as_deref(), Some("http://a"));
    assert_eq!(allowed(&["http://a"], "http://b"), None);
}
