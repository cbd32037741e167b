//! Tests of the default faces: those of a server for which no source names a face.

use super::*;

/// The served faces, each with its address.
fn faces(world: &World) -> Vec<String> {
    let config = world.config();
    let of = |name: &str, address: Option<&ListenAddress>| {
        address.map(|address| format!("{name}={address}"))
    };
    let monitoring = &config.monitoring;
    let ports = config.etcd.iter().flat_map(|etcd| &etcd.ports);
    let chunk = config.chunk.as_ref();
    let fixed = [
        of("zk", config.listeners.zk_addr.as_ref()),
        of("zk-tls", config.listeners.zk_tls_addr.as_ref()),
        of("admin", monitoring.admin.as_ref().map(|it| &it.addr)),
        of("metrics", monitoring.metrics.as_ref().map(|it| &it.addr)),
        of("chunk", chunk.and_then(|it| it.addr.as_ref())),
    ];
    let etcd = ports.map(|port| of("etcd", Some(&port.address)));
    fixed.into_iter().chain(etcd).flatten().collect()
}

fn world(set: impl FnOnce(&mut ServeArgs)) -> World {
    let mut world = World::default();
    set(&mut world.args);
    world
}

const ALL: [&str; 4] =
    ["zk=127.0.0.1:2181", "admin=127.0.0.1:8080", "metrics=127.0.0.1:8080", "etcd=127.0.0.1:2379"];

#[test]
fn every_face_is_served_on_loopback_where_none_is_named() {
    assert_eq!(faces(&World::default()), ALL);
    assert_eq!(faces(&world(|args| args.data_dir = Some(PathBuf::from("/srv/q")))), ALL);
    assert_eq!(faces(&flags("-Dzookeeper.tickTime=1000 -Dzookeeper.skipACL=yes")), ALL);
    let with_v2 = world(|args| args.etcd_v2 = true);
    assert_eq!(faces(&with_v2), ALL);
    assert!(with_v2.config().etcd.unwrap().has_v2);
    assert!(World::default().config().has_default_faces);
}

#[test]
fn only_the_faces_are_served_that_an_option_names() {
    let address = || Some("127.0.0.1:1".parse::<ListenAddress>().unwrap());
    let named = |set: fn(&mut ServeArgs, Option<ListenAddress>)| {
        let world = world(|args| set(args, address()));
        assert!(!world.config().has_default_faces);
        faces(&world)
    };
    assert_eq!(named(|args, it| args.zk_addr = it), ["zk=127.0.0.1:1"]);
    assert_eq!(named(|args, it| args.etcd_addr = it), ["etcd=127.0.0.1:1"]);
    assert_eq!(named(|args, it| args.chunk_addr = it), ["chunk=127.0.0.1:1"]);
    assert_eq!(named(|args, it| args.admin_addr = it), ["admin=127.0.0.1:1"]);
    assert_eq!(named(|args, it| args.metrics_addr = it), ["metrics=127.0.0.1:1"]);
}

#[test]
fn only_the_faces_are_served_that_a_variable_names() {
    let property = |text: &str| faces(&flags(text));
    assert_eq!(property("-Dzookeeper.quorate.etcdAddr=127.0.0.1:1"), ["etcd=127.0.0.1:1"]);
    assert_eq!(property("-Dzookeeper.quorate.chunkAddr=127.0.0.1:1"), ["chunk=127.0.0.1:1"]);
    assert_eq!(property("-Dzookeeper.admin.serverPort=1"), ["admin=*:1"]);
    let mut container = World::default();
    container.env.container.insert("ZOO_TICK_TIME".to_string(), "1000".to_string());
    assert_eq!(faces(&container), ["zk=*:2181"]);
}

#[test]
fn a_file_serves_what_it_asks_for() {
    assert_eq!(faces(&World::toml("")), ["zk=127.0.0.1:2181"]);
    let etcd = World::toml("etcd_addr = \"127.0.0.1:1\"");
    assert_eq!(faces(&etcd), ["zk=127.0.0.1:2181", "etcd=127.0.0.1:1"]);
    assert_eq!(faces(&zoo("")), ["zk=*:2181"]);
    assert!(!zoo("").config().monitoring.refuses_foreign_pages);
}

#[test]
fn the_default_admin_server_has_no_snapshots_and_refuses_foreign_pages() {
    let config = World::default().config();
    let monitoring = &config.monitoring;
    assert!(!monitoring.images.is_snapshot_enabled && !monitoring.images.is_restore_enabled);
    assert!(monitoring.refuses_foreign_pages);
    assert!(config.etcd.unwrap().about.refuses_foreign_pages);
    let said = flags("-Dzookeeper.admin.snapshot.enabled=true").config().monitoring.images;
    assert!(said.is_snapshot_enabled && !said.is_restore_enabled);
    let off = flags("-Dzookeeper.admin.enableServer=false");
    assert_eq!(faces(&off), [ALL[0], ALL[2], ALL[3]]);
}

#[test]
fn foreign_pages_may_be_refused_by_a_setting() {
    let toml = World::toml("admin_addr = \"127.0.0.1:1\"\nrefuse_foreign_pages = true").config();
    assert!(toml.monitoring.refuses_foreign_pages && toml.monitoring.images.is_snapshot_enabled);
    let text = "quorate.etcdAddr=127.0.0.1:1\nquorate.refuseForeignPages=true\n";
    assert!(zoo(text).config().etcd.unwrap().about.refuses_foreign_pages);
}

#[test]
fn data_that_must_stay_below_the_level_of_etcds_keys_are_served_without_etcd() {
    let world = flags("-Dzookeeper.quorate.levelMax=1");
    assert_eq!(faces(&world), ALL[..3]);
}
