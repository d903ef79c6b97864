//! Time, injected.

use std::{
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

/// A clock that does not go back.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Since the clock's beginning.
    fn now(&self) -> Duration;

    /// Lets `duration` pass.
    fn sleep(&self, duration: Duration);
}

/// The real one.
#[derive(Debug)]
pub struct RealClock(Instant);

impl RealClock {
    /// Begins now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        if !duration.is_zero() {
            std::thread::sleep(duration);
        }
    }
}

/// One that stands still until told otherwise; sleeping moves it on and returns at once.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    /// Moves it on.
    pub fn advance(&self, duration: Duration) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.saturating_add(duration);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}
