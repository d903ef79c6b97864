//! Which GPUs the driver may see: the one in question and no other, so that no other die is touched.
//!
//! `CUDA_VISIBLE_DEVICES` takes UUIDs, or numbers in an order that `CUDA_DEVICE_ORDER` sets. A UUID is the
//! better one, since a die that fails to start shifts the numbers; the driver shows it only once the die
//! was in use, though. Until then it is the die's place among the PCI addresses that nvidia is bound to.

use std::{fs, io, path::Path};

use vfio_park::Bdf;

/// The environment of a process that is to see one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visible(Option<String>);

impl Visible {
    /// Only the GPU at `bdf`, as `/proc` under `root` tells it. Where the driver lists no GPUs at all
    /// (some containers hide `/proc/driver`) nothing is restricted; the GPU is chosen by its address
    /// all the same.
    pub(crate) fn only(bdf: Bdf, root: &Path) -> io::Result<Self> {
        let folder = root.join("proc/driver/nvidia/gpus");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self(None)),
            Err(error) => return Err(error),
        };
        let mut bound = Vec::new();
        for entry in entries {
            if let Some(found) =
                entry?.file_name().to_str().and_then(|name| name.parse::<Bdf>().ok())
            {
                bound.push(found);
            }
        }
        bound.sort_unstable();
        let Some(place) = bound.iter().position(|&found| found == bdf) else {
            // The driver has not got it: it is to see nothing, and to say so.
            return Ok(Self(Some(String::new())));
        };
        let information = folder.join(bdf.to_string()).join("information");
        let uuid = fs::read_to_string(information).ok().and_then(|text| uuid(&text));
        Ok(Self(Some(uuid.unwrap_or_else(|| place.to_string()))))
    }

    /// The variables, to be set before the driver starts.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let visible = self.0.as_deref().map(|value| ("CUDA_VISIBLE_DEVICES", value));
        [("CUDA_DEVICE_ORDER", "PCI_BUS_ID")].into_iter().chain(visible)
    }
}

/// The UUID in an information file; until the die was in use there are question marks in its place.
fn uuid(information: &str) -> Option<String> {
    let value = information.lines().find_map(|line| line.strip_prefix("GPU UUID:"))?.trim();
    (value.starts_with("GPU-") && !value.contains('?')).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(dies: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (bdf, uuid) in dies {
            let folder = root.path().join("proc/driver/nvidia/gpus").join(bdf);
            fs::create_dir_all(&folder).expect("a folder in it");
            let text = format!("Model: \t\t Tesla K80\nIRQ:   \t\t 30\nGPU UUID: \t {uuid}\n");
            fs::write(folder.join("information"), text).expect("a file in it");
        }
        root
    }

    fn seen(root: &tempfile::TempDir, bdf: &str) -> Option<String> {
        Visible::only(bdf.parse().expect("an address"), root.path()).expect("readable").0
    }

    const UNUSED: &str = "GPU-????????-????-????-????-????????????";

    #[test]
    fn a_die_is_named_by_its_uuid_or_by_its_place_on_the_bus() {
        let root = machine(&[
            ("0000:84:00.0", UNUSED),
            ("0000:0a:00.0", "GPU-0f0f0f0f-1111-2222-3333-444444444444"),
            ("0000:03:00.0", UNUSED),
        ]);
        assert_eq!(seen(&root, "03:00.0").as_deref(), Some("0"));
        assert_eq!(seen(&root, "84:00.0").as_deref(), Some("2"));
        let uuid = seen(&root, "0a:00.0");
        assert_eq!(uuid.as_deref(), Some("GPU-0f0f0f0f-1111-2222-3333-444444444444"));
    }

    #[test]
    fn a_die_that_the_driver_has_not_got_hides_all_others() {
        let root = machine(&[("0000:03:00.0", UNUSED)]);
        assert_eq!(seen(&root, "04:00.0").as_deref(), Some(""));
    }

    #[test]
    fn nothing_is_restricted_where_the_driver_lists_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(seen(&root, "03:00.0"), None);
    }
}
