//! Access control: the identities of connections, what an ACL permits them, and the table of the
//! ACLs in use.
//!
//! ACLs are interned: a znode holds a 32-bit id of an ACL in the table. Id 0 is the open ACL, which
//! is never freed. Ids are not state: two members may give equal ACLs different ids.

mod x500_name;

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::limits::ACL_ENTRIES_MAX;
use crate::zk::reply::Refusal;
use crate::zk::settings::Settings;

/// Permission bits of an ACL entry (`ZooDefs.Perms`, ZooKeeper 3.9).
pub mod perms {
    /// Read the data and list the children.
    pub const READ: u32 = 1;
    /// Set the data.
    pub const WRITE: u32 = 2;
    /// Create children.
    pub const CREATE: u32 = 4;
    /// Delete children.
    pub const DELETE: u32 = 8;
    /// Set the ACL.
    pub const ADMIN: u32 = 16;
    /// All five.
    pub const ALL: u32 = 31;
}

/// An identity that a connection has proved. For a ZooKeeper client: its address, a digest, a
/// certificate, a SASL user, or the super user. For a client of etcd: its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `ip`, `digest`, `x509`, `sasl` or `super`; `etcd` or `etcd2` for a user of etcd.
    pub scheme: &'a str,
    /// The id within the scheme; for digest `user:base64(hash)`.
    pub id: &'a str,
}

/// One entry of an ACL: clients with this identity have these permissions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// Bits of [`perms`].
    pub perms: u32,
    /// The scheme of the identity.
    pub scheme: Box<str>,
    /// The identity.
    pub id: Box<str>,
}

/// A whole ACL. It is shared, because changes carry it to the Fronts, which decide by it which
/// watchers to notify.
pub type Acl = Arc<[AclEntry]>;

/// The most pairs of an ACL entry and an identity that are compared one by one. With more pairs,
/// the identities go into a hash set first.
const PAIRS_MAX: usize = 64;

/// The id of the ACL that lets everyone do everything (`OPEN_ACL_UNSAFE`).
pub const OPEN: AclId = AclId(0);

/// Index of an ACL in the [`AclTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclId(pub u32);

struct Slot {
    acl: Acl,
    digest: Digest,
    znode_count: u64,
}

/// All ACLs in use, each stored once, with the number of znodes that use it.
pub struct AclTable {
    slots: Vec<Option<Slot>>,
    vacant: Vec<u32>,
    ids: HashMap<Acl, u32, FixedState>,
    /// Sum of the encoded bytes of all ACLs, as an image has them.
    encoded_bytes: u64,
}

impl Default for AclTable {
    fn default() -> Self {
        let mut table = AclTable {
            slots: Vec::new(),
            vacant: Vec::new(),
            ids: HashMap::with_hasher(FixedState::default()),
            encoded_bytes: 0,
        };
        let open = table.retain(&world(perms::ALL));
        assert!(open == OPEN);
        table
    }
}

/// The ACL that gives everyone `perms`.
pub fn world(perms: u32) -> Acl {
    Arc::new([AclEntry { perms, scheme: "world".into(), id: "anyone".into() }])
}

impl AclTable {
    /// Finds or adds `acl` and counts one more znode that uses it.
    pub fn retain(&mut self, acl: &Acl) -> AclId {
        // Most znodes have the open ACL, and most callers took it from this table.
        if self.slots.first().and_then(Option::as_ref).is_some_and(|it| Arc::ptr_eq(&it.acl, acl)) {
            self.retain_again(OPEN);
            return OPEN;
        }
        if let Some(&id) = self.ids.get(acl) {
            self.slot_mut(AclId(id)).znode_count += 1;
            return AclId(id);
        }
        let slot = Slot { acl: acl.clone(), digest: digest(acl), znode_count: 1 };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(slot);
                id
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).expect("fewer ACLs than znodes")
            }
        };
        self.ids.insert(acl.clone(), id);
        self.encoded_bytes += encoded_bytes(acl);
        AclId(id)
    }

    /// Counts one more znode that uses an ACL of the table.
    pub fn retain_again(&mut self, id: AclId) {
        self.slot_mut(id).znode_count += 1;
    }

    /// Counts one znode less for an ACL. When no znode uses the ACL, it is freed.
    pub fn release(&mut self, id: AclId) {
        let slot = self.slot_mut(id);
        assert!(slot.znode_count > 0);
        slot.znode_count -= 1;
        if slot.znode_count == 0 && id != OPEN {
            let acl = slot.acl.clone();
            self.ids.remove(&acl);
            self.encoded_bytes -= encoded_bytes(&acl);
            self.slots[id.0 as usize] = None;
            self.vacant.push(id.0);
        }
    }

    /// Bytes of all ACLs in an image, each written once.
    pub fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes
    }

    /// The ACL itself.
    pub fn get(&self, id: AclId) -> &Acl {
        &self.slot(id).acl
    }

    /// The hash of an ACL of the table, which is a part of its znodes' contributions to the digest.
    pub fn digest(&self, id: AclId) -> Digest {
        self.slot(id).digest
    }

    fn slot(&self, id: AclId) -> &Slot {
        self.slots[id.0 as usize].as_ref().expect("a znode's ACL is in the table")
    }

    fn slot_mut(&mut self, id: AclId) -> &mut Slot {
        self.slots[id.0 as usize].as_mut().expect("a znode's ACL is in the table")
    }
}

