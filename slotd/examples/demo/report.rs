//! What it came to.

use std::{fmt, time::Duration};

use comfy_table::{Table, presets};
use serde::Serialize;
use slotd_client::api::{DieState, DieStatus, Kind};

/// One die.
#[derive(Debug, Serialize)]
pub(crate) struct DieReport {
    label: String,
    bdf: String,
    state: DieState,
    visits: u64,
    slot_time_ms: u64,
    /// `None` until the result was collected.
    right: Option<bool>,
    cold_us: u128,
    warm_us: Vec<u128>,
}

impl DieReport {
    pub(crate) fn launched(die: &DieStatus, cold: Duration) -> Self {
        Self {
            label: die.label.clone(),
            bdf: die.bdf.clone(),
            state: die.state,
            visits: 0,
            slot_time_ms: 0,
            right: None,
            cold_us: cold.as_micros(),
            warm_us: Vec::new(),
        }
    }

    pub(crate) fn pending(&self) -> bool {
        self.right.is_none()
    }

    pub(crate) fn visited(&mut self, kind: Kind, took: Duration) {
        if kind == Kind::Warm {
            self.warm_us.push(took.as_micros());
        }
    }

    pub(crate) fn collected(&mut self, right: bool) {
        self.right = Some(right);
    }

    pub(crate) fn end(&mut self, die: &DieStatus) {
        (self.state, self.visits, self.slot_time_ms) = (die.state, die.visits, die.slot_time_ms);
    }
}

/// The whole run. All times are of the simulated machine and say nothing of a real one.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: String,
    compute_ms: u64,
    wall_ms: u128,
    /// What one die after another would have taken: each one's way in, and its computation.
    one_after_another_ms: u128,
    /// How many dies computed at a time, on average.
    goodput: f64,
    dies: Vec<DieReport>,
    /// Rules of the machine that were broken.
    violations: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        machine: String,
        compute_ms: u64,
        wall: Duration,
        dies: Vec<DieReport>,
        violations: Vec<String>,
    ) -> Self {
        let compute = Duration::from_millis(compute_ms);
        let each = |die: &DieReport| u128::from(compute_ms) + die.cold_us / 1000;
        let one_after_another_ms = dies.iter().map(each).sum();
        let computed = compute * u32::try_from(dies.len()).unwrap_or(u32::MAX);
        let goodput = computed.as_secs_f64() / wall.as_secs_f64();
        let wall_ms = wall.as_millis();
        Self { machine, compute_ms, wall_ms, one_after_another_ms, goodput, dies, violations }
    }

    /// Whether every result is right and no rule was broken.
    pub(crate) fn holds(&self) -> bool {
        self.dies.iter().all(|die| die.right == Some(true)) && self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dies = Table::new();
        dies.load_preset(presets::NOTHING);
        dies.set_header(["LABEL", "BDF", "STATE", "VISITS", "SLOT TIME", "RESULT"]);
        for die in &self.dies {
            let result = match die.right {
                Some(true) => "right",
                Some(false) => "WRONG",
                None => "missing",
            };
            dies.add_row([
                die.label.clone(),
                die.bdf.clone(),
                die.state.to_string(),
                die.visits.to_string(),
                format!("{} ms", die.slot_time_ms),
                result.to_owned(),
            ]);
        }
        writeln!(f, "{}\n", dies.trim_fmt())?;
        let colds: Vec<u128> = self.dies.iter().map(|die| die.cold_us).collect();
        let warms: Vec<u128> = self.dies.iter().flat_map(|die| die.warm_us.clone()).collect();
        writeln!(f, "Costs on the simulated {}:", self.machine)?;
        writeln!(f, "  cold acquire         {}", spread(&colds))?;
        writeln!(f, "  warm acquire         {}", spread(&warms))?;
        writeln!(f, "  computation of a die {} ms", self.compute_ms)?;
        writeln!(f, "  all dies through one slot   {:>6} ms", self.wall_ms)?;
        writeln!(f, "  one die after another       {:>6} ms", self.one_after_another_ms)?;
        let times = as_f64(self.one_after_another_ms) / as_f64(self.wall_ms);
        writeln!(f, "  goodput: {:.1} dies at a time, {times:.1} times as fast", self.goodput)?;
        for violation in &self.violations {
            writeln!(f, "BROKEN RULE: {violation}")?;
        }
        let right = self.dies.iter().filter(|die| die.right == Some(true)).count();
        write!(f, "{right} of {} results right", self.dies.len())
    }
}

/// Least, middle and most of some times.
fn spread(micros: &[u128]) -> String {
    let mut sorted = micros.to_vec();
    sorted.sort_unstable();
    let ms = |value: &u128| as_f64(*value) / 1000.0;
    match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(least), Some(middle), Some(most)) => {
            let (least, middle, most) = (ms(least), ms(middle), ms(most));
            format!("{middle:.2} ms ({least:.2} to {most:.2}, {} times)", sorted.len())
        }
        _ => "never".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a short run")]
fn as_f64(value: u128) -> f64 {
    value as f64
}
