// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for NVIDIA's 470 driver, for the rig: it asks of the machine what
 * 470 asks at probe, open and remove, and says so in the same words, without
 * driving anything. It never writes to a device's memory.
 *
 *  - loading fails with -ENODEV where no device was probed;
 *  - probe needs pci_enable_device(), and non-zero upper halves of the
 *    prefetchable window of the bridge directly above for a BAR over 4 GiB;
 *  - addresses are cached at probe, only BAR0 is requested;
 *  - the adapter is initialised by the first open and shut by the last close;
 *  - remove waits, however long, until nobody uses the device.
 *
 * Like 470 it makes no nodes in /dev: userspace does (major 195, minor N for
 * device N, 255 for the control device).
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <asm/processor.h>

#define NV_MAJOR		195
#define NV_MINOR_CTL		255
#define NV_MAX_DEVICES		32
#define NV_VENDOR		0x10de
#define NV_PMC_BOOT_0		0x0
#define NV_PMC_BOOT_42		0xa00

struct nv_bar {
	u64 address;
	u64 size;
};

struct nv_device {
	struct pci_dev *pdev;
	unsigned int minor;
	atomic_t usage;
	bool initialised;
	void __iomem *registers;
	struct nv_bar bar0;
	struct nv_bar bar1;
	struct proc_dir_entry *proc;
};

/* Orders open, close, probe and remove. Never held while remove waits. */
static DEFINE_MUTEX(nv_lock);
static struct nv_device *nv_devices[NV_MAX_DEVICES];
static unsigned int nv_probed;
static unsigned int nv_bound;
static struct proc_dir_entry *nv_proc;
static struct proc_dir_entry *nv_proc_gpus;

static const char *nv_model(const struct pci_dev *pdev)
{
	switch (pdev->device) {
	case 0x102d:
		return "Tesla K80";
	case 0x1eb8:
		return "Tesla T4";
	default:
		return "Unknown";
	}
}

static int nv_information(struct seq_file *s, void *unused)
{
	struct nv_device *nv = s->private;
	struct pci_dev *pdev = nv->pdev;
	bool known = READ_ONCE(nv->initialised);
	u16 dev = pci_dev_id(pdev);

	seq_printf(s, "Model: \t\t %s\n", nv_model(pdev));
	seq_printf(s, "IRQ:   \t\t %u\n", pdev->irq);
	if (known)
		seq_printf(s, "GPU UUID: \t GPU-00000000-0000-0000-0000-%04x%04x%04x\n",
			   pdev->device, pci_domain_nr(pdev->bus), dev);
	else
		seq_puts(s, "GPU UUID: \t GPU-????????-????-????-????-????????????\n");
	seq_printf(s, "Video BIOS: \t %s\n", known ? "80.21.1f.00.01" : "??.??.??.??.??");
	seq_puts(s, "Bus Type: \t PCIe\n");
	seq_printf(s, "DMA Size: \t %d bits\n", fls64(pdev->dma_mask));
	seq_printf(s, "DMA Mask: \t 0x%llx\n", pdev->dma_mask);
	seq_printf(s, "Bus Location: \t %s\n", pci_name(pdev));
	seq_printf(s, "Device Minor: \t %u\n", nv->minor);
	seq_puts(s, "GPU Excluded:\t No\n");
	return 0;
}

/* 470's adapter start: needs BAR1, and a die that answers. */
static int nv_start(struct nv_device *nv)
{
	u32 boot;

	if (!nv->bar1.address) {
		pci_err(nv->pdev, "NVRM: GPU %s: RmInitAdapter failed! (0x22:0xffff:667)\n",
			pci_name(nv->pdev));
		return -EIO;
	}
	boot = readl(nv->registers + NV_PMC_BOOT_0);
	if (boot == U32_MAX) {
		pci_err(nv->pdev, "NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus.\n",
			pci_name(nv->pdev));
		return -EIO;
	}
	WRITE_ONCE(nv->initialised, true);
	return 0;
}

static int nv_open(struct inode *inode, struct file *file)
{
	unsigned int minor = iminor(inode);
	struct nv_device *nv;
	int ret = 0;

	if (minor == NV_MINOR_CTL) {
		file->private_data = NULL;
		return 0;
	}
	if (minor >= NV_MAX_DEVICES)
		return -ENODEV;
	mutex_lock(&nv_lock);
	nv = nv_devices[minor];
	if (!nv)
		ret = -ENODEV;
	else if (!nv->initialised)
		ret = nv_start(nv);
	if (!ret) {
		atomic_inc(&nv->usage);
		file->private_data = nv;
	}
	mutex_unlock(&nv_lock);
	return ret;
}

