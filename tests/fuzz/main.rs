//! The checks of the fuzz targets for every run of the tests: the seeds of each target, and mutations of them from
//! a seeded generator. `fuzz/` and scripts/fuzz search for further inputs.
//!
//! `MPD_FUZZ_MUTATIONS=N` makes N mutations of each target instead, `MPD_FUZZ_TARGET=NAME` those of one target only.

#[path = "../../fuzz/bodies.rs"]
mod bodies;

use std::panic::AssertUnwindSafe;
use std::path::Path;

use mpd_tests::random::Random;

use crate::bodies::TARGETS;

const MUTATIONS: usize = 3000;
/// Maximum length of an input.
const MAX_INPUT: usize = 4096;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus-seeds").join(target);
    let entries = std::fs::read_dir(&directory).expect("a directory of seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect()
}

/// A few changes of the kinds that libFuzzer makes.
fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.size(16) {
        let at = random.below(data.len() + 1);
        let byte = u8::try_from(random.below(256)).expect("a byte");
        match random.below(6) {
            0 => data.insert(at, byte),
            1 => data.truncate(at),
            2 if at < data.len() => drop(data.remove(at)),
            3 if at < data.len() => data[at] ^= 1 << (byte & 7),
            4 if at < data.len() => data[at] = byte,
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                data.splice(at..at, other[from..].iter().copied().take(usize::from(byte)));
            }
        }
    }
    data.truncate(MAX_INPUT);
    data
}

/// Runs one input; a failing input is saved first.
fn run(target: &str, body: bodies::Body, data: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| body(data))) {
        let path = std::env::temp_dir().join(format!("mpd-fuzz-{target}-{}", std::process::id()));
        std::fs::write(&path, data).expect("write the input");
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{target} fails with the {} bytes in {}: {text}", data.len(), path.display());
    }
}

#[test]
fn every_fuzz_target_accepts_its_seeds_and_their_mutations() {
    let wanted = std::env::var("MPD_FUZZ_MUTATIONS").ok();
    let mutations = wanted.map_or(MUTATIONS, |text| text.parse().expect("a number"));
    let only = std::env::var("MPD_FUZZ_TARGET").ok();
    let is_meant = |name: &str| only.as_ref().is_none_or(|only| only == name);
    assert!(TARGETS.iter().any(|(target, _)| is_meant(target)), "no target {only:?}");
    for (target, body) in TARGETS.into_iter().filter(|(target, _)| is_meant(target)) {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        for seed in &seeds {
            run(target, body, seed);
        }
        let mut random = Random::new(1);
        for _ in 0..mutations {
            run(target, body, &mutate(&mut random, &seeds));
        }
    }
}
