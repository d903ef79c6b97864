// SPDX-License-Identifier: GPL-2.0
/*
 * Opening and shutting paths.
 *
 * A path is open when every bridge on it is. What lies between a root port and
 * the inner bridges stays open for good where it leads to one die only by way
 * of gates below or above. Leaving the slot, a die's path is shut at the highest
 * bridge that no other open die needs: between cards at the root port, so that
 * the card's inner gate stays on its last die, within a card at the inner
 * bridge. Thus a swap costs two writes, four where the other card's inner gate
 * stands on the wrong die.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/pm_runtime.h>

#include "slotwin-core.h"
#include "slotwin_trace.h"

struct rw_semaphore sw_open_sem;

static struct sw_bridge *sw_top_bridge(struct sw_die *die)
{
	return die->path[die->depth - 1];
}

/* Would the die answer, if the next one's path were open? */
static bool sw_reachable(struct sw_die *die, struct sw_die *next)
{
	unsigned int i;

	for (i = 0; i < die->depth; i++)
		if (!die->path[i]->open &&
		    !(next && sw_on_path(next, die->path[i])))
			return false;
	return true;
}

static void sw_set_open(struct sw_slot *slot, struct sw_die *die)
{
	down_write(&sw_open_sem);
	if (slot->open)
		slot->open->open = false;
	slot->open = die;
	if (die)
		die->open = true;
	up_write(&sw_open_sem);
}

static int sw_decode(struct sw_log *log, struct sw_die *die, bool on)
{
	return sw_write_word(log, die->pdev, PCI_COMMAND,
			     on ? PCI_COMMAND_MEMORY : 0, PCI_COMMAND_MEMORY);
}

/* Shuts the highest bridge of a path that nobody else needs. */
static int sw_path_shut(struct sw_log *log, struct sw_die *die,
			struct sw_die *next)
{
	unsigned int i;

	for (i = die->depth; i--;)
		if (!sw_in_use(die->path[i], next))
			return sw_window_gate(log, die->path[i], false);
	pci_err(die->pdev, "slotwin: shares its whole path\n");
	return -EXDEV;
}

/* The die is no longer its slot's open one; now make that so. */
static int sw_leave(struct sw_log *log, struct sw_die *die,
		    struct sw_die *next)
{
	int err = 0;

	if (die->card->gate == SLOTWIN_GATE_DECODE)
		err = sw_decode(log, die, false);
	if (!err)
		err = sw_path_shut(log, die, next);
	return err ?: sw_off_slot(log, die, next);
}

static int sw_enter(struct sw_log *log, struct sw_die *die)
{
	struct sw_die *other;
	unsigned int i;
	int err;

	/* Inner gates that stand on another die of the card */
	list_for_each_entry(other, &sw_dies, node) {
		if (other == die || other->open || other->card != die->card ||
		    !sw_reachable(other, die))
			continue;
		err = sw_path_shut(log, other, die);
		if (err)
			return err;
	}
	err = sw_in_slot(log, die);
	for (i = 0; !err && i < die->depth; i++)
		err = sw_window_gate(log, die->path[i], true);
	/* In the window gate it is on anyhow; a driver may have seen to that */
	return err ?: sw_decode(log, die, true);
}

static void sw_refresh(struct sw_card *card)
{
	struct sw_bridge *bridge;

	list_for_each_entry(bridge, &card->bridges, node)
		sw_window_refresh(bridge);
}

/* After a failure: as before if that works, else shut. */
static void sw_swap_back(struct sw_log *log, struct sw_slot *slot,
			 struct sw_die *old, struct sw_die *next)
{
	int err = sw_log_undo(log);

	sw_refresh(next->card);
	if (!old)
		return;
	sw_refresh(old->card);
	if (!err && sw_reachable(old, NULL)) {
		sw_set_open(slot, old);
		return;
	}
	pci_err(old->pdev, "slotwin: cannot go back into the slot, which is shut now\n");
	sw_log_init(log);
	sw_window_gate(log, sw_top_bridge(old), false);
	sw_off_slot(log, old, NULL);
	sw_log_drop(log);
	pm_runtime_put(&old->pdev->dev);
}

/*
 * A root port may cover more than one slot, and claims all of it while any die
 * behind it is open: no other card's die may be open in there.
 */
