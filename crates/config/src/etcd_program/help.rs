//! The texts of `etcd --version` and `etcd --help`, which programs parse.

use std::fmt::Write;

use super::flags::{Fate, GROUPS, Kind};

/// The version, in the lines that programs look for (`etcdmain/config.go`). The line about Go's
/// version names Quorate instead.
pub(super) fn version() -> String {
    let (etcd, own) = (etcd::versions::ETCD_VERSION, env!("CARGO_PKG_VERSION"));
    let (os, cpu) = (std::env::consts::OS, go_name(std::env::consts::ARCH));
    format!(
        "etcd Version: {etcd}\nGit SHA: quorate-{own}\nGo Version: none, this is Quorate {own}\n\
         Go OS/Arch: {os}/{cpu}\n"
    )
}

/// Go's name of a CPU architecture.
fn go_name(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// All flags, each with its default and its effect here.
pub(super) fn help() -> String {
    let mut text = "Usage:\n\n  etcd [flags]\n    Start a member, here one of Quorate.\n\n  etcd \
                    --version\n    Print the version.\n\n  etcd -h | --help\n    Print this.\n\n  \
                    etcd --config-file FILE\n    Read everything from FILE; other flags and \
                    variables are ignored.\n"
        .to_string();
    for (group, flags) in GROUPS {
        let _ = write!(text, "\n{group}:\n");
        for flag in flags.iter().filter(|flag| flag.kind != Kind::Ignored) {
            let _ = writeln!(text, "  --{} '{}'", flag.name, flag.default);
            let _ = match flag.fate {
                Fate::Served => Ok(()),
                Fate::Unserved(reason) => writeln!(text, "    Has no effect: {reason}."),
                Fate::Refused(reason) => writeln!(text, "    Is refused: {reason}."),
                Fate::Old(new) => writeln!(text, "    Is now --{new}."),
                Fate::Gate(gate) => writeln!(text, "    Is now --feature-gates={gate}=true."),
            };
        }
    }
    text
}
