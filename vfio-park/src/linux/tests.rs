//! Handover on a tree whose `bind` and `unbind` are pipes, with a thread behind them that does what
//! the kernel does.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{
    Linux, Patience,
    holders::minor,
    testing::{Tree, write},
};
use crate::{
    Bdf, DriverName, Gate, Machine, MachineError, PciId, Register, Slot, SlotId, seam::Placement,
};

/// The die that firmware put into the slot; and one without BAR1.
const OWNER: &str = "0000:20:00.0";
const OTHER: &str = "0000:03:00.0";

struct Fake {
    tree: Arc<Tree>,
    machine: Linux,
}

fn at(text: &str) -> Bdf {
    text.parse().expect("an address")
}

impl Fake {
    /// The BTC board.
    fn new() -> Self {
        let tree = Arc::new(Tree::fixture("btc"));
        let patience = Duration::from_secs(20);
        let patience =
            Patience { bind: patience, unbind: patience, hold: patience, load: patience };
        let machine = Linux::new(tree.roots.clone(), vec![PciId::GK210], vec![Slot::BTC_S37])
            .with_modprobe(PathBuf::from("/nonexistent/modprobe"))
            .with_patience(patience);
        Self { tree, machine }
    }

    fn impatient(mut self) -> Self {
        let patience = Duration::from_millis(50);
        let patience =
            Patience { bind: patience, unbind: patience, hold: patience, load: patience };
        self.machine = self.machine.with_patience(patience);
        self
    }

    /// A `modprobe` that runs `script`; `$tree` is the tree, `$*` what it was asked.
    fn modprobe(mut self, script: &str) -> Self {
        let path = self.tree.roots.dev.join("modprobe");
        let tree = self.tree.roots.sys.parent().expect("a folder").display().to_string();
        write(&path, format!("#!/bin/sh\ntree={tree}\n{script}\n").as_bytes());
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a program");
        self.machine = self.machine.with_modprobe(path);
        self
    }

    /// A registered driver that takes and gives up what it is told to.
    fn driver(self, name: &str) -> Self {
        let target = PathBuf::from("../../anywhere").join(name);
        self.pipe(name, "bind", move |link| symlink(&target, link).expect("bound"));
        self.pipe(name, "unbind", |link| fs::remove_file(link).expect("unbound"));
        self
    }

    fn pipe(&self, driver: &str, verb: &str, act: impl Fn(PathBuf) + Send + 'static) {
        let path = self.make_pipe(driver, verb);
        let tree = Arc::clone(&self.tree);
        thread::spawn(move || {
            while let Ok(die) = fs::read_to_string(&path) {
                act(tree.attribute(&die, "driver"));
            }
        });
    }

    fn make_pipe(&self, driver: &str, verb: &str) -> PathBuf {
        let folder = self.tree.roots.sys.join("bus/pci/drivers").join(driver);
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(verb);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        path
    }

    fn free(self, die: &str) -> Self {
        fs::remove_file(self.tree.attribute(die, "driver")).expect("it had one");
        self
    }

    fn overridden(&self, die: &str) -> String {
        fs::read_to_string(self.tree.attribute(die, "driver_override")).expect("an attribute")
    }

    fn bind(&self, die: &str, driver: &str) -> Result<(), MachineError> {
        self.machine.bind(at(die), &DriverName::new(driver).expect("a name"))
    }
}

#[test]
fn a_die_goes_from_its_parker_to_nvidia_and_back() {
    let fake = Fake::new().driver("pci-stub").driver("nvidia");
    fake.machine.unbind(at(OWNER)).expect("unbound");
    fake.machine.unbind(at(OWNER)).expect("nothing to do");
    fake.bind(OWNER, "nvidia").expect("bound");
    fake.bind(OWNER, "nvidia").expect("nothing to do");
    // A 0-byte write would not clear it.
    assert_eq!(fake.overridden(OWNER), "\n");
    let survey = fake.machine.survey().expect("a survey");
    assert_eq!(survey.functions[&at(OWNER)].driver, Some(DriverName::nvidia()));
    let information = format!("driver/nvidia/gpus/{OWNER}/information");
    write(&fake.tree.roots.proc.join(information), b"Model: \t\t Tesla K80\nDevice Minor: \t 3\n");
    fake.machine.unbind(at(OWNER)).expect("unbound");
    write(&fake.tree.attribute(OWNER, "driver_override"), b"pci-stub\n");
    fake.bind(OWNER, "pci-stub").expect("parked");
    assert_eq!(fake.overridden(OWNER), "pci-stub\n");
}

