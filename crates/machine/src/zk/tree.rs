//! ZooKeeper's tree of znodes, laid out for little memory per znode.
//!
//! Znodes are in slots, and a znode's 32-bit id is the number of its slot. Slots are in chunks of
//! fixed size that never move, so adding a znode costs the same among ten million znodes as among
//! ten. A znode is found by its parent and name, in one of many small hash tables of ids. Each
//! table grows on its own: one big table would stop everything for 100 ms when it doubles. A
//! parent's children are a linked list through their slots.
//!
//! Fields that only some znodes need are stored apart. A [`Directory`] has those of a parent, and
//! is made with its first child. An [`Extra`] has those of a znode that is not persistent, or that
//! was changed. A znode's name and data share one allocation. So a plain znode takes a cache line,
//! its name and data, and some ten bytes of the tables.
//!
//! Ids, the layout of the tables and the order of children are not state: members may differ in
//! them.
//!
//! Every change of a znode goes through the mutators here ([`Tree::create`], [`Tree::remove`],
//! [`Tree::set_data`], [`Tree::set_acl`] and some special ones) or through their inverses. They
//! update the digest and the running freeze.

use core::cmp::Ordering;
use core::hash::BuildHasher;
use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::digest::Digest;
use crate::limits::{NAME_BYTES_MAX, ZNODES_MAX};
use crate::together::{Together, one_by_one};
use crate::zk::acl::{self, Acl, AclEntry, AclId, AclTable, perms};
use crate::zk::digester::{Content, Digester, Standing};
use crate::zk::freeze::{Image, NO_PARENT, TreeFreeze};
use crate::zk::path::parent_path;
use crate::zk::stat::Stat;
use side::Side;
use slot_set::SlotSet;

/// Names a znode: the index of its slot. After a removal the id is used for another znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZnodeId(pub u32);

/// The root's id.
pub const ROOT: ZnodeId = ZnodeId(0);
/// The parent of all quotas' znodes (`Quotas.quotaZookeeper`).
pub(crate) const QUOTAS_PATH: &str = "/zookeeper/quota";

/// As an id or an index: "no znode", "no directory", "no extra".
const NONE: u32 = u32::MAX;
/// In the `parent` field: the slot holds no znode.
const VACANT: u32 = u32::MAX - 1;
/// Slots in a chunk. A chunk takes 256 KiB.
const CHUNK_SLOTS: usize = 4096;
/// Number of hash tables. With ten million znodes each holds 2,500, and doubling one takes some 30
/// us.
const SHARDS: usize = 4096;

/// How many parents' contributions to the digest are cached. Each create and delete changes its
/// parent's contribution, and some tens of clients write below as many parents in turn.
const PARENT_STANDINGS: usize = 64;

/// How many neighbouring buckets [`Tree::touch`] searches for a znode: they are on one or two cache
/// lines.
const NEIGHBOURS: usize = 8;

const _: () = assert!(ZNODES_MAX < VACANT + 1);
const _: () = assert!(SHARDS.is_power_of_two());
const _: () = assert!(size_of::<Slot>() == 64);

struct Slot {
    czxid: i64,
    ctime: i64,
    acl: AclId,
    parent: u32,
    /// The sibling created before this one.
    previous: u32,
    /// The sibling created after this one. In a vacant slot: the next vacant slot.
    next: u32,
    directory: u32,
    extra: u32,
    /// Bytes of the name. The top bit is set if the data is null.
    name_word: u32,
    /// The bytes of the name, then the data.
    payload: Box<[u8]>,
}

const DATA_IS_NULL: u32 = 0x8000_0000;

impl Slot {
    fn vacant(next_vacant: u32) -> Slot {
        Slot {
            czxid: 0,
            ctime: 0,
            acl: acl::OPEN,
            parent: VACANT,
            previous: NONE,
            next: next_vacant,
            directory: NONE,
            extra: NONE,
            name_word: 0,
            payload: Box::default(),
        }
    }

    fn name_bytes(&self) -> usize {
        (self.name_word & !DATA_IS_NULL) as usize
    }

    fn name(&self) -> &str {
        core::str::from_utf8(&self.payload[..self.name_bytes()]).expect("names come from text")
    }

    fn data(&self) -> Option<&[u8]> {
        match self.name_word & DATA_IS_NULL {
            0 => Some(&self.payload[self.name_bytes()..]),
            _ => None,
        }
    }
}

/// The key of a znode in the tables: its parent and its name.
fn place_in(chunks: &[Vec<Slot>], id: u32) -> (u32, &[u8]) {
    let slot = &chunks[id as usize / CHUNK_SLOTS][id as usize % CHUNK_SLOTS];
    (slot.parent, &slot.payload[..slot.name_bytes()])
}

/// Adds a znode to a table. False, without a change, if its parent has a child of that name.
fn enter(
    table: &mut HashTable<u32>,
    chunks: &[Vec<Slot>],
    hasher: &FixedState,
    hash: u64,
    id: u32,
) -> bool {
    let is_it = |&other: &u32| place_in(chunks, other) == place_in(chunks, id);
    match table.entry(hash, is_it, |&other| hasher.hash_one(place_in(chunks, other))) {
        Entry::Occupied(_) => false,
        Entry::Vacant(vacant) => {
            vacant.insert(id);
            true
        }
    }
}

fn name_word(name: &str, data: Option<&[u8]>) -> u32 {
    assert!(name.len() <= NAME_BYTES_MAX);
    name.len() as u32 | if data.is_none() { DATA_IS_NULL } else { 0 }
}

fn payload(name: &str, data: Option<&[u8]>) -> Box<[u8]> {
    let data = data.unwrap_or_default();
    let mut payload = Vec::with_capacity(name.len() + data.len());
    payload.extend_from_slice(name.as_bytes());
    payload.extend_from_slice(data);
    payload.into_boxed_slice()
}

/// The fields that only a znode with children needs. A znode keeps them after its last child is
/// gone.
#[derive(Clone, Copy)]
struct Directory {
    first_child: u32,
    last_child: u32,
    child_count: u32,
    /// How many children were ever created here: the counter for sequential children. Wraps at 32
    /// bits.
    cversion: i32,
    pzxid: i64,
    /// Sum of the bytes of the children's names, so that the size of a listing is known before it
    /// is built.
    child_name_bytes: u64,
    /// The tree's count of removals just after the last child was removed here; if none was, the
    /// count when this directory was made.
    last_removal: u64,
}

/// The fields that have default values in a persistent znode until it is changed. Stored only where
/// one differs from its default.
#[derive(Clone, Copy, PartialEq)]
struct Extra {
    mzxid: i64,
    mtime: i64,
    owner: i64,
    version: i32,
    aversion: i32,
}

impl Extra {
    /// The default values, given the zxid and the time of the create.
    fn plain(czxid: i64, ctime: i64) -> Extra {
        Extra { mzxid: czxid, mtime: ctime, owner: 0, version: 0, aversion: 0 }
    }
}

