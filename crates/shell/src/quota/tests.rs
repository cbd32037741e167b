//! Tests of the text of quotas. Expected texts are from a real server.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn the_text_is_that_of_zookeeper() {
    assert_eq!(Track::zero().to_string(), "count=0,bytes=0");
    let mut limits = Track::unlimited();
    limits.set(Limit::Count, 5);
    assert_eq!(limits.to_string(), "count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1");
}

#[test]
fn what_is_written_is_read_again() {
    for text in [
        "count=0,bytes=0",
        "count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1",
        "count=1,bytes=2=;other=3",
    ] {
        assert_eq!(Track::parse(text).unwrap().to_string(), text);
    }
    let track = Track::parse("count=1,bytes=").unwrap();
    assert_eq!((track.get(Limit::Count), track.get(Limit::Bytes)), (1, -1));
    assert_eq!(track.get(Limit::CountHard), -1);
    assert_eq!(Track::parse("").unwrap(), Track::default());
    for text in ["count", "count=x", "\u{0}"] {
        assert!(Track::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_quota_of_a_path_stands_below_zookeeper_quota() {
    assert_eq!(quota_path("/a/b"), "/zookeeper/quota/a/b");
    assert_eq!(quota_path("/"), "/zookeeper/quota");
}
