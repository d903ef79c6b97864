// SPDX-License-Identifier: GPL-2.0
/*
 * PLACE: a card is made ready for the slot as a whole. Every step is recorded;
 * a failure takes all of them back, and so does unloading.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/pm_runtime.h>

#include "slotwin-core.h"

/*
 * Bound to a driver that uses the die now, or may at any time. With a parker it
 * is in use when it is enabled and awake: vfio-pci lets it sleep when nobody has
 * it open. (A driver whose probe failed may have left it enabled for good.)
 */
static bool sw_is_busy(struct sw_die *die)
{
	return die->driver == SW_RESIDENT ||
	       (die->driver == SW_PARKED && pci_is_enabled(die->pdev) &&
		!strcmp(die->pdev->dev.driver->name, "vfio-pci") &&
		pm_runtime_active(&die->pdev->dev));
}

static int sw_may_touch(struct sw_die *die)
{
	struct sw_die *other;

	list_for_each_entry(other, &sw_dies, node)
		if (other != die && !other->gone &&
		    other->pdev->bus == die->pdev->bus) {
			pci_err(die->pdev, "slotwin: shares a bus with another die\n");
			return -EXDEV;
		}
	if (die->open) {
		pci_err(die->pdev, "slotwin: is in its slot: shut it first\n");
		return -EBUSY;
	}
	if (!sw_is_busy(die) ||
	    (die->stays && sw_layout_fits(sw_top_of(die->pdev))))
		return 0;
	pci_err(die->pdev, "slotwin: in use by %s\n",
		die->pdev->dev.driver->name);
	return -EBUSY;
}

/* What can be refused before anything is touched. */
static int sw_may_place(struct pci_dev *top)
{
	struct sw_die *die;
	int err;

	if (!sw_only_ours(top->subordinate)) {
		pci_err(top, "slotwin: also leads to a device that is no die\n");
		return -EXDEV;
	}
	sw_for_each_die_below(die, top) {
		err = sw_may_touch(die);
		if (err)
			return err;
	}
	return 0;
}

/* Is there a slot in a window that no die below it has for its home? */
static int sw_window_check(struct sw_bridge *bridge, unsigned long homes)
{
	struct sw_slot *slot = &sw_slots[__ffs(homes)];
	unsigned int i;

	if (slot->hold->res.start > bridge->lo ||
	    slot->hold->res.end < bridge->hi) {
		pci_err(bridge->pdev, "slotwin: would cover addresses between the slots of its dies\n");
		return -EXDEV;
	}
	for (i = 0; i < sw_nr_slots; i++) {
		slot = &sw_slots[i];
		if (homes & BIT(i) || slot->base > bridge->hi ||
		    slot->base + slot->bytes <= bridge->lo)
			continue;
		pci_err(bridge->pdev, "slotwin: would cover slot %u, which lies between the slots of its dies\n",
			i);
		return -EXDEV;
	}
	return 0;
}

/* The window of each bridge is the union of the homes below it. */
static int sw_card_windows(struct sw_card *card)
{
	struct sw_bridge *bridge;
	unsigned long homes;
	struct sw_slot *slot;
	struct sw_die *die;
	u64 lo, hi;
	int err;

	list_for_each_entry(bridge, &card->bridges, node) {
		homes = 0;
		lo = U64_MAX;
		hi = 0;
		list_for_each_entry(die, &sw_dies, node) {
			if (die->card != card || !sw_on_path(die, bridge))
				continue;
			slot = &sw_slots[die->slot];
			lo = min(lo, slot->base);
			hi = max(hi, slot->base + slot->bytes - 1);
			homes |= BIT(die->slot);
		}
		if (!homes)
			continue;
		bridge->lo = lo;
		bridge->hi = hi;
		err = sw_window_check(bridge, homes);
		if (err)
			return err;
	}
	return 0;
}

static void sw_card_unlock(struct pci_dev *top, struct sw_die *until)
{
	struct sw_die *die;

	sw_for_each_die_below(die, top) {
		if (die == until)
			return;
		device_unlock(&die->pdev->dev);
	}
}

/* Keeps drivers from coming and going; never waits, see slotwin-core.h. */
static int sw_card_trylock(struct pci_dev *top)
{
	struct sw_die *die;

	sw_for_each_die_below(die, top) {
		if (device_trylock(&die->pdev->dev))
			continue;
		pci_err(die->pdev, "slotwin: a driver is coming or going\n");
		sw_card_unlock(top, die);
		return -EBUSY;
	}
	return 0;
}

/* Members join; those that were none before can be told by their home. */
static int sw_card_join_all(struct sw_card *card)
{
	struct sw_die *die;
	int err = 0;

	sw_for_each_die_below(die, card->top) {
		die->was_home = die->slot;
		if (!err)
			err = sw_card_join(card, die);
	}
	return err;
}

static void sw_card_abandon(struct sw_card *card)
{
	struct sw_bridge *bridge, *next;
	struct sw_die *die;

	sw_for_each_die_below(die, card->top) {
		die->slot = die->was_home;
		if (die->slot == SLOTWIN_NO_SLOT)
			sw_card_leave(die);
	}
	if (list_empty(&card->log.steps)) {
		sw_card_free(card);
		return;
	}
	list_for_each_entry_safe(bridge, next, &card->bridges, node)
		if (bridge->fresh)
			sw_bridge_free(bridge);
	sw_card_windows(card);
}

