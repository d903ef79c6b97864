/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slotwin - what its files share
 *
 * Words: a die is a function that wants the slot; its path is the chain of
 * bridges from the one right above it (the inner one) to the root port (the
 * top); a card is all that hangs below one top. A gate of a path is shut by a
 * prefetchable base above its limit.
 *
 * Locks, outermost first:
 *	pci_lock_rescan_remove()  the PCI tree and every struct resource
 *	sw_lock                   dies, cards, slots; all register writes
 *	sw_maps_lock              which mappings exist
 *	sw_open_sem               whether a die may be faulted in
 * The bus notifier is called with the device lock held, and for removals with
 * the rescan lock held too, and takes sw_lock: so nothing here waits for a
 * device lock under sw_lock (device_trylock only), and the notifier never takes
 * the rescan lock. The fault handler comes with mmap_lock held and takes
 * sw_open_sem for reading, nothing else. unmap_mapping_range() is called under
 * sw_lock and sw_maps_lock, never under sw_open_sem.
 */
#ifndef _SLOTWIN_CORE_H
#define _SLOTWIN_CORE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/rwsem.h>

#include "slotwin.h"

#define SW_MAX_IDS	16
#define SW_MAX_DEPTH	8
#define SW_MEM_WINDOW	(PCI_BRIDGE_RESOURCES + 1)
#define SW_PREF_WINDOW	(PCI_BRIDGE_RESOURCES + 2)
#define SW_BAR1		1

struct sw_die;

/* An address range of ours from load to unload: slots that touch share one. */
struct sw_hold {
	struct resource res;
	struct resource *host;		/* window of the host bridge around it */
	bool claimed;
};

struct sw_slot {
	u64 base;
	u64 bytes;
	struct sw_hold *hold;
	struct sw_die *open;
};

/* What was written to registers and resources, newest first. */
struct sw_log {
	struct list_head steps;
	u32 writes;
};

struct sw_card {
	struct list_head node;		/* in sw_cards, newest first */
	struct pci_dev *top;
	struct list_head bridges;
	u32 gate;
	struct sw_log log;		/* from as found to as placed */
};

struct sw_bridge {
	struct list_head node;		/* in sw_card.bridges */
	struct pci_dev *pdev;
	struct resource shadow;		/* parent of its window while shut */
	u64 lo, hi;			/* the window while open, hi included */
	bool open;			/* as last written and read back */
	bool fresh;			/* since the PLACE that is under way */
};

enum sw_driver {
	SW_UNBOUND,
	SW_PARKED,			/* pci-stub, vfio-pci */
	SW_RESIDENT,			/* any other */
};

struct sw_die {
	struct list_head node;		/* in sw_dies, in order of survey */
	struct kref ref;		/* the list's and one per mapping */
	struct pci_dev *pdev;
	u32 bdf;
	bool gone;			/* removed; pdev is NULL */
	bool open;			/* under sw_lock and sw_open_sem */
	bool pins;			/* a module reference is held for it */
	enum sw_driver driver;		/* as of the last bus notification */
	u32 slot;			/* its home once it has a card */
	u32 was_home;			/* before the PLACE that is under way */
	bool stays;			/* not touched by it */
	u64 bar1_bytes;			/* as its BAR1 is, once it has a card */
	unsigned long bar1_flags;
	struct sw_card *card;		/* NULL: not placed */
	struct sw_bridge *path[SW_MAX_DEPTH];	/* inner first */
	unsigned int depth;
	struct pci_dev *awake;		/* the port kept awake for it */
	struct resource shadow;		/* parent of BAR1 while off the slot */
	struct list_head maps;		/* under sw_maps_lock */
};

extern struct mutex sw_lock;
extern struct list_head sw_dies;
extern struct list_head sw_cards;
extern struct sw_slot sw_slots[SLOTWIN_MAX_SLOTS];
extern unsigned int sw_nr_slots;
extern struct rw_semaphore sw_open_sem;

/* The dies below a root port; safe for as long as none is removed. */
#define sw_for_each_die_below(die, root_port)				\
	list_for_each_entry(die, &sw_dies, node)			\
		if ((die)->gone || sw_top_of((die)->pdev) != (root_port)) \
			continue;					\
		else

/* params.c */
int sw_parse_ids(const char *text);
int sw_parse_slots(const char *text);
bool sw_is_die(struct pci_dev *pdev);

/* log.c: the only place that writes a config register or a resource */
void sw_log_init(struct sw_log *log);
int sw_write(struct sw_log *log, struct pci_dev *pdev, int where, u32 value,
	     u32 mask);
int sw_write_word(struct sw_log *log, struct pci_dev *pdev, int where,
		  u16 value, u16 mask);
int sw_write_size(struct sw_log *log, struct pci_dev *pdev, int where,
		  u32 *bits);
