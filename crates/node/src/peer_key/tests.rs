use super::*;

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    assert_eq!(hex.len(), 2 * N);
    std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..][..2], 16).expect("is hex"))
}

/// The first test vector for P-256 in RFC 9382, appendix B.
#[test]
fn an_exchange_is_that_of_the_standard() {
    let w = "2ee57912099d31560b3a44b1184b9b4866e904c49d12ac5042c97dca461b1a5f";
    let x = "43dd0fd7215bdcb482879fca3220c6a968e66d70b1356cac18bb26c84a78d729";
    let y = "dcb60106f276b02606d8ef0a328c02e4b629f84f89786af5befb0bc75b6e66be";
    let shared = SharedNumber::new(number(bytes(w)).expect("is below the order"));
    let dialler = shared.begin(Side::Dialler, || bytes(x));
    let accepter = shared.begin(Side::Accepter, || bytes(y));
    let share_a: Share = bytes(
        "04a56fa807caaa53a4d28dbb9853b9815c61a411118a6fe516a8798434751470f9010153ac33d0d5f2047ffdb1\
         a3e42c9b4e6be662766e1eeb4116988ede5f912c",
    );
    let share_b: Share = bytes(
        "0406557e482bd03097ad0cbaa5df82115460d951e3451962f1eaf4367a420676d09857ccbc522686c83d1852ab\
         fa8ed6e4a1155cf8f1543ceca528afb591a1e0b7",
    );
    assert_eq!((*dialler.share(), *accepter.share()), (share_a, share_b));
    let a = dialler.finish_between(&share_b, b"server", b"client").expect("is a share");
    let b = accepter.finish_between(&share_a, b"server", b"client").expect("is a share");
    let key = bytes("0e0672dc86f8e45565d338b0540abe69");
    assert_eq!((a.key, b.key), (key, key));
    let confirmed_a = "58ad4aa88e0b60d5061eb6b5dd93e80d9c4f00d127c65b3b35b1b5281fee38f0";
    let confirmed_b = "d3e2e547f1ae04f2dbdbf0fc4b79f8ecff2dff314b5d32fe9fcef2fb26dc459b";
    assert_eq!((a.own, b.own), (bytes(confirmed_a), bytes(confirmed_b)));
    assert!(a.is_confirmed_by(&b.own) && b.is_confirmed_by(&a.own));
    assert!(!a.is_confirmed_by(&a.own), "its own, given back, confirms nothing");
}

fn exchange(dialler: &[u8], accepter: &[u8]) -> (Agreed, Agreed) {
    let (of_dialler, of_accepter) = (SharedNumber::of(dialler), SharedNumber::of(accepter));
    let a = of_dialler.begin(Side::Dialler, || [1; 32]);
    let b = of_accepter.begin(Side::Accepter, || [2; 32]);
    let (share_a, share_b) = (*a.share(), *b.share());
    (a.finish(&share_b).expect("is a share"), b.finish(&share_a).expect("is a share"))
}

#[test]
fn only_an_equal_secret_finds_the_key() {
    let (a, b) = exchange(b"a secret of 16 b", b"a secret of 16 b");
    assert_eq!(a.key, b.key);
    assert!(a.is_confirmed_by(&b.own) && b.is_confirmed_by(&a.own));
    let (a, b) = exchange(b"a secret of 16 b", b"a secret of 16 c");
    assert_ne!(a.key, b.key);
    assert!(!a.is_confirmed_by(&b.own) && !b.is_confirmed_by(&a.own));
}

#[test]
fn a_confirmation_is_for_one_exchange() {
    let shared = SharedNumber::of(b"a secret of 16 b");
    let (a, b) = exchange(b"a secret of 16 b", b"a secret of 16 b");
    let other = shared.begin(Side::Dialler, || [3; 32]);
    let other = other.finish(shared.begin(Side::Accepter, || [2; 32]).share());
    let other = other.expect("is a share");
    assert!(!other.is_confirmed_by(&b.own));
    assert!(!b.is_confirmed_by(&other.own));
    for at in 0..a.own.len() {
        let mut changed = a.own;
        changed[at] ^= 1;
        assert!(!b.is_confirmed_by(&changed));
    }
}

#[test]
fn bytes_that_are_no_point_are_no_share() {
    let shared = SharedNumber::of(b"a secret of 16 b");
    let good = *shared.begin(Side::Accepter, || [2; 32]).share();
    let finish = |share: &Share| shared.begin(Side::Dialler, || [1; 32]).finish(share).is_some();
    assert!(finish(&good));
    // A changed bit gives a point off the curve, or another form of point.
    for bit in 0..8 * SHARE_BYTES {
        let mut changed = good;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!finish(&changed), "bit {bit}");
    }
    assert!(!finish(&[0; SHARE_BYTES]));
    // Only the blind: both sides would compute the point at infinity.
    assert!(!finish(&bytes_of(&shared.blinds_accepter)));
}

#[test]
fn a_number_that_is_not_of_the_group_is_drawn_anew() {
    let shared = SharedNumber::of(b"a secret of 16 b");
    let mut draws = [[0xff; 32], [0; 32], [7; 32]].into_iter();
    let drawn = shared.begin(Side::Dialler, || draws.next().expect("no more are needed"));
    assert_eq!(drawn.share(), shared.begin(Side::Dialler, || [7; 32]).share());
    assert_eq!(draws.next(), None);
}
