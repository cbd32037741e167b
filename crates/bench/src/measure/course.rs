//! Samples a run while it goes on: the rate and the latencies of the last moment, and the CPU,
//! memory and disk that the servers used in it. Reports plot these samples.
//!
//! While a [`Course`] watches, the clients of this process count their answers into global atomic
//! counters. At most one run is watched at a time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use results::schema::{Moment, Usage};

use crate::limits::{COURSE_MOMENTS_MAX, COURSE_PAUSE};
use crate::servers::data_folder::disk_bytes;
use crate::servers::process::{Memory, Processes};
use crate::servers::target::Target;

const MIB: f64 = (1 << 20) as f64;

/// Buckets for each power of two of a latency: the resolution of the histogram.
const PARTS: usize = 8;

/// Enough buckets for latencies from 1 us to an hour.
const BUCKETS: usize = 33 * PARTS;

/// The counters that all clients of this process share.
static ANSWERS: Answers = Answers::new();

/// Counts the answers in each bucket of latencies, while a [`Course`] watches.
struct Answers {
    is_watched: AtomicBool,
    counts: [AtomicU64; BUCKETS],
}

impl Answers {
    const fn new() -> Answers {
        let counts = [const { AtomicU64::new(0) }; BUCKETS];
        Answers { is_watched: AtomicBool::new(false), counts }
    }

