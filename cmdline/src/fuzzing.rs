//! What has to hold for any input of the parsers. The fuzzer looks for inputs that break it; the
//! corpus is replayed by an ordinary test.
#![allow(clippy::missing_panics_doc)] // Panicking is how a target says that something does not hold.

use vfio_park::PciId;

use crate::{
    bls::Entry,
    grub::{Env, Features, entries},
    initramfs::{Contents, Order, RIVALS, judge},
    loader::{GrubLines, uki},
    modprobe,
    shellvars::{ShellVars, escaped},
    tokens::{IdList, Line, Rule, Want, keys},
    trial::mounts,
};

/// A parser's name and what has to hold for it.
pub type Target = (&'static str, fn(&[u8]));

/// Every target. Each has a file of its name among the fuzz targets, and a corpus.
pub const TARGETS: [Target; 7] = [
    ("tokens", tokens),
    ("shellvars", shellvars),
    ("modprobe", modprobe_d),
    ("bls", bls),
    ("grub", grub_cfg),
    ("initramfs", initramfs),
    ("mountinfo", mountinfo),
];

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn wants() -> [Want; 3] {
    [
        Want::new(keys::VFIO_IDS, Rule::Ids(IdList::of(&[PciId::GK210]))),
        Want::equals(keys::NO_IDLE_D3, "1"),
        Want::has(keys::IOMMU, "pt"),
    ]
}

/// Merging puts everything wanted in effect, once; words are where they are said to be.
pub fn tokens(data: &[u8]) {
    let line = Line::new(text(data));
    for word in line.words() {
        assert!(line.as_str()[word.start..].starts_with(word.text));
    }
    // A quote that is never closed swallows what is put behind it: said, never hidden.
    let closed = line.as_str().matches('"').count().is_multiple_of(2);
    let merged = line.merged(&wants(), |_| None);
    if closed {
        assert!(merged.meets(&wants()), "{merged}");
        assert_eq!(merged.merged(&wants(), |_| None), merged);
    }
}

/// Reading ends, and what is escaped reads back.
pub fn shellvars(data: &[u8]) {
    let text = text(data);
    let mut vars = ShellVars::default();
    vars.read(&text);
    let _ = GrubLines::of([text.as_str()]).joined();
    let mut vars = ShellVars::default();
    vars.read(&format!("A=\"{}\"\n", escaped(&text)));
    assert_eq!(vars.get("A"), text);
}

/// Moving aside leaves nothing that blocks and is done once.
pub fn modprobe_d(data: &[u8]) {
    let once = modprobe::without_blocks(data);
    let again = modprobe::parse(&text(&once));
    assert!(!again.iter().any(modprobe::Directive::blocks_nvidia));
    assert_eq!(modprobe::without_blocks(&once), once);
}

/// The text survives, and what is put in is read back.
pub fn bls(data: &[u8]) {
    let text = text(data);
    let entry = Entry::parse(&text);
    assert_eq!(entry.text(), text);
    let new = entry.with_options(&Line::new("root=x quiet"));
    assert_eq!(new.options().as_str(), "root=x quiet");
}

/// Reading ends; an environment block reads back.
pub fn grub_cfg(data: &[u8]) {
    let text = text(data);
    for entry in entries(&text) {
        assert!(entry.linux().is_some());
        let _ = (entry.initrd(), entry.prelude());
    }
    let _ = Features::read(&text);
    if let Some(env) = Env::parse(data) {
        assert_eq!(Env::parse(&env.block()), Some(env));
    }
}

/// Reading ends, whatever is packed how; a verdict follows.
pub fn initramfs(data: &[u8]) {
    if let Ok(contents) = Contents::read(data) {
        let rivals = RIVALS.iter().map(ToString::to_string).collect();
        let _ = judge(&contents, &Order { parker: "vfio_pci".into(), rivals }, &[]);
    }
    let _ = uki::section(data, ".cmdline");
}

/// Reading ends; mount points are absolute where the kernel's are.
pub fn mountinfo(data: &[u8]) {
    let _ = mounts(&text(data));
}
