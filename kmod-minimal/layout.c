// SPDX-License-Identifier: GPL-2.0
/*
 * The 32-bit side of a card: the BARs that stay reachable off the slot.
 *
 * Firmware gives each port just the room for BAR0, and puts BAR3 beside BAR1,
 * or nowhere. Here all of them go into one window from the kernel's allocator:
 * nested, without holes where the order of the BARs allows it (32 + 16 MiB of
 * one die, 16 + 32 MiB of the next: 96 MiB a card of two).
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/align.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "slotwin-core.h"

#define SW_MAX_SPOTS	96

/* An NVIDIA die's memory BARs apart from BAR1 */
static const int sw_die_bars[] = { 0, 3 };
static const int sw_bridge_bars[] = { 0, 1 };

/* Inner ones come before the windows around them. */
struct sw_plan {
	unsigned int nr;
	u64 align;
	struct sw_spot {
		struct pci_dev *pdev;
		int index;
		u64 at;
		u64 bytes;
		bool placed;
	} spots[SW_MAX_SPOTS];
};

static int sw_bar_reg(int bar)
{
	return PCI_BASE_ADDRESS_0 + 4 * bar;
}

/* The kind of a BAR, from the bits that it answers with. */
unsigned long sw_bar_flags(struct pci_dev *pdev, int bar)
{
	unsigned long flags;
	u32 low;

	pci_read_config_dword(pdev, sw_bar_reg(bar), &low);
	flags = low & ~(u32)PCI_BASE_ADDRESS_MEM_MASK;
	if (flags & PCI_BASE_ADDRESS_SPACE_IO)
		return IORESOURCE_IO;
	if (flags & PCI_BASE_ADDRESS_MEM_PREFETCH)
		flags |= IORESOURCE_PREFETCH;
	if ((flags & PCI_BASE_ADDRESS_MEM_TYPE_MASK) ==
	    PCI_BASE_ADDRESS_MEM_TYPE_64)
		flags |= IORESOURCE_MEM_64;
	return flags | IORESOURCE_MEM | IORESOURCE_SIZEALIGN;
}

/* The kernel forgets the size of a BAR it could not place: ask the die. */
int sw_bar_size(struct sw_log *log, struct pci_dev *pdev, int bar, u64 *bytes)
{
	struct resource *res = &pdev->resource[bar];
	unsigned long flags = sw_bar_flags(pdev, bar);
	u32 low, high = ~0U;
	u64 bits;
	int err;

	*bytes = 0;
	if (!(flags & IORESOURCE_MEM))
		return 0;
	if (res->flags & IORESOURCE_MEM && res->end > res->start) {
		*bytes = resource_size(res);
		return 0;
	}
	err = sw_write_size(log, pdev, sw_bar_reg(bar), &low);
	if (!err && flags & IORESOURCE_MEM_64)
		err = sw_write_size(log, pdev, sw_bar_reg(bar) + 4, &high);
	if (err || !low)
		return err;
	bits = (u64)high << 32 | (low & (u32)PCI_BASE_ADDRESS_MEM_MASK);
	*bytes = ~bits + 1;
	if (bits & ~(~0ULL << __ffs64(*bytes)) || *bytes & (*bytes - 1)) {
		pci_err(pdev, "slotwin: BAR%d has no size: %#llx\n", bar, bits);
		return -EIO;
	}
	return 0;
}

bool sw_bar_holds(struct pci_dev *pdev, int bar, u64 at)
{
	u32 low, high = 0;

	pci_read_config_dword(pdev, sw_bar_reg(bar), &low);
	if (sw_bar_flags(pdev, bar) & IORESOURCE_MEM_64)
		pci_read_config_dword(pdev, sw_bar_reg(bar) + 4, &high);
	return at == ((u64)high << 32 | (low & (u32)PCI_BASE_ADDRESS_MEM_MASK));
}

/* Memory decode of the device must be off. */
int sw_bar_write(struct sw_log *log, struct pci_dev *pdev, int bar, u64 at)
{
	int err = sw_write(log, pdev, sw_bar_reg(bar), at,
			   (u32)PCI_BASE_ADDRESS_MEM_MASK);

	if (!err && sw_bar_flags(pdev, bar) & IORESOURCE_MEM_64)
		err = sw_write(log, pdev, sw_bar_reg(bar) + 4, at >> 32, ~0U);
	return err;
}

