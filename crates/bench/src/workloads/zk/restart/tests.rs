use super::*;
use crate::servers::null_server::NullServer;

#[test]
fn the_first_answer_ends_the_wait() {
    let null = NullServer::start(1).unwrap();
    let addresses = null.target().addresses;
    let error = first_answer(&addresses, "/a", &mut [], Path::new("log"), RECONNECT_PAUSE).unwrap();
    assert_eq!(error, ErrorCode::OK);
}

/// No server is at the first address, so the second one answers.
#[test]
fn all_addresses_are_tried() {
    let null = NullServer::start(1).unwrap();
    let addresses = [SocketAddr::from(([127, 0, 0, 1], 1)), null.target().addresses[0]];
    assert!(first_answer(&addresses, "/a", &mut [], Path::new("log"), RECONNECT_PAUSE).is_ok());
}

#[test]
fn a_server_that_ends_at_once_is_not_waited_for() {
    let nobody = [SocketAddr::from(([127, 0, 0, 1], 1))];
    let path = std::env::temp_dir().join(format!("quorate-ends-{}", std::process::id()));
    let mut children = [Launch::Shell("exit 3".to_string()).start(&path).unwrap()];
    let error =
        first_answer(&nobody, "/a", &mut children, &path, RECONNECT_PAUSE).unwrap_err().to_string();
    assert!(error.contains("does not start again"), "{error}");
    assert!(error.contains("quorate-ends-"), "{error}");
    std::fs::remove_file(path).unwrap();
}

/// The null server is a thread of this process.
#[test]
fn what_is_no_process_of_its_own_is_refused() {
    let null = NullServer::start(1).unwrap();
    let error = launches_of(&null.target(), Some("true")).unwrap_err().to_string();
    assert!(error.contains("cannot be killed"), "{error}");
    assert_eq!(error.lines().count(), 1);
}