/// The fields of a znode to create.
pub struct NewZnode<'a> {
    /// The last part of the path.
    pub name: &'a str,
    /// The data; `None` is ZooKeeper's null.
    pub data: Option<&'a [u8]>,
    /// The ACL, as [`acl::resolve`] returns it.
    pub acl: &'a Acl,
    /// ZooKeeper's ephemeral owner word.
    pub owner: i64,
    /// The zxid of the transaction that creates it.
    pub zxid: i64,
    /// Time of the transaction, ms since 1970.
    pub time_ms: i64,
}

/// The data to undo a create: the parent's counters before it.
pub struct Created {
    id: ZnodeId,
    parent_cversion: i32,
    parent_pzxid: i64,
    parent_had_directory: bool,
}

/// The data to undo a removal: the whole znode, and the parent's pzxid before it.
pub struct Removed {
    slot: Slot,
    directory: Option<Directory>,
    extra: Extra,
    acl: Acl,
    parent_pzxid: i64,
}

/// The parts of a znode that was taken out of its slot.
struct Displaced {
    slot: Slot,
    directory: Option<Directory>,
    extra: Extra,
}

/// The data to undo a change of a znode's data.
pub struct OldData {
    id: ZnodeId,
    payload: Box<[u8]>,
    name_word: u32,
    mzxid: i64,
    mtime: i64,
    version: i32,
}

/// The data to undo a change of a znode's ACL.
pub struct OldAcl {
    id: ZnodeId,
    acl: Acl,
    aversion: i32,
}

/// Identifies a tree within this process: an image that is installed brings another tree, where
/// equal ids name other znodes. Not state.
#[derive(Clone, Default)]
pub(crate) struct TreeIdentity(Arc<()>);

impl PartialEq for TreeIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// ZooKeeper's tree of znodes.
pub struct Tree {
    chunks: Vec<Vec<Slot>>,
    slot_count: u32,
    first_vacant: u32,
    znode_count: u32,
    /// The znode at [`QUOTAS_PATH`].
    quotas: ZnodeId,
    directories: Side<Directory>,
    extras: Side<Extra>,
    /// Containers and znodes with a time to live. Ordered by id, so their order is not state.
    container_znodes: BTreeSet<ZnodeId>,
    shards: Vec<HashTable<u32>>,
    /// The znodes to add to each table; used only while an image is restored.
    unentered: Vec<Vec<Unentered>>,
    hasher: FixedState,
    acls: AclTable,
    digester: Digester,
    digest: Digest,
    /// A cache of parents' contributions to the digest; the parent with id N has index `N %
    /// PARENT_STANDINGS`.
    parent_standings: Vec<Option<(u32, Digest)>>,
    /// The slots whose znodes are missing from the digest. `None` unless the digest is deferred.
    unsummed: Option<SlotSet>,
    /// Sum of the bytes of all paths and data (ZooKeeper's `approximate_data_size`).
    data_bytes: u64,
    pub(crate) freeze: Option<Box<TreeFreeze>>,
    identity: TreeIdentity,
    /// How many znodes this process has removed. Not state.
    removals: u64,
}

/// A reference to a znode, for reading.
#[derive(Clone, Copy)]
pub struct Znode<'t> {
    tree: &'t Tree,
    id: ZnodeId,
}

impl<'t> Znode<'t> {
    /// The znode's id.
    pub fn id(self) -> ZnodeId {
        self.id
    }

    fn slot(self) -> &'t Slot {
        self.tree.slot(self.id.0)
    }

    fn extra(self) -> Extra {
        self.tree.extra(self.slot())
    }

    /// The last part of the path; empty for the root.
    pub fn name(self) -> &'t str {
        self.slot().name()
    }

    /// The data; `None` is ZooKeeper's null.
    pub fn data(self) -> Option<&'t [u8]> {
        self.slot().data()
    }

    /// The ACL.
    pub fn acl(self) -> &'t [AclEntry] {
        self.tree.acls.get(self.slot().acl)
    }

    /// The ACL, shared; `None` for the open one, which lets everyone do everything.
    pub fn restricting_acl(self) -> Option<Acl> {
        match self.slot().acl {
            acl::OPEN => None,
            id => Some(self.tree.acls.get(id).clone()),
        }
    }

    /// ZooKeeper's ephemeral owner word, as stored: clients see it through [`ephemeral_session`].
    pub fn owner(self) -> i64 {
        self.extra().owner
    }

    /// Time of the last change of the data, ms since 1970.
    pub fn mtime(self) -> i64 {
        self.extra().mtime
    }

    /// How often the data changed; wraps.
    pub fn version(self) -> i32 {
        self.extra().version
    }

    /// How often the ACL changed; wraps.
    pub fn aversion(self) -> i32 {
        self.extra().aversion
    }

    /// How many children were ever created below the znode: the number that the next sequential
    /// child gets.
    pub fn sequence(self) -> i32 {
        self.tree.directory(self.id.0).map_or(0, |directory| directory.cversion)
    }

    /// The child that was created first. [`Znode::next_sibling`] leads on to the others.
    pub(crate) fn first_child(self) -> Option<Znode<'t>> {
        self.at(self.tree.directory(self.id.0).map_or(NONE, |directory| directory.first_child))
    }

    /// The sibling that was created next after this znode.
    pub(crate) fn next_sibling(self) -> Option<Znode<'t>> {
        self.at(self.slot().next)
    }

    fn at(self, id: u32) -> Option<Znode<'t>> {
        (id != NONE).then_some(Znode { tree: self.tree, id: ZnodeId(id) })
    }

    /// Number of children.
    pub fn child_count(self) -> u32 {
        self.tree.directory(self.id.0).map_or(0, |directory| directory.child_count)
    }

    /// Sum of the bytes of the children's names.
    pub fn child_name_bytes(self) -> u64 {
        self.tree.directory(self.id.0).map_or(0, |directory| directory.child_name_bytes)
    }

    /// Changes whenever a child is removed. While it is the same, children are only added, at the
    /// end of the list.
    pub(crate) fn last_removal(self) -> u64 {
        self.tree.directory(self.id.0).map_or(0, |directory| directory.last_removal)
    }

    /// The names of the children, in no particular order.
    pub fn child_names(self) -> impl Iterator<Item = &'t str> {
        self.children().map(Znode::name)
    }

    /// The children, in no particular order.
    pub fn children(self) -> impl Iterator<Item = Znode<'t>> {
        core::iter::successors(self.first_child(), |child| child.next_sibling())
    }

    /// The stat that clients see.
    pub fn stat(self) -> Stat {
        let slot = self.slot();
        let extra = self.extra();
        let directory = self.tree.directory(self.id.0);
        let child_count = directory.map_or(0, |directory| directory.child_count) as i32;
        let creates = directory.map_or(0, |directory| directory.cversion);
        Stat {
            czxid: slot.czxid,
            mzxid: extra.mzxid,
            ctime: slot.ctime,
            mtime: extra.mtime,
            version: extra.version,
            cversion: creates.wrapping_mul(2).wrapping_sub(child_count),
            aversion: extra.aversion,
            ephemeral_owner: ephemeral_session(extra.owner).unwrap_or(0),
            data_bytes: slot.data().map_or(0, <[u8]>::len) as i32,
            child_count,
            pzxid: directory.map_or(slot.czxid, |directory| directory.pzxid),
        }
    }
}

