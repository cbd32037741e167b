use std::path::PathBuf;

use super::super::tests::parsed_in;
use super::*;
use crate::EtcdGiven;

const THREE: &str = "quorate servers 1\nown 3\nserver 1 http://a:1 x\nserver 3 http://c:3 own name\n\
                     server 7 http://[::1]:2 m\n";

/// The content of the file for this text: the text with its checksum.
fn content(text: &str) -> String {
    let checksum = crc32c(text.as_bytes());
    format!("{text}checksum {checksum:08x}\n")
}

/// CRC-32C, computed bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 > 0 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn read(content: &str) -> Result<Option<Kept>, String> {
    let file = PathBuf::from("/d/servers");
    Kept::read(Path::new("/d"), &|path| Ok((path == file).then(|| content.to_string())))
}

#[test]
fn a_list_is_read_as_it_was_written() {
    let kept = read(&content(THREE)).unwrap().unwrap();
    let shown: Vec<String> = kept
        .members
        .iter()
        .map(|(number, (name, urls))| format!("{number} {} {name}", urls[0]))
        .collect();
    assert_eq!(kept.own, 3);
    assert_eq!(shown, ["1 http://a:1 x", "3 http://c:3 own name", "7 http://[::1]:2 m"]);
    let alone = read(&content("quorate servers 1\nown 0\n")).unwrap().unwrap();
    assert_eq!(alone, Kept { own: 0, members: Vec::new() });
    assert_eq!(Kept::read(Path::new("/e"), &|_| Ok(None)), Ok(None));
}

#[test]
fn damage_anywhere_is_an_error_that_names_the_file() {
    let whole = content(THREE);
    for end in 0..whole.len() {
        let cut = read(&whole[..end]).unwrap_err();
        assert!(cut.starts_with("/d/servers: ") && cut.contains("if it is removed"), "{cut}");
    }
    for at in 0..whole.len() {
        for bit in 0..7 {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(read(std::str::from_utf8(&bytes).unwrap()).is_err(), "bit {bit} of byte {at}");
        }
    }
    for text in [
        "quorate servers 2\nown 0\n",
        "quorate servers 1\n",
        "quorate servers 1\nown 1\n",
        "quorate servers 1\nown 0\nserver 1 http://a:1 x\nserver 2 http://b:1 y\n",
        "quorate servers 1\nown 3\nserver 1 http://a:1 x\nserver 2 http://b:1 y\n",
        "quorate servers 1\nown 1\nserver 1 http://a:1 x\nserver 2 b:1 y\n",
    ] {
        assert!(read(&content(text)).is_err(), "{text}");
    }
}

/// Flags about the first start, given at a later one: etcd ignores them.
#[test]
fn a_directory_that_has_begun_decides_and_flags_of_the_first_start_are_warnings() {
    let given = |flags: &str, text: &str| -> EtcdGiven {
        let line = format!("etcd --data-dir=/d {flags}");
        let args = parsed_in(&line, &[("/d/servers", &content(text))]);
        *args.unwrap_or_else(|exit| panic!("{line}: {exit:?}")).etcd.unwrap()
    };
    let warned = |given: &EtcdGiven| -> Vec<String> {
        given.warnings.iter().map(|warning| warning.key.clone()).collect()
    };
    for flags in [
        "",
        "--name=other --initial-cluster=other=http://o:1",
        "--initial-cluster=a=http://a:1,b=http://b:1 --name=c",
        "--initial-cluster=nonsense --initial-cluster-state=existing --initial-cluster-token=t",
        "--discovery=http://d --discovery-srv=s",
    ] {
        let of_three = given(flags, THREE);
        let cluster = of_three.cluster.as_ref().unwrap();
        let numbers: Vec<u32> = cluster.servers.iter().map(|server| server.number).collect();
        assert_eq!((cluster.own, numbers), (3, vec![1, 3, 7]), "{flags}");
        let expected = flags
            .split(' ')
            .filter(|flag| flag.starts_with("--initial") || flag.starts_with("--disc"));
        let mut expected: Vec<&str> =
            expected.map(|flag| flag.split('=').next().unwrap()).collect();
        expected.sort_unstable();
        assert_eq!(warned(&of_three), expected, "{flags}");
        let alone = given(flags, "quorate servers 1\nown 0\n");
        assert_eq!(alone.cluster, None, "{flags}");
    }
    // Flags that agree with the list cause no warning.
    let two = "quorate servers 1\nown 2\nserver 1 http://a:1 a\nserver 2 http://b:1 b\n";
    let same = "--name=b --initial-cluster=b=http://b:1,a=http://a:1 --initial-cluster-token=t";
    assert_eq!(warned(&given(same, two)), Vec::<String>::new());
}

/// etcd's clients may add a member at a URL of another scheme, or at a Unix socket.
#[test]
fn the_url_of_another_member_does_not_keep_a_server_from_starting() {
    let list = |own: u32| {
        format!(
            "quorate servers 1\nown {own}\nserver 1 http://a:1 a\nserver 2 https://b:1 \n\
             server 3 unix://foo:12345 \n"
        )
    };
    let started = |own| parsed_in("etcd --data-dir=/d", &[("/d/servers", &content(&list(own)))]);
    let cluster = started(1).unwrap().etcd.unwrap().cluster.unwrap();
    let numbers: Vec<u32> = cluster.servers.iter().map(|server| server.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(started(2).is_err(), "it needs a certificate");
    assert!(started(3).is_err(), "nobody could reach it");
}
