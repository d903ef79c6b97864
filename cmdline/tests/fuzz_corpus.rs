//! Replays the fuzzers' corpus, and every fixture's files beside it.

use std::{fs, path::Path};

use proptest::prelude::*;
use slot_cmdline::fuzzing::TARGETS;

fn each_file(folder: &Path, act: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            each_file(&path, act);
        } else {
            act(&path, &fs::read(&path).expect("readable"));
        }
    }
}

#[test]
fn the_corpus_holds() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, target) in TARGETS {
        assert!(
            here.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(),
            "{name} is not fuzzed"
        );
        let mut inputs = 0;
        each_file(&here.join("fuzz/corpus").join(name), &mut |_, bytes| {
            inputs += 1;
            target(bytes);
        });
        assert!(inputs >= 3, "{name}: only {inputs} inputs");
    }
}

#[test]
fn every_parser_survives_every_fixture() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut inputs = 0;
    each_file(&fixtures, &mut |_, bytes| {
        inputs += 1;
        for (_, target) in TARGETS {
            target(bytes);
        }
    });
    assert!(inputs > 100, "only {inputs} files");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// A little fuzzing without a fuzzer: corpus inputs, damaged and joined.
    #[test]
    fn damaged_inputs_hold_too(
        target in 0..TARGETS.len(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..3),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let (name, target) = TARGETS[target];
        let mut inputs = Vec::new();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        each_file(&corpus, &mut |path, bytes| inputs.push((path.to_owned(), bytes.to_vec())));
        inputs.sort();
        let mut bytes: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&inputs).1.clone()).collect();
        for (place, byte) in damage.iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
            let at = place.index(bytes.len());
            bytes[at] = *byte;
        }
        target(&bytes);
    }
}
