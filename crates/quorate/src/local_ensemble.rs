//! `quorate serve --local-ensemble N`: an ensemble on a single machine, to try things out. Each
//! server is a process of its own, so that it can be killed like any other. This process starts the
//! servers, prints their logs, and stops them.
//!
//! Each server has a folder, `DIR/1` and so on, with a `quorate.toml`. A user can start a stopped
//! server again with that file. The servers end with this process, even if it is killed.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use config::ServeArgs;
use config::{
    ADMIN_PORT_DEFAULT, DATA_DIR_DEFAULT, ETCD_PORT_DEFAULT, ListenAddress, ZK_PORT_DEFAULT,
    layout_name,
};
use rustix::process::{Pid, Signal, kill_process};
use storage::datadir::IDENTITY_FILE;
use storage::disk::create_private_directories;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::hints;
use crate::secret_command::write_secret;

/// A server's port for other servers is its client port plus this: from 2181 it gives ZooKeeper's
/// 2888.
const PEER_PORT_DISTANCE: u16 = 707;
/// A server's election port is its client port plus this: from 2181 it gives ZooKeeper's 3888. The
/// port is only shown, never opened.
const ELECTION_PORT_DISTANCE: u16 = 1_707;

/// How often to check whether the servers still run.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long the servers may take to stop. Then they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How many lines that the servers have printed on standard output, such as ready lines, may wait
/// to be handled.
const LINES_MAX: usize = 64;

/// The settings of admin servers whose ports the user has not chosen: they neither take nor restore
/// snapshots, and they refuse requests that come from web pages of other sites.
const GUARDED_ADMIN: &str =
    "admin_snapshot = false\nadmin_restore = false\nrefuse_foreign_pages = true\n";

/// A server of the ensemble.
struct Server {
    number: u32,
    /// The server's process; `None` once it has ended.
    child: Option<Child>,
    config: PathBuf,
    /// The faces with their addresses, from the server's ready line; `None` before that.
    faces: Option<Vec<(String, String)>>,
}

/// Starts the servers, and runs until a signal says to stop.
pub fn run(args: &ServeArgs, count: u32) -> anyhow::Result<ExitCode> {
    let folder = args.data_dir.clone().unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT));
    let configs = prepare(args, &folder, count)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(args, &folder, configs))
}

/// Creates the servers' folders and writes their configuration files. Returns the paths of the
/// files.
fn prepare(args: &ServeArgs, folder: &Path, count: u32) -> anyhow::Result<Vec<PathBuf>> {
    let shown = folder.display();
    ensure!(
        !folder.join(IDENTITY_FILE).exists(),
        "{shown} is the data directory of a single server; choose another with --data-dir"
    );
    let folder = std::path::absolute(folder).with_context(|| format!("{shown}"))?;
    create_private_directories(&folder).with_context(|| format!("{shown}"))?;
    let first_line = format!("# An ensemble of {count}: quorate serve --local-ensemble {count}");
    let secret_file = folder.join("secret");
    // The servers prove to each other that they know this secret, since other users of the machine
    // can reach their ports.
    if !secret_file.exists() {
        write_secret(&secret_file).with_context(|| format!("{}", secret_file.display()))?;
    }
    let configs: Vec<PathBuf> =
        (1..=count).map(|number| folder.join(number.to_string()).join("quorate.toml")).collect();
    for config in &configs {
        let Ok(text) = std::fs::read_to_string(config) else { continue };
        ensure!(
            text.lines().next() == Some(&first_line),
            "{shown} holds an ensemble of another size, which cannot be changed yet; choose another \
             with --data-dir"
        );
    }
    let beyond = folder.join((count + 1).to_string()).join("quorate.toml");
    ensure!(!beyond.exists(), "{shown} holds a larger ensemble; choose another with --data-dir");
    let servers = servers(args, count)?;
    let admin_addr = admin_addr(args, count);
    // The admin ports also serve the metrics, unless an option names other ports.
    let names_none = args.names_no_face();
    let metrics_addr = admin_addr.as_ref().filter(|_| names_none).or(args.metrics_addr.as_ref());
    let etcd_addr =
        args.etcd_addr.clone().or_else(|| names_none.then(|| etcd_addr(count)).flatten());
    for (number, config) in (1..).zip(&configs) {
        let mut text = server_config(config)?;
        text += &face(number, "admin_addr", admin_addr.as_ref())?;
        text += if args.admin_addr.is_none() { GUARDED_ADMIN } else { "" };
        text += &face(number, "metrics_addr", metrics_addr)?;
        text += &face(number, "etcd_addr", etcd_addr.as_ref())?;
        text += if args.etcd_v2 { "etcd_enable_v2 = true\n" } else { "" };
        text += &face(number, "chunk_addr", args.chunk_addr.as_ref())?;
        text += &chunk_settings(args);
        let secret_file = quoted(&secret_file)?;
        text += &format!("[cluster]\nid = {number}\nsecret_file = {secret_file}\n{servers}");
        let server_folder = config.parent().expect("it is a file in a folder");
        create_private_directories(server_folder)
            .and_then(|()| std::fs::write(config, format!("{first_line}\n{text}")))
            .with_context(|| format!("{}", config.display()))?;
    }
    Ok(configs)
}

