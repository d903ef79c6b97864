//! Command lines: read as the kernel reads them, merged, never damaged.

use proptest::prelude::*;
use slot_cmdline::tokens::{IdList, Line, Rule, Want, keys};
use vfio_park::PciId;

fn wants() -> Vec<Want> {
    vec![
        Want::new(keys::VFIO_IDS, Rule::Ids(IdList::of(&[PciId::GK210]))),
        Want::equals(keys::NO_IDLE_D3, "1"),
        Want::has(keys::INTEL_IOMMU, "on"),
        Want::has(keys::IOMMU, "pt"),
    ]
}

fn merge(text: &str) -> String {
    Line::new(text).merged(&wants(), |_| None).as_str().to_owned()
}

const NEW: &str = "vfio-pci.disable_idle_d3=1 intel_iommu=on iommu=pt";

#[test]
fn an_empty_line_gets_everything() {
    assert_eq!(merge(""), format!("vfio-pci.ids=10de:102d {NEW}"));
}

#[test]
fn ids_of_others_are_kept_and_the_last_list_counts() {
    assert_eq!(
        merge("a vfio-pci.ids=1:2 vfio_pci.ids=8086:1533 quiet"),
        format!("a vfio-pci.ids=1:2 vfio-pci.ids=8086:1533,10de:102d quiet {NEW}")
    );
}

#[test]
fn a_list_in_modprobe_d_counts_where_the_line_has_none() {
    let merged = Line::new("quiet")
        .merged(&wants(), |key| (key == keys::VFIO_IDS).then(|| "8086:1533".to_owned()));
    assert_eq!(merged.effective(keys::VFIO_IDS), Some("8086:1533,10de:102d"));
}

#[test]
fn what_is_met_is_left_alone() {
    let line =
        "vfio_pci.ids=10de:102d,1:2 vfio-pci.disable-idle-d3=1 intel_iommu=on,sm_on iommu=pt";
    assert_eq!(merge(line), line);
}

#[test]
fn tokens_stand_before_the_words_for_init() {
    assert_eq!(merge("quiet -- single"), format!("quiet vfio-pci.ids=10de:102d {NEW} -- single"));
    assert_eq!(Line::new("a -- vfio-pci.ids=1:2").effective(keys::VFIO_IDS), None);
}

#[test]
fn quotes_hold_blanks_together() {
    let line = Line::new(r#"dyndbg="file a +p; file b vfio-pci.ids=1:2 +p" "q=a b" x"#);
    assert_eq!(line.words().count(), 3);
    assert_eq!(line.effective("dyndbg"), Some("file a +p; file b vfio-pci.ids=1:2 +p"));
    assert_eq!(line.effective("q"), Some("a b"));
    assert_eq!(line.effective(keys::VFIO_IDS), None);
}

#[test]
fn additions_are_what_a_drop_in_has_to_append() {
    let line = Line::new("quiet vfio-pci.ids=8086:1533 iommu=pt");
    assert_eq!(
        line.additions(&wants(), |_| None),
        ["vfio-pci.ids=8086:1533,10de:102d", "vfio-pci.disable_idle_d3=1", "intel_iommu=on"]
    );
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_.-]{1,8}",
        "[a-z_.-]{1,8}=[a-z0-9,:/]{0,8}",
        "[a-z]{1,5}=\"[a-z ]{0,8}\"",
        Just("--".to_owned()),
        "vfio[-_]pci[.]ids=[0-9a-f]{4}:[0-9a-f]{4}(,10de:102d)?",
        "(intel_)?iommu=(on|pt|off|soft)",
        Just("vfio-pci.disable_idle_d3=0".to_owned()),
    ]
}

proptest! {
    #[test]
    fn merging_meets_the_wants_once_and_for_all(words in prop::collection::vec(word(), 0..9), gap in "[ \t\n]{1,3}") {
        let line = Line::new(words.join(&gap));
        let merged = line.merged(&wants(), |_| None);
        prop_assert!(merged.meets(&wants()), "{}", merged);
        prop_assert_eq!(merged.merged(&wants(), |_| None), merged.clone());
        // Nothing of others is lost, and nothing changes its order.
        let ours = |w: &str| wants().iter().any(|want| {
            Line::new(w).effective(want.key()).is_some()
        });
        let others = |l: &Line| l.words().map(|w| w.text.to_owned()).filter(|w| !ours(w)).collect::<Vec<_>>();
        prop_assert_eq!(others(&line), others(&merged));
        if let Some(before) = line.effective(keys::VFIO_IDS) {
            let after = IdList::parse(merged.effective(keys::VFIO_IDS).unwrap_or(""));
            prop_assert!(after.covers_all(&IdList::parse(before)));
        }
    }

    #[test]
    fn appending_the_additions_does_the_same(words in prop::collection::vec(word(), 0..9)) {
        let line = Line::new(words.join(" "));
        let mut appended = line.clone();
        for token in line.additions(&wants(), |_| None) {
            appended = appended.with_appended(&token);
        }
        prop_assert!(appended.meets(&wants()), "{}", appended);
    }

    #[test]
    fn any_text_is_read_and_merged_or_left(text in "\\PC{0,60}") {
        let line = Line::new(text);
        let merged = line.merged(&wants(), |_| None);
        prop_assert!(merged.as_str().len() >= line.as_str().len());
    }
}
