//! `quorate cluster`: asks the admin servers of an ensemble how it stands, and has the leader hand
//! over.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::cli::{ClusterArgs, ClusterCommand};

/// How long a server may take to answer: longer than a transfer may.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of an answer at most: a hundred times what a large ensemble has to say.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Runs the command.
pub fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &args.command {
        ClusterCommand::Status { admin } => runtime.block_on(status(&admin.admin)),
        ClusterCommand::Transfer { to, auth, admin } => {
            runtime.block_on(transfer(&admin.admin, *to, auth.as_deref()))
        }
    }
}

/// What one server said, and where it was asked.
struct Answer<'a> {
    address: &'a str,
    view: anyhow::Result<Value>,
}

impl Answer<'_> {
    fn is_leading(&self) -> bool {
        self.view.as_ref().is_ok_and(|view| view["state"] == "leading")
    }
}

/// Asks each how it sees the ensemble.
async fn ask_all(addresses: &[String]) -> Vec<Answer<'_>> {
    let mut answers = Vec::new();
    for address in addresses {
        let view = ask(address, Method::GET, "ensemble", None).await;
        answers.push(Answer { address, view });
    }
    answers
}

async fn status(addresses: &[String]) -> anyhow::Result<ExitCode> {
    let answers = ask_all(addresses).await;
    for answer in &answers {
        if let Err(error) = &answer.view {
            eprintln!("quorate: {}: {error:#}", answer.address);
        }
    }
    let leading = answers.iter().find(|answer| answer.is_leading());
    let is_started =
        |answer: &&Answer| answer.view.as_ref().is_ok_and(|view| view["state"] != "waiting");
    let other = answers.iter().find(is_started);
    let other = other.or(answers.iter().find(|answer| answer.view.is_ok()));
    let view = leading.or(other);
    let Some(Ok(view)) = view.map(|answer| &answer.view) else {
        bail!("no server has answered; name admin servers with --admin HOST:PORT,...");
    };
    for answer in answers.iter().filter_map(|answer| answer.view.as_ref().ok()) {
        if answer["state"] == "waiting" {
            let (number, reason) = (number(&answer["server_id"]), text(&answer["reason"]));
            println!("server {number} does not serve yet: {reason}");
        }
    }
    if view["state"] != "waiting" {
        print!("{}", shown(view));
    }
    Ok(if leading.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn transfer(
    addresses: &[String],
    to: Option<u32>,
    auth: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let answers = ask_all(addresses).await;
    let Some(leader) = answers.iter().find(|answer| answer.is_leading()) else {
        for Answer { address, view } in &answers {
            match view {
                Ok(view) => eprintln!(
                    "quorate: {address}: server {}, {}, leader: {}",
                    number(&view["server_id"]),
                    text(&view["state"]),
                    number(&view["leader_id"])
                ),
                Err(error) => eprintln!("quorate: {address}: {error:#}"),
            }
        }
        bail!(
            "none of these servers leads; name the leader's admin server with --admin HOST:PORT,..."
        );
    };
    let command = match to {
        Some(to) => format!("transfer?to={to}"),
        None => "transfer".to_string(),
    };
    // Whoever asks is somebody at this address, at least.
    let credentials = auth.map_or("ip".to_string(), |auth| format!("digest {auth}"));
    let answer = ask(leader.address, Method::POST, &command, Some(&credentials)).await;
    let answer = answer.with_context(|| leader.address.to_string())?;
    println!("server {} leads", number(&answer["leader_id"]));
    Ok(ExitCode::SUCCESS)
}

/// What an admin server answers to a command.
async fn ask(
    address: &str,
    method: Method,
    command: &str,
    credentials: Option<&str>,
) -> anyhow::Result<Value> {
    let asked = async {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/commands/{command}"))
            .header(HOST, address);
        if let Some(credentials) = credentials {
            request = request.header(AUTHORIZATION, credentials);
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        driver.abort();
        let answer: Value = serde_json::from_slice(&body).with_context(|| {
            format!("the answer, with status {status}, is not an admin server's")
        })?;
        if let Some(error) = answer["error"].as_str() {
            bail!("{error}");
        }
        ensure!(status.is_success(), "status {status}");
        Ok(answer)
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.context("no answer in time")?
}

/// The ensemble as a table, which is what one of its servers knows.
fn shown(view: &Value) -> String {
    let leader = view["leader_id"].as_i64().filter(|id| *id >= 0);
    let is_leading = view["state"] == "leading";
    let mut table =
        vec![["SERVER", "ADDRESS", "ROLE", "BEHIND", "HEARD", "MEMBER"].map(String::from)];
    let mut members: Vec<&Value> = view["members"].as_array().into_iter().flatten().collect();
    // Those that nobody knows come last.
    members.sort_by_key(|member| {
        member["server_id"].as_i64().filter(|id| *id >= 0).unwrap_or(i64::MAX)
    });
    for member in members {
        let server = member["server_id"].as_i64().filter(|id| *id >= 0);
        let is_own = member["member_id"] == view["member_id"];
        let role = match member["voting"].as_bool() {
            _ if server.is_some() && server == leader => "leader",
            Some(true) => "follower",
            _ => "joining",
        };
        let behind = match member["entries_behind"].as_u64() {
            Some(_) if member["fetches_snapshot"] == true => "snapshot".to_string(),
            Some(entries) => entries.to_string(),
            None => "-".to_string(),
        };
        let heard = match member["silent_ms"].as_u64() {
            _ if is_own => "it answers".to_string(),
            Some(ms) => format!("{} ago", span(ms)),
            None if is_leading => "never".to_string(),
            None => "-".to_string(),
        };
        table.push([
            server.map_or("?".to_string(), |id| id.to_string()),
            text(&member["address"]).to_string(),
            role.to_string(),
            behind,
            heard,
            text(&member["member_id"]).to_string(),
        ]);
    }
    let mut shown = String::new();
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in &table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<String>>().join("  ");
        let _ = writeln!(shown, "{}", line.trim_end());
    }
    let (term, committed) = (number(&view["term"]), number(&view["commit_index"]));
    let server = number(&view["server_id"]);
    let contact = view["contact_ms"]
        .as_u64()
        .map_or("not heard".to_string(), |ms| format!("heard {} ago", span(ms)));
    let _ = match (is_leading, leader) {
        (true, _) => {
            writeln!(shown, "term {term}, {committed} entries committed, a quorum {contact}")
        }
        (false, Some(leader)) => writeln!(
            shown,
            "as server {server} sees it, which follows server {leader}: term {term}, {committed} \
             entries committed, a leader {contact}; ask server {leader} for the rest"
        ),
        (false, None) => writeln!(
            shown,
            "as server {server} sees it, which knows no leader: term {term}, {committed} entries \
             committed, a leader {contact}"
        ),
    };
    shown
}

/// For people.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn number(value: &Value) -> String {
    match value.as_i64() {
        Some(number) if number >= 0 => number.to_string(),
        _ => "?".to_string(),
    }
}

#[cfg(test)]
mod tests;
