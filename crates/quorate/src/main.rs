//! `quorate`: a server that unmodified clients of ZooKeeper and of etcd use, on one replicated log.
//! It also has a chunk store, which is not replicated, for clients of Ozone's datanodes.
//!
//! This crate is the outermost shell: the command line, the configuration, the sockets for clients,
//! and the commands that look at a server or its data. `member` makes the decisions of a server.

mod admin;
mod change_log;
mod cli;
mod client_tls;
mod cluster_command;
mod config_sources;
mod connections;
mod data_dir;
mod descriptors;
mod etcd_database;
mod export_chunks;
mod force_new_cluster;
mod foreign_pages;
mod hangup;
mod hints;
mod inspect;
mod inspect_etcd;
mod joining;
mod listen_chunk;
mod listen_etcd;
mod listen_zk;
mod local_ensemble;
mod logging;
mod monitor;
mod monitor_thread;
mod not_serving;
mod observe;
mod peer_tls;
mod peers;
mod random;
mod recover;
mod restore;
mod secret_command;
mod self_signed;
mod serve;
mod sim_command;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use cli::{Cli, Command};
use config::{Exit, etcd_program};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The exit status of a command that failed. Wrong options give 2.
const FAILED: u8 = 1;

/// The environment variables that configure a server that was started under etcd's name.
fn etcd_variables() -> BTreeMap<String, String> {
    let variables = std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let is_read = |name: &str| name.starts_with("ETCD_") || name == config::LEVEL_MAX_VARIABLE;
    variables.filter(|(name, _)| is_read(name)).collect()
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let parsed = match etcd_program::parse(&words, &etcd_variables(), &config_sources::read_file) {
        Some(args) => args.map(|args| Cli { command: Command::Serve(args) }),
        None => cli::parse(words),
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(Exit::Help(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Exit::Wrong(line)) => {
            eprintln!("{line}");
            return ExitCode::from(2);
        }
        Err(Exit::Failed(line)) => {
            eprintln!("{line}");
            return ExitCode::from(FAILED);
        }
    };
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::ExportChunks(args) => export_chunks::run(&args),
        Command::Version => {
            println!("quorate {}", cli::VERSION);
            Ok(ExitCode::SUCCESS)
        }
        Command::Zk(args) => shell::run(&args.into()),
        Command::Restore(args) => restore::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Secret(args) => secret_command::run(&args),
        Command::Cluster(args) => cluster_command::run(&args),
        Command::Sim(args) => sim_command::run(&args),
        Command::Bench(args) => bench::cli::run(&args),
        Command::Reproduce(args) => bench::reproduce::command(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("quorate: {error:#}");
        ExitCode::from(FAILED)
    })
}
