//! QEMU's trace of config writes.

use std::time::Duration;

use thiserror::Error;
use vfio_park::{
    Bdf,
    model::{ConfigWrite, reg},
};

/// A line that is no config write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {number} is no `TIME pci_cfg_write DEVICE BB:DD.F @OFFSET <- VALUE`: {line}")]
pub struct TraceError {
    /// Which line, from 1.
    pub number: usize,
    /// What it says.
    pub line: String,
}

const EVENT: &str = " pci_cfg_write ";
const DAY: Duration = Duration::from_hours(24);

/// Reads a trace made with `-trace pci_cfg_write -msg timestamp=on`. Times count from the first
/// line. QEMU does not say how many bytes were written: see [`size`].
pub fn parse_trace(text: &str) -> Result<Vec<ConfigWrite>, TraceError> {
    let mut writes: Vec<ConfigWrite> = Vec::new();
    let (mut first, mut midnights) = (None, Duration::ZERO);
    let mut last = Duration::ZERO;
    for (number, line) in (1..).zip(text.lines()) {
        let Some((time, rest)) = line.split_once(EVENT) else { continue };
        let parsed = time_of_day(time).zip(parse_write(rest));
        let Some((at, write)) = parsed else {
            return Err(TraceError { number, line: line.to_owned() });
        };
        if at + midnights < last {
            midnights += DAY;
        }
        last = at + midnights;
        let start = *first.get_or_insert(last);
        writes.push(ConfigWrite { at: last.saturating_sub(start), ..write });
    }
    Ok(writes)
}

fn time_of_day(time: &str) -> Option<Duration> {
    let clock = time.split_once('T')?.1.strip_suffix('Z')?;
    // On the whole second there is no fraction.
    let (clock, micros) = clock.split_once('.').unwrap_or((clock, "000000"));
    let micros = micros.parse().ok().filter(|_| micros.len() == 6)?;
    let mut seconds = 0u64;
    for part in clock.split(':') {
        seconds = seconds * 60 + part.parse::<u64>().ok()?;
    }
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

fn parse_write(rest: &str) -> Option<ConfigWrite> {
    let mut words = rest.rsplit(' ');
    let value = hex(words.next()?)?;
    (words.next()? == "<-").then_some(())?;
    let offset = u16::try_from(hex(words.next()?.strip_prefix('@')?)?).ok()?;
    let bdf: Bdf = words.next()?.parse().ok()?;
    Some(ConfigWrite { at: Duration::ZERO, bdf, offset, size: size(offset, value), value })
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// How many bytes a write to `offset` has. The trace does not say; this is how Linux writes the
/// registers that matter here. Firmware writes windows and bus numbers in parts, lowest first, which
/// ends in the same place.
fn size(offset: u16, value: u32) -> u8 {
    const WIDE: [u16; 8] = [
        reg::BAR0,
        reg::BAR0 + 4,
        reg::PRIMARY_BUS,
        reg::BAR0 + 0xc,
        reg::MEMORY_BASE,
        reg::PREF_BASE,
        reg::PREF_BASE_UPPER,
        reg::PREF_LIMIT_UPPER,
    ];
    match offset {
        reg::COMMAND | reg::BRIDGE_CONTROL | reg::PMCSR => 2,
        _ if value > 0xffff || WIDE.contains(&offset) => 4,
        _ if value > 0xff => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_qemu_is_understood() {
        let text = "2026-12-01T23:59:59.999999Z pci_cfg_write x3130-upstream 01:00.0 @0x28 <- 0xc\n\
                    something else\n\
                    2026-12-02T00:00:00.000009Z pci_cfg_write vfio-user-pci 03:00.0 @0x4 <- 0x106\n";
        let writes = parse_trace(text).expect("a trace");
        let bdf = |text: &str| text.parse::<Bdf>().expect("an address");
        let first = ConfigWrite {
            at: Duration::ZERO,
            bdf: bdf("01:00.0"),
            offset: 0x28,
            size: 4,
            value: 0xc,
        };
        let at = Duration::from_micros(10);
        let second = ConfigWrite { at, bdf: bdf("03:00.0"), offset: 4, size: 2, value: 0x106 };
        assert_eq!(writes, [first, second]);
    }

    #[test]
    fn whole_seconds_are_times_and_nonsense_is_an_error() {
        let whole = "2026-12-01T06:18:33Z pci_cfg_write vfio-user-pci 1c:00.0 @0x3c <- 0xa";
        assert_eq!(parse_trace(whole).map(|writes| writes.len()), Ok(1));
        for rest in ["x 01:00.0 @0x28 <- c", "x 01:00 @0x28 <- 0xc", "x 01:00.0 0x28 <- 0xc", ""] {
            let text = format!("2026-12-01T00:00:00.000000Z pci_cfg_write {rest}");
            assert_eq!(parse_trace(&text).map_err(|error| error.number), Err(1), "{rest}");
        }
    }
}
