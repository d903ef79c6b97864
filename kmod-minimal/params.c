// SPDX-License-Identifier: GPL-2.0
/*
 * The two module parameters, parsed strictly: what is not understood fails the
 * load instead of being guessed at.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "slotwin-core.h"

static struct {
	u16 vendor;
	u16 device;
} sw_ids[SW_MAX_IDS];
static unsigned int sw_nr_ids;

struct sw_slot sw_slots[SLOTWIN_MAX_SLOTS];
unsigned int sw_nr_slots;

bool sw_is_die(struct pci_dev *pdev)
{
	unsigned int i;

	for (i = 0; i < sw_nr_ids; i++)
		if (pdev->vendor == sw_ids[i].vendor &&
		    pdev->device == sw_ids[i].device)
			return true;
	return false;
}

static int sw_parse_id(const char *word)
{
	char copy[10];
	char *colon;
	u16 vendor, device;

	if (sw_nr_ids == SW_MAX_IDS) {
		pr_err("ids: more than %d\n", SW_MAX_IDS);
		return -EINVAL;
	}
	if (strscpy(copy, word, sizeof(copy)) != 9 || copy[4] != ':')
		goto bad;
	colon = copy + 4;
	*colon = '\0';
	if (kstrtou16(copy, 16, &vendor) || kstrtou16(colon + 1, 16, &device))
		goto bad;
	sw_ids[sw_nr_ids].vendor = vendor;
	sw_ids[sw_nr_ids].device = device;
	sw_nr_ids++;
	return 0;
bad:
	pr_err("ids: \"%s\" is no vendor:device in four hex digits each\n",
	       word);
	return -EINVAL;
}

static int sw_parse_slot(char *word)
{
	struct sw_slot *slot = &sw_slots[sw_nr_slots];
	char *plus = strchr(word, '+');
	unsigned int i;
	char *end;

	if (sw_nr_slots == SLOTWIN_MAX_SLOTS) {
		pr_err("slots: more than %d\n", SLOTWIN_MAX_SLOTS);
		return -EINVAL;
	}
	slot->bytes = 16ULL * SZ_1G;
	if (plus) {
		*plus++ = '\0';
		slot->bytes = memparse(plus, &end);
		if (end == plus || *end) {
			pr_err("slots: \"%s\" is no size\n", plus);
			return -EINVAL;
		}
	}
	if (kstrtou64(word, 0, &slot->base)) {
		pr_err("slots: \"%s\" is no address\n", word);
		return -EINVAL;
	}
	if (slot->bytes < SZ_1M || !is_power_of_2(slot->bytes)) {
		pr_err("slots: size %#llx is no power of two from 1 MiB up\n",
		       slot->bytes);
		return -EINVAL;
	}
	if (slot->base < SZ_4G || slot->base & (slot->bytes - 1) ||
	    slot->base + slot->bytes < slot->base) {
		pr_err("slots: %#llx lies below 4 GiB or is not aligned to its size %#llx\n",
		       slot->base, slot->bytes);
		return -EINVAL;
	}
	for (i = 0; i < sw_nr_slots; i++)
		if (slot->base < sw_slots[i].base + sw_slots[i].bytes &&
		    sw_slots[i].base < slot->base + slot->bytes) {
			pr_err("slots: %#llx overlaps %#llx\n", slot->base,
			       sw_slots[i].base);
			return -EINVAL;
		}
	sw_nr_slots++;
	return 0;
}

static int sw_each_word(const char *text, int (*parse)(char *word))
{
	char *copy, *rest, *word;
	int err = 0;

	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = strim(copy);
	while (!err && (word = strsep(&rest, ",")))
		err = parse(word);
	kfree(copy);
	return err;
}

static int sw_parse_id_word(char *word)
{
	return sw_parse_id(word);
}

int sw_parse_ids(const char *text)
{
	return sw_each_word(text, sw_parse_id_word);
}

int sw_parse_slots(const char *text)
{
	return sw_each_word(text, sw_parse_slot);
}
