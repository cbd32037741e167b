use super::*;

#[test]
fn a_text_is_a_key_in_one_form_only() {
    let check = |text: &str, expected: bool| {
        assert_eq!(Key::new(text).is_some(), expected, "{text:?}");
    };
    check("", true);
    check("/a", true);
    check("/a/b", true);
    check("/_a/...", true);
    check("/u n/é", true);
    check("/", false);
    check("a", false);
    check("a/b", false);
    check("/a/", false);
    check("//a", false);
    check("/a//b", false);
    check("/a/./b", false);
    check("/a/..", false);
}

#[test]
fn a_key_has_bounds() {
    let long = |bytes: usize| format!("/{}", "k".repeat(bytes - 1));
    assert!(Key::new(&long(ETCD_V2_KEY_BYTES_MAX)).is_some());
    assert!(Key::new(&long(ETCD_V2_KEY_BYTES_MAX + 1)).is_none());
    assert!(Key::new(&"/k".repeat(ETCD_V2_LEVELS_MAX)).is_some());
    assert!(Key::new(&"/k".repeat(ETCD_V2_LEVELS_MAX + 1)).is_none());
}

#[test]
fn a_directory_at_the_bounds_has_no_room_for_a_key_in_order() {
    let has_room = |text: &str| Key::new(text).unwrap().has_room_in_order();
    let long = |bytes: usize| format!("/{}", "k".repeat(bytes - 1));
    assert!(has_room(""));
    assert!(has_room(&long(ETCD_V2_KEY_BYTES_MAX - IN_ORDER_BYTES)));
    assert!(!has_room(&long(ETCD_V2_KEY_BYTES_MAX - IN_ORDER_BYTES + 1)));
    assert!(has_room(&"/k".repeat(ETCD_V2_LEVELS_MAX - 1)));
    assert!(!has_room(&"/k".repeat(ETCD_V2_LEVELS_MAX)));
    let widest = Key(&long(ETCD_V2_KEY_BYTES_MAX - IN_ORDER_BYTES)).in_order(u64::MAX);
    assert!(Key::new(&widest).is_some());
}

#[test]
fn a_key_has_steps_and_a_directory() {
    let key = Key::new("/a/b-c/d").unwrap();
    let steps: Vec<_> = key.steps().map(|(name, key)| (name, key.text())).collect();
    assert_eq!(steps, [("a", "/a"), ("b-c", "/a/b-c"), ("d", "/a/b-c/d")]);
    assert_eq!(key.split(), Some((Key("/a/b-c"), "d")));
    assert_eq!(Key("/a").split(), Some((Key::ROOT, "a")));
    assert_eq!(Key::ROOT.split(), None);
    assert_eq!(Key::ROOT.steps().count(), 0);
    assert_eq!(key.level_count(), 3);
    assert_eq!(Key("/q").in_order(16), "/q/00000000000000000016");
    assert_eq!(Key::ROOT.in_order(u64::MAX), "/18446744073709551615");
}

#[test]
fn a_key_is_below_its_ancestors_only() {
    let check = |key, ancestor, is_below: bool, is_hidden: bool| {
        assert_eq!(Key(key).is_below(Key(ancestor)), is_below, "{key} {ancestor}");
        assert_eq!(Key(key).is_hidden_from(Key(ancestor)), is_hidden, "{key} {ancestor}");
    };
    check("/a/b", "", true, false);
    check("/a/b", "/a", true, false);
    check("/a/b", "/a/b", false, false);
    check("/ab", "/a", false, false);
    check("/a", "/a/b", false, false);
    check("/_a", "", true, true);
    check("/_a/b", "", true, true);
    check("/_a/b", "/_a", true, false);
    check("/a/_b/c", "/a", true, true);
    check("/_a", "/_a", false, false);
    check("/a_b", "", true, false);
}
