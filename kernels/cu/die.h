/* What the kernels share. They are written in the C that NVRTC, nvcc and a plain C compiler agree on:
 * the tests run these very sources on the host, through a host.h that says what a thread is there. */
#ifndef DIE_H
#define DIE_H

typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef __CUDACC__
typedef uint4 quad;
#define KERNEL extern "C" __global__ void
#define INLINE static __device__ __forceinline__
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)
#define SHARED __shared__

/* The multiprocessor that runs this thread, to name a faulty one. */
INLINE u32 multiprocessor(void)
{
	u32 id;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
	return id;
}
#else
#include "host.h"
#endif

/* Murmur3's finaliser: one to one, and every bit of the input moves every bit of the output. */
INLINE u32 mix(u32 h)
{
	h ^= h >> 16;
	h *= 0x85ebca6bu;
	h ^= h >> 13;
	h *= 0xc2b2ae35u;
	return h ^ h >> 16;
}

#endif
