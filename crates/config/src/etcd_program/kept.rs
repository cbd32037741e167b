//! The list of members that a data directory keeps. The first start writes it into the directory,
//! and each later start reads it. As in etcd, flags about the first start are ignored from then on.
//!
//! ```text
//! quorate servers 1
//! own NUMBER                  0: the server is alone, and there is no list
//! server NUMBER URL NAME
//! ...
//! ```

use std::path::Path;

use machine::ServerList;
use storage::datadir::{SERVERS_FILE, text_of_servers};

use super::url::Url;
use crate::ReadFile;
use crate::cluster::ClusterConfig;

const HEAD: &str = "quorate servers 1";

/// A member: its name and its URLs.
pub(super) type Member = (String, Vec<Url>);

/// The members that a data directory was begun with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// This server's number; 0 if the server is alone.
    pub own: u32,
    /// All members with their numbers. The numbers need not follow the order of the names.
    pub members: Vec<(u32, Member)>,
}

impl Kept {
    /// Reads the list from a data directory; `None` if there is no list.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn read(data_dir: &Path, read: ReadFile<'_>) -> Result<Option<Kept>, String> {
        let path = data_dir.join(SERVERS_FILE);
        let failed = |cause: String| {
            format!(
                "{}: {cause}; if it is removed, --initial-cluster says the members again",
                path.display()
            )
        };
        let Some(content) = read(&path).map_err(|cause| failed(cause.to_string()))? else {
            return Ok(None);
        };
        let text = text_of_servers(&content).map_err(|cause| failed(cause.to_string()))?;
        let kept = Kept::parse(text).ok_or_else(|| failed("it has another form".to_string()));
        kept.map(Some)
    }

    fn parse(text: &str) -> Option<Kept> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == HEAD)?;
        let own = lines.next()?.strip_prefix("own ")?.parse().ok()?;
        let member = |line: &str| {
            let (number, rest) = line.strip_prefix("server ")?.split_once(' ')?;
            let (url, name) = rest.split_once(' ')?;
            Some((number.parse().ok()?, (name.to_string(), vec![Url::parse(url).ok()?])))
        };
        let members: Vec<(u32, Member)> = lines.map(member).collect::<Option<_>>()?;
        let is_whole = match own {
            0 => members.is_empty(),
            _ => members.iter().any(|(number, _)| *number == own),
        };
        is_whole.then_some(Kept { own, members })
    }
}

/// The text to write into the data directory of a server with this configuration.
pub fn text(cluster: Option<&ClusterConfig>) -> String {
    match cluster {
        Some(cluster) => text_of_list(u64::from(cluster.number), &cluster.server_list()),
        None => format!("{HEAD}\nown 0\n"),
    }
}

/// The text to write into the data directory of the server with this number in this list.
pub fn text_of_list(own: u64, list: &ServerList) -> String {
    let mut text = format!("{HEAD}\nown {own}\n");
    for (number, record) in &list.servers {
        let url = record.peer_urls.first().map(String::as_str).unwrap_or_default();
        text.push_str(&format!("server {number} {url} {}\n", record.name));
    }
    text
}

#[cfg(test)]
mod tests;