/// The list of the servers, the same in each configuration file.
fn servers(args: &ServeArgs, count: u32) -> anyhow::Result<String> {
    let first = zk_addr(args);
    ensure!(first.port != 0, "--local-ensemble needs a port: {count} servers listen from it on");
    let mut text = "[cluster.servers]\n".to_string();
    for number in 1..=count {
        let port = server_port(first.port, number)?;
        let peer_port = port.checked_add(PEER_PORT_DISTANCE);
        let election_port = port.checked_add(ELECTION_PORT_DISTANCE);
        let (Some(peer_port), Some(election_port)) = (peer_port, election_port) else {
            bail!("port {port} is too high: servers listen {ELECTION_PORT_DISTANCE} above, too");
        };
        let client = ListenAddress { host: first.host.clone(), port };
        text += &format!("{number} = \"127.0.0.1:{peer_port}:{election_port};{client}\"\n");
    }
    // In ZooKeeper's syntax, a missing address means every address.
    Ok(text.replace(";*:", ";"))
}

/// The client address of the first server.
fn zk_addr(args: &ServeArgs) -> ListenAddress {
    args.zk_addr.clone().unwrap_or_else(|| ListenAddress::loopback(ZK_PORT_DEFAULT))
}

/// A server's port: that of the first server plus its number less 1.
fn server_port(first: u16, number: u32) -> anyhow::Result<u16> {
    let port = u32::from(first) + number - 1;
    u16::try_from(port).map_err(|_| anyhow::anyhow!("there is no port {port}"))
}

/// The address of the first server's admin port. By default it is ZooKeeper's; `None` if the ports
/// from there on are not all free.
fn admin_addr(args: &ServeArgs, count: u32) -> Option<ListenAddress> {
    if args.admin_addr.is_some() {
        return args.admin_addr.clone();
    }
    default_addr(count, ADMIN_PORT_DEFAULT, "no admin servers", "--admin-addr")
}

/// The address of the first server's default port for etcd clients; `None` if the ports from there
/// on are not all free.
fn etcd_addr(count: u32) -> Option<ListenAddress> {
    default_addr(count, ETCD_PORT_DEFAULT, "no clients of etcd", "--etcd-addr")
}

/// The default address of the first server, if `count` ports from `first` on are free. Otherwise
/// prints that `missing` is left out, and which option chooses other ports.
fn default_addr(count: u32, first: u16, missing: &str, option: &str) -> Option<ListenAddress> {
    let is_free = |number| {
        let port = server_port(first, number);
        port.is_ok_and(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
    };
    if (1..=count).all(is_free) {
        return Some(ListenAddress::loopback(first));
    }
    eprintln!(
        "quorate: {missing}: the {count} ports from {first} on are not all free; choose others \
         with {option}"
    );
    None
}

/// The line of a server's `quorate.toml` that names its data directory: the folder of that file.
fn server_config(config: &Path) -> anyhow::Result<String> {
    let data_dir = config.parent().expect("it is a file in a folder");
    Ok(format!("data_dir = {}\n", quoted(data_dir)?))
}

/// The line of a server's `quorate.toml` with the address of a face; `first` is the address of that
/// face on the first server. Empty if `first` is `None`.
fn face(number: u32, key: &str, first: Option<&ListenAddress>) -> anyhow::Result<String> {
    let Some(first) = first else { return Ok(String::new()) };
    let port = if first.port == 0 { 0 } else { server_port(first.port, number)? };
    let address = ListenAddress { host: first.host.clone(), port };
    Ok(format!("{key} = \"{address}\"\n"))
}

/// The settings of each server's chunk store; empty if the options have none.
fn chunk_settings(args: &ServeArgs) -> String {
    let layout = args.chunk_layout.map(layout_name);
    let mut text = layout.map_or(String::new(), |name| format!("chunk_layout = \"{name}\"\n"));
    if args.chunk_verify_writes {
        text += "chunk_verify_writes = true\n";
    }
    text
}

/// A path as a TOML literal string.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().filter(|text| !text.contains(['\'', '\n', '\r']));
    let text = text.with_context(|| format!("{path:?} cannot be written into a file"))?;
    Ok(format!("'{text}'"))
}