static int nv_release(struct inode *inode, struct file *file)
{
	struct nv_device *nv = file->private_data;

	if (!nv)
		return 0;
	mutex_lock(&nv_lock);
	if (atomic_dec_and_test(&nv->usage)) {
		/* The shut-down is where contexts end; it wants a live die. */
		if (readl(nv->registers + NV_PMC_BOOT_0) == U32_MAX)
			pci_err(nv->pdev, "NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus.\n",
				pci_name(nv->pdev));
		WRITE_ONCE(nv->initialised, false);
	}
	mutex_unlock(&nv_lock);
	return 0;
}

/* Pages of BAR1 at the address that probe had seen. */
static int nv_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct nv_device *nv = file->private_data;
	u64 bytes = vma->vm_end - vma->vm_start;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!nv)
		return -EINVAL;
	if (offset > nv->bar1.size || bytes > nv->bar1.size - offset)
		return -EINVAL;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	return io_remap_pfn_range(vma, vma->vm_start,
				  (nv->bar1.address + offset) >> PAGE_SHIFT,
				  bytes, vma->vm_page_prot);
}

static const struct file_operations nv_fops = {
	.owner = THIS_MODULE,
	.open = nv_open,
	.release = nv_release,
	.mmap = nv_mmap,
};

static bool nv_bridge_fits(struct pci_dev *pdev)
{
	struct pci_dev *bridge = pci_upstream_bridge(pdev);
	u32 base = 0, limit = 0;

	if (!bridge)
		return true;
	pci_read_config_dword(bridge, PCI_PREF_BASE_UPPER32, &base);
	pci_read_config_dword(bridge, PCI_PREF_LIMIT_UPPER32, &limit);
	if (base && limit)
		return true;
	pci_err(pdev, "NVRM: This is a 64-bit BAR mapped above 4GB by the system\n");
	pci_err(pdev, "NVRM: BIOS or the Linux kernel, but the PCI bridge\n");
	pci_err(pdev, "NVRM: immediately upstream of this GPU does not define\n");
	pci_err(pdev, "NVRM: a matching prefetchable memory window.\n");
	return false;
}

/* Invalid BARs are passed over in silence, as 470 does. */
static bool nv_cache_bars(struct nv_device *nv)
{
	struct nv_bar *bars[] = { &nv->bar0, &nv->bar1 };
	struct pci_dev *pdev = nv->pdev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bars); i++) {
		u64 start = pci_resource_start(pdev, i);

		if (!pci_resource_len(pdev, i) || !start)
			continue;
		if (pci_resource_flags(pdev, i) & IORESOURCE_MEM_64 &&
		    upper_32_bits(start) && !nv_bridge_fits(pdev))
			return false;
		bars[i]->address = start;
		bars[i]->size = pci_resource_len(pdev, i);
	}
	return true;
}

static int nv_number(struct nv_device *nv)
{
	unsigned int i;

	for (i = 0; i < NV_MAX_DEVICES; i++) {
		if (!nv_devices[i]) {
			nv->minor = i;
			nv_devices[i] = nv;
			return 0;
		}
	}
	return -ENOSPC;
}

static int nv_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct nv_device *nv;
	u32 boot, boot42;
	int ret;

	nv_probed++;
	nv = kzalloc(sizeof(*nv), GFP_KERNEL);
	if (!nv)
		return -ENOMEM;
	nv->pdev = pdev;

	ret = pci_enable_device(pdev);
	if (ret) {
		pci_err(pdev, "NVRM: pci_enable_device failed, aborting\n");
		goto free;
	}
	ret = -ENODEV;
	if (!nv_cache_bars(nv))
		goto disable;
	if (!nv->bar0.address) {
		pci_err(pdev, "NVRM: BAR0 is 0M @ 0x0 (PCI:%s)\n", pci_name(pdev));
		goto disable;
	}
	if (!request_mem_region(nv->bar0.address, nv->bar0.size, "nvidia")) {
		pci_err(pdev, "NVRM: request_mem_region failed for %lluM @ 0x%llx\n",
			nv->bar0.size >> 20, nv->bar0.address);
		goto disable;
	}
	nv->registers = ioremap(nv->bar0.address, nv->bar0.size);
	if (!nv->registers) {
		ret = -ENOMEM;
		goto release;
	}
	ret = -ENODEV;
	boot = readl(nv->registers + NV_PMC_BOOT_0);
	boot42 = readl(nv->registers + NV_PMC_BOOT_42);
	if (boot == U32_MAX || boot42 == U32_MAX) {
		pci_err(pdev, "NVRM: The NVIDIA GPU %s (PCI ID: %04x:%04x)\n",
			pci_name(pdev), pdev->vendor, pdev->device);
		pci_err(pdev, "NVRM: has fallen off the bus and is not responding to commands.\n");
		goto unmap;
	}

	mutex_lock(&nv_lock);
	ret = nv_number(nv);
	mutex_unlock(&nv_lock);
	if (ret)
		goto unmap;
	dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(min_t(int, 40, boot_cpu_data.x86_phys_bits)));
	pci_set_master(pdev);
	pci_set_drvdata(pdev, nv);
	nv->proc = proc_mkdir(pci_name(pdev), nv_proc_gpus);
	if (nv->proc)
		proc_create_single_data("information", 0444, nv->proc, nv_information, nv);
	nv_bound++;
	return 0;

