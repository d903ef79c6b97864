// SPDX-License-Identifier: GPL-2.0
/*
 * The registers of a card, as PLACE means them to be: what they should hold,
 * whether they do, and writing them.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/pm_runtime.h>

#include "slotwin-core.h"

static u16 sw_expected_decode(struct sw_die *die, u32 gate)
{
	return gate == SLOTWIN_GATE_DECODE && !die->open ? 0 :
							   PCI_COMMAND_MEMORY;
}

/* Nothing of the die itself is to be changed for this home and gate. */
bool sw_die_in_place(struct sw_die *die, u32 slot, u32 gate)
{
	u16 command;

	if (!die->card || die->slot != slot || die->card->gate != gate ||
	    !die->pdev->resource[SW_BAR1].parent ||
	    !sw_bar_holds(die->pdev, SW_BAR1, sw_slots[slot].base))
		return false;
	pci_read_config_word(die->pdev, PCI_COMMAND, &command);
	return (command & PCI_COMMAND_MEMORY) == sw_expected_decode(die, gate);
}

bool sw_card_in_place(struct sw_card *card)
{
	struct sw_bridge *bridge;
	struct sw_die *die;

	sw_for_each_die_below(die, card->top)
		if (die->card != card ||
		    !sw_die_in_place(die, die->slot, card->gate))
			return false;
	list_for_each_entry(bridge, &card->bridges, node)
		if (!sw_window_is(bridge) ||
		    !bridge->pdev->resource[SW_PREF_WINDOW].parent)
			return false;
	return sw_layout_fits(card->top);
}

static int sw_bridges_check(struct sw_card *card)
{
	struct sw_bridge *bridge;

	list_for_each_entry(bridge, &card->bridges, node) {
		if (!sw_answers(bridge->pdev)) {
			pci_err(bridge->pdev, "slotwin: answers all-ones\n");
			return -EIO;
		}
		if (!sw_window_able(bridge->pdev)) {
			pci_err(bridge->pdev, "slotwin: has no 64-bit prefetchable window\n");
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

/* Decode off, and how large is BAR1? */
static int sw_die_prepare(struct sw_log *log, struct sw_die *die)
{
	int err;

	err = sw_write_word(log, die->pdev, PCI_COMMAND, 0,
			    PCI_COMMAND_MEMORY | PCI_COMMAND_IO);
	if (!err)
		err = sw_bar_size(log, die->pdev, SW_BAR1, &die->bar1_bytes);
	if (err)
		return err;
	die->bar1_flags = sw_bar_flags(die->pdev, SW_BAR1);
	if (die->bar1_bytes && die->bar1_flags & IORESOURCE_MEM_64 &&
	    die->bar1_bytes <= sw_slots[die->slot].bytes)
		return 0;
	pci_err(die->pdev, "slotwin: BAR1 of %#llx bytes does not go into a slot of %#llx\n",
		die->bar1_bytes, sw_slots[die->slot].bytes);
	return -EINVAL;
}

static int sw_die_program(struct sw_log *log, struct sw_die *die)
{
	int err = sw_bar_write(log, die->pdev, SW_BAR1,
			       sw_slots[die->slot].base);

	return err ?: sw_write_word(log, die->pdev, PCI_COMMAND,
				    sw_expected_decode(die, die->card->gate),
				    PCI_COMMAND_MEMORY);
}

/* The top is shut first; what is neither top nor inner stays open. */
static int sw_windows_write(struct sw_log *log, struct sw_card *card)
{
	struct sw_die *die;
	unsigned int i;
	int err;

	list_for_each_entry(die, &sw_dies, node) {
		for (i = die->card == card ? die->depth : 0; i--;) {
			err = sw_window_write(log, die->path[i],
					      i && i != die->depth - 1);
			if (err)
				return err;
		}
	}
	return 0;
}

/* Before the windows: decode off, sizes known, what came back owned. */
static int sw_card_prepare(struct sw_log *log, struct sw_card *card)
{
	bool again = !list_empty(&card->log.steps);
	struct sw_die *die;
	int err;

	sw_for_each_die_below(die, card->top) {
		if (die->stays)
			continue;
		err = sw_die_prepare(log, die);
		if (!err && again && die->was_home == SLOTWIN_NO_SLOT)
			err = sw_layout_own(log, die);
		if (err)
			return err;
	}
	return 0;
}

/* The dies are awake, and none is open. Those that stay are left alone. */
int sw_card_program(struct sw_log *log, struct sw_card *card)
{
	struct sw_die *die;
	int err;

	err = sw_bridges_check(card);
	if (!err)
		err = sw_card_prepare(log, card);
	if (!err)
		err = sw_windows_write(log, card);
	if (!err && !sw_layout_fits(card->top))
		err = sw_layout(log, card->top);
	if (!err)
		err = sw_shadow(log, card);
	if (err)
		return err;
	sw_for_each_die_below(die, card->top) {
		err = die->stays ? 0 : sw_die_program(log, die);
		if (err)
			return err;
	}
	if (sw_card_in_place(card))
		return 0;
	pci_err(card->top, "slotwin: its card did not come out as meant\n");
	return -EIO;
}

/* A die that sleeps loses what is written to it. */
static int sw_die_wake(struct sw_die *die)
{
	int err = pm_runtime_get_sync(&die->pdev->dev);

	if (err < 0 || !sw_answers(die->pdev)) {
		pci_err(die->pdev, "slotwin: does not wake, or answers all-ones: %d\n",
			err);
		return -EIO;
	}
	if (sw_asleep(die->pdev))
		pci_set_power_state(die->pdev, PCI_D0);
	if (!sw_asleep(die->pdev))
		return 0;
	pci_err(die->pdev, "slotwin: is in D3hot and does not leave it\n");
	return -EIO;
}

void sw_card_sleep(struct pci_dev *top)
{
	struct sw_die *die;

	sw_for_each_die_below(die, top)
		pm_runtime_put(&die->pdev->dev);
}

/* Each is to be let sleep again, even where this fails. */
int sw_card_wake(struct pci_dev *top)
{
	struct sw_die *die;
	int first = 0;
	int err;

	sw_for_each_die_below(die, top) {
		err = sw_die_wake(die);
		if (err && !first)
			first = err;
	}
	return first;
}

/* Back to as found; what the gates did since is undone first. */
int sw_card_restore(struct sw_card *card)
{
	struct sw_bridge *bridge;
	struct sw_die *die;
	struct sw_log log;
	int err = 0;

	sw_log_init(&log);
	list_for_each_entry(bridge, &card->bridges, node)
		pm_runtime_get_sync(&bridge->pdev->dev);
	list_for_each_entry(die, &sw_dies, node) {
		if (die->card != card)
			continue;
		if (!err)
			err = sw_window_gate(&log, die->path[die->depth - 1],
					     false);
		if (!err)
			err = sw_window_gate(&log, die->path[0], false);
	}
	sw_log_drop(&log);
	err = sw_log_undo(&card->log) ?: err;
	list_for_each_entry(bridge, &card->bridges, node)
		pm_runtime_put(&bridge->pdev->dev);
	return err;
}
