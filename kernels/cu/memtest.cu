/* memtest: patterns written to VRAM and read back, 16 bytes a thread and step.
 *
 * The memory is a list of chunks. `base` is the place of a chunk in the whole, in quads (16 bytes), so
 * that the patterns which depend on the place also find two addresses that lead to one cell, in
 * whatever chunks they lie. A chunk is whole TILEs, a block for each: no kernel has a ragged end, and a
 * block that is done makes room for the next, which moved 7 % more on an H200 than blocks that stay
 * and loop. */
#include "die.h"

#define LANES 256u /* threads a block */
#define STEPS 4u   /* loads in flight a thread */
#define TILE (LANES * STEPS)
#define SAMPLES 16u

/* The kinds of pattern; memtest/pattern.rs has the same numbers. */
#define SOLID 0u
#define ADDRESS 1u
#define RANDOM 2u

struct sample {
	u64 word; /* place in the whole, in words of 4 bytes */
	u32 want, got;
};

struct findings {
	u64 words; /* wrong words */
	u64 first; /* the lowest wrong word; all-ones where none is wrong */
	u64 bits;  /* wrong bits in all */
	u32 mask;  /* every bit position that was wrong anywhere */
	u32 taken; /* wrong words that asked for a place in `sample` */
	struct sample sample[SAMPLES];
};

/* What the quad at place `at` holds. */
INLINE quad value(u32 kind, u64 at, u32 word)
{
	u32 low = (u32)at, high = (u32)(at >> 30);
	quad v;

	if (kind == SOLID) {
		v.x = v.y = v.z = v.w = word;
	} else if (kind == ADDRESS) {
		/* its own place, in words; what is above 32 bits is folded in */
		u32 first = low << 2 ^ high * 0x9e3779b9u ^ word;

		v.x = first;
		v.y = first ^ 1u;
		v.z = first ^ 2u;
		v.w = first ^ 3u;
	} else {
		/* one good mix a quad: four would cost more than the memory does */
		u32 h = mix(low ^ word) + high;

		v.x = h;
		v.y = h * 0x9e3779b1u;
		v.z = h ^ 0x7feb352du;
		v.w = v.y ^ 0x846ca68bu;
	}
	return v;
}

INLINE void wrong(struct findings *found, u64 word, u32 want, u32 got)
{
	u32 place;

	if (want == got)
		return;
	atomicAdd(&found->words, 1ull);
	atomicAdd(&found->bits, (u64)__popc(want ^ got));
	atomicMin(&found->first, word);
	atomicOr(&found->mask, want ^ got);
	place = atomicAdd(&found->taken, 1u);
	if (place < SAMPLES) {
		found->sample[place].word = word;
		found->sample[place].want = want;
		found->sample[place].got = got;
	}
}

INLINE void compare(struct findings *found, u64 at, quad want, quad got)
{
	if (!((want.x ^ got.x) | (want.y ^ got.y) | (want.z ^ got.z) | (want.w ^ got.w)))
		return;
	wrong(found, at * 4, want.x, got.x);
	wrong(found, at * 4 + 1, want.y, got.y);
	wrong(found, at * 4 + 2, want.z, got.z);
	wrong(found, at * 4 + 3, want.w, got.w);
}

/* The quad that is `step` loads after this thread's first one. */
#define QUAD(step) ((u64)blockIdx.x * TILE + threadIdx.x + (step) * LANES)

/* `kind` is a constant at each call, so that the kernel has no choice left in its loop. */
INLINE void fill_as(u32 kind, quad *mem, u64 base, u32 word)
{
	u32 k;

	for (k = 0; k < STEPS; k++)
		mem[QUAD(k)] = value(kind, base + QUAD(k), word);
}

INLINE void check_as(u32 kind, const quad *mem, u64 base, u32 word, struct findings *found)
{
	quad got[STEPS];
	u32 k;

	for (k = 0; k < STEPS; k++)
		got[k] = mem[QUAD(k)];
	for (k = 0; k < STEPS; k++)
		compare(found, base + QUAD(k), value(kind, base + QUAD(k), word), got[k]);
}

KERNEL fill(quad *mem, u64 base, u32 kind, u32 word)
{
	if (kind == SOLID)
		fill_as(SOLID, mem, base, word);
	else if (kind == ADDRESS)
		fill_as(ADDRESS, mem, base, word);
	else
		fill_as(RANDOM, mem, base, word);
}

KERNEL check(const quad *mem, u64 base, u32 kind, u32 word, struct findings *found)
{
	if (kind == SOLID)
		check_as(SOLID, mem, base, word, found);
	else if (kind == ADDRESS)
		check_as(ADDRESS, mem, base, word, found);
	else
		check_as(RANDOM, mem, base, word, found);
}

/* Moving inversions: reads `word`, leaves its complement. Both a check and a fill in one pass. All is
 * compared before anything is written: writing in between cost more than half of the throughput. */
KERNEL invert(quad *mem, u64 base, u32 word, struct findings *found)
{
	quad want = value(SOLID, 0, word), flipped = value(SOLID, 0, ~word);
	quad got[STEPS];
	u32 k;

	for (k = 0; k < STEPS; k++)
		got[k] = mem[QUAD(k)];
	for (k = 0; k < STEPS; k++)
		compare(found, base + QUAD(k), want, got[k]);
	for (k = 0; k < STEPS; k++)
		mem[QUAD(k)] = flipped;
}
