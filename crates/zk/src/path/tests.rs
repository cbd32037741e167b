use super::*;

fn check(path: &str, expected: bool) {
    assert_eq!(is_valid(path), expected, "{path:?}");
    assert_eq!(java_is_valid(path), expected, "{path:?} by the letter of the Java code");
}

/// A transcript of `PathUtils.validatePath` of ZooKeeper 3.9.5, branch by branch, over UTF-16 units
/// as in Java.
fn java_is_valid(path: &str) -> bool {
    let chars: Vec<u16> = path.encode_utf16().collect();
    let (slash, dot) = (u16::from(b'/'), u16::from(b'.'));
    if chars.first() != Some(&slash) {
        return false;
    }
    if chars.len() == 1 {
        return true;
    }
    if chars.last() == Some(&slash) {
        return false;
    }
    for at in 1..chars.len() {
        let (before, here) = (chars[at - 1], chars[at]);
        let ends = at + 1 == chars.len() || chars[at + 1] == slash;
        let refused = if here == 0 || (here == slash && before == slash) {
            true
        } else if here == dot && before == dot {
            chars[at - 2] == slash && ends
        } else if here == dot {
            before == slash && ends
        } else {
            matches!(here, 1..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff)
        };
        if refused {
            return false;
        }
    }
    true
}

#[test]
fn absolute_paths_of_plain_names_are_valid() {
    for path in ["/", "/a", "/a/b", "/a.b", "/.a", "/a.", "/..a", "/a..", "/...", "/a/...b/c"] {
        check(path, true);
    }
    for path in ["/ ", "/a b", "/ü", "/\u{a0}", "/~", "/\u{d7ff}", "/\u{f900}", "/\u{ffef}", "/-1"]
    {
        check(path, true);
    }
}

#[test]
fn empty_relative_and_dotted_paths_are_not() {
    for path in ["", "a", "a/b", "//", "/a/", "/a//b", "//a", "/.", "/..", "/./a", "/../a"] {
        check(path, false);
    }
    for path in ["/a/.", "/a/..", "/a/./b", "/a/../b", "./a", " /a", "/a/b/"] {
        check(path, false);
    }
}

#[test]
fn control_surrogate_and_special_characters_are_not() {
    for character in ['\u{0}', '\u{1}', '\u{1f}', '\u{7f}', '\u{80}', '\u{9f}'] {
        check(&format!("/a{character}b"), false);
    }
    for character in
        ['\u{e000}', '\u{f8ff}', '\u{fff0}', '\u{fffd}', '\u{ffff}', '\u{10000}', '\u{10ffff}']
    {
        check(&format!("/a{character}b"), false);
        check(&format!("/a/{character}"), false);
    }
}

#[test]
fn every_character_of_the_basic_plane_is_judged_as_in_java() {
    for character in ('\u{0}'..='\u{ffff}').filter(|character| *character != '/') {
        let path = format!("/a{character}");
        assert_eq!(is_valid(&path), java_is_valid(&path), "{path:?}");
    }
}

/// Random paths, made from the characters that matter, always the same.
fn random_paths() -> Vec<String> {
    let characters = ['/', '/', '/', '.', '.', 'a', '0', '\u{0}', '\u{e000}', 'ü'];
    let mut state = 1_u64;
    let mut next = |count: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    let mut path = || -> String {
        let count = next(9);
        let start = if next(5) == 0 { "" } else { "/" };
        start.chars().chain((0..count).map(|_| characters[next(characters.len())])).collect()
    };
    (0..100_000).map(|_| path()).collect()
}

#[test]
fn random_paths_are_judged_as_in_java() {
    let paths = random_paths();
    let valid = paths.iter().filter(|path| is_valid(path)).count();
    assert!(valid > 5_000 && valid < 80_000, "both kinds are met: {valid}");
    paths.iter().for_each(|path| assert_eq!(is_valid(path), java_is_valid(path), "{path:?}"));
}

#[test]
fn a_sequential_path_is_judged_with_its_suffix() {
    let fixed =
        ["", "/", "//", "/a", "/a/", "/a//", "a", ".", "/.", "/..", "/a/.", "/a/..", "/./", "/../"];
    let random = random_paths();
    for path in fixed.into_iter().chain(random.iter().map(String::as_str)) {
        for suffix in ["0000000000", "2147483647", "-2147483648", "-000000001"] {
            let whole = is_valid(&format!("{path}{suffix}"));
            assert_eq!(is_valid_with_suffix(path), whole, "{path:?} and {suffix}");
        }
    }
}
