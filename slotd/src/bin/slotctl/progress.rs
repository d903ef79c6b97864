//! A sign of life for whatever takes longer than a second.

use std::{
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// How long something may take before anybody wonders.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows what is going on, on a terminal and after a second; ends when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn start(doing: String) -> Self {
        let (done, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            // Both an answer and the sender's end mean that it is over.
            if ended.recv_timeout(PATIENCE) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            // Hidden by itself where standard error is no terminal.
            let bar = ProgressBar::new_spinner().with_message(doing);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            let _ = ended.recv();
            bar.finish_and_clear();
        });
        Self { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
