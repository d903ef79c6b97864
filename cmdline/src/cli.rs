//! The command line of `slot-cmdline` itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use vfio_park::{Bdf, PciId};

use crate::{
    initramfs::InitramfsTool,
    loader::LoaderKind,
    machine::DieIds,
    parker::Asked,
    plan::{Blacklist, Options},
    root::Root,
};

/// Parks the dies at boot by the kernel command line, and takes that back byte for byte.
#[derive(Clone, Debug, Parser)]
#[command(name = "slot-cmdline", version, after_help = crate::exit::TABLE)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Work on the file system below this folder. Commands are then only printed, to be run inside.
    #[arg(long, global = true, default_value = "/")]
    pub root: PathBuf,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// PCI id of a die; may be given again.
    #[arg(long = "die-id", global = true, value_name = "VVVV:DDDD")]
    pub die_ids: Vec<PciId>,
    /// This function is a normal GPU although it has a die's id; may be given again.
    #[arg(long, global = true, value_name = "BDF")]
    pub keep: Vec<Bdf>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Print what install would do.
    Plan(Choices),
    /// Park the dies at every boot from the next one on.
    Install {
        /// How.
        #[command(flatten)]
        choices: Choices,
        /// Print the plan and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Park the dies at the next boot only: confirm makes it permanent, anything else ends it.
    Trial {
        /// How.
        #[command(flatten)]
        choices: Choices,
        /// Print the plan and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Make the trial that is running permanent, if check passes.
    Confirm,
    /// Take everything back, byte for byte.
    Remove {
        /// Print the plan and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Keep edits that somebody made since, and take only our changes out.
        #[arg(long)]
        merge: bool,
    },
    /// Compare what runs with what is installed, and explain. Never touches a device.
    Check(Choices),
}

/// What is otherwise detected.
#[derive(Clone, Debug, Default, Args)]
pub struct Choices {
    /// The driver that dies wait on.
    #[arg(long)]
    pub parker: Option<ParkerArg>,
    /// The boot loader.
    #[arg(long)]
    pub loader: Option<LoaderArg>,
    /// The initramfs tool.
    #[arg(long)]
    pub initramfs: Option<InitramfsArg>,
    /// Move lines that keep nvidia out aside; remove puts them back.
    #[arg(long)]
    pub replace_blacklist: bool,
}

/// `--parker`.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)]
pub enum ParkerArg {
    VfioPci,
    PciStub,
}

/// `--loader`.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)]
pub enum LoaderArg {
    Grub,
    SystemdBoot,
    Uki,
}

/// `--initramfs`.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs)]
pub enum InitramfsArg {
    InitramfsTools,
    Dracut,
    Mkinitcpio,
}

impl Cli {
    /// The file system to work on.
    pub fn root(&self) -> Root {
        Root::new(&self.root)
    }

    /// What counts as a die.
    pub fn die_ids(&self) -> DieIds {
        let mut ids = DieIds::default();
        if !self.die_ids.is_empty() {
            ids.ids.clone_from(&self.die_ids);
        }
        ids.keep.clone_from(&self.keep);
        ids
    }
}

impl From<&Choices> for Options {
    fn from(choices: &Choices) -> Self {
        Self {
            parker: match choices.parker {
                None => Asked::Nothing,
                Some(ParkerArg::VfioPci) => Asked::VfioPci,
                Some(ParkerArg::PciStub) => Asked::PciStub,
            },
            loader: choices.loader.map(|loader| match loader {
                LoaderArg::Grub => LoaderKind::Grub,
                LoaderArg::SystemdBoot => LoaderKind::SystemdBoot,
                LoaderArg::Uki => LoaderKind::Uki,
            }),
            initramfs: choices.initramfs.map(|tool| match tool {
                InitramfsArg::InitramfsTools => InitramfsTool::InitramfsTools,
                InitramfsArg::Dracut => InitramfsTool::Dracut,
                InitramfsArg::Mkinitcpio => InitramfsTool::Mkinitcpio,
            }),
            blacklist: if choices.replace_blacklist { Blacklist::Replace } else { Blacklist::Keep },
        }
    }
}
