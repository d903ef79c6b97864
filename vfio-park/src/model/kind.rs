//! What kinds of die there are.

use super::{
    config::{ConfigSpace, PortType, reg},
    engine::DOORBELL_OFFSET,
};
use crate::{BOOT0_GK210, GIB, MIB, PciId};

/// One base address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarLayout {
    /// 0 to 5; a 64-bit BAR is named by its first half.
    pub index: u8,
    /// A power of two.
    pub size: u64,
    /// 64 address bits and prefetchable; 32 and not, otherwise.
    pub is_64bit_prefetchable: bool,
}

impl BarLayout {
    /// Offset of its register.
    pub const fn register(&self) -> u16 {
        reg::BAR0 + 4 * self.index as u16
    }
}

/// What BAR0 registers other than the known ones do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherRegisters {
    /// They read as a PRI fault, as registers that do not exist.
    #[default]
    PriFault,
    /// They hold what was written, zero at first: for drivers that poke about.
    Scratch,
}

/// Everything in which one kind of die differs from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DieKind {
    /// Vendor and device.
    pub id: PciId,
    /// Subsystem device id (the vendor is the same).
    pub subsystem: u16,
    /// BARs.
    pub bars: [BarLayout; 3],
    /// `PMC_BOOT_0`.
    pub boot0: u32,
    /// `PMC_BOOT_42`.
    pub boot42: u32,
    /// Whole degrees C.
    pub temperature: u32,
    /// Memory partitions.
    pub partitions: u32,
    /// MiB of memory in each.
    pub partition_mib: u32,
    /// Offset of the compute engine's doorbell page in BAR1, where there is an engine.
    pub doorbell: Option<u64>,
    /// What registers that are not modelled do.
    pub other_registers: OtherRegisters,
}

const fn bars(bar1: u64) -> [BarLayout; 3] {
    [
        BarLayout { index: 0, size: 16 * MIB, is_64bit_prefetchable: false },
        BarLayout { index: 1, size: bar1, is_64bit_prefetchable: true },
        BarLayout { index: 3, size: 32 * MIB, is_64bit_prefetchable: true },
    ]
}

impl DieKind {
    /// One of the two dies of a Tesla K80. BAR1 shows 16 GiB of memory, all of it backed here.
    pub const fn gk210() -> Self {
        Self {
            id: PciId::GK210,
            subsystem: 0x106c,
            bars: bars(16 * GIB),
            boot0: BOOT0_GK210,
            boot42: 0x0f2a_1000,
            temperature: 41,
            partitions: 6,
            partition_mib: 2048,
            doorbell: Some(DOORBELL_OFFSET),
            other_registers: OtherRegisters::PriFault,
        }
    }

    /// A Tesla T4: another kind of NVIDIA GPU that sits beside the dies and must not notice them.
    pub const fn tu104() -> Self {
        Self {
            id: PciId { vendor: 0x10de, device: 0x1eb8 },
            subsystem: 0x12a2,
            bars: bars(256 * MIB),
            boot0: 0x1640_00a1,
            boot42: 0x1640_0000,
            temperature: 35,
            partitions: 4,
            partition_mib: 4096,
            doorbell: None,
            other_registers: OtherRegisters::PriFault,
        }
    }

    /// The same die with other registers behaving so.
    #[must_use]
    pub const fn with_other_registers(mut self, other: OtherRegisters) -> Self {
        self.other_registers = other;
        self
    }

    /// BAR number `index`.
    pub fn bar(&self, index: u8) -> Option<&BarLayout> {
        self.bars.iter().find(|bar| bar.index == index)
    }

    /// Size of BAR1 in bytes: how much address space a visit takes.
    pub const fn bar1_size(&self) -> u64 {
        self.bars[1].size
    }

    /// Config space as after power-on.
    pub fn config_space(&self) -> ConfigSpace {
        let mut config =
            ConfigSpace::new(self.id.vendor, self.id.device, 0x03_0200, PortType::Endpoint);
        config.define(0x2c, &self.id.vendor.to_le_bytes(), &[]);
        config.define(0x2e, &self.subsystem.to_le_bytes(), &[]);
        for bar in &self.bars {
            let mask = !(bar.size - 1) & !0xf;
            if bar.is_64bit_prefetchable {
                config.define(bar.register(), &0xcu64.to_le_bytes(), &mask.to_le_bytes());
            } else {
                config.define(bar.register(), &[0; 4], &mask.to_le_bytes()[..4]);
            }
        }
        config
    }
}
