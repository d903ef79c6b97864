/* The dies: each has a thread that does what was queued, in order, while the caller goes on. */
#include "standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUEUED 4096

struct die {
	pthread_t thread;
	int started, lost;
	struct job jobs[QUEUED];
	uint64_t ended[QUEUED];
	uint64_t head, tail;
	size_t used;
};

static struct die dies[DIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int fault(int die, const char *name, const char **value)
{
	const char *faulty = getenv("STANDIN_FAULTY");
	const char *list = getenv("STANDIN_FAULT");
	size_t length = strlen(name);

	if (faulty && die != ANY && atoi(faulty) != die)
		return 0;
	while (list && *list) {
		if (!strncmp(list, name, length) && strchr("=,", list[length])) {
			if (value)
				*value = list + length + (list[length] == '=');
			return 1;
		}
		list = strchr(list, ',');
		list += list != NULL;
	}
	return 0;
}

void note(int die, const char *format, ...)
{
	const char *path = getenv("STANDIN_LOG");
	char line[256];
	va_list args;
	FILE *file;

	if (!path || !(file = fopen(path, "a")))
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	/* One write, so that lines of several processes do not mix. */
	fprintf(file, "%d %llu %d %s\n", getpid(), (unsigned long long)now(), die, line);
	fclose(file);
}

static void *work(void *which)
{
	struct die *die = which;
	int number = (int)(die - dies);

	pthread_mutex_lock(&lock);
	for (;;) {
		while (die->head == die->tail)
			pthread_cond_wait(&changed, &lock);
		struct job *job = &die->jobs[die->head % QUEUED];
		int result = LAUNCH_FAILED;

		pthread_mutex_unlock(&lock);
		if (!die->lost)
			result = job->run(number, job);
		pthread_mutex_lock(&lock);
		if (job->kernel)
			note(number, "ended %s", job->kernel);
		die->lost |= result != OK;
		die->ended[die->head % QUEUED] = now();
		die->head++;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

/* "hang": a kernel that never ends. "lose=N": the N-th kernel brings the context down. */
static int hang(int die, const struct job *job)
{
	(void)die;
	(void)job;
	for (;;)
		pause();
	return OK;
}

static int fall_over(int die, const struct job *job)
{
	(void)die;
	(void)job;
	return LAUNCH_FAILED;
}

int queue(int number, struct job job, uint64_t *ticket)
{
	static int kernels;
	struct die *die = &dies[number];
	const char *value;

	if (job.kernel) {
		if (fault(number, "crash", NULL))
			abort();
		if (fault(number, "hang", NULL))
			job.run = hang;
		if (fault(number, "lose", &value) && ++kernels >= atoi(value))
			job.run = fall_over;
	}
	pthread_mutex_lock(&lock);
	if (!die->started) {
		die->started = 1;
		pthread_create(&die->thread, NULL, work, die);
	}
	while (die->tail - die->head == QUEUED)
		pthread_cond_wait(&changed, &lock);
	die->jobs[die->tail % QUEUED] = job;
	*ticket = ++die->tail;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return die->lost ? LAUNCH_FAILED : OK;
}

int finished(int number, uint64_t ticket, uint64_t *when)
{
	struct die *die = &dies[number];
	int done;

	pthread_mutex_lock(&lock);
	done = die->head >= ticket;
	if (done)
		*when = ticket ? die->ended[(ticket - 1) % QUEUED] : 0;
	pthread_mutex_unlock(&lock);
	return done;
}

int drain(int number)
{
	struct die *die = &dies[number];
	uint64_t last;

	pthread_mutex_lock(&lock);
	for (last = die->tail; die->head < last;)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return lost(number);
}

int lost(int number)
{
	return dies[number].lost ? LAUNCH_FAILED : OK;
}

void take(int number, size_t bytes)
{
	dies[number].used += bytes;
}

void give(int number, size_t bytes)
{
	dies[number].used -= bytes;
}

size_t in_use(int number)
{
	return dies[number].used;
}

/* "memory=MIB": how much a die has. */
size_t memory(void)
{
	const char *value;

	return (size_t)(fault(ANY, "memory", &value) ? atoi(value) : 160) << 20;
}
