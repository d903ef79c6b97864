/* A libcuda.so.1 for the tests: the functions that die-check calls, on dies that are threads of the host.
 * STANDIN_DIES lists the dies' PCI addresses; which of them are seen follows the driver's own rules. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef uint64_t Address;

struct die_seen {
	char bdf[16];
	int number;
};

struct event {
	uint64_t ticket;
	int die;
};

/* In front of every allocation. */
struct allocation {
	size_t bytes;
	size_t padding[7];
};

static struct die_seen seen[DIES];
static int count, started, references;
static _Thread_local int current = -1;

#define NEEDS_CONTEXT               \
	do {                        \
		if (current < 0)    \
			return INVALID_CONTEXT; \
	} while (0)

/* The UUID that a die of this address has. */
static void uuid(const char *bdf, char *text, size_t size)
{
	snprintf(text, size, "GPU-%.2s%.2s0000-0000-0000-0000-000000000000", bdf + 5, bdf + 8);
}

static int visible(const char *bdf, int place)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char id[64];

	if (!list)
		return 1;
	uuid(bdf, id, sizeof(id));
	if (!strncmp(list, "GPU-", 4))
		return !strcmp(list, id);
	return *list && atoi(list) == place;
}

int cuInit(unsigned int flags)
{
	const char *list = getenv("STANDIN_DIES"), *order = getenv("CUDA_DEVICE_ORDER");
	int place = 0;

	(void)flags;
	if (fault(ANY, "no-device", NULL))
		return NO_DEVICE;
	/* Any other order is the driver's secret. */
	if (!order || strcmp(order, "PCI_BUS_ID"))
		return INVALID_VALUE;
	started = 1;
	for (count = 0; list && *list && count < DIES; place++) {
		struct die_seen die = { .number = place };

		if (sscanf(list, "%12[0-9a-f:.]", die.bdf) != 1)
			break;
		if (visible(die.bdf, place))
			seen[count++] = die;
		list = strchr(list, ',');
		list += list != NULL;
	}
	for (int i = 0; i < count; i++)
		note(seen[i].number, "sees %s", seen[i].bdf);
	return count ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
	*version = 11040;
	return OK;
}

int cuDeviceGetCount(int *number)
{
	*number = count;
	return started ? OK : 3;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal < 0 || ordinal >= count ? INVALID_DEVICE : OK;
}

int cuDeviceGetName(char *name, int size, int device)
{
	(void)device;
	snprintf(name, (size_t)size, "Tesla K80 (stand-in)");
	return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = memory();
	return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75 ? 3 : attribute == 76 ? 7 : attribute == 16 ? MULTIPROCESSORS : 0;
	return OK;
}

int cuDeviceGetPCIBusId(char *text, int size, int device)
{
	snprintf(text, (size_t)size, "%s", seen[device].bdf);
	return OK;
}

int cuDeviceGetByPCIBusId(int *device, const char *text)
{
	for (*device = 0; *device < count; ++*device)
		if (!strcasecmp(seen[*device].bdf, text))
			return OK;
	return INVALID_DEVICE;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned int flags)
{
	(void)device;
	(void)flags;
	return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	references++;
	*context = (void *)(uintptr_t)(seen[device].number + 1);
	note(seen[device].number, "context");
	return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (!references)
		return INVALID_CONTEXT;
	references--;
	note(seen[device].number, "context down, %zu bytes left", in_use(seen[device].number));
	return OK;
}

int cuCtxSetCurrent(void *context)
{
	current = (int)(uintptr_t)context - 1;
	return OK;
}

int cuCtxSynchronize(void)
{
	NEEDS_CONTEXT;
	int result = drain(current);

	note(current, "synchronised");
	return result;
}

int cuModuleLoadDataEx(void **module, const char *image, unsigned int options, int *option, void **value)
{
	NEEDS_CONTEXT;
	if (fault(current, "old-driver", NULL)) {
		for (unsigned int i = 0; i < options; i++)
			if (option[i] == 5)
				strcpy(value[i], "ptxas application ptx input, line 9; fatal   : "
						 "Unsupported .version 7.2; current version is '7.1'\n");
		return PTX_TOO_NEW;
	}
	note(current, "module");
	*module = (void *)image;
	return strstr(image, "\n.target sm_37\n") ? OK : INVALID_PTX;
}

int cuModuleUnload(void *module)
{
	(void)module;
	note(current, "module down");
	return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)module;
	*function = (void *)kernel(name);
	return *function ? OK : NOT_FOUND;
}

int cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority)
{
	(void)flags;
	(void)priority;
	NEEDS_CONTEXT;
	*stream = (void *)1;
	note(current, "stream");
	return OK;
}

int cuStreamDestroy_v2(void *stream)
{
	(void)stream;
	note(current, "stream down");
	return OK;
}

int cuLaunchKernel(const struct kernel *of, unsigned int grid, unsigned int y, unsigned int z,
		   unsigned int block, unsigned int by, unsigned int bz, unsigned int shared,
		   void *stream, void **args, void **extra)
{
	struct job job = { .run = of->run, .kernel = of->name, .grid = grid, .block = block };
	uint64_t ticket;

	(void)stream;
	(void)extra;
	NEEDS_CONTEXT;
	if (y != 1 || z != 1 || by != 1 || bz != 1 || shared || block != 256)
		return INVALID_VALUE;
	for (size_t i = 0; of->sizes[i]; i++)
		memcpy(&job.args[i], args[i], (size_t)(of->sizes[i] - '0'));
	note(current, "launch %s", of->name);
	return queue(current, job, &ticket);
}

static int nothing(int die, const struct job *job)
{
	(void)die;
	(void)job;
	return OK;
}

int cuEventCreate(struct event **event, unsigned int flags)
{
	(void)flags;
	*event = calloc(1, sizeof(**event));
	return *event ? OK : OUT_OF_MEMORY;
}

int cuEventRecord(struct event *event, void *stream)
{
	(void)stream;
	NEEDS_CONTEXT;
	event->die = current;
	return queue(current, (struct job){ .run = nothing }, &event->ticket);
}

int cuEventQuery(struct event *event)
{
	uint64_t when;

	if (lost(event->die))
		return LAUNCH_FAILED;
	return finished(event->die, event->ticket, &when) ? OK : NOT_READY;
}

int cuEventElapsedTime(float *ms, struct event *start, struct event *end)
{
	uint64_t from, to;

	if (!finished(start->die, start->ticket, &from) || !finished(end->die, end->ticket, &to))
		return NOT_READY;
	*ms = (float)(to - from) / 1e6f;
	return OK;
}

int cuEventDestroy_v2(struct event *event)
{
	free(event);
	return OK;
}

int cuMemAlloc_v2(Address *address, size_t bytes)
{
	struct allocation *allocation;

	NEEDS_CONTEXT;
	if (in_use(current) + bytes > memory())
		return OUT_OF_MEMORY;
	allocation = aligned_alloc(64, (sizeof(*allocation) + bytes + 63) / 64 * 64);
	if (!allocation)
		return OUT_OF_MEMORY;
	allocation->bytes = bytes;
	/* Whatever is not written is not zero. */
	memset(allocation + 1, 0xa5, bytes);
	take(current, bytes);
	*address = (Address)(uintptr_t)(allocation + 1);
	return OK;
}

int cuMemFree_v2(Address address)
{
	struct allocation *allocation = (struct allocation *)(uintptr_t)address - 1;

	drain(current);
	give(current, allocation->bytes);
	note(current, "free");
	free(allocation);
	return OK;
}

static int set(int die, const struct job *job)
{
	(void)die;
	for (uint64_t i = 0; i < job->args[2]; i++)
		((uint32_t *)(uintptr_t)job->args[0])[i] = (uint32_t)job->args[1];
	return OK;
}

static int copy(int die, const struct job *job)
{
	(void)die;
	memcpy((void *)(uintptr_t)job->args[0], (void *)(uintptr_t)job->args[1], job->args[2]);
	return OK;
}

int cuMemsetD32Async(Address address, unsigned int value, size_t words, void *stream)
{
	uint64_t ticket;

	(void)stream;
	return queue(current, (struct job){ .run = set, .args = { address, value, words } }, &ticket);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream)
{
	uint64_t ticket;

	(void)stream;
	return queue(current, (struct job){ .run = copy, .args = { to, from, bytes } }, &ticket);
}

int cuMemsetD8_v2(Address address, unsigned char value, size_t bytes)
{
	int result = drain(current);

	memset((void *)(uintptr_t)address, value, bytes);
	return result;
}

int cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes)
{
	int result = drain(current);

	memcpy((void *)(uintptr_t)to, from, bytes);
	return result;
}

int cuMemcpyDtoH_v2(void *to, Address from, size_t bytes)
{
	int result = drain(current);

	memcpy(to, (void *)(uintptr_t)from, bytes);
	return result;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	NEEDS_CONTEXT;
	*total = memory();
	*free_bytes = *total - in_use(current);
	return OK;
}
