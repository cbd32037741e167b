//! A walk over a tree, depth first. It holds in memory only the siblings, still to be visited,
//! along the path to the present znode. It sends no requests: its owner passes it the children of
//! each znode that it enters. Pure.

/// The next step of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Enters a znode, before the znodes below it. The owner passes the znode's children to
    /// [`Walk::listed`]; a znode whose children are not passed counts as a leaf.
    Enter {
        /// The path of the znode.
        path: String,
        /// How many levels the znode is below the root of the walk.
        depth: usize,
    },
    /// Leaves a znode, after everything below it.
    Leave(String),
}

/// A walk, and how far it has come.
#[derive(Debug)]
pub struct Walk {
    root: Option<String>,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    path: String,
    /// The children that the walk has not entered yet.
    names: std::vec::IntoIter<String>,
}

impl Walk {
    /// A walk that starts at this znode.
    pub fn new(root: &str) -> Walk {
        Walk { root: Some(root.to_string()), levels: Vec::new() }
    }

    /// The next step; `None` at the end.
    pub fn next(&mut self) -> Option<Step> {
        if let Some(path) = self.root.take() {
            return Some(self.enter(path));
        }
        let level = self.levels.last_mut()?;
        match level.names.next() {
            Some(name) => {
                let path = join(&level.path, &name);
                Some(self.enter(path))
            }
            None => self.levels.pop().map(|level| Step::Leave(level.path)),
        }
    }

    fn enter(&mut self, path: String) -> Step {
        let depth = self.levels.len();
        self.levels.push(Level { path: path.clone(), names: Vec::new().into_iter() });
        Step::Enter { path, depth }
    }

    /// Sets the children of the znode that was entered last, in the order of the walk.
    pub fn listed(&mut self, names: Vec<String>) {
        if let Some(level) = self.levels.last_mut() {
            level.names = names.into_iter();
        }
    }

    /// The children of the znode that was entered last.
    pub fn children(&self) -> &[String] {
        self.levels.last().map_or(&[], |level| level.names.as_slice())
    }

    /// The paths of the next siblings of the znode that was entered last, at most `count_max`. The
    /// walk enters them next if there is nothing below that znode.
    pub fn siblings(&self, count_max: usize) -> Vec<String> {
        let Some([parent, _]) = self.levels.last_chunk() else { return Vec::new() };
        let names = parent.names.as_slice().iter();
        names.take(count_max).map(|name| join(&parent.path, name)).collect()
    }

    /// For each znode on the path from a child of the root down to the znode that was entered last:
    /// whether it is the last of its siblings.
    pub fn lasts(&self) -> impl Iterator<Item = bool> {
        let above = self.levels.split_last().map_or(&[][..], |(_, above)| above);
        above.iter().map(|level| level.names.as_slice().is_empty())
    }
}

/// The path of a child.
pub fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