    fn count(&self, took_ns: u64) {
        if self.is_watched.load(Ordering::Relaxed) {
            self.counts[bucket(took_ns / 1_000)].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// If a course watches, counts an answer that took `took_ns`.
pub fn count(took_ns: u64) {
    ANSWERS.count(took_ns);
}

fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let exponent = us.ilog2() as usize;
    let part = match exponent {
        0..=2 => (us << (3 - exponent)) as usize % PARTS,
        _ => (us >> (exponent - 3)) as usize % PARTS,
    };
    (exponent * PARTS + part).min(BUCKETS - 1)
}

/// The least latency that falls into a bucket, ms.
fn least_ms(bucket: usize) -> f64 {
    let (exponent, part) = (bucket / PARTS, bucket % PARTS);
    2f64.powi(exponent as i32) * (1.0 + part as f64 / PARTS as f64) / 1_000.0
}

/// Watches a run: a thread that takes a look at the counters and the servers from time to time.
pub struct Course {
    answers: &'static Answers,
    end: Sender<()>,
    thread: JoinHandle<Vec<Moment>>,
}

impl Course {
    /// Starts to watch the clients of this process and the servers of `target`. `data` has the data
    /// folders of each server, in the order of the target's addresses; empty if they are not known.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn watch(target: &Target, data: &[Vec<PathBuf>]) -> anyhow::Result<Course> {
        Course::of(&ANSWERS, target, data)
    }

    fn of(
        answers: &'static Answers,
        target: &Target,
        data: &[Vec<PathBuf>],
    ) -> anyhow::Result<Course> {
        let (end, ended) = channel();
        let mut looks = Looks::start(answers, target.clone(), data);
        let look = move || {
            while ended.recv_timeout(looks.pause) == Err(RecvTimeoutError::Timeout) {
                looks.look();
            }
            looks.look();
            looks.moments
        };
        answers.is_watched.store(true, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("course".to_string()).spawn(look)?;
        Ok(Course { answers, end, thread })
    }

    /// Takes the last look, stops watching, and returns all moments.
    pub fn end(self) -> Vec<Moment> {
        let Course { answers, end, thread } = self;
        drop(end);
        let mut moments = thread.join().expect("the thread does not panic");
        // The clients were in another process, which counts into its own counters.
        if moments.iter().all(|moment| moment.rate == Some(0.0)) {
            moments.iter_mut().for_each(|moment| moment.rate = None);
        }
        answers.is_watched.store(false, Ordering::Relaxed);
        moments
    }
}

struct Looks {
    answers: &'static Answers,
    target: Target,
    data: Vec<PathBuf>,
    /// The servers one by one, if the target has several; empty if their processes cannot be told
    /// apart.
    servers: Vec<Server>,
    began: Instant,
    last_s: f64,
    counts: Vec<u64>,
    cpu_ns: Option<u64>,
    /// The time between two looks. It doubles whenever there are too many moments for a plot.
    pause: Duration,
    moments: Vec<Moment>,
}

/// One server of a target with several.
struct Server {
    processes: Processes,
    data: Vec<PathBuf>,
    /// The CPU time of its processes at the last look.
    cpu_ns: Option<u64>,
}

impl Server {
    /// The servers of a target, each with its processes. Empty if the target has one server, or the
    /// processes of a server are not known.
    fn all(target: &Target, data: &[Vec<PathBuf>]) -> Vec<Server> {
        if target.addresses.len() < 2 || target.processes().is_none() {
            return Vec::new();
        }
        let server = |(at, address): (usize, &SocketAddr)| {
            let processes = Processes::listening(&[*address]);
            let cpu_ns = processes.cpu_ns()?;
            Some(Server {
                processes,
                data: data.get(at).cloned().unwrap_or_default(),
                cpu_ns: Some(cpu_ns),
            })
        };
        let all: Option<Vec<Server>> = target.addresses.iter().enumerate().map(server).collect();
        all.unwrap_or_default()
    }

    fn look(&mut self, passed_s: f64) -> Usage {
        let now_ns = self.processes.cpu_ns();
        let then_ns = std::mem::replace(&mut self.cpu_ns, now_ns);
        usage((then_ns, now_ns, passed_s), self.processes.memory(), &self.data)
    }
}

/// The usage of servers at one moment: cores (from the CPU time then and now, and the seconds
/// between), memory, and the bytes in their folders.
fn usage(
    (then_ns, now_ns, passed_s): (Option<u64>, Option<u64>, f64),
    memory: Option<Memory>,
    data: &[PathBuf],
) -> Usage {
    let cpu_ns = now_ns.zip(then_ns).map(|(now, then)| now.saturating_sub(then));
    let disk_bytes = data.iter().map(|folder| disk_bytes(folder)).sum::<u64>();
    Usage {
        cpu_cores: cpu_ns.map(|ns| rounded(ns as f64 / 1e9 / passed_s)),
        resident_mib: memory.map(|memory| rounded(memory.resident as f64 / MIB)),
        disk_mib: (!data.is_empty()).then(|| rounded(disk_bytes as f64 / MIB)),
    }
}

/// The usage of several servers together; a figure that one of them lacks is `None`.
fn sum(servers: &[Usage]) -> Usage {
    let sum = |value: fn(&Usage) -> Option<f64>| {
        servers.iter().map(value).sum::<Option<f64>>().map(rounded)
    };
    Usage {
        cpu_cores: sum(|usage| usage.cpu_cores),
        resident_mib: sum(|usage| usage.resident_mib),
        disk_mib: sum(|usage| usage.disk_mib),
    }
}

impl Looks {
    fn start(answers: &'static Answers, target: Target, data: &[Vec<PathBuf>]) -> Looks {
        Looks {
            answers,
            servers: Server::all(&target, data),
            began: Instant::now(),
            last_s: 0.0,
            counts: answers.counts(),
            cpu_ns: target.cpu_ns(),
            pause: COURSE_PAUSE,
            moments: Vec::new(),
            target,
            data: data.concat(),
        }
    }

    fn look(&mut self) {
        let at_s = self.began.elapsed().as_secs_f64();
        let (counts, cpu_ns) = (self.answers.counts(), self.target.cpu_ns());
        let passed_s = at_s - self.last_s;
        // The last look may come right after another one. Its rate would be noise.
        if passed_s < COURSE_PAUSE.as_secs_f64() / 10.0 && !self.moments.is_empty() {
            return;
        }
        let new: Vec<u64> = counts.iter().zip(&self.counts).map(|(now, then)| now - then).collect();
        let servers: Vec<Usage> =
            self.servers.iter_mut().map(|server| server.look(passed_s)).collect();
        let all = match &servers[..] {
            [] => usage((self.cpu_ns, cpu_ns, passed_s), self.target.memory(), &self.data),
            several => sum(several),
        };
        self.moments.push(Moment {
            at_s: rounded(at_s),
            rate: Some(rounded(new.iter().sum::<u64>() as f64 / passed_s)),
            p50_ms: percentile_ms(&new, 0.5).map(rounded),
            p99_ms: percentile_ms(&new, 0.99).map(rounded),
            all,
            servers,
        });
        (self.last_s, self.counts, self.cpu_ns) = (at_s, counts, cpu_ns);
        if self.moments.len() > COURSE_MOMENTS_MAX {
            self.pause *= 2;
            self.thin_out();
        }
    }

    /// Merges each two neighbouring moments into one: the mean rate and CPU, the worse latencies,
    /// and the memory and disk of the later one.
    fn thin_out(&mut self) {
        let mean = |one: Option<f64>, other: Option<f64>| Some(rounded((one? + other?) / 2.0));
        let worse =
            |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
        let usage = |one: &Usage, other: &Usage| Usage {
            cpu_cores: mean(one.cpu_cores, other.cpu_cores),
            ..*other
        };
        let of_two = |two: &[Moment]| {
            let [one, other] = two else { return two[0].clone() };
            Moment {
                at_s: other.at_s,
                rate: mean(one.rate, other.rate),
                p50_ms: worse(one.p50_ms, other.p50_ms),
                p99_ms: worse(one.p99_ms, other.p99_ms),
                all: usage(&one.all, &other.all),
                servers: one
                    .servers
                    .iter()
                    .zip(&other.servers)
                    .map(|it| usage(it.0, it.1))
                    .collect(),
            }
        };
        self.moments = self.moments.chunks(2).map(of_two).collect();
    }
}

/// A value rounded to five digits: a plot shows no more, and files stay small.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn percentile_ms(counts: &[u64], part: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * part).ceil() as u64;
    let mut seen = 0;
    let at = counts.iter().position(|count| {
        seen += count;
        seen >= wanted.max(1)
    })?;
    Some(least_ms(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    #[test]
    fn latencies_fall_into_buckets_that_rise() {
        let mut last = 0;
        for us in 1..100_000u64 {
            let at = bucket(us);
            assert!(at >= last, "{us}");
            last = at;
            assert!(least_ms(at) <= us as f64 / 1_000.0, "{us}");
            assert!(least_ms(at + 1) > us as f64 / 1_000.0, "{us}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_course_has_the_rate_and_the_latencies_of_its_moments() {
        let null = NullServer::start(1).unwrap();
        let answers: &'static Answers = Box::leak(Box::new(Answers::new()));
        answers.count(1);
        let course = Course::of(answers, &null.target(), &[]).unwrap();
        (0..100).for_each(|_| answers.count(3_000_000));
        std::thread::sleep(COURSE_PAUSE * 2);
        let moments = course.end();
        let counted: f64 = moments
            .iter()
            .scan(0.0, |last, moment| {
                let passed_s = moment.at_s - std::mem::replace(last, moment.at_s);
                Some(moment.rate.unwrap() * passed_s)
            })
            .sum();
        assert!((99.0..101.0).contains(&counted), "{counted}");
        let p99_ms = moments.iter().find_map(|moment| moment.p99_ms).unwrap();
        assert!((3.0..3.5).contains(&p99_ms), "{p99_ms}");
    }

    #[test]
    fn a_long_course_is_thinned_out() {
        let null = NullServer::start(1).unwrap();
        let mut looks = Looks::start(&ANSWERS, null.target(), &[]);
        looks.moments = (1..=4)
            .map(|at| Moment { at_s: f64::from(at), rate: Some(1.0), ..Moment::default() })
            .collect();
        looks.thin_out();
        let times: Vec<f64> = looks.moments.iter().map(|moment| moment.at_s).collect();
        assert_eq!(times, [2.0, 4.0]);
    }
}
