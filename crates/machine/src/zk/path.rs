//! Paths of znodes.

/// The path above `path`: `/` for a znode below the root.
pub fn parent_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}
