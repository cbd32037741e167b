use super::*;

#[test]
fn the_date_is_that_of_the_second() {
    let date = Date::default();
    let mut out = Vec::new();
    date.put(&mut out);
    let text = String::from_utf8(out).unwrap();
    let shown = httpdate::parse_http_date(&text).unwrap();
    let since = shown.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!((node::wall_ms() - since).abs() < 5_000, "{text}");
}

#[test]
fn hosts_and_origins_that_decide_leave_no_request_short() {
    let with = |hosts: &[&str], origins: &[&str]| {
        let own = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let about = EtcdAbout { hosts: own(hosts), origins: own(origins), ..EtcdAbout::default() };
        common_headers(&about, "5")
    };
    assert_eq!(with(&["*"], &[]).as_deref(), Some("X-Etcd-Cluster-Id: 5\r\n"));
    assert!(with(&["*"], &["*"]).unwrap().contains("\r\nAccess-Control-Allow-Origin: *\r\n"));
    assert_eq!(with(&["a"], &["*"]), None);
    assert_eq!(with(&["*"], &["http://a"]), None);
}