static int sw_spot_add(struct sw_plan *plan, struct pci_dev *pdev, int index,
		       u64 at, u64 bytes)
{
	struct sw_spot *spot = &plan->spots[plan->nr];

	if (plan->nr == SW_MAX_SPOTS)
		return -E2BIG;
	spot->pdev = pdev;
	spot->index = index;
	spot->at = at;
	spot->bytes = bytes;
	plan->nr++;
	return 0;
}

static int sw_plan_bars(struct sw_plan *plan, struct sw_log *log,
			struct pci_dev *pdev)
{
	const int *bars = pdev->subordinate ? sw_bridge_bars : sw_die_bars;
	struct resource *res;
	u64 bytes;
	int i, err;

	for (i = 0; i < 2; i++) {
		res = &pdev->resource[bars[i]];
		/* A bridge that lives without a BAR goes on so. */
		if (pdev->subordinate &&
		    !(res->parent && res->flags & IORESOURCE_MEM))
			continue;
		err = sw_bar_size(log, pdev, bars[i], &bytes);
		if (err)
			return err;
		if (!bytes)
			continue;
		err = sw_spot_add(plan, pdev, bars[i], 0, bytes);
		if (err)
			return err;
		plan->align = max(plan->align, bytes);
	}
	return 0;
}

/* The largest BAR that fits where we are; else the one that wastes least. */
static u64 sw_plan_greedy(struct sw_plan *plan, unsigned int first, u64 at)
{
	struct sw_spot *spot, *best;
	unsigned int i;

	for (;;) {
		best = NULL;
		for (i = first; i < plan->nr; i++) {
			spot = &plan->spots[i];
			if (spot->placed)
				continue;
			if (!best || ALIGN(at, spot->bytes) <
				     ALIGN(at, best->bytes) ||
			    (ALIGN(at, spot->bytes) == ALIGN(at, best->bytes) &&
			     spot->bytes > best->bytes))
				best = spot;
		}
		if (!best)
			return at;
		best->at = ALIGN(at, best->bytes);
		best->placed = true;
		at = best->at + best->bytes;
	}
}

/* Plans a bus from an address on; returns where it ends. */
static int sw_plan_bus(struct sw_plan *plan, struct sw_log *log,
		       struct pci_bus *bus, u64 *at)
{
	struct pci_dev *pdev;
	unsigned int first;
	u64 start;
	int err;

	list_for_each_entry(pdev, &bus->devices, bus_list) {
		if (!pdev->subordinate ||
		    list_empty(&pdev->subordinate->devices))
			continue;
		start = *at;
		err = sw_plan_bus(plan, log, pdev->subordinate, at);
		if (!err)
			err = sw_spot_add(plan, pdev, SW_MEM_WINDOW, start,
					  *at - start);
		if (err)
			return err;
		plan->spots[plan->nr - 1].placed = true;
	}
	first = plan->nr;
	list_for_each_entry(pdev, &bus->devices, bus_list) {
		err = sw_plan_bars(plan, log, pdev);
		if (err)
			return err;
	}
	*at = ALIGN(sw_plan_greedy(plan, first, *at), SZ_1M);
	return 0;
}

static u32 sw_mem_low(struct resource *res)
{
	return ((res->start >> 16) & 0xfff0) | (res->end & 0xfff00000);
}

/* Out of the tree, inner ones first; ROMs too: none is in use, no room. */
static int sw_layout_drop(struct sw_log *log, struct sw_plan *plan)
{
	struct sw_spot *spot;
	unsigned int i;
	int err;

	for (i = 0; i < plan->nr; i++) {
		spot = &plan->spots[i];
		err = sw_res_drop(log, spot->pdev,
				  &spot->pdev->resource[PCI_ROM_RESOURCE]);
		if (!err)
			err = sw_res_drop(log, spot->pdev,
					  &spot->pdev->resource[spot->index]);
		if (err)
			return err;
	}
	return 0;
}

