use super::*;

#[test]
fn the_innermost_mount_counts() {
    let mounts = "22 27 0:21 / /proc rw - proc proc rw\n\
                  27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                  30 27 7:0 / /mnt/my\\040disk rw - xfs /dev/loop0 rw\n\
                  31 27 7:1 / /mnt/my\\040disk rw - ext4 /dev/loop1 rw\n";
    let check = |path: &str, expected| assert_eq!(mount_of(mounts, Path::new(path)), expected);
    check("/tmp/x", Some(("ext4", "254:0")));
    check("/mnt/my disk/x", Some(("ext4", "7:1")));
    check("/mnt/my diskette", Some(("ext4", "254:0")));
    assert_eq!(mount_of("", Path::new("/")), None);
}

#[test]
fn only_a_journaled_ext4_needs_no_advice() {
    let of = |kind: &str, has_journal| FileSystem { kind: kind.to_string(), has_journal };
    assert_eq!(of("ext4", Some(true)).advice(), None);
    assert_eq!(of("ext4", Some(true)).to_string(), "ext4 with a journal");
    assert_eq!(of("tmpfs", None).to_string(), "tmpfs");
    for other in [of("ext4", Some(false)), of("ext4", None), of("tmpfs", None)] {
        assert!(other.advice().is_some_and(|advice| advice.contains("journal")));
    }
}