/* All dies of a card, one of them (if any is named) with this home. */
static int sw_card_place(struct pci_dev *top, struct sw_die *named, u32 slot,
			 u32 gate, u32 *writes)
{
	struct sw_card *card = sw_card_get(top);
	struct sw_bridge *bridge;
	struct sw_die *die;
	struct sw_log log;
	u32 was_gate;
	int err;

	if (!card)
		return -ENOMEM;
	sw_log_init(&log);
	was_gate = card->gate;
	card->gate = gate;
	err = sw_card_join_all(card);
	if (err)
		goto abandon;
	sw_for_each_die_below(die, top)
		if (die == named || die->slot == SLOTWIN_NO_SLOT)
			die->slot = slot;
	err = sw_card_windows(card);
	if (err)
		goto abandon;
	err = sw_card_wake(top);
	if (!err)
		err = sw_card_program(&log, card);
	if (err && sw_log_undo(&log))
		pci_err(top, "slotwin: could not be put back as it was\n");
	*writes += log.writes;
	sw_card_sleep(top);
	if (!err) {
		list_for_each_entry(bridge, &card->bridges, node)
			bridge->fresh = false;
		sw_log_splice(&card->log, &log);
		return 0;
	}
abandon:
	card->gate = was_gate;
	sw_card_abandon(card);
	return err;
}

static int sw_card_place_locked(struct pci_dev *top, struct sw_die *named,
				u32 slot, u32 gate, u32 *writes)
{
	struct sw_die *die;
	int err;

	err = sw_card_trylock(top);
	if (err)
		return err;
	sw_for_each_die_below(die, top)
		die->stays = sw_die_in_place(die, die == named ? slot :
						  die->slot, gate);
	err = sw_may_place(top);
	if (!err)
		err = sw_card_place(top, named, slot, gate, writes);
	sw_card_unlock(top, NULL);
	return err;
}

static struct sw_card *sw_card_of(struct pci_dev *top)
{
	struct sw_card *card;

	list_for_each_entry(card, &sw_cards, node)
		if (card->top == top)
			return card;
	return NULL;
}

/*
 * Who answers in a slot without our doing? A card of ours that firmware put
 * there is placed too, and so shut; anybody else's bridge is left in peace and
 * the slot refused.
 */
static int sw_evict(struct pci_dev *except, u32 gate, u32 *writes)
{
	struct pci_bus *bus = NULL;
	struct pci_dev *pdev;
	u64 lo, hi;
	u32 slot;
	int err;

	while ((bus = pci_find_next_bus(bus))) {
		list_for_each_entry(pdev, &bus->devices, bus_list) {
			if (!pdev->subordinate || pdev == except ||
			    sw_card_of(pdev) ||
			    !sw_window_read(pdev, &lo, &hi))
				continue;
			slot = sw_slot_within(lo, hi);
			if (slot == SLOTWIN_NO_SLOT)
				continue;
			if (list_empty(&pdev->subordinate->devices) ||
			    !sw_only_ours(pdev->subordinate)) {
				pci_err(pdev, "slotwin: passes on %#llx-%#llx, which overlaps a slot, and is not ours\n",
					lo, hi);
				return -EBUSY;
			}
			pci_info(pdev, "slotwin: leads into a slot: its card is placed first\n");
			err = sw_card_place_locked(pdev, NULL, slot, gate,
						   writes);
			if (err)
				return err;
		}
	}
	return 0;
}

static int sw_place_awake(struct sw_die *die, u32 slot, u32 gate, u32 *writes)
{
	struct pci_dev *top = sw_top_of(die->pdev);
	int err;

	if (!sw_answers(die->pdev)) {
		pci_err(die->pdev, "slotwin: answers all-ones\n");
		return -EIO;
	}
	if (die->card && die->slot == slot && die->card->gate == gate &&
	    sw_card_in_place(die->card))
		return 0;
	err = sw_evict(top, gate, writes);
	if (!err)
		err = sw_card_place_locked(top, die, slot, gate, writes);
	if (err || sw_slots[slot].hold->claimed)
		return err;
	pr_err("slot %u is still held by windows of another card\n", slot);
	return -EBUSY;
}

/* Under the rescan lock and sw_lock. */
int sw_place(struct sw_die *die, u32 slot, u32 gate, u32 *writes)
{
	struct pci_dev *up = pci_upstream_bridge(die->pdev);
	int err;

	*writes = 0;
	if (!up) {
		pci_err(die->pdev, "slotwin: no bridge above it\n");
		return -EXDEV;
	}
	/* Behind a bridge that sleeps everything answers all-ones. */
	pm_runtime_get_sync(&up->dev);
	err = sw_place_awake(die, slot, gate, writes);
	pm_runtime_put(&up->dev);
	return err;
}

/* As found, unless a driver came in the very moment of unloading. */
static void sw_unplace(struct sw_card *card)
{
	struct sw_die *die;
	bool busy = false;

	if (sw_card_trylock(card->top))
		return;
	sw_for_each_die_below(die, card->top)
		busy |= sw_is_busy(die);
	if (busy) {
		pci_err(card->top, "slotwin: a driver came while the module goes: left as placed\n");
	} else {
		/* Those that are dead are no reason to leave the others. */
		sw_card_wake(card->top);
		if (sw_card_restore(card))
			pci_err(card->top, "slotwin: not quite as it was found\n");
		sw_card_sleep(card->top);
	}
	sw_card_unlock(card->top, NULL);
}

/* Unloading: no die is resident, as each of those holds the module. */
void sw_unplace_all(void)
{
	struct sw_card *card, *next;
	struct sw_die *die;
	u32 slot, writes;

	for (slot = 0; slot < sw_nr_slots; slot++)
		if (sw_shut(slot, &writes))
			pr_err("slot %u does not shut\n", slot);
	list_for_each_entry(card, &sw_cards, node)
		sw_unplace(card);
	list_for_each_entry(die, &sw_dies, node)
		sw_card_leave(die);
	list_for_each_entry_safe(card, next, &sw_cards, node)
		sw_card_free(card);
}
