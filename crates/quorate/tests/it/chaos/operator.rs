//! Changes the servers of an ensemble by reconfig, at random times, while everything else goes
//! wrong.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use workload::generate::Random;

use super::ensemble::Ensemble;

/// How long one reconfig may take. The operator then gives it up; it may still happen.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long all servers may take to become participants once nothing goes wrong any more.
const END_PATIENCE: Duration = Duration::from_secs(90);

/// The servers that an operator can list, and what the operator did.
pub struct Operator {
    /// For each server, its lines as a participant and as an observer.
    lines: Vec<[String; 2]>,
    addresses: Vec<SocketAddr>,
    is_over: AtomicBool,
    /// The server that is to lose its data, because it is not listed.
    to_forget: Mutex<Option<usize>>,
}

/// How many changes there were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub changed: usize,
    pub refused: usize,
    pub replaced: usize,
}

impl Operator {
    pub fn new(ensemble: &Ensemble) -> Operator {
        let all = 0..ensemble.count();
        let line = |own| ["participant", "observer"].map(|role| ensemble.line(own, role));
        Operator {
            lines: all.clone().map(line).collect(),
            addresses: all.map(|own| ensemble.own_address(own)).collect(),
            is_over: AtomicBool::new(false),
            to_forget: Mutex::new(None),
        }
    }

    /// Changes the servers until [`Operator::end`].
    pub fn run(&self, mut random: Random) -> Done {
        let mut done = Done::default();
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(random.between(100, 1_500)));
            let roles: Vec<u64> = self.lines.iter().map(|_| random.below(4)).collect();
            // Half of them vote on average. With one vote, the loss of that server stops all.
            let voters = roles.iter().filter(|role| **role < 2).count();
            if voters < 2 {
                continue;
            }
            let listed = self.lines.iter().zip(&roles).filter(|(_, role)| **role < 3);
            let listed = listed.map(|(lines, role)| lines[usize::from(*role == 2)].as_str());
            let list = listed.collect::<Vec<_>>().join(",");
            let at = random.below(self.addresses.len() as u64) as usize;
            if !self.reconfig(at, &["-members", &list]) {
                done.refused += 1;
                continue;
            }
            done.changed += 1;
            let absent = roles.iter().position(|role| *role == 3);
            if let Some(absent) = absent.filter(|_| random.one_in(2)) {
                self.forget(absent);
                done.replaced += 1;
            }
        }
        done
    }

    /// Ends [`Operator::run`].
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The server whose data are to be deleted now. The caller reports it with
    /// [`Operator::on_forgotten`].
    pub fn to_forget(&self) -> Option<usize> {
        *self.to_forget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn on_forgotten(&self) {
        *self.to_forget.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Has a server that is not listed lose its data, and waits for that.
    fn forget(&self, own: usize) {
        *self.to_forget.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        while self.to_forget().is_some() && !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes all servers participants.
    ///
    /// # Panics
    /// It takes too long.
    pub fn list_all(&self) {
        let all: Vec<&str> = self.lines.iter().map(|[participant, _]| &**participant).collect();
        let began = Instant::now();
        let mut at = 0;
        while !self.reconfig(at, &["-members", &all.join(",")]) {
            assert!(began.elapsed() < END_PATIENCE, "the servers cannot all be listed");
            at = (at + 1) % self.addresses.len();
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asks a server for a change. Returns whether it was made.
    fn reconfig(&self, at: usize, words: &[&str]) -> bool {
        let shell = Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args(["zk", "-timeout", "10s", "-server", &self.addresses[at].to_string()])
            .arg("reconfig")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        succeeds(shell.unwrap())
    }
}

/// Waits for a process, and kills it if it takes too long.
fn succeeds(mut shell: Child) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = shell.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
    false
}
