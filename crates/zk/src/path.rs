//! Checks whether ZooKeeper accepts a path (`PathUtils.validatePath`, 3.9.5).

/// Whether a znode may have this path: absolute; no part that is empty, `.` or `..`; no slash at
/// the end, except in the root's path; and only allowed characters.
pub fn is_valid(path: &str) -> bool {
    if path == "/" {
        return true;
    }
    let Some(names) = path.strip_prefix('/') else { return false };
    names.split('/').all(|name| !matches!(name, "" | "." | "..") && name.chars().all(is_allowed))
}

/// Whether a sequential create may ask for this path. The suffix that the server appends consists
/// of digits, so here the last part may be empty or consist of dots.
pub fn is_valid_with_suffix(path: &str) -> bool {
    let Some(names) = path.strip_prefix('/') else { return false };
    let (parents, last) = names.rsplit_once('/').unwrap_or(("", names));
    last.chars().all(is_allowed)
        && (parents.is_empty() && !names.starts_with('/')
            || !parents.is_empty() && is_valid(&path[..parents.len() + 1]))
}

/// Whether a path may contain `character`. ZooKeeper refuses U+0000-001F, U+007F-009F, U+D800-F8FF
/// and U+FFF0-FFFF, and also everything beyond the basic plane, which Java writes as two
/// surrogates.
fn is_allowed(character: char) -> bool {
    !matches!(character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}'
        | '\u{fff0}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests;
