// SPDX-License-Identifier: GPL-2.0
/*
 * The requests of slotwin.h: sizes, flags and rights are checked here, in one
 * place, before anything else looks at them.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/fs.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "slotwin-core.h"

union sw_request {
	struct slotwin_info info;
	struct slotwin_survey survey;
	struct slotwin_place place;
	struct slotwin_open open;
	struct slotwin_shut shut;
	struct slotwin_peek peek;
	struct slotwin_map map;
};

/* A die that is there, or why not. */
static int sw_known(slotwin_bdf bdf, struct sw_die **die)
{
	*die = sw_die_find(bdf);
	if (!*die)
		return -ENXIO;
	return (*die)->gone ? -ENODEV : 0;
}

static int sw_do_info(union sw_request *req)
{
	struct slotwin_info *info = &req->info;
	struct sw_die *die;
	unsigned int i;

	if (info->flags || info->reserved)
		return -EINVAL;
	info->api = SLOTWIN_API;
	info->nr_slots = sw_nr_slots;
	info->nr_dies = 0;
	list_for_each_entry(die, &sw_dies, node)
		info->nr_dies++;
	for (i = 0; i < sw_nr_slots; i++) {
		info->slots[i].base = sw_slots[i].base;
		info->slots[i].bytes = sw_slots[i].bytes;
		info->slots[i].open = sw_slots[i].open ?
				      sw_slots[i].open->bdf : SLOTWIN_NO_DIE;
	}
	return 0;
}

static u64 sw_bar_at(struct sw_die *die, int bar)
{
	struct resource *res = &die->pdev->resource[bar];

	return res->parent ? res->start : 0;
}

static int sw_do_survey(union sw_request *req)
{
	struct slotwin_survey *survey = &req->survey;
	struct sw_die *die;
	u32 i = 0;

	list_for_each_entry(die, &sw_dies, node)
		if (i++ == survey->index)
			break;
	if (list_entry_is_head(die, &sw_dies, node))
		return -ENXIO;
	survey->bdf = die->bdf;
	survey->state = sw_die_state(die);
	survey->slot = SLOTWIN_NO_SLOT;
	survey->gate = die->card ? die->card->gate : SLOTWIN_GATE_WINDOW;
	survey->bar0 = 0;
	survey->bar1 = 0;
	survey->bar3 = 0;
	if (die->gone)
		return 0;
	survey->bar0 = sw_bar_at(die, 0);
	survey->bar1 = sw_bar_at(die, SW_BAR1);
	survey->bar3 = sw_bar_at(die, 3);
	if (die->card)
		survey->slot = die->slot;
	else if (survey->bar1)
		survey->slot = sw_slot_within(survey->bar1, survey->bar1);
	return 0;
}

static int sw_do_place(union sw_request *req)
{
	struct slotwin_place *place = &req->place;
	struct sw_die *die;
	int err;

	if (place->flags || place->gate > SLOTWIN_GATE_DECODE)
		return -EINVAL;
	err = sw_known(place->die, &die);
	if (err)
		return err;
	if (place->slot >= sw_nr_slots)
		return -ENXIO;
	return sw_place(die, place->slot, place->gate, &place->config_writes);
}

static int sw_do_open(union sw_request *req)
{
	struct slotwin_open *open = &req->open;
	struct sw_die *die;
	int err;

	if (open->flags || open->reserved)
		return -EINVAL;
	err = sw_known(open->die, &die);
	if (err)
		return err;
	if (open->slot >= sw_nr_slots)
		return -ENXIO;
	open->base = sw_slots[open->slot].base;
	open->bytes = sw_slots[open->slot].bytes;
	return sw_open(die, open->slot, &open->config_writes);
}

static int sw_do_shut(union sw_request *req)
{
	struct slotwin_shut *shut = &req->shut;

	if (shut->flags)
		return -EINVAL;
	if (shut->slot >= sw_nr_slots)
		return -ENXIO;
	return sw_shut(shut->slot, &shut->config_writes);
}

static int sw_do_peek(union sw_request *req)
{
	struct slotwin_peek *peek = &req->peek;
	struct sw_die *die;
	int err;

	if (peek->flags || peek->reserved)
		return -EINVAL;
	err = sw_known(peek->die, &die);
	return err ?: sw_peek(die, peek->offset, &peek->value);
}

static int sw_do_map(union sw_request *req)
{
	struct slotwin_map *map = &req->map;
	struct sw_die *die;
	int err;

	if (map->flags)
		return -EINVAL;
	err = sw_known(map->die, &die);
	if (err)
		return err;
	map->fd = sw_map(die);
	return min(map->fd, 0);
}

/* Those that change something want a descriptor open for writing. */
#define SW_WRITES	BIT(0)
/* Those that move windows keep the PCI tree still. */
#define SW_TREE		BIT(1)

static const struct {
	int (*run)(union sw_request *req);
	size_t bytes;
	unsigned int needs;
} sw_requests[] = {
	[_IOC_NR(SLOTWIN_INFO)] = { sw_do_info, sizeof(struct slotwin_info) },
	[_IOC_NR(SLOTWIN_SURVEY)] = { sw_do_survey,
				      sizeof(struct slotwin_survey) },
	[_IOC_NR(SLOTWIN_PLACE)] = { sw_do_place, sizeof(struct slotwin_place),
				     SW_WRITES | SW_TREE },
	[_IOC_NR(SLOTWIN_OPEN)] = { sw_do_open, sizeof(struct slotwin_open),
				    SW_WRITES | SW_TREE },
	[_IOC_NR(SLOTWIN_SHUT)] = { sw_do_shut, sizeof(struct slotwin_shut),
				    SW_WRITES | SW_TREE },
	[_IOC_NR(SLOTWIN_PEEK)] = { sw_do_peek, sizeof(struct slotwin_peek) },
	[_IOC_NR(SLOTWIN_MAP)] = { sw_do_map, sizeof(struct slotwin_map),
				   SW_WRITES },
};

static int sw_run(unsigned int nr, union sw_request *req)
{
	int err;

	if (sw_requests[nr].needs & SW_TREE)
		pci_lock_rescan_remove();
	mutex_lock(&sw_lock);
	err = sw_requests[nr].run(req);
	mutex_unlock(&sw_lock);
	if (sw_requests[nr].needs & SW_TREE)
		pci_unlock_rescan_remove();
	return err;
}

static long sw_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	unsigned int nr = _IOC_NR(cmd);
	void __user *user = (void __user *)arg;
	union sw_request req;
	u32 size;
	int err;

	if (_IOC_TYPE(cmd) != SLOTWIN_TYPE || cmd != _IO(SLOTWIN_TYPE, nr) ||
	    nr >= ARRAY_SIZE(sw_requests))
		return -ENOTTY;
	if (sw_requests[nr].needs & SW_WRITES && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	/* Nothing is shorter than this first version, nor than a page. */
	if (size < sw_requests[nr].bytes || size > PAGE_SIZE)
		return size > PAGE_SIZE ? -E2BIG : -EINVAL;
	memset(&req, 0, sizeof(req));
	err = copy_struct_from_user(&req, sw_requests[nr].bytes, user, size);
	if (err)
		return err;
	/* What it cost is of interest even where it failed. */
	err = sw_run(nr, &req);
	if (copy_to_user(user, &req, sw_requests[nr].bytes))
		return -EFAULT;
	return err;
}

const struct file_operations sw_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = sw_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
