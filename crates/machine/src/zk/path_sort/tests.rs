use super::*;
use crate::machine::tests::rig::Random;
use crate::zk::tree::{NewZnode, ROOT};

/// Names with bytes just below and above `/` in the order of bytes.
const NAMES: [&str; 9] = ["a", "a-", "a.", "a0", "b", "-", "aa", "é", LONG];
/// A name with as many bytes as a key has.
const LONG: &str = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";

/// A tree of several levels, and the ids of its znodes in the order of creation.
fn random_tree(random: &mut Random) -> (Tree, Vec<ZnodeId>) {
    let mut tree = Tree::default();
    let (mut parents, mut made) = (vec![ROOT], Vec::new());
    for number in 0..1 + random.below(60) {
        let parent = parents[random.below(parents.len())];
        let name =
            format!("{}{}", random.pick(&NAMES), random.pick(&["", "", &number.to_string()]));
        if tree.find_child(parent, &name).is_some() {
            continue;
        }
        let path = match parent {
            ROOT => format!("/{name}"),
            parent => format!("{}/{name}", tree.path(parent)),
        };
        let acl = tree.open_acl();
        let new = NewZnode { name: &name, data: None, acl: &acl, owner: 0, zxid: 1, time_ms: 1 };
        let created = tree.create(parent, &path, &new);
        let id = Tree::created_id(&created);
        parents.push(id);
        made.push(id);
    }
    (tree, made)
}

fn pushed(tree: &Tree, ids: &[ZnodeId]) -> PathSort {
    let mut sort = PathSort::default();
    ids.iter().for_each(|id| sort.see(&tree.path(*id)));
    let mut unbounded = Steps::new(u64::MAX);
    ids.iter().for_each(|id| sort.push(tree, *id, &tree.path(*id), &mut unbounded));
    sort
}

fn sorted_ids(sort: &PathSort) -> Vec<ZnodeId> {
    (0..).map_while(|index| sort.get(index)).collect()
}

#[test]
fn znodes_are_sorted_by_their_paths_as_texts_in_steps_of_any_size() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let (tree, mut ids) = random_tree(&mut random);
        for from in (1..ids.len()).rev() {
            ids.swap(from, random.below(from + 1));
        }
        let mut expected: Vec<String> = ids.iter().map(|id| tree.path(*id)).collect();
        expected.sort_unstable();
        for znodes_max in [1, 2, 7, u64::MAX] {
            let mut sort = pushed(&tree, &ids);
            loop {
                let mut steps = Steps::new(znodes_max);
                let is_sorted = sort.sort(&tree, &mut steps);
                assert!(steps.looked_at() <= znodes_max);
                if is_sorted {
                    break;
                }
            }
            let sorted: Vec<String> = sorted_ids(&sort).iter().map(|id| tree.path(*id)).collect();
            assert_eq!(sorted, expected, "seed {seed}");
        }
    }
}

#[test]
fn znodes_in_the_order_of_their_names_are_one_run() {
    let mut random = Random(1);
    let (tree, mut ids) = random_tree(&mut random);
    ids.sort_by_key(|id| tree.path(*id));
    let mut sort = pushed(&tree, &ids);
    let mut steps = Steps::new(1);
    assert!(sort.sort(&tree, &mut steps));
    assert_eq!((sorted_ids(&sort), steps.looked_at()), (ids, 0));
}