static int sw_may_open(struct sw_die *die, struct sw_slot *slot)
{
	struct sw_bridge *top = sw_top_bridge(die);
	struct sw_bridge *other;
	unsigned int i;

	for (i = 0; i < sw_nr_slots; i++) {
		if (!sw_slots[i].open || &sw_slots[i] == slot)
			continue;
		other = sw_top_bridge(sw_slots[i].open);
		if (other != top && other->lo <= top->hi &&
		    top->lo <= other->hi) {
			pci_err(die->pdev, "slotwin: its root port would also claim slot %u, which %s is in\n",
				i, pci_name(sw_slots[i].open->pdev));
			return -EBUSY;
		}
	}
	if (!sw_card_is_sealed(die->card, top->pdev->subordinate))
		return -EBUSY;
	if (!sw_answers(die->pdev)) {
		pci_err(die->pdev, "slotwin: answers all-ones\n");
		return -EIO;
	}
	if (!sw_bar_holds(die->pdev, SW_BAR1, slot->base)) {
		pci_err(die->pdev, "slotwin: its BAR1 has lost the slot: place it again\n");
		return -EPERM;
	}
	return 0;
}

static int sw_swap(struct sw_die *die, struct sw_slot *slot, u32 *writes)
{
	struct sw_die *old = slot->open;
	struct sw_log log;
	int err;

	err = pm_runtime_get_sync(&die->pdev->dev);
	if (err < 0) {
		pci_err(die->pdev, "slotwin: does not wake: %d\n", err);
		err = -EIO;
		goto put;
	}
	err = sw_may_open(die, slot);
	if (err)
		goto put;
	sw_log_init(&log);
	sw_set_open(slot, NULL);
	if (old) {
		sw_maps_revoke(old);
		err = sw_leave(&log, old, die);
	}
	if (!err)
		err = sw_enter(&log, die);
	*writes = log.writes;
	if (err) {
		sw_swap_back(&log, slot, old, die);
		goto put;
	}
	sw_set_open(slot, die);
	sw_log_drop(&log);
	if (old)
		pm_runtime_put(&old->pdev->dev);
	return 0;
put:
	pm_runtime_put(&die->pdev->dev);
	return err;
}

/* Under the rescan lock and sw_lock. */
int sw_open(struct sw_die *die, u32 slot, u32 *writes)
{
	int err = 0;

	*writes = 0;
	if (!die->card || die->slot != slot)
		return -EPERM;
	if (!sw_slots[slot].hold->claimed)
		return -EBUSY;
	if (sw_slots[slot].open != die)
		err = sw_swap(die, &sw_slots[slot], writes);
	trace_slotwin_open(die->bdf, slot, *writes, err);
	return err;
}

/* Under the rescan lock and sw_lock. */
int sw_shut(u32 slot, u32 *writes)
{
	struct sw_die *die = sw_slots[slot].open;
	struct sw_log log;
	int err;

	*writes = 0;
	if (!die)
		return 0;
	sw_log_init(&log);
	sw_set_open(&sw_slots[slot], NULL);
	sw_maps_revoke(die);
	err = sw_leave(&log, die, NULL);
	*writes = log.writes;
	if (!err) {
		sw_log_drop(&log);
		pm_runtime_put(&die->pdev->dev);
	} else if (!sw_log_undo(&log) && sw_answers(die->path[0]->pdev)) {
		sw_refresh(die->card);
		sw_set_open(&sw_slots[slot], die);
	}
	trace_slotwin_shut(die->bdf, slot, *writes, err);
	return err;
}

/*
 * The die is being removed: what cannot be shut any more counts as shut. Its
 * inner gate is not left open, since a die that comes back behind it would not
 * be known to.
 */
void sw_shut_removed(struct sw_die *die)
{
	struct sw_log log;
	u32 writes;

	if (!die->card)
		return;
	if (die->open && sw_shut(die->slot, &writes)) {
		pci_err(die->pdev, "slotwin: removed, and its path does not shut\n");
		sw_log_init(&log);
		sw_set_open(&sw_slots[die->slot], NULL);
		sw_off_slot(&log, die, NULL);
		sw_log_drop(&log);
		sw_refresh(die->card);
		pm_runtime_put(&die->pdev->dev);
	}
	if (!die->path[0]->open)
		return;
	sw_log_init(&log);
	if (sw_window_gate(&log, die->path[0], false))
		pci_err(die->path[0]->pdev, "slotwin: does not shut\n");
	sw_log_drop(&log);
}