unmap:
	iounmap(nv->registers);
release:
	release_mem_region(nv->bar0.address, nv->bar0.size);
disable:
	pci_disable_device(pdev);
free:
	kfree(nv);
	return ret;
}

static void nv_remove(struct pci_dev *pdev)
{
	struct nv_device *nv = pci_get_drvdata(pdev);

	mutex_lock(&nv_lock);
	if (atomic_read(&nv->usage)) {
		pci_err(pdev, "NVRM: Attempting to remove minor device %u with non-zero usage count!\n",
			nv->minor);
		while (atomic_read(&nv->usage)) {
			mutex_unlock(&nv_lock);
			msleep(500);
			mutex_lock(&nv_lock);
		}
		pci_err(pdev, "NVRM: Continuing with GPU removal for minor device %u\n", nv->minor);
	}
	nv_devices[nv->minor] = NULL;
	mutex_unlock(&nv_lock);

	proc_remove(nv->proc);
	iounmap(nv->registers);
	release_mem_region(nv->bar0.address, nv->bar0.size);
	pci_disable_device(pdev);
	pci_set_drvdata(pdev, NULL);
	kfree(nv);
	nv_bound--;
}

static const struct pci_device_id nv_ids[] = {
	{ PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, PCI_ANY_ID, PCI_ANY_ID, PCI_CLASS_DISPLAY_VGA << 8, ~0 },
	{ PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, PCI_ANY_ID, PCI_ANY_ID, PCI_CLASS_DISPLAY_3D << 8, ~0 },
	{ }
};
MODULE_DEVICE_TABLE(pci, nv_ids);

static struct pci_driver nv_driver = {
	.name = "nvidia",
	.id_table = nv_ids,
	.probe = nv_probe,
	.remove = nv_remove,
};

static unsigned int nv_count(void)
{
	struct pci_dev *pdev = NULL;
	unsigned int count = 0;

	while ((pdev = pci_get_device(NV_VENDOR, PCI_ANY_ID, pdev)))
		if (pci_match_id(nv_ids, pdev))
			count++;
	return count;
}

static int __init nv_init(void)
{
	unsigned int count = nv_count();
	int ret;

	if (!count) {
		pr_err("NVRM: No NVIDIA GPU found.\n");
		return -ENODEV;
	}
	nv_proc = proc_mkdir("driver/nvidia", NULL);
	if (!nv_proc)
		return -ENOMEM;
	nv_proc_gpus = proc_mkdir("gpus", nv_proc);
	ret = register_chrdev(NV_MAJOR, "nvidia-frontend", &nv_fops);
	if (ret < 0)
		goto proc;
	ret = pci_register_driver(&nv_driver);
	if (ret)
		goto chrdev;
	if (nv_probed != count)
		pr_notice("NVRM: The NVIDIA probe routine was not called for %u device(s).\n",
			  count - nv_probed);
	ret = -ENODEV;
	if (!nv_probed) {
		pr_err("NVRM: No NVIDIA devices probed.\n");
		goto driver;
	}
	if (!nv_bound) {
		pr_err("NVRM: None of the NVIDIA devices were initialized.\n");
		goto driver;
	}
	return 0;

driver:
	pci_unregister_driver(&nv_driver);
chrdev:
	unregister_chrdev(NV_MAJOR, "nvidia-frontend");
proc:
	proc_remove(nv_proc);
	return ret;
}

static void __exit nv_exit(void)
{
	pci_unregister_driver(&nv_driver);
	unregister_chrdev(NV_MAJOR, "nvidia-frontend");
	proc_remove(nv_proc);
}

module_init(nv_init);
module_exit(nv_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's 470 driver in the rig");
MODULE_LICENSE("GPL");
