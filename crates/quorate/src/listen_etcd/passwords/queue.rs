//! A queue of work that gives client addresses turns, and at each address gives users turns. So a
//! client that guesses a user's passwords only delays those who log in as that user from the same
//! address. When the queue is full, the address with the most work loses some, or the new work is
//! dropped.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

/// The client and user that some work is done for. The queue shares its turns among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct For {
    /// The client's address; `None` for work that the server wants itself.
    pub address: Option<IpAddr>,
    /// The user that the client logs in as. `None` for a user that does not exist, and for other
    /// work; all of these share the turns of one user.
    pub user: Option<Arc<str>>,
}

/// The queue. It holds at most `count_max` pieces of work.
pub struct Turns<T> {
    /// The addresses that have work, in the order of their turns.
    addresses: VecDeque<OfAddress<T>>,
    count: usize,
    count_max: usize,
}

struct OfAddress<T> {
    address: Option<IpAddr>,
    count: usize,
    /// The users that have work, in the order of their turns, each with its work.
    users: VecDeque<(Option<Arc<str>>, VecDeque<T>)>,
}

impl<T> Turns<T> {
    /// An empty queue for at most `count_max` pieces of work.
    pub fn new(count_max: usize) -> Turns<T> {
        Turns { addresses: VecDeque::new(), count: 0, count_max }
    }

    /// Adds work. If the queue is full, returns what has to be dropped for it: the new work, or the
    /// newest work of the busiest user at the busiest address.
    pub fn push(&mut self, of: For, work: T) -> Option<T> {
        let surplus = if self.count < self.count_max { None } else { self.give_way(of.address) };
        if self.count >= self.count_max {
            return Some(work);
        }
        let at = self.addresses.iter().position(|it| it.address == of.address);
        let at = at.unwrap_or_else(|| {
            let address = of.address;
            self.addresses.push_back(OfAddress { address, count: 0, users: VecDeque::new() });
            self.addresses.len() - 1
        });
        let of_address = &mut self.addresses[at];
        match of_address.users.iter_mut().find(|(user, _)| *user == of.user) {
            Some((_, waiting)) => waiting.push_back(work),
            None => of_address.users.push_back((of.user, VecDeque::from([work]))),
        }
        of_address.count += 1;
        self.count += 1;
        surplus
    }

    /// Removes and returns the newest work of the busiest user at the busiest address, unless the
    /// address `to`, with its new work, would then have at least as much as that address had.
    fn give_way(&mut self, to: Option<IpAddr>) -> Option<T> {
        let own = self.addresses.iter().find(|it| it.address == to).map_or(0, |it| it.count);
        let at = (0..self.addresses.len()).max_by_key(|at| self.addresses[*at].count)?;
        if self.addresses[at].count <= own + 1 {
            return None;
        }
        let users = &mut self.addresses[at].users;
        let user = (0..users.len()).max_by_key(|user| users[*user].1.len())?;
        let work = users[user].1.pop_back();
        self.forget_empty(at, user);
        work
    }

    /// Takes the next work in turn.
    pub fn pop(&mut self) -> Option<T> {
        let of_address = self.addresses.front_mut()?;
        let (_, waiting) = of_address.users.front_mut()?;
        let work = waiting.pop_front();
        of_address.users.rotate_left(1);
        self.addresses.rotate_left(1);
        let at = self.addresses.len() - 1;
        self.forget_empty(at, self.addresses[at].users.len() - 1);
        work
    }

    /// Updates the counts after work of a user was taken, and removes the user or address if it has
    /// no more.
    fn forget_empty(&mut self, at: usize, user: usize) {
        self.count -= 1;
        let of_address = &mut self.addresses[at];
        of_address.count -= 1;
        if of_address.users[user].1.is_empty() {
            of_address.users.remove(user);
        }
        if of_address.count == 0 {
            self.addresses.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(last: u8, user: &str) -> For {
        let address = Some(IpAddr::from([10, 0, 0, last]));
        For { address, user: (!user.is_empty()).then(|| user.into()) }
    }

    fn all(turns: &mut Turns<u32>) -> Vec<u32> {
        core::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn addresses_and_their_users_have_turns() {
        let mut turns = Turns::new(100);
        for number in 0..4 {
            assert_eq!(turns.push(of(1, "alice"), number), None);
        }
        turns.push(of(1, "bob"), 10);
        turns.push(of(2, "alice"), 20);
        turns.push(of(2, ""), 21);
        turns.push(of(2, ""), 22);
        assert_eq!(all(&mut turns), [0, 20, 10, 21, 1, 22, 2, 3]);
        assert_eq!((turns.count, turns.addresses.len()), (0, 0));
    }

    #[test]
    fn at_the_limit_the_address_with_the_most_gives_way() {
        let mut turns = Turns::new(6);
        for number in 0..6 {
            assert_eq!(turns.push(of(1, if number < 4 { "" } else { "bob" }), number), None);
        }
        assert_eq!(turns.push(of(1, "bob"), 6), Some(6), "it has the most itself");
        assert_eq!(turns.push(of(2, "bob"), 20), Some(3), "the newest of those that guess");
        assert_eq!(turns.push(of(2, "bob"), 21), Some(2));
        assert_eq!(turns.push(of(2, "bob"), 22), Some(5));
        assert_eq!(turns.push(of(2, "bob"), 23), Some(23), "both have as many");
        assert!(turns.push(of(3, "bob"), 30).is_some());
        assert_eq!(all(&mut turns).len(), 6);
        let mut none = Turns::new(0);
        assert_eq!(none.push(of(1, ""), 1), Some(1));
    }
}
