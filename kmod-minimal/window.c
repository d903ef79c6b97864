// SPDX-License-Identifier: GPL-2.0
/*
 * The prefetchable window of a bridge as registers: the one place that encodes
 * it.
 *
 * Base and limit are written once. A window of many GiB cannot be shut by the
 * dword with the low halves, whatever it holds; the upper half of the base
 * alone does it, and leaves both upper halves non-zero, which a driver may want
 * to see even of a shut window.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include "slotwin-core.h"

#define SW_LOW_MASK	0xfff0fff0U

/* Above any limit of ours, so that the base is above the limit. */
static u32 sw_shut_base(struct sw_bridge *bridge)
{
	return bridge->hi >> 32 < 0xff ? 0xff : ~0U;
}

static u32 sw_low(struct sw_bridge *bridge)
{
	return ((bridge->lo >> 16) & 0xfff0) | (bridge->hi & 0xfff00000);
}

bool sw_window_able(struct pci_dev *pdev)
{
	u32 low;

	pci_read_config_dword(pdev, PCI_PREF_MEMORY_BASE, &low);
	return low != ~0U && (low & PCI_PREF_RANGE_TYPE_MASK) ==
			     PCI_PREF_RANGE_TYPE_64;
}

/* What a bridge passes on; false if nothing. */
bool sw_window_read(struct pci_dev *pdev, u64 *lo, u64 *hi)
{
	u32 low, base = 0, limit = 0;

	pci_read_config_dword(pdev, PCI_PREF_MEMORY_BASE, &low);
	if (low == ~0U)
		return false;
	if ((low & PCI_PREF_RANGE_TYPE_MASK) == PCI_PREF_RANGE_TYPE_64) {
		pci_read_config_dword(pdev, PCI_PREF_BASE_UPPER32, &base);
		pci_read_config_dword(pdev, PCI_PREF_LIMIT_UPPER32, &limit);
	}
	*lo = (u64)base << 32 | (low & 0xfff0) << 16;
	*hi = (u64)limit << 32 | (low & 0xfff00000) | 0xfffff;
	return *lo <= *hi;
}

/* Shut or open, without touching base and limit. */
int sw_window_gate(struct sw_log *log, struct sw_bridge *bridge, bool open)
{
	u32 base = open ? bridge->lo >> 32 : sw_shut_base(bridge);
	int err = sw_write(log, bridge->pdev, PCI_PREF_BASE_UPPER32, base, ~0U);

	if (!err)
		bridge->open = open;
	return err;
}

/*
 * Base, limit, and the gate. Shut all the time in between: the base goes above
 * any limit first, as the old limit may be above the one that is meant.
 */
int sw_window_write(struct sw_log *log, struct sw_bridge *bridge, bool open)
{
	struct pci_dev *pdev = bridge->pdev;
	u32 limit;
	int err;

	pci_read_config_dword(pdev, PCI_PREF_LIMIT_UPPER32, &limit);
	err = sw_write(log, pdev, PCI_PREF_BASE_UPPER32,
		       limit < 0xff ? sw_shut_base(bridge) : ~0U, ~0U);
	if (!err)
		err = sw_write(log, pdev, PCI_PREF_MEMORY_BASE, sw_low(bridge),
			       SW_LOW_MASK);
	if (!err)
		err = sw_write(log, pdev, PCI_PREF_LIMIT_UPPER32,
			       bridge->hi >> 32, ~0U);
	if (!err)
		err = sw_write_word(log, pdev, PCI_COMMAND,
				    PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER,
				    PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	if (!err)
		err = sw_window_gate(log, bridge, open);
	return err;
}

/* Do the registers say what we think they say? */
bool sw_window_is(struct sw_bridge *bridge)
{
	u32 low, base, limit;
	u16 command;

	pci_read_config_dword(bridge->pdev, PCI_PREF_MEMORY_BASE, &low);
	pci_read_config_dword(bridge->pdev, PCI_PREF_BASE_UPPER32, &base);
	pci_read_config_dword(bridge->pdev, PCI_PREF_LIMIT_UPPER32, &limit);
	pci_read_config_word(bridge->pdev, PCI_COMMAND, &command);
	return bridge->hi && !((low ^ sw_low(bridge)) & SW_LOW_MASK) &&
	       limit == bridge->hi >> 32 &&
	       base == (bridge->open ? bridge->lo >> 32 :
				       sw_shut_base(bridge)) &&
	       command & PCI_COMMAND_MEMORY && command & PCI_COMMAND_MASTER;
}

/* After a change was taken back: what is true of the gate? */
void sw_window_refresh(struct sw_bridge *bridge)
{
	u64 lo, hi;

	bridge->open = sw_window_read(bridge->pdev, &lo, &hi);
}
