use storage::datadir::Ballot;

use super::*;
use crate::membership::limits::HELLO_BYTES_MAX;

fn unborn() -> Hello {
    Hello::unborn(2, MemberId(7), vec![1, 2, 3], Known::up_to(Level::FIRST))
}

fn born() -> Hello {
    let birth = Birth { cluster_id: 1 << 100, voters: vec![5, 7, 9] };
    unborn().born(BootId(4), birth, Level::FIRST.into())
}

/// A hello that a later version of the program might send.
fn later() -> Hello {
    let unknown = vec![(13, vec![]), (40, b"anything".to_vec())];
    let level_max = Level::from_number(12).unwrap();
    let program = "3.1.0-rc.1".to_string();
    let known = Known { messages: VersionRange { min: 1, max: 9 }, level_max, program };
    let level = Level::from_number(11).map(|level| StatedLevel { level, version: String::new() });
    Hello { known, level, unknown, ..born() }
}

fn bytes(hello: &Hello) -> Vec<u8> {
    let mut out = Vec::new();
    hello.encode(&mut out);
    out
}

fn read(bytes: &[u8]) -> Result<Hello, DecodeError> {
    let mut reader = Reader::new(bytes);
    let hello = Hello::decode(&mut reader)?;
    reader.finish().map(|()| hello)
}

#[track_caller]
fn refused(bytes: &[u8], what: &str) {
    let refused = read(bytes).expect_err("is refused").to_string();
    assert!(refused.contains(what), "{refused}");
}

