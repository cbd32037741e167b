//! Checks the dependencies between our crates ("arrows"). They are listed in three places:
//! ARCHITECTURE.md, the manifests and `WALLS`. This test fails unless the three agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{WALLS, assert_none, crates, dependencies, root};

/// A crate or a room, and another one that it depends on.
pub type Arrow = (String, String);

/// The arrows in a list of ARCHITECTURE.md: in code block `number`, counted from 0, of the section
/// "The walls". The word `all` in the list means every other one of `names`.
pub fn listed_arrows(document: &str, number: usize, names: &BTreeSet<String>) -> BTreeSet<Arrow> {
    let (_, section) = document.split_once("\n## The walls\n").expect("the walls have a section");
    let block = section.split("```").nth(2 * number + 1).expect("the section has the block");
    let mut owners = BTreeMap::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(none) = line.strip_suffix("on none of ours") {
            for owner in none.split(',') {
                owners.insert(owner.trim().to_string(), BTreeSet::new());
            }
            continue;
        }
        let (owner, ours) = line.split_once("->").expect("a line of the list has an arrow");
        let ours = match ours.trim() {
            "all" => names.iter().filter(|name| *name != owner.trim()).cloned().collect(),
            ours => ours.split_whitespace().map(str::to_string).collect(),
        };
        owners.insert(owner.trim().to_string(), ours);
    }
    let listed: BTreeSet<String> = owners.keys().cloned().collect();
    assert_eq!(&listed, names, "ARCHITECTURE.md lists those on the left, there are the right");
    let arrows = |(owner, ours): (String, BTreeSet<String>)| {
        ours.into_iter().map(move |ours| (owner.clone(), ours))
    };
    owners.into_iter().flat_map(arrows).collect()
}

#[test]
fn arrows_are_the_same_in_architecture_manifests_and_walls() {
    let crates = crates();
    let names: BTreeSet<String> = crates.keys().cloned().collect();
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is text");
    let listed = listed_arrows(&document, 0, &names);
    let in_manifests = |sections: &[&str]| -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (name, (_, manifest)) in &crates {
            for section in sections {
                let ours = dependencies(manifest, section).into_iter();
                arrows
                    .extend(ours.filter(|ours| names.contains(ours)).map(|to| (name.clone(), to)));
            }
        }
        arrows
    };
    let normal = in_manifests(&["dependencies"]);
    // `quorate -> all` includes crates that only the tests of quorate need.
    let any = in_manifests(&["dependencies", "dev-dependencies"]);
    // WALLS already lists planned crates.
    let walls: BTreeSet<Arrow> = WALLS
        .iter()
        .flat_map(|wall| wall.ours.iter().map(|ours| (wall.name.to_string(), ours.to_string())))
        .filter(|(from, to)| names.contains(from) && names.contains(to))
        .collect();

    let mut complaints = Vec::new();
    let mut missing =
        |arrows: &BTreeSet<Arrow>, place: &str, others: &BTreeSet<Arrow>, at: &str| {
            for (from, to) in arrows.difference(others) {
                complaints.push(format!("{from} -> {to} is in {place}, but missing in {at}"));
            }
        };
    let manifests = "the manifests";
    missing(&normal, manifests, &listed, "ARCHITECTURE.md");
    missing(&listed, "ARCHITECTURE.md", &any, manifests);
    missing(&listed, "ARCHITECTURE.md", &walls, "WALLS");
    missing(&walls, "WALLS", &listed, "ARCHITECTURE.md");
    assert_none(complaints);
}
