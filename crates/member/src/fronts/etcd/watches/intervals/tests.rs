use super::*;

/// A small random generator: the tree's own splitmix64.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut source = Intervals::new(seed);
    move |bound| source.next_priority() % bound
}

fn key(number: u64) -> Box<[u8]> {
    format!("{number:02}").into_bytes().into()
}

#[test]
fn a_key_finds_the_ranges_that_contain_it_whatever_was_added_and_removed() {
    for seed in 0..200 {
        let mut below = numbers(seed);
        let (mut tree, mut plain) = (Intervals::new(seed), Vec::<(Box<[u8]>, End, u32)>::new());
        for value in 0..120 {
            let start = key(below(30));
            let end = if below(8) == 0 { End::Never } else { End::At(key(1 + below(30))) };
            let is_there = |entry: &(Box<[u8]>, End, u32)| entry.0 == start && entry.1 == end;
            let at = plain.iter().position(is_there);
            assert_eq!(tree.get(&start, &end), at.map(|at| plain[at].2));
            match at {
                Some(at) => {
                    tree.remove(&start, &end);
                    plain.swap_remove(at);
                }
                None => {
                    tree.insert(&start, end.clone(), value);
                    plain.push((start, end, value));
                }
            }
            assert_eq!(tree.len(), plain.len());
            let key = key(below(31));
            let mut found = Vec::new();
            tree.find(&key, &mut |value| found.push(value));
            let contains = |(start, end, _): &&(Box<[u8]>, End, u32)| {
                start[..] <= key[..] && end.is_behind(&key)
            };
            let mut expected: Vec<u32> =
                plain.iter().filter(contains).map(|entry| entry.2).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

fn depth(tree: &Intervals, at: Option<u32>) -> usize {
    at.map_or(0, |number| {
        let node = tree.node(number);
        1 + depth(tree, node.left).max(depth(tree, node.right))
    })
}

#[test]
fn ranges_that_come_in_order_do_not_make_a_list() {
    let mut tree = Intervals::new(0);
    for number in 0..20_000_u32 {
        tree.insert(&number.to_be_bytes(), End::Never, number);
    }
    let depth = depth(&tree, tree.root);
    assert!(depth < 60, "{depth}");
}

#[test]
fn ranges_chosen_for_the_priorities_of_another_seed_do_not_make_a_list() {
    // The tree is a heap by priority: ranges whose keys are in the order of their priorities make a
    // list.
    let mut guessed = Intervals::new(0);
    let keys: Vec<_> = (0..2_000).map(|_| guessed.next_priority().to_be_bytes()).collect();
    let depth_for = |seed| {
        let mut tree = Intervals::new(seed);
        keys.iter().for_each(|key| tree.insert(key, End::Never, 0));
        depth(&tree, tree.root)
    };
    assert_eq!(depth_for(0), keys.len());
    let depth = depth_for(1);
    assert!(depth < 60, "{depth}");
}
