//! The bodies of the fuzz targets on a seeded corpus: good encodings, each cut off at many places
//! and changed in a few. The fuzzers themselves search longer; see `fuzz/`.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/bodies/mod.rs"]
mod bodies;

use bodies::BODIES;

/// Changed inputs for each body.
const CHANGED_COUNT: usize = 20_000;
/// The most places at which a seed is cut off.
const CUTS_MAX: usize = 300;

/// A small generator (splitmix64): equal seeds give equal numbers.
struct Chance(u64);

impl Chance {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }
}

/// Makes one to four changes: a byte, a number, or a piece that is deleted, doubled or copied from
/// `other`.
fn change(chance: &mut Chance, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        let end = bytes.len().min(at + 1 + chance.below(8));
        match chance.below(6) {
            0 if at < bytes.len() => bytes[at] = chance.bits() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            2 => {
                let value = [0, 1, 0x7f, 0x80, 0xff][chance.below(5)];
                bytes[at..end].fill(value);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            _ => {
                let from = chance.below(other.len() + 1);
                let to = other.len().min(from + chance.below(40));
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
}

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
        let mut chance = Chance(1);
        for _ in 0..CHANGED_COUNT {
            let mut bytes = seeds[chance.below(seeds.len())].clone();
            let other = &seeds[chance.below(seeds.len())];
            change(&mut chance, &mut bytes, other);
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
