//! Runs the bodies of the fuzz targets without a fuzzer: on valid encodings, each cut off at many
//! places and changed at a few. The fuzzers themselves search longer; see `fuzz/`.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/bodies/mod.rs"]
mod bodies;

use bodies::BODIES;
use workload::changed_input::change;
use workload::generate::Random;

/// How many changed inputs each body gets.
const CHANGED_COUNT: usize = 20_000;
/// At how many places a seed is cut off at most.
const CUTS_MAX: usize = 300;

#[test]
fn bodies_survive_seeds_cut_off_and_changed() {
    for body in BODIES {
        let seeds = (body.seeds)();
        assert!(!seeds.is_empty(), "{} has no seed", body.name);
        bodies::run(body.name, &[]);
        for seed in &seeds {
            bodies::run(body.name, seed);
            for cut in (0..seed.len()).step_by(seed.len().div_ceil(CUTS_MAX).max(1)) {
                bodies::run(body.name, &seed[..cut]);
            }
        }
        let mut random = Random::new(1);
        for _ in 0..CHANGED_COUNT {
            let mut bytes = random.pick(&seeds).clone();
            let other = random.pick(&seeds);
            change(&mut random, &mut bytes, other, &[]);
            bodies::run(body.name, &bytes);
        }
    }
}

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn every_body_has_a_target_and_every_target_a_body() {
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    let targets = manifest.get("bin").and_then(|bins| bins.as_array()).expect("it has targets");
    let mut targets: Vec<&str> =
        targets.iter().filter_map(|bin| bin.get("name")?.as_str()).collect();
    targets.sort_unstable();
    let mut names: Vec<&str> = BODIES.iter().map(|body| body.name).collect();
    names.sort_unstable();
    assert_eq!(targets, names);
    for name in names {
        let path = fuzz_folder().join(format!("fuzz_targets/{name}.rs"));
        let target = fs::read_to_string(path).expect("a target has a file");
        assert!(target.contains(&format!("bodies::run(\"{name}\", bytes)")), "{name}");
    }
}
