use super::*;

fn request(verb: Verb, key: &str, parameters: &str) -> Result<Request, Failure> {
    let mut form = Form::default();
    form.add(parameters.as_bytes()).unwrap();
    Request::new(verb, key, form)
}

fn command(verb: Verb, key: &str, parameters: &str) -> String {
    let request = request(verb, key, parameters).unwrap();
    format!("{:?}", request.command().unwrap())
}

#[test]
fn a_write_becomes_the_operation_that_its_parameters_name() {
    for (verb, parameters, operation) in [
        (Verb::Put, "value=1", "Set {"),
        (Verb::Put, "value=1&prevExist=true", "Update {"),
        (Verb::Put, "value=1&prevExist=false&prevValue=x", "Create {"),
        (Verb::Put, "value=1&prevExist=1&prevIndex=4", "CompareAndSwap {"),
        (Verb::Put, "value=1&prevValue=x", "CompareAndSwap {"),
        (Verb::Post, "value=1&prevValue=x", "Create {"),
        (Verb::Delete, "", "Delete {"),
        (Verb::Delete, "prevIndex=0", "Delete {"),
        (Verb::Delete, "prevIndex=3", "CompareAndDelete {"),
    ] {
        let command = command(verb, "/a", parameters);
        assert!(command.starts_with(operation), "{parameters}: {command}");
    }
}

#[test]
fn parameters_reach_the_command() {
    let set = command(Verb::Put, "/a//b/", "value=x%00&ttl=9&refresh=false");
    assert!(set.contains("Key(\"/a/b\"), value: [120, 0], ttl_s: Some(9)"), "{set}");
    let set = command(Verb::Put, "/d", "value=x&dir=true&ttl=");
    assert!(set.contains("value: [], ttl_s: None"), "{set}");
    assert!(set.contains("is_dir: true"), "{set}");
    // The parameter `dir` makes only a new node a directory.
    let update = command(Verb::Put, "/a", "value=x&dir=true&prevExist=true");
    assert!(update.contains("Update") && update.contains("value: [120]"), "{update}");
    let compare = command(Verb::Put, "/a", "value=x&dir=true&prevValue=y");
    assert!(compare.contains("value: [120]"), "{compare}");
    let compare = command(Verb::Put, "/d", "value=x&prevValue=y&prevIndex=7");
    assert!(compare.contains("Compare { value: [121], index: 7 }"), "{compare}");
    let root = command(Verb::Post, "", "value=x");
    assert!(root.contains("Key(\"\")") && root.contains("is_in_order: true"), "{root}");
    let request = request(Verb::Put, "/key", "value=12345&prevValue=67").unwrap();
    assert_eq!(request.bytes(), 4 + 5 + 2);
}

#[test]
fn only_what_is_written_is_left_out_of_answers() {
    for (verb, expected) in [(Verb::Put, true), (Verb::Post, true), (Verb::Delete, false)] {
        let request = request(verb, "/a", "noValueOnSuccess=true").unwrap();
        let Ask::Write(write) = request.ask else { unreachable!() };
        assert_eq!(write.hides_nodes, expected);
    }
}

#[test]
fn a_read_waits_unless_it_needs_a_quorum() {
    let wait = request(Verb::Get, "/a", "wait=true&waitIndex=7&recursive=true&stream=1").unwrap();
    let ask = WaitAsk { is_recursive: true, is_stream: true, from: 7 };
    assert_eq!(wait.ask, Ask::Wait(ask));
    let get = request(Verb::Get, "/a", "wait=true&quorum=true&sorted=true").unwrap();
    assert_eq!(get.ask, Ask::Get { is_recursive: false, is_quorum: true });
    assert!(get.command().is_none());
}

/// The causes are those of etcd 3.4.23.
#[test]
fn bad_parameters_have_etcds_codes() {
    for (verb, parameters, code, cause) in [
        (Verb::Put, "prevIndex=abc", 203, "invalid value for \"prevIndex\""),
        (Verb::Put, "prevIndex=", 203, "invalid value for \"prevIndex\""),
        (Verb::Get, "waitIndex=+1", 203, "invalid value for \"waitIndex\""),
        (Verb::Get, "recursive=maybe", 209, "invalid value for \"recursive\""),
        (Verb::Get, "dir=", 209, "invalid value for \"dir\""),
        (Verb::Put, "wait=true", 209, "\"wait\" can only be used with GET requests"),
        (Verb::Put, "prevValue=", 201, "\"prevValue\" cannot be empty"),
        (Verb::Put, "ttl=-5", 202, "invalid value for \"ttl\""),
        (Verb::Put, "ttl=9000000001", 202, "invalid value for \"ttl\""),
        (Verb::Put, "prevExist=maybe", 209, "invalid value for prevExist"),
        (Verb::Put, "refresh=", 209, "invalid value for refresh"),
        (Verb::Put, "refresh=1&ttl=5&value=x", 211, "A value was provided on a refresh"),
        (Verb::Put, "refresh=1&value=", 212, "No TTL value set"),
    ] {
        let failure = request(verb, "/a", parameters).unwrap_err();
        let found = (failure.code as u16, failure.cause.as_slice(), failure.index);
        assert_eq!(found, (code, cause.as_bytes(), 0), "{parameters}");
    }
}

#[test]
fn a_key_that_is_not_allowed_is_refused() {
    let long = format!("/{}", "k".repeat(ETCD_V2_KEY_BYTES_MAX));
    let deep = "/d".repeat(ETCD_V2_LEVELS_MAX + 1);
    let full = "/d".repeat(ETCD_V2_LEVELS_MAX);
    for (verb, key) in [
        (Verb::Get, long.as_str()),
        (Verb::Put, &deep),
        (Verb::Post, &full),
        (Verb::Put, "/%ff"),
        (Verb::Put, "/%f"),
    ] {
        let failure = request(verb, key, "value=x").unwrap_err();
        assert_eq!(failure.code, Code::InvalidField);
    }
    assert!(request(Verb::Put, &full, "value=x").is_ok());
}

#[test]
fn keys_have_one_form() {
    for (path, key) in [("", ""), ("/", ""), ("/a%20b/%C3%A9", "/a b/\u{e9}"), ("/a/../b/.", "/b")]
    {
        assert_eq!(request(Verb::Get, path, "").unwrap().key().text(), key);
    }
}
