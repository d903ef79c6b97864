/* The stand-in's parts: the driver's functions (libcuda.c), the dies behind them (dies.c) and the
 * kernels they run (kernels.c). */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

#define DIES 16
#define MULTIPROCESSORS 13

/* Results, as in cuda.h. */
enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_PTX = 218,
	PTX_TOO_NEW = 222,
	NOT_FOUND = 500,
	NOT_READY = 600,
	LAUNCH_FAILED = 719,
};

/* A fault is planted by its name: STANDIN_FAULT="name" or "name=value", several with commas.
 * STANDIN_FAULTY names the one die that has them; without it, all have. ANY is no die in particular. */
#define ANY -1
int fault(int die, const char *name, const char **value);

/* One line a call that changes something: pid, nanoseconds, die, what. To the file STANDIN_LOG. */
void note(int die, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* dies.c: a thread a die, which does what was queued, in order. */
struct job {
	int (*run)(int die, const struct job *job); /* a result; what is not OK loses the context */
	const char *kernel;
	unsigned int grid, block;
	uint64_t args[7];
};
int queue(int die, struct job job, uint64_t *ticket);
int finished(int die, uint64_t ticket, uint64_t *when);
int drain(int die);
int lost(int die);
void take(int die, size_t bytes);
void give(int die, size_t bytes);
size_t in_use(int die);
size_t memory(void);

/* kernels.c */
struct kernel {
	const char *name;
	const char *sizes; /* of the arguments, a digit each */
	int (*run)(int die, const struct job *job);
};
const struct kernel *kernel(const char *name);

#endif
