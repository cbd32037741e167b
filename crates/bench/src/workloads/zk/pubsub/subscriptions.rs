//! Tracks every subscription of scenario 2, in one byte each. A subscription is one watch of one
//! subscriber on one path. If the path is created, its event is due exactly once. Pure.
//!
//! With `n` publishers, subscriber `s` watches all paths of publisher `s % n`. A publisher's paths
//! are numbered from 0 in the order in which it creates them. Each of its subscribers sets its
//! watches in the same order.

/// The state of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The watch is set, and the event has not come.
    Due,
    /// The event has come.
    Seen,
    /// No event is due: the watch or the create was refused, or the create had no answer.
    Void,
}

/// How an event fits the state of its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// The event was due.
    Due,
    /// The event came a second time.
    Twice,
    /// The subscriber has no such watch, or no event is due.
    NotAskedFor,
}

/// All subscriptions of a test.
#[derive(Clone, Debug)]
pub struct Subscriptions {
    publishers: usize,
    /// For each subscriber the states of its subscriptions; the index is the number of the path.
    states: Vec<Vec<State>>,
    /// How many events are due, to subscribers that have not lost their session.
    due: u64,
}

impl Subscriptions {
    /// No subscriptions yet.
    pub fn new(publishers: usize, subscribers: usize) -> Subscriptions {
        Subscriptions { publishers, states: vec![Vec::new(); subscribers], due: 0 }
    }

    /// The publisher whose paths `subscriber` watches.
    pub fn publisher_of(&self, subscriber: usize) -> usize {
        subscriber % self.publishers
    }

    /// How many subscriptions of a subscriber were answered. It is also the number of the next
    /// path.
    pub fn count_of(&self, subscriber: usize) -> usize {
        self.states[subscriber].len()
    }

    /// Notes the answer to the next subscription of `subscriber`. `is_set`: the watch was set.
    pub fn add(&mut self, subscriber: usize, is_set: bool) {
        self.states[subscriber].push(if is_set { State::Due } else { State::Void });
        self.due += u64::from(is_set);
    }

    /// Notes an event to `subscriber` about path `number` of its publisher.
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

    /// Notes that path `number` of a publisher was not created, or that this is unknown. From now
    /// on its subscribers are due no event for this path.
    pub fn void(&mut self, publisher: usize, number: usize) {
        for subscriber in (publisher..self.states.len()).step_by(self.publishers) {
            if let Some(state @ State::Due) = self.states[subscriber].get_mut(number) {
                *state = State::Void;
                self.due -= 1;
            }
        }
    }

    /// Notes that a subscriber has lost its session. Returns how many events were due to it.
    pub fn lose(&mut self, subscriber: usize) -> u64 {
        let mut missed = 0;
        for state in self.states[subscriber].iter_mut().filter(|state| **state == State::Due) {
            *state = State::Void;
            missed += 1;
        }
        self.due -= missed;
        missed
    }

    /// How many events are still due.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The first subscriber with an event that is still due, and the number of the path.
    pub fn first_due(&self) -> Option<(usize, usize)> {
        let first = |states: &Vec<State>| states.iter().position(|state| *state == State::Due);
        self.states.iter().enumerate().find_map(|(it, states)| Some((it, first(states)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two publishers with two subscribers each. All four have set watches on three paths.
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
        // Subscribers 1 and 3 watch publisher 1. Subscriber 1 has had the event.
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