/// The hash of an ACL, which is a part of its znodes' contributions to the digest.
fn digest(acl: &[AclEntry]) -> Digest {
    let mut bytes = Vec::new();
    encode(acl, &mut bytes);
    Digest::from_bytes(b'a', &bytes)
}

/// Bytes that [`encode`] writes for an ACL.
fn encoded_bytes(acl: &Acl) -> u64 {
    let entry = |entry: &AclEntry| 12 + entry.scheme.len() + entry.id.len();
    2 + acl.iter().map(entry).sum::<usize>() as u64
}

/// Whether `acl` gives someone with `identities` at least one of the permission bits in `wanted`.
///
/// ZooKeeper 3.9 `ZooKeeperServer.checkACL`: everything is allowed with `skipACL`, with an empty
/// ACL, and to the super user; else some entry must match an identity and have one of the wanted
/// bits.
pub fn allows(
    settings: &Settings,
    acl: &[AclEntry],
    wanted: u32,
    identities: &[Identity<'_>],
) -> bool {
    if settings.skip_acl || acl.is_empty() {
        return true;
    }
    if identities.iter().any(|identity| identity.scheme == "super") {
        return true;
    }
    let is_anyone = |entry: &AclEntry| &*entry.scheme == "world" && &*entry.id == "anyone";
    let mut entries = acl.iter().filter(|entry| entry.perms & wanted != 0);
    if acl.len() * identities.len() > PAIRS_MAX {
        let known = KnownIdentities::new(settings, identities);
        return entries.any(|entry| is_anyone(entry) || known.match_one(entry));
    }
    entries.any(|entry| {
        is_anyone(entry)
            || (scheme_is_served(settings, &entry.scheme)
                && identities.iter().any(|identity| matches(settings, entry, identity)))
    })
}

/// A client's identities, indexed so that each entry of an ACL is looked at once, and not once for
/// each identity.
struct KnownIdentities<'a> {
    settings: &'a Settings,
    exact: HashSet<(&'a str, &'a str), FixedState>,
    addresses: Vec<Vec<u8>>,
    has_sasl: bool,
}

impl<'a> KnownIdentities<'a> {
    fn new(settings: &'a Settings, identities: &[Identity<'a>]) -> KnownIdentities<'a> {
        let mut exact = HashSet::with_hasher(FixedState::default());
        exact.extend(identities.iter().map(|identity| (identity.scheme, identity.id)));
        let mut addresses: Vec<Vec<u8>> = Vec::new();
        let of_ip = identities.iter().filter(|identity| identity.scheme == "ip");
        addresses.extend(of_ip.filter_map(|identity| ip_bytes(identity.id)));
        let has_sasl = identities.iter().any(|identity| identity.scheme == "sasl");
        KnownIdentities { settings, exact, addresses, has_sasl }
    }

    /// Whether one of the identities matches the entry, by the rules of [`fn@matches`].
    fn match_one(&self, entry: &AclEntry) -> bool {
        let (scheme, id) = (&*entry.scheme, &*entry.id);
        let is_exact = || self.exact.contains(&(scheme, id));
        scheme_is_served(self.settings, scheme)
            && match scheme {
                "ip" => ip_pattern(id).is_some_and(|pattern| {
                    self.addresses.iter().any(|address| address_matches(address, &pattern))
                }),
                "sasl" => {
                    let is_any_user = self.settings.sasl_any_user.as_deref() == Some(id);
                    let is_super = || self.exact.contains(&(scheme, "super"));
                    self.has_sasl && (is_any_user || is_exact() || is_super())
                }
                _ => is_exact(),
            }
    }
}

