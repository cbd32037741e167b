//! Starts servers as processes: this tree's binary and the real ZooKeeper. Each gets a free
//! loopback port, and a folder of its own below the target folder.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// The digest of the user `super` with the password `test`, for tests that must get past every ACL.
pub const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// The file in a server's folder that holds the value of `JVMFLAGS`.
pub const JVMFLAGS_FILE: &str = "jvmflags";

/// How long a wait for a condition may take. A longer one is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds that a server brings about at its own pace. Panics after
/// [`PATIENCE`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sets the flag when it is dropped, which ends the threads of a scope even if the test fails.
/// Otherwise a failed test would never end, because the scope waits for all of its threads.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Reports that this machine cannot run a test: on standard output, and in the file that
/// `tests/run.sh` names. That script fails if it does not know the reason.
pub fn skip(reason: &str) {
    let line = format!("skipped: {reason}");
    println!("{line}");
    if let Some(path) = std::env::var_os("QUORATE_SKIPPED_FILE") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Makes an empty folder for one test. It stays if the test fails.
pub fn folder(name: &str) -> PathBuf {
    let name = format!("it-{name}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A process of `quorate serve`. Dropping it kills the process by its id.
pub struct Server {
    folder: PathBuf,
    running: Option<Running>,
    address: SocketAddr,
}

struct Running {
    child: Child,
    /// The words `NAME=ADDRESS` of the ready line, each with one served port.
    faces: Vec<String>,
    /// Kept open, because the server may still write to it.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server on an empty folder and waits until it is ready. `lines` are added to its
    /// zoo.cfg.
    pub fn start(name: &str, lines: &[&str]) -> Server {
        Server::start_in(folder(name), lines)
    }

    /// Like [`Server::start`], in a folder that the test made and may have put files into. The file
    /// [`JVMFLAGS_FILE`] holds the value of `JVMFLAGS`. Lines that begin with `-D` are added to
    /// that file instead of the zoo.cfg.
    pub fn start_in(folder: PathBuf, lines: &[&str]) -> Server {
        let data = folder.join("data");
        let mut config = format!("tickTime=2000\ndataDir={}\nclientPort=0\n", data.display());
        config += "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\n";
        let (flags, lines): (Vec<&str>, Vec<&str>) =
            lines.iter().partition(|line| line.starts_with("-D"));
        lines.iter().for_each(|line| config += &format!("{line}\n"));
        if !flags.is_empty() {
            let before = fs::read_to_string(folder.join(JVMFLAGS_FILE)).unwrap_or_default();
            let all = format!("{before} {}", flags.join(" "));
            fs::write(folder.join(JVMFLAGS_FILE), all).unwrap();
        }
        fs::write(folder.join("zoo.cfg"), config).unwrap();
        let (running, address) = Running::start(&folder);
        Server { folder, running: Some(running), address }
    }

    /// The address for ZooKeeper's clients. Its port changes with each start, unless
    /// [`Server::restart_at`] sets it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of another served port, by its name in the ready line. Panics if it is not
    /// served.
    pub fn face(&self, name: &str) -> SocketAddr {
        let faces = &self.running.as_ref().expect("the server runs").faces;
        let found = faces.iter().find_map(|face| face.strip_prefix(name)?.strip_prefix('='));
        found.expect("the face is served").parse().unwrap()
    }

    /// Whether the port of this name is served.
    pub fn has_face(&self, name: &str) -> bool {
        let faces = &self.running.as_ref().expect("the server runs").faces;
        faces.iter().any(|face| face.starts_with(&format!("{name}=")))
    }

    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of the server's configuration, log and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.running.as_ref().expect("the server runs").child)
    }

    /// Ends the server with SIGTERM and waits. Panics unless its status is 0.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        let pid = Pid::from_child(&running.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = running.child.wait().unwrap();
        assert!(status.success(), "it ended with {status}; {}", self.log());
    }

    /// Ends the server with SIGKILL and waits until it is gone.
    pub fn kill_nine(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }

    /// Starts the server again on its folder.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "stop it first");
        let (running, address) = Running::start(&self.folder);
        (self.running, self.address) = (Some(running), address);
    }

    /// Starts the server again on its folder, at this address.
    pub fn restart_at(&mut self, address: SocketAddr) {
        assert!(self.running.is_none(), "stop it first");
        let running = Running::start_at(&self.folder, address);
        (self.running, self.address) = (Some(running.0), running.1);
    }

    /// The text of the server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.kill_nine();
        }
        if !std::thread::panicking() {
            // An error does not matter, because the folder is below the target folder.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The command `quorate serve` with the zoo.cfg in a folder, at any free port. Its log goes to the
/// same folder.
pub fn command(folder: &Path) -> Command {
    command_at(folder, ANY_PORT)
}

/// Any free loopback port.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Like [`command`], at the address in the zoo.cfg.
pub fn command_of(folder: &Path) -> Command {
    command_with(folder, &[])
}

/// Like [`command`], at this address.
pub fn command_at(folder: &Path, address: SocketAddr) -> Command {
    command_with(folder, &["--zk-addr", &address.to_string()])
}

fn command_with(folder: &Path, arguments: &[&str]) -> Command {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let flags = format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command
        .arg("serve")
        .arg("--config")
        .arg(folder.join("zoo.cfg"))
        .args(arguments)
        .env("SERVER_JVMFLAGS", flags)
        .env("JVMFLAGS", fs::read_to_string(folder.join(JVMFLAGS_FILE)).unwrap_or_default())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command
}

impl Running {
    fn start(folder: &Path) -> (Running, SocketAddr) {
        Running::start_at(folder, ANY_PORT)
    }

    fn start_at(folder: &Path, address: SocketAddr) -> (Running, SocketAddr) {
        let mut child = command_at(folder, address).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let is_ready = words.next() == Some("quorate") && words.next() == Some("ready");
        let faces: Vec<String> = words.filter(|_| is_ready).map(str::to_string).collect();
        let address = faces.iter().find_map(|face| face.strip_prefix("zk=")?.parse().ok());
        let Some(address) = address else {
            // The server printed no ready line, so the test cannot use it.
            let _ = child.kill();
            let status = child.wait();
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            panic!("no ready line but {line:?}, {status:?}\n{log}");
        };
        (Running { child, faces, _stdout: stdout }, address)
    }
}

/// A free port outside the range of random ports. Servers of other tests use that range, and one of
/// them could be taken for the expected server. The ports of ensembles are below these.
pub fn port_of_its_own() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(61);
    loop {
        let next = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(26_000 + next % 6_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Addresses with ports from [`port_of_its_own`]; no other call in this process gets one of them.
pub fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    [(); N].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, port_of_its_own())))
}