/// The owner word of container znodes (`EphemeralType.CONTAINER_EPHEMERAL_OWNER`).
pub const CONTAINER_OWNER: i64 = i64::MIN;

/// The session in an owner word; `None` unless the znode is truly ephemeral: clients see 0 for
/// containers and TTL znodes (`EphemeralType.get`, ZooKeeper 3.9: the top byte 0xff means TTL).
pub fn ephemeral_session(owner: i64) -> Option<i64> {
    if owner == 0 || goes_by_itself(owner) { None } else { Some(owner) }
}

/// The time to live in an owner word, in ms: its low 40 bits (`EphemeralType.TTL`, ZooKeeper 3.9).
/// `None` unless the znode is a TTL znode.
pub fn ttl_ms(owner: i64) -> Option<u64> {
    let is_ttl = (owner as u64) >> 56 == 0xff;
    is_ttl.then_some(owner as u64 & ((1 << 40) - 1))
}

/// Whether an owner word means a container or a TTL znode, which the servers remove on their own.
fn goes_by_itself(owner: i64) -> bool {
    owner == CONTAINER_OWNER || ttl_ms(owner).is_some()
}

impl Default for Tree {
    /// The tree of a new ensemble: `/`, `/zookeeper`, `/zookeeper/quota` and `/zookeeper/config`,
    /// with the counters that ZooKeeper gives them. No transaction made them, so they do not count
    /// as creates.
    fn default() -> Self {
        let mut tree = Tree::without_znodes();
        let open = acl::world(perms::ALL);
        let config = acl::world(perms::READ);
        let new =
            |name, acl| NewZnode { name, data: Some(&[]), acl, owner: 0, zxid: 0, time_ms: 0 };
        let root = tree.place(NONE, &new("", &open));
        assert!(root == ROOT);
        let zookeeper = tree.place(root.0, &new("zookeeper", &open));
        tree.quotas = tree.place(zookeeper.0, &new("quota", &open));
        let config = tree.place(zookeeper.0, &new("config", &config));
        // DataTree.addConfigNode sets the ACL with version -1.
        tree.extra_mut(config.0).aversion = -1;
        tree.recount();
        tree
    }
}

impl Tree {
    /// A tree without any znode, to be filled by [`Tree::default`] or by a restore.
    pub(crate) fn without_znodes() -> Tree {
        Tree {
            chunks: Vec::new(),
            slot_count: 0,
            first_vacant: NONE,
            znode_count: 0,
            quotas: ROOT,
            directories: Side::default(),
            extras: Side::default(),
            container_znodes: BTreeSet::new(),
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            unentered: (0..SHARDS).map(|_| Vec::new()).collect(),
            hasher: FixedState::default(),
            acls: AclTable::default(),
            digester: Digester::default(),
            digest: Digest::default(),
            parent_standings: vec![None; PARENT_STANDINGS],
            unsummed: None,
            data_bytes: 0,
            freeze: None,
            identity: TreeIdentity::default(),
            removals: 0,
        }
    }

    /// The identity of this tree: another tree has another one.
    pub(crate) fn identity(&self) -> &TreeIdentity {
        &self.identity
    }

    /// Reserves memory in the tables for this many more znodes, spread evenly; a table that gets
    /// more than its share grows on its own. For a start, which knows how many znodes the log
    /// creates.
    pub(crate) fn reserve(&mut self, znode_count: u32) {
        let share = znode_count as usize / SHARDS;
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        for table in &mut self.shards {
            table.reserve(share, |&id| hasher.hash_one(place_in(chunks, id)));
        }
    }

