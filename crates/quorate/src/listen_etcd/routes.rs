//! Serves the HTTP routes of etcd's ports other than the gateway and etcd v2: version, health,
//! metrics and debug variables. Sources: `api/etcdhttp` and `embed/serve.go` of etcd 3.6.

use std::rc::Rc;

use config::etcd::EtcdService;
use etcd::versions::{CLUSTER_VERSION, ETCD_VERSION};
use etcd::{gateway, v2};
use http_body_util::{Either, Full};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    HOST, HeaderValue, LOCATION, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use member::fronts::etcd::health::HealthCall;

use super::answer::{Answer, of};
use super::health;
use super::http_head::{CORS_HEADERS, CORS_METHODS};
use super::runtime::Runtime;
use crate::observe::metric::PROMETHEUS_MEDIA_TYPE;
use crate::observe::process;

pub(super) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request for one of these routes, or with 404.
pub(super) async fn answer(runtime: &Rc<Runtime>, service: EtcdService, request: &Parts) -> Answer {
    let path = request.uri.path();
    let is_for_metrics = service == EtcdService::Metrics;
    match path {
        // Prometheus' handler accepts any method.
        "/metrics" => metrics(runtime),
        "/version" | "/debug/vars" if is_for_metrics => not_found(),
        "/version" | "/debug/vars" if request.method != Method::GET => method_not_allowed(),
        "/version" => version(),
        "/debug/vars" => variables(),
        _ => match HealthCall::at(path, request.uri.query()) {
            Some(_) if request.method != Method::GET => method_not_allowed(),
            Some(call) => health::answer(runtime, call).await,
            None => not_found(),
        },
    }
}

/// Checks the form of the path, as Go's `http.ServeMux` does. Returns the request with its path
/// decoded; `None` if there was nothing to decode.
///
/// # Errors
/// The response: a redirect if the path is not in its shortest form, or 400 if it is malformed.
pub(super) fn plain(request: &Parts) -> Result<Option<Parts>, Box<Answer>> {
    let raw = request.uri.path();
    if v2::is_plain(raw) {
        return Ok(None);
    }
    let Ok(bytes) = v2::decoded(raw.as_bytes(), false) else {
        let text = "400 Bad Request".to_string();
        return Err(Box::new(of(StatusCode::BAD_REQUEST, PLAIN_TEXT, text)));
    };
    // Go compares the path while it is still escaped, and escapes it once more in the redirect.
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

/// The variables of Go's package `expvar` that have a meaning here.
fn variables() -> Answer {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words = serde_json::Value::from(words.collect::<Vec<String>>());
    of(
        StatusCode::OK,
        "application/json; charset=utf-8",
        format!("{{\n\"cmdline\": {words},\n\"memstats\": {}\n}}\n", memory()),
    )
}

/// The process's memory, under the names in Go's `runtime.MemStats` that programs read for a rough
/// figure.
fn memory() -> String {
    let memory = process::memory();
    format!("{{\"Sys\":{},\"Alloc\":{}}}", memory.resident_bytes, memory.anonymous_bytes)
}

fn metrics(runtime: &Rc<Runtime>) -> Answer {
    let text = super::metrics::text(&runtime.member);
    of(StatusCode::OK, PROMETHEUS_MEDIA_TYPE, text)
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

/// Adds the header that forbids browsers to guess the content's type, as Go's `http.Error` does.
pub(super) fn sniffed(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The response to a request that its sender may not make; `reason` is its text.
pub(super) fn forbidden(reason: &str) -> Answer {
    sniffed(of(StatusCode::FORBIDDEN, PLAIN_TEXT, format!("{reason}\n")))
}

/// Refuses a request without TLS whose `Host` is not an allowed name. Otherwise a page of another
/// site could send requests through a name of its own (`embed/serve.go`, DNS rebinding). `None` if
/// the name is allowed.
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

/// If the page that sent the request may read the answer, adds the headers that tell its browser
/// so.
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
