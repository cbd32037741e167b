//! Starts and ends the servers of a reproduction. Quorate and the peer are started alike: a program
//! gets the configuration file or the options that the peer's own users would give it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::iter;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use results::schema::{Role, System};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::cores::Cores;
use crate::limits::{MEMBER_LOOK_PAUSE, SERVER_END_LIMIT, SERVER_START_LIMIT};
use crate::servers::interrupt::Interrupt;
use crate::servers::process::Processes;
use crate::servers::spawned::{end_of, free_ports, spawn};
use crate::servers::target::{Scheme, Target, TargetAddress, mode_at};
use crate::workloads::etcd::v2::load;

/// A system (Quorate or the peer), and how to get its servers.
#[derive(Clone, Debug)]
pub struct Maker {
    /// The id of the system in the results.
    pub id: &'static str,
    /// The role of the system in the results.
    pub role: Role,
    /// How to get its servers.
    pub how: How,
    /// The heap, MB, for servers that are real ZooKeepers; `None` leaves it to their scripts.
    /// `ZK_HEAP` and `ZK_SERVER_HEAP`, if they are set in the environment, take precedence.
    pub heap_mb: Option<u32>,
    /// Whether the user did not ask for this system. If so, a run goes on without it when it cannot
    /// be started.
    pub is_default: bool,
}

/// Where servers keep their files and on which cores they run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The folder in which each server gets a folder for its data.
    pub folder: &'a Path,
    /// A folder on another disk in which each server gets a folder for its log; `None` if logs are
    /// with the data.
    pub logs: Option<&'a Path>,
    /// The cores that all servers share.
    pub cores: &'a Cores,
}

/// How to get servers.
#[derive(Clone, Debug)]
pub enum How {
    /// Start this program with these first arguments. The path of a `zoo.cfg`, or options of etcd,
    /// follow.
    Program(Vec<OsString>),
    /// The servers run already. Each address is one set of servers; a test takes the address that
    /// names as many servers as it needs.
    Running(Vec<TargetAddress>),
}

/// The running servers of one system. Dropping this ends those that were started here, and removes
/// their data.
#[derive(Debug)]
pub struct Servers {
    /// The id of their system in the results.
    pub id: &'static str,
    /// The servers as a target.
    pub target: Target,
    /// The description of the system in the results.
    pub system: System,
    /// For each server the folders with its data and its log; empty if the servers were not started
    /// here.
    pub data: Vec<Vec<PathBuf>>,
    /// The folders that contain all folders in `data`. They are removed in the end.
    above: Vec<PathBuf>,
    started: Option<Started>,
}

/// The processes that were started. Dropping this ends them.
#[derive(Debug)]
struct Started {
    children: Vec<Child>,
    /// For each process, the file with its output.
    outputs: Vec<PathBuf>,
    interrupt: Interrupt,
}

/// A server that is ready to be started.
struct Planned {
    arguments: Vec<OsString>,
    address: SocketAddr,
    /// Environment variables that it gets besides those of this process.
    environment: Vec<(&'static str, String)>,
    output: PathBuf,
    /// The folders with its data and its log.
    data: Vec<PathBuf>,
}

impl Maker {
    /// Whether the servers run already.
    pub fn is_running(&self) -> bool {
        matches!(self.how, How::Running(_))
    }

