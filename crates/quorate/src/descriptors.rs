//! File descriptors: raises the process's limit as far as the system allows, and reserves some
//! descriptors for the log and for links to other servers.
//!
//! A connection whose descriptor is one of the highest numbers is closed at once. The kernel gives
//! out the lowest free number. So, however many clients connect, the highest numbers stay free for
//! files and links, and this reserve needs no count.

use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many descriptors client connections leave free. A log needs a dozen, a snapshot or a link to
/// another server a few.
const RESERVE: u64 = 128;

/// If the limit is low, the reserve is the limit divided by this instead of [`RESERVE`].
const RESERVE_SHARE_MIN: u64 = 4;

/// How many descriptors this process may have open.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit of descriptors to the hard limit. Shells and supervisors set 1,024, for
/// programs that cannot use more.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let shown = |limit: Option<u64>| limit.map_or("any number".to_string(), |it| it.to_string());
    let (had, wanted) = (shown(current), shown(maximum));
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!("file descriptors: {wanted} instead of {had}"),
        Err(error) => tracing::warn!("file descriptors stay at {had}, not {wanted}: {error}"),
    }
}

/// How many descriptors the server's own files and client connections may use together: all but the
/// reserve.
pub fn for_connections() -> u64 {
    outside_reserve(limit())
}

/// How many connections fit into `all` descriptors if the server's own files need `of_others`: the
/// rest, but at least half of `all`.
pub fn beside(all: u64, of_others: usize) -> usize {
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    (all - of_others.min(all / 2)).max(1)
}

/// How many descriptors this process has open, including the one that counting needs; 0 if the
/// system does not say.
pub fn open_count() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Whether this descriptor, just made for a connection, belongs to the reserve; then the connection
/// must be closed.
pub fn is_in_reserve(made: impl AsFd) -> bool {
    u64::try_from(made.as_fd().as_raw_fd()).is_ok_and(|number| number >= for_connections())
}

fn outside_reserve(limit: u64) -> u64 {
    limit - RESERVE.min(limit / RESERVE_SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_what_others_leave_and_half_at_least() {
        let cases = [(900, 0, 900), (900, 400, 500), (900, 2_048, 450), (0, 0, 1), (1, 1, 1)];
        for (all, of_others, wanted) in cases {
            assert_eq!(beside(all, of_others), wanted, "{all} {of_others}");
        }
    }

    #[test]
    fn the_reserve_is_a_part_of_few_descriptors_and_a_number_of_many() {
        let cases = [(0, 0), (64, 48), (256, 192), (512, 384), (1_024, 896), (u64::MAX, 0)];
        for (limit, wanted) in cases {
            let wanted = if limit == u64::MAX { u64::MAX - RESERVE } else { wanted };
            assert_eq!(outside_reserve(limit), wanted, "{limit}");
        }
    }
}
