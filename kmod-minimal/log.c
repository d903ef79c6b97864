// SPDX-License-Identifier: GPL-2.0
/*
 * Every write to a config register or a struct resource goes through here. The
 * old value is recorded before the step, so that a change of many steps can be
 * taken back in reverse; a register is read before it is written (and left
 * alone if it holds the value) and read back after.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/slab.h>

#include "slotwin-core.h"

enum sw_step_kind {
	SW_STEP_DWORD,
	SW_STEP_WORD,
	SW_STEP_RESOURCE,
	SW_STEP_HOLD,
};

struct sw_step {
	struct list_head node;
	enum sw_step_kind kind;
	struct pci_dev *pdev;
	union {
		struct {
			int where;
			u32 was;
		} reg;
		struct {
			struct resource *res;
			struct resource was;
		} res;
		struct sw_hold *hold;
	};
};

void sw_log_init(struct sw_log *log)
{
	INIT_LIST_HEAD(&log->steps);
	log->writes = 0;
}

static struct sw_step *sw_step_add(struct sw_log *log, enum sw_step_kind kind,
				   struct pci_dev *pdev)
{
	struct sw_step *step = kzalloc(sizeof(*step), GFP_KERNEL);

	if (!step)
		return NULL;
	step->kind = kind;
	step->pdev = pdev ? pci_dev_get(pdev) : NULL;
	list_add(&step->node, &log->steps);
	return step;
}

static void sw_step_free(struct sw_step *step)
{
	list_del(&step->node);
	pci_dev_put(step->pdev);
	kfree(step);
}

/* Writes those bits of a dword that the mask names; counts and reads back. */
int sw_write(struct sw_log *log, struct pci_dev *pdev, int where, u32 value,
	     u32 mask)
{
	struct sw_step *step;
	u32 was, now;

	pci_read_config_dword(pdev, where, &was);
	if (was == ~0U && !sw_answers(pdev)) {
		pci_err(pdev, "slotwin: answers all-ones\n");
		return -EIO;
	}
	if (!((was ^ value) & mask))
		return 0;
	step = sw_step_add(log, SW_STEP_DWORD, pdev);
	if (!step)
		return -ENOMEM;
	step->reg.where = where;
	step->reg.was = was;
	pci_write_config_dword(pdev, where, (was & ~mask) | (value & mask));
	log->writes++;
	pci_read_config_dword(pdev, where, &now);
	if (!((now ^ value) & mask))
		return 0;
	pci_err(pdev, "slotwin: register %#x was %#010x, should hold %#010x, reads %#010x\n",
		where, was, value, now);
	return -EIO;
}

int sw_write_word(struct sw_log *log, struct pci_dev *pdev, int where,
		  u16 value, u16 mask)
{
	struct sw_step *step;
	u16 was, now;

	pci_read_config_word(pdev, where, &was);
	if (was == 0xffff) {
		pci_err(pdev, "slotwin: answers all-ones\n");
		return -EIO;
	}
	if (!((was ^ value) & mask))
		return 0;
	step = sw_step_add(log, SW_STEP_WORD, pdev);
	if (!step)
		return -ENOMEM;
	step->reg.where = where;
	step->reg.was = was;
	pci_write_config_word(pdev, where, (was & ~mask) | (value & mask));
	log->writes++;
	pci_read_config_word(pdev, where, &now);
	if (!((now ^ value) & mask))
		return 0;
	pci_err(pdev, "slotwin: register %#x was %#06x, should hold %#06x, reads %#06x\n",
		where, was, value, now);
	return -EIO;
}

/* Writes all ones to find out which bits of a BAR stick. */
int sw_write_size(struct sw_log *log, struct pci_dev *pdev, int where,
		  u32 *bits)
{
	struct sw_step *step = sw_step_add(log, SW_STEP_DWORD, pdev);

	if (!step)
		return -ENOMEM;
	step->reg.where = where;
	pci_read_config_dword(pdev, where, &step->reg.was);
	pci_write_config_dword(pdev, where, ~0U);
	log->writes++;
	pci_read_config_dword(pdev, where, bits);
	return 0;
}

static struct sw_step *sw_step_res(struct sw_log *log, struct pci_dev *pdev,
				   struct resource *res)
{
	struct sw_step *step = sw_step_add(log, SW_STEP_RESOURCE, pdev);

	if (step) {
		step->res.res = res;
		step->res.was = *res;
	}
	return step;
}

/* Takes a resource out of the tree; whatever lies in it must be out before. */
int sw_res_drop(struct sw_log *log, struct pci_dev *pdev, struct resource *res)
{
	if (!res->parent)
		return 0;
	if (res->child) {
		pci_err(pdev, "slotwin: %pR still holds %pR\n", res,
			res->child);
		return -EBUSY;
	}
	if (!sw_step_res(log, pdev, res))
		return -ENOMEM;
	return release_resource(res);
}