    /// Runs the program once with `--version`, and waits for its end, however long that takes: the
    /// scripts of the source tree fetch or build what they start. The exit status does not matter.
    ///
    /// # Errors
    /// The program cannot be run, or a signal asks the run to end.
    pub fn prepare(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let How::Program(command) = &self.how else { return Ok(()) };
        let (program, arguments) = command.split_first().context("the program has no name")?;
        let mut child = Interrupt::start(|| {
            let mut command = Command::new(program);
            command.args(arguments).arg("--version").process_group(0).stdin(Stdio::null());
            Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
        })
        .with_context(|| PathBuf::from(program).display().to_string())?;
        while child.try_wait()?.is_none() {
            if interrupt.is_asked() {
                // The process may have ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
            interrupt.check()?;
            std::thread::sleep(MEMBER_LOOK_PAUSE);
        }
        Ok(())
    }

    /// Starts `count` servers and waits until all serve. `None` if the system's servers run
    /// already, but no set of that size.
    ///
    /// # Errors
    /// A server does not serve in time, or ends before that.
    pub fn start(
        &self,
        scheme: Scheme,
        count: usize,
        at: Place<'_>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Servers>> {
        let command = match &self.how {
            How::Running(all) => {
                let Some(address) = all.iter().find(|it| it.count() == count) else {
                    return Ok(None);
                };
                address.check_scheme(scheme)?;
                let started = Started::none(interrupt);
                let configuration = vec!["ran already: its cores are its own".to_string()];
                return self.found(address, configuration, started).map(Some);
            }
            How::Program(command) => command,
        };
        let make = |above: &Path| {
            let folder = above.join(format!("{}-{count}", self.id));
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            anyhow::Ok(folder)
        };
        let folder = make(at.folder)?;
        let logs = at.logs.map(make).transpose()?;
        let (planned, configuration) = match scheme {
            Scheme::Zk => plan_zk((&folder, logs.as_deref()), count, self.heap_mb)?,
            Scheme::Etcd | Scheme::Etcd2 => plan_etcd(&folder, count, scheme == Scheme::Etcd2)?,
        };
        let started = start_all(command, &planned, at.cores, interrupt)?;
        let addresses: Vec<String> = planned.iter().map(|it| it.address.to_string()).collect();
        let address = format!("{scheme}://{}", addresses.join(","));
        let address = address.parse().map_err(anyhow::Error::msg)?;
        let mut servers = self.found(&address, configuration, started)?;
        // Ports of servers that were started here tell a reader nothing.
        servers.system.address.clear();
        servers.data = planned.into_iter().map(|it| it.data).collect();
        servers.above = [Some(folder), logs].into_iter().flatten().collect();
        Ok(Some(servers))
    }

    fn found(
        &self,
        address: &TargetAddress,
        mut configuration: Vec<String>,
        started: Started,
    ) -> anyhow::Result<Servers> {
        let mut target = Target::find(address)?;
        configuration.extend(jvm_options(&target));
        let (mut name, build) = name_and_build(&target);
        if self.role == Role::Ours {
            name = format!("Quorate {}", env!("CARGO_PKG_VERSION"));
        }
        target.name.clone_from(&name);
        let system = System {
            id: self.id.to_string(),
            role: self.role,
            name,
            address: target.address.clone(),
            build,
            configuration,
        };
        let (data, above) = (Vec::new(), Vec::new());
        Ok(Servers { id: self.id, target, system, data, above, started: Some(started) })
    }
}

impl Servers {
    /// The null server as a system of its own.
    pub fn from_null(target: Target) -> Servers {
        let system = System {
            id: "null".to_string(),
            role: Role::Null,
            name: target.name.clone(),
            ..System::default()
        };
        let (data, above) = (Vec::new(), Vec::new());
        Servers { id: "null", target, system, data, above, started: None }
    }

