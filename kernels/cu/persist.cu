/* persist: work that goes on while its die is out of the slot, and that can be checked afterwards. */
#include "die.h"

/* out[i] = mix(x), x being `rounds` steps of a linear congruential generator from seed + i. The die
 * has to take the steps one by one; the host jumps over them in log(rounds), so that every element
 * of a kernel that ran for many seconds is checked in a moment. */
KERNEL persist(u32 *out, u32 n, u32 seed, u32 rounds)
{
	u32 i, k;

	for (i = THREAD; i < n; i += THREADS) {
		u32 x = seed + i;

		for (k = 0; k < rounds; k++)
			x = x * 1664525u + 1013904223u;
		out[i] = mix(x);
	}
}
