/* identify: keeps every multiprocessor at work, so that the card's activity LED shows. */
#include "die.h"

/* `rounds` dependent steps a thread; the sum goes out so that no compiler drops the work. */
KERNEL busy(float *sink, u32 rounds)
{
	float x = (float)THREAD * 1e-7f, y = 0.5f;
	u32 k;

	for (k = 0; k < rounds; k++) {
		x = x * 0.9999f + y;
		y = y * 0.9998f + x * 1e-6f;
	}
	sink[THREAD] = x + y;
}
