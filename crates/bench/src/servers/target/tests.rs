use super::*;

#[test]
fn targets_are_read_or_refused_with_a_reason() {
    for (text, scheme, servers) in [
        ("zk://localhost:2181", Scheme::Zk, &["localhost:2181"][..]),
        ("zk://a:1,b:2/", Scheme::Zk, &["a:1", "b:2"][..]),
        ("zk://[::1]:2181", Scheme::Zk, &["[::1]:2181"][..]),
        ("etcd://a:1,b:2", Scheme::Etcd, &["a:1", "b:2"][..]),
    ] {
        let address = text.parse::<TargetAddress>().unwrap();
        assert_eq!(address.scheme(), scheme);
        assert_eq!(address.servers, servers);
        assert_eq!(address.to_string(), text.trim_end_matches('/'));
        assert!(address.check_scheme(scheme).is_ok());
        let other = if scheme == Scheme::Zk { Scheme::Etcd } else { Scheme::Zk };
        assert!(address.check_scheme(other).is_err());
    }
    for text in [
        "",
        "localhost:2181",
        "http://a:1",
        "etcd://",
        "zk://",
        "zk://a",
        "zk://a:0",
        "zk://a:99999",
        "zk://:1",
        "zk://a:1,",
    ] {
        assert!(text.parse::<TargetAddress>().is_err(), "{text}");
    }
}

#[test]
fn a_server_is_described_by_what_it_says() {
    let theirs = "Zookeeper version: 3.9.5-abc, built on 2026\nMode: standalone\n";
    let describe = |answers: &[&str]| {
        let answers: Vec<String> = answers.iter().map(|it| it.to_string()).collect();
        describe_all(&answers)
    };
    assert_eq!(describe(&[theirs]), "ZooKeeper 3.9.5-abc, standalone");
    assert!(describe(&["srvr is not executed"]).contains("does not say"));
    let follower = "Zookeeper version: 3.9.5-abc, built on 2026\nMode: follower\n";
    assert_eq!(describe(&[theirs, follower]), "ZooKeeper 3.9.5-abc, 2 servers");
    let ours = "Zookeeper version: 0.1.0-quorate, built on 2026\nMode: leader\n";
    let both = "ZooKeeper 3.9.5-abc and Quorate 0.1.0-quorate, 2 servers";
    assert_eq!(describe(&[theirs, ours]), both);
}
