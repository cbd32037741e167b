//! Tests the configuration files that are written before the servers start. Tests with real
//! processes cover the running servers.
#![allow(clippy::unwrap_used)]

use chunk::layout::Layout;
use config::Env;
use config::cluster::PeerAuth;

use super::*;
use crate::config_sources::load;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let name = format!("local-ensemble-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn args(zk_addr: &str) -> ServeArgs {
    ServeArgs { zk_addr: Some(zk_addr.parse().unwrap()), ..ServeArgs::default() }
}

#[test]
fn each_server_finds_itself_in_the_file_that_is_written_for_it() {
    let folder = folder("files");
    let mut args = args("127.0.0.1:2181");
    args.metrics_addr = Some("127.0.0.1:7000".parse().unwrap());
    args.chunk_addr = Some("127.0.0.1:9859".parse().unwrap());
    args.chunk_layout = Some(Layout::PerBlock);
    args.chunk_verify_writes = true;
    for _ in 0..2 {
        let configs = prepare(&args, &folder, 3).unwrap();
        assert_eq!(configs.len(), 3);
        for (number, file) in (1..).zip(configs) {
            let args = ServeArgs { config: Some(file), ..ServeArgs::default() };
            let (config, warnings) = load(&args, &Env::default()).unwrap();
            assert_eq!(warnings, []);
            assert_eq!(config.storage.data_dir, folder.join(number.to_string()));
            assert_eq!(
                config.listeners.zk_addr.unwrap().to_string(),
                format!("127.0.0.1:{}", 2180 + number)
            );
            assert_eq!(u32::from(config.monitoring.metrics.unwrap().addr.port), 6_999 + number);
            let chunk = config.chunk.unwrap();
            assert_eq!(u32::from(chunk.addr.unwrap().port), 9_858 + number);
            assert_eq!((chunk.layout, chunk.verify_writes), (Layout::PerBlock, true));
            let cluster = config.cluster.unwrap();
            assert_eq!((cluster.number, cluster.servers.len()), (number, 3));
            assert_eq!(cluster.listen[0].to_string(), format!("127.0.0.1:{}", 2887 + number));
            assert_eq!(u32::from(cluster.own().election_port), 3887 + number);
            let PeerAuth::Secret(secret) = cluster.auth else { panic!("there is a secret") };
            assert_eq!(secret.bytes.len(), 64);
        }
    }
    let error = prepare(&args, &folder, 5).unwrap_err().to_string();
    assert!(error.contains("holds an ensemble of another size"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_address_is_written_as_zookeeper_does() {
    let servers = servers(&args("*:2181"), 3).unwrap();
    assert_eq!(
        servers,
        "[cluster.servers]\n1 = \"127.0.0.1:2888:3888;2181\"\n2 = \"127.0.0.1:2889:3889;2182\"\n\
         3 = \"127.0.0.1:2890:3890;2183\"\n"
    );
}

#[test]
fn what_cannot_be_an_ensemble_here_is_said() {
    let check = |zk_addr: &str, expected: &str| {
        let error = servers(&args(zk_addr), 3).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("127.0.0.1:0", "needs a port");
    check("127.0.0.1:65535", "too high");
    check("127.0.0.1:63828", "port 63829 is too high");
    let single = folder("single");
    std::fs::write(single.join(IDENTITY_FILE), "").unwrap();
    let error = prepare(&args("127.0.0.1:2181"), &single, 3).unwrap_err().to_string();
    assert!(error.contains("the data directory of a single server"), "{error}");
    std::fs::remove_dir_all(&single).unwrap();
}

#[test]
fn the_ready_line_names_each_face_once() {
    let server = |number, line: &str| Server {
        number,
        child: None,
        config: PathBuf::new(),
        faces: Some(hints::faces(line)),
    };
    let servers = [
        server(1, "quorate ready zk=127.0.0.1:2181 metrics=127.0.0.1:7000"),
        server(2, "quorate ready zk=127.0.0.1:2182 metrics=127.0.0.1:7001"),
    ];
    assert_eq!(
        ready_line(&servers),
        "quorate ready zk=127.0.0.1:2181,127.0.0.1:2182 metrics=127.0.0.1:7000,127.0.0.1:7001"
    );
}
