//! The least that a call must show: what answers had shown before it was sent.

/// What answers showed, in the order of answers. `T` is a revision, or a place in the order.
#[derive(Clone, Debug)]
pub(super) struct Floor<T> {
    /// The newest that was shown so far, by the time of the answer.
    shown: Vec<(u64, T)>,
}

impl<T> Default for Floor<T> {
    fn default() -> Floor<T> {
        Floor { shown: Vec::new() }
    }
}

impl<T: Copy + Ord + Default> Floor<T> {
    /// Notes what an answer shows; none may be noted after a later one.
    pub(super) fn raise(&mut self, answered: u64, what: T) {
        let last = self.shown.last();
        assert!(last.is_none_or(|(at, _)| *at < answered), "answers are noted in their order");
        let newest = last.map_or(T::default(), |(_, what)| *what);
        self.shown.push((answered, newest.max(what)));
    }

    /// What a call must show at least that was sent at this time.
    pub(super) fn at(&self, asked: u64) -> T {
        match self.shown.partition_point(|(answered, _)| *answered < asked) {
            0 => T::default(),
            count => self.shown[count - 1].1,
        }
    }
}
