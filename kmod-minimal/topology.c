// SPDX-License-Identifier: GPL-2.0
/*
 * Which dies there are, what leads to them, and what becomes of them: a bus
 * notifier follows additions, removals, and drivers that come and go.
 */
#define pr_fmt(fmt) "slotwin: " fmt

#include <linux/module.h>
#include <linux/pm_runtime.h>
#include <linux/slab.h>

#include "slotwin-core.h"

LIST_HEAD(sw_dies);

static u32 sw_bdf(struct pci_dev *pdev)
{
	return (u32)pci_domain_nr(pdev->bus) << 16 | pci_dev_id(pdev);
}

/* The die at an address, even one that was removed; NULL if there never was */
struct sw_die *sw_die_find(slotwin_bdf bdf)
{
	struct sw_die *die;

	list_for_each_entry(die, &sw_dies, node)
		if (die->bdf == bdf)
			return die;
	return NULL;
}

struct sw_die *sw_die_of(struct pci_dev *pdev)
{
	struct sw_die *die;

	list_for_each_entry(die, &sw_dies, node)
		if (die->pdev == pdev)
			return die;
	return NULL;
}

static void sw_die_release(struct kref *ref)
{
	kfree(container_of(ref, struct sw_die, ref));
}

void sw_die_put(struct sw_die *die)
{
	kref_put(&die->ref, sw_die_release);
}

/* The root port above a device, or the device itself on the root bus. */
struct pci_dev *sw_top_of(struct pci_dev *pdev)
{
	struct pci_dev *up;

	while ((up = pci_upstream_bridge(pdev)))
		pdev = up;
	return pdev;
}

/*
 * Does this bus lead to dies of ours and to nothing else? Ports that lead
 * nowhere are fine as long as they hold no window.
 */
bool sw_only_ours(struct pci_bus *bus)
{
	struct pci_dev *pdev;

	list_for_each_entry(pdev, &bus->devices, bus_list) {
		if (sw_is_die(pdev))
			continue;
		if (!pdev->subordinate)
			return false;
		if (!list_empty(&pdev->subordinate->devices)) {
			if (!sw_only_ours(pdev->subordinate))
				return false;
		} else if (pdev->resource[SW_MEM_WINDOW].parent ||
			   pdev->resource[SW_PREF_WINDOW].parent) {
			return false;
		}
	}
	return true;
}

/* The device lock is held, so that the driver does not go. */
static enum sw_driver sw_driver_of(struct pci_dev *pdev)
{
	struct device_driver *driver = pdev->dev.driver;

	if (!driver)
		return SW_UNBOUND;
	if (!strcmp(driver->name, "pci-stub") ||
	    !strcmp(driver->name, "vfio-pci"))
		return SW_PARKED;
	return SW_RESIDENT;
}

bool sw_answers(struct pci_dev *pdev)
{
	u32 id;

	return !pci_read_config_dword(pdev, PCI_VENDOR_ID, &id) && id != ~0U;
}

/* Does the device, or a bridge above it, sleep? Wakes nothing. */
bool sw_asleep(struct pci_dev *pdev)
{
	struct pci_dev *up;
	u16 ctrl;

	for (up = pci_upstream_bridge(pdev); up; up = pci_upstream_bridge(up))
		if (pm_runtime_suspended(&up->dev))
			return true;
	if (pm_runtime_suspended(&pdev->dev))
		return true;
	if (!pdev->pm_cap)
		return false;
	pci_read_config_word(pdev, pdev->pm_cap + PCI_PM_CTRL, &ctrl);
	return ctrl != 0xffff && (ctrl & PCI_PM_CTRL_STATE_MASK);
}

static bool sw_bridge_asleep(struct pci_dev *pdev)
{
	struct pci_dev *up;

	for (up = pci_upstream_bridge(pdev); up; up = pci_upstream_bridge(up))
		if (pm_runtime_suspended(&up->dev))
			return true;
	return false;
}

u32 sw_die_state(struct sw_die *die)
{
	u32 state = 0;

	if (die->gone)
		return SLOTWIN_DIE_ABSENT;
	if (die->card)
		state |= SLOTWIN_DIE_PLACED;
	if (die->open)
		state |= SLOTWIN_DIE_OPEN;
	if (die->driver == SW_RESIDENT)
		state |= SLOTWIN_DIE_RESIDENT;
	if (die->driver == SW_PARKED)
		state |= SLOTWIN_DIE_PARKED;
	if (sw_bridge_asleep(die->pdev))
		state |= SLOTWIN_DIE_ASLEEP;
	else if (!sw_answers(die->pdev))
		state |= SLOTWIN_DIE_ABSENT;
	else if (sw_asleep(die->pdev))
		state |= SLOTWIN_DIE_ASLEEP;
	return state;
}

