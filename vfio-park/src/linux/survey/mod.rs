//! Reads the machine from sysfs and procfs. Writes nothing and wakes nothing.

mod function;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, iter,
    path::Path,
};

pub(super) use self::function::unset;
use self::function::{Below, Folder};
use super::{
    Roots,
    roots::{failed, text},
};
use crate::{
    Bdf, Function, MachineError, PciId, PowerState, Survey,
    survey::parse::{iomem, physical_bits},
};

/// Reads the machine below `roots`; dies are the functions with one of `ids`.
///
/// What can't be read or makes no sense becomes an oddity, in words. Of functions in `moving` the
/// `driver_override` is not read: the kernel makes its readers wait for as long as a driver takes or
/// gives up the device.
///
/// # Errors
/// Where PCI functions can't even be listed.
pub fn read(roots: &Roots, ids: &[PciId], moving: &BTreeSet<Bdf>) -> Result<Survey, MachineError> {
    let mut oddities = Vec::new();
    let functions = functions(roots, moving, &mut oddities)?;
    let mut survey = Survey::assemble(functions, ids);
    let space = iomem(&file(&roots.proc.join("iomem"), &mut oddities));
    if space.hidden {
        oddities.push("iomem: addresses are hidden, only root sees them".to_owned());
    }
    if space.garbage > 0 {
        oddities.push(format!("iomem: {} lines make no sense", space.garbage));
    }
    survey.iomem = space.entries;
    survey.physical_bits = physical_bits(&file(&roots.proc.join("cpuinfo"), &mut oddities));
    if survey.physical_bits.is_none() {
        oddities.push("cpuinfo: it does not say how many address bits there are".to_owned());
    }
    survey.oddities.splice(0..0, oddities);
    Ok(survey)
}

/// Every function. Power states come first: they decide whose config space may be read.
fn functions(
    roots: &Roots,
    moving: &BTreeSet<Bdf>,
    oddities: &mut Vec<String>,
) -> Result<BTreeMap<Bdf, Function>, MachineError> {
    let devices = &*roots.devices();
    let mut functions = BTreeMap::new();
    for entry in fs::read_dir(devices).map_err(failed("list", devices))? {
        let name = entry.map_err(failed("list", devices))?.file_name();
        let name = name.to_string_lossy();
        let Ok(bdf) = name.parse::<Bdf>() else {
            oddities.push(format!("`{name}` is no PCI address, it is left out"));
            continue;
        };
        let path = devices.join(&*name);
        let read = Folder::new(&path, bdf, oddities).read(moving.contains(&bdf));
        if let Some(function) = read {
            functions.insert(bdf, function);
        }
    }
    oddities.sort();
    let suspended: BTreeSet<Bdf> =
        functions.keys().copied().filter(|bdf| suspended(&roots.function(*bdf))).collect();
    let below = |function: &Function| (function.bdf, below(&functions, &suspended, function));
    let known: Vec<(Bdf, Below)> = functions.values().map(below).collect();
    for (bdf, below) in known {
        let path = roots.function(bdf);
        if let Some(function) = functions.get_mut(&bdf) {
            Folder::new(&path, bdf, oddities).complete(function, below);
        }
    }
    Ok(functions)
}

/// The kernel wakes the bridge above a function, and a function without power, before it reads
/// config space for sysfs.
fn below(
    functions: &BTreeMap<Bdf, Function>,
    suspended: &BTreeSet<Bdf>,
    function: &Function,
) -> Below {
    let path = |from| iter::successors(functions.get(&from), |f| functions.get(&f.parent?));
    let above = |from| path(from).skip(1).take(functions.len());
    let sleeps = |bridge: &Function| {
        !matches!(bridge.power, PowerState::D0 | PowerState::Unknown)
            || suspended.contains(&bridge.bdf)
    };
    let under = |f: &&Function| above(f.bdf).any(|bridge| bridge.bdf == function.bdf);
    let buses = || functions.values().filter(under).map(|f| f.bdf.bus());
    Below {
        asleep: function.power == PowerState::D3cold || above(function.bdf).any(sleeps),
        buses: buses().min().zip(buses().max()),
    }
}

/// Whether runtime power management has put a function to sleep. Its `power_state` may be D0 all the
/// same; waking it writes its config space.
fn suspended(folder: &Path) -> bool {
    let status = text(&folder.join("power/runtime_status"));
    matches!(status.ok().flatten().as_deref(), Some("suspended" | "suspending"))
}

/// Vendor and device of one function, as the kernel first saw them.
pub(super) fn id(roots: &Roots, bdf: Bdf) -> Option<PciId> {
    Folder::new(&roots.function(bdf), bdf, &mut Vec::new()).id()
}

fn file(path: &Path, oddities: &mut Vec<String>) -> String {
    let read = text(path).map_err(|error| error.to_string());
    let read = read.and_then(|text| text.ok_or_else(|| "it is missing".to_owned()));
    read.unwrap_or_else(|error| {
        oddities.push(format!("{}: {error}", path.display()));
        String::new()
    })
}
