//! Binds servers and the generator to cores. A new process or thread inherits the cores of the
//! thread that starts it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of cores, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

/// The cores of one test.
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

    /// At most `count` of these cores, the first ones.
    pub fn at_most(mut self, count: usize) -> Cores {
        self.0.truncate(count.max(1));
        self
    }

    /// How many cores there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Gives the first `count` cores to the servers and the others to the generator; `None` if
    /// there are fewer than `count`.
    pub fn split(&self, count: usize) -> Option<Split> {
        let (servers, others) = self.0.split_at_checked(count)?;
        let generator = if others.is_empty() { servers } else { others };
        Some(Split { servers: Cores(servers.to_vec()), generator: Cores(generator.to_vec()) })
    }

    /// Binds this thread to these cores, and so all threads and processes that it starts from now
    /// on.
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
    /// How many cores the servers have, how many the generator has, and how many both have
    /// together.
    pub fn used(&self) -> [usize; 3] {
        let (servers, generator) = (self.servers.count(), self.generator.count());
        [servers, generator, if self.is_apart() { servers + generator } else { servers }]
    }

    /// Whether the generator and the servers have different cores.
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
