/* What a thread of a kernel is on the host: one call after another, block by block. */
#ifndef HOST_H
#define HOST_H

#include <math.h>
#include <string.h>

struct dim {
	u32 x;
};
extern _Thread_local struct dim threadIdx, blockIdx, blockDim, gridDim;

typedef struct {
	u32 x, y, z, w;
} quad __attribute__((aligned(16)));

#define KERNEL void
#define INLINE static inline
#define SHARED static _Thread_local
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)

#define atomicAdd(at, v) __atomic_fetch_add(at, v, __ATOMIC_RELAXED)
#define atomicOr(at, v) __atomic_fetch_or(at, v, __ATOMIC_RELAXED)
#define atomicXor(at, v) __atomic_fetch_xor(at, v, __ATOMIC_RELAXED)
#define __popc(v) ((u32)__builtin_popcount(v))
#define __umulhi(a, b) ((u32)((u64)(a) * (b) >> 32))
#define __fmaf_rn(a, b, c) fmaf(a, b, c)
#define __fdiv_rn(a, b) ((float)(a) / (float)(b))
#define __fsqrt_rn(a) sqrtf(a)
#define __fma_rn(a, b, c) fma(a, b, c)
#define __ddiv_rn(a, b) ((double)(a) / (double)(b))
#define __dsqrt_rn(a) sqrt(a)

/* One thread of a die runs at a time here. */
static inline u64 atomicMin(u64 *at, u64 value)
{
	u64 old = *at;

	if (value < old)
		*at = value;
	return old;
}

static inline float __uint_as_float(u32 bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline u32 __float_as_uint(float value)
{
	u32 bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline long long __double_as_longlong(double value)
{
	long long bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* As many as a K80's die has. */
static inline u32 multiprocessor(void)
{
	return blockIdx.x % 13;
}

#endif
