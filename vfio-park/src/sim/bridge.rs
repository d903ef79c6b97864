//! Bridges: windows as the registers have them.

use crate::{
    Window,
    model::{ConfigSpace, PortType, command, reg},
};

/// Vendor and device of the ports: of an Ivy Bridge processor, and of a PLX PEX 8747.
const fn ids(port: PortType) -> (u16, u16) {
    match port {
        PortType::Root => (0x8086, 0x0151),
        PortType::Upstream | PortType::Downstream | PortType::Endpoint => (0x10b5, 0x8747),
    }
}

/// A bridge as after power-on: nothing forwarded, not even config accesses.
pub(super) fn bridge(port: PortType) -> ConfigSpace {
    let (vendor, device) = ids(port);
    let mut config = ConfigSpace::new(vendor, device, 0x06_0400, port);
    config.define(0x0e, &[1], &[]);
    config.define(reg::PRIMARY_BUS, &[0; 4], &[0xff, 0xff, 0xff, 0]);
    config.define(reg::MEMORY_BASE, &[0; 4], &[0xf0, 0xff, 0xf0, 0xff]);
    config.define(reg::PREF_BASE, &[1, 0, 1, 0], &[0xf0, 0xff, 0xf0, 0xff]);
    config.define(reg::PREF_BASE_UPPER, &[0; 8], &[0xff; 8]);
    config.define(reg::BRIDGE_CONTROL, &[0, 0], &[0x5f, 0]);
    config
}

/// The 32-bit window.
pub(super) fn memory(config: &ConfigSpace) -> Window {
    let register = config.u32(reg::MEMORY_BASE);
    Window::from_base_limit(base(register), limit(register))
}

/// The prefetchable window.
pub(super) fn prefetchable(config: &ConfigSpace) -> Window {
    let register = config.u32(reg::PREF_BASE);
    let base = u64::from(config.u32(reg::PREF_BASE_UPPER)) << 32 | base(register);
    let limit = u64::from(config.u32(reg::PREF_LIMIT_UPPER)) << 32 | limit(register);
    Window::from_base_limit(base, limit)
}

/// Whether it forwards `address` downwards.
pub(super) fn claims(config: &ConfigSpace, address: u64) -> bool {
    let inside = |window: Window| {
        window.open_range().is_some_and(|r| (r.base()..=r.last()).contains(&address))
    };
    config.u16(reg::COMMAND) & command::MEMORY != 0
        && (inside(memory(config)) || inside(prefetchable(config)))
}

fn base(register: u32) -> u64 {
    u64::from(register & 0xfff0) << 16
}

fn limit(register: u32) -> u64 {
    u64::from(register & 0xfff0_0000) | 0xf_ffff
}

/// The register pair for a window from `base` to `limit`, address bits 31 to 20.
pub(super) fn base_limit(base: u64, limit: u64) -> u32 {
    let bits = |address: u64| u32::try_from(address & 0xfff0_0000).unwrap_or_default();
    bits(base) >> 16 | bits(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddressRange, Slot};

    #[test]
    fn one_dword_shuts_a_window_of_16_gib_and_opens_it() {
        let mut config = bridge(PortType::Root);
        config.write(reg::COMMAND, &[6, 0]);
        config.write(reg::PREF_BASE, &0xfff1_0001u32.to_le_bytes());
        config.write(reg::PREF_LIMIT_UPPER, &0xfu32.to_le_bytes());
        config.write(reg::PREF_BASE_UPPER, &0xcu32.to_le_bytes());
        let slot = Slot::BTC_S37.range();
        assert_eq!(prefetchable(&config), Window::Open(slot));
        assert!(claims(&config, slot.base()) && claims(&config, slot.last()));
        assert!(!claims(&config, slot.base() - 1) && !claims(&config, slot.last() + 1));
        config.write(reg::PREF_BASE_UPPER, &0xffu32.to_le_bytes());
        assert!(!claims(&config, slot.base()) && !claims(&config, slot.last()));
        assert!(config.u32(reg::PREF_BASE_UPPER) != 0 && config.u32(reg::PREF_LIMIT_UPPER) != 0);
    }

    #[test]
    fn windows_read_back_as_encoded() {
        let mut config = bridge(PortType::Downstream);
        let range = AddressRange::new(0x8300_0000, 0x300_0000).expect("a range");
        let value = base_limit(range.base(), range.last());
        config.write(reg::MEMORY_BASE, &value.to_le_bytes());
        assert_eq!(memory(&config), Window::Open(range));
        assert!(!claims(&config, range.base()), "memory decode is off");
    }
}
