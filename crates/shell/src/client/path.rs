//! Checks a path as ZooKeeper's client does before it sends one, with the same error texts
//! (`PathUtils.validatePath`, 3.9.5). Pure.

/// The fault of a path, as text; `None` if the path is valid.
pub fn path_fault(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some("Path length must be > 0".to_string());
    }
    let Some(names) = path.strip_prefix('/') else {
        return Some("Path must start with / character".to_string());
    };
    if zk::path::is_valid(path) {
        return None;
    }
    if names.ends_with('/') {
        return Some("Path must not end with / character".to_string());
    }
    let (reason, index) = first_fault(path);
    Some(format!("Invalid path string \"{}\" caused by {reason} @{index}", path.escape_debug()))
}

/// The first fault in a path, and the index of its character as Java counts it (in UTF-16 units).
fn first_fault(path: &str) -> (&'static str, usize) {
    let mut start = 1;
    for name in path[1..].split('/') {
        let length = name.encode_utf16().count();
        match name {
            "" => return ("empty node name specified", start),
            "." | ".." => return ("relative paths not allowed", start + length - 1),
            _ => {}
        }
        let mut index = start;
        for character in name.chars() {
            if !zk::path::is_valid(&format!("/a{character}")) {
                let null = "null character not allowed";
                return (if character == '\0' { null } else { "invalid character" }, index);
            }
            index += character.len_utf16();
        }
        start += length + 1;
    }
    ("invalid character", start)
}

#[cfg(test)]
mod tests;
