// SPDX-License-Identifier: GPL-2.0
/*
 * slotwin-try - each request of slotwin.h by hand, one a line of output
 *
 *	slotwin-try info | survey
 *	slotwin-try place DIE [SLOT [decode]] | open DIE [SLOT] | shut [SLOT]
 *	slotwin-try peek DIE OFFSET
 *	slotwin-try mark DIE VALUE | check DIE VALUE	at both ends of BAR1
 *	slotwin-try revoked DIE OTHER	a mapping of DIE while OTHER has the slot
 *
 * DIE as [DDDD:]BB:DD.F. Exit status: 0, 1 for a failed request, 2 for usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../slotwin.h"

static int dev;
static sigjmp_buf fault;

static slotwin_bdf bdf(const char *text)
{
	unsigned int dom = 0, bus, slot, fn;

	if (sscanf(text, "%x:%x:%x.%x", &dom, &bus, &slot, &fn) != 4) {
		dom = 0;
		if (sscanf(text, "%x:%x.%x", &bus, &slot, &fn) != 3) {
			fprintf(stderr, "no address: %s\n", text);
			exit(2);
		}
	}
	return dom << 16 | bus << 8 | slot << 3 | fn;
}

static const char *name(slotwin_bdf die)
{
	static char text[32];

	if (die == SLOTWIN_NO_DIE)
		return "-";
	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", die >> 16,
		 die >> 8 & 0xff, die >> 3 & 0x1f, die & 7);
	return text;
}

static int ask(const char *what, unsigned long request, void *arg)
{
	if (!ioctl(dev, request, arg))
		return 0;
	printf("%s: %s\n", what, strerrorname_np(errno));
	return 1;
}

static int info(void)
{
	struct slotwin_info i = { .size = sizeof(i) };
	unsigned int n;

	if (ask("info", SLOTWIN_INFO, &i))
		return 1;
	printf("info: api %u, %u dies\n", i.api, i.nr_dies);
	for (n = 0; n < i.nr_slots; n++)
		printf("slot %u: %#llx+%#llx open %s\n", n,
		       (unsigned long long)i.slots[n].base,
		       (unsigned long long)i.slots[n].bytes,
		       name(i.slots[n].open));
	return 0;
}

static int survey(void)
{
	struct slotwin_survey s = { .size = sizeof(s) };

	while (!ioctl(dev, SLOTWIN_SURVEY, &s)) {
		printf("%s state %#x slot %d gate %u bar0 %#llx bar1 %#llx bar3 %#llx\n",
		       name(s.bdf), s.state, (int)s.slot, s.gate,
		       (unsigned long long)s.bar0, (unsigned long long)s.bar1,
		       (unsigned long long)s.bar3);
		s.index++;
	}
	return errno != ENXIO;
}

static int place(slotwin_bdf die, unsigned int slot, unsigned int gate)
{
	struct slotwin_place p = { .size = sizeof(p), .die = die, .slot = slot,
				   .gate = gate };
	int failed = ask("place", SLOTWIN_PLACE, &p);

	printf("place %s: %u writes\n", name(die), p.config_writes);
	return failed;
}

static int open_die(slotwin_bdf die, unsigned int slot)
{
	struct slotwin_open o = { .size = sizeof(o), .die = die, .slot = slot };
	int failed = ask("open", SLOTWIN_OPEN, &o);

	printf("open %s: %u writes\n", name(die), o.config_writes);
	return failed;
}

static int shut(unsigned int slot)
{
	struct slotwin_shut s = { .size = sizeof(s), .slot = slot };
	int failed = ask("shut", SLOTWIN_SHUT, &s);

	printf("shut: %u writes\n", s.config_writes);
	return failed;
}

static int peek(slotwin_bdf die, unsigned int offset)
{
	struct slotwin_peek p = { .size = sizeof(p), .die = die,
				  .offset = offset };

	if (ask("peek", SLOTWIN_PEEK, &p))
		return 1;
	printf("peek %s %#x: %#010x\n", name(die), offset, p.value);
	return 0;
}

static uint64_t bar1_bytes(void)
{
	struct slotwin_info i = { .size = sizeof(i) };

	return ask("info", SLOTWIN_INFO, &i) ? 0 : i.slots[0].bytes;
}

static volatile uint32_t *map(slotwin_bdf die, int *fd)
{
	struct slotwin_map m = { .size = sizeof(m), .die = die };
	void *at;

	if (ask("map", SLOTWIN_MAP, &m))
		exit(1);
	at = mmap(NULL, bar1_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, m.fd,
		  0);
	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	*fd = m.fd;
	return at;
}

static int mark(slotwin_bdf die, uint32_t value, int check)
{
	int fd;
	volatile uint32_t *at = map(die, &fd);
	uint64_t last = bar1_bytes() / 4 - 1;

	if (!check) {
		at[0] = value;
		at[last] = ~value;
	}
	printf("%s: %#x %#x\n", name(die), at[0], at[last]);
	return at[0] != value || at[last] != ~value;
}

static void caught(int sig)
{
	siglongjmp(fault, sig);
}

/* Does touching a word raise SIGBUS? */
static int bus(volatile uint32_t *at)
{
	if (sigsetjmp(fault, 1))
		return 1;
	(void)*at;
	return 0;
}

