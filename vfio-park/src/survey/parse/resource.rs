//! The `resource` file of a PCI function: what the kernel believes of its BARs and windows.

use crate::{AddressRange, Window};

const MEM: u64 = 0x200;
const PREFETCH: u64 = 0x2000;
const MEM_64: u64 = 0x10_0000;
const DISABLED: u64 = 0x1000_0000;
const UNSET: u64 = 0x2000_0000;

/// One line: a memory resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Where it is; `None` where it is unassigned.
    pub assigned: Option<AddressRange>,
    /// Bytes.
    pub size: u64,
    /// Decodes 64 address bits.
    pub is_64bit: bool,
    /// Prefetchable.
    pub prefetchable: bool,
}

/// The file, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory BARs by index; `None` where there is none, it is an I/O BAR, or the kernel forgot it.
    pub bars: [Option<Resource>; 6],
    /// The non-prefetchable window, where there is one.
    pub memory: Option<AddressRange>,
    /// The prefetchable window, where there is one.
    pub prefetchable: Option<AddressRange>,
    /// Lines that make no sense.
    pub garbage: usize,
}

impl Resources {
    /// A window as the kernel believes it; shut where it has none.
    pub fn window(range: Option<AddressRange>) -> Window {
        range.map_or(Window::Shut { base: u64::MAX, limit: 0 }, Window::Open)
    }
}

/// Parses the file. BARs come first, a bridge's four windows last (I/O, memory, prefetchable,
/// unused): how many lines lie between depends on the kernel's configuration.
///
/// ```
/// use vfio_park::survey::parse::resources;
///
/// let line = "0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200\n";
/// let bar0 = resources(line).bars[0].expect("a memory BAR");
/// assert_eq!(bar0.size, 16 << 20);
/// ```
pub fn resources(text: &str) -> Resources {
    let lines: Vec<_> = text.lines().map(line).collect();
    let at = |n: usize| lines.get(n).copied().flatten().and_then(memory);
    let mut parsed = Resources {
        bars: std::array::from_fn(at),
        garbage: lines.iter().filter(|line| line.is_none()).count(),
        ..Resources::default()
    };
    if let Some(first_window) = lines.len().checked_sub(4).filter(|first| *first >= 7) {
        let window = |n: usize| at(first_window + n).and_then(|window| window.assigned);
        (parsed.memory, parsed.prefetchable) = (window(1), window(2));
    }
    parsed
}

fn line(text: &str) -> Option<[u64; 3]> {
    let mut numbers = text.split_ascii_whitespace().map(|word| {
        let digits = word.strip_prefix("0x")?;
        let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    });
    let parsed = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(parsed)
}

fn memory([first, last, flags]: [u64; 3]) -> Option<Resource> {
    let range = AddressRange::from_first_last(first, last).filter(|_| flags & MEM != 0)?;
    let assigned = (flags & (UNSET | DISABLED) == 0 && first != 0).then_some(range);
    Some(Resource {
        assigned,
        size: range.size(),
        is_64bit: flags & MEM_64 != 0,
        prefetchable: flags & PREFETCH != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::GIB;

    #[test]
    fn an_unset_bar_keeps_its_size() {
        let bar = resources("0x0 0x3ffffffff 0x20142208\n").bars[0].expect("a BAR");
        assert_eq!((bar.assigned, bar.size), (None, 16 * GIB));
        assert!(bar.is_64bit && bar.prefetchable);
    }

    #[test]
    fn forgotten_and_io_bars_are_none() {
        let parsed = resources("0x0 0x0 0x0\n0xe000 0xe07f 0x40101\n");
        assert_eq!(parsed, Resources::default());
    }

    #[test]
    fn windows_are_the_last_lines_whatever_lies_between() {
        for between in [0, 6] {
            let mut text = "0x0 0x0 0x0\n".repeat(7 + between);
            text += "0x1000 0x1fff 0x101\n0xf0000000 0xf0ffffff 0x200\n";
            text += "0xc00000000 0xfffffffff 0x102201\n0x0 0x0 0x0\n";
            let parsed = resources(&text);
            assert_eq!(parsed.memory, AddressRange::new(0xf000_0000, 16 << 20));
            assert_eq!(parsed.prefetchable, AddressRange::new(0xc_0000_0000, 16 * GIB));
        }
        assert_eq!(resources("0x1 0x2 0x200\n").prefetchable, None);
    }

    proptest! {
        #[test]
        fn any_text_parses(text in "([0-9a-fx \\n]|0x[0-9a-f]{1,17}){0,80}") {
            let _ = resources(&text);
        }
    }
}
