//! What the operator sees while it goes on and afterwards.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal; nothing elsewhere.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar that is full at `total`.
    pub(crate) fn new(what: &str, total: u64) -> Self {
        let bar = ProgressBar::new(total);
        let style = ProgressStyle::with_template("{prefix:>18} [{bar:40}] {percent:>3} %  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        Self(bar)
    }

    /// How far it is.
    pub(crate) fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// What is being done just now.
    pub(crate) fn say(&self, message: String) {
        self.0.set_message(message);
    }

    /// Takes the bar away.
    pub(crate) fn done(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes in the unit that fits.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, (bytes >> 20 & 1023) * 10 / 1024),
    }
}

/// Bytes to reckon with as a rate.
#[allow(clippy::cast_precision_loss, reason = "memory sizes are far below 2^53")]
pub(crate) fn float(bytes: u64) -> f64 {
    bytes as f64
}
