use super::*;
use crate::servers::process::Processes;

fn texts(bytes: &[u8]) -> Vec<String> {
    strings(bytes).map(|it| it.into_string().unwrap()).collect()
}

#[test]
fn arguments_and_variables_are_told_apart_by_zero_bytes() {
    assert_eq!(texts(b"a\0-b\0\0c d\0"), ["a", "-b", "", "c d"]);
    assert_eq!(texts(b""), [""; 0]);
    assert_eq!(texts(b"a"), ["a"]);
    let (name, value) = pair(OsStr::new("A=b=c")).unwrap();
    assert_eq!((name.as_os_str(), value.as_os_str()), (OsStr::new("A"), OsStr::new("b=c")));
    assert_eq!(pair(OsStr::new("A")), None);
}

#[test]
fn a_member_of_a_local_ensemble_does_not_end_with_the_thread_that_starts_it_again() {
    let line = b"quorate\0serve\0--config\0/d/1/quorate.toml\0--end-with-parent\0";
    let arguments: Vec<OsString> = of_its_own(strings(line)).collect();
    assert_eq!(arguments, ["quorate", "serve", "--config", "/d/1/quorate.toml"]);
}

/// The launch of a process, read from `/proc` once the new program has replaced ours and has its
/// arguments: for a moment after `exec` it shows none.
fn once_running(pid: u32) -> Launch {
    loop {
        let launch = Launch::of(pid).unwrap();
        let Launch::Again { arguments, environment, .. } = &launch else { unreachable!() };
        if arguments.len() == 2 && arguments[0] == "sleep" && !environment.is_empty() {
            return launch;
        }
    }
}

/// A process is killed and started again; the new one has the same arguments, environment and
/// folder.
#[test]
fn a_process_is_started_again_as_it_was() {
    let folder = std::env::temp_dir().join(format!("quorate-launch-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let mut first = Command::new("sleep");
    first.arg("1000").env_clear().env("A", "b").current_dir(&folder).stdin(Stdio::null());
    let mut first = first.spawn().unwrap();
    let launch = once_running(first.id());
    let processes = Processes::of(&[first.id()]);
    assert!(!processes.are_gone());
    processes.kill().unwrap();
    while !processes.are_gone() {}
    first.wait().unwrap();
    assert!(processes.are_gone());
    assert!(processes.kill().is_err());
    let mut second = launch.start(&folder.join("log")).unwrap();
    assert_eq!(once_running(second.id()), launch);
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(Launch::of(first.id()).is_err());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_command_writes_into_the_file() {
    let path = std::env::temp_dir().join(format!("quorate-shell-{}", std::process::id()));
    let launch = Launch::Shell("echo out; echo err >&2".to_string());
    assert!(launch.start(&path).unwrap().wait().unwrap().success());
    assert_eq!(fs::read_to_string(&path).unwrap(), "out\nerr\n");
    fs::remove_file(&path).unwrap();
}