    /// For each path, reads the place in the tables where its znode is or would be. The processor
    /// waits for many of these reads at once, and commands applied later find the places in its
    /// cache.
    pub(crate) fn touch<'p>(&self, paths: impl Iterator<Item = &'p str>) {
        let mut parent = ("", Some(ROOT.0));
        let mut places = Vec::new();
        for path in paths {
            let Some((parent_path, name)) = path.rsplit_once('/') else { continue };
            if parent_path != parent.0 {
                parent = (parent_path, self.find(parent_path).map(|znode| znode.id.0));
            }
            if let Some(id) = parent.1 {
                places.push((id, self.hash(id, name.as_bytes())));
            }
        }
        let is_there = |&&(parent, hash): &&(u32, u64)| {
            let table = &self.shards[Tree::shard(hash)];
            table.find(hash, |&id| self.slot(id).parent == parent).is_some()
        };
        // The count is not needed: using it keeps the compiler from removing the reads.
        core::hint::black_box(places.iter().filter(is_there).count());
        // A create writes its table entry near one of these, so reading one brings the place into
        // the cache.
        let neighbour = |&(_, hash): &(u32, u64)| {
            let table = &self.shards[Tree::shard(hash)];
            let last = table.num_buckets().checked_sub(1)?;
            let at = hash as usize & last;
            (at..at + NEIGHBOURS).find_map(|at| table.get_bucket(at & last).copied())
        };
        core::hint::black_box(places.iter().filter_map(neighbour).fold(0, u32::wrapping_add));
    }

    /// The znode at `path`. The empty path means the root too: ZooKeeper derives it as the parent
    /// of `/a`. A path that does not start with `/` has no znode.
    pub fn find(&self, path: &str) -> Option<Znode<'_>> {
        if path.is_empty() || path == "/" {
            return Some(self.znode(ROOT));
        }
        let mut id = ROOT.0;
        for name in path.strip_prefix('/')?.split('/') {
            id = self.child(id, name)?;
        }
        Some(self.znode(ZnodeId(id)))
    }

    /// The child of `parent` with this name; `None` if there is none.
    pub fn find_child(&self, parent: ZnodeId, name: &str) -> Option<Znode<'_>> {
        self.child(parent.0, name).map(|id| self.znode(ZnodeId(id)))
    }

    /// The znode with this id. Panics if the slot is vacant.
    pub fn znode(&self, id: ZnodeId) -> Znode<'_> {
        assert!(self.slot(id.0).parent != VACANT);
        Znode { tree: self, id }
    }

    /// The full path of a znode.
    pub fn path(&self, id: ZnodeId) -> String {
        if id == ROOT {
            return "/".to_string();
        }
        let mut names = Vec::new();
        let mut at = id.0;
        while at != ROOT.0 {
            let slot = self.slot(at);
            names.push(slot.name());
            at = slot.parent;
        }
        let mut path = String::new();
        for name in names.iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// Compares the paths of two znodes as text. Also returns how many znodes this looked at.
    pub(crate) fn compare_paths(&self, one: ZnodeId, other: ZnodeId) -> (Ordering, usize) {
        if one != ROOT && other != ROOT && self.slot(one.0).parent == self.slot(other.0).parent {
            return (self.slot(one.0).name().cmp(self.slot(other.0).name()), 2);
        }
        let (mut of_one, mut of_other) = (self.way_up(one), self.way_up(other));
        let levels = of_one.len() + of_other.len();
        while !of_one.is_empty() && of_one.last() == of_other.last() {
            of_one.pop();
            of_other.pop();
        }
        let text = |way: Vec<u32>| {
            let names = way.into_iter().rev().map(|id| self.slot(id).name());
            names.flat_map(|name| core::iter::once(b'/').chain(name.bytes()))
        };
        (text(of_one).cmp(text(of_other)), levels)
    }

    /// The ids of a znode and of its ancestors except the root, upwards.
    fn way_up(&self, id: ZnodeId) -> Vec<u32> {
        let mut way = Vec::new();
        let mut at = id.0;
        while at != ROOT.0 {
            way.push(at);
            at = self.slot(at).parent;
        }
        way
    }

    /// The parent of a znode. Panics for the root.
    pub fn parent(&self, id: ZnodeId) -> ZnodeId {
        assert!(id != ROOT);
        ZnodeId(self.slot(id.0).parent)
    }

    /// Containers and znodes with a time to live whose ids are `from` or higher, by id.
    pub(crate) fn container_znodes(&self, from: ZnodeId) -> impl Iterator<Item = ZnodeId> {
        self.container_znodes.range(from..).copied()
    }

    /// The ACL that lets everyone do everything.
    pub fn open_acl(&self) -> Acl {
        self.acls.get(acl::OPEN).clone()
    }

    /// Number of znodes, the root included.
    pub fn znode_count(&self) -> u32 {
        self.znode_count
    }

    /// The parent of all quotas' znodes. It cannot be deleted.
    pub(crate) fn quotas(&self) -> Znode<'_> {
        self.znode(self.quotas)
    }

    /// Sum of the bytes of all paths and data.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Counts the znodes below `ancestor` that are in the slots from `from` on. From each znode it
    /// goes up until it meets `ancestor` or the root. It stops when it has passed `slots_max` slots
    /// or a few more, on the ways up too. Returns the count, and the slot where to continue. A
    /// znode stays in its slot for as long as it exists.
    pub(crate) fn count_below(&self, ancestor: ZnodeId, from: u32, slots_max: u32) -> (u32, u32) {
        let (mut count, mut looked, mut id) = (0, 0, from);
        while id < self.slot_count && looked < slots_max {
            let mut at = self.slot(id).parent;
            looked += 1;
            // The root has no parent, nor has a vacant slot.
            while at != ancestor.0 && at < VACANT {
                at = self.slot(at).parent;
                looked += 1;
            }
            count += u32::from(at == ancestor.0);
            id += 1;
        }
        (count, id)
    }

    /// The sum of all znodes' contributions to the digest. Panics while the digest is deferred.
    pub fn digest(&self) -> Digest {
        assert!(self.unsummed.is_none(), "a deferred digest is not known");
        self.digest
    }

    /// Stops updating the digest, until [`Tree::settle_digest`]. A znode that changes leaves the
    /// sum at its first change, so further changes cost no hashing.
    pub(crate) fn defer_digest(&mut self) {
        assert!(self.unsummed.is_none(), "the digest is deferred already");
        self.parent_standings.fill(None);
        self.unsummed = Some(SlotSet::default());
    }

    /// Adds the znodes that have left the sum. Two jobs add one half of them each, and `together`
    /// may run both at once: the sum does not depend on the order.
    pub(crate) fn settle_digest(&mut self, together: Together) {
        let unsummed = self.unsummed.take().expect("the digest was deferred");
        let (tree, middle) = (&*self, unsummed.middle());
        let (mut lower, mut upper) = (Sum::default(), Sum::default());
        together(&mut || lower = tree.sum(unsummed.below(middle)), &mut || {
            upper = tree.sum(unsummed.from(middle));
        });
        self.digest.add(lower.digest);
        self.digest.add(upper.digest);
    }

    /// Creates a znode below `parent`; `path` is its full path. Panics if the name is taken.
    pub fn create(&mut self, parent: ZnodeId, path: &str, new: &NewZnode<'_>) -> Created {
        self.before_change(parent.0);
        let parent_path = parent_path(path);
        self.forget_standing(parent.0, parent_path);
        let parent_had_directory = self.slot(parent.0).directory != NONE;
        let id = self.place(parent.0, new);
        let zxid = new.zxid;
        let directory = self.directory_mut(parent.0);
        let created = Created {
            id,
            parent_cversion: directory.cversion,
            parent_pzxid: directory.pzxid,
            parent_had_directory,
        };
        directory.cversion = directory.cversion.wrapping_add(1);
        directory.pzxid = zxid;
        self.learn_parent(parent.0, parent_path);
        self.learn_znode(id.0, path);
        created
    }

    /// Undoes the create of the znode at `path`.
    pub fn undo_create(&mut self, path: &str, created: Created) {
        let parent = self.slot(created.id.0).parent;
        let parent_path = parent_path(path);
        self.forget_znode(created.id.0, path);
        self.forget_standing(parent, parent_path);
        let displaced = self.displace(created.id.0);
        self.acls.release(displaced.slot.acl);
        if created.parent_had_directory {
            let directory = self.directory_mut(parent);
            directory.cversion = created.parent_cversion;
            directory.pzxid = created.parent_pzxid;
        } else {
            self.drop_directory(parent);
        }
        self.learn_parent(parent, parent_path);
    }

    /// Removes a znode; `path` is its full path. Panics if it has children.
    pub fn remove(&mut self, id: ZnodeId, path: &str, zxid: i64) -> Removed {
        assert!(id != ROOT);
        assert!(self.znode(id).child_count() == 0);
        let parent = self.slot(id.0).parent;
        let parent_path = parent_path(path);
        self.before_change(id.0);
        self.before_change(parent);
        self.forget_znode(id.0, path);
        self.forget_standing(parent, parent_path);
        let Displaced { slot, directory, extra } = self.displace(id.0);
        let acl = self.acls.get(slot.acl).clone();
        self.acls.release(slot.acl);
        let parent_directory = self.directory_mut(parent);
        let parent_pzxid = parent_directory.pzxid;
        parent_directory.pzxid = parent_pzxid.max(zxid);
        self.learn_parent(parent, parent_path);
        Removed { slot, directory, extra, acl, parent_pzxid }
    }

    /// Undoes the removal of the znode at `path`. Returns the znode's new id.
    pub fn undo_remove(&mut self, path: &str, removed: Removed) -> ZnodeId {
        let Removed { mut slot, directory, extra, acl, parent_pzxid } = removed;
        let parent = slot.parent;
        let parent_path = parent_path(path);
        self.forget_standing(parent, parent_path);
        slot.acl = self.acls.retain(&acl);
        let id = self.occupy(slot);
        self.set_extra(id, extra);
        assert!(self.link(id), "the name is free again");
        if let Some(directory) = directory {
            *self.directory_mut(id) = directory;
        }
        self.directory_mut(parent).pzxid = parent_pzxid;
        self.learn_parent(parent, parent_path);
        self.learn_znode(id, path);
        ZnodeId(id)
    }

    /// Replaces the data of a znode, and counts up its version; `path` is its full path.
    pub fn set_data(
        &mut self,
        id: ZnodeId,
        path: &str,
        data: Option<&[u8]>,
        zxid: i64,
        time_ms: i64,
    ) -> OldData {
        self.before_change(id.0);
        self.forget_content(id.0, path);
        let slot = self.slot_mut(id.0);
        let (word, payload) = (name_word(slot.name(), data), payload(slot.name(), data));
        let name_word = core::mem::replace(&mut slot.name_word, word);
        let payload = core::mem::replace(&mut slot.payload, payload);
        let extra = self.extra_mut(id.0);
        let old = OldData {
            id,
            name_word,
            payload,
            mzxid: core::mem::replace(&mut extra.mzxid, zxid),
            mtime: core::mem::replace(&mut extra.mtime, time_ms),
            version: extra.version,
        };
        extra.version = old.version.wrapping_add(1);
        self.learn_content(id.0, path);
        old
    }

    /// Replaces the data of `/zookeeper/config`, given its id and path, as a ZooKeeper server does
    /// when it starts (`ZKDatabase.initConfigInZKDatabase`): the znode's version becomes -1, and
    /// `zxid` is the version of the list of servers.
    pub(crate) fn set_config(
        &mut self,
        id: ZnodeId,
        path: &str,
        data: &[u8],
        zxid: i64,
        time_ms: i64,
    ) {
        self.set_data(id, path, Some(data), zxid, time_ms);
        self.forget_content(id.0, path);
        self.extra_mut(id.0).version = -1;
        self.learn_content(id.0, path);
    }

    /// Replaces only the data of a znode: version, mzxid and mtime stay. `path` is its full path.
    pub(crate) fn rewrite_data(&mut self, id: ZnodeId, path: &str, data: &[u8]) -> OldData {
        self.before_change(id.0);
        self.forget_content(id.0, path);
        let Extra { mzxid, mtime, version, .. } = self.extra(self.slot(id.0));
        let slot = self.slot_mut(id.0);
        let (word, payload) =
            (name_word(slot.name(), Some(data)), payload(slot.name(), Some(data)));
        let name_word = core::mem::replace(&mut slot.name_word, word);
        let payload = core::mem::replace(&mut slot.payload, payload);
        self.learn_content(id.0, path);
        OldData { id, name_word, payload, mzxid, mtime, version }
    }

    /// Undoes a change of data.
    pub fn undo_set_data(&mut self, path: &str, old: OldData) {
        self.forget_content(old.id.0, path);
        let slot = self.slot_mut(old.id.0);
        slot.payload = old.payload;
        slot.name_word = old.name_word;
        let extra = self.extra_mut(old.id.0);
        extra.mzxid = old.mzxid;
        extra.mtime = old.mtime;
        extra.version = old.version;
        self.learn_content(old.id.0, path);
    }

    /// Replaces the ACL of a znode, and counts up its ACL version; `path` is its full path.
    pub fn set_acl(&mut self, id: ZnodeId, path: &str, acl: &Acl) -> OldAcl {
        self.before_change(id.0);
        self.forget_standing(id.0, path);
        let new = self.acls.retain(acl);
        let old = core::mem::replace(&mut self.slot_mut(id.0).acl, new);
        let extra = self.extra_mut(id.0);
        let aversion = extra.aversion;
        extra.aversion = aversion.wrapping_add(1);
        let old_acl = OldAcl { id, acl: self.acls.get(old).clone(), aversion };
        self.acls.release(old);
        self.learn_standing(id.0, path);
        old_acl
    }

    /// Undoes a change of the ACL.
    pub fn undo_set_acl(&mut self, path: &str, old: OldAcl) {
        self.forget_standing(old.id.0, path);
        let acl = self.acls.retain(&old.acl);
        let new = core::mem::replace(&mut self.slot_mut(old.id.0).acl, acl);
        self.extra_mut(old.id.0).aversion = old.aversion;
        self.acls.release(new);
        self.learn_standing(old.id.0, path);
    }

    /// The id of the znode that this create made.
    pub(crate) fn created_id(created: &Created) -> ZnodeId {
        created.id
    }

    // Slots, lists of children, and tables.

    fn slot(&self, id: u32) -> &Slot {
        &self.chunks[id as usize / CHUNK_SLOTS][id as usize % CHUNK_SLOTS]
    }

    fn slot_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.chunks[id as usize / CHUNK_SLOTS][id as usize % CHUNK_SLOTS]
    }

    fn directory(&self, id: u32) -> Option<&Directory> {
        match self.slot(id).directory {
            NONE => None,
            directory => Some(self.directories.get(directory)),
        }
    }

    fn extra(&self, slot: &Slot) -> Extra {
        match slot.extra {
            NONE => Extra::plain(slot.czxid, slot.ctime),
            extra => *self.extras.get(extra),
        }
    }

    /// The extra fields of a znode, to be changed. Stores the default values first if nothing is
    /// stored.
    fn extra_mut(&mut self, id: u32) -> &mut Extra {
        let slot = self.slot(id);
        let mut index = slot.extra;
        if index == NONE {
            index = self.extras.insert(Extra::plain(slot.czxid, slot.ctime));
            self.slot_mut(id).extra = index;
        }
        self.extras.get_mut(index)
    }

    /// Stores extra fields for a znode that has none, unless they are the default values.
    fn set_extra(&mut self, id: u32, extra: Extra) {
        let slot = self.slot(id);
        if extra != Extra::plain(slot.czxid, slot.ctime) {
            *self.extra_mut(id) = extra;
        }
        if goes_by_itself(extra.owner) {
            self.container_znodes.insert(ZnodeId(id));
        }
    }

    /// The directory of a znode. Makes an empty one if there is none.
    fn directory_mut(&mut self, id: u32) -> &mut Directory {
        let mut index = self.slot(id).directory;
        if index == NONE {
            let last_removal = self.removals;
            let directory = Directory {
                first_child: NONE,
                last_child: NONE,
                child_count: 0,
                cversion: 0,
                pzxid: self.slot(id).czxid,
                child_name_bytes: 0,
                last_removal,
            };
            index = self.directories.insert(directory);
            self.slot_mut(id).directory = index;
        }
        self.directories.get_mut(index)
    }

    fn drop_directory(&mut self, id: u32) {
        let index = core::mem::replace(&mut self.slot_mut(id).directory, NONE);
        if index != NONE {
            assert!(self.directories.get(index).child_count == 0);
            self.directories.remove(index);
        }
    }

    fn hash(&self, parent: u32, name: &[u8]) -> u64 {
        self.hasher.hash_one((parent, name))
    }

    /// The number of the table for a hash, from its bits 40 to 51: hashbrown uses the lowest and
    /// the highest bits within a table.
    fn shard(hash: u64) -> usize {
        (hash >> 40) as usize & (SHARDS - 1)
    }

    fn child(&self, parent: u32, name: &str) -> Option<u32> {
        let hash = self.hash(parent, name.as_bytes());
        self.shards[Tree::shard(hash)]
            .find(hash, |&id| {
                let slot = self.slot(id);
                slot.parent == parent && slot.payload[..slot.name_bytes()] == *name.as_bytes()
            })
            .copied()
    }

    /// Puts a new znode into a slot and under its parent, without a change of the parent's
    /// counters.
    fn place(&mut self, parent: u32, new: &NewZnode<'_>) -> ZnodeId {
        let slot = Slot {
            czxid: new.zxid,
            ctime: new.time_ms,
            acl: self.acls.retain(new.acl),
            parent,
            previous: NONE,
            next: NONE,
            directory: NONE,
            extra: NONE,
            name_word: name_word(new.name, new.data),
            payload: payload(new.name, new.data),
        };
        let id = self.occupy(slot);
        let plain = Extra::plain(new.zxid, new.time_ms);
        self.set_extra(id, Extra { owner: new.owner, ..plain });
        if parent != NONE {
            assert!(self.link(id), "the name is free");
        }
        ZnodeId(id)
    }

    fn occupy(&mut self, slot: Slot) -> u32 {
        self.znode_count += 1;
        if self.first_vacant != NONE {
            let id = self.first_vacant;
            self.first_vacant = self.slot(id).next;
            *self.slot_mut(id) = slot;
            if let Some(freeze) = &mut self.freeze {
                freeze.on_occupied(id);
            }
            return id;
        }
        let id = self.slot_count;
        assert!(id < ZNODES_MAX, "the tree is full");
        if (id as usize).is_multiple_of(CHUNK_SLOTS) {
            self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
        }
        self.chunks.last_mut().expect("a chunk was just pushed").push(slot);
        self.slot_count += 1;
        id
    }

    /// Adds a placed znode to its table and to its parent's list. False, without a change, if the
    /// name is taken.
    fn link(&mut self, id: u32) -> bool {
        let (parent, name) = place_in(&self.chunks, id);
        let hash = self.hasher.hash_one((parent, name));
        let shard = &mut self.shards[Tree::shard(hash)];
        if !enter(shard, &self.chunks, &self.hasher, hash, id) {
            return false;
        }
        self.link_sibling(id);
        true
    }

    /// Adds a placed znode to the end of its parent's list.
    fn link_sibling(&mut self, id: u32) {
        let slot = self.slot(id);
        let (parent, name_bytes) = (slot.parent, slot.name_bytes() as u64);
        let directory = self.directory_mut(parent);
        let last = core::mem::replace(&mut directory.last_child, id);
        if last == NONE {
            directory.first_child = id;
        }
        directory.child_count += 1;
        directory.child_name_bytes += name_bytes;
        if last != NONE {
            self.slot_mut(last).next = id;
        }
        let slot = self.slot_mut(id);
        slot.previous = last;
        slot.next = NONE;
    }

    /// Takes a znode out of its parent's list, its table and its slot. The znode must have no
    /// children.
    fn displace(&mut self, id: u32) -> Displaced {
        let directory = self.directory(id).copied();
        self.drop_directory(id);
        let extra = self.extra(self.slot(id));
        let extra_index = core::mem::replace(&mut self.slot_mut(id).extra, NONE);
        if extra_index != NONE {
            self.extras.remove(extra_index);
        }
        if goes_by_itself(extra.owner) {
            assert!(self.container_znodes.remove(&ZnodeId(id)));
        }
        let slot = self.slot(id);
        let (parent, previous, next) = (slot.parent, slot.previous, slot.next);
        let name_bytes = slot.name_bytes() as u64;
        let hash = self.hash(parent, &slot.payload[..slot.name_bytes()]);
        self.shards[Tree::shard(hash)]
            .find_entry(hash, |&other| other == id)
            .expect("every znode is in its table")
            .remove();
        if previous != NONE {
            self.slot_mut(previous).next = next;
        }
        if next != NONE {
            self.slot_mut(next).previous = previous;
        }
        self.removals += 1;
        let removal = self.removals;
        let parent_directory = self.directory_mut(parent);
        parent_directory.last_removal = removal;
        if previous == NONE {
            parent_directory.first_child = next;
        }
        if next == NONE {
            parent_directory.last_child = previous;
        }
        parent_directory.child_count -= 1;
        parent_directory.child_name_bytes -= name_bytes;
        let vacant = Slot::vacant(self.first_vacant);
        self.first_vacant = id;
        self.znode_count -= 1;
        let slot = core::mem::replace(self.slot_mut(id), vacant);
        Displaced { slot, directory, extra }
    }

    // Digest and size. Each change first subtracts the znode's old contributions ("forget"), and
    // then adds the new ones ("learn").

    fn content_digest(&mut self, id: u32, path: &str) -> Digest {
        let mut digester = core::mem::take(&mut self.digester);
        let digest = self.content_digest_by(&mut digester, id, path);
        self.digester = digester;
        digest
    }

    fn content_digest_by(&self, digester: &mut Digester, id: u32, path: &str) -> Digest {
        let slot = self.slot(id);
        let extra = self.extra(slot);
        digester.content(&Content {
            path,
            data: slot.data(),
            mzxid: extra.mzxid,
            mtime: extra.mtime,
            version: extra.version,
        })
    }

    fn standing_digest(&mut self, id: u32, path: &str) -> Digest {
        let mut digester = core::mem::take(&mut self.digester);
        let digest = self.standing_digest_by(&mut digester, id, path);
        self.digester = digester;
        digest
    }

    fn standing_digest_by(&self, digester: &mut Digester, id: u32, path: &str) -> Digest {
        let slot = self.slot(id);
        let extra = self.extra(slot);
        let directory = self.directory(id);
        digester.standing(&Standing {
            path,
            czxid: slot.czxid,
            ctime: slot.ctime,
            owner: extra.owner,
            cversion: directory.map_or(0, |directory| directory.cversion),
            pzxid: directory.map_or(slot.czxid, |directory| directory.pzxid),
            aversion: extra.aversion,
            acl: self.acls.digest(slot.acl),
        })
    }

    fn forget_content(&mut self, id: u32, path: &str) {
        self.data_bytes -= self.size(id, path);
        if self.is_deferred(id, path) {
            return;
        }
        let digest = self.content_digest(id, path);
        self.digest.subtract(digest);
    }

    fn learn_content(&mut self, id: u32, path: &str) {
        self.data_bytes += self.size(id, path);
        if self.defers(id) {
            return;
        }
        let digest = self.content_digest(id, path);
        self.digest.add(digest);
    }

    fn forget_standing(&mut self, id: u32, path: &str) {
        if self.is_deferred(id, path) {
            return;
        }
        let kept = &mut self.parent_standings[id as usize % PARENT_STANDINGS];
        let digest = match kept.take_if(|(kept_id, _)| *kept_id == id) {
            Some((_, digest)) => digest,
            None => self.standing_digest(id, path),
        };
        debug_assert_eq!(digest, self.standing_digest(id, path), "a change was not learnt");
        self.digest.subtract(digest);
    }

    fn learn_standing(&mut self, id: u32, path: &str) {
        if self.defers(id) {
            return;
        }
        let digest = self.standing_digest(id, path);
        self.digest.add(digest);
    }

    /// Like `learn_standing`, but caches the contribution for the next change below this parent,
    /// which subtracts it first.
    fn learn_parent(&mut self, id: u32, path: &str) {
        if self.defers(id) {
            return;
        }
        let digest = self.standing_digest(id, path);
        self.digest.add(digest);
        self.parent_standings[id as usize % PARENT_STANDINGS] = Some((id, digest));
    }

    /// Whether the digest is deferred. If so, and unless done before, subtracts the contributions
    /// of the znode, which is about to change.
    fn is_deferred(&mut self, id: u32, path: &str) -> bool {
        let Some(unsummed) = &mut self.unsummed else { return false };
        if unsummed.insert(id) {
            let content = self.content_digest(id, path);
            let standing = self.standing_digest(id, path);
            self.digest.subtract(content);
            self.digest.subtract(standing);
        }
        true
    }

    /// Whether the digest is deferred. If so, notes that the sum does not contain the znode, which
    /// is new or has changed.
    fn defers(&mut self, id: u32) -> bool {
        let Some(unsummed) = &mut self.unsummed else { return false };
        unsummed.insert(id);
        true
    }

    fn forget_znode(&mut self, id: u32, path: &str) {
        self.forget_content(id, path);
        self.forget_standing(id, path);
    }

    fn learn_znode(&mut self, id: u32, path: &str) {
        self.learn_content(id, path);
        self.learn_standing(id, path);
    }

    fn size(&self, id: u32, path: &str) -> u64 {
        (path.len() + self.slot(id).data().map_or(0, <[u8]>::len)) as u64
    }

    /// Computes digest and size from all slots. For a new or restored tree, and for tests that
    /// compare the result with the running sums.
    pub(crate) fn recount(&mut self) {
        self.recount_together(one_by_one);
    }

    /// As [`Tree::recount`]. Two jobs go through one half of the slots each, and `together` may run
    /// both at once: the sum does not depend on the order.
    fn recount_together(&mut self, together: Together) {
        let (tree, middle) = (&*self, self.slot_count / 2);
        let (mut lower, mut upper) = (Sum::default(), Sum::default());
        together(&mut || lower = tree.sum(0..middle), &mut || {
            upper = tree.sum(middle..tree.slot_count);
        });
        self.unsummed = None;
        self.digest = lower.digest;
        self.digest.add(upper.digest);
        self.data_bytes = lower.data_bytes + upper.data_bytes;
    }

    /// Digest and size of the znodes in some slots.
    fn sum(&self, slots: impl Iterator<Item = u32>) -> Sum {
        let mut sum = Sum::default();
        let mut digester = Digester::default();
        let mut parents = ParentPaths::default();
        let mut path = String::new();
        for id in slots {
            let slot = self.slot(id);
            if slot.parent == VACANT {
                continue;
            }
            path.clear();
            if id != ROOT.0 {
                path.push_str(parents.prefix(self, slot.parent));
            }
            path.push('/');
            path.push_str(slot.name());
            sum.digest.add(self.content_digest_by(&mut digester, id, &path));
            sum.digest.add(self.standing_digest_by(&mut digester, id, &path));
            sum.data_bytes += self.size(id, &path);
        }
        sum
    }

    // Images: which fields a freeze writes for a znode, and how a restore puts them back.

    fn before_change(&mut self, id: u32) {
        let Some(mut freeze) = self.freeze.take() else {
            return;
        };
        if freeze.wants_old_image(id) {
            let image = self.image(id);
            freeze.save_old_image(id, &image, self.acls.get(image.acl_id));
        }
        self.freeze = Some(freeze);
    }

    /// Bytes of all ACLs in use, as an image has them.
    pub(crate) fn acl_bytes(&self) -> u64 {
        self.acls.encoded_bytes()
    }

    /// Number of slots, vacant ones included.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// The znode in a slot, as an image has it, and its ACL. `None` if the slot is vacant.
    pub(crate) fn image_at(&self, id: u32) -> Option<(Image<'_>, &Acl)> {
        if self.slot(id).parent == VACANT {
            return None;
        }
        let image = self.image(id);
        let acl = self.acls.get(image.acl_id);
        Some((image, acl))
    }

    fn image(&self, id: u32) -> Image<'_> {
        let slot = self.slot(id);
        let extra = self.extra(slot);
        let directory = self.directory(id);
        Image {
            id,
            parent: slot.parent,
            czxid: slot.czxid,
            mzxid: extra.mzxid,
            ctime: slot.ctime,
            mtime: extra.mtime,
            owner: extra.owner,
            version: extra.version,
            aversion: extra.aversion,
            counters: directory.map(|directory| (directory.cversion, directory.pzxid)),
            name: slot.name(),
            data: slot.data(),
            acl_id: slot.acl,
        }
    }

    /// Counts one more znode with an ACL of an image, and returns the ACL's id. The first call
    /// finds the id and keeps it in `known`.
    pub(crate) fn retain_acl(&mut self, acl: &Acl, known: &mut Option<AclId>) -> AclId {
        match *known {
            Some(id) => self.acls.retain_again(id),
            None => *known = Some(self.acls.retain(acl)),
        }
        known.expect("it was just set")
    }

    /// Appends vacant slots up to `id`: a restore may name a parent before the parent's own record.
    fn reserve_slot(&mut self, id: u32) {
        while self.slot_count <= id {
            if (self.slot_count as usize).is_multiple_of(CHUNK_SLOTS) {
                self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
            }
            let chunk = self.chunks.last_mut().expect("a chunk was just pushed");
            chunk.push(Slot::vacant(NONE));
            self.slot_count += 1;
        }
    }

    /// Puts a znode of an image into its slot and under its parent, whose own record may come
    /// later. False if the slot is taken.
    pub(crate) fn restore(
        &mut self,
        id: u32,
        parent: u32,
        acl: AclId,
        znode: RestoredZnode,
    ) -> bool {
        let RestoredZnode { slot, extra, counters } = znode;
        self.reserve_slot(id);
        if self.slot(id).parent != VACANT {
            return false;
        }
        // If children came before this record, they have made the directory.
        let directory = self.slot(id).directory;
        let czxid = slot.czxid;
        *self.slot_mut(id) = Slot { acl, parent, directory, ..slot };
        self.set_extra(id, extra);
        if counters.is_some() || directory != NONE {
            let (cversion, pzxid) = counters.unwrap_or((0, czxid));
            let directory = self.directory_mut(id);
            directory.cversion = cversion;
            directory.pzxid = pzxid;
        }
        self.znode_count += 1;
        if id != ROOT.0 {
            self.reserve_slot(parent);
            let (parent, name) = place_in(&self.chunks, id);
            let hash = self.hasher.hash_one((parent, name));
            self.unentered[Tree::shard(hash)].push(Unentered::new(id, hash));
            self.link_sibling(id);
        }
        true
    }

    /// Adds all restored znodes to the tables, one table after the other, so that each table stays
    /// in a core's cache while it is filled. Two jobs fill one half of the tables each.
    fn enter_restored(&mut self, together: Together) -> Result<(), String> {
        let mut unentered = core::mem::take(&mut self.unentered);
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let fill = |tables: &mut [HashTable<u32>], unentered: &mut [Vec<Unentered>]| {
            for (table, unentered) in tables.iter_mut().zip(unentered) {
                let unentered = core::mem::take(unentered);
                table.reserve(unentered.len() + unentered.len() / 4, |&id| {
                    hasher.hash_one(place_in(chunks, id))
                });
                let is_taken = |it: &&Unentered| !enter(table, chunks, hasher, it.hash(), it.id);
                if let Some(taken) = unentered.iter().find(is_taken) {
                    return Err(format!("znode {} has a name that is taken", taken.id));
                }
            }
            Ok(())
        };
        let (lower, upper) = self.shards.split_at_mut(SHARDS / 2);
        let (lower_ids, upper_ids) = unentered.split_at_mut(SHARDS / 2);
        let (mut lower_ends, mut upper_ends) = (Ok(()), Ok(()));
        together(&mut || lower_ends = fill(lower, lower_ids), &mut || {
            upper_ends = fill(upper, upper_ids);
        });
        lower_ends.and(upper_ends)
    }

    /// Checks that the restored znodes are a tree, and computes digest and size. The error, for
    /// people, says what is wrong.
    pub(crate) fn finish_restore(&mut self, together: Together) -> Result<(), String> {
        if self.slot_count == 0 || self.slot(ROOT.0).parent != NONE {
            return Err("the image holds no root".to_string());
        }
        self.check_reachable()?;
        self.enter_restored(together)?;
        let quotas = self.find(QUOTAS_PATH).map(Znode::id);
        self.quotas = quotas.ok_or_else(|| format!("the image holds no {QUOTAS_PATH}"))?;
        self.check_owners()?;
        self.recount_together(together);
        Ok(())
    }

    /// Checks that no ephemeral znode has children, and that the znodes which clients cannot delete
    /// (the quotas' parent and its ancestors) are persistent.
    fn check_owners(&self) -> Result<(), String> {
        let is_parent = |id: u32| self.znode(ZnodeId(id)).child_count() > 0;
        for id in 0..self.slot_count {
            let slot = self.slot(id);
            if slot.parent == VACANT || slot.extra == NONE {
                continue;
            }
            if ephemeral_session(self.extra(slot).owner).is_some() && is_parent(id) {
                return Err(format!("the ephemeral znode in slot {id} has children"));
            }
        }
        let mut kept = Some(self.znode(self.quotas));
        while let Some(znode) = kept {
            if znode.owner() != 0 {
                return Err(format!("{} is not persistent", self.path(znode.id())));
            }
            kept = (znode.id() != ROOT).then(|| self.znode(self.parent(znode.id())));
        }
        Ok(())
    }

    /// Checks that all znodes are below the root. From each znode it follows the parents up to one
    /// that is known to be below the root. In a cycle, it comes back to where it began.
    fn check_reachable(&self) -> Result<(), String> {
        let mut is_known = vec![false; self.slot_count as usize];
        is_known[ROOT.0 as usize] = true;
        let mut way = Vec::new();
        for id in 0..self.slot_count {
            let mut at = id;
            while !is_known[at as usize] {
                let parent = self.slot(at).parent;
                if parent == VACANT {
                    return Err(format!("a znode in slot {id} has a parent that is not there"));
                }
                // Mark slots on the way up, so that the loop ends if it comes back here.
                is_known[at as usize] = true;
                way.push(at);
                at = parent;
            }
            // `at` is the root, a znode that was checked before, or, in a cycle, one that the loop
            // has just passed.
            if way.contains(&at) {
                return Err(format!("slot {id} is not reachable from the root"));
            }
            way.clear();
        }
        Ok(())
    }
}

