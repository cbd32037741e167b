//! The admin server: HTTP for operators. It serves metrics for Prometheus
//! (`PrometheusMetricsProvider`), the commands of ZooKeeper's AdminServer (`JettyAdminServer`) and
//! health probes, on two ports or on one.
//!
//! All ports run on the monitoring thread. The number of connections, the duration of a connection
//! and the size of a request's head are bounded. So a client that opens many connections or sends
//! nothing can block these ports for a while, but no other port.

mod authorization;
mod commands;
mod images;
mod json;
mod leadership;
mod levels;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use commands::CommandResponse;
use config::ListenAddress;
use http_body_util::channel::Channel;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use node::StartBoard;
use tokio::net::TcpStream;
use zk::four_letter;

use crate::connections::{self, Connections, Face};
use crate::foreign_pages;
use crate::monitor::{Monitor, Started};
use crate::observe::metric::{Numbers, PROMETHEUS_MEDIA_TYPE, prometheus};

/// The longest request line with headers, in bytes, as in Jetty. A longer one ends the connection.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// How many headers a request may have. A request with more is refused.
const HEADERS_MAX: usize = 64;

/// The path of the metrics (`MetricsServlet`).
const METRICS_PATH: &str = "/metrics";

/// How long a readiness probe waits for the connection runtimes to answer.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// The value of the `Allow` header in the answer to `OPTIONS`.
const ALLOWED: &str = "GET, HEAD, POST, OPTIONS";

/// How long a connection may last, even if it is busy.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);

/// How long to wait before the next attempt, if a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The services of one port: metrics, commands, or both.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// `Some` if the port serves `/metrics`.
    pub metrics: Option<Metrics>,
    /// `Some` if the port serves the commands of the AdminServer and the health probes.
    pub commands: Option<Commands>,
    /// Whether connections to a loopback address refuse requests that come from web pages of other
    /// sites; see [`crate::foreign_pages`].
    pub refuses_foreign_pages: bool,
}

/// How a port serves metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Whether the metrics include those of the process: its memory, threads, files and CPU time.
    pub with_process: bool,
}

/// How a port serves commands.
#[derive(Clone, Debug)]
pub struct Commands {
    /// The path below which the commands are (`admin.commandURL`).
    pub url: String,
}

/// A bound port and what it serves.
pub struct Port {
    listener: std::net::TcpListener,
    services: Services,
    /// How long a connection may send nothing, between two requests or within the head of one.
    idle: Duration,
}

/// The facts that the admin server can report about a server that has not started yet.
#[derive(Clone)]
pub struct WaitingServer {
    /// The server's number in the ensemble; `None` for a standalone server.
    pub number: Option<u32>,
    /// Shows which other servers it waits for.
    pub board: Arc<StartBoard>,
}

/// The admin server's response to a request.
type Answer = Response<Body>;

/// The body of a response: bytes in memory, or pieces of a file while it is read.
type Body = Either<Full<Bytes>, Channel<Bytes, io::Error>>;

