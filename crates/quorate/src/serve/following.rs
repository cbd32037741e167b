//! Follows the list of servers while the server runs: stores it in the server's files, listens
//! where it says, and ends the server once it was removed.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use config::cluster::client_address_in;
use config::{ClusterConfig, ListenAddress, ServeConfig, etcd_program, rewritten};
use machine::{ServerList, Servers};
use node::limits::REMOVED_SERVES;
use node::{ListNews, Node};
use tokio::sync::watch;

use crate::peers;

/// How long to wait before a port is bound again that could not be bound.
const BIND_PAUSE: Duration = Duration::from_secs(1);

/// Follows the list of servers.
pub(super) struct Following<'a> {
    config: &'a ServeConfig,
    cluster: &'a ClusterConfig,
    node: &'a Node,
    is_etcd_program: bool,
    /// Where this server listens for other servers; `None` once it has given that up for an address
    /// that is not bound yet.
    listens: Option<ListenAddress>,
    /// Whether the address that the list has could not be bound.
    is_refused: bool,
    /// Where this server is to listen for ZooKeeper's clients.
    clients: watch::Sender<Option<ListenAddress>>,
    /// The version of the list that the files have.
    stored: u64,
    /// Whether the server has warned that its file has another list.
    has_warned: bool,
}

impl<'a> Following<'a> {
    /// Begins with the list of the configuration. `clients` gets the address for ZooKeeper's
    /// clients each time that it changes. `None` for a standalone server.
    ///
    /// Under etcd's name the list is stored in the data directory: the next start reads it there,
    /// instead of on the command line.
    ///
    /// # Errors
    /// The list cannot be stored.
    pub fn begin(
        config: &'a ServeConfig,
        node: &'a Node,
        is_etcd_program: bool,
        clients: watch::Sender<Option<ListenAddress>>,
    ) -> anyhow::Result<Option<Following<'a>>> {
        if is_etcd_program {
            let text = etcd_program::text_of_servers(config.cluster.as_ref());
            node.keep_servers(&text).context(SERVERS_FILE)?;
        }
        let first = config.cluster.as_ref().and_then(|it| Some((it, it.listen.first()?.clone())));
        Ok(first.map(|(cluster, listens)| {
            let (listens, stored) = (Some(listens), cluster.version);
            Following {
                config,
                cluster,
                node,
                is_etcd_program,
                listens,
                is_refused: false,
                clients,
                stored,
                has_warned: false,
            }
        }))
    }

    /// Follows the list. Returns once this server was removed from it and must end.
    ///
    /// # Errors
    /// A list cannot be stored in the data directory.
    pub async fn run(
        mut self,
        mut listed: watch::Receiver<Option<ListNews>>,
    ) -> anyhow::Result<()> {
        loop {
            let news = listed.borrow_and_update().clone();
            let mut is_done = true;
            if let Some(ListNews { servers, is_removed }) = news {
                if is_removed {
                    tracing::info!("the member has been permanently removed from the cluster");
                    tokio::time::sleep(REMOVED_SERVES).await;
                    if listed.borrow().as_ref().is_some_and(|news| news.is_removed) {
                        return Ok(());
                    }
                    // It was listed again: after a restart it applies the lists in between once
                    // more, and by now the newest one.
                    continue;
                }
                self.store(&servers)?;
                is_done = self.listen(&servers).await;
            }
            tokio::select! {
                changed = listed.changed() => changed.context("the node has ended")?,
                () = tokio::time::sleep(BIND_PAUSE), if !is_done => {}
            }
        }
    }

    /// Stores the list in the files of this server. A removed one keeps the last list that has it.
    fn store(&mut self, servers: &Servers) -> anyhow::Result<()> {
        let own = u64::from(self.cluster.number);
        let kept = servers.list_to_keep();
        if self.is_etcd_program && kept.servers.contains_key(&own) {
            let text = etcd_program::text_of_list(own, &kept);
            return self.node.keep_servers(&text).context(SERVERS_FILE);
        }
        let list = servers.list();
        let is_new = servers.is_managed() && list.version != self.stored;
        let source = &self.config.source;
        let is_wanted = source.is_zoo_cfg && self.config.replicated.reconfig_enabled;
        let zoo_cfg = source.file.as_ref().filter(|_| is_wanted && is_new);
        // A file without the servers that etcd's clients have added would be a wrong list.
        let fits = list.servers.values().all(|record| record.zk.is_some());
        let zoo_cfg = zoo_cfg.filter(|_| fits && list.servers.contains_key(&own));
        self.warn_if_file_differs(servers, zoo_cfg.is_some());
        if let Some(zoo_cfg) = zoo_cfg {
            self.stored = list.version;
            // The state has the list. The file is for people, and for the next start.
            if let Err(error) = rewrite(zoo_cfg, list, own) {
                tracing::warn!("{zoo_cfg}: the changed servers cannot be written to it: {error}");
            }
        }
        Ok(())
    }

    /// Warns once if the configuration has another list than the ensemble, whose clients have
    /// changed it: the configuration's list no longer counts. A file that is rewritten gets the new
    /// list.
    fn warn_if_file_differs(&mut self, servers: &Servers, is_rewritten: bool) {
        let list = servers.list();
        let differs = !self.is_etcd_program
            && servers.is_managed()
            && list.version != self.stored
            && list.servers != self.cluster.server_list().servers;
        if differs && !is_rewritten && !self.has_warned {
            tracing::warn!(
                "clients have changed the servers of the ensemble: the list in this server's \
                 configuration differs from theirs, and has no effect"
            );
            self.has_warned = true;
        }
    }

    /// Listens where the list says. Returns false if a port could not be bound: that is to be tried
    /// again.
    async fn listen(&mut self, servers: &Servers) -> bool {
        let own = u64::from(self.cluster.number);
        let record = servers.list().servers.get(&own).filter(|_| servers.is_managed());
        let clients = record.and_then(client_address_in);
        // A server without a port in the clear does not get one.
        if clients.is_some() && self.config.listeners.zk_addr.is_some() {
            self.clients.send_if_modified(|present| {
                let is_new = *present != clients;
                *present = clients;
                is_new
            });
        }
        let Some(record) = servers.list_to_follow().servers.get(&own) else { return true };
        let wanted = self.cluster.listen_of(record);
        let Some(wanted) = wanted.filter(|it| Some(it) != self.listens.as_ref()) else {
            return true;
        };
        let (cluster, asked, former) = (self.cluster.clone(), wanted.clone(), self.listens.clone());
        // A name may take long to be resolved.
        let bound = tokio::task::spawn_blocking(move || match former {
            Some(former) if is_same(&asked, &former) => Ok(None),
            _ => peers::try_listen(&cluster, &asked).map(Some),
        });
        match bound.await.unwrap_or_else(|ended| Err(ended.into())) {
            Ok(listener) => {
                if let Some(listener) = listener {
                    tracing::info!("other servers reach this one at {wanted} now");
                    self.node.listen_to_peers(vec![listener]);
                }
                self.listens = Some(wanted);
                self.is_refused = false;
                true
            }
            Err(error) => {
                if !self.is_refused {
                    tracing::warn!("{error:#}; it is tried again each second");
                }
                self.is_refused = true;
                if self.listens.take_if(|former| former.port == wanted.port).is_some() {
                    // The former listener may be in the way. It ends a little later.
                    self.node.listen_to_peers(Vec::new());
                }
                false
            }
        }
    }
}

