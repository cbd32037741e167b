//! Helpers for the paths of znodes.

/// The path of the parent; `/` for a znode right below the root.
pub fn parent_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}