impl Port {
    /// Binds the port to the first address of `wanted` that can be bound. `idle` is how long a
    /// connection may send nothing.
    ///
    /// # Errors
    /// No address can be bound. `what` names the purpose of the port in the error.
    pub fn bind(
        wanted: &ListenAddress,
        what: &str,
        services: Services,
        idle: Duration,
    ) -> anyhow::Result<Port> {
        let candidates =
            wanted.candidates().with_context(|| format!("{wanted} is not an address here"))?;
        let mut failure = anyhow::anyhow!("no address for {wanted}");
        for address in candidates {
            match std::net::TcpListener::bind(address) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(Port { listener, services, idle });
                }
                Err(error) => {
                    failure = anyhow::anyhow!("cannot listen on {wanted} for {what}: {error}");
                }
            }
        }
        Err(failure)
    }

    /// The address that the port is bound to.
    ///
    /// # Errors
    /// The operating system does not know the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts connections and serves them until the process ends. `monitor` is empty until the
    /// server has started.
    pub async fn serve(
        self,
        monitor: Started,
        waiting: WaitingServer,
        connections: Arc<Connections>,
    ) {
        let listener = match tokio::net::TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!("a port for monitoring cannot be served: {error}");
                return;
            }
        };
        let (idle, services) = (self.idle, Rc::new(self.services));
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    connections::log_not_accepted(Face::Monitoring, &error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(held) = connections.admit(Face::Monitoring, &stream, peer) else { continue };
            let (monitor, services) = (monitor.clone(), services.clone());
            let waiting = waiting.clone();
            tokio::task::spawn_local(async move {
                let served = serve_connection(stream, peer, idle, &services, &monitor, &waiting);
                if tokio::time::timeout(CONNECTION_TIME_MAX, served).await.is_err() {
                    tracing::debug!("{peer}: the request for monitoring took too long");
                }
                drop(held);
            });
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    idle: Duration,
    services: &Services,
    monitor: &Started,
    waiting: &WaitingServer,
) {
    let is_guarded = services.refuses_foreign_pages
        && stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let answer = service_fn(|request: Request<Incoming>| async move {
        let guarded = is_guarded.then(|| foreign_pages::refusal(request.headers(), None));
        if let Some(reason) = guarded.flatten() {
            return Ok(plain(StatusCode::FORBIDDEN, format!("{reason}\n")));
        }
        Ok::<Answer, Infallible>(answer(services, monitor, peer, request, waiting).await)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!("{peer}: {error}");
    }
}

/// Answers a request for any of the services.
async fn answer(
    services: &Services,
    monitor: &Started,
    peer: SocketAddr,
    request: Request<Incoming>,
    waiting: &WaitingServer,
) -> Answer {
    let path = request.uri().path();
    let metrics = services.metrics.as_ref();
    let is_for_metrics = services.commands.is_none() || path == METRICS_PATH;
    match (metrics.filter(|_| is_for_metrics), &services.commands, monitor.get()) {
        (Some(metrics), _, Some(monitor)) => {
            answer_metrics(monitor, metrics.with_process, &request).await
        }
        (Some(_), _, None) => refuse(StatusCode::SERVICE_UNAVAILABLE),
        (None, Some(Commands { url }), Some(monitor)) => match path.strip_prefix("/health/") {
            Some(health) => answer_health(monitor, health, waiting).await,
            None => answer_command(monitor, url, peer, request).await,
        },
        (None, Some(Commands { url }), None) => answer_before_start(url, &request, waiting),
        (None, None, _) => refuse(StatusCode::NOT_FOUND),
    }
}

/// Answers with all metrics, or with those that the parameters `name[]` select (`MetricsServlet`).
async fn answer_metrics(
    monitor: &Monitor,
    with_process: bool,
    request: &Request<Incoming>,
) -> Answer {
    if request.uri().path() != METRICS_PATH {
        return refuse(StatusCode::NOT_FOUND);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED);
    }
    let names = query(request.uri().query().unwrap_or("")).filter(|(key, _)| key == "name[]");
    let only: Vec<String> = names.map(|(_, name)| name).filter(|name| !name.is_empty()).collect();
    let metrics = monitor.prometheus(with_process).await;
    let text = prometheus(&metrics, Numbers::AsDoubles, &only);
    text_answer(StatusCode::OK, PROMETHEUS_MEDIA_TYPE, text)
}

/// Answers a request for a command (`JettyAdminServer.CommandServlet`).
async fn answer_command(
    monitor: &Monitor,
    url: &str,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Answer {
    let Some(name) = command_name(url, request.uri().path()) else {
        return refuse(StatusCode::NOT_FOUND);
    };
    match *request.method() {
        Method::GET | Method::HEAD | Method::POST => {}
        Method::OPTIONS => {
            let mut answer = refuse(StatusCode::OK);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(ALLOWED));
            return answer;
        }
        Method::TRACE => return refuse(StatusCode::FORBIDDEN),
        _ => return refuse(StatusCode::METHOD_NOT_ALLOWED),
    }
    if name.is_empty() {
        return text_answer(StatusCode::OK, "text/html;charset=utf-8", command_links(url));
    }
    let query: Vec<(String, String)> = query(request.uri().query().unwrap_or("")).collect();
    if let Some(command) = images::find(&name) {
        return images::run(monitor, command, peer, request, &query).await;
    }
    if name == leadership::TRANSFER {
        return leadership::transfer(monitor, peer, &request, &query).await;
    }
    if name == levels::UPGRADE {
        return levels::upgrade(monitor, peer, &request).await;
    }
    let Some((command, primary)) = commands::find(&name) else {
        let error = format!("Unknown command: {name}");
        return json_answer(CommandResponse::error(StatusCode::OK, &name, error));
    };
    if *request.method() == Method::POST {
        return wrong_method(primary, "GET");
    }
    json_answer(commands::run(monitor, command, primary, &query).await)
}

