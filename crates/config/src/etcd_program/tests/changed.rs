//! Fuzz test of command line, variables and file: good inputs, cut off and changed at random. Each
//! must end in a configuration or an error, and soon. A seed gives the same inputs in each run.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use workload::changed_input::change;
use workload::generate::Random;

use super::super::yaml::FILE_BYTES_MAX;
use super::*;
use crate::report::Warning;

/// How many changed inputs are tried.
const CHANGED_COUNT: usize = 30_000;

/// The CPU time that one input may take, even in an unoptimised build. In an optimised one, a file
/// of the largest size takes some 50 ms.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Separates the words, the variables and the file in an input.
const BETWEEN: char = '\u{1}';

/// Bytes that have a meaning on a command line or in a file.
const LIKELY: &[u8] = b"-=,:/ \n\t'\"[]{}&*#?|>~%0a\xff\x01.";

/// Good inputs: the words, one a line; the variables, one a line; and the file.
fn seeds() -> Vec<String> {
    let urls = "--listen-client-urls\nhttp://127.0.0.1:2,https://[::1]:3\n\
                --advertise-client-urls=http://h:2\n--cert-file=/c\n--key-file=/k";
    let peers = "--name=a\n--listen-peer-urls=https://127.0.0.1:1\n--peer-cert-file=/c\n\
                 --peer-key-file=/k\n--peer-trusted-ca-file=/ca\n--peer-cert-allowed-cn=a,b\n\
                 --initial-cluster=a=https://h:1,b=https://[::1]:2";
    let of_file = "--config-file\nf.yml";
    let mut seeds = vec![
        format!("{urls}{BETWEEN}ETCD_NAME=a\nETCD_MAX_TXN_OPS=0x80{BETWEEN}"),
        format!("{peers}{BETWEEN}{BETWEEN}"),
        format!("{of_file}{BETWEEN}{BETWEEN}{FILE}"),
        format!(
            "{BETWEEN}ETCD_CONFIG_FILE=f.yml{BETWEEN}{{name: a, cors: [b, 'c'], log-level: |\n  info}}"
        ),
        format!("{of_file}{BETWEEN}{BETWEEN}peer-transport-security:\n  allowed-cn: [a, b]\n"),
        format!("--version{BETWEEN}{BETWEEN}"),
    ];
    for flag in flags::GROUPS.iter().flat_map(|(_, flags)| flags.iter()) {
        seeds.push(format!("--{}={}{BETWEEN}{BETWEEN}", flag.name, flag.default));
    }
    seeds
}

/// The CPU time of this thread, which does not depend on the load of the machine.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Parses an input twice, and checks the result.
fn check(input: &str) {
    let mut parts = input.split(BETWEEN);
    let (words, variables) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let file = parts.next().unwrap_or_default();
    let words: Vec<OsString> =
        std::iter::once("etcd").chain(words.lines()).map(OsString::from).collect();
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let variables: BTreeMap<String, String> =
        variables.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let read = |path: &Path| Ok((path == Path::new("f.yml")).then(|| file.to_string()));
    let begun_at = cpu_time();
    let settled = || parse(&words, &variables, &read).expect("it is called by etcd's name");
    let (first, second) = (settled(), settled());
    assert!(cpu_time() - begun_at < TIME_MAX, "{input}");
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    match first {
        Ok(args) => {
            let given = args.etcd.expect("it is etcd");
            assert!(args.data_dir.is_some() && !given.ports.is_empty(), "{input}");
            // A warning names its flag, its variable, or the line of its key, which may be empty.
            let is_named = |it: &Warning| !it.key.is_empty() || it.place.line.is_some();
            assert!(given.warnings.iter().all(is_named), "{input}: {:?}", given.warnings);
        }
        Err(Exit::Help(text)) => assert!(text.contains("etcd"), "{input}"),
        Err(Exit::Failed(text)) => {
            let cause = text.strip_prefix("etcd: ").expect("each error begins so");
            assert!(!cause.is_empty() && text.len() <= 2_000 + 6 * input.len(), "{input}: {text}");
        }
        // The error names the flag as it is on the command line.
        Err(Exit::Wrong(text)) => {
            let is_in = |word: &OsString| {
                let word = word.to_str().unwrap_or_default().trim_start_matches(['-', '=']);
                let name = word.split('=').next().unwrap_or_default();
                !name.is_empty() && text.contains(name)
            };
            let is_syntax = text.starts_with("bad flag syntax: ");
            assert!(is_syntax || words[1..].iter().any(is_in), "{input}: {text}");
        }
    }
}

#[test]
fn every_input_ends_in_a_configuration_or_an_error() {
    let seeds = seeds();
    for seed in &seeds {
        check(seed);
        let cuts = (0..seed.len()).filter(|at| seed.is_char_boundary(*at));
        cuts.step_by(3).for_each(|at| check(&seed[..at]));
    }
    let mut random = Random::new(1);
    for _ in 0..CHANGED_COUNT {
        let mut bytes = random.pick(&seeds).clone().into_bytes();
        let other = random.pick(&seeds).as_bytes();
        change(&mut random, &mut bytes, other, LIKELY);
        check(&String::from_utf8_lossy(&bytes));
    }
}

/// Files of the largest size that repeat one piece.
#[test]
fn a_file_of_any_shape_is_read_soon() {
    for piece in [
        "[",
        "{",
        "- ",
        "? ",
        "a: ",
        "&a ",
        "*a ",
        "!a ",
        "'",
        "\"",
        "|\n ",
        ">\n ",
        "# ",
        ",",
        "{a: ",
        "[a, ",
        "a:\n  ",
        "- - ",
        "\n",
        "\t",
        "--- \n",
        "%YAML 1.2\n",
        "name: a\n",
        "\"\\x",
        "a ",
    ] {
        let file = piece.repeat(FILE_BYTES_MAX / piece.len());
        check(&format!("--config-file\nf.yml{BETWEEN}{BETWEEN}{file}"));
        let mut nested = String::new();
        for depth in 0..1_000 {
            nested += &format!("{}{piece}\n", " ".repeat(depth));
        }
        check(&format!("--config-file\nf.yml{BETWEEN}{BETWEEN}{nested}"));
    }
    let long = "a".repeat(FILE_BYTES_MAX + 1);
    let (status, text) = error_with("etcd --config-file f.yml", &[], &long);
    assert!(status == 1 && text.starts_with("etcd: f.yml: 1048577 bytes are more"), "{text}");
}
