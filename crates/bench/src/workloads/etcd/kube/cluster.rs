//! The model of a Kubernetes cluster: its objects, their sizes, and how often each kind of call
//! comes. Pure: no clock, no connection.

use bytes::Bytes;

use crate::random::Random;

/// The smallest and the largest size of a value, bytes.
const VALUE_BYTES: (f64, f64) = (300.0, 10_240.0);

/// The largest size of the value of a node's lease, bytes.
const LEASE_BYTES_MAX: u64 = 600;

/// Objects of the cluster for each node.
const OBJECTS_PER_NODE: u64 = 100;

/// The number of namespaces. Objects are spread evenly over them.
const NAMESPACES: u64 = 20;

/// A name that sorts after those of all namespaces.
const LAST: &str = "~last/";

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// The kinds of resources. Each apiserver watches each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pods: created, updated and deleted.
    Pods,
    /// Events: put, and removed after an hour, when the leases that they share expire.
    Events,
    /// Leases (objects, not leases of etcd) of each node and of a few elections, renewed often.
    Leases,
    /// Nodes: updated only.
    Nodes,
    /// Endpoint slices, which several controllers update at once.
    EndpointSlices,
    /// Config maps, which are only read.
    ConfigMaps,
    /// Secrets, which are only read.
    Secrets,
    /// Deployments, which are only read.
    Deployments,
}

impl Kind {
    /// All kinds. [`Kind::place`] is the index in this list.
    pub const ALL: [Kind; 8] = [
        Kind::Pods,
        Kind::Events,
        Kind::Leases,
        Kind::Nodes,
        Kind::EndpointSlices,
        Kind::ConfigMaps,
        Kind::Secrets,
        Kind::Deployments,
    ];

    /// The index of the kind in [`Kind::ALL`], and in all lists with one element for each kind.
    pub fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Pods => "pods",
            Kind::Events => "events",
            Kind::Leases => "leases",
            Kind::Nodes => "nodes",
            Kind::EndpointSlices => "endpointslices",
            Kind::ConfigMaps => "configmaps",
            Kind::Secrets => "secrets",
            Kind::Deployments => "deployments",
        }
    }

    /// How many of `objects` objects are of this kind at the start.
    pub fn count(self, objects: u64) -> u64 {
        match self {
            Kind::Events => 0,
            Kind::Leases | Kind::Nodes => objects.div_ceil(OBJECTS_PER_NODE),
            Kind::Pods => objects * 45 / 100 + 1,
            Kind::EndpointSlices | Kind::Deployments => objects / 10 + 1,
            Kind::ConfigMaps => objects * 3 / 20 + 1,
            Kind::Secrets => objects * 9 / 50 + 1,
        }
    }

    /// A random size for the value of an object of this kind, bytes. Few values are large.
    pub fn value_bytes(self, random: &mut Random) -> usize {
        let (least, most) = VALUE_BYTES;
        if self == Kind::Leases {
            return least as usize + random.below(LEASE_BYTES_MAX - least as u64 + 1) as usize;
        }
        let part = random.below(1_000) as f64 / 999.0;
        (least * (most / least).powf(part * part)) as usize
    }
}

/// Makes the keys of a run: `/registry/GROUP/KIND/NAMESPACE/NAME`. No other run has the same group.
#[derive(Clone, Debug)]
pub struct Registry {
    group: String,
}

impl Registry {
    /// The keys of the run with this label.
    pub fn new(label: &str) -> Registry {
        Registry { group: format!("/registry/bench-{label}/") }
    }

    /// Ranges that together hold all keys of the run. Each is small enough for one delete request.
    pub fn parts(&self) -> impl Iterator<Item = (Bytes, Bytes)> {
        let spaces = (0..NAMESPACES).map(|space| format!("namespace-{space}/"));
        let names: Vec<String> = spaces.chain([LAST.to_string()]).collect();
        Kind::ALL.into_iter().flat_map(move |kind| {
            let of = |name: &String| range_of(format!("{}{}/{name}", self.group, kind.name()));
            names.iter().map(of).collect::<Vec<_>>()
        })
    }

    /// The range that holds all keys of a kind.
    pub fn kind(&self, kind: Kind) -> (Bytes, Bytes) {
        range_of(format!("{}{}/", self.group, kind.name()))
    }

    /// The key of object `number` of a kind.
    pub fn key(&self, kind: Kind, number: u64) -> Bytes {
        let (group, name) = (&self.group, kind.name());
        format!("{group}{name}/namespace-{}/{name}-{number:08}", number % NAMESPACES).into()
    }

    /// A key of a kind that sorts after all others. It is put last.
    pub fn last_key(&self, kind: Kind) -> Bytes {
        format!("{}{}/{LAST}", self.group, kind.name()).into()
    }
}

/// The range of all keys with a prefix: its start and its end.
fn range_of(prefix: String) -> (Bytes, Bytes) {
    let mut end = prefix.clone().into_bytes();
    // The prefix ends with a slash; the next character after a slash is `0`.
    end.pop();
    end.push(b'0');
    (prefix.into(), end.into())
}