#[test]
fn a_refused_bind_leaves_the_override_as_it_was() {
    for (before, after) in [("(null)\n", "\n"), ("pci-stub\n", "pci-stub")] {
        let fake = Fake::new().free(OTHER);
        let folder = fake.tree.roots.sys.join("bus/pci/drivers/other");
        fs::create_dir_all(&folder).expect("a folder");
        symlink("/dev/full", folder.join("bind")).expect("a link");
        write(&fake.tree.attribute(OTHER, "driver_override"), before.as_bytes());
        let refused = fake.bind(OTHER, "other");
        assert!(matches!(refused, Err(MachineError::NotTaken { .. })), "{refused:?}");
        assert_eq!(fake.overridden(OTHER), after);
    }
}

#[test]
fn a_driver_that_is_not_there_is_loaded_with_the_override_set() {
    let script = format!(
        "mkdir -p $tree/sys/bus/pci/drivers/$1\n\
         cp $tree/sys/bus/pci/devices/{OWNER}/driver_override $tree/dev/at-load\n\
         ln -s ../../anywhere/$1 $tree/sys/bus/pci/devices/{OWNER}/driver"
    );
    let fake = Fake::new().free(OWNER).modprobe(&script);
    fake.bind(OWNER, "nvidia").expect("bound by loading");
    let at_load = fs::read_to_string(fake.tree.roots.dev.join("at-load")).expect("a record");
    assert_eq!((at_load.as_str(), fake.overridden(OWNER).as_str()), ("nvidia", "\n"));
}

