//! Raises the limit on open files of this process (`RLIMIT_NOFILE`) as far as its connections need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::OPEN_FILES_SPARE;

/// Ensures that this process can open `connections` more connections. If the soft limit is too low,
/// it is raised to the hard limit, which needs no privilege. A sufficient limit is left alone,
/// because servers that a benchmark starts inherit it.
///
/// # Errors
/// The hard limit is too low.
pub fn make_room(connections: usize) -> anyhow::Result<()> {
    let needed = open_now() + connections + OPEN_FILES_SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current as usize >= needed) {
        return Ok(());
    }
    let hard = hard_limit();
    anyhow::ensure!(
        needed <= hard,
        "{connections} connections need {needed} open files, and this process may have {hard} \
         (RLIMIT_NOFILE, `ulimit -Hn`)"
    );
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}

/// How many connections fit under the hard limit if both ends of each are in this process.
pub fn pairs_max() -> usize {
    hard_limit().saturating_sub(open_now() + OPEN_FILES_SPARE) / 2
}

/// The hard limit of open files.
pub fn hard_limit() -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |hard| hard as usize)
}

fn open_now() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(OPEN_FILES_SPARE, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_named_when_it_does_not_suffice() {
        assert!(make_room(1).is_ok());
        let error = make_room(hard_limit()).unwrap_err().to_string();
        assert!(error.contains("RLIMIT_NOFILE"), "{error}");
        assert!(pairs_max() < hard_limit());
    }
}