/// An action of the cluster: one call, or a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A node or an election renews its lease object.
    RenewLease,
    /// A node updates its state.
    UpdateNode,
    /// A pod is created.
    CreatePod,
    /// The state of a pod is updated.
    UpdatePod,
    /// A pod is deleted.
    DeletePod,
    /// Two controllers update an endpoint slice at once, both from the same revision.
    UpdateSlice,
    /// An event is put.
    PutEvent,
    /// One object is read.
    Get,
    /// An apiserver counts the objects of a kind.
    Count,
    /// An apiserver lists the objects of a kind.
    List,
}

/// How often each act happens, in acts per second of the cluster's time.
#[derive(Clone, Debug)]
pub struct Mix {
    acts: Vec<(Act, f64)>,
    per_s: f64,
}

impl Mix {
    /// The mix of acts for a cluster with this many objects and apiservers.
    pub fn of(objects: u64, apiservers: usize) -> Mix {
        let nodes = Kind::Nodes.count(objects) as f64;
        let kinds = Kind::ALL.len() as f64;
        // Each pod is replaced twice a day.
        let pods = 2.0 * Kind::Pods.count(objects) as f64 / DAY_S;
        let acts = vec![
            // Nodes: every 10 s (`nodeLeaseDurationSeconds` / 4). Elections: four, every 2 s.
            (Act::RenewLease, nodes / 10.0 + 2.0),
            // Every 5 min (`nodeStatusReportFrequency`).
            (Act::UpdateNode, nodes / 300.0),
            (Act::CreatePod, pods),
            (Act::UpdatePod, 4.0 * pods),
            (Act::DeletePod, pods),
            (Act::UpdateSlice, 2.0 * pods),
            (Act::PutEvent, 6.0 * pods),
            (Act::Get, nodes / 50.0),
            // Each apiserver counts each kind once a minute.
            (Act::Count, kinds * apiservers as f64 / 60.0),
            // Once a minute some client lists a kind.
            (Act::List, 1.0 / 60.0),
        ];
        let per_s = acts.iter().map(|(_, per_s)| per_s).sum();
        Mix { acts, per_s }
    }

    /// The number of all acts in a second of the cluster's time.
    pub fn per_s(&self) -> f64 {
        self.per_s
    }

    /// A random act; each is picked as often as the mix says.
    pub fn pick(&self, random: &mut Random) -> Act {
        let parts = 1_000_000_000;
        let mut left = random.below(parts) as f64 / parts as f64 * self.per_s;
        for (act, per_s) in &self.acts {
            left -= per_s;
            if left < 0.0 {
                return *act;
            }
        }
        Act::RenewLease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_all_kinds_are_as_many_as_asked_for() {
        let count: u64 = Kind::ALL.iter().map(|kind| kind.count(10_000)).sum();
        assert!((9_900..=10_100).contains(&count), "{count}");
        for (place, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.place(), place);
            assert!(*kind == Kind::Events || kind.count(1) > 0, "{kind:?}");
        }
    }

    #[test]
    fn most_values_are_small_and_few_are_large() {
        let mut random = Random::new(1);
        let mut sizes: Vec<usize> =
            (0..10_000).map(|_| Kind::Pods.value_bytes(&mut random)).collect();
        sizes.sort_unstable();
        assert_eq!((sizes[0], sizes[9_999]), (300, 10_240));
        assert!((600..900).contains(&sizes[5_000]), "{}", sizes[5_000]);
        let leases = (0..1_000).map(|_| Kind::Leases.value_bytes(&mut random));
        assert_eq!(leases.max(), Some(LEASE_BYTES_MAX as usize));
    }

    #[test]
    fn keys_lie_in_the_range_of_their_kind_and_the_last_one_behind_them() {
        let registry = Registry::new("7-1");
        for kind in Kind::ALL {
            let (from, to) = registry.kind(kind);
            let (key, last) = (registry.key(kind, u64::from(u32::MAX)), registry.last_key(kind));
            assert!(from < key && key < last && last < to, "{kind:?}");
            let is_in_a_part = |key: &Bytes| registry.parts().any(|(a, b)| a <= *key && *key < b);
            assert!(is_in_a_part(&key) && is_in_a_part(&last), "{kind:?}");
        }
        assert_eq!(
            registry.key(Kind::Pods, 41),
            "/registry/bench-7-1/pods/namespace-1/pods-00000041"
        );
    }

    #[test]
    fn acts_come_as_often_as_the_mix_says() {
        let (mix, mut random) = (Mix::of(10_000, 3), Random::new(2));
        let picks: Vec<Act> = (0..100_000).map(|_| mix.pick(&mut random)).collect();
        for (act, per_s) in &mix.acts {
            let count = picks.iter().filter(|it| *it == act).count() as f64;
            let expected = per_s / mix.per_s() * 100_000.0;
            assert!((count - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{act:?}: {count}");
        }
    }
}
