//! Decides whether a caller may give the admin commands `snapshot`, `restore`, `transfer` and
//! `upgrade`: the caller must prove an identity that has every permission on the root znode. The
//! other commands only report or reset something, and anybody may give them.

use std::net::SocketAddr;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use machine::zk::acl::{allows, perms};
use machine::{Identity, Machine};
use zk::auth::digest_identities;

use super::{Answer, CommandResponse, json_answer};
use crate::listen_zk::host_address;
use crate::monitor::Monitor;

/// Why a command is refused (`Commands.runCommand`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotAllowed {
    NothingSaid,
    NotProved,
    NotPermitted,
}

/// The response that refuses a command; `None` if the caller is authorized.
pub async fn refusal(
    monitor: &Monitor,
    peer: SocketAddr,
    headers: &HeaderMap,
    command: &str,
) -> Option<Answer> {
    prove(monitor, peer, headers).await.err().map(|reason| refuse(command, reason))
}

/// Checks that the `Authorization` header proves an identity that has every permission on the root
/// znode (`Commands.handleAuthentication`, `handleAuthorization`). The header consists of the
/// scheme, `ip` or `digest`, and for `digest` a space and `user:password`.
async fn prove(monitor: &Monitor, peer: SocketAddr, headers: &HeaderMap) -> Result<(), NotAllowed> {
    let said = headers.get(AUTHORIZATION).ok_or(NotAllowed::NothingSaid)?;
    let said = said.to_str().map_err(|_| NotAllowed::NotProved)?;
    let parts: Vec<&str> = said.trim_end_matches(' ').split(' ').collect();
    let look = |machine: &Machine| {
        let settings = machine.zk().settings();
        let proved = match *parts {
            ["digest", credentials] => digest_identities(settings, credentials.as_bytes()),
            ["ip"] | ["ip", _] => Some(vec![("ip", host_address(peer.ip().to_canonical()))]),
            _ => None,
        };
        let proved = proved.ok_or(NotAllowed::NotProved)?;
        let identities: Vec<Identity<'_>> =
            proved.iter().map(|(scheme, id)| Identity { scheme, id }).collect();
        let root = machine.zk().tree().find("/").expect("there is a root");
        let needed = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];
        match needed.iter().all(|perm| allows(settings, root.acl(), *perm, &identities)) {
            true => Ok(()),
            false => Err(NotAllowed::NotPermitted),
        }
    };
    monitor.observer.look_at_tree(look).await
}

fn refuse(command: &str, reason: NotAllowed) -> Answer {
    let (status, error) = match reason {
        NotAllowed::NothingSaid => {
            (StatusCode::UNAUTHORIZED, "Auth info is missing for the command")
        }
        NotAllowed::NotProved => (StatusCode::UNAUTHORIZED, "Not authenticated"),
        NotAllowed::NotPermitted => (StatusCode::FORBIDDEN, "Not authorized"),
    };
    json_answer(CommandResponse::error(status, command, error))
}
