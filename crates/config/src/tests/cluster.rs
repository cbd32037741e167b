//! Tests of ensembles: the list of servers, this server's number in it, and how servers
//! authenticate each other.

use member::membership::bootstrap::Attendance;

use super::*;
use crate::cluster::{PeerAuth, Role, ServerAddress};

const THREE: &str = "server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=zk3:2888:3888\n";
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Server 2 of three. The list is on lines 3 to 5 of the file, and `lines` follow from line 6 on.
fn member(lines: &str) -> World {
    zoo(&format!("{THREE}{lines}")).and("/d/myid", "2\n").and("/secret", SECRET)
}

/// Server 1 of an ensemble with these lines in its `zoo.cfg`.
fn ensemble(lines: &str) -> World {
    zoo(lines).and("/d/myid", "1")
}

fn cluster(world: &World) -> ClusterConfig {
    world.config().cluster.unwrap()
}

/// The addresses on which the server listens for other servers, separated by commas.
fn shown_listen(cluster: &ClusterConfig) -> String {
    cluster.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// All warnings except the one about missing authentication.
fn warnings(world: &World) -> Vec<String> {
    let mut warnings = world.warnings();
    warnings.retain(|warning| !warning.ends_with("authentication between servers"));
    warnings
}

#[test]
fn a_member_knows_its_number_and_where_all_are() {
    let world = member("initLimit=7\nsyncLimit=3\ncnxTimeout=900\ntcpKeepAlive=true\n");
    let config = world.config();
    assert_eq!(config.my_id, Some(2));
    let found = config.cluster.unwrap();
    assert_eq!((found.number, found.servers.len()), (2, 3));
    assert_eq!(found.own().host, "zk2");
    assert_eq!(shown_listen(&found), "zk2:2888");
    assert_eq!((found.init_limit, found.sync_limit), (7, 3));
    assert_eq!((found.connect_timeout_ms, found.keep_alive), (900, true));
    assert_eq!(found.auth, PeerAuth::None);
    assert_eq!(warnings(&world), Vec::<String>::new());
    assert_eq!(
        world.load().unwrap().1.last().unwrap().to_string(),
        "conf/zoo.cfg: authentication between servers: whoever reaches the peer port is taken for \
         a server: have quorate.quorum.secretFile or sslQuorum=true"
    );
    let all = cluster(&member("quorumListenOnAllIPs=true"));
    assert_eq!(shown_listen(&all), "*:2888");
    let zeros = ensemble("server.1=0.0.0.0:2888:3888\nserver.2=b:1:2\nserver.3=c:1:2");
    assert_eq!(shown_listen(&cluster(&zeros)), "*:2888");
}

#[test]
fn an_ensemble_begins_with_all_servers_unless_a_majority_is_said_to_do() {
    assert_eq!(cluster(&member("")).attendance, Attendance::All);
    assert_eq!(cluster(&member("quorate.bootstrap=all")).attendance, Attendance::All);
    let majority = member("quorate.bootstrap=majority");
    assert_eq!(cluster(&majority).attendance, Attendance::Majority);
    assert_eq!(warnings(&majority), Vec::<String>::new());
    let flag = member("").jvmflags("-Dquorate.bootstrap=majority");
    assert_eq!(cluster(&flag).attendance, Attendance::Majority);
    let wrong = "conf/zoo.cfg:6: quorate.bootstrap: \"most\" is neither all nor majority";
    assert_eq!(member("quorate.bootstrap=most").error(), wrong);
}

#[test]
fn server_lines_are_read_in_full_and_shown_as_zookeeper_shows_them() {
    let check = |line: &str, expected: &str| {
        let world = ensemble(&format!("server.1={line}\nserver.2=b:9:8\nserver.3=c:9:8"));
        let shown = cluster(&world).own().to_string();
        assert_eq!(shown, expected, "{line}");
    };
    check("zk:2888:3888", "zk:2888:3888:participant");
    check("zk:2888:3888;2181", "zk:2888:3888:participant;0.0.0.0:2181");
    check("zk:2888:3888:PARTICIPANT;zk:2181", "zk:2888:3888:participant;zk:2181");
    check("10.0.0.1:1:2;10.0.0.1:2181", "10.0.0.1:1:2:participant;10.0.0.1:2181");
    check("[::1]:1:2;[::1]:2181", "[0:0:0:0:0:0:0:1]:1:2:participant;[0:0:0:0:0:0:0:1]:2181");
    check("[fe80::a]:1:2", "[fe80:0:0:0:0:0:0:a]:1:2:participant");
    check("zk:1:2;", "zk:1:2:participant");
    check("zk:1:2; 2181 ", "zk:1:2:participant;0.0.0.0:2181");

    let world =
        ensemble("server.1=[::1]:1:2:participant;[::1]:2181\nserver.2=b:9:8\nserver.3=c:9:8");
    let expected = ServerAddress {
        host: "::1".to_string(),
        peer_port: 1,
        election_port: 2,
        role: Role::Participant,
        client: Some(ListenAddress { host: Some("::1".to_string()), port: 2181 }),
        name: String::new(),
        client_urls: Vec::new(),
    };
    assert_eq!(*cluster(&world).own(), expected);
}

#[test]
fn the_config_znode_lists_the_servers_by_number_and_is_replicated() {
    let world = ensemble("server.10=j:1:2\nserver.1=a:1:2;2181\nserver.2=b:1:2:participant");
    let expected = "server.1=a:1:2:participant;0.0.0.0:2181\nserver.2=b:1:2:participant\n\
                    server.10=j:1:2:participant\nversion=0";
    assert_eq!(cluster(&world).server_list().zk_text().as_deref(), Some(expected));
    assert_eq!(zoo("server.1=a:1:2").config().cluster, None);
}

#[test]
fn the_version_of_the_list_stands_in_the_name_of_its_file() {
    let version = |file: &str| {
        let world = zoo(&format!("dynamicConfigFile={file}")).and(file, THREE).and("/d/myid", "1");
        cluster(&world).version
    };
    assert_eq!(version("/c/zoo.cfg.dynamic"), 0);
    assert_eq!(version("/c/zoo.cfg.dynamic.100000000"), 0x1_0000_0000);
    assert_eq!(version("/c/zoo.cfg.dynamic.-1"), 0);
    assert_eq!(version("/c/servers"), 0);
    let file = "/c/zoo.cfg.dynamic.1f";
    let world = zoo(&format!("dynamicConfigFile={file}")).and(file, THREE).and("/d/myid", "1");
    assert!(cluster(&world).server_list().zk_text().unwrap().ends_with("\nversion=1f"));
}

#[test]
fn one_participant_is_a_standalone_server_unless_that_is_forbidden() {
    assert_eq!(zoo("server.1=h:1:2").warnings(), Vec::<String>::new());
    assert_eq!(zoo("server.1=h:1:2").config().cluster, None);
    let alone = ensemble("server.1=h:1:2\nstandaloneEnabled=false");
    assert_eq!(cluster(&alone).servers.len(), 1);
    assert_eq!(
        zoo("standaloneEnabled=false").error(),
        "conf/zoo.cfg: standaloneEnabled=false, and there is no server.N"
    );
    assert_eq!(
        zoo("server.1=h:1:2:observer").error(),
        "conf/zoo.cfg:3: server.1: observers without participants are not an ensemble"
    );
}

#[test]
fn observers_are_listed_where_the_level_may_be_5_and_do_not_vote() {
    let lines = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2:observer\n\
                 quorate.levelMax=5\npeerType=observer";
    let world = ensemble(lines);
    let found = cluster(&world);
    assert_eq!(found.voters().collect::<Vec<u32>>(), [1, 2, 3]);
    assert_eq!(found.server_list().servers[&4].role, machine::ServerRole::Observer);
    // Server 1 is a participant. Four servers are no even number of votes.
    assert_eq!(warnings(&world), ["conf/zoo.cfg:8: peerType"]);
}

#[test]
fn what_cannot_be_an_ensemble_is_refused_where_it_stands() {
    let check = |lines: &str, expected: &str| {
        assert_eq!(ensemble(lines).error(), format!("conf/zoo.cfg:{expected}"), "{lines}");
    };
    check("server.1=a:1:2\nserver.1=b:1:2", "4: server.1: stands on line 3, too");
    check(
        "server.1=a:1:2\nserver.01=b:1:2",
        "4: server.01: is server 1, as conf/zoo.cfg:3 already is",
    );
    check(
        "server.1=a:1:2\nserver.2=A:3:1\nserver.3=c:1:2",
        "4: server.2: a:1 is an address of server 1, too",
    );
    check(
        "server.1=[::1]:1:2\nserver.2=[::1]:3:2\nserver.3=c:1:2",
        "4: server.2: [0:0:0:0:0:0:0:1]:2 is an address of server 1, too",
    );
    check(
        "server.1=a:1:2\nserver.2=b:1:2:observer",
        "4: server.2: observers need level 5, which is not released: leave it out, make it a \
         participant, or set the highest level to 5",
    );
    check("server.-1=a:1:2", "3: server.-1: \"-1\" is not the number of a server: 0 to 4294967295");
    check(
        "server.4294967296=a:1:2",
        "3: server.4294967296: \"4294967296\" is not the number of a server: 0 to 4294967295",
    );
    check("server.1=a:0:2", "3: server.1: port 0 cannot be dialled");
    check("server.1=a:1:65536", "3: server.1: \"65536\" is not a port");
    check(
        "server.1=a:1:2|b:1:2",
        "3: server.1: several addresses of one server are not served: name one",
    );
    check(
        "server.1=a:1:2;1;2",
        "3: server.1: \"a:1:2;1;2\" is not of the form host:port:port[:role][;[host:]port]",
    );
    check(
        "server.1=[::1:1:2",
        "3: server.1: \"[::1:1:2\" is not of the form host:port:port[:role][;[host:]port]",
    );
    check(
        "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\ngroup.1=1:2:3\nweight.1=1",
        "6: group.1: quorums by groups and weights are not served: without them more than half of \
         the servers decide",
    );
    check(
        "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nquorum.auth.enableSasl=true",
        "6: quorum.auth.enableSasl: SASL between servers is not served: have sslQuorum=true, or a \
         secret of theirs in quorate.quorum.secretFile",
    );
    let host = |bytes: usize| "h".repeat(bytes);
    let longest = format!("server.1=a:1:2\nserver.2={0}:1:2;{0}:3\nserver.3=c:1:2", host(253));
    cluster(&ensemble(&longest));
    for line in [format!("{}:1:2", host(254)), format!("a:1:2;{}:3", host(254))] {
        let expected = "3: server.1: a host of 254 bytes: a DNS name has at most 253";
        check(&format!("server.1={line}"), expected);
    }
    let many: String = (1..=33).map(|n| format!("server.{n}=h{n}:1:2\n")).collect();
    check(&many, "35: server.33: more than 32 servers");
}

#[test]
fn a_server_must_find_itself_in_the_list() {
    let world = |my_id: &str| zoo(THREE).and("/d/myid", my_id);
    assert_eq!(
        zoo(THREE).error(),
        "/d/myid: there is no such file, which says what number this server has: 1, 2, 3"
    );
    assert_eq!(world("").error(), "/d/myid:1: \"\" is not the number of a server");
    assert_eq!(world("two").error(), "/d/myid:1: \"two\" is not the number of a server");
    assert_eq!(world("-1").error(), "/d/myid:1: \"-1\" is not the number of a server");
    assert_eq!(world("4\n").error(), "/d/myid:1: 4 is the number of none of the servers: 1, 2, 3");
    assert_eq!(
        world("4294967297").error(),
        "/d/myid:1: 4294967297 is the number of none of the servers: 1, 2, 3"
    );
    assert_eq!(
        World::zoo(&format!("clientPort=1\n{THREE}")).error(),
        "conf/zoo.cfg: dataDir is not set"
    );
    let other = container(&[
        ("ZOO_SERVERS", "server.1=a:1:2;2181 server.2=b:1:2;2181 server.3=c:1:2;2181"),
        ("ZOO_MY_ID", "5"),
    ]);
    assert_eq!(other.error(), "ZOO_MY_ID: 5 is the number of none of the servers: 1, 2, 3");
}

#[test]
fn the_container_images_variables_make_a_member() {
    let servers = "server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181 \
                   server.3=zoo3:2888:3888;2181";
    let world = container(&[("ZOO_SERVERS", servers), ("ZOO_MY_ID", "3")]);
    let config = world.config();
    assert_eq!(config.listeners.zk_addr.as_ref().unwrap().to_string(), "*:2181");
    let cluster = config.cluster.unwrap();
    assert_eq!((cluster.number, shown_listen(&cluster).as_str()), (3, "zoo3:2888"));
}

#[test]
fn numbers_that_gain_nothing_and_keys_that_do_nothing_are_warned_of() {
    let two = "server.1=a:1:2\nserver.2=b:1:2\n";
    assert_eq!(warnings(&ensemble(two)), ["conf/zoo.cfg:3: server.1"]);
    let four = format!("{THREE}server.4=zk4:1:2");
    let world = ensemble(&four);
    assert_eq!(warnings(&world), ["conf/zoo.cfg:3: server.1"]);
    assert!(world.load().unwrap().1[0].to_string().ends_with("than 3: have an odd number"));
    let check = |line: &str, expected: usize| {
        assert_eq!(warnings(&member(line)).len(), expected, "{line}");
        assert_eq!(zoo(line).warnings(), Vec::<String>::new(), "{line}");
    };
    check("peerType=observer", 1);
    check("peerType=participant", 0);
    check("portUnification=true", 1);
    check("portUnification=false", 0);
    check("sslQuorumReloadCertFiles=true", 0);
    check("observerMasterPort=2191", 1);
    check("oraclePath=/o", 1);
    check("electionAlg=3", 0);
    check("quorum.auth.enableSasl=false", 0);
    check("quorum.cnxn.threads.size=20", 0);
    check("multiAddress.enabled=false", 0);
    check("ssl.quorum.clientAuth=none", 0);
    assert_eq!(warnings(&member("ssl.quorum.keyStore.location=/k.jks")).len(), 1);
    assert_eq!(zoo("sslQuorum=true").warnings(), Vec::<String>::new());
}

#[test]
fn servers_share_a_secret_or_show_certificates() {
    let secret = member("quorate.quorum.secretFile=/secret");
    let PeerAuth::Secret(known) = cluster(&secret).auth else { panic!("there is a secret") };
    assert_eq!((&known.bytes[..], known.may_be_old), (SECRET.as_bytes(), true));
    assert_eq!(format!("{known:?}"), "***");
    assert_eq!(secret.warnings(), Vec::<String>::new());
    let error = |lines: &str| member(lines).and("/short", "0123456789abcde\n").error();
    assert_eq!(
        error("quorate.quorum.secretFile=/none"),
        "conf/zoo.cfg:6: quorate.quorum.secretFile: /none: cannot be read: there is no such file"
    );
    assert_eq!(
        error("quorate.quorum.secretFile=/short"),
        "conf/zoo.cfg:6: quorate.quorum.secretFile: /short: 15 bytes are not a secret of 16 to 4096"
    );
    let weak = member("quorate.quorum.oldHandshake=false\nquorate.quorum.secretFile=/weak");
    let weak = weak.and("/weak", "0123456789abcdef\n");
    let PeerAuth::Secret(known) = cluster(&weak).auth else { panic!("there is a secret") };
    assert!(!known.may_be_old);
    assert_eq!(weak.warnings(), ["conf/zoo.cfg:7: quorate.quorum.secretFile"]);

    let stores = "ssl.quorum.keyStore.location=/k.jks\nssl.quorum.keyStore.password=x\n\
                  ssl.quorum.trustStore.location=/t.p12\nssl.quorum.trustStore.passwordPath=/p\n";
    let world = member(&format!("sslQuorum=true\n{stores}"));
    let PeerAuth::Tls(tls) = cluster(&world).auth else { panic!("there is TLS") };
    assert_eq!(tls.key_store.path, Path::new("/k.jks"));
    assert_eq!(tls.key_store.place.to_string(), "conf/zoo.cfg:7");
    assert_eq!(tls.key_store.key, "ssl.quorum.keyStore.location");
    assert_eq!(tls.trust_store.unwrap().path, Path::new("/t.p12"));
    assert!(tls.checks_names && tls.checks_diallers && tls.tls12 && tls.tls13 && tls.reload);
    assert_eq!(world.config().tls, None);
    assert!(!world.config().replicated.x509_enabled);
    assert_eq!(world.warnings(), Vec::<String>::new());
    let checked = |lines: &str| {
        let world = member(&format!("sslQuorum=true\n{stores}{lines}"));
        let PeerAuth::Tls(tls) = cluster(&world).auth else { panic!("there is TLS") };
        (tls.checks_names, tls.checks_diallers, world.warnings().len())
    };
    let [dialled, dialler] = ["hostnameVerification", "clientHostnameVerification"]
        .map(|name| format!("ssl.quorum.{name}"));
    assert_eq!(checked(&format!("{dialled}=false")), (false, false, 0));
    assert_eq!(checked(&format!("{dialler}=false")), (true, false, 0));
    assert_eq!(checked(&format!("{dialler}=true")), (true, true, 0));
    assert_eq!(checked(&format!("{dialled}=false\n{dialler}=true")), (false, false, 1));

    assert_eq!(
        error("sslQuorum=true"),
        "conf/zoo.cfg: ssl.quorum.keyStore.location is not set: TLS between servers needs it"
    );
    assert_eq!(
        error("sslQuorum=true\nssl.quorum.keyStore.location=/k.jks"),
        "conf/zoo.cfg: ssl.quorum.trustStore.location is not set: TLS between servers needs it"
    );
    assert_eq!(
        error(&format!("quorate.quorum.secretFile=/secret\nsslQuorum=true\n{stores}")),
        "conf/zoo.cfg:6: quorate.quorum.secretFile: with sslQuorum servers are known by their \
         certificates"
    );
    assert!(error("sslQuorum=yes").starts_with("conf/zoo.cfg:6: sslQuorum: "));
    let wrong = format!("sslQuorum=true\n{stores}ssl.quorum.clientAuth=maybe");
    assert!(error(&wrong).starts_with("conf/zoo.cfg:11: ssl.quorum.clientAuth: "));
}

#[test]
fn a_toml_file_has_a_table_for_the_ensemble() {
    let servers = "1 = \"zk1:2888:3888;2181\"\n2 = \"zk2:2888:3888;2182\"\n3 = \"zk3:1:2\"\n";
    let text = format!(
        "data_dir = \"/d\"\n[cluster]\nid = 2\nsecret_file = \"/secret\"\nlisten_on_all = true\n\
         connect_timeout = \"2s\"\nbootstrap = \"majority\"\n[cluster.servers]\n{servers}"
    );
    let world = World::toml(&text).and("/secret", SECRET);
    let config = world.config();
    assert_eq!(config.listeners.zk_addr.unwrap().to_string(), "*:2182");
    assert_eq!(config.my_id, Some(2));
    let cluster = config.cluster.unwrap();
    assert_eq!((cluster.number, cluster.servers.len()), (2, 3));
    assert_eq!(shown_listen(&cluster), "*:2888");
    assert_eq!(cluster.connect_timeout_ms, 2_000);
    assert_eq!(cluster.attendance, Attendance::Majority);
    assert!(matches!(cluster.auth, PeerAuth::Secret(_)));
    assert_eq!(world.warnings(), Vec::<String>::new());

    // Without `id`, the number comes from ZooKeeper's file `myid`.
    let text = format!("data_dir = \"/d\"\n[cluster.servers]\n{servers}");
    let of_file = World::toml(&text).and("/d/myid", "3").config().cluster.unwrap();
    assert_eq!(of_file.number, 3);
    let error = World::toml(&text).error();
    assert!(error.starts_with("/d/myid: there is no such file"), "{error}");

    let tls = "[cluster]\nid = 1\ntls_key_store = \"/k.pem\"\ntls_trust_store = \"/t.pem\"\n\
               tls_host_names = false\ntls_protocols = [\"TLSv1.3\"]\n[cluster.servers]\n";
    let world = World::toml(&format!("{tls}{servers}"));
    let PeerAuth::Tls(tls) = world.config().cluster.unwrap().auth else { panic!("there is TLS") };
    assert_eq!((tls.checks_names, tls.tls12, tls.tls13), (false, false, true));
    assert_eq!(tls.key_store.place.to_string(), "quorate.toml:3");
    assert_eq!(world.warnings(), Vec::<String>::new());
}

#[test]
fn the_table_for_the_ensemble_is_strict_and_names_the_line() {
    let check = |text: &str, expected: &str| {
        assert_eq!(World::toml(text).error(), format!("quorate.toml:{expected}"), "{text}");
    };
    check(
        "cluster = 1",
        "1: cluster: cannot be integer; write it like { id = 1, servers = { 1 = \"zk1:2888:3888\" } }",
    );
    check("[cluster]\nmyid = 1", "2: cluster.myid: is not a key of this table");
    check("[cluster]\nid = \"one\"", "2: cluster.id: cannot be string; write it like 1");
    check(
        "[cluster]\nbootstrap = \"one\"",
        "2: cluster.bootstrap: \"one\" is neither all nor majority",
    );
    check("[cluster]\nid = -1", "2: cluster.id: is not between 0 and 2147483647");
    check(
        "[cluster]\nservers = 3",
        "2: cluster.servers: cannot be integer; write it like { 1 = \"zk1:2888:3888;2181\" }",
    );
    check(
        "[cluster.servers]\n1 = 2",
        "2: cluster.servers.1: cannot be integer; write it like { 1 = \"zk1:2888:3888;2181\" }",
    );
    check(
        "[cluster.servers]\nx = \"a:1:2\"",
        "2: cluster.servers.x: \"x\" is not the number of a server: 0 to 4294967295",
    );
    check(
        "[cluster.servers]\n1 = \"a:1\"",
        "2: cluster.servers.1: \"a:1\" is not of the form host:port:port[:role][;[host:]port]",
    );
    check(
        "[cluster]\nid = 1\n[cluster.servers]\n1 = \"a:1:2\"\n2 = \"a:1:2\"",
        "5: cluster.servers.2: a:1 is an address of server 1, too",
    );
    let four = "[cluster]\nid = 4\n[cluster.servers]\n1 = \"a:1:2\"\n2 = \"b:1:2\"";
    check(four, "2: 4 is the number of none of the servers: 1, 2");
}
