//! Config space: bytes, which of their bits can be written, and what a reset leaves.

/// Bytes of config space with PCI Express.
pub const CONFIG_SIZE: usize = 4096;

/// Offsets in config space.
pub mod reg {
    /// Command.
    pub const COMMAND: u16 = 0x04;
    /// First BAR.
    pub const BAR0: u16 = 0x10;
    /// Bridge: primary, secondary and subordinate bus.
    pub const PRIMARY_BUS: u16 = 0x18;
    /// Bridge: base and limit of the 32-bit memory window.
    pub const MEMORY_BASE: u16 = 0x20;
    /// Bridge: base and limit of the prefetchable window, address bits 31-20.
    pub const PREF_BASE: u16 = 0x24;
    /// Bridge: upper 32 bits of the prefetchable base.
    pub const PREF_BASE_UPPER: u16 = 0x28;
    /// Bridge: upper 32 bits of the prefetchable limit.
    pub const PREF_LIMIT_UPPER: u16 = 0x2c;
    /// Bridge control.
    pub const BRIDGE_CONTROL: u16 = 0x3e;
    /// Power management control and status.
    pub const PMCSR: u16 = 0x64;
}

/// Bits of the command register.
pub mod command {
    /// Memory decode.
    pub const MEMORY: u16 = 1 << 1;
    /// Bus master.
    pub const MASTER: u16 = 1 << 2;
}

const CAP_PM: u16 = 0x60;
const CAP_MSI: u16 = 0x68;
const CAP_PCIE: u16 = 0x78;

/// What a function is in the PCI Express tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortType {
    /// A device.
    Endpoint,
    /// A port of the processor or chipset.
    Root,
    /// A switch's port towards the processor.
    Upstream,
    /// A switch's port towards a device.
    Downstream,
}

impl PortType {
    /// Capability version 2, with the type where the specification has it.
    const fn flags(self) -> u16 {
        let kind: u16 = match self {
            Self::Endpoint => 0,
            Self::Root => 4,
            Self::Upstream => 5,
            Self::Downstream => 6,
        };
        kind << 4 | 2
    }
}

/// The config space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: Box<[u8; CONFIG_SIZE]>,
    writable: Box<[u8; CONFIG_SIZE]>,
    after_reset: Box<[u8; CONFIG_SIZE]>,
}

impl ConfigSpace {
    /// A function with PM, MSI and PCI Express capabilities. `class` has 24 bits.
    pub fn new(vendor: u16, device: u16, class: u32, port: PortType) -> Self {
        let zero = || Box::new([0; CONFIG_SIZE]);
        let mut new = Self { bytes: zero(), writable: zero(), after_reset: zero() };
        new.define(0x00, &vendor.to_le_bytes(), &[]);
        new.define(0x02, &device.to_le_bytes(), &[]);
        // IO, memory, master, parity, SERR, INTx off.
        new.define(reg::COMMAND, &[0, 0], &[0x47, 0x05]);
        new.define(0x06, &0x0010u16.to_le_bytes(), &[]);
        new.define(0x08, &(class << 8 | 0xa1).to_le_bytes(), &[]);
        new.define(0x0c, &[0], &[0xff]);
        new.define(0x34, &[0x60], &[]);
        new.define(0x3c, &[0, 1], &[0xff, 0]);
        // D0 and D3hot only; no soft reset between them.
        new.define(CAP_PM, &[0x01, 0x68, 0x03, 0x00, 0x08, 0x00], &[0, 0, 0, 0, 0x03, 0]);
        // One vector, 64-bit address.
        new.define(CAP_MSI, &[0x05, 0x78, 0x80, 0x00], &[0, 0, 0x71, 0]);
        new.define(CAP_MSI + 4, &[0; 10], &[0xfc, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
        new.define(CAP_PCIE, &[0x10, 0x00], &[]);
        new.define(CAP_PCIE + 2, &port.flags().to_le_bytes(), &[]);
        // No function level reset (bit 28).
        new.define(CAP_PCIE + 0x04, &0x012c_8de1u32.to_le_bytes(), &[]);
        new.define(CAP_PCIE + 0x08, &0x0000_2910u32.to_le_bytes(), &[0xff, 0x7f, 0, 0]);
        // x16 at 8 GT/s, and so it runs.
        new.define(CAP_PCIE + 0x0c, &0x0045_4503u32.to_le_bytes(), &[]);
        new.define(CAP_PCIE + 0x10, &0x1103_0000u32.to_le_bytes(), &[0xf3, 0x0f, 0, 0]);
        new.define(CAP_PCIE + 0x2c, &0x0000_000eu32.to_le_bytes(), &[]);
        new.define(CAP_PCIE + 0x30, &0x0000_0003u32.to_le_bytes(), &[0x0f, 0, 0, 0]);
        new
    }

    /// Lays down bytes as a reset leaves them, and which of their bits can be written (none where
    /// `writable` is shorter).
    pub(crate) fn define(&mut self, offset: u16, value: &[u8], writable: &[u8]) {
        let at = usize::from(offset);
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.after_reset[at..at + value.len()].copy_from_slice(value);
        self.writable[at..at + writable.len()].copy_from_slice(writable);
    }

    /// Fills `data` from `offset`. Past the end is all-ones.
    pub fn read(&self, offset: u16, data: &mut [u8]) {
        for (at, byte) in (usize::from(offset)..).zip(data) {
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    /// Stores those bits of `data` that can be written.
    pub fn write(&mut self, offset: u16, data: &[u8]) {
        for (at, new) in (usize::from(offset)..CONFIG_SIZE).zip(data) {
            let mask = self.writable[at];
            self.bytes[at] = self.bytes[at] & !mask | new & mask;
        }
    }

    /// A 16-bit register.
    pub fn u16(&self, offset: u16) -> u16 {
        let mut data = [0; 2];
        self.read(offset, &mut data);
        u16::from_le_bytes(data)
    }

    /// A 32-bit register.
    pub fn u32(&self, offset: u16) -> u32 {
        let mut data = [0; 4];
        self.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    /// As after power-on or a bus reset.
    pub fn reset(&mut self) {
        self.bytes.copy_from_slice(&self.after_reset[..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space() -> ConfigSpace {
        ConfigSpace::new(0x10b5, 0x8747, 0x06_0400, PortType::Upstream)
    }

    proptest! {
        #[test]
        fn only_writable_bits_change(
            writes in prop::collection::vec((0u16..4100, prop::collection::vec(any::<u8>(), 1..=4)), 1..40)
        ) {
            let (mut config, fresh) = (space(), space());
            for (offset, data) in &writes {
                config.write(*offset, data);
            }
            for at in 0..CONFIG_SIZE {
                let mask = fresh.writable[at];
                prop_assert_eq!(config.bytes[at] & !mask, fresh.bytes[at] & !mask, "byte {:#x}", at);
            }
            config.reset();
            prop_assert_eq!(&config.bytes[..], &fresh.bytes[..]);
        }
    }

    #[test]
    fn the_capabilities_are_a_chain_that_ends() {
        let config = space();
        let (mut at, mut seen) = (config.u16(0x34) & 0xff, Vec::new());
        while at != 0 {
            seen.push(config.u16(at) & 0xff);
            at = config.u16(at) >> 8;
        }
        assert_eq!(seen, [0x01, 0x05, 0x10]);
    }

    #[test]
    fn past_the_end_is_all_ones() {
        let mut data = [0; 4];
        space().read(4094, &mut data);
        assert_eq!(data, [0, 0, 0xff, 0xff]);
    }
}