/// Whether both mean the same address of this machine: a name and its number, for instance.
fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    let (Ok(one), Ok(other)) = (one.candidates(), other.candidates()) else { return false };
    one.into_iter().any(|address| other.contains(&address))
}

/// The file in the data directory, as errors name it.
const SERVERS_FILE: &str = "the list of servers in the data directory";

/// Writes the list to a new dynamic file, and makes the `zoo.cfg` name it. The first time, the
/// `zoo.cfg` is kept with `.bak` at its end.
fn rewrite(zoo_cfg: &str, list: &ServerList, own: u64) -> io::Result<()> {
    let text = fs::read_to_string(zoo_cfg)?;
    let dynamic = rewritten::dynamic_name(zoo_cfg, list.version);
    replace(&dynamic, &rewritten::dynamic_file(list))?;
    let zk = list.servers.get(&own).and_then(|record| record.zk.as_ref());
    let has_clients = zk.is_some_and(|zk| zk.clients.is_some());
    let backup = format!("{zoo_cfg}.bak");
    if !Path::new(&backup).exists() {
        replace(&backup, &text)?;
    }
    let absolute = fs::canonicalize(&dynamic)?;
    replace(zoo_cfg, &rewritten::zoo_cfg(&text, &absolute.to_string_lossy(), has_clients))?;
    tracing::info!("{zoo_cfg}: its servers are in {dynamic} now");
    Ok(())
}