    /// Describes each started server that has ended or has run out of memory. (A client only sees
    /// that its connection ends.) Empty if there is none.
    pub fn troubles(&self) -> String {
        self.started.as_ref().map(Started::troubles).unwrap_or_default()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.started.take());
        for folder in &self.above {
            // If this fails, the folder above, which is also removed in the end, reports what is
            // left.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Started {
    fn none(interrupt: &Interrupt) -> Started {
        let (children, outputs) = (Vec::new(), Vec::new());
        Started { children, outputs, interrupt: interrupt.clone() }
    }

    /// Describes each server that has ended, with its last output, or that has run out of memory.
    fn troubles(&self) -> String {
        let all = (1..).zip(self.children.iter().zip(&self.outputs));
        let of_one = |(id, (child, output)): (usize, (&Child, &PathBuf))| {
            let what = if has_ended(child) {
                format!("has ended: {}", end_of(output))
            } else {
                // A JVM may go on without the thread that found no memory.
                let line = line_with(output, "OutOfMemoryError")?;
                format!("has too little memory: {line}")
            };
            Some(format!("server {id} {what}"))
        };
        all.filter_map(of_one).collect::<Vec<_>>().join("; ")
    }

    /// Asks all servers to end, and kills those that do not end in time.
    fn end(&mut self) {
        for child in &self.children {
            // The process may have ended already.
            let _ = Processes::of(&[child.id()]).stop();
        }
        let due_at = Instant::now() + SERVER_END_LIMIT;
        for child in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < due_at {
                std::thread::sleep(MEMBER_LOOK_PAUSE);
            }
            let _ = child.kill();
            let _ = child.wait();
            self.interrupt.forget(child.id());
        }
        self.children.clear();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}

impl Planned {
    /// Starts the server with this program and its first arguments.
    fn spawn(&self, command: &[OsString]) -> anyhow::Result<Child> {
        let variables = self.environment.iter().map(|(name, value)| (*name, value));
        spawn(command.iter().chain(&self.arguments), variables, &self.output)
    }
}

/// Starts the planned servers, and waits until all of them serve.
fn start_all(
    command: &[OsString],
    planned: &[Planned],
    cores: &Cores,
    interrupt: &Interrupt,
) -> anyhow::Result<Started> {
    let own = Cores::all()?;
    let mut started = Started::none(interrupt);
    cores.take()?;
    let spawned = planned.iter().try_for_each(|server| {
        let child = Interrupt::start(|| server.spawn(command))?;
        interrupt.kill_at_exit(child.id());
        started.children.push(child);
        started.outputs.push(server.output.clone());
        anyhow::Ok(())
    });
    own.take()?;
    spawned?;
    let due_at = Instant::now() + SERVER_START_LIMIT;
    for (child, server) in started.children.iter_mut().zip(planned) {
        while !serves(server) {
            interrupt.check()?;
            let status = child.try_wait()?;
            let is_late = Instant::now() > due_at;
            if status.is_some() || is_late {
                let why = match status {
                    Some(status) => format!("ended ({status})"),
                    None => format!("does not serve after {} s", SERVER_START_LIMIT.as_secs()),
                };
                let program = command.first().map(PathBuf::from).unwrap_or_default();
                bail!("{} {why}: {}", program.display(), end_of(&server.output));
            }
            std::thread::sleep(MEMBER_LOOK_PAUSE);
        }
    }
    Ok(started)
}

/// The environment variables that set the heap of a real ZooKeeper, except those that the user has
/// set. The scripts of the source tree read `ZK_HEAP`; the distribution's `zkEnv.sh` reads
/// `ZK_SERVER_HEAP` (MB).
fn heap_variables(mb: u32) -> impl Iterator<Item = (&'static str, String)> {
    let both = [("ZK_HEAP", format!("{mb}m")), ("ZK_SERVER_HEAP", mb.to_string())];
    both.into_iter().filter(|(name, _)| std::env::var_os(name).is_none())
}

/// Whether a server answers clients.
fn serves(server: &Planned) -> bool {
    let is_etcd = server.arguments.iter().any(|it| it == "--listen-client-urls");
    if is_etcd {
        let health = load::ask(server.address, &load::get("/health"));
        health.is_ok_and(|(_, body)| String::from_utf8_lossy(&body).contains("true"))
    } else {
        mode_at(&server.address).is_some()
    }
}

/// Whether a child has ended. Leaves its exit status for the later `wait`.
fn has_ended(child: &Child) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), how), Ok(Some(_))))
}

/// The first line of a file that contains `text`.
fn line_with(output: &Path, text: &str) -> Option<String> {
    let lines = BufReader::new(File::open(output).ok()?).lines();
    lines.map_while(Result::ok).find(|line| line.contains(text))
}

/// The JVM options (`-Xmx512m` and the like) of a target's first server; `None` if it has none or
/// is no JVM. Options that contain a path are left out.
fn jvm_options(target: &Target) -> Option<String> {
    let pid = target.processes()?.pids().first().copied()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let of_jvm = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let of_jvm = of_jvm.filter(|it| it.starts_with("-X") && !it.contains('/'));
    let all = of_jvm.map(std::borrow::Cow::into_owned).collect::<Vec<_>>().join(" ");
    (!all.is_empty()).then(|| format!("JVM: {all}"))
}

