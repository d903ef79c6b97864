//! The guest's serial console.

use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::ChildStdout,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};

const TAIL: usize = 30;

/// What a line of the console means to the rig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Bus numbers are final, the test has not begun.
    Ready,
    /// The test's exit status.
    Exit(u8),
    /// The kernel complained.
    Complaint(String),
    /// Anything else.
    Other,
}

/// Sorts a line.
fn sort(line: &str) -> Said {
    let line = line.trim_end();
    if let Some(code) = line.strip_prefix("rig: exit ") {
        return code.parse().map_or(Said::Other, Said::Exit);
    }
    if let Some(text) = line.strip_prefix("rig: kernel: ") {
        return Said::Complaint(text.to_owned());
    }
    if line == "rig: ready" { Said::Ready } else { Said::Other }
}

/// Lines of the console until it closes, or until the deadline.
pub(super) struct Console {
    lines: Receiver<String>,
    copy: File,
    tail: VecDeque<String>,
    start: Instant,
    deadline: Instant,
}

impl Console {
    /// Reads `pipe` and keeps a copy of it at `copy`.
    pub(super) fn new(pipe: ChildStdout, copy: &Path, deadline: Instant) -> Result<Self> {
        let (sender, lines) = channel();
        thread::Builder::new().name("console".to_owned()).spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    return;
                }
            }
        })?;
        let copy = File::create(copy).with_context(|| format!("create {}", copy.display()))?;
        Ok(Self { lines, copy, tail: VecDeque::new(), start: Instant::now(), deadline })
    }

    /// The next line, shown unless `quiet`; `None` at the end.
    pub(super) fn next_line(&mut self, quiet: bool) -> Result<Option<Said>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let line = match self.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!(
                "the guest did not end within {} s (--timeout); its last words:\n{}",
                self.start.elapsed().as_secs(),
                self.tail()
            ),
        };
        let timed = format!("{:7.2} {line}", self.start.elapsed().as_secs_f32());
        writeln!(self.copy, "{timed}")?;
        if !quiet {
            println!("{timed}");
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        let said = sort(&line);
        self.tail.push_back(timed);
        Ok(Some(said))
    }

    /// The last lines.
    pub(super) fn tail(&self) -> String {
        self.tail.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_rig_count() {
        assert_eq!(sort("rig: exit 3\r"), Said::Exit(3));
        assert_eq!(sort("rig: ready"), Said::Ready);
        for line in ["rig: exit 300", "echo rig: exit 0", "rig: ready?", "rig: exit "] {
            assert_eq!(sort(line), Said::Other, "{line}");
        }
        assert_eq!(sort("rig: kernel: BUG: x"), Said::Complaint("BUG: x".to_owned()));
    }
}
