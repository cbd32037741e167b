use super::*;

#[test]
fn the_date_is_that_of_the_second() {
    let date = Date::default();
    let text_at = |now_ms| {
        let mut out = Vec::new();
        date.put(now_ms, &mut out);
        String::from_utf8(out).unwrap()
    };
    // As `date -u -d @1700000000` prints it.
    assert_eq!(text_at(1_700_000_000_000), "Tue, 14 Nov 2023 22:13:20 GMT");
    assert_eq!(text_at(1_700_000_000_999), "Tue, 14 Nov 2023 22:13:20 GMT");
    assert_eq!(text_at(1_700_000_001_000), "Tue, 14 Nov 2023 22:13:21 GMT");
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
