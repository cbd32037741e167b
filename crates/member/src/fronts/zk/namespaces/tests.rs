use super::*;

fn set(path: &str, bytes: usize) -> Request<'_> {
    const DATA: &[u8] = &[0; 100];
    Request::Write(WriteRequest::SetData { path, data: Some(&DATA[..bytes]), version: -1 })
}

fn write(namespaces: &mut Namespaces, path: &str, bytes: usize) {
    let written = namespaces.written(&set(path, bytes));
    namespaces.on_written(&written, &Ok(Ok(ZkOutcome::Deleted)));
}

fn sizes(count: u64, sum: u64, min: u64, max: u64) -> Sizes {
    Sizes { count, sum, min, max }
}

#[test]
fn bytes_are_counted_below_the_first_element_of_a_path() {
    let mut namespaces = Namespaces::default();
    write(&mut namespaces, "/a/b", 10);
    write(&mut namespaces, "/a", 0);
    write(&mut namespaces, "/b/c", 1);
    // The root is in no namespace.
    write(&mut namespaces, "/", 5);
    let expected = [("a", sizes(2, 16, 2, 14)), ("b", sizes(1, 5, 5, 5))];
    assert_eq!(namespaces.written_bytes(), BTreeMap::from(expected));
    assert!(namespaces.read().is_empty());

    namespaces.on_read(ReadKind::GetData, "/a/b", 16 + 72 + 7);
    namespaces.on_read(ReadKind::Exists, "/c", 16 + 68);
    namespaces.on_read(ReadKind::GetChildren, "/a", 16 + 4 + 5);
    // A failed read is not counted.
    namespaces.on_read(ReadKind::GetData, "/d", 16);
    // An ACL is not counted.
    namespaces.on_read(ReadKind::GetAcl, "/e", 16 + 4 + 68);
    // As ZooKeeper counts these reads: path, data or names, and a Stat.
    let (data, names) = (4 + 7 + 68, 2 + 5 + 68);
    let expected = [("a", sizes(2, data + names, names, data)), ("c", sizes(1, 70, 70, 70))];
    assert_eq!(namespaces.read(), BTreeMap::from(expected));
}

#[test]
fn what_failed_is_not_counted_and_takes_no_place() {
    let mut namespaces = Namespaces::default();
    let written = namespaces.written(&set("/a", 1));
    namespaces.on_written(&written, &Ok(Err(machine::Refusal::NoNode)));
    namespaces.on_written(&written, &Err(crate::message::Unavailable::DiskFull));
    assert!(namespaces.written_bytes().is_empty() && namespaces.places.is_empty());
}

#[test]
fn a_full_table_counts_the_others_together() {
    let mut namespaces = Namespaces::default();
    let long = format!("/{}", "x".repeat(NAMESPACE_BYTES_MAX + 1));
    write(&mut namespaces, &long, 0);
    write(&mut namespaces, &format!("/{OTHERS}"), 0);
    for number in 0..=NAMESPACES_MAX {
        write(&mut namespaces, &format!("/{number}"), 0);
    }
    // A name that has a place keeps it.
    write(&mut namespaces, "/0", 0);
    let counted = namespaces.written_bytes();
    assert_eq!(counted.len(), NAMESPACES_MAX + 1);
    assert_eq!((counted[OTHERS].count, counted["0"].count), (3, 2));

    // Another Front has as many other names.
    let mut other = Namespaces::default();
    for number in 0..NAMESPACES_MAX {
        write(&mut other, &format!("/other-{number}"), 0);
    }
    namespaces.merge(&other);
    assert_eq!(namespaces.written_bytes()[OTHERS].count, 3 + NAMESPACES_MAX as u64);
}

#[test]
fn a_reset_forgets_what_was_counted_and_not_where() {
    let mut namespaces = Namespaces::default();
    write(&mut namespaces, "/a", 0);
    write(&mut namespaces, "/b", 0);
    let under_way = namespaces.written(&set("/b", 3));
    let mut namespaces = namespaces.emptied();
    assert!(namespaces.written_bytes().is_empty());
    namespaces.on_written(&under_way, &Ok(Ok(ZkOutcome::Deleted)));
    assert_eq!(namespaces.written_bytes(), BTreeMap::from([("b", sizes(1, 5, 5, 5))]));
}
