// SPDX-License-Identifier: GPL-2.0
/*
 * PEEK: single reads of BAR0 registers that are known to be safe to read. A
 * sleeping die is not woken, and none of its registers is ever written.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/io.h>
#include <linux/pm_runtime.h>

#include "slotwin-core.h"

#define SW_FBP_MIB	0x11020c	/* + 0x1000 * partition */
#define SW_MAX_FBP	16

static const u32 sw_safe[] = {
	0x000000,	/* PMC_BOOT_0: chip */
	0x000a00,	/* PMC_BOOT_42: chip, for newer drivers */
	0x0001a8,	/* fuse: the temperature is valid */
	0x020400,	/* temperature in degrees C */
	0x022438,	/* count of frame buffer partitions */
	0x022554,	/* those that are disabled */
};

static bool sw_is_safe(u32 offset)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sw_safe); i++)
		if (offset == sw_safe[i])
			return true;
	for (i = 0; i < SW_MAX_FBP; i++)
		if (offset == SW_FBP_MIB + 0x1000 * i)
			return true;
	return false;
}

static int sw_peek_awake(struct pci_dev *pdev, u32 offset, u32 *value)
{
	struct resource *bar0 = &pdev->resource[0];
	void __iomem *page;
	u16 command;

	if (!sw_answers(pdev))
		return -EIO;
	pci_read_config_word(pdev, PCI_COMMAND, &command);
	if (sw_asleep(pdev) || !(command & PCI_COMMAND_MEMORY))
		return -EAGAIN;
	if (!bar0->parent || resource_size(bar0) < offset + 4ULL ||
	    !sw_bar_holds(pdev, 0, bar0->start))
		return -EADDRNOTAVAIL;
	page = ioremap(bar0->start + (offset & PAGE_MASK), PAGE_SIZE);
	if (!page)
		return -ENOMEM;
	*value = readl(page + (offset & ~PAGE_MASK));
	iounmap(page);
	return 0;
}

/* Under sw_lock, which keeps the die from being removed meanwhile. */
int sw_peek(struct sw_die *die, u32 offset, u32 *value)
{
	struct device *dev = &die->pdev->dev;
	int err = -EAGAIN;

	if (!sw_is_safe(offset))
		return -EPERM;
	/* It shall not fall asleep in between; nor be woken. */
	pm_runtime_get_noresume(dev);
	if (pm_runtime_active(dev))
		err = sw_peek_awake(die->pdev, offset, value);
	pm_runtime_put(dev);
	return err;
}
