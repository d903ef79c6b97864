//! What a right die passes, what a wrong one fails, and what is touched for it.

mod support;

use std::fs;

use support::{Bench, assert_taken_down};

#[test]
fn a_right_die_passes_everything() {
    let bench = Bench::new();
    let dies = ["--no-slotd", "--pci", "03:00.0", "--pci", "04:00.0"];
    let ended =
        bench.run(&[&["all", "--json", "--size", "8M", "--seconds", "0.2"], &dies[..]].concat());
    assert_eq!(ended.code(), Some(0), "{}{}", ended.out(), ended.err());
    let report = ended.json();
    assert_eq!(report["right"], true);
    for (line, bdf) in
        report["dies"].as_array().expect("lines").iter().zip(["0000:03:00.0", "0000:04:00.0"])
    {
        assert_eq!(line["place"]["bdf"], bdf);
        assert_eq!(line["parity"]["elements"], 2 << 18);
        assert_eq!(line["persist"]["elements"], 1_048_576);
        assert_eq!(line["persist"]["wrong"], 0);
        assert_eq!(line["memtest"]["bytes"], 8 << 20);
        assert_eq!(line["memtest"]["wrong_words"], 0);
    }
    for die in [0, 1] {
        assert_taken_down(&bench.course(die));
    }
}

#[test]
fn the_worst_die_decides() {
    let bench = Bench::faulty("stuck=0x100:0x10").with("STANDIN_FAULTY", "1");
    let dies = ["--pci", "7e:00.0", "--pci", "04:00.0", "--pci", "03:00.0"];
    let words = [&["all", "--no-slotd", "--size", "4M", "--seconds", "0.1"], &dies[..]].concat();
    let ended = bench.run(&words);
    ended.expect(5, "the memory is faulty");
    let table = ended.out();
    for (bdf, verdict) in [("7e:00.0", "not checked"), ("04:00.0", "WRONG"), ("03:00.0", "right")] {
        let line = table.lines().rfind(|line| line.contains(bdf) && line.contains('│'));
        assert!(line.is_some_and(|line| line.contains(verdict)), "{bdf} {verdict}\n{table}");
    }
}

#[test]
fn a_stuck_bit_is_found_at_its_address_in_any_chunk() {
    // The first word, the last, and both sides of the border between two chunks of 1 MiB.
    for offset in [0_u64, 0xf_fffc, 0x10_0000, 0x3f_fffc] {
        let fault = format!("stuck={offset:#x}:0x80000001");
        let ended = Bench::faulty(&fault).run(&[
            "memtest",
            "--json",
            "--size",
            "4M",
            "--chunk",
            "1M",
            "--no-slotd",
            "--pci",
            "03:00.0",
        ]);
        ended.expect(5, "the memory is faulty");
        let report = ended.json();
        assert_eq!(report["first_offset"], offset);
        assert_eq!(report["bit_mask"], 0x8000_0001_u32);
        for sample in report["samples"].as_array().expect("samples") {
            assert_eq!(sample["offset"], offset);
            let word = |name: &str| sample[name].as_u64().expect("a word");
            assert_eq!(word("got"), word("want") | 0x8000_0001);
        }
    }
}

#[test]
fn a_planted_flip_is_found_by_every_pattern() {
    let ended = Bench::new().run(&[
        "memtest",
        "--json",
        "--size",
        "4M",
        "--plant",
        "0x123450:0x4000",
        "--no-slotd",
        "--pci",
        "03:00.0",
    ]);
    ended.expect(5, "offset 0x00000123450");
    let report = ended.json();
    assert_eq!(report["first_offset"], 0x12_3450);
    assert_eq!(report["wrong_words"], 4);
    assert_eq!(report["wrong_bits"], 4);
    let all = ["solid", "address", "random", "moving inversions"];
    assert_eq!(report["found_by"], serde_json::json!(all));
}

#[test]
fn all_memory_that_is_free_is_tested() {
    let ended = Bench::new().run(&["memtest", "--json", "--no-slotd", "--pci", "03:00.0"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    // 160 MiB, less what the driver is left with.
    let bytes = ended.json()["bytes"].as_u64().expect("a size");
    assert!((60 << 20..=64 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn no_other_die_is_touched() {
    let bench = Bench::new();
    let ended = bench.run(&["parity", "--times", "1", "--no-slotd", "--pci", "04:00.0"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    let notes = bench.notes();
    assert!(!notes.is_empty());
    assert!(notes.iter().all(|note| note.die == 1), "{notes:?}");
}

#[test]
fn a_die_that_was_in_use_is_named_by_its_uuid() {
    let bench = Bench::new();
    let gpus = bench.root().join("proc/driver/nvidia/gpus");
    // A die that nvidia is bound to and that CUDA does not show: places are off by one.
    fs::create_dir_all(gpus.join("0000:01:00.0")).expect("a folder");
    let uuid = "GPU UUID: \t GPU-04000000-0000-0000-0000-000000000000\n";
    fs::write(gpus.join("0000:04:00.0/information"), uuid).expect("a file");
    let words = ["identify", "--seconds", "0", "--json", "--no-slotd", "--pci", "04:00.0"];
    let ended = bench.run(&words);
    assert_eq!(ended.code(), Some(0), "{}", ended.err());
    assert!(bench.notes().iter().all(|note| note.die == 1));
    // By its place it would have been another die, which is noticed before anything is done there.
    let ended = bench.run(&["identify", "--seconds", "0", "--no-slotd", "--pci", "03:00.0"]);
    ended.expect(4, "no such die");
    assert!(!bench.notes().iter().any(|note| note.die == 0 && note.what == "context"));
}
