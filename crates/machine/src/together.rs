//! A way to run two jobs at once. This crate has no threads of its own: a caller that has a spare
//! thread passes a function that runs the two jobs on two threads.

/// Runs two jobs, in any order or at once, and returns when both have ended.
pub type Together = fn(&mut (dyn FnMut() + Send), &mut (dyn FnMut() + Send));

/// Runs the jobs one after the other, for callers without a spare thread.
pub fn one_by_one(first: &mut (dyn FnMut() + Send), second: &mut (dyn FnMut() + Send)) {
    first();
    second();
}
