//! Tests which command lines are accepted, and the one-line errors for the others.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use chunk::layout::Layout;

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

fn serve(line: &str) -> ServeArgs {
    match parse(words(line)).unwrap().command {
        Command::Serve(args) => args,
        other => panic!("{line}: {other:?}"),
    }
}

fn zk(line: &str) -> ZkArgs {
    match parse(words(line)).unwrap().command {
        Command::Zk(args) => args,
        other => panic!("{line}: {other:?}"),
    }
}

fn wrong(line: &str) -> String {
    match parse(words(line)) {
        Err(Exit::Wrong(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_local_ensemble_has_a_size_that_makes_sense_and_no_file() {
    assert_eq!(serve("quorate serve").local_ensemble, None);
    assert_eq!(serve("quorate serve --local-ensemble 5").local_ensemble, Some(5));
    for size in ["0", "1", "2", "4", "9", "three"] {
        let text = wrong(&format!("quorate serve --local-ensemble {size}"));
        assert!(text.contains("3, 5 or 7 servers"), "{text}");
    }
    let text = wrong("quorate serve --local-ensemble 3 --config zoo.cfg");
    assert!(text.contains("cannot be used with"), "{text}");
}

#[test]
fn serve_needs_no_option() {
    let args = serve("quorate serve");
    assert_eq!(args.file(), None);
    assert_eq!(args.data_dir, None);
    assert_eq!(args.zk_addr, None);
    assert_eq!(args.verbose, 0);
}

#[test]
fn the_file_may_be_an_option_or_stand_alone() {
    for line in ["quorate serve --config a/zoo.cfg", "quorate serve a/zoo.cfg -vv"] {
        assert_eq!(serve(line).file(), Some(Path::new("a/zoo.cfg")), "{line}");
    }
    assert!(wrong("quorate serve --config a b").contains("cannot be used with"));
}

#[test]
fn addresses_name_a_host_and_a_port() {
    let address = |text: &str| serve(&format!("quorate serve --zk-addr {text}")).zk_addr.unwrap();
    assert_eq!(address("127.0.0.1:0").to_string(), "127.0.0.1:0");
    assert_eq!(address("[::1]:2181").host.as_deref(), Some("::1"));
    assert_eq!(address("[::1]:2181").to_string(), "[::1]:2181");
    assert_eq!(address("*:2181").host, None);
    assert_eq!(address(":2181").host, None);
    assert_eq!(address("zk.example:65535").port, 65535);
    for text in ["2181", "host:", "host:65536", "::1:2181", "[host]:1", "a:b:1"] {
        let line = wrong(&format!("quorate serve --zk-addr {text}"));
        assert!(line.contains("is not an address"), "{line}");
    }
}

#[test]
fn the_chunk_store_has_an_address_and_a_layout() {
    let args = serve("quorate serve --chunk-addr *:9859 --chunk-layout per-block");
    assert_eq!(args.chunk_addr.unwrap().to_string(), "*:9859");
    assert_eq!(args.chunk_layout, Some(Layout::PerBlock));
    assert!(!args.chunk_verify_writes);
    assert!(serve("quorate serve --chunk-verify-writes").chunk_verify_writes);
    assert_eq!(serve("quorate serve").chunk_layout, None);
    let text = wrong("quorate serve --chunk-layout other");
    assert!(text.contains("per-block, per-chunk or log"), "{text}");
}

#[test]
fn everything_from_the_command_on_belongs_to_it() {
    let args = zk("quorate zk --server h:1 -t 5s ls -R --server /");
    assert_eq!(args.server, "h:1");
    assert_eq!(args.timeout, 5_000);
    assert_eq!(args.command, ["ls", "-R", "--server", "/"]);
    assert!(zk("quorate zk").command.is_empty());
    assert_eq!(zk("quorate zk").timeout, 30_000);
}

#[test]
fn the_options_of_zkcli_are_read() {
    let args = zk("quorate zk -server h:1 -timeout 5000 -r -waitforconnection get -server /a");
    assert_eq!((args.server.as_str(), args.timeout), ("h:1", 5_000));
    assert!(args.read_only && args.wait_for_connection);
    assert_eq!(args.command, ["get", "-server", "/a"]);
    let args = zk("quorate zk -client-configuration f -server h:2 ls");
    assert_eq!(args.server, "h:2");
    assert_eq!(args.client_configuration, Some("f".into()));
    let args = zk("quorate zk --output json ls");
    assert_eq!(args.output, Format::Json);
    assert!(wrong("quorate zk --output xml").contains("json"));
    // Only `quorate zk` takes options with one dash.
    assert!(wrong("quorate serve -server h:1").contains("serve --help"));
}

#[test]
fn a_timeout_carries_a_unit_and_fits_the_protocol() {
    assert_eq!(zk("quorate zk -t 2147483647ms").timeout, i32::MAX.unsigned_abs());
    // A number without a unit is in ms, as for `zkCli.sh`.
    assert_eq!(zk("quorate zk -t 30").timeout, 30);
    for text in ["0", "0s", "2147483648ms", "fast"] {
        assert!(wrong(&format!("quorate zk -t {text}")).contains("--timeout"), "{text}");
    }
}

#[test]
fn one_seed_or_many_from_one_on() {
    assert!(matches!(
        parse(words("quorate sim --seed 7")).unwrap().command,
        Command::Sim(SimArgs { seed: Some(7), seeds: None, members: None })
    ));
    assert!(matches!(
        parse(words("quorate sim --seed 7 --seeds 9")).unwrap().command,
        Command::Sim(SimArgs { seed: Some(7), seeds: Some(9), members: None })
    ));
    assert!(wrong("quorate sim --seeds 0").contains("--seeds"));
    assert!(wrong("quorate sim --seeds 9 --members 6").contains("--members"));
}

#[test]
fn a_wrong_line_is_one_line_that_says_where_to_read_on() {
    for line in [
        "quorate",
        "quorate frob",
        "quorate --frob",
        "quorate serve --frob",
        "quorate serve --data-dir",
        "quorate serve --zk-addr x",
        "quorate inspect",
        "quorate inspect a b",
        "quorate zk -q ls",
    ] {
        let text = wrong(line);
        assert_eq!(text.lines().count(), 1, "{line}: {text}");
        assert!(text.starts_with("quorate: "), "{line}: {text}");
        assert!(text.contains("--help`"), "{line}: {text}");
    }
    let text = wrong("quorate serve --frob");
    assert_eq!(text, "quorate: unexpected argument '--frob' found (see `quorate serve --help`)");
    assert!(wrong("quorate inspect").contains("<DATA-DIR|FILE>"));
    assert!(wrong("quorate serve --zk-addr x").contains("`quorate serve --help`"));
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["quorate --help", "quorate help", "quorate serve --help", "quorate --version"] {
        assert!(matches!(parse(words(line)), Err(Exit::Help(_))), "{line}");
    }
    let Err(Exit::Help(text)) = parse(words("quorate serve --help")) else { panic!("no help") };
    for option in ["--config", "--data-dir", "--zk-addr", "quorate ready"] {
        assert!(text.contains(option), "{option} is missing in {text}");
    }
}

#[test]
fn the_definition_holds_together() {
    Cli::command().debug_assert();
}
