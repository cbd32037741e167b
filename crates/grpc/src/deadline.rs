//! The deadline of a call: when the time in its header `grpc-timeout` is over. The time counts from
//! the moment when the server read the headers.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::status::{End, Status};

/// When a call ends at the latest; `None` if its client set no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline(pub(super) Option<Instant>);

impl Deadline {
    /// The deadline that is `timeout` from now. A timeout beyond the range of the clock means no
    /// deadline.
    pub(super) fn after(timeout: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(timeout))
    }

    /// The deadline for a value of `grpc-timeout`, counted from now.
    ///
    /// # Errors
    /// The value is malformed; the text is grpc-go's.
    pub fn from_timeout(text: &str) -> Result<Deadline, String> {
        parse_timeout(text).map(Deadline::after)
    }

    /// The time of the deadline; `None` if there is no deadline.
    pub fn at(self) -> Option<Instant> {
        self.0
    }

    pub(super) fn is_past(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }

    /// # Errors
    /// The deadline has passed.
    pub(super) fn check(self) -> Result<(), End> {
        if self.is_past() { Err(End::Status(Status::deadline_exceeded())) } else { Ok(()) }
    }

    /// Waits for `work` until the deadline.
    ///
    /// # Errors
    /// The deadline has passed before `work` was done.
    pub async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, End> {
        let Some(at) = self.0 else { return Ok(work.await) };
        timeout_at(at, work).await.map_err(|_| End::Status(Status::deadline_exceeded()))
    }

    /// Waits for `work` until `at` or the deadline, whichever comes first. `None` if `at` came
    /// first.
    ///
    /// # Errors
    /// The deadline has passed before `work` was done.
    pub(super) async fn bound_until<T>(
        self,
        at: Instant,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, End> {
        let deadline = self.0.filter(|deadline| *deadline <= at);
        match (timeout_at(deadline.unwrap_or(at), work).await, deadline) {
            (Ok(done), _) => Ok(Some(done)),
            (Err(_), None) => Ok(None),
            (Err(_), Some(_)) => Err(End::Status(Status::deadline_exceeded())),
        }
    }
}

/// Parses a value of `grpc-timeout`: up to eight digits and a unit.
///
/// # Errors
/// The value is malformed; the text is grpc-go's.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    let complain = |what: &str| Err(format!("transport: timeout {what}: {text:?}"));
    match text.len() {
        0 | 1 => return complain("string is too short"),
        2..=9 => {}
        _ => return complain("string is too long"),
    }
    let Some((digits, unit)) = text.split_at_checked(text.len() - 1) else {
        return complain("unit is not recognized");
    };
    let duration: fn(u64) -> Duration = match unit {
        "H" => |count| Duration::from_secs(count * 3600),
        "M" => |count| Duration::from_secs(count * 60),
        "S" => Duration::from_secs,
        "m" => Duration::from_millis,
        "u" => Duration::from_micros,
        "n" => Duration::from_nanos,
        _ => return complain("unit is not recognized"),
    };
    // A sign is no digit, though Rust's `parse` would read it.
    let count = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match count {
        Some(count) => Ok(duration(count)),
        None => Err(format!("strconv.ParseUint: parsing {digits:?}: invalid syntax")),
    }
}