#[test]
fn a_module_that_finds_no_device_is_explained() {
    let fake = Fake::new()
        .free(OWNER)
        .modprobe("echo \"ERROR: could not insert '$1': No such device\" >&2; exit 1");
    match fake.bind(OWNER, "nvidia") {
        Err(MachineError::NotTaken { reason, .. }) => {
            assert!(reason.contains("found no device that it could drive"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fake.overridden(OWNER), "\n");
}

#[test]
fn nvidia_gets_no_die_whose_bar1_is_not_in_a_slot() {
    let fake = Fake::new().free(OTHER).free(OWNER).driver("nvidia");
    let config = fake.tree.attribute(OWNER, "config");
    let whole = fs::read(&config).expect("config space");
    let refused = |die: &str, words: &str| match fake.bind(die, "nvidia") {
        Err(MachineError::Refused { reason, .. }) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{words}: {other:?}"),
    };
    refused(OTHER, "BAR1 is unassigned");
    let mut moved = whole.clone();
    moved[0x18] = 0x8;
    write(&config, &moved);
    refused(OWNER, "register says 0x800000000,");
    write(&config, &[0xff; 64]);
    assert!(matches!(fake.bind(OWNER, "nvidia"), Err(MachineError::Absent(_))));
    write(&config, &whole);
    let resource = fake.tree.attribute(OWNER, "resource");
    let text = fs::read_to_string(&resource).expect("resources");
    write(
        &resource,
        text.replace(
            "0x0000000c00000000 0x0000000fffffffff",
            "0x0000000800000000 0x0000000bffffffff",
        )
        .as_bytes(),
    );
    refused(OWNER, "which is no slot");
    assert_eq!(fake.overridden(OWNER), "(null)\n");
}

#[test]
fn a_die_that_is_used_is_not_unbound() {
    let fake = Fake::new().free(OWNER).driver("nvidia");
    let roots = &fake.tree.roots;
    symlink("../../anywhere/nvidia", fake.tree.attribute(OWNER, "driver")).expect("a link");
    write(
        &roots.proc.join(format!("driver/nvidia/gpus/{OWNER}/information")),
        b"Device Minor: \t 3\n",
    );
    for (pid, command, node) in [(71, "python3", "nvidia3"), (8, "other", "nvidia33")] {
        write(&roots.proc.join(format!("{pid}/comm")), format!("{command}\n").as_bytes());
        let descriptors = roots.proc.join(format!("{pid}/fd"));
        fs::create_dir_all(&descriptors).expect("a folder");
        symlink(roots.dev.join(node), descriptors.join("4")).expect("a link");
    }
    match fake.machine.unbind(at(OWNER)) {
        Err(MachineError::InUse { holders, .. }) => assert_eq!(holders, ["python3 (pid 71)"]),
        other => panic!("{other:?}"),
    }
    fs::remove_dir_all(roots.proc.join("71")).expect("it ended");
    fake.machine.unbind(at(OWNER)).expect("unbound");
}

#[test]
fn a_group_that_is_open_is_not_unbound() {
    let tree = Tree::fixture("iommu");
    let roots = tree.roots.clone();
    let machine = Linux::new(roots.clone(), vec![PciId::GK210], vec![Slot::BTC_S37]);
    write(&roots.proc.join("9/comm"), b"qemu\n");
    fs::create_dir_all(roots.proc.join("9/fd")).expect("a folder");
    symlink(roots.dev.join("vfio/13"), roots.proc.join("9/fd/7")).expect("a link");
    match machine.unbind(at(OTHER)) {
        Err(MachineError::InUse { holders, .. }) => assert_eq!(holders, ["qemu (pid 9)"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_that_never_ends_hits_its_deadline_and_the_die_is_left_alone() {
    let fake = Fake::new().free(OTHER).impatient();
    // Nobody reads from it, as nobody returns from a probe that hangs.
    fake.make_pipe("stuck", "bind");
    let stuck = fake.bind(OTHER, "stuck");
    assert!(matches!(stuck, Err(MachineError::Deadline { operation: "bind", .. })), "{stuck:?}");
    assert_eq!(fake.overridden(OTHER), "stuck", "writing it would have hung as well");
    let again = fake.bind(OTHER, "stuck");
    assert!(matches!(again, Err(MachineError::Refused { .. })), "{again:?}");
    let survey = fake.machine.survey().expect("queries are answered");
    assert_eq!(survey.functions[&at(OTHER)].driver_override, None, "reading it would hang");
    assert_eq!(survey.dies.len(), 16);
}

#[test]
fn a_link_that_never_shows_up_hits_the_deadline_too() {
    let fake = Fake::new().free(OTHER).impatient();
    fake.pipe("late", "bind", |_| ());
    let late = fake.bind(OTHER, "late");
    assert!(matches!(late, Err(MachineError::Deadline { .. })), "{late:?}");
}

#[test]
fn the_window_module_is_loaded_by_the_first_change_and_by_nothing_else() {
    let fake = Fake::new().modprobe(
        "echo \"$*\" >>$tree/dev/asked; echo 'FATAL: Module slotwin not found' >&2; exit 1",
    );
    let asked = fake.tree.roots.dev.join("asked");
    let none = |result: Result<(), MachineError>| {
        assert!(matches!(result, Err(MachineError::NoWindowModule)), "{result:?}");
    };
    none(fake.machine.peek(at(OTHER), Register::Boot0).map(drop));
    none(fake.machine.map(at(OTHER)).map(drop));
    fake.machine.survey().expect("a survey");
    assert!(!asked.exists());
    let placement = Placement { slot: SlotId(0), gate: Gate::Window };
    none(fake.machine.place(at(OTHER), placement).map(drop));
    let line = "slotwin slots=0xc00000000+0x400000000 ids=10de:102d\n";
    assert_eq!(fs::read_to_string(asked).expect("asked"), line);
}

#[test]
fn what_is_no_die_is_refused() {
    let fake = Fake::new();
    let slot = SlotId(0);
    for bdf in ["0000:21:00.0", "0000:00:02.0", "0000:77:00.0"] {
        let bdf = at(bdf);
        let results = [
            fake.machine.bind(bdf, &DriverName::nvidia()),
            fake.machine.unbind(bdf),
            fake.machine.open(slot, bdf).map(drop),
            fake.machine.hold(bdf).map(drop),
            fake.machine.peek(bdf, Register::Boot0).map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(MachineError::UnknownDie(at)) if at == bdf), "{result:?}");
        }
    }
    let parked = fake.machine.hold(at(OTHER)).map(drop);
    assert!(matches!(parked, Err(MachineError::Refused { .. })), "{parked:?}");
}

#[test]
fn the_minor_is_found_or_not() {
    assert_eq!(minor("Model: \t\t Tesla K80\nDevice Minor: \t 12\n"), Some(12));
    for text in ["", "Device Minor:", "Device Minor: -1", "device minor: 3"] {
        assert_eq!(minor(text), None, "{text:?}");
    }
}