int sw_res_drop(struct sw_log *log, struct pci_dev *pdev, struct resource *res);
int sw_res_set(struct sw_log *log, struct pci_dev *pdev, struct resource *res,
	       struct resource *parent, u64 start, u64 bytes,
	       unsigned long flags);
int sw_res_own(struct sw_log *log, struct pci_dev *pdev, struct resource *res,
	       struct resource *parent);
int sw_res_root(struct sw_log *log, struct pci_dev *pdev,
		struct resource *root, u64 lo, u64 hi);
int sw_res_alloc(struct sw_log *log, struct pci_dev *top, struct resource *res,
		 u64 bytes, u64 align);
int sw_log_hold(struct sw_log *log, struct sw_hold *hold);
int sw_log_undo(struct sw_log *log);
void sw_log_splice(struct sw_log *onto, struct sw_log *log);
void sw_log_forget(struct sw_log *log, struct pci_dev *pdev);
void sw_log_drop(struct sw_log *log);

/* hold.c */
int sw_holds_init(void);
void sw_holds_exit(void);
int sw_hold_insert(struct sw_hold *hold);
void sw_hold_remove(struct sw_hold *hold);
int sw_holds_claim(struct sw_log *log);
u32 sw_slot_within(u64 lo, u64 hi);

/* topology.c */
int sw_topology_init(void);
void sw_topology_exit(void);
struct sw_die *sw_die_find(slotwin_bdf bdf);
struct sw_die *sw_die_of(struct pci_dev *pdev);
void sw_die_put(struct sw_die *die);
struct pci_dev *sw_top_of(struct pci_dev *pdev);
bool sw_only_ours(struct pci_bus *bus);
bool sw_answers(struct pci_dev *pdev);
bool sw_asleep(struct pci_dev *pdev);
u32 sw_die_state(struct sw_die *die);

/* card.c */
struct sw_card *sw_card_get(struct pci_dev *top);
int sw_card_join(struct sw_card *card, struct sw_die *die);
void sw_card_leave(struct sw_die *die);
void sw_card_free(struct sw_card *card);
struct sw_bridge *sw_bridge_of(struct sw_card *card, struct pci_dev *pdev);
void sw_bridge_free(struct sw_bridge *bridge);
bool sw_card_is_sealed(struct sw_card *card, struct pci_bus *bus);

/* layout.c */
bool sw_layout_fits(struct pci_dev *top);
int sw_layout(struct sw_log *log, struct pci_dev *top);
int sw_layout_own(struct sw_log *log, struct sw_die *die);
int sw_bar_size(struct sw_log *log, struct pci_dev *pdev, int bar, u64 *bytes);
unsigned long sw_bar_flags(struct pci_dev *pdev, int bar);
bool sw_bar_holds(struct pci_dev *pdev, int bar, u64 at);
int sw_bar_write(struct sw_log *log, struct pci_dev *pdev, int bar, u64 at);

/* program.c */
bool sw_die_in_place(struct sw_die *die, u32 slot, u32 gate);
bool sw_card_in_place(struct sw_card *card);
int sw_card_program(struct sw_log *log, struct sw_card *card);
int sw_card_wake(struct pci_dev *top);
void sw_card_sleep(struct pci_dev *top);
int sw_card_restore(struct sw_card *card);

/* place.c */
int sw_place(struct sw_die *die, u32 slot, u32 gate, u32 *writes);
void sw_unplace_all(void);

/* window.c: how a prefetchable window is written and read */
bool sw_window_able(struct pci_dev *pdev);
int sw_window_write(struct sw_log *log, struct sw_bridge *bridge, bool open);
bool sw_window_is(struct sw_bridge *bridge);
int sw_window_gate(struct sw_log *log, struct sw_bridge *bridge, bool open);
void sw_window_refresh(struct sw_bridge *bridge);
bool sw_window_read(struct pci_dev *pdev, u64 *lo, u64 *hi);

/* tree.c: where a path's resources hang */
int sw_off_slot(struct sw_log *log, struct sw_die *die, struct sw_die *next);
int sw_in_slot(struct sw_log *log, struct sw_die *die);
int sw_shadow(struct sw_log *log, struct sw_card *card);
bool sw_in_use(struct sw_bridge *bridge, struct sw_die *next);
bool sw_on_path(struct sw_die *die, struct sw_bridge *bridge);

/* gate.c */
int sw_open(struct sw_die *die, u32 slot, u32 *writes);
int sw_shut(u32 slot, u32 *writes);
void sw_shut_removed(struct sw_die *die);

/* peek.c */
int sw_peek(struct sw_die *die, u32 offset, u32 *value);

/* map.c */
int sw_map(struct sw_die *die);
void sw_maps_revoke(struct sw_die *die);

/* ioctl.c */
extern const struct file_operations sw_fops;

#endif /* _SLOTWIN_CORE_H */