static int sw_spot_apply(struct sw_log *log, struct sw_spot *spot, u64 base)
{
	struct pci_dev *pdev = spot->pdev;
	struct resource *res = &pdev->resource[spot->index];
	struct resource *around;
	unsigned long flags = IORESOURCE_MEM;
	int err;

	if (spot->index != SW_MEM_WINDOW)
		flags = sw_bar_flags(pdev, spot->index);
	around = &pdev->bus->self->resource[SW_MEM_WINDOW];
	err = sw_res_set(log, pdev, res, around, base + spot->at, spot->bytes,
			 flags);
	if (err)
		return err;
	if (spot->index == SW_MEM_WINDOW)
		return sw_write(log, pdev, PCI_MEMORY_BASE, sw_mem_low(res),
				0xfff0fff0);
	/* The dies do not decode at this time; a bridge may. */
	if (pdev->subordinate)
		err = sw_write_word(log, pdev, PCI_COMMAND, 0,
				    PCI_COMMAND_MEMORY);
	if (!err)
		err = sw_bar_write(log, pdev, spot->index, res->start);
	if (!err && pdev->subordinate)
		err = sw_write_word(log, pdev, PCI_COMMAND, PCI_COMMAND_MEMORY,
				    PCI_COMMAND_MEMORY);
	return err;
}

/* Lays the card out anew. Its dies must not decode memory. */
int sw_layout(struct sw_log *log, struct pci_dev *top)
{
	struct resource *window = &top->resource[SW_MEM_WINDOW];
	struct sw_plan *plan;
	unsigned int i;
	u64 end = 0;
	int err;

	plan = kzalloc(sizeof(*plan), GFP_KERNEL);
	if (!plan)
		return -ENOMEM;
	plan->align = SZ_1M;
	err = sw_plan_bus(plan, log, top->subordinate, &end);
	if (!err)
		err = sw_layout_drop(log, plan);
	if (!err)
		err = sw_res_drop(log, top, window);
	if (!err)
		err = sw_res_alloc(log, top, window, end, plan->align);
	if (!err)
		err = sw_write(log, top, PCI_MEMORY_BASE, sw_mem_low(window),
			       0xfff0fff0);
	for (i = plan->nr; !err && i--;)
		err = sw_spot_apply(log, &plan->spots[i], window->start);
	kfree(plan);
	return err;
}

/*
 * A die that was removed and came back into a card that is placed: the kernel
 * gave it, and its port, room in our windows. It is owned where it lies, but
 * what holds the slot is laid out by us.
 */
int sw_layout_own(struct sw_log *log, struct sw_die *die)
{
	struct pci_dev *pdev = die->pdev;
	struct resource *res;
	unsigned int i;
	int err;

	err = sw_res_own(log, pdev, &pdev->resource[SW_BAR1], NULL);
	for (i = die->depth; !err && i--;) {
		if (!die->path[i]->fresh)
			continue;
		pdev = die->path[i]->pdev;
		res = &pdev->resource[SW_MEM_WINDOW];
		err = sw_res_own(log, pdev, &pdev->resource[SW_PREF_WINDOW],
				 NULL) ?: sw_res_own(log, pdev, res,
						     res->parent);
	}
	pdev = die->pdev;
	for (i = 0; !err && i < ARRAY_SIZE(sw_die_bars); i++) {
		res = &pdev->resource[sw_die_bars[i]];
		err = sw_res_own(log, pdev, res, res->parent);
	}
	return err;
}

static bool sw_bar_fits(struct pci_dev *pdev, int bar)
{
	struct resource *res = &pdev->resource[bar];

	if (!res->parent)
		return !(sw_bar_flags(pdev, bar) & IORESOURCE_MEM);
	return res->parent == &pdev->bus->self->resource[SW_MEM_WINDOW] &&
	       sw_bar_holds(pdev, bar, res->start);
}

static bool sw_bus_fits(struct pci_bus *bus)
{
	struct resource *window = &bus->self->resource[SW_MEM_WINDOW];
	struct pci_dev *pdev;
	unsigned int i;
	u32 low;

	pci_read_config_dword(bus->self, PCI_MEMORY_BASE, &low);
	if (!window->parent || (low ^ sw_mem_low(window)) & 0xfff0fff0)
		return false;
	list_for_each_entry(pdev, &bus->devices, bus_list) {
		if (pdev->subordinate) {
			if (!list_empty(&pdev->subordinate->devices) &&
			    !sw_bus_fits(pdev->subordinate))
				return false;
			continue;
		}
		for (i = 0; i < ARRAY_SIZE(sw_die_bars); i++)
			if (!sw_bar_fits(pdev, sw_die_bars[i]))
				return false;
	}
	return true;
}

/* Are all BARs but BAR1 where they may stay? Reads only. */
bool sw_layout_fits(struct pci_dev *top)
{
	return sw_bus_fits(top->subordinate);
}