/* Gives a resource that is in no tree its range and its parent. */
int sw_res_set(struct sw_log *log, struct pci_dev *pdev, struct resource *res,
	       struct resource *parent, u64 start, u64 bytes,
	       unsigned long flags)
{
	int err;

	if (!sw_step_res(log, pdev, res))
		return -ENOMEM;
	res->start = start;
	res->end = start + bytes - 1;
	res->flags = flags;
	if (!res->name)
		res->name = pci_name(pdev);
	err = request_resource(parent, res);
	if (err)
		pci_err(pdev, "slotwin: %pR does not go into %pR: %d\n", res,
			parent, err);
	return err;
}

/*
 * Takes over a resource where it lies, with what lies in it. It came there by
 * the kernel's hand inside a range of ours, and so has nowhere to go back to:
 * undone, it is unset, for a rescan to assign. Without a parent it is that now.
 */
int sw_res_own(struct sw_log *log, struct pci_dev *pdev, struct resource *res,
	       struct resource *parent)
{
	unsigned long flags = res->flags;

	if (!res->parent)
		return 0;
	release_resource(res);
	res->flags |= IORESOURCE_UNSET;
	if (!parent)
		return 0;
	return sw_res_set(log, pdev, res, parent, res->start,
			  resource_size(res), flags);
}

/* Gives a private root, which is in no tree, its range. */
int sw_res_root(struct sw_log *log, struct pci_dev *pdev,
		struct resource *root, u64 lo, u64 hi)
{
	if (root->start == lo && root->end == hi)
		return 0;
	if (!sw_step_res(log, pdev, root))
		return -ENOMEM;
	root->name = "slotwin off-slot";
	root->start = lo;
	root->end = hi;
	root->flags = IORESOURCE_MEM;
	return 0;
}

/* Finds room below 4 GiB for the memory window of a root port. */
int sw_res_alloc(struct sw_log *log, struct pci_dev *top, struct resource *res,
		 u64 bytes, u64 align)
{
	int err;

	if (!sw_step_res(log, top, res))
		return -ENOMEM;
	res->start = 0;
	res->end = bytes - 1;
	res->flags = IORESOURCE_MEM;
	err = pci_bus_alloc_resource(top->bus, res, bytes, align,
				     PCIBIOS_MIN_MEM, 0, NULL, NULL);
	if (!err)
		return 0;
	pci_err(top, "slotwin: no %llu MiB of 32-bit space for the BARs of its card: %d\n",
		bytes >> 20, err);
	return -ENOSPC;
}

int sw_log_hold(struct sw_log *log, struct sw_hold *hold)
{
	struct sw_step *step = sw_step_add(log, SW_STEP_HOLD, NULL);

	if (!step)
		return -ENOMEM;
	step->hold = hold;
	return 0;
}

static int sw_undo_res(struct sw_step *step)
{
	struct resource *res = step->res.res;
	struct resource *was = &step->res.was;
	int err = 0;

	if (res->parent)
		release_resource(res);
	res->start = was->start;
	res->end = was->end;
	res->flags = was->flags;
	if (was->parent)
		err = request_resource(was->parent, res);
	if (err)
		pci_err(step->pdev, "slotwin: %pR cannot go back to where it was: %d\n",
			res, err);
	return err;
}

static int sw_undo_reg(struct sw_step *step)
{
	u32 now = 0;
	u16 word;

	if (step->kind == SW_STEP_WORD) {
		pci_write_config_word(step->pdev, step->reg.where,
				      step->reg.was);
		pci_read_config_word(step->pdev, step->reg.where, &word);
		now = word;
	} else {
		pci_write_config_dword(step->pdev, step->reg.where,
				       step->reg.was);
		pci_read_config_dword(step->pdev, step->reg.where, &now);
	}
	if (now == step->reg.was)
		return 0;
	pci_err(step->pdev, "slotwin: register %#x should be back at %#x, reads %#x\n",
		step->reg.where, step->reg.was, now);
	return -EIO;
}

/* Takes everything back, newest first, as far as it goes; the first error. */
int sw_log_undo(struct sw_log *log)
{
	struct sw_step *step, *next;
	int first = 0;
	int err;

	list_for_each_entry_safe(step, next, &log->steps, node) {
		err = 0;
		switch (step->kind) {
		case SW_STEP_DWORD:
		case SW_STEP_WORD:
			err = sw_undo_reg(step);
			log->writes++;
			break;
		case SW_STEP_RESOURCE:
			err = sw_undo_res(step);
			break;
		case SW_STEP_HOLD:
			sw_hold_remove(step->hold);
			break;
		}
		if (err && !first)
			first = err;
		sw_step_free(step);
	}
	return first;
}

/* The steps of a log that went well become the newest of another. */
void sw_log_splice(struct sw_log *onto, struct sw_log *log)
{
	list_splice_init(&log->steps, &onto->steps);
	onto->writes += log->writes;
}

/* A device is leaving: nothing of it is to be taken back any more. */
void sw_log_forget(struct sw_log *log, struct pci_dev *pdev)
{
	struct sw_step *step, *next;

	list_for_each_entry_safe(step, next, &log->steps, node)
		if (step->pdev == pdev)
			sw_step_free(step);
}

void sw_log_drop(struct sw_log *log)
{
	struct sw_step *step, *next;

	list_for_each_entry_safe(step, next, &log->steps, node)
		sw_step_free(step);
}
