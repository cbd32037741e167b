//! Runs the commands on whole trees (`ls -R`, `tree`, `setAcl -R`, `deleteall`). They walk depth
//! first, and ask for the children of several znodes at once. They hold in memory only these
//! answers and the siblings along the path to the present znode.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use zk::AclEntry;
use zk::ErrorCode;

use super::limits::{DELETE_BATCH_BYTES_MAX, WALK_AHEAD_MAX, WALK_NAMES_MAX};
use super::screen::{Format, Screen};
use super::show;
use super::walk::{Step, Walk, join};
use super::{Failure, failure_value};
use crate::client::{Client, ClientError};

/// A walk over a tree that gets the children from a server.
struct Walker<'a> {
    client: &'a Client,
    screen: &'a Screen,
    walk: Walk,
    watch: bool,
    /// Znodes at this depth or below are not asked for their children.
    depth_max: usize,
    /// Children that were asked for in advance, with the path of their parent, in the order of the
    /// walk.
    ahead: VecDeque<(String, Result<Vec<String>, ErrorCode>)>,
    /// How many znodes the server refused to list.
    unread_count: usize,
    /// The errors for the first of these znodes, at most [`NOTES_MAX`].
    unread: Vec<String>,
    /// For how many znodes the next round trip asks.
    window: usize,
}

impl<'a> Walker<'a> {
    /// Starts a walk at a znode, which must exist.
    fn start(
        client: &'a Client,
        screen: &'a Screen,
        root: &str,
        watch: bool,
        depth_max: Option<usize>,
    ) -> Result<Walker<'a>, Failure> {
        let depth_max = depth_max.unwrap_or(usize::MAX);
        let (names, _) = client.children(root, watch).map_err(|error| Failure::of(error, root))?;
        let ahead = VecDeque::from([(root.to_string(), Ok(names))]);
        let (walk, window) = (Walk::new(root), 1);
        let (unread_count, unread) = (0, Vec::new());
        screen.set_interruptible(true);
        Ok(Walker { client, screen, walk, watch, depth_max, ahead, unread_count, unread, window })
    }

    /// The next step of the walk. A znode that the server refuses to list counts as a leaf;
    /// [`Walker::end`] reports it.
    fn next(&mut self) -> Result<Option<Step>, Failure> {
        if self.screen.is_interrupted() {
            return Err(Failure::Said("interrupted".to_string()));
        }
        let step = self.walk.next();
        if let Some(Step::Enter { path, depth }) = &step
            && *depth < self.depth_max
        {
            match self.children(path)? {
                Ok(names) => self.walk.listed(names),
                Err(code) => {
                    self.unread_count += 1;
                    if self.unread.len() < NOTES_MAX {
                        let error = ClientError::Refused(code);
                        self.unread.push(show::error_text(&error, Some(path)));
                    }
                }
            }
        }
        Ok(step)
    }

    /// The children of the znode that was entered last. One round trip also asks for the children
    /// of this znode's next siblings. While the lists are short, each round trip asks for twice as
    /// many znodes as the one before.
    fn children(&mut self, path: &str) -> Result<Result<Vec<String>, ErrorCode>, Failure> {
        // The children asked for in advance are in the order of the walk.
        if self.ahead.front().is_none_or(|(next, _)| next != path) {
            self.ask(path)?;
        }
        Ok(self.ahead.pop_front().map_or(Ok(Vec::new()), |(_, names)| names))
    }

    fn ask(&mut self, path: &str) -> Result<(), Failure> {
        let mut paths = vec![path.to_string()];
        paths.extend(self.walk.siblings(self.window - 1));
        let listed = self.client.children_of_each(&paths, self.watch);
        let listed = listed.map_err(|error| Failure::of(error, path))?;
        let names: usize = listed.iter().flatten().map(Vec::len).sum();
        self.window = match names <= WALK_NAMES_MAX {
            true => (self.window * 2).min(WALK_AHEAD_MAX),
            false => 1,
        };
        // They go to the front, because the walk needs those that are already there later.
        for listed in paths.into_iter().zip(listed).rev() {
            self.ahead.push_front(listed);
        }
        Ok(())
    }

    /// Ends the walk. It is an error if the server refused to list some znodes; the notes name the
    /// first of them.
    fn end(mut self, notes: &mut Vec<String>) -> Result<(), Failure> {
        notes.append(&mut self.unread);
        match self.unread_count {
            0 => Ok(()),
            count => Err(Failure::Said(format!("the children of {count} znodes were not read"))),
        }
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        self.screen.set_interruptible(false);
    }
}

/// How many errors are listed one by one.
const NOTES_MAX: usize = 20;

/// A list of paths that is printed while it grows.
struct List<'a> {
    screen: &'a Screen,
    is_first: bool,
}

