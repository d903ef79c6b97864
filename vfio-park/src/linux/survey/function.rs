//! One function's folder in sysfs.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use crate::{
    Bar, Bdf, Bridge, ConfigSpace, DriverName, Function, PciId, PowerState,
    linux::roots::{link_name, text},
    survey::parse::{ConfigError, ConfigHeader, Header, RawBar, Resources, known_bars, resources},
};

/// A function's folder, and where to tell what is odd about it.
pub(super) struct Folder<'a> {
    path: &'a Path,
    bdf: Bdf,
    oddities: &'a mut Vec<String>,
}

/// What is known of a function before anybody asks the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Below {
    /// Asking config space would wake the function or a bridge above it.
    pub(super) asleep: bool,
    /// The buses below: first and last.
    pub(super) buses: Option<(u8, u8)>,
}

impl<'a> Folder<'a> {
    pub(super) fn new(path: &'a Path, bdf: Bdf, oddities: &'a mut Vec<String>) -> Self {
        Self { path, bdf, oddities }
    }

    /// What sysfs tells without asking the device; `None` where the function is half gone. `moving`:
    /// a driver is taking it or giving it up just now.
    pub(super) fn read(&mut self, moving: bool) -> Option<Function> {
        let path = self.path;
        let target = self.told("where it hangs", fs::read_link(path))?;
        let Some(id) = self.id() else {
            self.odd("its ids can't be read, it is left out: it may be coming or going");
            return None;
        };
        let driver_override = if moving { None } else { self.text("driver_override") };
        Some(Function {
            bdf: self.bdf,
            id,
            class: self.hex("class").unwrap_or_default(),
            parent: parent_of(&target),
            bars: Vec::new(),
            bridge: None,
            driver: self.named("driver", |name| DriverName::new(name)),
            driver_override: driver_override.filter(|name| !unset(name)),
            iommu_group: self.named("iommu_group", |name| name.parse().ok()),
            power: self.text("power_state").map_or(PowerState::Unknown, |state| power(&state)),
            config: ConfigSpace::Unreadable,
            command: None,
        })
    }

    pub(super) fn id(&mut self) -> Option<PciId> {
        let mut word = |name| self.hex(name).and_then(|number| u16::try_from(number).ok());
        let (vendor, device) = (word("vendor"), word("device"));
        vendor.zip(device).map(|(vendor, device)| PciId { vendor, device })
    }

    /// Adds what config space and the kernel's resources say.
    pub(super) fn complete(&mut self, function: &mut Function, below: Below) {
        let (config, header) =
            if below.asleep { (ConfigSpace::Asleep, None) } else { self.config() };
        let books = self.resources();
        function.config = config;
        function.command = header.as_ref().map(|header| header.command);
        function.bars = bars(function.id, &books, header.as_ref());
        let d3cold_allowed = self.text("d3cold_allowed").and_then(|word| match word.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        });
        function.bridge = match header.map(|header| header.header) {
            Some(Header::Bridge { secondary, subordinate, memory, prefetchable, wide, .. }) => {
                Some(Bridge { secondary, subordinate, memory, prefetchable, wide, d3cold_allowed })
            }
            None if below.asleep && function.class >> 8 == 0x0604 => {
                below.buses.map(|(secondary, subordinate)| Bridge {
                    secondary,
                    subordinate,
                    memory: Resources::window(books.memory),
                    prefetchable: Resources::window(books.prefetchable),
                    // Without an address nothing says that it is not.
                    wide: books.prefetchable.is_none_or(|range| range.last() > u32::MAX.into()),
                    d3cold_allowed,
                })
            }
            _ => None,
        };
    }

    fn config(&mut self) -> (ConfigSpace, Option<ConfigHeader>) {
        let mut bytes = Vec::with_capacity(64);
        let read = File::open(self.path.join("config"))
            .and_then(|file| file.take(64).read_to_end(&mut bytes));
        if self.told("its config space", read).is_none() {
            return (ConfigSpace::Unreadable, None);
        }
        match ConfigHeader::parse(&bytes) {
            Ok(header) => (ConfigSpace::Answers, Some(header)),
            Err(error) => {
                self.odd(&error.to_string());
                let all_ones = error == ConfigError::AllOnes;
                (if all_ones { ConfigSpace::AllOnes } else { ConfigSpace::Unreadable }, None)
            }
        }
    }

    fn resources(&mut self) -> Resources {
        let Some(text) = self.text("resource") else {
            self.odd("`resource` is missing: where the kernel has its BARs is not known");
            return Resources::default();
        };
        let books = resources(&text);
        if books.garbage > 0 {
            self.odd(&format!("{} lines of `resource` make no sense", books.garbage));
        }
        books
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let read = text(&self.path.join(name));
        self.told(name, read).flatten()
    }

    /// What the name says that a link points to.
    fn named<T>(&mut self, link: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let read = link_name(&self.path.join(link));
        let name = self.told(link, read).flatten()?;
        let parsed = parse(&name);
        if parsed.is_none() {
            self.odd(&format!("{link}: `{name}` makes no sense"));
        }
        parsed
    }

    /// A number as sysfs writes it, `0x10de`.
    fn hex(&mut self, name: &str) -> Option<u32> {
        let word = self.text(name)?;
        let number = word.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if number.is_none() {
            self.odd(&format!("{name}: `{word}` is no number"));
        }
        number
    }

    fn told<T>(&mut self, what: &str, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.odd(&format!("{what}: {error}"))).ok()
    }

    fn odd(&mut self, what: &str) {
        self.oddities.push(format!("{}: {what}", self.bdf));
    }
}

/// Memory BARs: the kernel's books first, the table where they forgot, the register beside them.
fn bars(id: PciId, books: &Resources, header: Option<&ConfigHeader>) -> Vec<Bar> {
    let known = known_bars(id);
    let bar = |index: u8| {
        let book = books.bars[usize::from(index)];
        let known = known.iter().find(|bar| bar.index == index);
        let raw = header.and_then(|header| header.memory_bar(index));
        let shape = book
            .map(|book| (book.is_64bit, book.prefetchable))
            .or(known.map(|bar| (bar.is_64bit, bar.prefetchable)))
            .or(raw.filter(|raw| *raw != RawBar::default()).map(|r| (r.is_64bit, r.prefetchable)));
        shape.map(|(is_64bit, prefetchable)| Bar {
            index,
            assigned: book.and_then(|book| book.assigned),
            size: book.map(|book| book.size).or(known.map(|bar| bar.size)),
            is_64bit,
            prefetchable,
            register: raw.map(|raw| raw.address),
        })
    };
    (0..6).filter_map(bar).collect()
}

/// How sysfs writes that there is no override: `(null)`, or nothing.
pub(in crate::linux) fn unset(driver_override: &str) -> bool {
    matches!(driver_override, "" | "(null)")
}

/// The last but one part of `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`, where that is
/// a function and no root bus.
fn parent_of(target: &Path) -> Option<Bdf> {
    target.parent()?.file_name()?.to_str()?.parse().ok()
}

fn power(word: &str) -> PowerState {
    match word {
        "D0" => PowerState::D0,
        "D1" => PowerState::D1,
        "D2" => PowerState::D2,
        "D3hot" => PowerState::D3hot,
        "D3cold" => PowerState::D3cold,
        _ => PowerState::Unknown,
    }
}
