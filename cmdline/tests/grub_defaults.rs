//! Any `/etc/default/grub`: installing works or says that it does not, and taking back is exact.

mod common;

use common::{Sandbox, differences};
use proptest::prelude::*;
use slot_cmdline::{
    exit::Exit,
    tokens::{Line, keys},
};

fn value() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z_.-]{1,8}(=[a-z0-9,:/.]{0,6})?",
        "vfio[-_]pci.ids=[0-9a-f]{4}:[0-9a-f]{4}",
        "(intel_)?iommu=(on|off|pt)",
        Just("dyndbg=\\\"file a +p\\\"".to_owned()),
        Just("$GRUB_CMDLINE_LINUX".to_owned()),
        Just("--".to_owned()),
    ];
    prop::collection::vec(word, 0..5).prop_map(|words| words.join(" "))
}

fn assignment() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("GRUB_CMDLINE_LINUX"),
        Just("GRUB_CMDLINE_LINUX_DEFAULT"),
        Just("GRUB_TIMEOUT")
    ];
    let end = prop_oneof![
        Just("\n"),
        Just("\n"),
        Just("\r\n"),
        Just(" # why\n"),
        Just(" \\\n\n"),
        Just("")
    ];
    prop_oneof![
        (name, value(), end).prop_map(|(name, value, end)| format!("{name}=\"{value}\"{end}")),
        Just("# a comment with \"quotes' and $(x)\n".to_owned()),
        Just("if [ -x /bin/true ]; then\n  :\nfi\n".to_owned()),
        Just("GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn install_then_remove_is_byte_identical(lines in prop::collection::vec(assignment(), 0..6), arch: bool) {
        let sandbox = Sandbox::new(if arch { "arch-grub" } else { "debian-12" });
        sandbox.write("etc/default/grub", lines.concat());
        sandbox.distro().settle();
        let before = sandbox.tree();
        let ran = sandbox.run(&["install"]);
        if ran.exit == Exit::Done {
            let line = Line::new(sandbox.distro().next_line());
            let ids = line.effective(keys::VFIO_IDS).unwrap_or("").to_owned();
            prop_assert!(ids.contains("10de:102d"), "{}", line);
            let again = sandbox.run(&["install"]);
            prop_assert!(again.text.contains("nothing was changed"), "{:?}", again);
            let removed = sandbox.run(&["remove"]);
            prop_assert_eq!(removed.exit, Exit::Done, "{:?}", removed);
        } else {
            prop_assert!(matches!(ran.exit, Exit::UnknownSetup | Exit::Failed), "{:?}", ran);
        }
        prop_assert_eq!(differences(&before, &sandbox.tree()), [""; 0]);
    }
}