/* A die that comes back to an address takes its old place in the survey. */
static void sw_die_add(struct pci_dev *pdev)
{
	struct sw_die *die, *old;
	unsigned int nr = 0;

	if (!sw_is_die(pdev) || sw_die_of(pdev))
		return;
	list_for_each_entry(old, &sw_dies, node)
		nr++;
	old = sw_die_find(sw_bdf(pdev));
	if (!old && nr >= SLOTWIN_MAX_DIES) {
		pci_warn(pdev, "slotwin: one die too many, ignored\n");
		return;
	}
	die = kzalloc(sizeof(*die), GFP_KERNEL);
	if (!die)
		return;
	kref_init(&die->ref);
	INIT_LIST_HEAD(&die->maps);
	die->pdev = pci_dev_get(pdev);
	die->bdf = sw_bdf(pdev);
	die->slot = SLOTWIN_NO_SLOT;
	if (!old) {
		list_add_tail(&die->node, &sw_dies);
		return;
	}
	list_replace(&old->node, &die->node);
	sw_die_put(old);
}

static void sw_die_drop(struct sw_die *die)
{
	struct pci_dev *pdev = die->pdev;

	sw_maps_revoke(die);
	sw_shut_removed(die);
	sw_card_leave(die);
	die->pdev = NULL;
	die->gone = true;
	if (die->pins)
		module_put(THIS_MODULE);
	die->pins = false;
	pci_dev_put(pdev);
}

/* Dies leave before the bridges above them. */
static void sw_device_removed(struct pci_dev *pdev)
{
	struct sw_card *card, *next;
	struct sw_bridge *bridge;
	struct sw_die *die = sw_die_of(pdev);

	if (die)
		sw_die_drop(die);
	list_for_each_entry_safe(card, next, &sw_cards, node) {
		sw_log_forget(&card->log, pdev);
		bridge = sw_bridge_of(card, pdev);
		if (bridge)
			sw_bridge_free(bridge);
		if (card->top == pdev)
			sw_card_free(card);
	}
}

/*
 * A placed die with a driver that is no parker pins the module: its resources
 * live under roots of ours.
 */
static void sw_driver_changed(struct pci_dev *pdev)
{
	struct sw_die *die = sw_die_of(pdev);

	if (!die)
		return;
	die->driver = sw_driver_of(pdev);
	if (die->driver == SW_RESIDENT && die->card && !die->pins) {
		die->pins = try_module_get(THIS_MODULE);
		if (!die->pins)
			pci_err(pdev, "slotwin: taken by a driver while the module goes\n");
	} else if (die->driver != SW_RESIDENT && die->pins) {
		module_put(THIS_MODULE);
		die->pins = false;
	}
}

static int sw_bus_event(struct notifier_block *nb, unsigned long event,
			void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);

	mutex_lock(&sw_lock);
	switch (event) {
	case BUS_NOTIFY_ADD_DEVICE:
		sw_die_add(pdev);
		break;
	case BUS_NOTIFY_DEL_DEVICE:
		sw_device_removed(pdev);
		break;
	case BUS_NOTIFY_BOUND_DRIVER:
	case BUS_NOTIFY_UNBOUND_DRIVER:
		sw_driver_changed(pdev);
		break;
	}
	mutex_unlock(&sw_lock);
	return NOTIFY_DONE;
}

static struct notifier_block sw_notifier = { .notifier_call = sw_bus_event };

int sw_topology_init(void)
{
	struct pci_dev *pdev = NULL;
	int err;

	err = bus_register_notifier(&pci_bus_type, &sw_notifier);
	if (err)
		return err;
	for_each_pci_dev(pdev) {
		device_lock(&pdev->dev);
		mutex_lock(&sw_lock);
		sw_die_add(pdev);
		sw_driver_changed(pdev);
		mutex_unlock(&sw_lock);
		device_unlock(&pdev->dev);
	}
	return 0;
}

/* Called when every die is back as it was found. */
void sw_topology_exit(void)
{
	struct sw_die *die, *next;

	bus_unregister_notifier(&pci_bus_type, &sw_notifier);
	list_for_each_entry_safe(die, next, &sw_dies, node) {
		list_del(&die->node);
		pci_dev_put(die->pdev);
		sw_die_put(die);
	}
}
