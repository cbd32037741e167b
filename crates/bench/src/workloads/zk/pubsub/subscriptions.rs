//! The state of each subscription, in one byte. A watch is set, and its event is due exactly once
//! if the create succeeds. Pure.
//!
//! Subscriber `s` of `n` publishers watches all paths of publisher `s % n`. A publisher's paths are
//! numbered from 0 in the order in which it creates them, and each of its subscribers sets its
//! watches in this order, too.

/// A subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The event is due, or will be once there is a create.
    Due,
    /// The event came.
    Seen,
    /// No event is due: the watch or the create was refused, or the create was never answered.
    Void,
}

/// How an event meets its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// It was due.
    Due,
    /// It came before.
    Twice,
    /// The subscriber has no such watch.
    NotAskedFor,
}

/// All subscriptions of a run.
#[derive(Clone, Debug)]
pub struct Subscriptions {
    publishers: usize,
    /// The subscriptions of each subscriber, by the number of the path.
    states: Vec<Vec<State>>,
    /// Events that have not come, without those of lost subscribers.
    due: u64,
}

impl Subscriptions {
    /// No subscription yet.
    pub fn new(publishers: usize, subscribers: usize) -> Subscriptions {
        Subscriptions { publishers, states: vec![Vec::new(); subscribers], due: 0 }
    }

    /// The publisher whose paths a subscriber watches.
    pub fn publisher_of(&self, subscriber: usize) -> usize {
        subscriber % self.publishers
    }

    /// How many subscriptions of a subscriber were answered: the number of the path that is next.
    pub fn count_of(&self, subscriber: usize) -> usize {
        self.states[subscriber].len()
    }

    /// Takes the answer to the next subscription of a subscriber.
    pub fn add(&mut self, subscriber: usize, is_set: bool) {
        self.states[subscriber].push(if is_set { State::Due } else { State::Void });
        self.due += u64::from(is_set);
    }

    /// Takes an event about path `number`.
    pub fn fire(&mut self, subscriber: usize, number: usize) -> Fired {
        match self.states[subscriber].get_mut(number) {
            Some(state @ State::Due) => {
                *state = State::Seen;
                self.due -= 1;
                Fired::Due
            }
            Some(State::Seen) => Fired::Twice,
            Some(State::Void) | None => Fired::NotAskedFor,
        }
    }

    /// Takes note that path `number` of a publisher is not created, or perhaps not.
    pub fn void(&mut self, publisher: usize, number: usize) {
        for subscriber in (publisher..self.states.len()).step_by(self.publishers) {
            if let Some(state @ State::Due) = self.states[subscriber].get_mut(number) {
                *state = State::Void;
                self.due -= 1;
            }
        }
    }

    /// Takes note that a subscriber has lost its session. The number of events that were due to it.
    pub fn lose(&mut self, subscriber: usize) -> u64 {
        let mut missed = 0;
        for state in self.states[subscriber].iter_mut().filter(|state| **state == State::Due) {
            *state = State::Void;
            missed += 1;
        }
        self.due -= missed;
        missed
    }

    /// Events that may still come.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// A subscriber whose event has not come, and the number of the path.
    pub fn first_due(&self) -> Option<(usize, usize)> {
        let first = |states: &Vec<State>| states.iter().position(|state| *state == State::Due);
        self.states.iter().enumerate().find_map(|(it, states)| Some((it, first(states)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two publishers with two subscribers each, which watch three paths each.
    fn all() -> Subscriptions {
        let mut all = Subscriptions::new(2, 4);
        for subscriber in 0..4 {
            for _ in 0..3 {
                all.add(subscriber, true);
            }
        }
        all
    }

    #[test]
    fn an_event_is_due_once_and_only_where_a_watch_is_set() {
        let mut all = all();
        all.add(0, false);
        assert_eq!((all.due(), all.count_of(0), all.count_of(1)), (12, 4, 3));
        let fired = [1, 1, 3, 4].map(|number| all.fire(0, number));
        assert_eq!(fired, [Fired::Due, Fired::Twice, Fired::NotAskedFor, Fired::NotAskedFor]);
        assert_eq!(all.due(), 11);
    }

    #[test]
    fn a_create_that_fails_is_waited_for_by_none_of_its_subscribers() {
        let mut all = all();
        assert_eq!(all.fire(1, 2), Fired::Due);
        all.void(1, 2);
        all.void(1, 2);
        // Subscribers 1 and 3 watch publisher 1, and one of them had the event.
        assert_eq!(all.due(), 10);
        let fired = [1, 3, 0].map(|subscriber| all.fire(subscriber, 2));
        assert_eq!(fired, [Fired::Twice, Fired::NotAskedFor, Fired::Due]);
    }

    #[test]
    fn a_lost_subscriber_misses_what_was_due() {
        let mut all = all();
        all.fire(0, 0);
        assert_eq!(all.first_due(), Some((0, 1)));
        assert_eq!((all.lose(0), all.lose(0)), (2, 0));
        assert_eq!((all.due(), all.first_due()), (9, Some((1, 0))));
    }
}
