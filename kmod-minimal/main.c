// SPDX-License-Identifier: GPL-2.0
/*
 * slotwin - one address range, many dies taking turns in it
 *
 * Loading finds the dies and claims the slots' ranges; it writes to no device.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/miscdevice.h>
#include <linux/module.h>

#include "slotwin-core.h"

static char *ids = "10de:102d";
module_param(ids, charp, 0444);
MODULE_PARM_DESC(ids, "PCI ids of the dies, vendor:device[,...]");

static char *slots = "0xC00000000";
module_param(slots, charp, 0444);
MODULE_PARM_DESC(slots, "slots, address[+size][,...], 16 GiB each by default");

/* Dies, cards, slots, and all register writes; see slotwin-core.h for the order */
DEFINE_MUTEX(sw_lock);

/* The descriptor that this gives is for root: it moves other people's windows */
static struct miscdevice sw_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "slotwin",
	.fops = &sw_fops,
	.mode = 0600,
};

static void sw_stop(void)
{
	pci_lock_rescan_remove();
	mutex_lock(&sw_lock);
	sw_unplace_all();
	sw_holds_exit();
	mutex_unlock(&sw_lock);
	pci_unlock_rescan_remove();
	sw_topology_exit();
}

static int __init sw_init(void)
{
	int err;

	init_rwsem(&sw_open_sem);
	err = sw_parse_ids(ids);
	if (!err)
		err = sw_parse_slots(slots);
	if (!err)
		err = sw_topology_init();
	if (err)
		return err;
	pci_lock_rescan_remove();
	err = sw_holds_init();
	pci_unlock_rescan_remove();
	if (!err)
		err = misc_register(&sw_misc);
	if (err)
		sw_stop();
	return err;
}

static void __exit sw_exit(void)
{
	misc_deregister(&sw_misc);
	sw_stop();
}

module_init(sw_init);
module_exit(sw_exit);

MODULE_DESCRIPTION("One address slot shared by many large-BAR dies");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
