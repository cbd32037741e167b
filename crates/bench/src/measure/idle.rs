//! The cost of servers while no client sends anything: CPU and wake-ups of each process.

use std::time::Duration;

use results::schema::{Figure, Good, Measured, Test};

use crate::measure::record::{OURS, PEER};
use crate::servers::process::Processes;
use crate::servers::target::Target;

/// The use of CPU of one server process while it was idle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleProcess {
    /// The process id.
    pub pid: u32,
    /// CPU time in percent of one core.
    pub core_percent: f64,
    /// Wake-ups of all its threads, a second.
    pub wakeups_per_s: f64,
}

/// Sleeps for `seconds` and measures all processes of all targets meanwhile. The result has a list
/// for each target; it is empty if the target is not on this machine.
pub fn measure(targets: &[Target], seconds: u64) -> Vec<Vec<IdleProcess>> {
    let all: Vec<Vec<Processes>> = targets.iter().map(each_process).collect();
    let look = |one: &Processes| Some((one.cpu_ns()?, one.waits()?));
    let before: Vec<Vec<_>> = all.iter().map(|it| it.iter().map(look).collect()).collect();
    let began = std::time::Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    let elapsed_s = began.elapsed().as_secs_f64();
    let measured = |(one, before): (&Processes, &Option<(u64, _)>)| {
        let ((cpu_ns, waits), (cpu_ns_before, waits_before)) = look(one).zip(before.as_ref())?;
        let cpu_s = cpu_ns.saturating_sub(*cpu_ns_before) as f64 / 1e9;
        Some(IdleProcess {
            pid: *one.pids().first()?,
            core_percent: cpu_s * 100.0 / elapsed_s,
            wakeups_per_s: waits.since(waits_before) as f64 / elapsed_s,
        })
    };
    let pairs = all.iter().zip(&before);
    pairs.map(|(all, before)| all.iter().zip(before).filter_map(measured).collect()).collect()
}

fn each_process(target: &Target) -> Vec<Processes> {
    let pids = target.processes().map_or(&[][..], Processes::pids);
    pids.iter().map(|pid| Processes::of(&[*pid])).collect()
}

/// One line of text for each target.
pub fn lines(targets: &[Target], idle: &[Vec<IdleProcess>], seconds: u64) -> String {
    let mut out = String::new();
    for (target, members) in targets.iter().zip(idle) {
        let list = |figure: &dyn Fn(&IdleProcess) -> String| {
            members.iter().map(figure).collect::<Vec<_>>().join(", ")
        };
        let line = match members.as_slice() {
            [] => "not on this machine".to_string(),
            _ => format!(
                "CPU of each process {} % of a core, wake-ups a second {}",
                list(&|it| format!("{:.2}", it.core_percent)),
                list(&|it| format!("{:.0}", it.wakeups_per_s)),
            ),
        };
        out += &format!("idle for {seconds} s without a client: {}: {line}\n", target.name);
    }
    out
}

/// The measurements as a test in the schema of all results.
pub fn to_test(idle: &[Vec<IdleProcess>], seconds: u64) -> Test {
    let figure = |name: String, unit: &str, value: f64| Figure {
        name,
        unit: unit.to_string(),
        good: Good::Less,
        values: vec![value],
        is_headline: true,
    };
    let of_process = |(number, it): (usize, &IdleProcess)| {
        [
            figure(format!("CPU of server {}", number + 1), "% of a core", it.core_percent),
            figure(format!("wake-ups of server {}", number + 1), "per s", it.wakeups_per_s),
        ]
    };
    let system = |(id, all): (&str, &Vec<IdleProcess>)| Measured {
        system: id.to_string(),
        figures: all.iter().enumerate().flat_map(of_process).collect(),
        ..Measured::default()
    };
    Test {
        title: format!("idle for {seconds} s without a client"),
        systems: [OURS, PEER].into_iter().zip(idle).map(system).collect(),
        ..Test::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn a_server_that_is_no_process_of_its_own_has_no_figures() {
        let null = NullServer::start(1).unwrap();
        let targets = [null.target()];
        let idle = measure(&targets, 0);
        assert_eq!(idle, [vec![]]);
        assert!(lines(&targets, &idle, 0).ends_with("not on this machine\n"));
    }

    #[test]
    fn each_process_has_its_figures() {
        let null = NullServer::start(1).unwrap();
        let one =
            |pid, core_percent, wakeups_per_s| IdleProcess { pid, core_percent, wakeups_per_s };
        let idle = [vec![one(1, 0.125, 40.0), one(2, 0.5, 130.4)]];
        let text = lines(&[null.target()], &idle, 10);
        assert!(text.ends_with("0.12, 0.50 % of a core, wake-ups a second 40, 130\n"), "{text}");
        let test = to_test(&idle, 10);
        let ours = test.of(OURS).unwrap();
        assert_eq!(ours.figure("wake-ups of server 2").unwrap().values, [130.4]);
    }
}