fn matches(settings: &Settings, entry: &AclEntry, identity: &Identity<'_>) -> bool {
    if *identity.scheme != *entry.scheme {
        return false;
    }
    match identity.scheme {
        "ip" => ip_matches(identity.id, &entry.id),
        "sasl" => sasl_matches(settings, identity.id, &entry.id),
        _ => *identity.id == *entry.id,
    }
}

/// Makes the ACL to store from the one that a client asked for: drops duplicate entries, and
/// replaces an `auth` entry by the identities that the connection has proved.
///
/// # Errors
/// `InvalidAcl` for an unknown scheme, a malformed id, an `auth` entry without a proved identity,
/// an empty result, or more than [`ACL_ENTRIES_MAX`] entries.
///
/// ZooKeeper 3.9 `PrepRequestProcessor.fixupACL`.
pub fn resolve(
    settings: &Settings,
    asked: &[AclEntry],
    identities: &[Identity<'_>],
) -> Result<Acl, Refusal> {
    let mut resolved: Vec<AclEntry> = Vec::with_capacity(asked.len());
    let mut seen = HashSet::with_hasher(FixedState::default());
    for entry in asked {
        if !seen.insert(entry) {
            continue;
        }
        match (&*entry.scheme, &*entry.id) {
            ("world", "anyone") => resolved.push(entry.clone()),
            ("auth", _) => {
                let before = resolved.len();
                for identity in identities.iter().filter(|i| is_authenticated(settings, i)) {
                    resolved.push(AclEntry {
                        perms: entry.perms,
                        scheme: identity.scheme.into(),
                        id: identity.id.into(),
                    });
                }
                // Each of many `auth` entries may be replaced by many identities.
                if resolved.len() == before || resolved.len() > ACL_ENTRIES_MAX {
                    return Err(Refusal::InvalidAcl);
                }
            }
            (scheme, id) => {
                if !scheme_is_served(settings, scheme) || !id_is_valid(scheme, id) {
                    return Err(Refusal::InvalidAcl);
                }
                resolved.push(entry.clone());
            }
        }
    }
    if resolved.is_empty() || resolved.len() > ACL_ENTRIES_MAX {
        return Err(Refusal::InvalidAcl);
    }
    Ok(resolved.into())
}

/// Whether an `auth` entry includes this identity: an address is not proved by authentication.
fn is_authenticated(settings: &Settings, identity: &Identity<'_>) -> bool {
    identity.scheme != "ip" && scheme_is_served(settings, identity.scheme)
}

/// Whether an ACL may use this scheme, beside `world` and `auth`: the schemes of a ZooKeeper
/// without `authProvider` lines, and those that the settings switch on (`ProviderRegistry`).
fn scheme_is_served(settings: &Settings, scheme: &str) -> bool {
    match scheme {
        "digest" => settings.digest_enabled,
        "ip" => true,
        "sasl" => settings.sasl_enabled,
        "x509" => settings.x509_enabled,
        _ => false,
    }
}

fn id_is_valid(scheme: &str, id: &str) -> bool {
    match scheme {
        // DigestAuthenticationProvider.isValid: exactly two parts, where Java's split drops empty
        // parts at the end.
        "digest" => {
            let mut parts: Vec<&str> = id.split(':').collect();
            while parts.last().is_some_and(|part| part.is_empty()) {
                parts.pop();
            }
            parts.len() == 2
        }
        "ip" => ip_pattern(id).is_some(),
        "sasl" => is_kerberos_name(id),
        "x509" => x500_name::is_valid(id),
        _ => true,
    }
}

/// `SASLAuthenticationProvider.matches`: the user "super" matches every id of the sasl scheme, but
/// is not the super user of other schemes.
fn sasl_matches(settings: &Settings, user: &str, id: &str) -> bool {
    user == "super" || user == id || settings.sasl_any_user.as_deref() == Some(id)
}

/// `SASLAuthenticationProvider.isValid`: any text without `@`; or `name@realm` or
/// `name/host@realm`, where no part contains `/` or `@` (`KerberosName`).
pub fn is_kerberos_name(id: &str) -> bool {
    let Some((name, realm)) = id.split_once('@') else { return true };
    !realm.contains(['/', '@']) && name.matches('/').count() <= 1
}

/// Parses an address with an optional prefix length: `10.0.0.0/8`, `::1`.
fn ip_pattern(text: &str) -> Option<(Vec<u8>, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let bytes = ip_bytes(address)?;
    let bits_max = u32::try_from(bytes.len()).ok()? * 8;
    let bits = match bits {
        Some(bits) => u32::try_from(java_int(bits, 10)?).ok().filter(|&bits| bits <= bits_max)?,
        None => bits_max,
    };
    Some((bytes, bits))
}

/// Parses an address as `IPAuthenticationProvider` (3.9.5) does. It accepts more forms of numbers
/// than usual (`+1`, `01`), and fewer forms of addresses (no IPv4 within IPv6).
fn ip_bytes(text: &str) -> Option<Vec<u8>> {
    if text.contains(':') { ip6_bytes(text) } else { ip4_bytes(text) }
}

fn ip4_bytes(text: &str) -> Option<Vec<u8>> {
    let parts: Option<Vec<u8>> =
        text.split('.').map(|part| u8::try_from(java_int(part, 10)?).ok()).collect();
    parts.filter(|parts| parts.len() == 4)
}

/// Parses eight groups of 16 bits, or fewer around one `::`.
fn ip6_bytes(text: &str) -> Option<Vec<u8>> {
    let groups = |part: &str| -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for group in part.split(':').filter(|_| !part.is_empty()) {
            let value = java_int(group, 16).filter(|_| group.len() <= 4)?;
            // Java accepts a negative number that fits four characters, and keeps its low 16 bits.
            let [.., high, low] = value.to_be_bytes();
            bytes.extend([high, low]);
        }
        Some(bytes)
    };
    let Some((before, behind)) = text.split_once("::") else {
        return groups(text).filter(|bytes| bytes.len() == 16);
    };
    if behind.contains("::") {
        return None;
    }
    let (mut bytes, last) = (groups(before)?, groups(behind)?);
    let zeros = 16_usize.checked_sub(bytes.len() + last.len()).filter(|&zeros| zeros > 0)?;
    bytes.resize(bytes.len() + zeros, 0);
    bytes.extend(last);
    Some(bytes)
}

