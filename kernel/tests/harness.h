/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all tests share: the call, checks, and looks into /proc.
 *
 * A theme is a file with a NULL-terminated list of tests. Each test runs in a process of its own, which ends at the first
 * check that does not hold; leftovers of its memory then show up as "Bad rss" or "Bad page" on the console.
 */
#ifndef HARNESS_H
#define HARNESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYS_VM_SNAPSHOT 480
#define PAGE 4096UL
#define HUGE (512 * PAGE)

struct test {
	const char *name;
	void (*run)(void);
};

/* MAP_FAILED and errno on failure, as the papers define it. */
static inline void *vm_snapshot(void *src, size_t length, void *dst)
{
	long result = syscall(SYS_VM_SNAPSHOT, src, length, dst);

	return result == -1 ? MAP_FAILED : (void *)result;
}

#define CHECK(condition, ...)                                                      \
	do {                                                                       \
		if (!(condition)) {                                                \
			printf("  %s:%d: %s: ", __FILE__, __LINE__, #condition);   \
			printf("" __VA_ARGS__);                                    \
			printf(" (errno %d)\n", errno);                            \
			fflush(stdout);                                            \
			_exit(1);                                                  \
		}                                                                  \
	} while (0)

/* The call has to fail with this errno. */
#define REFUSED(expected, src, length, dst)                                        \
	do {                                                                       \
		errno = 0;                                                         \
		void *result_ = vm_snapshot(src, length, dst);                     \
		CHECK(result_ == MAP_FAILED && errno == (expected), "wanted %s",   \
		      #expected);                                                  \
	} while (0)

static inline char *map(size_t length)
{
	char *area = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(area != MAP_FAILED, "mmap of %zu", length);
	return area;
}

static inline char *snapshot(void *src, size_t length, void *dst)
{
	char *area = vm_snapshot(src, length, dst);

	CHECK(area != MAP_FAILED, "vm_snapshot of %zu", length);
	CHECK(!dst || area == dst, "another place than asked for");
	return area;
}

/* One number per page, at a place in the page that depends on it. */
static inline uint64_t *cell(char *area, size_t page)
{
	return (uint64_t *)(area + page * PAGE + page * 64 % PAGE);
}

static inline void fill(char *area, size_t pages, uint64_t value)
{
	for (size_t page = 0; page < pages; page++)
		*cell(area, page) = value + page;
}

static inline void expect(char *area, size_t pages, uint64_t value)
{
	for (size_t page = 0; page < pages; page++)
		CHECK(*cell(area, page) == value + page, "page %zu holds %lu, not %lu", page,
		      (unsigned long)*cell(area, page), (unsigned long)(value + page));
}

/* A field of /proc/self/status, /proc/meminfo and their like, in the unit that stands there; -1 if there is none. */
long field(const char *file, const char *name);
/* The same of the area in /proc/self/smaps that begins at or holds this address. */
long area_field(void *address, const char *name);
/* The physical page behind an address, 0 if there is none. */
uint64_t frame(void *address);
void write_file(const char *path, const char *text);
/* Swap space on a memory disk, and a memory cgroup for this process, which can be asked to send pages out. */
void swap_on(void);
void swap_off(void);
void reclaim_some(void);
/* Waits until KSM, which has to run, has gone over everything twice. */
void scan_twice(void);
/* Registers an area with a new userfaultfd, and returns that. */
int watch(char *area, size_t pages, uint64_t mode);
/* The machine's tests run on two nodes of memory: sends these pages to one, whoever else maps them. Returns how many are there. */
size_t send_to_node(char *area, size_t pages, int node);
/* Free memory once pages on their way are settled, in kB. */
long settled_free(void);

#endif
