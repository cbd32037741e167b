//! Starts servers on logs of version 0.3.0 that have transactions which later versions would
//! refuse. A server that starts must apply these transactions again, but need not build their
//! answers.

use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::requests::{count, exists};
use super::rig::{MIB, peak};
use crate::ensemble::{Members, open};
use crate::etcd::grpc_client::{connect, run};
use crate::server::{Server, folder};

/// How many keys in `[k,l)` each log has. The README beside the files says what else it has.
const KEY_COUNT: usize = 24_000;

/// How much memory a start may need: less than 64 MiB for the state, and 1 GiB. Version 0.3.0
/// needed 1,530 MiB.
const PEAK_MAX: u64 = (1024 + 64) * MIB;

/// Length of a file's head in a tar archive, and the unit of its content, in bytes.
const BLOCK_BYTES: usize = 512;

/// Unpacks a `tar` archive (format ustar) below a folder.
fn unpack(name: &str, to: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs-0.3.0");
    let packed = fs::read(fixtures.join(name)).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    while let Some((head, behind)) = rest.split_at_checked(BLOCK_BYTES).filter(|it| it.0[0] != 0) {
        let text = |from: usize, bytes: usize| {
            let field = String::from_utf8_lossy(&head[from..from + bytes]);
            field.trim_matches(['\0', ' ']).to_string()
        };
        let file = to.join(text(0, 100));
        let size = usize::from_str_radix(&text(124, 12), 8).unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &behind[..size]).unwrap();
        rest = &behind[size.next_multiple_of(BLOCK_BYTES)..];
    }
}

#[test]
fn a_server_starts_on_a_log_with_costly_transactions() {
    let folder = folder("old-log");
    unpack("standalone.tar.gz", &folder.join("data"));
    let server = Server::start_in(folder, &["quorate.etcdAddr=127.0.0.1:0"]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        assert_eq!(count(&requests).await, KEY_COUNT);
        assert!(exists(&requests, "a").await, "the transaction with comparisons has an effect");
        assert!(exists(&requests, "b").await, "the transaction with ranges has an effect");
    });
    assert!(open(server.address()).create("/after", b"", 0).is_ok());
    let peak = peak(server.pid());
    println!("a start took {} MiB", peak / MIB);
    assert!(peak < PEAK_MAX, "{} MiB", peak / MIB);
}

#[test]
fn three_members_start_on_logs_with_costly_transactions() {
    let mut members = Members::prepare("old-logs", "");
    let etcd = members.prepare_etcd();
    for place in 0..3 {
        unpack(&format!("member-{}.tar.gz", place + 1), &members.data(place));
        members.start(place);
    }
    // A leader that serves has applied its log.
    let leader = members.leader();
    assert!(open(members.clients[leader]).create("/after", b"", 0).is_ok());
    for (place, address) in etcd.into_iter().enumerate() {
        run(async {
            let requests = connect(address).await;
            assert_eq!(count(&requests).await, KEY_COUNT);
            assert!(exists(&requests, "a").await && exists(&requests, "b").await);
        });
        let peak = peak(members.pid(place));
        println!("a start took {} MiB", peak / MIB);
        assert!(peak < PEAK_MAX, "{} MiB", peak / MIB);
    }
    members.stop();
}
