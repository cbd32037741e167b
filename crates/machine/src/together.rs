//! Two jobs that may run at once. The machine has no threads: if the shell has one to spare, it
//! passes a function that runs both.

/// Runs two jobs, in any order or at once, and returns when both have ended.
pub type Together = fn(&mut (dyn FnMut() + Send), &mut (dyn FnMut() + Send));

/// Runs one job after the other.
pub fn one_by_one(first: &mut (dyn FnMut() + Send), second: &mut (dyn FnMut() + Send)) {
    first();
    second();
}
