//! A member that was removed while it was down comes back, and learns it over real sockets.

use super::*;
use crate::peer_hello::Retired;

/// Server 1 of cluster 7. Member 20 was server 2, and was removed.
fn remaining(auth: PeerAuth) -> Peers {
    let listed = [server(1, 1), server(3, port(&listener()))];
    let peers = Peers::start(born(1, 7), listener(), &listed, auth);
    peers.handle.set_servers(listed.to_vec(), BTreeSet::from([MemberId(20), MemberId(50)]));
    peers
}

/// Member 20 with its old directory, in which server 1 is at this port.
fn removed(port: u16, auth: PeerAuth) -> Peers {
    Peers::start(born(2, 7), listener(), &[server(1, port), server(2, 1)], auth)
}

/// Whether the member has said nothing of this to its receiver, and has no link.
fn is_untouched(peers: &Peers) -> bool {
    peers.handle.links().is_empty() && peers.inputs.try_recv().is_err()
}

fn is_told(peers: &Peers) -> bool {
    peers.ends.try_recv().is_ok()
}

#[test]
fn a_retired_member_is_told_with_each_kind_of_proof() {
    let auths: [fn() -> PeerAuth; 4] = [|| PeerAuth::None, secret, strict_secret, || tls(MEMBER)];
    for auth in auths {
        let here = remaining(auth());
        let back = removed(here.port, auth());
        assert_eq!(back.ends.recv_timeout(PATIENCE), Ok(false));
        assert!(is_untouched(&here));
        assert!(is_untouched(&back));
        assert!(!is_told(&here));
        back.sockets.stop();
        here.sockets.stop();
    }
}

#[test]
fn a_retired_member_is_told_even_if_its_number_is_listed_again() {
    let here = remaining(secret());
    let listed = [server(1, 1), server(2, port(&listener()))];
    here.handle.set_servers(listed.to_vec(), BTreeSet::from([MemberId(20)]));
    let back = removed(here.port, secret());
    assert_eq!(back.ends.recv_timeout(PATIENCE), Ok(true));
    assert!(is_untouched(&here));
    back.sockets.stop();
    here.sockets.stop();
}

#[test]
fn only_a_retired_member_of_this_ensemble_that_knows_the_secret_is_told() {
    let here = remaining(secret());
    let mut stranger = Stranger::connect(&here);
    stranger.knock(offer(born(2, 7)));
    let said =
        Handshake::Retired(Retired { member: MemberId(20), cluster_id: 7, is_listed: false });
    assert_eq!(heard_until_closed(&mut stranger), [said]);
    let mut stranger = Stranger::connect(&here);
    let key = stranger.agree(4).key;
    stranger.knock_with(offer(born(2, 7)), &key, b"another key");
    assert_eq!(stranger.refusal(), "it does not know the shared secret");
    // Version 1 of the handshake, which this server still accepts from other members.
    let mut stranger = Stranger::connect(&here);
    stranger.say(&Handshake::Offer(offer(born(2, 7))));
    assert_eq!(stranger.refusal(), Refusal::OldHandshake.to_string());
    let later = Hello { level: Some(Level::NEWEST.into()), ..born(2, 7) };
    for (offer, expected) in [
        (offer(hello(2)), "server 2 is not configured here"),
        (offer(born(2, 8)), "server 2 is not configured here"),
        (offer(Hello { member: MemberId(21), ..born(2, 7) }), "server 2 is not configured here"),
        (Offer { wanted: 3, ..offer(born(2, 7)) }, "it wants server 3, and this is server 1"),
        (offer(later), "and this server knows up to 1"),
    ] {
        let reason = refused(&here, offer);
        assert!(reason.contains(expected), "{reason}");
    }
    // The oldest of many retired members are forgotten.
    here.handle.set_servers(vec![server(1, 1)], BTreeSet::from([MemberId(50)]));
    assert_eq!(refused(&here, offer(born(2, 7))), "server 2 is not configured here");
    assert!(is_untouched(&here));
    here.sockets.stop();
}