#[test]
fn what_was_said_is_what_is_heard() {
    let most = |count| (1..=count as u64).collect::<Vec<_>>();
    let birth = Some(Birth { cluster_id: 0, voters: most(VOTERS_MAX) });
    let urls = vec!["u".repeat(CLIENT_URL_BYTES_MAX); CLIENT_URLS_MAX];
    let largest = Hello { servers: most(VOTERS_MAX), birth, ..born() };
    let largest = largest.with_client_urls(urls.clone()).with_peer_urls(urls, "n".repeat(255));
    let largest = largest.expect("there is room");
    let asking = Hello { server: 0, ..unborn() };
    let asking = asking.with_peer_urls(vec!["http://h:2380".to_string()], "é b".to_string());
    let asking = asking.expect("there is room");
    let told = born().with_client_urls(vec!["http://[::1]:2379".to_string()]);
    let promised = Ballot { round: 3, member: 9 };
    let first = Ballot { round: 2, member: 7 };
    let birth = Birth { cluster_id: 5, voters: most(VOTERS_MAX) };
    let accepted = Acceptor { promised, accepted: Some((first, birth)) };
    let attending = unborn().agreeing(Acceptor::default());
    let agreeing = Hello { unknown: later().unknown, ..unborn().agreeing(accepted) };
    for hello in [unborn(), born(), later(), told, largest, asking, attending, agreeing] {
        let bytes = bytes(&hello);
        assert!(bytes.len() <= HELLO_BYTES_MAX + 64, "{} bytes", bytes.len());
        assert_eq!(read(&bytes), Ok(hello));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn urls_are_few_short_and_visible() {
    let read = |bytes: &[u8]| decode_urls(&mut Reader::new(bytes)).map_err(|it| it.to_string());
    assert_eq!(read(&[3, 0, b'a', b':', b'1']), Ok(vec!["a:1".to_string()]));
    for (bytes, what) in [
        (vec![], "none"),
        (vec![0, 0], "empty"),
        (vec![2, 0, b'a'], ""),
        (vec![1, 0, b' '], "visible"),
        (vec![1, 0, 0xff], "visible"),
        ([1, 0, b'a'].repeat(CLIENT_URLS_MAX + 1), "too many"),
        ([&[45, 1][..], &[b'a'; 301]].concat(), "too long"),
    ] {
        let refused = read(&bytes).expect_err("it is refused");
        assert!(refused.contains(what), "{refused}");
    }
}

#[test]
fn a_name_is_short_and_visible() {
    let with = |name: &[u8]| {
        let mut fields = fields(&born());
        fields.push((TAG_NAME, name.to_vec()));
        read(&of_fields(&fields)).map(|hello| hello.name)
    };
    for good in ["a", "m\u{fc}nchen 1", &"n".repeat(NAME_BYTES_MAX)] {
        assert_eq!(with(good.as_bytes()), Ok(good.to_string()));
    }
    for bad in [&b""[..], b"a\nb", "a\u{85}".as_bytes(), b"\xff", &[b'n'; NAME_BYTES_MAX + 1]] {
        let refused = with(bad).expect_err("it is refused").to_string();
        assert!(refused.contains("the name of the server"), "{refused}");
    }
}

#[test]
fn a_server_says_no_urls_and_no_name_that_are_refused() {
    let may_say = |urls: &[&str], name: &str| {
        let urls = urls.iter().map(|url| url.to_string()).collect();
        unborn().with_peer_urls(urls, name.to_string()).is_some()
    };
    assert!(may_say(&["http://h:2380"], ""));
    assert!(may_say(&["u"; CLIENT_URLS_MAX], "n"));
    assert!(!may_say(&["u"; CLIENT_URLS_MAX + 1], "n"));
    for url in ["", "a b", "http://\u{e9}", &"u".repeat(CLIENT_URL_BYTES_MAX + 1)] {
        assert!(!may_say(&[url], "n"), "{url}");
    }
    for name in ["a\n", &"n".repeat(NAME_BYTES_MAX + 1)] {
        assert!(!may_say(&["u"], name), "{name}");
    }
}

#[test]
fn what_nobody_says_is_refused() {
    let check = |change: &dyn Fn(&mut Hello), what: &str| {
        let mut hello = born();
        change(&mut hello);
        refused(&bytes(&hello), what);
    };
    check(&|it| it.member = MemberId(0), "the member id is 0");
    check(&|it| it.servers = vec![2, 1], "not ascending");
    check(&|it| it.servers = vec![1, 1], "not ascending");
    check(&|it| it.birth = Some(Birth { cluster_id: 1, voters: vec![] }), "the first voters");
    check(&|it| it.birth = Some(Birth { cluster_id: 1, voters: vec![0] }), "the first voters");
    let unsorted = Birth { cluster_id: 1, voters: vec![2, 1] };
    check(&|it| it.birth = Some(unsorted.clone()), "the first voters are not ascending");
    check(
        &|it| it.known.messages = VersionRange { min: 0, max: 1 },
        "a range of versions has none",
    );
    check(
        &|it| it.known.messages = VersionRange { min: 3, max: 2 },
        "a range of versions has none",
    );
    let long = "x".repeat(VERSION_BYTES_MAX);
    for program in ["a b", "\u{7f}", "\n", "\u{e9}"] {
        check(&|it| it.known.program = program.to_string(), "the name of a version");
        check(&|it| it.level.as_mut().unwrap().version = program.to_string(), "the name of");
    }
    let mut with_long = born();
    with_long.known.program = long;
    assert_eq!(read(&bytes(&with_long)), Ok(with_long));
    refused(&[&bytes(&born())[..], &[0]].concat(), "left over");
}

/// The tag and the bytes of each field.
type Fields = Vec<(u16, Vec<u8>)>;

/// Splits an encoded hello into its fields.
fn fields(hello: &Hello) -> Fields {
    let bytes = bytes(hello);
    let mut reader = Reader::new(&bytes);
    let count = reader.u16().unwrap();
    let mut field = || {
        let (tag, length) = (reader.u16().unwrap(), reader.u16().unwrap());
        (tag, reader.take(usize::from(length)).unwrap().to_vec())
    };
    (0..count).map(|_| field()).collect()
}

fn of_fields(fields: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = (fields.len() as u16).to_le_bytes().to_vec();
    for (tag, bytes) in fields {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out
}

#[test]
fn each_field_is_there_once_and_whole() {
    for at in 0..fields(&born()).len() {
        let check = |change: &dyn Fn(&mut Fields), what: &str| {
            let mut fields = fields(&born());
            change(&mut fields);
            refused(&of_fields(&fields), what);
        };
        let tag = fields(&born())[at].0;
        if ![TAG_BIRTH, TAG_LEVEL, TAG_PROGRAM].contains(&tag) {
            check(&|it| drop(it.remove(at)), "a needed field is missing");
        }
        check(&|it| it.insert(at, it[at].clone()), "the fields are not ascending");
        if tag == TAG_PROGRAM {
            check(&|it| it[at].1.clear(), "the name of a version");
        } else {
            check(&|it| it[at].1.truncate(1), "cut off");
        }
        if [TAG_LEVEL, TAG_PROGRAM].contains(&tag) {
            check(&|it| it[at].1.push(0), "the name of a version");
            check(&|it| it[at].1.extend([b'x'; VERSION_BYTES_MAX + 1]), "the name of a version");
        } else {
            check(&|it| it[at].1.push(0), "left over");
        }
        check(&|it| it[at].0 |= NEEDED, "a needed field is not known to this version");
    }
    let mut swapped = fields(&born());
    swapped.swap(0, 1);
    refused(&of_fields(&swapped), "the fields are not ascending");
    let mut many = fields(&born());
    many.extend((20..100).map(|tag| (tag, vec![])));
    refused(&of_fields(&many), "too many fields");
    refused(&of_fields(&[(0, vec![])]), "the fields are not ascending");
}

#[test]
fn a_field_of_a_later_version_is_kept_unless_it_is_needed() {
    let mut fields = fields(&born());
    fields.push((13, b"what".to_vec()));
    let heard = read(&of_fields(&fields)).expect("it is read");
    assert_eq!(heard.unknown, [(13, b"what".to_vec())]);
    assert_eq!(bytes(&heard), of_fields(&fields), "a proof covers what was said");
    fields.last_mut().unwrap().0 |= NEEDED;
    refused(&of_fields(&fields), "a needed field is not known to this version");
}

#[test]
fn a_level_of_zero_is_refused() {
    for tag in [TAG_LEVEL_MAX, TAG_LEVEL] {
        let mut fields = fields(&born());
        let field = fields.iter_mut().find(|(found, _)| *found == tag).unwrap();
        field.1[..2].fill(0);
        refused(&of_fields(&fields), "the level is 0");
    }
}

#[test]
fn servers_agree_unless_one_does_not_know_the_level_of_the_other() {
    let at = |level_max: Level, level: Option<Level>| {
        let level = level.map(StatedLevel::from);
        Hello { known: Known::up_to(level_max), level, ..unborn() }
    };
    let old = at(Level::FIRST, Some(Level::FIRST));
    let new = at(Level::ETCD, Some(Level::FIRST));
    let unborn_old = at(Level::FIRST, None);
    for (one, other) in [(&old, &new), (&new, &old), (&old, &unborn_old), (&unborn_old, &new)] {
        assert_eq!(one.agree(other), Ok(1));
    }
    let raised = at(Level::ETCD, Some(Level::ETCD));
    assert_eq!((raised.agree(&new), new.agree(&raised)), (Ok(1), Ok(1)));
    for old in [&old, &unborn_old] {
        let at_old = "the ensemble of server 2 is at level 2, and this server knows up to 1: \
                      install version 0.2.0 or later, or raise level_max where it is set";
        let at_raised = "the ensemble is at level 2, and server 2 knows up to 1: \
                         install version 0.2.0 or later there, or raise level_max where it is set";
        assert_eq!(old.agree(&raised).unwrap_err().to_string(), at_old);
        assert_eq!(raised.agree(old).unwrap_err().to_string(), at_raised);
    }
}

#[test]
fn the_highest_version_that_both_know_is_common() {
    let range = |min, max| VersionRange { min, max };
    let check = |one, other, common| {
        assert_eq!(VersionRange::common(one, other), common);
        assert_eq!(VersionRange::common(other, one), common);
    };
    check(range(1, 1), range(1, 1), Some(1));
    check(range(1, 2), range(1, 1), Some(1));
    check(range(1, 3), range(2, 5), Some(3));
    check(range(1, 1), range(2, 2), None);
}

#[test]
fn two_builds_have_a_handshake_in_common_until_the_level_or_a_setting_forbids_it() {
    let old = Handshakes::of(false, true, Some(Level::ETCD_V2));
    let speaks = |dialler: Handshakes, accepter: Handshakes| {
        dialler.dialled().find(|version| accepter.takes(*version))
    };
    for level in [None, Some(Level::FIRST), Some(Level::ETCD_V2)] {
        let new = Handshakes::of(true, true, level);
        assert_eq!(speaks(new, new), Some(HandshakeVersion::New));
        assert_eq!(speaks(new, old), Some(HandshakeVersion::Old));
        assert_eq!(speaks(old, new), Some(HandshakeVersion::Old));
        let strict = Handshakes::of(true, false, level);
        assert_eq!(speaks(new, strict), Some(HandshakeVersion::New));
        assert_eq!(speaks(strict, old), None);
        assert_eq!(speaks(old, strict), None);
    }
    let raised = Handshakes::of(true, true, Some(Level::TOKENS));
    assert_eq!(speaks(raised, raised), Some(HandshakeVersion::New));
    assert_eq!(speaks(old, raised), None);
}
