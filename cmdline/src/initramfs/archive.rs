//! cpio archives in the `newc` form, as the kernel unpacks them.

/// A member of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveEntry<'a> {
    /// Its path.
    pub name: &'a str,
    /// File type and permissions.
    pub mode: u32,
    /// Its bytes; a link's target.
    pub data: &'a [u8],
}

/// Length of a header.
const HEADER: usize = 110;
/// Name of the member that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// Whether `bytes` start like an archive.
pub(super) fn starts(bytes: &[u8]) -> bool {
    bytes.starts_with(b"070701") || bytes.starts_with(b"070702")
}

/// Reads one member at the start of `bytes` and says where the next begins; `None` at the end of
/// the archive (with where it ends) or where this is none.
pub(super) enum Step<'a> {
    Member(ArchiveEntry<'a>, usize),
    End(usize),
    Broken,
}

pub(super) fn step(bytes: &[u8]) -> Step<'_> {
    let parse = || {
        let header = bytes.get(..HEADER).filter(|_| starts(bytes))?;
        let field = |index: usize| {
            let digits = std::str::from_utf8(&header[6 + index * 8..14 + index * 8]).ok()?;
            usize::from_str_radix(digits, 16).ok()
        };
        let (mode, size, name_size) = (field(1)?, field(6)?, field(11)?);
        let name_end = HEADER.checked_add(name_size)?;
        let name = bytes.get(HEADER..name_end)?.strip_suffix(b"\0")?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(size)?;
        let name = std::str::from_utf8(name).unwrap_or("");
        let data = bytes.get(start..end)?;
        let mode = u32::try_from(mode).ok()?;
        Some((ArchiveEntry { name, mode, data }, end.checked_next_multiple_of(4)?))
    };
    match parse() {
        Some((entry, next)) if entry.name == TRAILER => Step::End(next.min(bytes.len())),
        Some((entry, next)) => Step::Member(entry, next.min(bytes.len())),
        None => Step::Broken,
    }
}

/// An archive of these files and the folders above them, all root's; the same bytes every time.
pub fn archive_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut number = 0;
    let mut put = |name: &str, mode: u32, data: &[u8]| {
        number += 1;
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        let fields =
            [number, mode, 0, 0, links, 0, count(data.len()), 0, 0, 0, 0, count(name.len() + 1), 0];
        out.extend_from_slice(b"070701");
        for field in fields {
            out.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    let mut folders: Vec<&str> = Vec::new();
    for (name, data) in files {
        for (at, _) in name.match_indices('/') {
            let folder = &name[..at];
            if !folders.contains(&folder) {
                folders.push(folder);
                put(folder, 0o040_755, &[]);
            }
        }
        put(name, 0o100_644, data);
    }
    put(TRAILER, 0, &[]);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("files put into an archive here are configuration, far below 4 GiB")
}
