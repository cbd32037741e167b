//! Reads Rust source as far as the other tests here need it: which bytes are code, where a brace
//! closes, which items are compiled for tests only.

use std::ops::Range;

/// The source with blanks in place of comments and of the contents of strings and chars. Every byte
/// of code keeps its offset, and every line its number.
pub fn code_only(source: &str) -> String {
    let mut code = source.as_bytes().to_vec();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let word = word_at(rest);
        let raw =
            if ["r", "br", "cr"].contains(&word) { raw_string(&rest[word.len()..]) } else { 0 };
        if !word.is_empty() && raw == 0 {
            at += word.len();
            continue;
        }
        let blank = if raw > 0 { word.len() + raw } else { comment_or_literal(rest) };
        for byte in code[at..at + blank].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        at += blank.max(first.len_utf8());
    }
    String::from_utf8(code).expect("only whole comments and literals became blanks")
}

/// The word at the beginning of `rest`; empty if `rest` does not begin with one.
pub fn word_at(rest: &str) -> &str {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

/// The offset of every whole word `word` in `code`.
pub fn places_of(code: &str, word: &str) -> Vec<usize> {
    let is_whole = |at: &usize| {
        let before = code[..*at].chars().next_back();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '#');
        !is_inside && word_at(&code[*at..]) == word
    };
    code.match_indices(word).map(|(at, _)| at).filter(is_whole).collect()
}

/// The length in bytes of the comment, string or char at the beginning of `rest`; 0 if `rest`
/// begins with code.
fn comment_or_literal(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    let mut chars = rest.chars();
    let is_char = match (chars.next(), chars.next(), chars.next()) {
        (Some('\''), Some('\\'), _) => true,
        (Some('\''), Some(_), after) => after == Some('\''),
        _ => false,
    };
    // Otherwise `rest` begins with code or a lifetime.
    if is_char { quoted(rest, '\'') } else { 0 }
}

/// The number of bytes up to and including the `quote` that closes the first one.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

/// The length in bytes of a block comment. Such comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let step = &rest.as_bytes()[at..rest.len().min(at + 2)];
        match step {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length in bytes of a raw string after its `r`, with hashes and quotes; 0 if no raw string
/// follows.
fn raw_string(rest: &str) -> usize {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !rest[hashes..].starts_with('"') {
        return 0;
    }
    let opened = hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    rest[opened..].find(&end).map_or(rest.len(), |at| opened + at + end.len())
}

/// The end of the item that begins at `from`, and the offset of its body's opening brace, if it has
/// a body. The end is after the item's `;`, or after the brace that closes its body. `code` must
/// have no comments and literals.
pub fn item_end(code: &str, from: usize) -> (usize, Option<usize>) {
    let mut depth = 0;
    let mut body = None;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' if depth == 0 && body.is_none() => {
                body = Some(at);
                depth += 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => return (at + 1, None),
            _ => {}
        }
        if depth == 0 && byte == b'}' && body.is_some() {
            return (at + 1, body);
        }
        // The block around the item ends here: the item is its last field or its last expression.
        if depth < 0 {
            return (at, None);
        }
    }
    (code.len(), body)
}

/// The ranges of the items with `#[cfg(test)]`, each with its attributes.
pub fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        if items.last().is_none_or(|last| last.end <= at) {
            items.push(at..item_end(code, at + attribute.len()).0);
        }
    }
    items
}

/// The code with blanks in place of items that are compiled for tests only. Every byte keeps its
/// offset.
pub fn without_tests(code: &str) -> String {
    let mut left = code.to_string();
    for item in test_items(code) {
        let blanks: String = code[item.clone()]
            .chars()
            .map(|c| if c == '\n' { "\n".into() } else { " ".repeat(c.len_utf8()) })
            .collect();
        left.replace_range(item, &blanks);
    }
    left
}

#[test]
fn comments_and_literals_are_blank() {
    let check = |source: &str, expected: &str| assert_eq!(code_only(source), expected);
    check("a // crate::b\nc", "a            \nc");
    check("a /* b /* c */ d */ e", "a                   e");
    check(r#"f("{", x)"#, "f(   , x)");
    check(r#"f("\"{", x)"#, "f(     , x)");
    check(r#"f("\\", x)"#, "f(    , x)");
    check("f(\"é{\")", "f(     )");
    check("f('{', '\\'', '\\u{7d}')", "f(   ,     ,         )");
    check("f('é')", "f(    )");
    check("impl<'a> A<'a> {", "impl<'a> A<'a> {");
    check("'a: loop { break 'a }", "'a: loop { break 'a }");
    check("r\"\\\" x", "     x");
    check("br#\"a\"}\"# x", "          x");
    check("for_r\"{\"", "for_r   ");
    check("b\"{\" b'{' r#fn", "b    b    r#fn");
    check("\"a\nb\"", "  \n  ");
}

#[test]
fn items_end_where_their_body_ends() {
    let check = |code: &str, expected: &str| assert_eq!(&code[..item_end(code, 0).0], expected);
    check("mod a; b", "mod a;");
    check("fn f() {} b", "fn f() {}");
    check("a: B, } fn f() {}", "a: B, ");
    check("fn f(a: [u8; 2]) -> B { { c; } } d", "fn f(a: [u8; 2]) -> B { { c; } }");
}

#[test]
fn what_is_compiled_for_tests_is_left_out() {
    let check = |code: &str, expected: &str| assert_eq!(without_tests(code).trim_end(), expected);
    check("a #[cfg(test)] mod b;", "a");
    let item = "#[cfg(test)] #[path = x] mod b { fn c() {} }";
    check(&format!("a{item}d"), &format!("a{}d", " ".repeat(item.len())));
}