/// A system's name without its number of servers, and what identifies its build among those of the
/// same version: the commit if the name has one, else the size of the program and the time when it
/// was changed.
fn name_and_build(target: &Target) -> (String, String) {
    let name = target.name.split(", ").next().unwrap_or_default();
    let is_commit = |text: &str| text.len() == 40 && text.bytes().all(|it| it.is_ascii_hexdigit());
    match name.rsplit_once('-') {
        Some((name, commit)) if is_commit(commit) => (name.to_string(), commit.to_string()),
        _ => (name.to_string(), program_of(target)),
    }
}

fn program_of(target: &Target) -> String {
    let pid = target.processes().and_then(|it| it.pids().first().copied());
    let Some(pid) = pid else { return String::new() };
    let about = fs::read_link(format!("/proc/{pid}/exe"))
        .and_then(|program| Ok((fs::metadata(&program)?, program)));
    let Ok((file, program)) = about else { return String::new() };
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let changed = file.modified().map(crate::measure::record::utc).unwrap_or_default();
    format!("{name}, {} bytes, of {changed}", file.len())
}

/// Plans servers that get a `zoo.cfg` each. Also returns the configuration that all of them share.
fn plan_zk(
    (folder, logs): (&Path, Option<&Path>),
    count: usize,
    heap_mb: Option<u32>,
) -> anyhow::Result<(Vec<Planned>, Vec<String>)> {
    let ports = free_ports(3 * count)?;
    let common = [
        "tickTime=2000",
        "initLimit=10",
        "syncLimit=5",
        "clientPortAddress=127.0.0.1",
        "maxClientCnxns=0",
        "4lw.commands.whitelist=*",
        "admin.enableServer=false",
    ];
    let members: Vec<String> = match count {
        1 => Vec::new(),
        _ => (1..=count)
            .zip(ports[count..].chunks(2))
            .map(|(id, of_one)| format!("server.{id}=127.0.0.1:{}:{}", of_one[0], of_one[1]))
            .collect(),
    };
    let mut planned = Vec::new();
    for (id, port) in (1..=count).zip(&ports) {
        let data = folder.join(format!("data{id}"));
        fs::create_dir(&data)?;
        fs::write(data.join("myid"), format!("{id}\n"))?;
        let mut own = vec![format!("dataDir={}", data.display()), format!("clientPort={port}")];
        let log = logs.map(|logs| logs.join(format!("log{id}")));
        if let Some(log) = &log {
            fs::create_dir(log)?;
            own.push(format!("dataLogDir={}", log.display()));
        }
        let lines = common.iter().map(|it| (*it).to_string()).chain(own).chain(members.clone());
        let config = folder.join(format!("zoo{id}.cfg"));
        fs::write(&config, lines.map(|line| line + "\n").collect::<String>())?;
        planned.push(Planned {
            arguments: vec![config.into()],
            address: (Ipv4Addr::LOCALHOST, *port).into(),
            environment: heap_mb.into_iter().flat_map(heap_variables).collect(),
            output: folder.join(format!("output{id}")),
            data: iter::once(data).chain(log).collect(),
        });
    }
    ensure!(!planned.is_empty(), "there is no server to start");
    Ok((planned, common.iter().map(|it| (*it).to_string()).collect()))
}

/// Plans servers that get etcd's options. Also returns the options that all of them share.
fn plan_etcd(
    folder: &Path,
    count: usize,
    has_v2: bool,
) -> anyhow::Result<(Vec<Planned>, Vec<String>)> {
    let ports = free_ports(2 * count)?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let members: Vec<String> =
        ports.chunks(2).enumerate().map(|(id, it)| format!("m{id}={}", url(it[1]))).collect();
    let mut common = vec!["--initial-cluster-state=new".to_string()];
    if has_v2 {
        common.push("--enable-v2=true".to_string());
    }
    let plan = |(id, of_one): (usize, &[u16])| {
        let (client, peer) = (url(of_one[0]), url(of_one[1]));
        let mut arguments: Vec<OsString> = [
            "--name",
            &format!("m{id}"),
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &members.join(","),
            "--data-dir",
        ]
        .map(OsString::from)
        .to_vec();
        let data = folder.join(format!("data{id}"));
        arguments.push(data.clone().into());
        arguments.extend(common.iter().map(OsString::from));
        let address = (Ipv4Addr::LOCALHOST, of_one[0]).into();
        let output = folder.join(format!("output{id}"));
        Planned { arguments, address, environment: Vec::new(), output, data: vec![data] }
    };
    Ok((ports.chunks(2).enumerate().map(plan).collect(), common))
}

