use super::*;

fn of(urls: &[&str]) -> Result<Vec<String>, String> {
    checked(&urls.iter().map(|url| url.to_string()).collect::<Vec<_>>())
}

#[test]
fn good_urls_lose_the_blanks_around_them() {
    let good = of(&[" http://b_1.c-d:1\t", "HTTPS://[::1]:65535", "http://127.0.0.1:2380"]);
    let expected = ["http://b_1.c-d:1", "https://[::1]:65535", "http://127.0.0.1:2380"];
    assert_eq!(good, Ok(expected.map(str::to_string).to_vec()));
    assert_eq!(of(&["http://a:1", "http://a:1"]).map(|urls| urls.len()), Ok(2));
    assert!(of(&["unix://foo:12345", "unixs:///run/m.sock"]).is_ok());
}

#[test]
fn urls_that_etcd_refuses_are_refused_in_its_words() {
    assert_eq!(of(&[]), Err("no valid URLs given".to_string()));
    for (url, why) in [
        ("a:1", "URL scheme must be http, https, unix, or unixs: a:1"),
        ("", "URL scheme must be http, https, unix, or unixs: "),
        ("http://a", "URL address does not have the form \"host:port\": http://a"),
        ("http://::1:1", "URL address does not have the form \"host:port\": http://::1:1"),
        ("http://a:1/b", "URL must not contain a path: http://a:1/b"),
        ("http://a:1/", "URL must not contain a path: http://a:1/"),
    ] {
        assert_eq!(of(&["http://good:1", url]), Err(why.to_string()));
    }
}

/// Such a URL would stand in the list of members, and in a file that the next start reads.
#[test]
fn urls_that_nobody_can_dial_are_refused() {
    for url in [
        "unix://",
        "unix://a b",
        "http://a:0",
        "http://a:65536",
        "http://a:+1",
        "http://a:",
        "http://:1",
        "http://a b:1",
        "http://a\nserver 9 http://b:1",
        "http://user@a:1",
        "http://a:1?x",
        "http://a:1#x",
        "http://\u{e9}:1",
        "http://[a]:1",
        "http://[::1%25eth0]:1",
    ] {
        assert!(of(&[url]).is_err(), "{url}");
    }
}

#[test]
fn hosts_and_lists_have_limits() {
    let url = |bytes: usize| format!("http://{}:1", "a".repeat(bytes));
    assert!(of(&[&url(HOST_BYTES_MAX)]).is_ok());
    assert!(of(&[&url(HOST_BYTES_MAX + 1)]).is_err());
    assert!(of(&[&*url(10); CLIENT_URLS_MAX]).is_ok());
    assert!(of(&[&*url(10); CLIENT_URLS_MAX + 1]).is_err());
}
