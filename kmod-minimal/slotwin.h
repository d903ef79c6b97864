/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * slotwin - the doorway of one address range that many dies take turns in
 *
 * Every request structure starts with its own size. A caller built against an
 * older header sends a smaller one, the missing end reads as zero; a caller
 * built against a newer one may send a larger one, as long as what the module
 * does not know is zero (-E2BIG otherwise). Flags and reserved fields must be
 * zero (-EINVAL otherwise).
 *
 * Errors that every request knows:
 *	-EINVAL		a field makes no sense
 *	-E2BIG		the structure is larger than known, and not zero there
 *	-EFAULT		the pointer is bad
 *	-ENOTTY		no such request
 *	-EBADF		the request changes something, or maps, and the
 *			descriptor is not open for writing
 *	-ENODEV		the die was removed; one that came back is known again,
 *			and is not placed
 *	-ENXIO		no die at that address, or no such slot
 *	-EIO		the die or a bridge answers all-ones, or a register did
 *			not read back as written (what had been written is
 *			undone)
 */
#ifndef _UAPI_SLOTWIN_H
#define _UAPI_SLOTWIN_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SLOTWIN_API		1
#define SLOTWIN_MAX_SLOTS	8
#define SLOTWIN_MAX_DIES	256

/* A PCI address: domain << 16 | bus << 8 | device << 3 | function */
typedef __u32 slotwin_bdf;

#define SLOTWIN_NO_SLOT		0xffffffffu
#define SLOTWIN_NO_DIE		0xffffffffu

/* INFO: what the module is and which slots it owns. Touches no device. */
struct slotwin_info {
	__u32 size;
	__u32 flags;
	__u32 api;		/* out: SLOTWIN_API */
	__u32 nr_slots;		/* out */
	__u32 nr_dies;		/* out: dies known to the module */
	__u32 reserved;
	struct {
		__u64 base;	/* out */
		__u64 bytes;	/* out */
		__u32 open;	/* out: bdf of the die that is open, or SLOTWIN_NO_DIE */
		__u32 reserved;
	} slots[SLOTWIN_MAX_SLOTS];
};

/* gate of a placed die */
#define SLOTWIN_GATE_WINDOW	0
#define SLOTWIN_GATE_DECODE	1

/* state flags of a die */
#define SLOTWIN_DIE_PLACED	(1u << 0)
#define SLOTWIN_DIE_OPEN	(1u << 1)
#define SLOTWIN_DIE_PARKED	(1u << 2)	/* bound to a parker */
#define SLOTWIN_DIE_RESIDENT	(1u << 3)	/* bound to another driver */
#define SLOTWIN_DIE_ABSENT	(1u << 4)	/* removed, or answers all-ones */
#define SLOTWIN_DIE_ASLEEP	(1u << 5)	/* it, or a bridge above it, sleeps */

/* SURVEY: one die, by its index; read only. -ENXIO past the last. */
struct slotwin_survey {
	__u32 size;
	__u32 index;		/* in: 0 .. nr_dies - 1 */
	slotwin_bdf bdf;	/* out */
	__u32 state;		/* out: SLOTWIN_DIE_* */
	/*
	 * out: its home if it is placed, else the slot that firmware or kernel
	 * put its BAR1 into, else SLOTWIN_NO_SLOT
	 */
	__u32 slot;
	__u32 gate;		/* out: SLOTWIN_GATE_* */
	__u64 bar0;		/* out: address, 0 if unassigned */
	__u64 bar1;
	__u64 bar3;
};

