//! Compares the machine with a model that is as simple as possible: a map from paths to znodes,
//! copied before each multi. The model was written from ZooKeeper's documentation and source, and
//! shares only types with the machine.

use super::rig::{Random, Rig, Sent, acl_text, check_invariants, random_sent};
use super::*;
use std::collections::BTreeMap;

use crate::zk::command::{AskedAcl, Op};
use crate::{AclEntry, Refusal, SessionId, Settings, Stat, ZkCommand, ZkOutcome};

#[derive(Clone, Default)]
struct Node {
    data: Option<Vec<u8>>,
    acl: Vec<AclEntry>,
    /// 'p'ersistent, 'e'phemeral, 'c'ontainer, 't'tl.
    kind: char,
    owner: i64,
    creates: i32,
    ttl_ms: i64,
    stat: Stat,
}

#[derive(Clone)]
struct Model {
    nodes: BTreeMap<String, Node>,
    /// For each session id: connection, password, ordinal of the attach.
    sessions: BTreeMap<i64, (u64, [u8; 16], u64)>,
    settings: Settings,
    zxid: i64,
    ordinal: u64,
}

fn parent_of(path: &str) -> String {
    let end = path.rfind('/').expect("the model is asked for absolute paths only");
    if end == 0 { "/".to_string() } else { path[..end].to_string() }
}