/* Does it hold a value, once written? Not if somebody took the slot away. */
static int holds(volatile uint32_t *at, uint32_t value, int write)
{
	if (sigsetjmp(fault, 1))
		return 0;
	if (write)
		*at = value;
	return *at == value;
}

static int revoked(slotwin_bdf die, slotwin_bdf other)
{
	volatile uint32_t *a, *b;
	int fd, gd, bad = 0;

	signal(SIGBUS, caught);
	a = map(die, &fd);
	b = map(other, &gd);
	if (open_die(die, 0))
		return 1;
	bad |= (!holds(a, 0xa0a0, 1)) | !bus(b) << 1;
	if (open_die(other, 0))
		return 1;
	bad |= !bus(a) << 2 | !bus(a + 4096) << 3 | !holds(b, 0xb0b0, 1) << 4;
	if (open_die(die, 0))
		return 1;
	bad |= !holds(a, 0xa0a0, 0) << 5 | !bus(b) << 6;
	if (ioctl(fd, SLOTWIN_MAP_REVOKE))
		bad |= 1 << 7;
	bad |= !bus(a) << 8;
	printf("revoked: %s %#x\n", bad ? "WRONG" : "right", bad);
	return bad != 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const char *arg = argc > 3 ? argv[3] : "0";
	int writes = strcmp(verb, "info") && strcmp(verb, "survey");

	setvbuf(stdout, NULL, _IOLBF, 0);
	dev = open("/dev/slotwin", writes ? O_RDWR : O_RDONLY);
	if (dev < 0) {
		perror("/dev/slotwin");
		return 1;
	}
	if (!strcmp(verb, "info"))
		return info();
	if (!strcmp(verb, "survey"))
		return survey();
	if (!strcmp(verb, "shut"))
		return shut(argc > 2 ? strtoul(argv[2], NULL, 0) : 0);
	if (argc < 3)
		return 2;
	if (!strcmp(verb, "place"))
		return place(bdf(argv[2]), strtoul(arg, NULL, 0),
			     argc > 4 ? SLOTWIN_GATE_DECODE : 0);
	if (!strcmp(verb, "open"))
		return open_die(bdf(argv[2]), strtoul(arg, NULL, 0));
	if (!strcmp(verb, "peek"))
		return peek(bdf(argv[2]), strtoul(arg, NULL, 0));
	if (!strcmp(verb, "mark") || !strcmp(verb, "check"))
		return mark(bdf(argv[2]), strtoul(arg, NULL, 0),
			    *verb == 'c');
	if (!strcmp(verb, "revoked") && argc > 3)
		return revoked(bdf(argv[2]), bdf(argv[3]));
	return 2;
}
