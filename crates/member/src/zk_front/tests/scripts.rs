//! Behaviour as text: what clients send and everything they are told. The name of a file is what it
//! shows. `rig.rs` says how a line reads; what is indented is the output.

use super::rig::Rig;

const SCRIPTS: [(&str, &str); 40] = [
    ("acl_hides_events", include_str!("scripts/acl_hides_events.txt")),
    ("add_watch_answers", include_str!("scripts/add_watch_answers.txt")),
    ("auth_adds_identities_in_order", include_str!("scripts/auth_adds_identities_in_order.txt")),
    ("auth_refused_closes", include_str!("scripts/auth_refused_closes.txt")),
    (
        "auth_required_refuses_all_but_auth",
        include_str!("scripts/auth_required_refuses_all_but_auth.txt"),
    ),
    (
        "close_session_replies_then_closes",
        include_str!("scripts/close_session_replies_then_closes.txt"),
    ),
    ("connect_negotiates", include_str!("scripts/connect_negotiates.txt")),
    ("connect_refused", include_str!("scripts/connect_refused.txt")),
    ("descendants_are_counted", include_str!("scripts/descendants_are_counted.txt")),
    ("contact_that_is_lost_closes", include_str!("scripts/contact_that_is_lost_closes.txt")),
    (
        "reads_are_served_without_a_leader",
        include_str!("scripts/reads_are_served_without_a_leader.txt"),
    ),
    ("disk_full_refuses_in_order", include_str!("scripts/disk_full_refuses_in_order.txt")),
    (
        "ensemble_names_turn_others_away",
        include_str!("scripts/ensemble_names_turn_others_away.txt"),
    ),
    (
        "ephemerals_are_those_of_the_session",
        include_str!("scripts/ephemerals_are_those_of_the_session.txt"),
    ),
    ("events_come_before_replies", include_str!("scripts/events_come_before_replies.txt")),
    ("expiry_closes_the_connection", include_str!("scripts/expiry_closes_the_connection.txt")),
    ("four_letter_words", include_str!("scripts/four_letter_words.txt")),
    ("frames_that_close", include_str!("scripts/frames_that_close.txt")),
    ("image_ends_what_was_connected", include_str!("scripts/image_ends_what_was_connected.txt")),
    ("multi_and_multi_read", include_str!("scripts/multi_and_multi_read.txt")),
    ("nulls_are_refused_in_order", include_str!("scripts/nulls_are_refused_in_order.txt")),
    (
        "persistent_watches_beside_others",
        include_str!("scripts/persistent_watches_beside_others.txt"),
    ),
    ("persistent_watches_stay", include_str!("scripts/persistent_watches_stay.txt")),
    (
        "reads_and_writes_keep_their_order",
        include_str!("scripts/reads_and_writes_keep_their_order.txt"),
    ),
    (
        "remove_watches_leaves_the_others",
        include_str!("scripts/remove_watches_leaves_the_others.txt"),
    ),
    ("reconfig_is_refused_in_order", include_str!("scripts/reconfig_is_refused_in_order.txt")),
    ("requests_not_served", include_str!("scripts/requests_not_served.txt")),
    ("sasl_adds_its_user", include_str!("scripts/sasl_adds_its_user.txt")),
    ("sasl_failures", include_str!("scripts/sasl_failures.txt")),
    ("sasl_not_offered", include_str!("scripts/sasl_not_offered.txt")),
    (
        "session_moves_between_connections",
        include_str!("scripts/session_moves_between_connections.txt"),
    ),
    ("session_moves_between_fronts", include_str!("scripts/session_moves_between_fronts.txt")),
    (
        "set_watches2_sets_those_that_stay",
        include_str!("scripts/set_watches2_sets_those_that_stay.txt"),
    ),
    (
        "set_watches_fires_what_was_missed",
        include_str!("scripts/set_watches_fires_what_was_missed.txt"),
    ),
    ("sync_keeps_its_place", include_str!("scripts/sync_keeps_its_place.txt")),
    ("timeouts_of_connections", include_str!("scripts/timeouts_of_connections.txt")),
    ("watches_fire_once", include_str!("scripts/watches_fire_once.txt")),
    ("watches_of_a_deleted_znode", include_str!("scripts/watches_of_a_deleted_znode.txt")),
    ("watches_see_only_later_changes", include_str!("scripts/watches_see_only_later_changes.txt")),
    ("who_am_i_is_the_connection", include_str!("scripts/who_am_i_is_the_connection.txt")),
];

/// Plays the lines of a script that are not indented and puts what happened below each.
fn replay(script: &str) -> String {
    let mut rig = Rig::default();
    let mut out = String::new();
    for line in script.lines().filter(|line| !line.starts_with("  ")) {
        out += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "restart" {
            rig = Rig::default();
            continue;
        }
        rig.line(line);
        for seen in rig.take_log() {
            out += &format!("  {seen}\n");
        }
        for notice in rig.notices.drain(..) {
            out += &format!("  log: {notice}\n");
        }
        rig.check();
    }
    out
}

#[test]
fn scripts_give_their_output() {
    let mut wrong = String::new();
    for (name, script) in SCRIPTS {
        let played = std::panic::catch_unwind(|| replay(script));
        let played = played.unwrap_or_else(|_| format!("{script}PANICS\n"));
        if played != script {
            wrong += &format!("=== {name}\n{played}");
        }
    }
    assert!(wrong.is_empty(), "these scripts play differently:\n{wrong}=== end");
}