/// Dials a stranger as the member with this hello. `talk` is what the stranger does on the first
/// connection. Returns whether the member takes itself for retired once that connection is closed.
fn believes(own: Hello, auth: PeerAuth, talk: impl FnOnce(&mut Stranger)) -> bool {
    let accepter = listener();
    let listed = [server(1, port(&accepter)), server(2, 1)];
    let peers = Peers::start(own, listener(), &listed, auth);
    let (stream, _) = accepter.accept().expect("it dials");
    stream.set_read_timeout(Some(PATIENCE)).expect("is set");
    let frames = FrameReader::new(HANDSHAKE_FRAME_BYTES_MAX);
    let mut stranger = Stranger { stream, frames };
    talk(&mut stranger);
    while stranger.hear().is_some() {}
    let believes = is_told(&peers);
    assert!(is_untouched(&peers));
    peers.sockets.stop();
    believes
}

fn heard_offer(stranger: &mut Stranger) -> Offer {
    let said = Handshake::decode(&stranger.hear().expect("it offers"));
    let Ok(Handshake::Offer(offer)) = said else { panic!("{said:?}") };
    offer
}

/// Answers an offer with this hello, proves it with `key`, and says that the dialler is retired.
fn answer(stranger: &mut Stranger, auth: AuthKind, hello: Hello, key: &[u8], told: (u64, u128)) {
    let offer = heard_offer(stranger);
    let answer = Answer { auth, process: 9, nonce: [9; 32], hello };
    let transcript = Transcript { offer, answer };
    let proof = transcript.accepter_proof(key);
    stranger.say(&Handshake::Answer(transcript.answer, proof));
    stranger.say(&retired(told));
}

fn retired((member, cluster_id): (u64, u128)) -> Handshake {
    Handshake::Retired(Retired { member: MemberId(member), cluster_id, is_listed: false })
}

#[test]
fn a_member_believes_only_a_member_of_its_ensemble_and_only_about_itself() {
    let believes_of = |own: Hello, other: Hello, told| {
        believes(own, PeerAuth::None, |stranger| {
            answer(stranger, AuthKind::None, other, b"", told);
        })
    };
    assert!(believes_of(born(2, 7), born(1, 7), (20, 7)));
    assert!(!believes_of(born(2, 7), born(1, 7), (21, 7)), "another member");
    assert!(!believes_of(born(2, 7), born(1, 7), (20, 8)), "another cluster");
    assert!(!believes_of(born(2, 7), born(1, 8), (20, 8)), "a member of another cluster");
    assert!(!believes_of(born(2, 7), born(1, 8), (20, 7)), "a member of another cluster");
    assert!(!believes_of(born(2, 7), hello(1), (20, 7)), "no member yet");
    assert!(!believes_of(hello(2), born(1, 7), (20, 7)), "this is no member yet");
    assert!(!believes_of(born(2, 7), born(3, 7), (20, 7)), "another server than was dialled");
}

#[test]
fn a_member_believes_nobody_who_has_not_shown_that_it_knows_the_secret() {
    // Before the answer, with and without a secret.
    for auth in [PeerAuth::None, secret(), strict_secret()] {
        let first = |stranger: &mut Stranger| stranger.say(&retired((20, 7)));
        assert!(!believes(born(2, 7), auth, first));
    }
    // After both sides have agreed on a key: in place of the last confirmation, and with a proof
    // that was made with `proved`.
    let agreed = |confirms: bool, proved: Option<&'static [u8]>| {
        believes(born(2, 7), secret(), |stranger| {
            let shared = SharedNumber::of(SECRET);
            let exchange = shared.begin(Side::Accepter, || [9; 32]);
            let begin = Handshake::decode(&stranger.hear().expect("it begins"));
            let Ok(Handshake::Begin(share)) = begin else { panic!("{begin:?}") };
            stranger.say(&Handshake::Reply(*exchange.share()));
            let agreed = exchange.finish(&share).expect("is a share");
            stranger.hear().expect("it confirms");
            if !confirms {
                return stranger.say(&retired((20, 7)));
            }
            stranger.say(&Handshake::Confirm(agreed.own));
            let key = proved.unwrap_or(&agreed.key);
            answer(stranger, AuthKind::Secret, born(1, 7), key, (20, 7));
        })
    };
    assert!(!agreed(false, None));
    assert!(!agreed(true, Some(b"another key")));
    assert!(agreed(true, None));
}
