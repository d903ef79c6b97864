//! QEMU's monitor: which device got which bus number.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use vfio_park::{Bdf, Slot};

use crate::topology::{Node, Role, Topology};

const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Asks a running QEMU for its PCI functions.
pub(super) fn topology(socket: &Path, slots: Vec<Slot>) -> Result<Topology> {
    let stream = UnixStream::connect(socket)
        .with_context(|| format!("connect to QEMU's monitor at {}", socket.display()))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut writer = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    let mut ask = |command: &str| -> Result<Value> {
        writeln!(writer, "{}", json!({ "execute": command }))?;
        for line in lines.by_ref() {
            let mut answer: Value = serde_json::from_str(&line?)?;
            // The greeting and events come in between.
            if let Some(error) = answer.get("error") {
                bail!("QEMU's monitor refuses {command}: {error}");
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
        bail!("QEMU's monitor ended before it answered {command}")
    };
    ask("qmp_capabilities")?;
    let buses: Vec<Bus> = serde_json::from_value(ask("query-pci")?)?;
    let mut nodes = BTreeMap::new();
    for bus in buses {
        add(&mut nodes, bus.devices, None)?;
    }
    Ok(Topology { nodes, slots })
}

#[derive(Deserialize)]
struct Bus {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    bus: u8,
    slot: u8,
    function: u8,
    qdev_id: String,
    pci_bridge: Option<Bridge>,
}

#[derive(Deserialize)]
struct Bridge {
    #[serde(default)]
    devices: Vec<Device>,
}

fn role(name: &str) -> Role {
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).unwrap_or_default();
        !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
    };
    if numbered("die") {
        Role::Die
    } else if ["rp", "up", "dn"].into_iter().any(numbered) {
        Role::Gate
    } else if name.starts_with("neighbour") {
        Role::Neighbour
    } else if numbered("background") {
        Role::Rig
    } else {
        Role::Board
    }
}

fn add(nodes: &mut BTreeMap<Bdf, Node>, devices: Vec<Device>, parent: Option<Bdf>) -> Result<()> {
    for device in devices {
        let bdf = Bdf::new(0, device.bus, device.slot, device.function)
            .with_context(|| format!("QEMU has `{}` at no PCI address", device.qdev_id))?;
        let bridge = device.pci_bridge.is_some();
        let role = role(&device.qdev_id);
        nodes.insert(bdf, Node { name: device.qdev_id, role, parent, bridge });
        if let Some(bridge) = device.pci_bridge {
            add(nodes, bridge.devices, Some(bdf))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_roles() {
        for (name, expected) in [
            ("die12", Role::Die),
            ("rp0", Role::Gate),
            ("dn15", Role::Gate),
            ("neighbour", Role::Neighbour),
            ("neighbour-port", Role::Neighbour),
            ("background0", Role::Rig),
            ("", Role::Board),
            ("die", Role::Board),
        ] {
            assert_eq!(role(name), expected, "{name}");
        }
    }
}
