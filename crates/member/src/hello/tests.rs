use super::*;

fn unborn() -> Hello {
    Hello { server: 2, member: MemberId(7), boot: BootId(0), servers: vec![1, 2, 3], birth: None }
}

fn born() -> Hello {
    let birth = Some(Birth { cluster_id: 1 << 100, voters: vec![5, 7, 9] });
    Hello { boot: BootId(4), birth, ..unborn() }
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

#[test]
fn what_was_said_is_what_is_heard() {
    let most = |count| (1..=count as u64).collect::<Vec<_>>();
    let birth = Some(Birth { cluster_id: 0, voters: most(VOTERS_MAX) });
    let largest = Hello { servers: most(VOTERS_MAX), birth, ..unborn() };
    for hello in [unborn(), born(), largest] {
        let bytes = bytes(&hello);
        assert_eq!(read(&bytes), Ok(hello));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn what_nobody_says_is_refused() {
    let check = |change: &dyn Fn(&mut Hello), what: &str| {
        let mut hello = born();
        change(&mut hello);
        let refused = read(&bytes(&hello)).expect_err("is refused");
        assert!(refused.to_string().contains(what), "{refused}");
    };
    check(&|it| it.member = MemberId(0), "the member id is 0");
    check(&|it| it.servers = vec![2, 1], "not ascending");
    check(&|it| it.servers = vec![1, 1], "not ascending");
    check(&|it| it.birth = Some(Birth { cluster_id: 1, voters: vec![] }), "the first voters");
    check(&|it| it.birth = Some(Birth { cluster_id: 1, voters: vec![0] }), "the first voters");
    let unsorted = Birth { cluster_id: 1, voters: vec![2, 1] };
    check(&|it| it.birth = Some(unsorted.clone()), "the first voters are not ascending");
    let mut long = bytes(&unborn());
    long[24..28].copy_from_slice(&(VOTERS_MAX as u32 + 1).to_le_bytes());
    assert!(read(&long).expect_err("is refused").to_string().contains("too long"));
    assert!(read(&[&bytes(&born())[..], &[0]].concat()).is_err());
}
