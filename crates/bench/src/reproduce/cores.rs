//! The cores that servers and generator run on. A process inherits the cores of the thread that
//! starts it, and so does a thread.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Some cores, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

/// The cores of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The cores that all servers share.
    pub servers: Cores,
    /// The cores of the generator: all others, or those of the servers if no other is left.
    pub generator: Cores,
}

impl Cores {
    /// The cores that this thread may use.
    ///
    /// # Errors
    /// The system does not say.
    pub fn all() -> anyhow::Result<Cores> {
        let set = sched_getaffinity(None)?;
        Ok(Cores((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()))
    }

    /// The first of them, at most so many.
    pub fn at_most(mut self, count: usize) -> Cores {
        self.0.truncate(count.max(1));
        self
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The first `count` cores for the servers; `None` if there are too few.
    pub fn split(&self, count: usize) -> Option<Split> {
        let (servers, others) = self.0.split_at_checked(count)?;
        let generator = if others.is_empty() { servers } else { others };
        Some(Split { servers: Cores(servers.to_vec()), generator: Cores(generator.to_vec()) })
    }

    /// Puts this thread on these cores, and with it all that it starts from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take(&self) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|core| set.set(*core));
        Ok(sched_setaffinity(None, &set)?)
    }
}

impl Split {
    /// How many cores the servers have, the generator, and both together.
    pub fn used(&self) -> [usize; 3] {
        let (servers, generator) = (self.servers.count(), self.generator.count());
        [servers, generator, if self.is_apart() { servers + generator } else { servers }]
    }

    /// Whether the generator has cores of its own.
    pub fn is_apart(&self) -> bool {
        self.servers != self.generator
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gets_what_the_servers_leave() {
        let all = Cores(vec![2, 3, 5]);
        let split = all.split(1).unwrap();
        assert_eq!(
            (split.servers.0.as_slice(), split.generator.0.as_slice()),
            (&[2][..], &[3, 5][..])
        );
        assert!(split.is_apart());
        let split = all.split(3).unwrap();
        assert_eq!(split.servers, split.generator);
        assert!(!split.is_apart());
        assert_eq!(all.split(4), None);
    }

    #[test]
    fn a_thread_hands_its_cores_on() {
        std::thread::spawn(|| {
            let all = Cores::all().unwrap();
            let one = all.split(1).unwrap().servers;
            one.take().unwrap();
            assert_eq!(std::thread::spawn(Cores::all).join().unwrap().unwrap(), one);
        })
        .join()
        .unwrap();
    }
}