/// Answers a request for a command or a probe while the server has not started; it may be waiting
/// for other servers.
fn answer_before_start(url: &str, request: &Request<Incoming>, waiting: &WaitingServer) -> Answer {
    match request.uri().path() {
        "/health/live" => plain(StatusCode::OK, LIVE),
        "/health/started" => answer_started(waiting),
        "/health/ready" => answer_unready(waiting),
        path => match command_name(url, path) {
            None => refuse(StatusCode::NOT_FOUND),
            Some(name) => json_answer(commands::before_start(&name, waiting)),
        },
    }
}

const PLAIN_TEXT: &str = "text/plain;charset=utf-8";
const LIVE: &str = "live\n";

fn plain(status: StatusCode, text: impl Into<String>) -> Answer {
    text_answer(status, PLAIN_TEXT, text.into())
}

/// The answer to the readiness probe while the server serves no clients: 503, and the servers that
/// it waits for.
fn answer_unready(waiting: &WaitingServer) -> Answer {
    let reason = waiting.board.look().map(|wait| format!("{wait}\n")).unwrap_or_default();
    plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}{reason}", four_letter::NOT_SERVING))
}

/// The answer to the start probe while the server serves no clients: 200 if it waits for links to
/// other servers, else 503. An orchestrator that starts servers one by one then starts the next.
fn answer_started(waiting: &WaitingServer) -> Answer {
    match waiting.board.look().filter(|wait| wait.is_for_servers) {
        Some(wait) => plain(StatusCode::OK, format!("{wait}\n")),
        None => answer_unready(waiting),
    }
}

/// Answers a health probe, which ZooKeeper does not have. `live`: the process runs. `started`: the
/// next server may be started. `ready`: this server serves requests; for that, every connection
/// runtime must answer and the state must be readable. `chunks`: the chunk store works.
async fn answer_health(monitor: &Monitor, which: &str, waiting: &WaitingServer) -> Answer {
    match which {
        "live" => plain(StatusCode::OK, LIVE),
        "started" if !monitor.observer.is_serving() => answer_started(waiting),
        "ready" if !monitor.observer.is_serving() => answer_unready(waiting),
        "started" | "ready" => match tokio::time::timeout(PROBE_TIME_MAX, monitor.server()).await {
            Ok(_) => plain(StatusCode::OK, format!("{which}\n")),
            Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "requests are not served in time\n"),
        },
        "chunks" => match monitor.observer.chunk_health() {
            Some((true, text)) => plain(StatusCode::OK, text),
            Some((false, text)) => plain(StatusCode::SERVICE_UNAVAILABLE, text),
            None => refuse(StatusCode::NOT_FOUND),
        },
        _ => refuse(StatusCode::NOT_FOUND),
    }
}

/// The name of the command in a path: what follows `url`, decoded. Empty for the list of commands;
/// `None` if the path does not begin with `url`.
fn command_name(url: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(url)?;
    if rest.is_empty() {
        return Some(String::new());
    }
    Some(decode_percent(rest.strip_prefix('/')?, false))
}

/// The commands, other than those about snapshots, that change something.
const ACTIONS: [&str; 2] = [leadership::TRANSFER, levels::UPGRADE];

/// An HTML page with a link to each command.
fn command_links(url: &str) -> String {
    let link = |name: &str| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n");
    let reports = commands::COMMANDS.iter().map(|(_, names)| names[0]);
    let images = images::COMMANDS.iter().map(|(_, names)| names[0]);
    let mut names: Vec<&str> = reports.chain(images).chain(ACTIONS).collect();
    names.sort_unstable();
    names.into_iter().map(link).collect()
}

fn wrong_method(command: &str, wanted: &str) -> Answer {
    let error = format!("the command is asked for with {wanted}");
    json_answer(CommandResponse::error(StatusCode::METHOD_NOT_ALLOWED, command, error))
}

fn json_answer(response: CommandResponse) -> Answer {
    text_answer(response.status, "application/json", response.print())
}

/// A response with this status and no body.
fn refuse(status: StatusCode) -> Answer {
    let mut answer = Response::new(Either::Left(Full::default()));
    *answer.status_mut() = status;
    answer
}

fn text_answer(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// The keys and values of a URL's query, decoded, in their order.
fn query(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode_percent(key, true), decode_percent(value, true))
    })
}

/// Decodes each `%XX`, and in a query also `+` as a space. A malformed escape stays as it is; bytes
/// that are not UTF-8 become replacement characters.
fn decode_percent(text: &str, in_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, decoded) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (b'+', _) if in_query => {
                bytes.push(b' ');
                rest = behind;
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