/// `Integer.parseInt`: digits, with an optional sign before them.
fn java_int(text: &str, radix: u32) -> Option<i32> {
    i32::from_str_radix(text, radix).ok()
}

/// IPAuthenticationProvider.matches: as many leading bits are equal as the pattern's prefix has.
fn ip_matches(address: &str, pattern: &str) -> bool {
    let (Some(pattern), Some(have)) = (ip_pattern(pattern), ip_bytes(address)) else {
        return false;
    };
    address_matches(&have, &pattern)
}

fn address_matches(have: &[u8], (wanted, bits): &(Vec<u8>, u32)) -> bool {
    if wanted.len() != have.len() {
        return false;
    }
    wanted.iter().zip(have).enumerate().all(|(position, (a, b))| {
        let covered = bits.saturating_sub(position as u32 * 8).min(8);
        let mask = if covered == 0 { 0 } else { 0xff_u8 << (8 - covered) };
        a & mask == b & mask
    })
}

/// Writes an ACL: 16-bit count, then perms, scheme and id of each entry.
pub fn encode(acl: &[AclEntry], out: &mut Vec<u8>) {
    let count = u16::try_from(acl.len()).expect("an ACL is bounded before it is encoded");
    out.put_u16(count);
    for entry in acl {
        out.put_u32(entry.perms);
        out.put_bytes(entry.scheme.as_bytes());
        out.put_bytes(entry.id.as_bytes());
    }
}

/// Reads what [`encode`] wrote.
pub fn decode(reader: &mut Reader<'_>) -> Result<Vec<AclEntry>, DecodeError> {
    let count = usize::from(reader.u16()?);
    const { assert!(ACL_ENTRIES_MAX == u16::MAX as usize) };
    let mut acl = Vec::new();
    for _ in 0..count {
        let perms = reader.u32()?;
        let scheme = reader.text()?.into();
        let id = reader.text()?.into();
        acl.push(AclEntry { perms, scheme, id });
    }
    Ok(acl)
}

#[cfg(test)]
mod tests;