/*
 * PLACE: give the card of a die its place. BAR0 and BAR3 of every die of the
 * card go into 32-bit windows laid out for them (unless they are in such already
 * and may stay), BAR1 holds the slot, the bridges' prefetchable windows hold the
 * slot and are shut. The other dies of the card get the same slot for a home if
 * they have none yet. A card that firmware put into a slot is placed first, so
 * that it leaves it. Placing again repairs what was lost, in dies that no driver
 * uses, and writes nothing if nothing was.
 *	-EBUSY		a die that would have to be touched is open, or bound to
 *			a driver that is no parker, or in use through VFIO, or
 *			being bound; or a bridge that is not ours passes on the
 *			slot's range
 *	-ENOSPC		no 32-bit room for the card's windows
 *	-EXDEV		a bridge above also leads to a device that is no die; or
 *			its window would have to cover more than the slots of
 *			its dies
 *	-EOPNOTSUPP	a bridge above has no 64-bit prefetchable window
 *	-EINVAL		BAR1 is larger than the slot
 */
struct slotwin_place {
	__u32 size;
	__u32 flags;
	slotwin_bdf die;	/* in */
	__u32 slot;		/* in: index of the slot for this die */
	__u32 gate;		/* in: SLOTWIN_GATE_* */
	__u32 config_writes;	/* out: 0 if it was in place already */
};

/*
 * OPEN: make a die the one that answers in its slot. Mappings of the die that
 * was open there are revoked, its path is shut, that is read back, then the new
 * path is opened. On failure the slot is as before, or shut.
 *	-EPERM		the die is not placed, or not in this slot, or its BAR1
 *			has lost the slot (a reset): place it again
 *	-EBUSY		its root port covers another slot too, which a die of
 *			another card is in; or a die of its card that came back
 *			after a removal has to be placed first
 */
struct slotwin_open {
	__u32 size;
	__u32 flags;
	slotwin_bdf die;	/* in */
	__u32 slot;		/* in */
	__u32 config_writes;	/* out: 0 if it was open already */
	__u32 reserved;
	__u64 base;		/* out */
	__u64 bytes;		/* out */
};

/* SHUT: no die answers in the slot afterwards; its mappings are revoked. */
struct slotwin_shut {
	__u32 size;
	__u32 flags;
	__u32 slot;		/* in */
	__u32 config_writes;	/* out: 0 if it was shut already */
};

/*
 * PEEK: read one 32-bit register of BAR0, from a list of those that are safe.
 *	-EPERM		the register is not on the list
 *	-EAGAIN		the die is asleep, or does not decode memory (gate
 *			DECODE, out of the slot)
 *	-EADDRNOTAVAIL	BAR0 has no address
 */
struct slotwin_peek {
	__u32 size;
	__u32 flags;
	slotwin_bdf die;	/* in */
	__u32 offset;		/* in: byte offset in BAR0 */
	__u32 value;		/* out */
	__u32 reserved;
};

/*
 * MAP: a file descriptor whose mmap(2) is the die's BAR1, offset 0 = start of
 * BAR1. Pages come by fault: SIGBUS while the die is not open, and again its
 * memory once it is back. MAP_SHARED only; write-combined.
 *	-EPERM		the die is not placed
 */
struct slotwin_map {
	__u32 size;
	__u32 flags;
	slotwin_bdf die;	/* in */
	__s32 fd;		/* out: O_CLOEXEC */
};

#define SLOTWIN_TYPE		0xb5
#define SLOTWIN_INFO		_IO(SLOTWIN_TYPE, 0x00)
#define SLOTWIN_SURVEY		_IO(SLOTWIN_TYPE, 0x01)
#define SLOTWIN_PLACE		_IO(SLOTWIN_TYPE, 0x02)
#define SLOTWIN_OPEN		_IO(SLOTWIN_TYPE, 0x03)
#define SLOTWIN_SHUT		_IO(SLOTWIN_TYPE, 0x04)
#define SLOTWIN_PEEK		_IO(SLOTWIN_TYPE, 0x05)
#define SLOTWIN_MAP		_IO(SLOTWIN_TYPE, 0x06)

/* On a descriptor from MAP: every mapping of it ends now and for good. */
#define SLOTWIN_MAP_REVOKE	_IO(SLOTWIN_TYPE, 0x20)

#endif /* _UAPI_SLOTWIN_H */
