//! Checks the requests of one connection, and their order.

use super::*;
use crate::workloads::zk::pubsub::options::Connections;
use crate::workloads::zk::tree::TreeArgs;

/// The opcodes and paths of all requests of connection 1, where 2 connections have 3 paths each and
/// 9 items together.
fn requests(kind: Kind) -> Vec<(i32, String)> {
    let args = TreeArgs { parents: 2, children: 3, size: 16, clients: 1, keep: false };
    let tree = Tree::new(&args, "t");
    let connections = Connections { publishers: 2, subscribers: 0 };
    let (paths, items, warmup, size, rate) = (3, 9, 0, 16, None);
    let shape = Shape { kind, connections, paths, items, warmup, size, rate, processes: 1 };
    let pace = Pace { start_ns: 0, spacing_ns: None };
    let mut load = UpdateLoad::new(&shape, &tree, items, pace);
    let mut all = Vec::new();
    loop {
        // A new session has no request under way, as after each answer.
        let mut session = Session::connect(1);
        let greeting = session.output().len();
        if load.next(1, &mut session, 5) == Next::Finished {
            return all;
        }
        let mut frame = JuteReader::new(&session.output()[greeting + 8..]);
        all.push((frame.int().unwrap(), frame.text().unwrap().to_string()));
    }
}

#[test]
fn a_connection_goes_through_its_own_paths_in_turn() {
    use zk::request::opcode::{CREATE, DELETE, SET_DATA};
    let path = |number| format!("/bench-t/p1/c{number}");
    // Connection 0 has 5 of the 9 items, connection 1 has 4.
    let set = [0, 1, 2, 0].map(|number| (SET_DATA, path(number)));
    assert_eq!(requests(Kind::SetData), set);
    let both = [0, 1, 2, 0].map(|number| [(CREATE, path(number)), (DELETE, path(number))]);
    assert_eq!(requests(Kind::Ephemerals), both.concat());
}
