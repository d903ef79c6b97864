// SPDX-License-Identifier: GPL-2.0
/*
 * MAP: mappings of a die's BAR1 that can be taken away.
 *
 * Each descriptor has an inode of its own on a small pseudo filesystem, and so
 * an address_space by which all its mappings are found. Pages come by fault and
 * only while the die is open; before its path is shut the die stops being open
 * and every page is unmapped.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "slotwin-core.h"

#define SW_MAP_MAGIC	0x736c6f74	/* "slot" */
/* So much is mapped around a fault: a client walks through gigabytes. */
#define SW_FAULT_AROUND	SZ_2M

struct sw_map {
	struct list_head node;		/* in sw_die.maps */
	struct sw_die *die;
	struct inode *inode;
	u64 base;			/* of the memory type reservation */
	u64 bytes;
	bool revoked;			/* under sw_open_sem */
};

/* The lists of mappings; under sw_lock or alone */
static DEFINE_MUTEX(sw_maps_lock);
static struct vfsmount *sw_mount;
static int sw_mount_users;

static int sw_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, SW_MAP_MAGIC) ? 0 : -ENOMEM;
}

static struct file_system_type sw_fs_type = {
	.name = "slotwin",
	.owner = THIS_MODULE,
	.init_fs_context = sw_fs_init,
	.kill_sb = kill_anon_super,
};

static vm_fault_t sw_map_insert(struct sw_map *map, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct sw_slot *slot;
	unsigned long addr, end;
	vm_fault_t ret;
	u64 at;

	if (map->revoked || !map->die->open)
		return VM_FAULT_SIGBUS;
	slot = &sw_slots[map->die->slot];
	addr = vmf->address & PAGE_MASK;
	at = slot->base + ((u64)vmf->pgoff << PAGE_SHIFT);
	ret = vmf_insert_pfn(vma, addr, at >> PAGE_SHIFT);
	end = min(ALIGN(addr + 1, SW_FAULT_AROUND), vma->vm_end);
	while (ret == VM_FAULT_NOPAGE && (addr += PAGE_SIZE) < end) {
		at += PAGE_SIZE;
		if (vmf_insert_pfn(vma, addr, at >> PAGE_SHIFT) !=
		    VM_FAULT_NOPAGE)
			break;
	}
	return ret;
}

static vm_fault_t sw_map_fault(struct vm_fault *vmf)
{
	vm_fault_t ret;

	down_read(&sw_open_sem);
	ret = sw_map_insert(vmf->vma->vm_private_data, vmf);
	up_read(&sw_open_sem);
	return ret;
}

static const struct vm_operations_struct sw_map_vm_ops = {
	.fault = sw_map_fault,
};

static int sw_map_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sw_map *map = file->private_data;
	const unsigned long flags = VM_PFNMAP | VM_IO | VM_DONTEXPAND |
				    VM_DONTDUMP | VM_DONTCOPY;

	if (!(vma->vm_flags & VM_SHARED) ||
	    vma->vm_pgoff + vma_pages(vma) > map->bytes >> PAGE_SHIFT)
		return -EINVAL;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags |= flags;
#else
	vm_flags_set(vma, flags);
#endif
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = map;
	vma->vm_ops = &sw_map_vm_ops;
	return 0;
}

static void sw_map_zap(struct sw_map *map)
{
	unmap_mapping_range(map->inode->i_mapping, 0, 0, 1);
}

static long sw_map_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct sw_map *map = file->private_data;

	if (cmd != SLOTWIN_MAP_REVOKE)
		return -ENOTTY;
	down_write(&sw_open_sem);
	map->revoked = true;
	up_write(&sw_open_sem);
	sw_map_zap(map);
	return 0;
}

static void sw_map_free(struct sw_map *map)
{
	mutex_lock(&sw_maps_lock);
	list_del(&map->node);
	mutex_unlock(&sw_maps_lock);
	if (map->base)
		arch_io_free_memtype_wc(map->base, map->bytes);
	simple_release_fs(&sw_mount, &sw_mount_users);
	sw_die_put(map->die);
	kfree(map);
}

static int sw_map_release(struct inode *inode, struct file *file)
{
	sw_map_free(file->private_data);
	return 0;
}

static const struct file_operations sw_map_fops = {
	.owner = THIS_MODULE,
	.mmap = sw_map_mmap,
	.release = sw_map_release,
	.unlocked_ioctl = sw_map_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct file *sw_map_file(struct sw_map *map)
{
	struct inode *inode = alloc_anon_inode(sw_mount->mnt_sb);
	struct file *file;

	if (IS_ERR(inode))
		return ERR_CAST(inode);
	file = alloc_file_pseudo(inode, sw_mount, "slotwin", O_RDWR,
				 &sw_map_fops);
	if (IS_ERR(file)) {
		iput(inode);
		return file;
	}
	/* Closing puts it, but making the file does not get it. */
	__module_get(THIS_MODULE);
	map->inode = inode;
	file->f_mapping = inode->i_mapping;
	file->private_data = map;
	return file;
}

/*
 * A new descriptor, or an error. The filesystem pins the module for as long as
 * a descriptor lives, down to its last dentry. Pages are write-combined where the range can
 * be had as such; a driver that holds part of it uncached goes first.
 */
int sw_map(struct sw_die *die)
{
	struct sw_slot *slot;
	struct sw_map *map;
	struct file *file;
	int fd;

	if (!die->card)
		return -EPERM;
	slot = &sw_slots[die->slot];
	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		return -ENOMEM;
	map->bytes = die->bar1_bytes;
	fd = simple_pin_fs(&sw_fs_type, &sw_mount, &sw_mount_users);
	if (fd)
		goto free;
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto unpin;
	file = sw_map_file(map);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(file);
		goto unpin;
	}
	if (!arch_io_reserve_memtype_wc(slot->base, map->bytes))
		map->base = slot->base;
	kref_get(&die->ref);
	map->die = die;
	mutex_lock(&sw_maps_lock);
	list_add(&map->node, &die->maps);
	mutex_unlock(&sw_maps_lock);
	fd_install(fd, file);
	return fd;
unpin:
	simple_release_fs(&sw_mount, &sw_mount_users);
free:
	kfree(map);
	return fd;
}

/* The die is not open any more: nor is any page of it, from here on. */
void sw_maps_revoke(struct sw_die *die)
{
	struct sw_map *map;

	mutex_lock(&sw_maps_lock);
	list_for_each_entry(map, &die->maps, node)
		sw_map_zap(map);
	mutex_unlock(&sw_maps_lock);
}
