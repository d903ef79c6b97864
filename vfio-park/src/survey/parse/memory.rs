//! `/proc/iomem` and the address sizes of `/proc/cpuinfo`.

use crate::{AddressRange, IomemEntry};

/// `/proc/iomem`, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iomem {
    /// The entries, in the file's order; empty where the addresses are hidden.
    pub entries: Vec<IomemEntry>,
    /// The kernel shows zeros to those who may not see addresses.
    pub hidden: bool,
    /// Lines that make no sense.
    pub garbage: usize,
}

/// Parses `/proc/iomem`.
///
/// ```
/// use vfio_park::survey::parse::iomem;
///
/// let text = "c0000000-febfffff : PCI Bus 0000:00\n  c0000000-c0ffffff : 0000:03:00.0\n";
/// let parsed = iomem(text);
/// assert_eq!(parsed.entries[1].depth, 1);
/// assert_eq!(parsed.entries[1].name, "0000:03:00.0");
///
/// assert!(iomem("00000000-00000000 : System RAM\n").hidden);
/// ```
pub fn iomem(text: &str) -> Iomem {
    let mut parsed = Iomem::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match entry(line) {
            Some(entry) => parsed.entries.push(entry),
            None => parsed.garbage += 1,
        }
    }
    parsed.hidden =
        !parsed.entries.is_empty() && parsed.entries.iter().all(|entry| entry.range.last() == 0);
    if parsed.hidden {
        parsed.entries.clear();
    }
    parsed
}

fn entry(line: &str) -> Option<IomemEntry> {
    let rest = line.trim_start_matches(' ');
    let depth = u8::try_from((line.len() - rest.len()) / 2).ok()?;
    let (range, name) = rest.split_once(" : ")?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
    };
    let range = AddressRange::from_first_last(number(first)?, number(last)?)?;
    Some(IomemEntry { range, name: name.to_owned(), depth })
}

/// Physical address bits from `/proc/cpuinfo`: the fewest that a processor names.
///
/// ```
/// use vfio_park::survey::parse::physical_bits;
///
/// assert_eq!(physical_bits("address sizes\t: 36 bits physical, 48 bits virtual\n"), Some(36));
/// assert_eq!(physical_bits("flags : fpu\n"), None);
/// ```
pub fn physical_bits(cpuinfo: &str) -> Option<u8> {
    let sizes = cpuinfo.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "address sizes").then_some(value)?.split_once(" bits physical")
    });
    sizes
        .filter_map(|(bits, _)| bits.trim().parse().ok())
        .filter(|bits| (1..=64).contains(bits))
        .min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn garbage_is_counted() {
        let parsed = iomem("0-0 : a\nf-1 : turned round\n+1-2 : sign\nno range\n  1000-1fff : b\n");
        assert_eq!((parsed.entries.len(), parsed.garbage, parsed.hidden), (2, 3, false));
    }

    #[test]
    fn an_empty_file_hides_nothing() {
        assert_eq!(iomem("\n"), Iomem::default());
    }

    #[test]
    fn the_weakest_processor_counts() {
        let cpu = |bits| format!("address sizes : {bits} bits physical, 48 bits virtual\n");
        assert_eq!(physical_bits(&[cpu(39), cpu(36), cpu(255)].concat()), Some(36));
        assert_eq!(physical_bits(&cpu(0)), None);
    }

    proptest! {
        #[test]
        fn any_text_parses(text in "[ 0-9a-f:\\-\\nS]{0,200}") {
            let _ = iomem(&text);
            let _ = physical_bits(&text);
        }
    }
}
