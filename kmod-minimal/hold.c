// SPDX-License-Identifier: GPL-2.0
/*
 * The slots' address ranges as struct resource: placeholders that stay in the
 * host bridge's window from load to unload, so that no rescan hands an idle
 * slot out.
 *
 * Loading writes no register. Where firmware or kernel had put dies of ours
 * into the range, the placeholder is slid in above their windows
 * (insert_resource() makes them its children), which is bookkeeping only and
 * undone by remove_resource(). Where windows of ours reach beyond the slot they
 * keep the range safe themselves, and the placeholder follows when the card
 * that holds them is placed. Anything else in the range fails the load.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/ioport.h>
#include <linux/mm.h>

#include "slotwin-core.h"

static struct sw_hold sw_holds[SLOTWIN_MAX_SLOTS];
static unsigned int sw_nr_holds;

/* Slots that touch are one hold, so that one bridge may cover both. */
static void sw_holds_group(void)
{
	struct sw_slot *order[SLOTWIN_MAX_SLOTS];
	struct sw_hold *hold = NULL;
	unsigned int i, j;

	for (i = 0; i < sw_nr_slots; i++) {
		for (j = i; j && order[j - 1]->base > sw_slots[i].base; j--)
			order[j] = order[j - 1];
		order[j] = &sw_slots[i];
	}
	for (i = 0; i < sw_nr_slots; i++) {
		if (!hold || hold->res.end + 1 != order[i]->base) {
			hold = &sw_holds[sw_nr_holds++];
			hold->res.name = "slotwin";
			hold->res.flags = IORESOURCE_MEM;
			hold->res.start = order[i]->base;
		}
		hold->res.end = order[i]->base + order[i]->bytes - 1;
		order[i]->hold = hold;
	}
}

static struct resource *sw_host_window(struct resource *range)
{
	struct pci_bus *bus = NULL;
	struct resource *res;
	int i;

	while ((bus = pci_find_next_bus(bus))) {
		pci_bus_for_each_resource(bus, res, i) {
			if (res && res->flags & IORESOURCE_MEM &&
			    res->start <= range->start &&
			    res->end >= range->end)
				return res;
		}
	}
	return NULL;
}

static bool sw_res_overlaps(struct resource *a, struct resource *b)
{
	return a->start <= b->end && b->start <= a->end;
}

/* May this device have something in a slot: a die, or a way to dies only? */
static bool sw_may_lie_here(struct pci_dev *pdev)
{
	return sw_is_die(pdev) ||
	       (pdev->subordinate && sw_only_ours(pdev->subordinate));
}

/*
 * Who is in the range already? 0: nobody, or dies of ours within it; -EAGAIN:
 * windows of ours that reach beyond it; -EBUSY: somebody else.
 */
static int sw_hold_neighbours(struct sw_hold *hold)
{
	struct pci_dev *pdev = NULL;
	struct resource *res;
	int err = 0;
	int i;

	for_each_pci_dev(pdev) {
		for (i = 0; i < PCI_NUM_RESOURCES; i++) {
			res = &pdev->resource[i];
			if (!res->parent || !(res->flags & IORESOURCE_MEM) ||
			    !sw_res_overlaps(res, &hold->res))
				continue;
			if (!sw_may_lie_here(pdev)) {
				pci_err(pdev, "slotwin: %pR lies in the slot's range %pR\n",
					res, &hold->res);
				pci_dev_put(pdev);
				return -EBUSY;
			}
			if (res->start < hold->res.start ||
			    res->end > hold->res.end)
				err = -EAGAIN;
		}
	}
	return err;
}

/* After the insertion its children must be windows or BARs of ours. */
static bool sw_hold_is_clean(struct sw_hold *hold)
{
	struct pci_dev *pdev = NULL;
	struct resource *child;
	bool found;
	int i;

	for (child = hold->res.child; child; child = child->sibling) {
		found = false;
		for_each_pci_dev(pdev) {
			for (i = 0; i < PCI_NUM_RESOURCES; i++)
				found |= &pdev->resource[i] == child;
		}
		if (!found) {
			pr_err("%pR (%s) lies in the slot's range %pR\n",
			       child, child->name ?: "?", &hold->res);
			return false;
		}
	}
	return true;
}

int sw_hold_insert(struct sw_hold *hold)
{
	int err = sw_hold_neighbours(hold);

	if (err)
		return err;
	err = insert_resource(hold->host, &hold->res);
	if (err) {
		pr_err("the slot's range %pR is in use in %pR: %d\n",
		       &hold->res, hold->host, err);
		return -EBUSY;
	}
	if (!sw_hold_is_clean(hold)) {
		remove_resource(&hold->res);
		return -EBUSY;
	}
	hold->claimed = true;
	return 0;
}

/* What lies in it moves up to the host bridge's window. */
void sw_hold_remove(struct sw_hold *hold)
{
	if (!hold->claimed)
		return;
	remove_resource(&hold->res);
	hold->res.child = NULL;
	hold->claimed = false;
}

/* Claims what could not be claimed at load, where it has become possible. */
int sw_holds_claim(struct sw_log *log)
{
	unsigned int i;
	int err;

	for (i = 0; i < sw_nr_holds; i++) {
		if (sw_holds[i].claimed)
			continue;
		err = sw_hold_insert(&sw_holds[i]);
		if (err == -EAGAIN)
			continue;
		if (!err)
			err = sw_log_hold(log, &sw_holds[i]);
		if (err)
			return err;
	}
	return 0;
}

/* A slot that a window reaches into, or SLOTWIN_NO_SLOT */
u32 sw_slot_within(u64 lo, u64 hi)
{
	u32 i;

	for (i = 0; i < sw_nr_slots; i++)
		if (lo < sw_slots[i].base + sw_slots[i].bytes &&
		    hi >= sw_slots[i].base)
			return i;
	return SLOTWIN_NO_SLOT;
}

int sw_holds_init(void)
{
	struct sw_hold *hold;
	unsigned int i;
	int err;

	sw_holds_group();
	for (i = 0; i < sw_nr_holds; i++) {
		hold = &sw_holds[i];
		if (region_intersects(hold->res.start,
				      resource_size(&hold->res),
				      IORESOURCE_SYSTEM_RAM,
				      IORES_DESC_NONE) != REGION_DISJOINT) {
			pr_err("slots: %pR overlaps RAM\n", &hold->res);
			err = -EADDRINUSE;
			goto fail;
		}
		hold->host = sw_host_window(&hold->res);
		if (!hold->host) {
			pr_err("slots: no window of a PCI host bridge holds %pR\n",
			       &hold->res);
			err = -EADDRNOTAVAIL;
			goto fail;
		}
		err = sw_hold_insert(hold);
		if (err && err != -EAGAIN)
			goto fail;
		pr_info("slot range %pR %s\n", &hold->res,
			err ? "is held by windows that reach beyond it" :
			      "claimed");
	}
	return 0;
fail:
	sw_holds_exit();
	return err;
}

void sw_holds_exit(void)
{
	while (sw_nr_holds)
		sw_hold_remove(&sw_holds[--sw_nr_holds]);
}