/// Starts the servers, and runs until a signal arrives or no server is left.
async fn watch(args: &ServeArgs, folder: &Path, configs: Vec<PathBuf>) -> anyhow::Result<ExitCode> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let (sender, mut ready_lines) = mpsc::channel(LINES_MAX);
    let mut servers = Vec::new();
    for (number, config) in (1..).zip(configs) {
        match start(args, number, &config, &sender) {
            Ok(child) => servers.push(Server { number, child: Some(child), config, faces: None }),
            Err(error) => {
                stop(&mut servers).await;
                return Err(error);
            }
        }
    }
    drop(sender);
    let mut interval = tokio::time::interval(LOOK_INTERVAL);
    let mut is_ready = false;
    loop {
        tokio::select! {
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
            _ = hung_up.recv() => signal_all(&servers, Signal::HUP),
            Some((number, line)) = ready_lines.recv() => {
                let server = servers.iter_mut().find(|server| server.number == number);
                server.expect("it was started").faces = Some(hints::faces(&line));
                if !is_ready && servers.iter().all(|server| server.faces.is_some()) {
                    is_ready = true;
                    print!("{}\n{}", ready_line(&servers), server_lines(&servers));
                    if let Some(faces) = servers.first().and_then(|it| it.faces.as_ref()) {
                        hints::print(faces, folder);
                    }
                }
            }
            _ = interval.tick() => {
                if let Err(error) = look(&mut servers, is_ready) {
                    stop(&mut servers).await;
                    return Err(error);
                }
            }
        }
    }
    stop(&mut servers).await;
    Ok(ExitCode::SUCCESS)
}

/// Starts a server. Its log is printed with its number in front of each line.
fn start(
    args: &ServeArgs,
    number: u32,
    config: &Path,
    ready: &mpsc::Sender<(u32, String)>,
) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(config).arg("--end-with-parent");
    command.args(std::iter::repeat_n("-v", usize::from(args.verbose)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("server {number}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = BufReader::new(stdout.expect("it is a pipe"));
    let stderr = BufReader::new(stderr.expect("it is a pipe"));
    let ready = ready.clone();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            // If sending fails, all servers are being stopped.
            let _ = ready.blocking_send((number, line));
        }
    });
    std::thread::spawn(move || {
        for line in stderr.split(b'\n').map_while(Result::ok) {
            eprintln!("[{number}] {}", String::from_utf8_lossy(&line));
        }
    });
    Ok(child)
}

/// A line that names each face once, with the addresses of all servers.
fn ready_line(servers: &[Server]) -> String {
    let all = || servers.iter().filter_map(|server| server.faces.as_deref()).flatten();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut line = "quorate ready".to_string();
    for wanted in names {
        let addresses: Vec<&str> =
            all().filter(|(name, _)| name == wanted).map(|(_, address)| address.as_str()).collect();
        line += &format!(" {wanted}={}", addresses.join(","));
    }
    line
}

/// A line for each server, with its addresses.
fn server_lines(servers: &[Server]) -> String {
    let line = |server: &Server| {
        let faces = server.faces.iter().flatten();
        let faces: String = faces.map(|(name, address)| format!(" {name}={address}")).collect();
        format!("  server {}{faces}\n", server.number)
    };
    servers.iter().map(line).collect()
}

/// Reports servers that have ended. This is an error before all were ready, and if none is left.
fn look(servers: &mut [Server], is_ready: bool) -> anyhow::Result<()> {
    for server in servers.iter_mut() {
        let Some(child) = &mut server.child else { continue };
        let Some(status) = child.try_wait()? else { continue };
        server.child = None;
        let number = server.number;
        ensure!(is_ready, "server {number} ended with {status} before all were ready");
        eprintln!(
            "quorate: server {number} ended with {status}; the others go on. To start it again: \
             quorate serve --config {}",
            server.config.display()
        );
    }
    ensure!(servers.iter().any(|server| server.child.is_some()), "no server is left");
    Ok(())
}

/// Stops the servers, and waits until they have ended.
async fn stop(servers: &mut [Server]) {
    signal_all(servers, Signal::TERM);
    let deadline = Instant::now() + STOP_LIMIT;
    for server in servers {
        let Some(child) = &mut server.child else { continue };
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                eprintln!("quorate: server {} does not end and is killed", server.number);
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            tokio::time::sleep(LOOK_INTERVAL / 10).await;
        }
        server.child = None;
    }
}

/// Sends a signal to each running server.
fn signal_all(servers: &[Server], signal: Signal) {
    for child in servers.iter().filter_map(|server| server.child.as_ref()) {
        // If this fails, the process has just ended.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

#[cfg(test)]
mod tests;
