use hyper::Request;

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

/// The expected answers are those of etcd 3.6.16.
#[test]
fn a_path_is_taken_for_what_it_stands_for_or_redirected() {
    let of_path = |method: &str, uri: &str| {
        let request = hyper::Request::builder().method(method).uri(uri).body(());
        plain(&request.expect("it is a request").into_parts().0)
    };
    let path =
        |uri: &str| of_path("POST", uri).ok().expect("it is plain").map(|it| it.uri.to_string());
    assert_eq!(path("/v3/kv/range"), None);
    assert_eq!(path("/v3/kv/%72ange?q=%20").as_deref(), Some("/v3/kv/range?q=%20"));
    assert_eq!(path("/v3%2Fkv/range%20").as_deref(), Some("/v3/kv/range%20"));
    for (uri, location) in [
        ("//v3/kv/range", "/v3/kv/range"),
        ("/v3/./kv/../kv/range?q=1", "/v3/kv/range?q=1"),
        ("//a%2e%2e/b&c", "/a%252e%252e/b&c"),
    ] {
        let posted = of_path("POST", uri).expect_err("it is redirected");
        assert_eq!(posted.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(posted.headers()[LOCATION], location);
        assert!(!posted.headers().contains_key("content-type"));
    }
    let read = of_path("GET", "//version").expect_err("it is redirected");
    assert_eq!(read.headers()["content-type"], "text/html; charset=utf-8");
    let bad = of_path("GET", "/v3/kv/%zz").expect_err("it is malformed");
    assert_eq!(bad.status(), StatusCode::BAD_REQUEST);
}