/// Replaces a file as a whole, with the permissions that it had. After a crash it has the old text
/// or the new one.
fn replace(path: &str, text: &str) -> io::Result<()> {
    let path = Path::new(path);
    // A link to the file stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let new = path.with_added_extension("new");
    let mut file = fs::File::create(&new)?;
    if let Ok(former) = fs::metadata(&path) {
        file.set_permissions(former.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{ServerRecord, ServerRole, ZkAddresses};

    #[test]
    fn an_address_with_its_name_is_the_same() {
        let address = |text: &str| text.parse::<ListenAddress>().expect("an address");
        let is_same = |one: &str, other: &str| is_same(&address(one), &address(other));
        assert!(is_same("127.0.0.1:5", "localhost:5"));
        assert!(!is_same("127.0.0.1:5", "127.0.0.1:6"));
        assert!(!is_same("127.0.0.1:5", "*:5"));
    }

    #[test]
    fn a_rewritten_file_names_the_servers_and_the_first_text_is_kept() {
        let dir = std::env::temp_dir().join(format!("following-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("it is made");
        let zoo_cfg = dir.join("z.cfg").display().to_string();
        let first = "dataDir=d\nclientPort=1\nserver.7=a:1:2\n";
        fs::write(&zoo_cfg, first).expect("it is written");
        let record = |host: &str| ServerRecord {
            name: String::new(),
            role: ServerRole::Voter,
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            zk: Some(ZkAddresses {
                servers: format!("{host}:1:2"),
                clients: Some("0.0.0.0:3".to_string()),
            }),
        };
        for (version, host) in [(16, "a"), (31, "b")] {
            let list = ServerList { version, servers: [(7, record(host))].into() };
            rewrite(&zoo_cfg, &list, 7).expect("it is rewritten");
            let dynamic =
                fs::canonicalize(format!("{zoo_cfg}.dynamic.{version:x}")).expect("it is");
            let expected = format!("server.7={host}:1:2:participant;0.0.0.0:3\n");
            assert_eq!(fs::read_to_string(&dynamic).expect("it is there"), expected);
            let expected = format!("dataDir=d\ndynamicConfigFile={}\n", dynamic.display());
            assert_eq!(fs::read_to_string(&zoo_cfg).expect("it is there"), expected);
        }
        assert_eq!(fs::read_to_string(format!("{zoo_cfg}.bak")).expect("it is there"), first);
        fs::remove_file(&zoo_cfg).expect("it was there");
        let list = ServerList { version: 1, servers: [(7, record("a"))].into() };
        assert!(rewrite(&zoo_cfg, &list, 7).is_err());
        assert!(!dir.join("z.cfg").exists(), "a file that is gone is not made again");
        fs::remove_dir_all(&dir).expect("it is removed");
    }
}
