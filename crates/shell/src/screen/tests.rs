//! Tests of what an interrupt ends.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc::sync_channel;

use super::*;

#[test]
fn an_interrupt_ends_a_command_that_can_end_and_the_second_one_more() {
    let screen = Screen::new(Format::Text, false);
    assert!(!screen.interrupt());
    screen.set_interruptible(true);
    assert!(!screen.is_interrupted());
    assert!(screen.interrupt());
    assert!(screen.is_interrupted());
    // The command has not ended at the first interrupt, so the second one must end the process.
    assert!(!screen.interrupt());
    screen.set_interruptible(false);
    assert!(!screen.is_interrupted());
    assert!(!screen.interrupt());
}

#[test]
fn an_interrupt_goes_to_watch_while_it_runs() {
    let screen = Screen::new(Format::Text, false);
    let (sender, signals) = sync_channel(1);
    screen.set_watcher(Some(sender));
    assert!(screen.interrupt());
    assert!(matches!(signals.try_recv(), Ok(Signal::Interrupted)));
    screen.set_watcher(None);
    assert!(!screen.interrupt());
}
