// SPDX-License-Identifier: GPL-2.0
/*
 * The driver that would take the dies of the boot test if it came first: it has
 * nvidia's name, and binds whatever has the id of QEMU's `edu` device.
 */
#include <linux/module.h>
#include <linux/pci.h>

static int rival_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	pci_info(pdev, "taken by the rival\n");
	return 0;
}

static const struct pci_device_id rival_ids[] = {
	{ PCI_DEVICE(0x1234, 0x11e8) },
	{ }
};
MODULE_DEVICE_TABLE(pci, rival_ids);

static struct pci_driver rival_driver = {
	.name = "nvidia",
	.id_table = rival_ids,
	.probe = rival_probe,
};
module_pci_driver(rival_driver);

MODULE_DESCRIPTION("Takes the dies of the boot test where it is loaded first");
MODULE_LICENSE("GPL");