/// A restored znode that is not in its table yet, in 8 bytes.
#[derive(Clone, Copy)]
struct Unentered {
    id: u32,
    /// The bits of its hash that a table uses: the highest 7 and the lowest 25.
    bits: u32,
}

impl Unentered {
    fn new(id: u32, hash: u64) -> Unentered {
        let bits = (hash >> 57 << 25) | (hash & 0x1ff_ffff);
        Unentered { id, bits: bits as u32 }
    }

    /// A hash with only these bits. For a table of fewer than 2^25 buckets it works like the full
    /// hash.
    fn hash(self) -> u64 {
        let bits = u64::from(self.bits);
        (bits >> 25 << 57) | (bits & 0x1ff_ffff)
    }
}

/// Digest and size of some znodes.
#[derive(Default)]
struct Sum {
    digest: Digest,
    data_bytes: u64,
}

/// How many parents' paths are cached while a range of slots is walked. Siblings created one after
/// the other have neighbouring slots, and so have, roughly, the znodes that several clients create
/// at once.
const PARENT_PATHS: usize = 64;

/// A cache of parents' paths. The parent with id N has index `N % PARENT_PATHS`.
struct ParentPaths(Vec<(u32, String)>);

impl Default for ParentPaths {
    fn default() -> ParentPaths {
        ParentPaths(vec![(NONE, String::new()); PARENT_PATHS])
    }
}

