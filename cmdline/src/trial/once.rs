//! Whether a one-shot would really be used once. Whatever is not known to work is refused.

use std::{fs::File, path::Path};

use rustix::fs::{IFlags, SeekFrom, ioctl_getflags, seek};

use super::mounts::{Mount, mount_of};
use crate::{
    error::{Error, Result},
    grub::{Env, Features},
    loader::Grub,
    machine::efi_text,
    root::Root,
};

/// What to do where a one-shot is not safe.
const OTHERWISE: &str = "Use `slot-cmdline install` while somebody can choose the old entry at a (serial) console, or boot by systemd-boot, whose boot counting falls back by itself";

fn refuse(reason: impl Into<String>) -> Error {
    Error::refused(reason, OTHERWISE)
}

/// File systems that GRUB writes to: it overwrites the blocks of a file in place.
const GRUB_WRITES: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "vfat"];
/// Disks that GRUB writes to. Mappers and arrays it can only read.
const PLAIN_DISKS: [&str; 7] = ["sd", "vd", "hd", "xvd", "nvme", "mmcblk", "nbd"];

/// Checks that GRUB can clear its one-shot entry.
pub(super) fn grub(root: &Root, grub: &Grub) -> Result<()> {
    let cfg = root.text(&grub.cfg)?.unwrap_or_default();
    let features = Features::read(&cfg);
    let name = grub.cfg.display();
    if !features.one_shot {
        return Err(refuse(format!(
            "{name} has no code that uses `next_entry` once and clears it"
        )));
    }
    if !features.custom_cfg {
        return Err(refuse(format!(
            "{name} does not source custom.cfg (is /etc/grub.d/41_custom executable?), so the trial can have no entry of its own"
        )));
    }
    let Some(mount) = mount_of(root, &grub.env)? else {
        return Err(refuse("it cannot be told what /boot lies on (no /proc/self/mountinfo)"));
    };
    writable_by_grub(root, &mount)?;
    env_block(root, &grub.env)
}

fn writable_by_grub(root: &Root, mount: &Mount) -> Result<()> {
    let (at, kind) = (mount.at.display(), &mount.kind);
    if !GRUB_WRITES.contains(&kind.as_str()) {
        return Err(refuse(format!(
            "{at} is {kind}, to which GRUB cannot write: the trial would come back at every boot"
        )));
    }
    if mount.read_only {
        return Err(refuse(format!("{at} is mounted read-only")));
    }
    let folder = format!("/sys/dev/block/{}", mount.device);
    let uuid = root.word(format!("{folder}/dm/uuid"));
    let layer = match uuid.split('-').next() {
        Some("LVM") => Some("LVM"),
        Some("CRYPT") => Some("an encrypted volume"),
        Some("") | None => None,
        Some(_) => Some("a device-mapper volume"),
    };
    let array = root.is_dir(format!("{folder}/md")).then_some("an md array");
    if let Some(layer) = layer.or(array) {
        return Err(refuse(format!(
            "{at} is on {layer}, to which GRUB cannot write: the trial would come back at every boot"
        )));
    }
    let device = root.real(&folder)?;
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or("");
    if !root.is_dir(&folder) || !PLAIN_DISKS.iter().any(|disk| name.starts_with(disk)) {
        return Err(refuse(format!(
            "{at} is on {name}, which is not known to be a plain disk that GRUB can write to"
        )));
    }
    // A partition's disk may itself be an array or a mapper.
    let disk = device.parent().and_then(|disk| disk.file_name()).and_then(|name| name.to_str());
    if disk.is_some_and(|disk| disk.starts_with("md") || disk.starts_with("dm-")) {
        return Err(refuse(format!(
            "{at} is a partition of {}, to which GRUB cannot write",
            disk.unwrap_or("")
        )));
    }
    Ok(())
}

/// GRUB overwrites blocks: the file has to have some of its own, plain ones.
fn env_block(root: &Root, path: &Path) -> Result<()> {
    let Some(bytes) = root.read(path)? else { return Ok(()) };
    let name = path.display();
    if Env::parse(&bytes).is_none() {
        return Err(refuse(format!(
            "{name} is no environment block of 1024 bytes: make it anew with grub-editenv"
        )));
    }
    let host = root.host(&root.real(path)?);
    let file = File::open(&host).map_err(Error::io("open", path))?;
    let whole = bytes.len() as u64;
    if seek(&file, SeekFrom::Hole(0)).is_ok_and(|hole| hole < whole) {
        return Err(refuse(format!("{name} is a sparse file, which GRUB does not write to")));
    }
    let odd = IFlags::COMPRESSED | IFlags::from_bits_retain(0x800 | 0x1000_0000);
    if ioctl_getflags(&file).is_ok_and(|flags| flags.intersects(odd)) {
        return Err(refuse(format!(
            "{name} is compressed, encrypted or kept inside its inode: GRUB cannot overwrite it in place"
        )));
    }
    Ok(())
}

/// Checks that systemd-boot can be told its next entry.
pub(super) fn systemd_boot(root: &Root) -> Result<()> {
    let booted = efi_text(root, "LoaderInfo").unwrap_or_default();
    if !booted.starts_with("systemd-boot") {
        return Err(refuse(format!(
            "systemd-boot did not start this boot (LoaderInfo is `{booted}`), so a one-shot would not be read"
        )));
    }
    let variables = Path::new("/sys/firmware/efi/efivars");
    let mount = mount_of(root, variables)?;
    let there = mount.as_ref().is_some_and(|mount| mount.kind == "efivarfs");
    if !there || mount.is_some_and(|mount| mount.read_only) {
        return Err(Error::refused(
            "EFI variables are not writable here: a one-shot would be lost without a word",
            "Mount efivarfs read-write at /sys/firmware/efi/efivars, or name the trial's entry with boot counting (+1) by hand",
        ));
    }
    Ok(())
}
