//! The routes of HTTP beside the gateway: versions, health, metrics and variables. Sources:
//! `api/etcdhttp` and `embed/serve.go` of etcd 3.6.

use std::rc::Rc;

use etcd::pb::{Message, etcdserverpb as pb};
use etcd::versions::{CLUSTER_VERSION, ETCD_VERSION};
use etcd::{gateway, v2};
use http_body_util::{Either, Full};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    HOST, HeaderValue, LOCATION, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use member::fronts::etcd::Method as KvMethod;

use super::answer::{Answer, of};
use super::client::Client;
use super::health_counts::{Asked, Check};
use super::http_head::{CORS_HEADERS, CORS_METHODS};
use super::runtime::Runtime;
use crate::config::etcd::EtcdService;

pub(super) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request for a route.
pub(super) async fn answer(runtime: &Rc<Runtime>, service: EtcdService, request: &Parts) -> Answer {
    let path = request.uri.path();
    let is_for_metrics = service == EtcdService::Metrics;
    match path {
        // Prometheus' handler takes any method.
        "/metrics" => metrics(runtime),
        "/version" | "/debug/vars" if is_for_metrics => not_found(),
        "/version" | "/debug/vars" | "/health" if request.method != Method::GET => {
            method_not_allowed()
        }
        "/version" => version(),
        "/debug/vars" => variables(),
        "/health" => health(runtime, request.uri.query()).await,
        _ => match Asked::of_path(path) {
            Some(_) if request.method != Method::GET => method_not_allowed(),
            Some(asked) => checks(runtime, asked, request.uri.query()).await,
            None => not_found(),
        },
    }
}

/// The request with its path decoded; none if the path is in its plain form already.
///
/// # Errors
/// The answer to a request whose path is not in its shortest form, which Go's `http.ServeMux`
/// redirects, or is malformed.
pub(super) fn plain(request: &Parts) -> Result<Option<Parts>, Box<Answer>> {
    let raw = request.uri.path();
    if v2::is_plain(raw) {
        return Ok(None);
    }
    let Ok(bytes) = v2::decoded(raw.as_bytes(), false) else {
        let text = "400 Bad Request".to_string();
        return Err(Box::new(of(StatusCode::BAD_REQUEST, PLAIN_TEXT, text)));
    };
    // Go compares the form with escapes, and takes what it redirects to for one without.
    let clean = v2::clean(raw);
    if clean != raw {
        return Err(Box::new(redirect(request, &clean.replace('%', "%25"))));
    }
    let query = request.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let path = v2::escaped(&String::from_utf8_lossy(&bytes));
    let mut plain = request.clone();
    if let Ok(uri) = format!("{path}{query}").parse() {
        plain.uri = uri;
    }
    Ok(Some(plain))
}

fn redirect(request: &Parts, path: &str) -> Answer {
    let query = request.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let location = format!("{path}{query}");
    let shown = ["&&amp;", "<&lt;", ">&gt;", "\"&#34;", "'&#39;"];
    let shown =
        shown.iter().fold(location.clone(), |text, pair| text.replace(&pair[..1], &pair[1..]));
    let link = format!("<a href=\"{shown}\">Temporary Redirect</a>.\n\n");
    let is_read = request.method == Method::GET;
    let mut answer = match is_read {
        true => of(StatusCode::TEMPORARY_REDIRECT, "text/html; charset=utf-8", link),
        false => Response::new(Either::Left(Full::default())),
    };
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    if let Ok(location) = HeaderValue::from_str(&location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn version() -> Answer {
    let versions = format!(
        "{{\"etcdserver\":\"{ETCD_VERSION}\",\"etcdcluster\":\"{CLUSTER_VERSION}\",\
         \"storage\":\"{CLUSTER_VERSION}\"}}"
    );
    of(StatusCode::OK, gateway::CONTENT_TYPE, versions)
}

/// The variables of Go's package `expvar` that are true here.
fn variables() -> Answer {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words = serde_json::Value::from(words.collect::<Vec<String>>());
    of(
        StatusCode::OK,
        "application/json; charset=utf-8",
        format!("{{\n\"cmdline\": {words},\n\"memstats\": {}\n}}\n", memory()),
    )
}

/// Memory by the names of Go's `runtime.MemStats`, which programs read for a rough figure.
fn memory() -> String {
    let memory = crate::monitor::process::memory();
    format!("{{\"Sys\":{},\"Alloc\":{}}}", memory.resident_bytes, memory.anonymous_bytes)
}

fn metrics(runtime: &Rc<Runtime>) -> Answer {
    let text = super::metrics::text(&runtime.member);
    of(StatusCode::OK, zk::metrics::PROMETHEUS_MEDIA_TYPE, text)
}

/// `etcdhttp.checkHealth`: whether no alarm is raised that the client does not exclude, a leader is
/// known, and a read is answered. The read is linearizable unless the client asks for a
/// serializable one.
async fn health(runtime: &Rc<Runtime>, query: Option<&str>) -> Answer {
    let is_serializable = value_of(query, "serializable") == Some("true");
    let is_excluded = |alarm: &&str| values_of(query, "exclude").any(|name| name == *alarm);
    let failed = if let Some(alarm) = alarms(runtime).into_iter().find(|it| !is_excluded(it)) {
        Some(format!("ALARM {alarm}"))
    } else if !is_serializable && !runtime.member.has_leader() {
        Some("RAFT NO LEADER".to_string())
    } else {
        let failed = read(runtime, is_serializable).await;
        failed.map(|text| format!("RANGE ERROR:{text}"))
    };
    runtime.member.checked.count_health(failed.is_none());
    match failed {
        None => of(StatusCode::OK, PLAIN_TEXT, "{\"health\":\"true\",\"reason\":\"\"}".to_string()),
        Some(reason) => {
            let ill = format!("{{\"health\":\"false\",\"reason\":\"{reason}\"}}\n");
            sniffed(of(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT, ill))
        }
    }
}

/// The names of the kinds of alarms that are raised.
fn alarms(runtime: &Rc<Runtime>) -> Vec<&'static str> {
    let machine = runtime.member.node.machine().read();
    machine.etcd().alarms().iter().map(|alarm| alarm.kind.name()).collect()
}

/// Reads a key. The text says why it was not answered.
async fn read(runtime: &Rc<Runtime>, serializable: bool) -> Option<&'static str> {
    let request = pb::RangeRequest { key: "health".into(), serializable, ..Default::default() };
    let member = Client::of_member(runtime);
    let read = member.run(KvMethod::Range, request.encode_to_vec().into()).await;
    read.err().map(|why| why.code_and_text().1)
}

