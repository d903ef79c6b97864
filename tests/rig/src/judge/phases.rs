//! Writes and events, cut at the markers.

use std::collections::BTreeMap;

use vfio_park::{Bdf, model::ConfigWrite};

use super::{
    Evidence,
    verdict::{Finding, Rule},
};
use crate::{
    device::{MARKER_OFFSET, MARKER_SIZE},
    log::{Event, What},
    phase::{Kind, Phase, decode},
    topology::Role,
};

/// One phase with all that happened in it.
#[derive(Debug)]
pub(super) struct Chapter<'a> {
    pub(super) phase: Phase,
    pub(super) writes: Vec<&'a ConfigWrite>,
    pub(super) events: Vec<&'a Event>,
}

impl Chapter<'_> {
    fn new(phase: Phase) -> Self {
        Self { phase, writes: Vec::new(), events: Vec::new() }
    }
}

/// Cuts the evidence. Markers that are not understood, and evidence that does not fit together, are
/// findings.
pub(super) fn chapters(evidence: &Evidence) -> (Vec<Chapter<'_>>, Vec<Finding>) {
    let boot = || Phase::new(Kind::Boot, "");
    let mut chapters = Vec::new();
    let mut findings = Vec::new();
    let backgrounds = evidence.topology.with_role(Role::Rig);
    let mut texts: BTreeMap<Bdf, [u8; MARKER_SIZE]> =
        backgrounds.map(|bdf| (bdf, [0; MARKER_SIZE])).collect();
    let mut current = Chapter::new(boot());
    for write in &evidence.writes {
        let Some(text) = texts.get_mut(&write.bdf) else {
            current.writes.push(write);
            continue;
        };
        if let Some(marker) = marker(text, write) {
            let phase = marker.parse().unwrap_or_else(|error| {
                findings.push(Finding::new(Rule::Evidence, &marker, error));
                Phase::new(Kind::Free, marker.clone())
            });
            chapters.push(std::mem::replace(&mut current, Chapter::new(phase)));
        }
    }
    chapters.push(current);
    let mut number = 0;
    let mut seen = vec![boot().to_string()];
    for event in &evidence.events {
        if let What::Marker { text } = &event.what {
            number += 1;
            seen.push(text.clone());
        } else if let Some(chapter) = chapters.get_mut(number) {
            chapter.events.push(event);
        }
    }
    let told: Vec<String> = chapters.iter().map(|chapter| chapter.phase.to_string()).collect();
    if told != seen && findings.is_empty() {
        let message =
            format!("the trace has {} phases, the devices' log {}", told.len(), seen.len());
        findings.push(Finding::new(Rule::Evidence, "", message));
    }
    if chapters.len() == 1 {
        findings.push(Finding::new(Rule::Evidence, "boot", "the run set no marker".to_owned()));
    }
    (chapters, findings)
}

/// Takes a write to a background; the text, where that completes one.
fn marker(text: &mut [u8; MARKER_SIZE], write: &ConfigWrite) -> Option<String> {
    let start = usize::from(write.offset.checked_sub(MARKER_OFFSET)?);
    // The trace leaves out how wide a write was; the kernel writes markers in dwords.
    for (byte, new) in text.get_mut(start..start + 4)?.iter_mut().zip(write.value.to_le_bytes()) {
        *byte = new;
    }
    (start + 4 == MARKER_SIZE).then(|| decode(text))
}
