//! The oldest state that a call may show: the newest one that answers had shown when it was sent.

/// The states that answers showed, in the order of answers. `T` is a revision or a place in the
/// claim.
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
    /// Notes the state that an answer shows. Answers must be noted in their order.
    pub(super) fn raise(&mut self, answered: u64, what: T) {
        let last = self.shown.last();
        assert!(last.is_none_or(|(at, _)| *at < answered), "answers are noted in their order");
        let newest = last.map_or(T::default(), |(_, what)| *what);
        self.shown.push((answered, newest.max(what)));
    }

    /// Returns the oldest state that a call sent at this time may show.
    pub(super) fn at(&self, asked: u64) -> T {
        match self.shown.partition_point(|(answered, _)| *answered < asked) {
            0 => T::default(),
            count => self.shown[count - 1].1,
        }
    }
}
