/* The kernels' own sources, compiled for the host. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../cu/busy.cu"
#include "../../cu/memtest.cu"
#include "../../cu/parity.cu"
#include "../../cu/persist.cu"

_Thread_local struct dim threadIdx, blockIdx, blockDim, gridDim;

#define AT(type, n) ((type *)(uintptr_t)job->args[n])
#define WORD(n) ((u32)job->args[n])

#define EVERY_THREAD(call)                                              \
	do {                                                            \
		gridDim.x = job->grid;                                  \
		blockDim.x = job->block;                                \
		for (blockIdx.x = 0; blockIdx.x < job->grid; blockIdx.x++) \
			for (threadIdx.x = 0; threadIdx.x < job->block; threadIdx.x++) \
				call;                                   \
	} while (0)

/* "stuck=OFFSET:MASK": bits of that word of the memory under test that always read as ones. */
static void stuck(int die, quad *mem, u64 base, u64 quads)
{
	const char *value;
	unsigned long long offset;
	unsigned int mask;

	if (!fault(die, "stuck", &value) || sscanf(value, "%lli:%i", (long long *)&offset, (int *)&mask) != 2)
		return;
	if (offset / 16 >= base && offset / 16 < base + quads)
		((u32 *)mem)[offset / 4 - base * 4] |= mask;
}

/* A launch takes a die some time, however fast or busy the host is: `steps` of them from `start` on. */
static void take_time(struct timespec start, double steps, double steps_a_second)
{
	double nanoseconds = (double)start.tv_nsec + steps / steps_a_second * 1e9;

	start.tv_sec += (time_t)(nanoseconds / 1e9);
	start.tv_nsec = (long)fmod(nanoseconds, 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL))
		;
}

static struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

static int run_busy(int die, const struct job *job)
{
	struct timespec start = now();

	(void)die;
	EVERY_THREAD(busy(AT(float, 0), 1));
	take_time(start, WORD(1), 1e6);
	return OK;
}

/* As many steps as a host can take one by one are taken so; more are jumped over, by squaring. */
static void jump(u32 *out, u32 n, u32 seed, u32 rounds)
{
	u32 factor = 1, summand = 0, a = 1664525u, c = 1013904223u;

	for (; rounds; rounds >>= 1) {
		if (rounds & 1) {
			summand = summand * a + c;
			factor *= a;
		}
		c = c * a + c;
		a *= a;
	}
	for (u32 i = 0; i < n; i++)
		out[i] = mix((seed + i) * factor + summand);
}

static int run_persist(int die, const struct job *job)
{
	struct timespec start = now();

	if (WORD(3) <= 64)
		EVERY_THREAD(persist(AT(u32, 0), WORD(1), WORD(2), WORD(3)));
	else
		jump(AT(u32, 0), WORD(1), WORD(2), WORD(3));
	take_time(start, (double)WORD(1) * WORD(3), 5e8);
	if (fault(die, "wrong-persist", NULL))
		AT(u32, 0)[777] ^= 4;
	return OK;
}

static int run_fill(int die, const struct job *job)
{
	EVERY_THREAD(fill(AT(quad, 0), job->args[1], WORD(2), WORD(3)));
	stuck(die, AT(quad, 0), job->args[1], (u64)job->grid * TILE);
	return OK;
}

static int run_check(int die, const struct job *job)
{
	(void)die;
	EVERY_THREAD(check(AT(quad, 0), job->args[1], WORD(2), WORD(3), AT(struct findings, 4)));
	return OK;
}

static int run_invert(int die, const struct job *job)
{
	EVERY_THREAD(invert(AT(quad, 0), job->args[1], WORD(2), AT(struct findings, 3)));
	stuck(die, AT(quad, 0), job->args[1], (u64)job->grid * TILE);
	return OK;
}

static int run_parity(int die, const struct job *job)
{
	EVERY_THREAD(parity(AT(u32, 0), AT(float, 1), AT(double, 2), AT(u32, 3), AT(u32, 4), WORD(5),
			    WORD(6)));
	/* An element that block 5 has computed: multiprocessor 5. */
	if (fault(die, "wrong-parity", NULL))
		AT(double, 2)[5 * job->block + 1] += 1e-12;
	return OK;
}

static const struct kernel kernels[] = {
	{ "busy", "84", run_busy },
	{ "persist", "8444", run_persist },
	{ "fill", "8844", run_fill },
	{ "check", "88448", run_check },
	{ "invert", "8848", run_invert },
	{ "parity", "8888844", run_parity },
};

const struct kernel *kernel(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (!strcmp(kernels[i].name, name))
			return &kernels[i];
	return NULL;
}
