use super::*;

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

/// How many descriptors there are in these tests for connections and files together.
const ALL: u64 = 1_600;

fn counts() -> Counts {
    let mut counts = Counts::default();
    counts.faces.iter_mut().for_each(|face| face.is_served = true);
    counts
}

/// Admits connections until one is refused. Returns how many were admitted, and the refusal.
fn fill(counts: &mut Counts, face: Face, address: IpAddr) -> (usize, Refusal) {
    for count in 0.. {
        if let Err(refusal) = counts.admit(face, address, ALL) {
            return (count, refusal);
        }
    }
    unreachable!("it is refused at last")
}

#[test]
fn an_address_may_fill_its_face_and_leaves_all_others_their_minimum() {
    for (face, most) in [(Face::ZooKeeper, 1_300), (Face::Etcd, 1_300), (Face::Monitoring, 256)] {
        let mut counts = counts();
        let (count, refusal) = fill(&mut counts, face, A);
        assert_eq!((count, refusal), (most - 16, Refusal::Largest), "{face:?}");
        // The last connections are reserved for addresses that have fewer than two.
        assert_eq!(fill(&mut counts, face, B).0, 2);
        assert_eq!(fill(&mut counts, face, C).0, 2);
        for other in FACES.into_iter().filter(|it| *it != face) {
            assert!(fill(&mut counts, other, A).0 >= 100 - 100 / 16, "{other:?} beside {face:?}");
        }
    }
}

#[test]
fn in_a_shortage_the_largest_address_gets_no_more() {
    let mut counts = counts();
    assert_eq!(counts.admit(Face::Etcd, B, ALL), Ok(()));
    assert_eq!(fill(&mut counts, Face::Etcd, A), (974, Refusal::Largest));
    // Other addresses may connect until they have as many as the largest one, or only the last few
    // are left.
    assert_eq!(fill(&mut counts, Face::Etcd, B), (309, Refusal::Largest));
    assert_eq!(fill(&mut counts, Face::Etcd, C), (2, Refusal::Largest));
    // Addresses that all have a single connection share everything that is left.
    let mut counts = self::counts();
    for address in 0..1_300_u32 {
        let address = IpAddr::from((167_772_160 + address).to_be_bytes());
        assert_eq!(counts.admit(Face::Etcd, address, ALL), Ok(()), "{address}");
    }
    assert_eq!(counts.admit(Face::Etcd, A, ALL), Err(Refusal::Full));
}

#[test]
fn who_leaves_makes_room() {
    let mut counts = counts();
    let (count, _) = fill(&mut counts, Face::Chunks, A);
    counts.leave(Face::Chunks, A);
    assert_eq!(counts.admit(Face::Chunks, A, ALL), Ok(()));
    (0..count).for_each(|_| counts.leave(Face::Chunks, A));
    assert!(counts.faces.iter().all(|face| face.count == 0 && face.by_address.is_empty()));
}

#[test]
fn a_face_that_is_not_served_keeps_nothing_from_others() {
    let mut counts = counts();
    counts.faces[Face::Chunks as usize].is_served = false;
    counts.faces[Face::Monitoring as usize].is_served = false;
    assert_eq!(fill(&mut counts, Face::Etcd, A).0, 1_500 - 16);
}

#[test]
fn files_and_a_lowered_limit_leave_each_face_its_minimum() {
    let mut counts = counts();
    counts.own_files = 600;
    assert_eq!(fill(&mut counts, Face::Etcd, A).0, 1_000 - 3 * (1_000 / 16) - 16);
    // Half of the descriptors are for connections, however many files there are.
    counts.own_files = 10_000;
    assert_eq!(counts.room(Face::ZooKeeper, descriptors::beside(800, counts.own_files)), 25);
    // Nothing overflows if there is no limit.
    assert!(counts.admit(Face::Etcd, A, u64::MAX).is_ok());
}

#[test]
fn a_network_of_ipv6_is_one_address() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("it is one");
    assert_eq!(group(ip("2001:db8:1:2:3:4:5:6")), ip("2001:db8:1:2::"));
    assert_eq!(group(ip("::ffff:10.0.0.1")), A);
    assert_eq!(group(ip("::1")), ip("::1"));
}
