//! The admin command `transfer`, which hands leadership to another server. ZooKeeper's AdminServer
//! has no such command.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use tokio::time::Instant;

use super::json::Json;
use super::{Answer, CommandResponse, authorization, json_answer, wrong_method};
use crate::monitor::Monitor;
use crate::observe::replica::Part;

/// The name of the command.
pub const TRANSFER: &str = "transfer";

/// How long the command waits for another server to lead. Even an unplanned election takes less.
const TRANSFER_LIMIT: Duration = Duration::from_secs(3);

/// How often the command checks whether another server leads.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Has this server, the leader, hand leadership to the server in the parameter `to`, or else to the
/// server that lags least. Answers with the new leader's number.
pub async fn transfer(
    monitor: &Monitor,
    peer: SocketAddr,
    request: &Request<Incoming>,
    query: &[(String, String)],
) -> Answer {
    if *request.method() != Method::POST {
        return wrong_method(TRANSFER, "POST");
    }
    if let Some(refused) = authorization::refusal(monitor, peer, request.headers(), TRANSFER).await
    {
        return refused;
    }
    let to = query.iter().find(|(key, _)| key == "to").map(|(_, value)| value.parse::<u32>());
    let to = match to.transpose() {
        Ok(to) => to,
        Err(_) => return refuse(StatusCode::BAD_REQUEST, "`to` is the number of a server"),
    };
    match hand_over(monitor, to).await {
        Ok(leader) => {
            let mut response = CommandResponse::empty(StatusCode::OK, TRANSFER);
            response.data.push(("leader_id".to_string(), Json::whole(leader)));
            json_answer(response)
        }
        Err(reason) => refuse(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn hand_over(monitor: &Monitor, to: Option<u32>) -> Result<u32, &'static str> {
    let part = monitor.observer.part().ok_or("this server is in no ensemble")?;
    if part != Part::Leading {
        return Err("this server does not lead: ask the one that does");
    }
    let own = monitor.observer.settings.cluster.as_ref().map(|cluster| cluster.number);
    if to.is_some() && to == own {
        return Err("this server leads already");
    }
    if !monitor.hand_over(to) {
        return Err("no such server can lead: it must be heard, have a vote, and room on its disk");
    }
    let deadline = Instant::now() + TRANSFER_LIMIT;
    while Instant::now() < deadline {
        match monitor.observer.leader() {
            Some(leader) if Some(leader) != own => return Ok(leader),
            _ => tokio::time::sleep(LOOK_INTERVAL).await,
        }
    }
    Err("no other server has taken over in time; this may still happen")
}

fn refuse(status: StatusCode, reason: &str) -> Answer {
    json_answer(CommandResponse::error(status, TRANSFER, reason))
}
