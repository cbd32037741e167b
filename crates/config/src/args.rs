//! The command line of `quorate serve`. The comments on the options are the texts of `--help`.

use std::path::{Path, PathBuf};

use chunk::layout::Layout;
use clap::{ArgAction, Args};

use crate::EtcdGiven;
use crate::address::ListenAddress;
use crate::chunk::parse_layout;

/// Options of `quorate serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Configuration: a zoo.cfg or a quorate.toml
    #[arg(long, value_name = "FILE", conflicts_with = "config_file")]
    pub config: Option<PathBuf>,
    /// Configuration file, as --config FILE
    #[arg(value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Directory of the data [default: ./quorate-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where ZooKeeper clients connect; *:PORT for every address [default: 127.0.0.1:2181 if no
    /// other port is named]
    #[arg(long, value_name = "HOST:PORT")]
    pub zk_addr: Option<ListenAddress>,
    /// Where the commands of the admin server are served [default: 127.0.0.1:8080, without
    /// snapshots, if no other port is named]
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_addr: Option<ListenAddress>,
    /// Where metrics are served to Prometheus [default: 127.0.0.1:8080 if no other port is named]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_addr: Option<ListenAddress>,
    /// The values of etcd's own flags, if the program was started under etcd's name. It then serves
    /// only etcd's clients, and reports that it is ready in etcd's words.
    #[arg(skip)]
    pub etcd: Option<Box<EtcdGiven>>,
    /// Where etcd clients connect [default: 127.0.0.1:2379 if no other port is named]
    #[arg(long, value_name = "HOST:PORT")]
    pub etcd_addr: Option<ListenAddress>,
    /// Where etcd clients connect with TLS; uses the stores of the other ports [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub etcd_tls_addr: Option<ListenAddress>,
    /// Serve etcd v2, too, where etcd clients connect
    #[arg(long)]
    pub etcd_v2: bool,
    /// Where clients of Ozone's datanodes connect: the chunk store [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub chunk_addr: Option<ListenAddress>,
    /// Where these clients connect with TLS; uses the stores of the other ports [default: nowhere]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "local_ensemble")]
    pub chunk_tls_addr: Option<ListenAddress>,
    /// The folder of the chunk store, best on a disk of its own [default: chunks in the data
    /// directory]
    #[arg(long, value_name = "DIR", conflicts_with = "local_ensemble")]
    pub chunk_dir: Option<PathBuf>,
    /// Where the chunks of new containers go: per-block, per-chunk or log [default: log]
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout)]
    pub chunk_layout: Option<Layout>,
    /// Refuse chunks that do not match their checksums
    #[arg(long)]
    pub chunk_verify_writes: bool,
    /// Run an ensemble of 3, 5 or 7 servers on this machine, each a process of its own: data in
    /// DIR/1 and so on, clients on PORT, PORT+1 and so on
    #[arg(long, value_name = "N", value_parser = ensemble_size)]
    #[arg(conflicts_with_all = ["config", "config_file"])]
    pub local_ensemble: Option<u32>,
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    pub end_with_parent: bool,
    /// Log more; twice for everything
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Parses the size of a local ensemble: odd, since an even one survives no more failures than the
/// odd one below it.
fn ensemble_size(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ (3 | 5 | 7)) => Ok(count),
        _ => Err("an ensemble has 3, 5 or 7 servers".to_string()),
    }
}

impl ServeArgs {
    /// Whether no option names a port to serve on.
    pub fn names_no_face(&self) -> bool {
        let named = [
            &self.zk_addr,
            &self.admin_addr,
            &self.metrics_addr,
            &self.etcd_addr,
            &self.etcd_tls_addr,
            &self.chunk_addr,
            &self.chunk_tls_addr,
        ];
        named.into_iter().all(Option::is_none)
    }

    /// The path of the configuration file, given with `--config` or without.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref().or(self.config_file.as_deref())
    }
}

/// Ends the program without running a command: a text to print, and an exit status.
#[derive(Debug, PartialEq, Eq)]
pub enum Exit {
    /// Text for standard output, status 0.
    Help(String),
    /// Error for standard error, status 2.
    Wrong(String),
    /// Error for standard error, status 1, which etcd has for wrong configurations.
    Failed(String),
}
