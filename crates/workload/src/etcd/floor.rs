//! Finds the *floor* of a call, which is the newest state that any answer had shown before the call
//! was sent. The answer to the call must not show a state older than its floor.

/// The states that answers showed. `T` is a revision or a position in the committed order.
#[derive(Clone, Debug)]
pub(super) struct Floor<T> {
    /// For each answer, its time and the newest state that any answer had shown by then.
    shown: Vec<(u64, T)>,
}

impl<T> Default for Floor<T> {
    fn default() -> Floor<T> {
        Floor { shown: Vec::new() }
    }
}

impl<T: Copy + Ord + Default> Floor<T> {
    /// Notes the state that an answer shows. Answers must be noted in the order of time.
    pub(super) fn raise(&mut self, answered: u64, what: T) {
        let last = self.shown.last();
        assert!(last.is_none_or(|(at, _)| *at < answered), "answers are noted in their order");
        let newest = last.map_or(T::default(), |(_, what)| *what);
        self.shown.push((answered, newest.max(what)));
    }

    /// The oldest state that a call sent at this time may show.
    pub(super) fn at(&self, asked: u64) -> T {
        match self.shown.partition_point(|(answered, _)| *answered < asked) {
            0 => T::default(),
            count => self.shown[count - 1].1,
        }
    }
}