impl Model {
    fn new() -> Model {
        let everyone =
            |perms| vec![AclEntry { perms, scheme: "world".into(), id: "anyone".into() }];
        let mut nodes = BTreeMap::new();
        for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
            let node = Node { data: Some(vec![]), acl: everyone(31), kind: 'p', ..Node::default() };
            nodes.insert(path.to_string(), node);
        }
        let config = nodes.get_mut("/zookeeper/config").unwrap();
        config.acl = everyone(1);
        config.stat.aversion = -1;
        let (sessions, settings) = (BTreeMap::new(), Settings::default());
        Model { nodes, sessions, settings, zxid: 0, ordinal: 0 }
    }

    fn child_count(&self, path: &str) -> i32 {
        let below = |other: &&String| other.as_str() != "/" && parent_of(other) == path;
        self.nodes.keys().filter(below).count() as i32
    }

    fn stat(&self, path: &str) -> Stat {
        let node = &self.nodes[path];
        let child_count = self.child_count(path);
        let cversion = node.creates.wrapping_mul(2).wrapping_sub(child_count);
        let data_bytes = node.data.as_ref().map_or(0, Vec::len) as i32;
        Stat { child_count, cversion, data_bytes, ephemeral_owner: node.owner, ..node.stat }
    }

    /// Applies a command to the model. `None` for a command of another space than ZooKeeper's.
    fn apply(&mut self, sent: &Sent<'_>) -> Option<Result<ZkOutcome, Refusal>> {
        self.ordinal += 1;
        match &sent.command {
            Command::Control(_) | Command::Etcd(_) | Command::EtcdV2(_) => None,
            Command::Zk(command) => Some(self.apply_zk(sent, command)),
        }
    }

    fn apply_zk(&mut self, sent: &Sent<'_>, command: &ZkCommand<'_>) -> Result<ZkOutcome, Refusal> {
        let attached = (sent.connection, self.ordinal);
        match command {
            ZkCommand::OpenSession { session, password, .. } => {
                if self.sessions.contains_key(&session.0) {
                    return Err(Refusal::SessionIdTaken(*session));
                }
                self.zxid += 1;
                self.sessions.insert(session.0, (attached.0, *password, attached.1));
                Ok(ZkOutcome::Opened)
            }
            ZkCommand::Attach { session, password, .. } => {
                let found = self.sessions.get_mut(&session.0).ok_or(Refusal::SessionExpired)?;
                if found.1 != *password {
                    return Err(Refusal::WrongPassword);
                }
                *found = (attached.0, *password, attached.1);
                Ok(ZkOutcome::Attached)
            }
            ZkCommand::CloseSession { session } => {
                self.zxid += 1;
                self.may_act(sent, *session)?;
                self.end(session.0);
                Ok(ZkOutcome::Closed)
            }
            ZkCommand::ExpireSessions { sessions } => {
                let mut count = 0;
                for (session, judged) in sessions {
                    if self.sessions.get(&session.0).is_some_and(|found| found.2 == judged.0) {
                        self.zxid += 1;
                        self.end(session.0);
                        count += 1;
                    }
                }
                Ok(ZkOutcome::Expired(count))
            }
            ZkCommand::DeleteContainers { paths, never_used_ms_max } => {
                let mut count = 0;
                for path in paths {
                    let Some(node) = self.nodes.get(*path) else { continue };
                    let age = self.ordinal as i64 * 1000 - node.stat.mtime;
                    let is_due = match node.kind {
                        'c' if node.creates > 0 => true,
                        'c' => *never_used_ms_max > 0 && age > *never_used_ms_max as i64,
                        't' => age > node.ttl_ms,
                        _ => false,
                    };
                    if is_due && self.child_count(path) == 0 {
                        self.zxid += 1;
                        self.nodes.remove(*path);
                        self.nodes.get_mut(&parent_of(path)).unwrap().stat.pzxid = self.zxid;
                        count += 1;
                    }
                }
                Ok(ZkOutcome::ContainersDeleted(count))
            }
            ZkCommand::Configure(settings) => {
                self.settings = settings.clone();
                Ok(ZkOutcome::Configured)
            }
            ZkCommand::Write { session, op } => {
                self.zxid += 1;
                self.may_act(sent, *session)?;
                self.operate(sent, session.0, op)
            }
            ZkCommand::Multi { session, ops } => {
                self.zxid += 1;
                self.may_act(sent, *session)?;
                let nodes = self.nodes.clone();
                let mut outcomes = Vec::new();
                for (position, op) in ops.iter().enumerate() {
                    match self.operate(sent, session.0, op) {
                        Ok(outcome) => outcomes.push(outcome),
                        Err(refusal) => {
                            self.nodes = nodes;
                            let refusal = Box::new(refusal);
                            return Err(Refusal::Multi { position, count: ops.len(), refusal });
                        }
                    }
                }
                Ok(ZkOutcome::Multi(outcomes))
            }
        }
    }

    fn may_act(&self, sent: &Sent<'_>, session: SessionId) -> Result<(), Refusal> {
        match self.sessions.get(&session.0) {
            None => Err(Refusal::SessionExpired),
            Some(found) if found.0 != sent.connection => Err(Refusal::SessionMoved),
            Some(_) => Ok(()),
        }
    }

    fn end(&mut self, session: i64) {
        self.sessions.remove(&session);
        let of_session = |(path, node): (&String, &Node)| {
            (node.kind == 'e' && node.owner == session).then(|| path.clone())
        };
        let paths: Vec<String> = self.nodes.iter().filter_map(of_session).collect();
        paths.iter().for_each(|path| self.remove(path));
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        self.nodes.get_mut(&parent_of(path)).unwrap().stat.pzxid = self.zxid;
    }

    fn permit(&self, sent: &Sent<'_>, path: &str, bit: u32) -> Result<(), Refusal> {
        let is_super = sent.identities.iter().any(|identity| identity.scheme == "super");
        let grants = |entry: &AclEntry| {
            let named = sent
                .identities
                .iter()
                .any(|identity| identity.scheme == &*entry.scheme && identity.id == &*entry.id);
            let served = &*entry.scheme != "digest" || self.settings.digest_enabled;
            entry.perms & bit != 0 && (&*entry.scheme == "world" || named && served)
        };
        match self.settings.skip_acl || is_super || self.nodes[path].acl.iter().any(grants) {
            true => Ok(()),
            false => Err(Refusal::NoAuth),
        }
    }

    /// Resolves an ACL. It only knows the schemes that the generator of commands uses.
    fn resolve(&self, sent: &Sent<'_>, acl: &AskedAcl) -> Result<Vec<AclEntry>, Refusal> {
        let AskedAcl::Entries(entries) = acl else {
            return Ok(vec![AclEntry { perms: 31, scheme: "world".into(), id: "anyone".into() }]);
        };
        let digests = self.settings.digest_enabled;
        let mut resolved = Vec::new();
        for entry in entries {
            match &*entry.scheme {
                "world" => resolved.push(entry.clone()),
                "digest" if digests => resolved.push(entry.clone()),
                "auth" if digests => {
                    let proved = sent.identities.iter().filter(|i| i.scheme == "digest");
                    resolved.extend(proved.map(|identity| AclEntry {
                        perms: entry.perms,
                        scheme: "digest".into(),
                        id: identity.id.into(),
                    }));
                }
                _ => return Err(Refusal::InvalidAcl),
            }
        }
        if resolved.is_empty() { Err(Refusal::InvalidAcl) } else { Ok(resolved) }
    }

    fn must_exist(&self, path: &str) -> Result<(), Refusal> {
        if self.nodes.contains_key(path) { Ok(()) } else { Err(Refusal::NoNode) }
    }

    fn operate(
        &mut self,
        sent: &Sent<'_>,
        session: i64,
        op: &Op<'_>,
    ) -> Result<ZkOutcome, Refusal> {
        let version_is = |wanted: i32, found: i32| match wanted == -1 || wanted == found {
            true => Ok(()),
            false => Err(Refusal::BadVersion),
        };
        let form_is = |malformed: bool| match malformed {
            true => Err(Refusal::BadArguments),
            false => Ok(()),
        };
        let time = self.ordinal as i64 * 1000;
        match op {
            Op::Malformed => Err(Refusal::BadArguments),
            Op::Create { path, malformed, data, acl, mode, ttl_ms } => {
                if mode.is_ttl() && !self.settings.extended_types {
                    return Err(Refusal::Unimplemented);
                }
                if mode.is_ttl() && *ttl_ms <= 0 {
                    return Err(Refusal::BadArguments);
                }
                let acl = self.resolve(sent, acl)?;
                let parent = parent_of(path);
                self.must_exist(&parent)?;
                self.permit(sent, &parent, 4)?;
                let mut path = path.to_string();
                if mode.is_sequential() {
                    path += &format!("{:010}", self.nodes[&parent].creates);
                }
                form_is(*malformed)?;
                if self.nodes.contains_key(&path) {
                    return Err(Refusal::NodeExists);
                }
                if self.nodes[&parent].kind == 'e' {
                    return Err(Refusal::NoChildrenForEphemerals);
                }
                let kind = match *mode as u8 {
                    1 | 3 => 'e',
                    4 | 7 => 'c',
                    5 | 6 => 't',
                    _ => 'p',
                };
                let (czxid, mzxid, pzxid) = (self.zxid, self.zxid, self.zxid);
                let stat =
                    Stat { czxid, mzxid, pzxid, ctime: time, mtime: time, ..Stat::default() };
                let owner = if kind == 'e' { session } else { 0 };
                let data = data.map(<[u8]>::to_vec);
                let (creates, ttl_ms) = (0, *ttl_ms);
                let node = Node { data, acl, kind, owner, creates, ttl_ms, stat };
                self.nodes.insert(path.clone(), node);
                let above = self.nodes.get_mut(&parent).unwrap();
                above.creates += 1;
                above.stat.pzxid = pzxid;
                let stat = self.stat(&path);
                Ok(ZkOutcome::Created { path: path.into(), stat })
            }
            Op::Delete { path, version } => {
                let system = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];
                form_is(system.contains(path))?;
                let parent = parent_of(path);
                self.must_exist(&parent)?;
                self.permit(sent, &parent, 8)?;
                self.must_exist(path)?;
                version_is(*version, self.nodes[*path].stat.version)?;
                if self.child_count(path) > 0 {
                    return Err(Refusal::NotEmpty);
                }
                self.remove(path);
                Ok(ZkOutcome::Deleted)
            }
            Op::SetData { path, malformed, data, version } => {
                form_is(*malformed)?;
                self.must_exist(path)?;
                self.permit(sent, path, 2)?;
                version_is(*version, self.nodes[*path].stat.version)?;
                let node = self.nodes.get_mut(*path).unwrap();
                node.data = data.map(<[u8]>::to_vec);
                node.stat.version += 1;
                (node.stat.mzxid, node.stat.mtime) = (self.zxid, time);
                Ok(ZkOutcome::DataSet(self.stat(path)))
            }
            Op::SetAcl { path, malformed, acl, version } => {
                form_is(*malformed)?;
                let acl = self.resolve(sent, acl)?;
                self.must_exist(path)?;
                self.permit(sent, path, 16)?;
                version_is(*version, self.nodes[*path].stat.aversion)?;
                let node = self.nodes.get_mut(*path).unwrap();
                node.acl = acl;
                node.stat.aversion += 1;
                Ok(ZkOutcome::AclSet(self.stat(path)))
            }
            Op::Check { path, malformed, version } => {
                form_is(*malformed)?;
                self.must_exist(path)?;
                self.permit(sent, path, 1)?;
                version_is(*version, self.nodes[*path].stat.version)?;
                Ok(ZkOutcome::Checked)
            }
        }
    }

    fn compare(&self, machine: &Machine) {
        assert_eq!(machine.mark().zxid.0, self.zxid);
        assert_eq!(machine.zk.tree.znode_count() as usize, self.nodes.len());
        for (path, node) in &self.nodes {
            let znode = machine.zk.tree.find(path).expect("the model has it");
            assert_eq!(znode.data(), node.data.as_deref(), "{path}");
            assert_eq!(znode.stat(), self.stat(path), "{path}");
            assert_eq!(acl_text(znode.acl()), acl_text(&node.acl), "{path}");
        }
        let sessions: Vec<i64> = self.sessions.keys().copied().collect();
        let mut found: Vec<i64> = machine.zk.sessions.iter().map(|(id, _)| id.0).collect();
        found.sort_unstable();
        assert_eq!(found, sessions);
    }
}

#[test]
fn the_machine_answers_as_the_model_does() {
    let mut refused = 0;
    let mut done = 0;
    for seed in 0..60 {
        let mut random = Random(seed * 77 + 1);
        let mut model = Model::new();
        let mut rig = Rig { machine: Machine::default(), changes: Changes::default() };
        for _ in 0..250 {
            let sent = random_sent(&mut random, &rig.machine);
            let expected = model.apply(&sent);
            let reply = rig.apply(&sent);
            let is_done = expected.as_ref().is_none_or(Result::is_ok);
            let expected = expected.map_or(Outcome::DONE, Outcome::Zk);
            assert_eq!(reply.outcome, expected, "seed {seed}: {sent:?}");
            assert_eq!((reply.mark.zxid.0, reply.mark.ordinal.0), (model.zxid, model.ordinal));
            if is_done { done += 1 } else { refused += 1 }
        }
        model.compare(&rig.machine);
        check_invariants(&mut rig.machine);
    }
    assert!(done > 3000, "{done} commands took effect");
    assert!(refused > 3000, "{refused} were refused");
}
