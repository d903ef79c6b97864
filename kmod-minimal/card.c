// SPDX-License-Identifier: GPL-2.0
/*
 * Cards: the bridges of a placed card, and the paths of its dies.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/pm_runtime.h>
#include <linux/slab.h>

#include "slotwin-core.h"

LIST_HEAD(sw_cards);

struct sw_card *sw_card_get(struct pci_dev *top)
{
	struct sw_card *card;

	list_for_each_entry(card, &sw_cards, node)
		if (card->top == top)
			return card;
	card = kzalloc(sizeof(*card), GFP_KERNEL);
	if (!card)
		return NULL;
	card->top = pci_dev_get(top);
	INIT_LIST_HEAD(&card->bridges);
	sw_log_init(&card->log);
	list_add(&card->node, &sw_cards);
	return card;
}

struct sw_bridge *sw_bridge_of(struct sw_card *card, struct pci_dev *pdev)
{
	struct sw_bridge *bridge;

	list_for_each_entry(bridge, &card->bridges, node)
		if (bridge->pdev == pdev)
			return bridge;
	return NULL;
}

static struct sw_bridge *sw_bridge_get(struct sw_card *card,
				       struct pci_dev *pdev)
{
	struct sw_bridge *bridge = sw_bridge_of(card, pdev);

	if (bridge)
		return bridge;
	bridge = kzalloc(sizeof(*bridge), GFP_KERNEL);
	if (!bridge)
		return NULL;
	bridge->fresh = true;
	bridge->pdev = pci_dev_get(pdev);
	list_add(&bridge->node, &card->bridges);
	return bridge;
}

/*
 * Does nothing below lead into a slot but by bridges of ours? A port that was
 * removed and came back is written by the kernel until its die is placed.
 */
bool sw_card_is_sealed(struct sw_card *card, struct pci_bus *bus)
{
	struct pci_dev *pdev;
	u64 lo, hi;

	list_for_each_entry(pdev, &bus->devices, bus_list) {
		if (!pdev->subordinate)
			continue;
		if (!sw_card_is_sealed(card, pdev->subordinate))
			return false;
		if (sw_bridge_of(card, pdev) ||
		    !sw_window_read(pdev, &lo, &hi) ||
		    sw_slot_within(lo, hi) == SLOTWIN_NO_SLOT)
			continue;
		pci_err(pdev, "slotwin: leads into a slot by itself: place its die first\n");
		return false;
	}
	return true;
}

/* No resource may point at a root that goes. */
static void sw_root_empty(struct resource *root)
{
	while (root->child)
		release_resource(root->child);
}

void sw_bridge_free(struct sw_bridge *bridge)
{
	sw_root_empty(&bridge->shadow);
	list_del(&bridge->node);
	pci_dev_put(bridge->pdev);
	kfree(bridge);
}

/* When it is as it was found, or gone: its dies have left. */
void sw_card_free(struct sw_card *card)
{
	struct sw_bridge *bridge, *next;

	sw_log_drop(&card->log);
	list_for_each_entry_safe(bridge, next, &card->bridges, node)
		sw_bridge_free(bridge);
	list_del(&card->node);
	pci_dev_put(card->top);
	kfree(card);
}

/*
 * Makes a die a member: finds its path and keeps the port above it awake, and
 * so all bridges above, since a bridge that resumes writes back the windows
 * that it had when it fell asleep.
 */
int sw_card_join(struct sw_card *card, struct sw_die *die)
{
	struct pci_dev *up = pci_upstream_bridge(die->pdev);
	int err;

	if (die->card)
		return 0;
	err = pm_runtime_get_sync(&up->dev);
	if (err < 0) {
		pm_runtime_put_noidle(&up->dev);
		pci_err(up, "slotwin: does not wake: %d\n", err);
		return -EIO;
	}
	die->awake = pci_dev_get(up);
	die->card = card;
	for (die->depth = 0; up; up = pci_upstream_bridge(up)) {
		if (die->depth == SW_MAX_DEPTH) {
			pci_err(die->pdev, "slotwin: more than %d bridges above\n",
				SW_MAX_DEPTH);
			err = -EXDEV;
			goto leave;
		}
		die->path[die->depth] = sw_bridge_get(card, up);
		if (!die->path[die->depth]) {
			err = -ENOMEM;
			goto leave;
		}
		die->depth++;
	}
	return 0;
leave:
	sw_card_leave(die);
	return err;
}

void sw_card_leave(struct sw_die *die)
{
	if (!die->card)
		return;
	sw_root_empty(&die->shadow);
	pm_runtime_put(&die->awake->dev);
	pci_dev_put(die->awake);
	die->awake = NULL;
	die->card = NULL;
	die->depth = 0;
	die->slot = SLOTWIN_NO_SLOT;
}
