/* parity: the same arithmetic on die and processor, for a die that is alive and wrong.
 *
 * Every operation here is exact to the bit by IEEE 754 or by being an integer one, so any difference
 * is a fault. The rounds go through integer, single and double units, division and square root, and
 * shared memory. parity.rs computes the same. */
#include "die.h"

#define ROUNDS 32u

INLINE u32 whole(u32 x)
{
	u32 k;

	for (k = 0; k < ROUNDS; k++)
		x = mix(x + k) ^ __umulhi(x, 0x9e3779b1u);
	return x;
}

INLINE float single(u32 x)
{
	float a = __uint_as_float(0x3f800000u | x >> 9), s = a;
	u32 k;

	for (k = 0; k < ROUNDS; k++) {
		s = __fmaf_rn(s, a, 0.25f);
		s = __fdiv_rn(__fsqrt_rn(s), a) + 0.5f;
	}
	return s;
}

INLINE double twofold(u32 x)
{
	double a = 1.0 + (double)x / 4294967296.0, s = a;
	u32 k;

	for (k = 0; k < ROUNDS; k++) {
		s = __fma_rn(s, a, 0.25);
		s = __ddiv_rn(__dsqrt_rn(s), a) + 0.5;
	}
	return s;
}

/* folded[0..3]: xor of all results of a kind; place[block]: the multiprocessor it ran on. */
KERNEL parity(u32 *wholes, float *singles, double *doubles, u32 *folded, u32 *place, u32 n, u32 seed)
{
	SHARED volatile u32 desk[256];
	u32 i, x = 0, y = 0, z = 0;

	if (threadIdx.x == 0)
		place[blockIdx.x] = multiprocessor();
	for (i = THREAD; i < n; i += THREADS) {
		u32 start = mix(seed ^ i);
		u64 bits;

		desk[threadIdx.x] = whole(start);
		wholes[i] = desk[threadIdx.x];
		singles[i] = single(start);
		doubles[i] = twofold(start);
		bits = (u64)__double_as_longlong(doubles[i]);
		x ^= wholes[i];
		y ^= __float_as_uint(singles[i]);
		z ^= (u32)bits ^ (u32)(bits >> 32);
	}
	atomicXor(&folded[0], x);
	atomicXor(&folded[1], y);
	atomicXor(&folded[2], z);
}