impl ParentPaths {
    /// The part of a child's path before the last `/`, given its parent's id: the parent's path, or
    /// nothing for the root.
    fn prefix(&mut self, tree: &Tree, parent: u32) -> &str {
        let (id, prefix) = &mut self.0[parent as usize % PARENT_PATHS];
        if *id != parent {
            *id = parent;
            *prefix = tree.path(ZnodeId(parent));
            if parent == ROOT.0 {
                prefix.clear();
            }
        }
        prefix
    }
}

/// A znode of an image, ready to be put into a slot. Its parent and its ACL are not set yet.
pub(crate) struct RestoredZnode {
    slot: Slot,
    extra: Extra,
    counters: Option<(i32, i64)>,
}

impl RestoredZnode {
    /// Converts a znode of an image. `None` if its fields contradict each other.
    pub(crate) fn new(image: &Image<'_>) -> Option<RestoredZnode> {
        let root = image.id == ROOT.0;
        if image.id >= ZNODES_MAX || root != (image.parent == NO_PARENT) {
            return None;
        }
        if root != image.name.is_empty() || image.name.contains('/') {
            return None;
        }
        let slot = Slot {
            czxid: image.czxid,
            ctime: image.ctime,
            name_word: name_word(image.name, image.data),
            payload: payload(image.name, image.data),
            ..Slot::vacant(NONE)
        };
        let extra = Extra {
            mzxid: image.mzxid,
            mtime: image.mtime,
            owner: image.owner,
            version: image.version,
            aversion: image.aversion,
        };
        Some(RestoredZnode { slot, extra, counters: image.counters })
    }

    /// The session that the znode belongs to; `None` unless it is ephemeral.
    pub(crate) fn session(&self) -> Option<i64> {
        ephemeral_session(self.extra.owner)
    }
}

mod side;
mod slot_set;
#[cfg(test)]
mod tests;
