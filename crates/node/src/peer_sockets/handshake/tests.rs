use std::net::Ipv4Addr;

use super::*;

#[test]
fn an_address_takes_a_part_of_the_exchanges_of_a_second() {
    let ip = |last: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
    let mut exchanges = Exchanges::default();
    let now = Instant::now();
    let mut begun =
        |from: IpAddr, at: Instant| (0..1_000).filter(|_| exchanges.begin(from, at)).count();
    assert_eq!(begun(ip(1), now), 100);
    assert_eq!(begun(ip(2), now + Duration::from_millis(999)), 100);
    assert_eq!(begun(ip(3), now + Duration::from_millis(999)), 0);
    assert_eq!(begun(ip(3), now + Duration::from_secs(1)), 100);
}

#[test]
fn each_wrong_secret_is_counted_in_the_log() {
    let mut wrong = WrongSecrets::default();
    let now = Instant::now();
    assert_eq!(wrong.add(now), Some(1));
    assert!((0..500).all(|_| wrong.add(now + Duration::from_secs(9)).is_none()));
    assert_eq!(wrong.add(now + Duration::from_secs(10)), Some(501));
}
