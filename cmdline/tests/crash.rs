//! A crash at any point is finished or undone by the next run.

mod common;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
};

use common::{Sandbox, differences};
use slot_cmdline::{apply::Point, exit::Exit};

/// The panic that stands for the machine going down.
struct Down;

/// Runs a verb that goes down at its `nth` point; whether it got there.
fn run_until(
    sandbox: &Sandbox,
    arguments: &[&str],
    nth: usize,
    seen: &RefCell<BTreeSet<Point>>,
) -> bool {
    let passed = Cell::new(0);
    let faults = |point, _: &std::path::Path| {
        seen.borrow_mut().insert(point);
        if passed.replace(passed.get() + 1) == nth {
            panic_any(Down);
        }
    };
    let distro = sandbox.distro();
    let result = catch_unwind(AssertUnwindSafe(|| sandbox.run_with(arguments, &distro, &faults)));
    match result {
        Ok(ran) => {
            assert_eq!(ran.exit, Exit::Done, "{arguments:?}: {ran:?}");
            false
        }
        Err(cause) => {
            assert!(cause.is::<Down>(), "{arguments:?} panicked by itself");
            true
        }
    }
}

fn quiet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<Down>() {
            usual(info);
        }
    }));
}

#[test]
fn a_crash_anywhere_is_finished_or_undone_by_the_next_run() {
    quiet();
    let seen = RefCell::default();
    for name in ["debian-12-custom", "debian-12-systemd-boot", "arch-uki", "fedora-40"] {
        for first in [&["install", "--replace-blacklist"] as &[&str], &["trial"]] {
            if name == "arch-uki" && first == ["trial"] {
                continue;
            }
            for nth in 0.. {
                let sandbox = Sandbox::new(name);
                let before = sandbox.tree();
                if !run_until(&sandbox, first, nth, &seen) {
                    assert!(nth > 10, "{name}: only {nth} points");
                    break;
                }
                // Either way out works: going on ...
                let again = sandbox.run(first);
                assert_eq!(again.exit, Exit::Done, "{name} {first:?} {nth}: {again:?}");
                if first[0] == "install" {
                    let settled = sandbox.run(first);
                    assert!(
                        settled.text.contains("nothing was changed"),
                        "{name} {nth}: {settled:?}"
                    );
                }
                // ... and back.
                let removed = sandbox.run(&["remove"]);
                assert_eq!(removed.exit, Exit::Done, "{name} {first:?} {nth}: {removed:?}");
                assert_eq!(
                    differences(&before, &sandbox.tree()),
                    [""; 0],
                    "{name} {first:?} {nth}"
                );
            }
        }
    }
    for nth in 0.. {
        let sandbox = Sandbox::new("debian-12-custom");
        let before = sandbox.tree();
        assert_eq!(sandbox.run(&["install", "--replace-blacklist"]).exit, Exit::Done);
        let crashed = run_until(&sandbox, &["remove"], nth, &seen);
        let removed = sandbox.run(&["remove"]);
        assert_eq!(removed.exit, Exit::Done, "remove {nth}: {removed:?}");
        assert_eq!(differences(&before, &sandbox.tree()), [""; 0], "remove {nth}");
        if !crashed {
            break;
        }
    }
    let missed: Vec<_> = Point::ALL.iter().filter(|point| !seen.borrow().contains(point)).collect();
    assert!(missed.is_empty(), "no test goes down at {missed:?}");
}

#[test]
fn a_merge_that_was_interrupted_is_not_taken_for_an_edit() {
    quiet();
    let seen = RefCell::default();
    for nth in 0.. {
        let sandbox = Sandbox::new("arch-grub");
        assert_eq!(sandbox.run(&["install"]).exit, Exit::Done);
        let edited = sandbox.text("etc/default/grub").replace("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=9");
        sandbox.write("etc/default/grub", &edited);
        let crashed = run_until(&sandbox, &["remove", "--merge"], nth, &seen);
        let removed = sandbox.run(&["remove", "--merge"]);
        assert_eq!(removed.exit, Exit::Done, "{nth}: {removed:?}");
        let text = sandbox.text("etc/default/grub");
        assert!(text.contains("GRUB_TIMEOUT=9") && !text.contains("slot-cmdline"), "{nth}: {text}");
        if !crashed {
            break;
        }
    }
}
