//! `quorate cluster`: shows the state of an ensemble, transfers leadership, or raises the level. It
//! sends HTTP requests to the servers' admin servers.

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

/// How long a server may take to answer. Longer than the admin server's own limit for a transfer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The longest answer, in bytes: a hundred times what a large ensemble needs.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Runs the command. The exit status of `status` is 1 if no leader answers.
pub fn run(args: &ClusterArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &args.command {
        ClusterCommand::Status { admin } => runtime.block_on(status(&admin.admin)),
        ClusterCommand::Upgrade { auth, admin } => {
            runtime.block_on(upgrade(&admin.admin, auth.as_deref()))
        }
        ClusterCommand::Transfer { to, auth, admin } => {
            runtime.block_on(transfer(&admin.admin, *to, auth.as_deref()))
        }
    }
}

/// The answer of the admin server at `address`: its view of the ensemble, or why it gave none.
struct Answer<'a> {
    address: &'a str,
    view: anyhow::Result<Value>,
}

impl Answer<'_> {
    fn is_leading(&self) -> bool {
        self.view.as_ref().is_ok_and(|view| view["state"] == "leading")
    }
}

/// Asks the admin servers, one after the other, for their views of the ensemble.
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
        bail!(
            "no server of an ensemble has answered; name admin servers with --admin HOST:PORT,..."
        );
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
    let answer = ask(leader.address, Method::POST, &command, Some(&credentials(auth))).await;
    let answer = answer.with_context(|| leader.address.to_string())?;
    println!("server {} leads", number(&answer["leader_id"]));
    Ok(ExitCode::SUCCESS)
}

/// Asks the servers in turn until one raises the level. Only the leader, or a standalone server,
/// can.
async fn upgrade(addresses: &[String], auth: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut refusals = Vec::new();
    for address in addresses {
        match ask(address, Method::POST, "upgrade", Some(&credentials(auth))).await {
            Ok(answer) => {
                let [before, level] = ["level_before", "level"].map(|key| number(&answer[key]));
                match before == level {
                    true => println!("the level is {level}, the highest that the leader knows"),
                    false => println!("the level rose from {before} to {level}"),
                }
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => refusals.push(format!("{address}: {error:#}")),
        }
    }
    refusals.iter().for_each(|refusal| eprintln!("quorate: {refusal}"));
    bail!("the level did not change")
}

/// The `Authorization` header: `digest` with the given credentials, or the scheme `ip`, which
/// identifies the caller by its address.
fn credentials(auth: Option<&str>) -> String {
    auth.map_or("ip".to_string(), |auth| format!("digest {auth}"))
}

/// Sends a command to an admin server and returns its JSON answer. An `error` in the answer becomes
/// an error here.
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

/// A row of the table of an ensemble, a cell for each column.
type Row = [String; 7];

/// The table of an ensemble and the lines below it, from the view of one server.
fn shown(view: &Value) -> String {
    let titles = ["SERVER", "ADDRESS", "ROLE", "BEHIND", "HEARD", "VERSION", "MEMBER"];
    let mut table = vec![titles.map(String::from)];
    let mut members: Vec<&Value> = view["members"].as_array().into_iter().flatten().collect();
    // Members whose server is unknown come last.
    members.sort_by_key(|member| {
        member["server_id"].as_i64().filter(|id| *id >= 0).unwrap_or(i64::MAX)
    });
    table.extend(members.into_iter().map(|member| row(view, member)));
    table.extend(absent(view));
    aligned(&table) + &standing(view) + &levels(view)
}

/// The row of a member.
fn row(view: &Value, member: &Value) -> Row {
    let leader = view["leader_id"].as_i64().filter(|id| *id >= 0);
    let server = member["server_id"].as_i64().filter(|id| *id >= 0);
    let is_own = member["member_id"] == view["member_id"];
    let role = match member["voting"].as_bool() {
        _ if server.is_some() && server == leader => "leader",
        Some(true) => "follower",
        // An older server says only whether a member votes.
        _ => member["role"].as_str().unwrap_or("joining"),
    };
    let behind = match member["entries_behind"].as_u64() {
        Some(_) if member["fetches_snapshot"] == true => "snapshot".to_string(),
        Some(entries) => entries.to_string(),
        None => "-".to_string(),
    };
    let heard = match member["silent_ms"].as_u64() {
        _ if is_own => "it answers".to_string(),
        Some(ms) => format!("{} ago", span(ms)),
        None if view["state"] == "leading" => "never".to_string(),
        None => "-".to_string(),
    };
    [
        server.map_or("?".to_string(), |id| id.to_string()),
        text(&member["address"]).to_string(),
        role.to_string(),
        behind,
        heard,
        member["version"].as_str().unwrap_or("-").to_string(),
        text(&member["member_id"]).to_string(),
    ]
}

/// Pads the cells so that the columns line up.
fn aligned(table: &[Row]) -> String {
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut shown = String::new();
    for row in table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<String>>().join("  ");
        let _ = writeln!(shown, "{}", line.trim_end());
    }
    shown
}

/// A line about the term, the committed entries, and the last contact with the leader or the
/// quorum.
fn standing(view: &Value) -> String {
    let leader = view["leader_id"].as_i64().filter(|id| *id >= 0);
    let (term, committed) = (number(&view["term"]), number(&view["commit_index"]));
    let server = number(&view["server_id"]);
    let contact = view["contact_ms"]
        .as_u64()
        .map_or("not heard".to_string(), |ms| format!("heard {} ago", span(ms)));
    match (view["state"] == "leading", leader) {
        (true, _) => format!("term {term}, {committed} entries committed, a quorum {contact}\n"),
        (false, Some(leader)) => format!(
            "as server {server} sees it, which follows server {leader}: term {term}, {committed} \
             entries committed, a leader {contact}; ask server {leader} for the rest\n"
        ),
        (false, None) => format!(
            "as server {server} sees it, which knows no leader: term {term}, {committed} entries \
             committed, a leader {contact}\n"
        ),
    }
}

/// Rows for servers that are configured but have no member, because they have never started.
fn absent(view: &Value) -> Vec<Row> {
    let members = view["members"].as_array().map_or(&[][..], Vec::as_slice);
    let is_absent =
        |server: &&Value| members.iter().all(|member| member["server_id"] != server["server_id"]);
    let servers = view["servers"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |server: &Value| {
        let none = || "-".to_string();
        let (server, address) = (number(&server["server_id"]), text(&server["address"]));
        [server, address.to_string(), "absent".to_string(), none(), none(), none(), none()]
    };
    servers.iter().filter(is_absent).map(row).collect()
}

/// A line about the ensemble's level, and whether it can be raised.
fn levels(view: &Value) -> String {
    let Some(level) = view["level"].as_u64() else { return String::new() };
    let members = view["members"].as_array().map_or(&[][..], Vec::as_slice);
    // A member that has not told its highest level counts as 0.
    let known = members.iter().map(|member| member["level_max"].as_u64().unwrap_or(0)).min();
    let mut line = format!("level {level}");
    if known.is_some_and(|known| known > level) {
        let known = known.unwrap_or(level);
        let _ =
            write!(line, "; all servers know level {known}: `quorate cluster upgrade` raises it");
    }
    line + "\n"
}

/// A span of time for people: ms below a second, else seconds with a decimal.
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
