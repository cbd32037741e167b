//! Which claims of a member about levels count, and when.

use super::*;

const OLD: Level = Level::FIRST;
const NEW: Level = Level::ETCD;
const PEER: MemberId = MemberId(7);

#[test]
fn what_a_member_said_counts_while_its_link_is_up() {
    let mut heard = Heard::default();
    assert!(!heard.knew(PEER, OLD, 0, 100));
    heard.on_linked(PEER, Some(NEW), 10);
    assert!(heard.knew(PEER, NEW, 10, 10));
    assert!(!heard.knew(PEER, NEW, 0, 9));
    assert!(!heard.knew(MemberId(8), NEW, 0, 100));
    heard.on_linked(PEER, None, 20);
    assert!(heard.knew(PEER, NEW, 20, 30));
    assert!(!heard.knew(PEER, NEW, 21, 30));
    // The member returns with an old build.
    heard.on_linked(PEER, Some(OLD), 40);
    assert!(!heard.knew(PEER, NEW, 21, 50));
    assert!(heard.knew(PEER, OLD, 50, 60));
}

#[test]
fn a_link_that_is_made_anew_ends_the_one_before() {
    let mut heard = Heard::default();
    heard.on_linked(PEER, Some(NEW), 10);
    heard.on_linked(PEER, Some(OLD), 20);
    assert!(!heard.knew(PEER, NEW, 21, 30));
}

#[test]
fn every_member_must_have_said_that_it_knows_the_level() {
    let mut levels = Levels::default();
    levels.on_said(PEER, NEW);
    levels.on_said(PEER, OLD);
    assert_eq!(levels.check_members(NEW, &[7]), Ok(()));
    levels.on_said(MemberId(8), OLD);
    assert!(levels.check_members(NEW, &[7, 8]).is_err());
    assert!(levels.check_members(NEW, &[7, 9]).is_err());
}

#[test]
fn only_a_directory_on_which_a_newer_build_ran_may_meet_what_its_build_does_not_know() {
    let mut levels = Levels::default();
    assert!(!levels.ran_above(PEER, OLD));
    levels.on_life(PEER, OLD);
    assert!(!levels.ran_above(PEER, OLD));
    levels.on_life(PEER, NEW);
    levels.on_life(PEER, OLD);
    assert!(levels.ran_above(PEER, OLD));
    assert!(!levels.ran_above(PEER, NEW));
}
