//! The tools that write an initramfs, and what makes them bring the parker.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    machine::{Kernel, Machine},
    modprobe::plain,
    plan::{Content, Steps},
    root::Root,
    shellvars::{ShellVars, end_line},
};

/// A tool that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitramfsTool {
    /// `update-initramfs`, `mkinitramfs`.
    InitramfsTools,
    /// `dracut`.
    Dracut,
    /// `mkinitcpio`.
    Mkinitcpio,
}

/// A rebuild of images that are there.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The images it writes.
    pub images: Vec<PathBuf>,
}

/// What a build of an image of its own needs.
#[derive(Clone, Debug)]
pub struct OwnBuild {
    /// Folder for a configuration of its own.
    pub scratch: PathBuf,
    /// The image.
    pub image: PathBuf,
}

impl InitramfsTool {
    /// Every tool that is installed.
    pub fn detect(root: &Root) -> Vec<Self> {
        let known = [
            (Self::InitramfsTools, "mkinitramfs"),
            (Self::Dracut, "dracut"),
            (Self::Mkinitcpio, "mkinitcpio"),
        ];
        known
            .into_iter()
            .filter(|(_, name)| root.program(&[name]).is_some())
            .map(|(t, _)| t)
            .collect()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InitramfsTools => "initramfs-tools",
            Self::Dracut => "dracut",
            Self::Mkinitcpio => "mkinitcpio",
        }
    }

    /// The configuration that makes it bring `parker`, as file and line.
    pub fn line(self, root: &Root, parker: &str) -> (PathBuf, String) {
        let module = plain(parker);
        match self {
            Self::InitramfsTools => ("/etc/initramfs-tools/modules".into(), format!("{parker}\n")),
            Self::Dracut => (
                "/etc/dracut.conf.d/50-slot-cmdline.conf".into(),
                // add_drivers would only copy it; this loads it before udev.
                format!("force_drivers+=\" {parker} \"\n"),
            ),
            Self::Mkinitcpio => {
                let script = root.program(&["mkinitcpio"]);
                let script =
                    script.and_then(|path| root.text(path).ok().flatten()).unwrap_or_default();
                let own =
                    script.contains("mkinitcpio.conf.d") || root.is_dir("/etc/mkinitcpio.conf.d");
                let path = if own {
                    "/etc/mkinitcpio.conf.d/slot-cmdline.conf"
                } else {
                    "/etc/mkinitcpio.conf"
                };
                (path.into(), format!("MODULES=({module} \"${{MODULES[@]}}\")\n"))
            }
        }
    }

    /// Adds the edits that make every later image bring `parker`.
    pub fn configure(self, steps: &mut Steps<'_>, root: &Root, parker: &str) -> Result<()> {
        let (path, line) = self.line(root, parker);
        steps.edit(path, &format!("{} brings {parker}", self.name()), |old| with_line(old, &line))
    }

    /// The rebuilds of the images that `machine` boots from.
    pub fn jobs(self, root: &Root, machine: &Machine) -> Result<Vec<Job>> {
        if self == Self::Mkinitcpio {
            return presets(root);
        }
        let kernels = machine.kernels.iter().filter_map(|k| Some((k, self.image_of(root, k)?)));
        Ok(kernels
            .map(|(kernel, image)| {
                let image_arg = image.display().to_string();
                let argv: Vec<&str> = match self {
                    Self::Dracut => vec!["dracut", "--force", &image_arg, &kernel.release],
                    _ => vec!["update-initramfs", "-u", "-k", &kernel.release],
                };
                Job { argv: owned(&argv), images: vec![image] }
            })
            .collect())
    }

    /// The image that a kernel boots with.
    pub fn image_of(self, root: &Root, kernel: &Kernel) -> Option<PathBuf> {
        let release = &kernel.release;
        let names = [
            format!("/boot/initrd.img-{release}"),
            format!("/boot/initramfs-{release}.img"),
            "/boot/initramfs-linux.img".to_owned(),
        ];
        names.into_iter().map(PathBuf::from).find(|path| root.is_file(path))
    }

    /// A build beside the images that are there, from a configuration of its own: nothing that the
    /// old entries use is touched.
    pub fn own_build(
        self,
        steps: &mut Steps<'_>,
        root: &Root,
        kernel: &Kernel,
        parker: &str,
        build: &OwnBuild,
    ) -> Result<Vec<String>> {
        let (release, out) = (&kernel.release, build.image.display().to_string());
        Ok(match self {
            Self::Dracut => owned(&["dracut", "--force", "--force-drivers", parker, &out, release]),
            Self::InitramfsTools => {
                copy_tree(
                    steps,
                    root,
                    Path::new("/etc/initramfs-tools"),
                    &build.scratch,
                    &|path, content| {
                        let ours = path == Path::new("/etc/initramfs-tools/modules");
                        if ours {
                            content.with(with_line(Some(&content.bytes), &format!("{parker}\n")))
                        } else {
                            content
                        }
                    },
                )?;
                owned(&[
                    "mkinitramfs",
                    "-d",
                    &build.scratch.display().to_string(),
                    "-o",
                    &out,
                    release,
                ])
            }
            Self::Mkinitcpio => {
                let mut config = root.read("/etc/mkinitcpio.conf")?.unwrap_or_default();
                for path in root.files("/etc/mkinitcpio.conf.d", ".conf")? {
                    config.push(b'\n');
                    config.extend(root.read(path)?.unwrap_or_default());
                }
                let line = self.line(root, parker).1;
                let path = build.scratch.join("mkinitcpio.conf");
                steps.write(
                    &path,
                    "configuration of the trial's own image",
                    Content::new(with_line(Some(&config), &line)),
                )?;
                owned(&["mkinitcpio", "-k", release, "-c", &path.display().to_string(), "-g", &out])
            }
        })
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `old` with `line` at its end, unless it is there.
pub fn with_line(old: Option<&[u8]>, line: &str) -> Vec<u8> {
    let mut bytes = old.unwrap_or_default().to_vec();
    let wanted = line.trim_end().as_bytes();
    if bytes.split(|b| *b == b'\n').any(|l| l.trim_ascii() == wanted) {
        return bytes;
    }
    end_line(&mut bytes);
    bytes.extend_from_slice(line.as_bytes());
    bytes
}

fn presets(root: &Root) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for path in root.files("/etc/mkinitcpio.d", ".preset")? {
        let mut vars = ShellVars::default();
        vars.read(&root.text(&path)?.unwrap_or_default());
        let presets = vars.get("PRESETS").split_ascii_whitespace().map(str::to_owned);
        let images = presets
            .flat_map(|p| [format!("{p}_image"), format!("{p}_uki"), format!("{p}_efi_image")]);
        let images: Vec<_> = images
            .map(|name| vars.get(&name).to_owned())
            .filter(|image| !image.is_empty())
            .map(PathBuf::from)
            .collect();
        if let Some(name) =
            path.file_stem().and_then(|stem| stem.to_str()).filter(|_| !images.is_empty())
        {
            jobs.push(Job { argv: owned(&["mkinitcpio", "-p", name]), images });
        }
    }
    Ok(jobs)
}

/// Plans copies of every file below `from`.
fn copy_tree(
    steps: &mut Steps<'_>,
    root: &Root,
    from: &Path,
    to: &Path,
    change: &dyn Fn(&Path, Content) -> Content,
) -> Result<()> {
    for name in root.list(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if root.is_dir(&source) {
            copy_tree(steps, root, &source, &target, change)?;
        } else if let Some(content) = root.content(&source)? {
            steps.write(
                &target,
                "configuration of the trial's own image",
                change(&source, content),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_put_once_and_never_joined_to_another() {
        assert_eq!(with_line(None, "a\n"), b"a\n");
        assert_eq!(with_line(Some(b"x"), "a\n"), b"x\na\n");
        assert_eq!(with_line(Some(b"x \\\n"), "a\n"), b"x \\\n\na\n");
        assert_eq!(with_line(Some(b"x \\"), "a\n"), b"x \\\n\na\n");
        assert_eq!(with_line(Some(b" a \r\nb"), "a\n"), b" a \r\nb");
    }
}
