//! The admin command `upgrade`, which raises the ensemble's level. The level is a version number
//! for commands and formats: members use only the commands and formats of the ensemble's level, so
//! that every member understands the others ([`machine::Level`]). ZooKeeper's AdminServer has no
//! such command.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use tokio::time::Instant;

use super::json::Json;
use super::{Answer, CommandResponse, authorization, json_answer, wrong_method};
use crate::monitor::Monitor;

/// The name of the command.
pub const UPGRADE: &str = "upgrade";

/// How long the command waits until the new level is applied.
const UPGRADE_LIMIT: Duration = Duration::from_secs(3);

/// How often the command checks the level.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Raises the level to the highest that this server's version knows, provided that all servers know
/// it. Answers with the level before and after.
pub async fn upgrade(monitor: &Monitor, peer: SocketAddr, request: &Request<Incoming>) -> Answer {
    if *request.method() != Method::POST {
        return wrong_method(UPGRADE, "POST");
    }
    if let Some(refused) = authorization::refusal(monitor, peer, request.headers(), UPGRADE).await {
        return refused;
    }
    let before = monitor.observer.level();
    match raise(monitor).await {
        Ok(()) => {
            let mut response = CommandResponse::empty(StatusCode::OK, UPGRADE);
            let levels = [("level_before", before), ("level", monitor.observer.level())];
            let levels = levels.map(|(key, level)| (key.to_string(), Json::whole(level.number())));
            response.data.extend(levels);
            json_answer(response)
        }
        Err(reason) => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            json_answer(CommandResponse::error(status, UPGRADE, reason))
        }
    }
}

async fn raise(monitor: &Monitor) -> Result<(), String> {
    let level = monitor.upgrade().map_err(|refused| refused.to_string())?;
    let deadline = Instant::now() + UPGRADE_LIMIT;
    while monitor.observer.level() < level {
        if Instant::now() >= deadline {
            return Err(format!("level {level} is not there in time; this may still happen"));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}
