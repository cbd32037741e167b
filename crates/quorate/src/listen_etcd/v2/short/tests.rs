use super::*;

const HEAD: &str = "Host: a\r\nUser-Agent: test\r\nAccept: */*\r\n";

fn get(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\n{HEAD}{headers}\r\n").into_bytes()
}

fn put(form: &str, headers: &str) -> Vec<u8> {
    let length = form.len();
    let form_type = "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n";
    let head = format!("{HEAD}{form_type}Content-Length: {length}\r\n{headers}\r\n");
    format!("PUT /v2/keys/a/b HTTP/1.1\r\n{head}{form}").into_bytes()
}

/// The result of [`find`] as text. For a short request it shows the method, the key and what is
/// asked for, or why the request is refused.
fn found(bytes: &[u8]) -> String {
    match find(bytes) {
        Found::Partial => "partial".to_string(),
        Found::Other => "other".to_string(),
        Found::Short(Short { request: Err(failure), .. }) => {
            format!("short: {}", String::from_utf8_lossy(&failure.body()))
        }
        Found::Short(Short { method, request: Ok(request), bytes: count }) => {
            assert_eq!(count, bytes.len());
            let key = request.key().text().to_string();
            format!("short: {method} {key} {:?}", request.ask)
        }
    }
}

#[test]
fn plain_requests_are_short() {
    let read = "Get { is_recursive: false, is_quorum: false }";
    assert_eq!(found(&get("/v2/keys/a/b", "")), format!("short: GET /a/b {read}"));
    assert_eq!(
        found(&get("/v2/keys", "Connection: Keep-Alive\r\n")),
        format!("short: GET  {read}")
    );
    let all = found(&get("/v2/keys/?recursive=true&quorum=true", ""));
    assert_eq!(all, "short: GET  Get { is_recursive: true, is_quorum: true }");
    let set = found(&put("value=a%20b&ttl=5", ""));
    assert!(set.starts_with("short: PUT /a/b Write("), "{set}");
    assert!(set.contains("ttl_s: Some(5)"), "{set}");
    let delete = found(b"DELETE /v2/keys/a?dir=true HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(delete.contains("operation: Delete"), "{delete}");
    let refused = found(&put("value=%2", ""));
    assert!(refused.starts_with("short: {\"errorCode\":210"), "{refused}");
}

/// A body that is not a form is read and ignored.
#[test]
fn a_body_that_is_no_form_is_ignored() {
    let request = b"PUT /v2/keys/a?value=1 HTTP/1.1\r\nContent-Length: 7\r\n\r\nvalue=2";
    let set = found(request);
    assert!(set.contains("value: [49]"), "{set}");
}

#[test]
fn what_needs_more_goes_to_the_library() {
    for target in [
        "/v2/keysa",
        "/v2/members",
        "/v2/auth/users",
        "/version",
        "/v2/keys/a?wait=true",
        "/v2/keys/a/../b",
        "/v2/keys//a",
        "/v2/keys/a%20b",
        "/v2/keys/\u{e9}",
        "/v2/keys/a\"b",
        "/v2/keys/a#b",
        "/v2/keys/a?b={",
        "http://a/v2/keys/a",
        "*",
    ] {
        assert_eq!(found(&get(target, "")), "other", "{target}");
    }
    for headers in [
        "Authorization: Basic cm9vdDpzZWNyZXQ=\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive, upgrade\r\n",
        "Upgrade: websocket\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: identity\r\n",
        "Expect: 100-continue\r\n",
        "TE: trailers\r\n",
        "Content-Length: 1\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: \r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Content-Type: a\r\nContent-Type: b\r\n",
        "a b: c\r\n",
    ] {
        assert_eq!(found(&get("/v2/keys/a", headers)), "other", "{headers}");
    }
    for request in [
        "HEAD /v2/keys/a HTTP/1.1\r\n\r\n",
        "OPTIONS /v2/keys/a HTTP/1.1\r\n\r\n",
        "GET /v2/keys/a HTTP/1.0\r\n\r\n",
        "get /v2/keys/a HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        assert_eq!(found(request.as_bytes()), "other", "{request}");
    }
    assert_eq!(found(&put(&"a".repeat(SHORT_BYTES_MAX), "")), "other");
    assert_eq!(found(&get("/v2/keys/a", &"a: b\r\n".repeat(SHORT_HEADERS_MAX))), "other");
}

/// Every prefix of a request counts as partial, and bytes behind a request are left alone.
#[test]
fn a_request_is_found_when_it_is_whole() {
    for request in [get("/v2/keys/a?quorum=true", ""), put("value=some+text&prevExist=false", "")] {
        for end in 0..request.len() {
            assert!(matches!(find(&request[..end]), Found::Partial), "{end}");
        }
        let mut two = request.clone();
        two.extend_from_slice(&request);
        let Found::Short(Short { bytes, .. }) = find(&two) else { panic!("it is whole") };
        assert_eq!(bytes, request.len());
    }
}

/// The length of a request as its head says: up to the empty line, plus `Content-Length`.
fn bytes_of(request: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(request);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().map_or(Ok(0), |(_, value)| value.trim().parse::<usize>());
    Some(head.len() + 4 + length.ok()?)
}

/// Changes the byte at each position. If the result is still a short request, it must have the
/// length that its head says.
#[test]
fn a_changed_byte_moves_no_end() {
    let request = put("value=1", "");
    let is_line_end = |byte: u8| [b'\r', b'\n'].contains(&byte);
    let mut short_count = 0;
    for place in (0..request.len()).filter(|place| !is_line_end(request[*place])) {
        for byte in (0..128).filter(|byte| !is_line_end(*byte)) {
            let mut changed = request.clone();
            changed[place] = byte;
            if let Found::Short(short) = find(&changed) {
                assert_eq!(Some(short.bytes), bytes_of(&changed), "{place} {byte}");
                short_count += 1;
            }
        }
    }
    assert!(short_count > 1_000, "{short_count}");
}