/// `/livez` and `/readyz`, or one of their checks (`etcdhttp/health.go`).
async fn checks(runtime: &Rc<Runtime>, asked: Asked, query: Option<&str>) -> Answer {
    let (mut text, mut is_failed) = (String::new(), false);
    let is_excluded = |check: &Check| {
        asked.is_all && values_of(query, "exclude").any(|name| name == check.name())
    };
    for check in asked.checks.iter().filter(|check| !is_excluded(check)) {
        let failed = match check {
            // A member whose state differs from that of the others ends its process; an operator
            // may raise the alarm.
            Check::DataCorruption => {
                let is_raised = alarms(runtime).contains(&"CORRUPT");
                is_raised.then_some("alarm activated: CORRUPT")
            }
            Check::SerializableRead => read(runtime, true).await,
            Check::LinearizableRead => read(runtime, false).await,
            Check::NonLearner => {
                runtime.member.is_learner().then_some("the local server is a learner")
            }
        };
        runtime.member.checked.count(asked.route, *check, failed.is_none());
        match failed {
            None => text += &format!("[+]{} ok\n", check.name()),
            Some(why) => text += &format!("[-]{} failed: {why}\n", check.name()),
        }
        is_failed |= failed.is_some();
    }
    if is_failed {
        return sniffed(of(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT, text + "\n"));
    }
    let shown = if values_of(query, "verbose").next().is_some() { text } else { String::new() };
    sniffed(of(StatusCode::OK, PLAIN_TEXT, shown + "ok\n"))
}

/// The values of a parameter. None is decoded: no value that we know needs that.
fn values_of<'q>(query: Option<&'q str>, name: &'q str) -> impl Iterator<Item = &'q str> {
    let pairs = query.unwrap_or_default().split('&');
    pairs.filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

fn value_of<'q>(query: Option<&'q str>, name: &'q str) -> Option<&'q str> {
    values_of(query, name).next()
}

fn method_not_allowed() -> Answer {
    let mut refused =
        sniffed(of(StatusCode::METHOD_NOT_ALLOWED, PLAIN_TEXT, "Method Not Allowed\n".to_string()));
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    refused
}

pub(super) fn not_found() -> Answer {
    sniffed(of(StatusCode::NOT_FOUND, PLAIN_TEXT, "404 page not found\n".to_string()))
}

/// Go's `http.Error` says that browsers must not guess the type.
fn sniffed(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The refusal of a request that its sender may not make.
pub(super) fn forbidden(reason: &str) -> Answer {
    sniffed(of(StatusCode::FORBIDDEN, PLAIN_TEXT, format!("{reason}\n")))
}

/// The refusal of a client without TLS that calls this host by a name that is not allowed: a page
/// of another site could send requests so (`embed/serve.go`, DNS rebinding). None: it is allowed.
pub(super) fn refuse_host(hosts: &[String], request: &Parts) -> Option<Answer> {
    if hosts.iter().any(|host| host == "*") {
        return None;
    }
    let named = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let without_port = match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => named,
    };
    let host = without_port.trim_start_matches('[').trim_end_matches(']');
    if hosts.iter().any(|allowed| allowed == host) {
        return None;
    }
    let text = "the name in the header Host is not allowed: use TLS, or add the name to \
                --host-whitelist\n";
    Some(sniffed(of(StatusCode::MISDIRECTED_REQUEST, PLAIN_TEXT, text.to_string())))
}

/// Adds the headers that allow pages of other origins to read the answer.
pub(super) fn allow_origin(origins: &[String], request: &Parts, answer: &mut Answer) {
    let origin = request.headers.get(ORIGIN);
    let allowed = if origins.iter().any(|allowed| allowed == "*") {
        HeaderValue::from_static("*")
    } else {
        let is_allowed = |origin: &&HeaderValue| {
            origin.to_str().is_ok_and(|origin| origins.iter().any(|it| it == origin))
        };
        match origin.filter(is_allowed) {
            Some(origin) => origin.clone(),
            None => return,
        }
    };
    let headers = answer.headers_mut();
    let methods = HeaderValue::from_static(CORS_METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    let names = HeaderValue::from_static(CORS_HEADERS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
}

#[cfg(test)]
mod tests;
