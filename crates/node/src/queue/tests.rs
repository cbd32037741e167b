use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::*;

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Whether the consumer of the mail would be woken.
fn is_woken(mail: &Mail<u32>) -> bool {
    let waker = Waker::from(Arc::new(Nobody));
    pin!(mail.arrived()).poll(&mut Context::from_waker(&waker)) == Poll::Ready(())
}

#[test]
fn mail_wakes_for_what_is_urgent_and_a_curious_consumer_for_all() {
    let mail = Mail::default();
    mail.push(1, false);
    assert!(!is_woken(&mail));
    mail.push(2, true);
    assert!(is_woken(&mail));
    assert_eq!(mail.take(), [1, 2]);
    mail.set_wakes_always(true);
    assert!(!is_woken(&mail));
    mail.push(3, false);
    assert!(is_woken(&mail));
    mail.set_wakes_always(false);
    mail.take();
    mail.push(4, false);
    assert!(!is_woken(&mail));
}

/// The item was pushed before the consumer wanted to be woken, and would otherwise not be noticed.
#[test]
fn who_becomes_curious_is_woken_for_what_is_there() {
    let mail = Mail::default();
    mail.push(1, false);
    mail.set_wakes_always(true);
    assert!(is_woken(&mail));
    mail.set_wakes_always(true);
    assert!(!is_woken(&mail));
}

#[test]
fn quiet_mail_does_not_grow_without_end() {
    let mail = Mail::default();
    (1..QUIET_MAIL_MAX as u32).for_each(|item| mail.push(item, false));
    assert!(!is_woken(&mail));
    mail.push(0, false);
    assert!(is_woken(&mail));
}

#[test]
fn an_inbox_gives_everything_in_order_and_ends_when_closed_and_empty() {
    let inbox = Inbox::default();
    inbox.push([1, 2]);
    inbox.push_quietly([3]);
    assert!(!inbox.is_empty());
    inbox.close();
    let mut items = Vec::new();
    assert!(inbox.take(&mut items, None));
    assert_eq!(items, [1, 2, 3]);
    items.clear();
    assert!(!inbox.take(&mut items, None));
    assert!(items.is_empty());
}

#[test]
fn a_nudge_ends_one_wait_with_nothing_there() {
    let inbox: Inbox<u32> = Inbox::default();
    inbox.wake_consumer();
    assert!(inbox.wait(None));
    let soon = Instant::now();
    assert!(inbox.wait(Some(soon)));
    let mut items = vec![];
    assert!(inbox.take(&mut items, Some(soon)));
    assert!(items.is_empty());
}

#[test]
fn a_thread_that_waits_is_woken_by_a_push_a_nudge_and_a_close() {
    type Act = fn(&Inbox<u32>);
    let acts: [Act; 3] = [|inbox| inbox.push([1]), Inbox::wake_consumer, Inbox::close];
    for act in acts {
        let inbox = Arc::new(Inbox::default());
        let waiting = inbox.clone();
        let thread = std::thread::spawn(move || waiting.wait(None));
        while !inbox.state.lock().waiting {
            std::thread::yield_now();
        }
        act(&inbox);
        thread.join().unwrap();
    }
}
