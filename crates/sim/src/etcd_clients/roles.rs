//! The roles of an etcd client besides plain calls: it may want locks, change users, speak etcd v2,
//! act as an operator, and make plain HTTP requests.

use super::contender::Contender;
use super::http::HttpClient;
use super::operator::Operator;
use super::users::Users;
use super::v2::V2Client;

/// The roles of a client; `None` for each that it does not have.
pub(super) struct Roles {
    /// Wants a lock or to lead an election.
    pub contender: Option<Contender>,
    /// Changes users and roles.
    pub users: Option<Users>,
    /// Speaks etcd v2.
    pub v2: Option<V2Client>,
    /// Asks about members and moves leadership.
    pub operator: Option<Operator>,
    /// Makes plain HTTP requests.
    pub http: Option<HttpClient>,
}

impl Roles {
    /// Whether all roles have finished their work.
    pub fn are_done(&self) -> bool {
        self.are_done_but_v2() && self.v2.as_ref().is_none_or(V2Client::is_done)
    }

    /// Whether some role needs a connection. Etcd v2 always does, since it may wait for events.
    pub fn want_connection(&self) -> bool {
        !self.are_done_but_v2() || self.v2.is_some()
    }

    fn are_done_but_v2(&self) -> bool {
        self.contender.as_ref().is_none_or(Contender::is_done)
            && self.users.as_ref().is_none_or(Users::is_done)
            && self.operator.as_ref().is_none_or(Operator::is_done)
            && self.http.as_ref().is_none_or(HttpClient::is_done)
    }

    /// When some role must be polled next, in us.
    pub fn wakes_us(&self) -> u64 {
        let of_contender = self.contender.as_ref().map_or(u64::MAX, Contender::wakes_us);
        let of_users = self.users.as_ref().map_or(u64::MAX, Users::wakes_us);
        let of_v2 = self.v2.as_ref().map_or(u64::MAX, V2Client::wakes_us);
        let of_operator = self.operator.as_ref().map_or(u64::MAX, Operator::wakes_us);
        let of_http = self.http.as_ref().map_or(u64::MAX, HttpClient::wakes_us);
        of_contender.min(of_users).min(of_v2).min(of_operator).min(of_http)
    }

    /// Ends the mischief of all roles, since the faults have stopped.
    pub fn calm_down(&mut self) {
        self.contender.iter_mut().for_each(Contender::calm_down);
        self.users.iter_mut().for_each(Users::calm_down);
        self.v2.iter_mut().for_each(V2Client::calm_down);
        self.operator.iter_mut().for_each(Operator::calm_down);
        self.http.iter_mut().for_each(HttpClient::calm_down);
    }

    /// The state of all roles, as text for people.
    pub fn describe(&self) -> String {
        let contender = self.contender.as_ref().map(Contender::describe).unwrap_or_default();
        let users = self.users.as_ref().map(Users::describe).unwrap_or_default();
        let v2 = self.v2.as_ref().map(V2Client::describe).unwrap_or_default();
        let operator = self.operator.as_ref().map(Operator::describe).unwrap_or_default();
        let http = self.http.as_ref().map(HttpClient::describe).unwrap_or_default();
        format!("{contender}{users}{v2}{operator}{http}")
    }
}