/// How long to wait between the start of servers and the first request that counts. Meanwhile they
/// elect a leader and raise their level.
pub const SETTLE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::folder::Folder;

    #[test]
    fn each_server_has_its_files_and_ports() {
        let folder = Folder::make(&std::env::temp_dir(), "plan").unwrap();
        let (planned, common) = plan_zk((folder.path(), None), 3, None).unwrap();
        assert_eq!(planned.len(), 3);
        let text = fs::read_to_string(&planned[2].arguments[0]).unwrap();
        assert!(text.contains(&format!("clientPort={}\n", planned[2].address.port())), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("server.")).count(), 3);
        assert!(common.iter().all(|line| text.contains(line)));
        assert_eq!(fs::read_to_string(folder.path().join("data3/myid")).unwrap(), "3\n");
        let alone = Folder::make(&std::env::temp_dir(), "alone").unwrap();
        let logs = Folder::make(&std::env::temp_dir(), "logs").unwrap();
        let (planned, _) = plan_zk((alone.path(), Some(logs.path())), 1, None).unwrap();
        let text = fs::read_to_string(&planned[0].arguments[0]).unwrap();
        assert!(!text.contains("server."), "{text}");
        assert!(text.contains(&format!("dataLogDir={}", logs.path().display())), "{text}");
    }

    fn maker(script: &str, heap_mb: Option<u32>) -> Maker {
        let how = How::Program(["sh", "-c", script].map(OsString::from).to_vec());
        Maker { id: "ours", role: Role::Ours, how, heap_mb, is_default: false }
    }

    fn error_of(maker: &Maker) -> String {
        let folder = Folder::make(&std::env::temp_dir(), "ends").unwrap();
        let cores = Cores::all().unwrap();
        let at = Place { folder: folder.path(), logs: None, cores: &cores };
        maker.start(Scheme::Zk, 1, at, &Interrupt::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_program_that_ends_is_an_error_with_its_output() {
        let error = error_of(&maker("echo no such port; exit 3", None));
        assert!(error.contains("no such port") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_real_server_gets_the_heap_of_its_maker() {
        let script = "echo heap ${ZK_HEAP:-own}, ${ZK_SERVER_HEAP:-own}; exit 3";
        let error = error_of(&maker(script, Some(3_072)));
        assert!(error.contains("heap 3072m, 3072"), "{error}");
        let error = error_of(&maker(script, None));
        assert!(error.contains("heap own, own"), "{error}");
    }

    #[test]
    fn servers_tell_what_is_wrong_with_them() {
        let folder = Folder::make(&std::env::temp_dir(), "wrong").unwrap();
        let scripts = [
            "echo the disk is full; exit 3",
            "echo java.lang.OutOfMemoryError: Java heap space; echo later; sleep 60",
            "echo all is well; sleep 60",
        ];
        let mut started = Started::none(&Interrupt::default());
        for (id, script) in scripts.iter().enumerate() {
            let output = folder.path().join(format!("output{id}"));
            let planned = Planned {
                arguments: Vec::new(),
                address: (Ipv4Addr::LOCALHOST, 0).into(),
                environment: Vec::new(),
                output: output.clone(),
                data: Vec::new(),
            };
            let command = ["sh", "-c", script].map(OsString::from);
            started.children.push(planned.spawn(&command).unwrap());
            started.outputs.push(output);
        }
        let due_at = Instant::now() + SERVER_END_LIMIT;
        let expected = "server 1 has ended: the disk is full; server 2 has too little memory: \
                        java.lang.OutOfMemoryError: Java heap space";
        while started.troubles() != expected && Instant::now() < due_at {
            std::thread::sleep(MEMBER_LOOK_PAUSE);
        }
        assert_eq!(started.troubles(), expected);
    }
}
