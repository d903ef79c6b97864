// SPDX-License-Identifier: GPL-2.0
/*
 * Where the resources of a path hang. In the slot: placeholder, top, ..., inner,
 * BAR1. Off the slot each under a root of its own that is in no tree, since a
 * resource without a parent is fair game for a rescan (it is cleared and
 * assigned anew) and makes pci_enable_device() fail.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include "slotwin-core.h"

#define SW_PREF_FLAGS	(IORESOURCE_MEM | IORESOURCE_PREFETCH | \
			 IORESOURCE_MEM_64 | PCI_PREF_RANGE_TYPE_64)

static struct resource *sw_pref(struct sw_bridge *bridge)
{
	return &bridge->pdev->resource[SW_PREF_WINDOW];
}

static struct resource *sw_bar1(struct sw_die *die)
{
	return &die->pdev->resource[SW_BAR1];
}

bool sw_on_path(struct sw_die *die, struct sw_bridge *bridge)
{
	unsigned int i;

	for (i = 0; i < die->depth; i++)
		if (die->path[i] == bridge)
			return true;
	return false;
}

/* Does an open die, or the one that is next, need this bridge? */
bool sw_in_use(struct sw_bridge *bridge, struct sw_die *next)
{
	unsigned int i;

	if (next && sw_on_path(next, bridge))
		return true;
	for (i = 0; i < sw_nr_slots; i++)
		if (sw_slots[i].open && sw_on_path(sw_slots[i].open, bridge))
			return true;
	return false;
}

static int sw_bar1_under(struct sw_log *log, struct sw_die *die,
			 struct resource *parent)
{
	int err;

	if (sw_bar1(die)->parent == parent)
		return 0;
	err = sw_res_drop(log, die->pdev, sw_bar1(die));
	if (err)
		return err;
	return sw_res_set(log, die->pdev, sw_bar1(die), parent,
			  sw_slots[die->slot].base, die->bar1_bytes,
			  die->bar1_flags);
}

static int sw_pref_under(struct sw_log *log, struct sw_bridge *bridge,
			 struct resource *parent)
{
	int err;

	if (sw_pref(bridge)->parent == parent)
		return 0;
	err = sw_res_drop(log, bridge->pdev, sw_pref(bridge));
	if (err)
		return err;
	return sw_res_set(log, bridge->pdev, sw_pref(bridge), parent,
			  bridge->lo, bridge->hi - bridge->lo + 1,
			  SW_PREF_FLAGS);
}

/* The die has left; what the next one does not need goes with it. */
int sw_off_slot(struct sw_log *log, struct sw_die *die, struct sw_die *next)
{
	unsigned int i;
	int err;

	err = sw_bar1_under(log, die, &die->shadow);
	for (i = 0; !err && i < die->depth; i++) {
		if (sw_in_use(die->path[i], next))
			break;
		err = sw_pref_under(log, die->path[i], &die->path[i]->shadow);
	}
	return err;
}

int sw_in_slot(struct sw_log *log, struct sw_die *die)
{
	struct resource *parent = &sw_slots[die->slot].hold->res;
	unsigned int i;
	int err = 0;

	for (i = die->depth; !err && i--; parent = sw_pref(die->path[i]))
		err = sw_pref_under(log, die->path[i], parent);
	return err ?: sw_bar1_under(log, die, parent);
}

/* All of a card that is being placed, wherever it was. */
int sw_shadow(struct sw_log *log, struct sw_card *card)
{
	struct sw_bridge *bridge;
	struct sw_die *die;
	unsigned int i;
	u64 base;
	int err;

	list_for_each_entry(die, &sw_dies, node) {
		if (die->card != card)
			continue;
		err = sw_res_drop(log, die->pdev, sw_bar1(die));
		if (err)
			return err;
	}
	list_for_each_entry(die, &sw_dies, node) {
		for (i = 0; die->card == card && i < die->depth; i++) {
			if (sw_pref(die->path[i])->child)
				break;
			err = sw_res_drop(log, die->path[i]->pdev,
					  sw_pref(die->path[i]));
			if (err)
				return err;
		}
	}
	err = sw_holds_claim(log);
	if (err)
		return err;
	list_for_each_entry(bridge, &card->bridges, node) {
		err = sw_res_root(log, bridge->pdev, &bridge->shadow,
				  bridge->lo, bridge->hi);
		if (!err)
			err = sw_pref_under(log, bridge, &bridge->shadow);
		if (err)
			return err;
	}
	list_for_each_entry(die, &sw_dies, node) {
		if (die->card != card)
			continue;
		base = sw_slots[die->slot].base;
		err = sw_res_root(log, die->pdev, &die->shadow, base,
				  base + sw_slots[die->slot].bytes - 1);
		if (!err)
			err = sw_bar1_under(log, die, &die->shadow);
		if (err)
			return err;
	}
	return 0;
}