/// The real ZooKeeper, started by `tests/peers/zk-server.sh`, which installs what is missing.
pub struct RealServer {
    folder: PathBuf,
    port: u16,
}

impl RealServer {
    /// Starts the server on an empty folder and waits until it answers.
    pub fn start(name: &str, lines: &[&str]) -> RealServer {
        RealServer::start_in(folder(name), lines)
    }

    /// Like [`Server::start_in`].
    pub fn start_in(folder: PathBuf, lines: &[&str]) -> RealServer {
        let server = RealServer { folder, port: port_of_its_own() };
        let mut start = server.script("start");
        start.env("ZK_CFG_EXTRA", lines.join("\\n"));
        let output = start.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the real server does not start: {stderr}");
        server
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The text of the server's log.
    pub fn log(&self) -> String {
        let folder = self.folder.join(format!("standalone-{}/s1/log", self.port));
        fs::read_to_string(folder).unwrap_or_default()
    }

    fn script(&self, action: &str) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let flags = format!(
            "-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST} \
             -Dzookeeper.forceSync=no {}",
            fs::read_to_string(self.folder.join(JVMFLAGS_FILE)).unwrap_or_default()
        );
        let mut command = Command::new("bash");
        command
            .arg(root.join("tests/peers/zk-server.sh"))
            .args([action, "standalone"])
            .env("ZK_PORT", self.port.to_string())
            .env("ZK_DATA", &self.folder)
            .env("ZK_FRESH", "1")
            .env("ZK_TIER", "1")
            .env("SERVER_JVMFLAGS", flags)
            // tests/run.sh sets this variable to this tree's binary.
            .env_remove("SERVER_CMD")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // A script started the server, and ends it by the process id that it noted.
        let _ = self.script("stop").env_remove("ZK_FRESH").output();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
