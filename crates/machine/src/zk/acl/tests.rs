use super::*;
use crate::machine::tests::rig::{acl_text, parse_acl, parse_acl_entry};

impl AclTable {
    /// All ACLs in the table with their counts, sorted by text, because ids are not state.
    pub(crate) fn usage(&self) -> Vec<(Acl, u64)> {
        assert_eq!(self.slots.iter().flatten().count(), self.ids.len());
        assert_eq!(self.slots.iter().filter(|slot| slot.is_none()).count(), self.vacant.len());
        let mut usage: Vec<(Acl, u64)> =
            self.slots.iter().flatten().map(|slot| (slot.acl.clone(), slot.znode_count)).collect();
        usage.sort_by_key(|(acl, _)| acl_text(acl));
        usage
    }
}

const NOBODY: &[Identity<'static>] = &[];
const USER: &[Identity<'static>] = &[Identity { scheme: "digest", id: "u:x" }];

fn settings() -> Settings {
    Settings::default()
}

fn entries(text: &str) -> Vec<AclEntry> {
    match parse_acl(text) {
        crate::zk::command::AskedAcl::Entries(entries) => entries,
        crate::zk::command::AskedAcl::Open => unreachable!("only ops say open"),
    }
}

/// Checks whether `acl` lets someone with these identities read.
fn check(acl: &str, identities: &[Identity<'_>], expected: bool) {
    let found = allows(&settings(), &entries(acl), perms::READ, identities);
    assert_eq!(found, expected, "{acl} for {identities:?}");
}

fn from(address: &str) -> [Identity<'_>; 1] {
    [Identity { scheme: "ip", id: address }]
}

#[test]
fn world_is_everyone_with_the_bit() {
    check("world:anyone=r", NOBODY, true);
    check("world:anyone=rwcda", NOBODY, true);
    check("world:anyone=wcda", NOBODY, false);
    check("world:someone=r", NOBODY, false);
    check("world:anyone=w,world:anyone=r", NOBODY, true);
}

#[test]
fn a_digest_is_compared_whole() {
    check("digest:u:x=r", USER, true);
    check("digest:u:y=r", USER, false);
    check("digest:u=r", USER, false);
    check("digest:u:x=w", USER, false);
    check("sasl:u:x=r", USER, false);
    check("nonsense:u:x=r", &[Identity { scheme: "nonsense", id: "u:x" }], false);
}

#[test]
fn any_entry_and_any_identity_may_match() {
    let two = [Identity { scheme: "ip", id: "10.0.0.1" }, USER[0]];
    check("digest:v:y=r,digest:u:x=r", &two, true);
    check("digest:v:y=r,digest:u:x=w", &two, false);
    check("digest:v:y=r,ip:10.0.0.1=r", &two, true);
}

#[test]
fn an_empty_acl_and_the_super_user_pass() {
    check("none", NOBODY, true);
    check("digest:v:y=w", &[Identity { scheme: "super", id: "" }], true);
    check("super:=r", NOBODY, false);
}

#[test]
fn any_of_the_wanted_bits_is_enough() {
    let acl = entries("world:anyone=a");
    assert!(allows(&settings(), &acl, perms::READ | perms::ADMIN, NOBODY));
    assert!(!allows(&settings(), &acl, perms::READ | perms::WRITE, NOBODY));
}

#[test]
fn settings_switch_checks_and_digests_off() {
    let acl = entries("digest:u:x=r");
    let skip = Settings { skip_acl: true, ..settings() };
    assert!(allows(&skip, &acl, perms::WRITE, NOBODY));
    let no_digest = Settings { digest_enabled: false, ..settings() };
    assert!(!allows(&no_digest, &acl, perms::READ, USER));
}

#[test]
fn addresses_match_by_their_leading_bits() {
    let cases = [
        ("ip:10.0.0.1=r", "10.0.0.1", true),
        ("ip:10.0.0.1=r", "10.0.0.2", false),
        ("ip:10.0.0.0/8=r", "10.255.1.2", true),
        ("ip:10.0.0.0/8=r", "11.0.0.0", false),
        ("ip:10.0.0.0/9=r", "10.127.0.1", true),
        ("ip:10.0.0.0/9=r", "10.128.0.1", false),
        ("ip:10.9.9.9/8=r", "10.0.0.1", true),
        ("ip:0.0.0.0/0=r", "255.1.2.3", true),
        ("ip:10.0.0.1/32=r", "10.0.0.1", true),
        ("ip:10.0.0.1/31=r", "10.0.0.0", true),
        ("ip:10.0.0.1/32=r", "10.0.0.0", false),
        ("ip:::1=r", "::1", true),
        ("ip:::1=r", "0:0:0:0:0:0:0:1", true),
        ("ip:fe80::/10=r", "febf::1", true),
        ("ip:fe80::/10=r", "fec0::1", false),
        ("ip:::/0=r", "fec0::1", true),
        ("ip:2001:db8::/127=r", "2001:db8::1", true),
        ("ip:2001:db8::/127=r", "2001:db8::2", false),
        ("ip:::/0=r", "10.0.0.1", false),
        ("ip:0.0.0.0/0=r", "::1", false),
        ("ip:0.0.0.0/0=r", "not an address", false),
    ];
    for (acl, address, expected) in cases {
        check(acl, &from(address), expected);
    }
}

fn sasl_settings(any_user: Option<&str>) -> Settings {
    Settings { sasl_enabled: true, sasl_any_user: any_user.map(str::to_string), ..settings() }
}

#[test]
fn a_sasl_user_is_compared_whole_and_super_is_everyone() {
    let user = |id| [Identity { scheme: "sasl", id }];
    let cases = [
        ("sasl:bob=r", "bob", true),
        ("sasl:bob=r", "bobby", false),
        ("sasl:bob=r", "super", true),
        ("sasl:bob=w", "super", false),
        ("digest:u:x=r", "super", false),
        ("sasl:bob/host@REALM=r", "bob/host@REALM", true),
        ("sasl:bob/host@REALM=r", "bob", false),
        ("sasl:any=r", "bob", false),
    ];
    for (acl, id, expected) in cases {
        let found = allows(&sasl_settings(None), &entries(acl), perms::READ, &user(id));
        assert_eq!(found, expected, "{acl} for {id}");
    }
    let any = sasl_settings(Some("any"));
    assert!(allows(&any, &entries("sasl:any=r"), perms::READ, &user("bob")));
    assert!(!allows(&any, &entries("sasl:any=r"), perms::READ, USER));
    assert!(!allows(&settings(), &entries("sasl:bob=r"), perms::READ, &user("bob")));
}

#[test]
fn the_sasl_scheme_takes_kerberos_names_where_it_exists() {
    for id in ["bob", "", "a/b", "a@b", "a/b@c", "@", "/@", "a/b/c", "x y", "a\nb@c", "/", "a@"] {
        let asked = [AclEntry { perms: 1, scheme: "sasl".into(), id: id.into() }];
        assert!(resolve(&sasl_settings(None), &asked, NOBODY).is_ok(), "{id:?}");
        assert_eq!(resolve(&settings(), &asked, NOBODY), Err(Refusal::InvalidAcl), "{id:?}");
    }
    for id in ["a@b@c", "a/b/c@d", "a@b/c", "@@"] {
        let asked = [AclEntry { perms: 1, scheme: "sasl".into(), id: id.into() }];
        let resolved = resolve(&sasl_settings(None), &asked, NOBODY);
        assert_eq!(resolved, Err(Refusal::InvalidAcl), "{id:?}");
    }
}

#[test]
fn auth_stands_for_a_sasl_user_where_the_scheme_exists() {
    let both = [Identity { scheme: "sasl", id: "bob" }, USER[0]];
    let asked = entries("auth:=r");
    let resolved = resolve(&sasl_settings(None), &asked, &both).unwrap();
    assert_eq!(acl_text(&resolved), "sasl:bob=r,digest:u:x=r");
    let resolved = resolve(&settings(), &asked, &both).unwrap();
    assert_eq!(acl_text(&resolved), "digest:u:x=r");
    assert_eq!(resolve(&settings(), &asked, &both[..1]), Err(Refusal::InvalidAcl));
}

#[test]
fn addresses_are_read_as_java_reads_them() {
    for id in [
        "127.0.0.0/+8",
        "127.0.0.0/08",
        "01.2.3.4",
        "+127.0.0.1",
        "127.0.0.+1",
        "::/0",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "::+1",
        "::-fff",
    ] {
        assert!(id_is_valid("ip", id), "{id}");
    }
    for id in [
        "127.0.0.0/ 8",
        "1.2.3.4.5",
        "-1.2.3.4",
        "1.2.3.",
        "...",
        "localhost",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4::5:6:7:8",
        ":",
        ":::",
        "::::",
        ":1::",
        "12345::",
        "g::",
        "::ffff:127.0.0.1",
        "1:2:3:4:5:6:1.2.3.4",
        "fe80::1%eth0",
    ] {
        assert!(!id_is_valid("ip", id), "{id}");
    }
    check("ip:127.0.0.01=r", &from("127.0.0.1"), true);
    check("ip:::-1=r", &from("::ffff"), true);
    check("ip:126.0.0.0/7=r", &from("127.0.0.1"), true);
    check("ip:127.0.0.3/30=r", &from("127.0.0.1"), true);
    check("ip:127.0.0.2/31=r", &from("127.0.0.1"), false);
}

/// Checks which ACL is stored for a requested one; `-` if the request is invalid.
fn check_resolved(asked: &str, identities: &[Identity<'_>], expected: &str) {
    let resolved = resolve(&settings(), &entries(asked), identities);
    let text = resolved.map_or("-".to_string(), |acl| acl_text(&acl));
    assert_eq!(text, expected, "{asked} for {identities:?}");
}

#[test]
fn auth_stands_for_what_was_proved() {
    let two = [from("10.0.0.1")[0], USER[0], Identity { scheme: "digest", id: "v:y" }];
    check_resolved("auth:=rw", USER, "digest:u:x=rw");
    check_resolved("auth:ignored=rw", USER, "digest:u:x=rw");
    check_resolved("auth:=rw", &two, "digest:u:x=rw,digest:v:y=rw");
    check_resolved("auth:=rw", NOBODY, "-");
    check_resolved("auth:=rw", &from("10.0.0.1"), "-");
    check_resolved("auth:=rw", &[Identity { scheme: "super", id: "" }], "-");
    check_resolved("world:anyone=r,auth:=rw", NOBODY, "-");
}

#[test]
fn only_whole_duplicates_are_folded() {
    check_resolved("world:anyone=r,world:anyone=r", NOBODY, "world:anyone=r");
    check_resolved("world:anyone=r,world:anyone=w", NOBODY, "world:anyone=r,world:anyone=w");
    check_resolved("auth:=r,digest:u:x=r", USER, "digest:u:x=r,digest:u:x=r");
    check_resolved("auth:=r,auth:=r", USER, "digest:u:x=r");
}

#[test]
fn schemes_and_ids_that_cannot_be_are_refused() {
    let invalid = [
        "none",
        "world:someone=r",
        "nonsense:x=r",
        "super:x=r",
        ":=r",
        "world:anyone=r,nonsense:x=r",
        "digest:u=r",
        "digest:u:=r",
        "digest::=r",
        "digest:u:x:y=r",
        "ip:=r",
        "ip:host=r",
        "ip:10.0.0=r",
        "ip:10.0.0.256=r",
        "ip:10.0.0.0/33=r",
        "ip:10.0.0.0/=r",
        "ip:10.0.0.0/-1=r",
        "ip:10.0.0.0/8/8=r",
        "ip:::1/129=r",
        "ip:1::2::3=r",
        "sasl:someone=r",
        "x509:CN=someone=r",
    ];
    invalid.iter().for_each(|acl| check_resolved(acl, NOBODY, "-"));
}

#[test]
fn schemes_and_ids_that_can_be_are_kept() {
    let valid = [
        "world:anyone=rwcda",
        "digest:u:x=r",
        "digest::x=r",
        "ip:10.0.0.0/8=r",
        "ip:::1/128=r",
        "ip:10.0.0.0/0=r",
    ];
    valid.iter().for_each(|acl| check_resolved(acl, NOBODY, acl));
    check_resolved("digest:u:x:=r", NOBODY, "digest:u:x:=r");
}

#[test]
fn certificates_are_a_scheme_once_they_are_switched_on() {
    let settings = Settings { x509_enabled: true, ..settings() };
    let name = "CN=u,OU=a\\, b,O=c";
    let acl = [AclEntry { perms: perms::READ, scheme: "x509".into(), id: name.into() }];
    let user = [Identity { scheme: "x509", id: name }];
    let other = [Identity { scheme: "x509", id: "CN=v" }];
    assert_eq!(resolve(&settings, &acl, NOBODY), Ok(acl.to_vec().into()));
    assert!(allows(&settings, &acl, perms::READ, &user));
    assert!(!allows(&settings, &acl, perms::READ, &other));
    assert!(!allows(&settings, &acl, perms::WRITE, &user));
    let auth = [AclEntry { perms: perms::READ, scheme: "auth".into(), id: "".into() }];
    assert_eq!(resolve(&settings, &auth, &user), Ok(acl.to_vec().into()));
    let malformed = [AclEntry { perms: perms::READ, scheme: "x509".into(), id: "u".into() }];
    assert_eq!(resolve(&settings, &malformed, &user), Err(Refusal::InvalidAcl));
}

#[test]
fn a_switched_off_digest_scheme_is_unknown() {
    let settings = Settings { digest_enabled: false, ..settings() };
    let refused = Err(Refusal::InvalidAcl);
    assert_eq!(resolve(&settings, &entries("digest:u:x=r"), USER), refused);
    assert_eq!(resolve(&settings, &entries("auth:=r"), USER), refused);
}

#[test]
fn the_table_holds_each_acl_once_and_frees_the_unused() {
    let mut table = AclTable::default();
    let reader = world(perms::READ);
    let first = table.retain(&reader);
    assert_eq!(table.retain(&reader), first);
    assert_eq!(table.get(first), &reader);
    table.release(first);
    table.release(first);
    assert_eq!(table.usage().len(), 1);
    let next = table.retain(&world(perms::WRITE));
    assert_eq!(next, first, "the freed number is used again");
}

#[test]
fn the_open_acl_is_never_freed() {
    let mut table = AclTable::default();
    let open = world(perms::ALL);
    assert_eq!(table.retain(&open), OPEN);
    table.release(OPEN);
    assert_eq!(table.get(OPEN), &open);
}

#[test]
fn an_acl_is_read_back_and_cut_off_nowhere() {
    let longest = "x".repeat(300);
    let acl = vec![
        parse_acl_entry("world:anyone=rwcda"),
        AclEntry { perms: u32::MAX, scheme: "".into(), id: longest.into() },
    ];
    let mut bytes = Vec::new();
    encode(&acl, &mut bytes);
    let mut reader = Reader::new(&bytes);
    assert_eq!(decode(&mut reader), Ok(acl));
    assert_eq!(reader.remaining(), 0);
    for end in 0..bytes.len() {
        assert!(decode(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
    }
}

#[test]
fn an_acl_of_the_most_entries_is_read_back() {
    let acl = vec![parse_acl_entry("a:=r"); ACL_ENTRIES_MAX];
    let mut bytes = Vec::new();
    encode(&acl, &mut bytes);
    assert_eq!(decode(&mut Reader::new(&bytes)), Ok(acl));
}

#[test]
fn many_identities_and_long_acls_are_judged_like_short_ones() {
    use crate::machine::tests::rig::Random;
    const ENTRIES: [&str; 9] = [
        "digest:a:b=r",
        "digest:c:d=w",
        "ip:10.0.0.0/8=r",
        "ip:::1=r",
        "sasl:bob=r",
        "sasl:any=r",
        "x509:CN=a=r",
        "world:anyone=w",
        "ip:10.1.2.3=w",
    ];
    const PROVED: [(&str, &str); 9] = [
        ("ip", "10.1.2.3"),
        ("ip", "::1"),
        ("digest", "a:b"),
        ("digest", "x:y"),
        ("sasl", "bob"),
        ("sasl", "super"),
        ("x509", "CN=a"),
        ("sasl", "eve"),
        ("ip", "nonsense"),
    ];
    let all = sasl_settings(Some("any"));
    let settings = [settings(), Settings { digest_enabled: false, ..all.clone() }, all];
    let mut random = Random(5);
    let mut allowed = 0;
    for _ in 0..3_000 {
        let settings = &settings[random.below(3)];
        let few = |random: &mut Random| 1 + random.below(3);
        let entry = |_| parse_acl_entry(random.pick(&ENTRIES));
        let acl: Vec<AclEntry> = (0..2).map(entry).collect();
        let identity = |_| {
            let (scheme, id) = random.pick(&PROVED);
            Identity { scheme, id }
        };
        let identities: Vec<Identity<'_>> = (0..2).map(identity).collect();
        let wanted = random.pick(&[perms::READ, perms::WRITE]);
        let short = allows(settings, &acl, wanted, &identities);
        let long: Vec<AclEntry> = acl.iter().cycle().take(PAIRS_MAX).cloned().collect();
        let long = allows(settings, &long, wanted, &identities.repeat(few(&mut random)));
        assert_eq!(long, short, "{acl:?} {identities:?}");
        allowed += usize::from(short);
    }
    assert!((500..2_500).contains(&allowed), "{allowed}");
}

#[test]
fn an_acl_that_stands_for_too_many_identities_is_refused() {
    let ids: Vec<String> = (0..100).map(|number| format!("u{number}:x")).collect();
    let identities: Vec<_> = ids.iter().map(|id| Identity { scheme: "digest", id }).collect();
    let entry = |number: usize| parse_acl_entry(&format!("auth:{number}=r"));
    let asked: Vec<AclEntry> = (0..655).map(entry).collect();
    assert_eq!(resolve(&settings(), &asked, &identities).unwrap().len(), 65_500);
    let asked: Vec<AclEntry> = (0..656).map(entry).collect();
    assert_eq!(resolve(&settings(), &asked, &identities), Err(Refusal::InvalidAcl));
}

#[test]
fn a_long_acl_is_resolved_without_comparing_each_entry_with_all_before() {
    let entry = |number: usize| parse_acl_entry(&format!("digest:u{number}:x=r"));
    let mut asked: Vec<AclEntry> = (0..ACL_ENTRIES_MAX - 1).map(entry).collect();
    asked.push(asked[0].clone());
    assert_eq!(resolve(&settings(), &asked, NOBODY).unwrap().len(), ACL_ENTRIES_MAX - 1);
}