impl<'a> List<'a> {
    fn begin(screen: &'a Screen, command: &str, path: &str) -> std::io::Result<List<'a>> {
        if screen.format() == Format::Json {
            let mut fields = Map::new();
            fields.insert("command".to_string(), json!(command));
            fields.insert("path".to_string(), json!(path));
            screen.begin_value(&fields, "paths")?;
        }
        Ok(List { screen, is_first: true })
    }

    /// Prints an item: `line` in text form, `path` in JSON.
    fn item(&mut self, line: &str, path: &str) -> std::io::Result<()> {
        match self.screen.format() {
            Format::Text => self.screen.put(&format!("{line}\n")),
            Format::Json => {
                let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
                self.screen.put(&format!("{comma}{}", Value::from(path)))
            }
        }
    }

    /// Ends the list. In JSON, adds the notes, whether `done` is a success, and the error.
    fn end(self, done: Result<(), Failure>, notes: &mut Vec<String>) -> Result<(), Failure> {
        if self.screen.format() == Format::Text {
            return done;
        }
        let mut fields = Map::new();
        if !notes.is_empty() {
            fields.insert("notes".to_string(), json!(std::mem::take(notes)));
        }
        fields.insert("ok".to_string(), json!(done.is_ok()));
        match done {
            Ok(()) => {}
            Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            Err(failure) => {
                fields.insert("error".to_string(), failure_value(&failure));
                self.screen.end_value(fields)?;
                return Err(Failure::Shown);
            }
        }
        Ok(self.screen.end_value(fields)?)
    }
}

/// Runs `ls -R`: prints a znode and everything below it, in the order of `ZKUtil.visitSubTreeDFS`:
/// all children of a znode come before the znodes below its first child.
pub fn list_below(
    client: &Client,
    screen: &Screen,
    root: &str,
    watch: bool,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut walker = Walker::start(client, screen, root, watch, None)?;
    let mut list = List::begin(screen, "ls", root)?;
    let mut show = || -> Result<(), Failure> {
        list.item(root, root)?;
        while let Some(step) = walker.next()? {
            let Step::Enter { path, .. } = step else { continue };
            for name in walker.walk.children() {
                let below = join(&path, name);
                list.item(&below, &below)?;
            }
        }
        Ok(())
    };
    let done = show().and_then(|()| walker.end(notes));
    list.end(done, notes)
}

/// Runs `tree`: draws a znode and everything below it, down to `depth_max`.
pub fn draw_below(
    client: &Client,
    screen: &Screen,
    root: &str,
    depth_max: Option<usize>,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut walker = Walker::start(client, screen, root, false, depth_max)?;
    let mut list = List::begin(screen, "tree", root)?;
    let mut show = || -> Result<(), Failure> {
        while let Some(step) = walker.next()? {
            let Step::Enter { path, depth } = step else { continue };
            if depth == 0 {
                list.item(&path, &path)?;
                continue;
            }
            let lasts: Vec<bool> = walker.walk.lasts().collect();
            let mut line = String::new();
            if let Some((own, above)) = lasts.split_last() {
                above.iter().for_each(|last| line += if *last { "    " } else { "│   " });
                line += if *own { "└── " } else { "├── " };
            }
            line += path.rsplit('/').next().unwrap_or_default();
            list.item(&line, &path)?;
        }
        Ok(())
    };
    let done = show().and_then(|()| walker.end(notes));
    list.end(done, notes)
}

/// Runs `setAcl -R`: sets the ACL of a znode and of everything below it. A refusal does not stop it
/// (`SetAclCommand`); the error at the end counts the refusals.
pub fn set_acl_below(
    client: &Client,
    screen: &Screen,
    root: &str,
    acl: &[AclEntry],
    version: i32,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut walker = Walker::start(client, screen, root, false, None)?;
    let mut refused_count = 0_usize;
    while let Some(step) = walker.next()? {
        let Step::Enter { path, .. } = step else { continue };
        match client.set_acl(&path, acl, version) {
            Ok(_) => {}
            // Another client has deleted the znode.
            Err(ClientError::Refused(ErrorCode::NO_NODE)) if path != root => {}
            Err(error @ ClientError::Refused(_)) => {
                refused_count += 1;
                if notes.len() < NOTES_MAX {
                    notes.push(show::error_text(&error, Some(&path)));
                }
            }
            Err(error) => return Err(Failure::of(error, &path)),
        }
    }
    walker.end(notes)?;
    match refused_count {
        0 => Ok(()),
        count => Err(Failure::Said(format!("the ACL of {count} znodes was not set"))),
    }
}

/// Runs `deleteall`: deletes a znode and everything below it, the lowest znodes first, many in one
/// transaction (`ZKUtil.deleteRecursive`).
pub fn delete_below(
    client: &Client,
    screen: &Screen,
    root: &str,
    batch_max: usize,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut walker = Walker::start(client, screen, root, false, None)?;
    let mut batch = Vec::new();
    let mut bytes = 0;
    while let Some(step) = walker.next()? {
        let Step::Leave(path) = step else { continue };
        bytes += path.len();
        batch.push(path);
        if batch.len() >= batch_max || bytes >= DELETE_BATCH_BYTES_MAX {
            delete_batch(client, &batch)?;
            batch.clear();
            bytes = 0;
        }
    }
    delete_batch(client, &batch)?;
    walker.end(notes)
}

/// Deletes znodes in one transaction. If that is refused, deletes them one by one, because another
/// client may have deleted some of them.
fn delete_batch(client: &Client, batch: &[String]) -> Result<(), Failure> {
    if batch.len() > 1 {
        match client.delete_each(batch) {
            Ok(()) => return Ok(()),
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(Failure::Client(error, None)),
        }
    }
    for path in batch {
        match client.delete(path, -1) {
            Ok(()) | Err(ClientError::Refused(ErrorCode::NO_NODE)) => {}
            Err(error) => {
                let text = show::error_text(&error, Some(path));
                return Err(Failure::Said(format!(
                    "Failed to delete some node(s) in the subtree! {text}"
                )));
            }
        }
    }
    Ok(())
}
