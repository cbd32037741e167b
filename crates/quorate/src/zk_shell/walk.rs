//! A walk over a tree, depth first, that knows only the siblings still to be visited on the way
//! down to where it is. It asks for nothing: its owner lists the children of each znode it enters.
//! Pure.

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A znode, before those below it. Its children go to [`Walk::listed`], or it counts as a leaf.
    Enter {
        /// Which.
        path: String,
        /// How far below the root of the walk.
        depth: usize,
    },
    /// A znode, after all below it.
    Leave(String),
}

/// The walk.
#[derive(Debug)]
pub struct Walk {
    root: Option<String>,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    path: String,
    /// The children not yet entered.
    names: std::vec::IntoIter<String>,
}

impl Walk {
    /// Starts at a znode.
    pub fn new(root: &str) -> Walk {
        Walk { root: Some(root.to_string()), levels: Vec::new() }
    }

    /// The next step, or the end.
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

    /// The children of the znode that was entered last, in the order in which they are visited.
    pub fn listed(&mut self, names: Vec<String>) {
        if let Some(level) = self.levels.last_mut() {
            level.names = names.into_iter();
        }
    }

    /// The children of the znode that was entered last.
    pub fn children(&self) -> &[String] {
        self.levels.last().map_or(&[], |level| level.names.as_slice())
    }

    /// Siblings of the znode that was entered last, which are entered next if nothing is below.
    pub fn siblings(&self, count_max: usize) -> Vec<String> {
        let Some([parent, _]) = self.levels.last_chunk() else { return Vec::new() };
        let names = parent.names.as_slice().iter();
        names.take(count_max).map(|name| join(&parent.path, name)).collect()
    }

    /// Of the znode that was entered last and those above it, without the root: whether each is the
    /// last of its siblings.
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
