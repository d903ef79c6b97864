//! A plan for people and for programs.

use std::fmt;

use diffy::create_patch_bytes;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{Content, FileChange, Plan, Step};

impl FileChange {
    /// The difference in the unified form.
    pub fn diff(&self) -> String {
        difference(self.before.as_ref(), self.after.as_ref())
    }
}

/// The difference between two contents in the unified form, without the names of files.
pub fn difference(before: Option<&Content>, after: Option<&Content>) -> String {
    let bytes = |content: Option<&Content>| content.map_or(Vec::new(), |c| c.bytes.clone());
    let (old, new) = (bytes(before), bytes(after));
    if old.contains(&0) || new.contains(&0) {
        return format!("(binary, {} bytes before, {} after)\n", old.len(), new.len());
    }
    let patch = create_patch_bytes(&old, &new).to_bytes();
    let text = String::from_utf8_lossy(&patch);
    text.lines().skip(2).fold(String::new(), |all, line| all + line + "\n")
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = &self.purpose;
        writeln!(f, "parker:    {} ({})", purpose.choice.parker, purpose.choice.why)?;
        writeln!(f, "loader:    {}", purpose.loader)?;
        writeln!(f, "initramfs: {}", purpose.initramfs.as_deref().unwrap_or("nothing to do"))?;
        for note in &purpose.notes {
            writeln!(f, "note:      {note}")?;
        }
        if self.is_empty() {
            writeln!(f, "\nnothing to change: everything is as wanted")?;
        }
        for step in &self.steps {
            writeln!(f)?;
            write!(f, "{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeFolder(path) => writeln!(f, "make folder {}", path.display()),
            Self::File(change) => {
                let name = change.path.display();
                let (old, new) = (change.before.is_some(), change.after.is_some());
                writeln!(f, "# {}", change.why)?;
                writeln!(f, "--- {}", if old { format!("{name}") } else { "/dev/null".into() })?;
                writeln!(f, "+++ {}", if new { format!("{name}") } else { "/dev/null".into() })?;
                f.write_str(&change.diff())
            }
            Self::Run(run) => writeln!(f, "# {}\nrun {}", run.why, run.command()),
            Self::Append { image, files, .. } => {
                writeln!(f, "# put behind the image as an archive of its own")?;
                for (name, text) in files {
                    writeln!(f, "append to {}: /{name}", image.display())?;
                    for line in text.lines() {
                        writeln!(f, "+{line}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Plan", 2)?;
        out.serialize_field("purpose", &self.purpose)?;
        out.serialize_field("steps", &self.steps)?;
        out.end()
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Step", 5)?;
        match self {
            Self::MakeFolder(path) => {
                out.serialize_field("kind", "make_folder")?;
                out.serialize_field("path", path)?;
            }
            Self::File(change) => {
                out.serialize_field("kind", "file")?;
                out.serialize_field("path", &change.path)?;
                out.serialize_field("why", &change.why)?;
                out.serialize_field("existed", &change.before.is_some())?;
                out.serialize_field("diff", &change.diff())?;
            }
            Self::Run(run) => {
                out.serialize_field("kind", "run")?;
                out.serialize_field("argv", &run.argv)?;
                out.serialize_field("why", &run.why)?;
                out.serialize_field("outputs", &run.outputs)?;
            }
            Self::Append { image, files, .. } => {
                out.serialize_field("kind", "append")?;
                out.serialize_field("path", image)?;
                out.serialize_field("files", files)?;
            }
        }
        out.end()
    }
}
