//! What operators rely on: settings that protect data, and what a running server does when it is
//! told that something has changed.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;

use crate::client::Client;
use crate::server::{Server, command, folder};

const TIMEOUT_MS: i32 = 10_000;

#[test]
fn a_data_directory_that_must_be_there_is_not_made() {
    let folder = folder("data-dir-required");
    let data = folder.join("data");
    let config = format!(
        "dataDir={}\nclientPort=0\nclientPortAddress=127.0.0.1\ndatadir.autocreate=false\n",
        data.display()
    );
    fs::write(folder.join("zoo.cfg"), config).unwrap();
    let refusal = || {
        let output = command(&folder).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refusal();
    assert!(said.contains("is no directory, and datadir.autocreate=false"), "{said}");
    assert!(!data.exists());
    // The mount point of a volume that is not mounted.
    fs::create_dir(&data).unwrap();
    let said = refusal();
    assert!(said.contains("is empty, and datadir.autocreate=false"), "{said}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);

    fs::create_dir(data.join("version-2")).unwrap();
    let mut server = Server::start_in(folder, &["datadir.autocreate=false"]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.create("/a", b"", 0).as_deref(), Ok("/a"));
    server.stop();
    fs::remove_dir(server.data_dir().join("version-2")).unwrap();
    server.restart();
    let address: SocketAddr = server.address();
    assert!(Client::open(address, TIMEOUT_MS).exists("/a"));
}
