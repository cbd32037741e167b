use super::*;
use crate::control::Command as ControlCommand;
use crate::control::servers::ServerList;
use crate::entry::{BatchBuilder, encode_identities};
use crate::ids::{BootId, ConnectionId, MemberId, Origin, SessionId};
use crate::level::Level;
use crate::{Command, EtcdV2Command, Op, ZkCommand};

/// Checks whether a batch may be forwarded that has a client's command and then this command.
fn check(connection: u64, command: &Command<'_>, expected: bool) {
    let session = SessionId(1);
    let write = Command::Zk(ZkCommand::Write { session, op: Op::Malformed });
    let identities = encode_identities([].into_iter());
    let mut builder = BatchBuilder::default();
    builder.push(ConnectionId(7), &identities, &write).expect("it fits");
    builder.push(ConnectionId(connection), &identities, command).expect("it fits");
    let origin = Origin { member: MemberId(1), boot: BootId(2) };
    let batch = builder.finish().stamp(origin, 3);
    assert_eq!(may_be_forwarded(&batch), expected, "{connection}: {command:?}");
    for end in 0..batch.len() {
        // A cut inside of the commands is refused; a cut behind them does not matter. Neither
        // panics.
        may_be_forwarded(&batch[..end]);
    }
}

#[test]
fn commands_of_the_ensemble_are_not_forwarded() {
    let level = Level::FIRST.into();
    for command in [
        ControlCommand::InstallImage { hash: 1 },
        ControlCommand::Register { member: MemberId(1), server: 1 },
        ControlCommand::Forget { member: MemberId(1) },
        ControlCommand::Raise(level),
        ControlCommand::SetServers(ServerList::default()),
    ] {
        check(7, &Command::Control(command), false);
    }
    check(7, &Command::Control(ControlCommand::Nothing), true);
    check(0, &Command::Control(ControlCommand::Nothing), true);
}

#[test]
fn commands_of_clients_are_forwarded_and_those_of_connection_0_are_not() {
    let session = SessionId(1);
    let keys = Vec::new();
    for command in [
        Command::Zk(ZkCommand::Write { session, op: Op::Malformed }),
        Command::Zk(ZkCommand::CloseSession { session }),
        Command::EtcdV2(EtcdV2Command::Expire { keys }),
    ] {
        check(1, &command, true);
        check(0, &command, false);
    }
}
