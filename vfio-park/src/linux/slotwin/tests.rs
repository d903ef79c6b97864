use std::{fmt::Write as _, fs, os::fd::AsFd, path::Path, process::Command};

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn an_address_survives_packing(domain: u16, bus: u8, device in 0u8..32, function in 0u8..8) {
        let bdf = Bdf::new(domain, bus, device, function).expect("in range");
        prop_assert_eq!(unpack(pack(bdf)), Some(bdf));
    }
}

/// A C program that prints what the header says, in the words of [`ours`].
fn program() -> String {
    let mut c = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include \"slotwin.h\"\nint main(void) {\n",
    );
    for layout in uapi::layouts() {
        let (name, upper) = (&layout.name, layout.name.to_uppercase());
        writeln!(
            c,
            "printf(\"{name} %zu %u\\n\", sizeof(struct slotwin_{name}), (unsigned)SLOTWIN_{upper});"
        )
        .expect("text");
        for (field, _) in &layout.fields {
            writeln!(
                c,
                "printf(\"{name}.{field} %zu\\n\", offsetof(struct slotwin_{name}, {field}));"
            )
            .expect("text");
        }
    }
    for field in ["base", "bytes", "open", "reserved"] {
        writeln!(
            c,
            "printf(\"slot.{field} %zu\\n\", offsetof(struct slotwin_info, slots[1].{field}) - \
             offsetof(struct slotwin_info, slots[0]));"
        )
        .expect("text");
    }
    for (name, _) in NUMBERS {
        writeln!(c, "printf(\"{name} %u\\n\", (unsigned)SLOTWIN_{name});").expect("text");
    }
    c + "return 0; }\n"
}

const NUMBERS: [(&str, u32); 13] = [
    ("API", uapi::API),
    ("MAX_SLOTS", 8),
    ("NO_SLOT", uapi::NO_SLOT),
    ("NO_DIE", uapi::NO_DIE),
    ("GATE_WINDOW", uapi::GATE_WINDOW),
    ("GATE_DECODE", uapi::GATE_DECODE),
    ("DIE_PLACED", uapi::DIE_PLACED),
    ("DIE_OPEN", uapi::DIE_OPEN),
    ("DIE_PARKED", uapi::DIE_PARKED),
    ("DIE_RESIDENT", uapi::DIE_RESIDENT),
    ("DIE_ABSENT", uapi::DIE_ABSENT),
    ("DIE_ASLEEP", uapi::DIE_ASLEEP),
    ("MAP_REVOKE", uapi::MAP_REVOKE),
];

fn ours() -> String {
    let mut text = String::new();
    for layout in uapi::layouts() {
        writeln!(text, "{} {} {}", layout.name, layout.size, layout.opcode).expect("text");
        for (field, offset) in &layout.fields {
            writeln!(text, "{}.{field} {offset}", layout.name).expect("text");
        }
    }
    let second = size_of::<uapi::InfoSlot>();
    for (field, offset) in [
        ("base", std::mem::offset_of!(uapi::InfoSlot, base)),
        ("bytes", std::mem::offset_of!(uapi::InfoSlot, bytes)),
        ("open", std::mem::offset_of!(uapi::InfoSlot, open)),
        ("reserved", std::mem::offset_of!(uapi::InfoSlot, reserved)),
    ] {
        writeln!(text, "slot.{field} {}", second + offset).expect("text");
    }
    for (name, number) in NUMBERS {
        writeln!(text, "{name} {number}").expect("text");
    }
    text
}

#[test]
fn the_mirror_is_the_header() {
    assert_eq!(uapi::MAX_SLOTS, 8);
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    fs::write(&source, program()).expect("written");
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kmod-minimal");
    let mut cc = Command::new("cc");
    cc.arg("-Wall").arg("-Werror").arg("-I").arg(header).arg(&source).arg("-o").arg(&binary);
    assert!(cc.status().expect("a C compiler, `cc`").success());
    let theirs = Command::new(&binary).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&theirs.stdout), ours());
}

#[test]
fn without_the_module_there_is_no_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = Device::open(&folder.path().join("slotwin"));
    assert!(matches!(missing, Err(MachineError::NoWindowModule)));
    let other = folder.path().join("other");
    fs::write(&other, "").expect("written");
    let other = Device::open(&other);
    assert!(matches!(other, Err(MachineError::Io { operation: "ask", .. })), "{other:?}");
    assert!(Device::revoke(folder_fd(folder.path()).as_fd()).is_err());
}

fn folder_fd(path: &Path) -> fs::File {
    fs::File::open(path).expect("opened")
}

#[test]
fn every_documented_error_is_told_in_words() {
    let die = Bdf::new(0, 3, 0, 0).expect("an address");
    let documented = [
        (
            Asked::Place,
            vec![Errno::BUSY, Errno::NOSPC, Errno::XDEV, Errno::OPNOTSUPP, Errno::INVAL],
        ),
        (Asked::Open, vec![Errno::PERM, Errno::BUSY]),
        (Asked::Peek, vec![Errno::PERM, Errno::AGAIN, Errno::ADDRNOTAVAIL]),
        (Asked::Map, vec![Errno::PERM]),
    ];
    for (asked, errnos) in documented {
        for errno in errnos.into_iter().chain([Errno::NXIO, Errno::IO]) {
            let error = of_die(asked, die, None, false, errno);
            assert!(matches!(error, MachineError::Refused { .. }), "{asked:?} {errno}: {error}");
        }
        for (errno, absent) in [(Errno::NODEV, false), (Errno::IO, true)] {
            let error = of_die(asked, die, None, absent, errno);
            assert!(matches!(error, MachineError::Absent(at) if at == die));
        }
        let error = of_die(asked, die, None, false, Errno::BADF);
        assert!(matches!(error, MachineError::Io { .. }));
    }
}
