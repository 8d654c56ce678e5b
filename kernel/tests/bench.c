// SPDX-License-Identifier: GPL-2.0
/*
 * What a snapshot of one column costs: vm_snapshot, new or refreshed in place, against fork, copying and rewiring, in one
 * run on one machine. Each line of the result is the median of a few repetitions, each in a fresh process.
 *
 * Rewiring is done as the papers describe it: the column is a main-memory file, mapped shared; a snapshot maps its runs of
 * pages once more and write-protects the column; a write ends in a signal handler that copies the page to an unused one of
 * the file and maps that in its place.
 */
#include "harness.h"
#include <signal.h>
#include <time.h>

#define REPEATS 5

/* The column, of the size that the command line names. */
static size_t pages_of_column = 51200;
static bool huge_pages;

struct result {
	uint64_t nanoseconds;
	uint64_t mappings;	/* of the column; rewiring needs many */
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* The n-th page of an order that visits every page once, far apart in time and place. */
static size_t scattered(size_t n)
{
	return n * 40503 % pages_of_column;
}

static char *make_column(void)
{
	size_t length = pages_of_column * PAGE;
	char *room = map(length + HUGE), *column = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);

	CHECK(!madvise(column, length, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE), "madvise");
	for (size_t page = 0; page < pages_of_column; page++)
		*(uint64_t *)(column + page * PAGE) = page;
	return column;
}

static void touch(char *column, size_t writes)
{
	for (size_t n = 0; n < writes; n++)
		*(uint64_t *)(column + scattered(n) * PAGE) += 1;
}

/* --- vm_snapshot --- */

static struct result create_new(size_t writes)
{
	char *column = make_column();
	uint64_t start;

	snapshot(column, pages_of_column * PAGE, NULL);
	touch(column, writes);
	start = now();
	snapshot(column, pages_of_column * PAGE, NULL);
	return (struct result){ now() - start, 1 };
}

/* In place of an older snapshot of another column: its pages have to go first. */
static struct result create_in_place_of_another(size_t writes)
{
	char *column = make_column(), *other = make_column(), *place;
	uint64_t start;

	place = snapshot(other, pages_of_column * PAGE, NULL);
	snapshot(column, pages_of_column * PAGE, NULL);
	touch(column, writes);
	start = now();
	snapshot(column, pages_of_column * PAGE, place);
	return (struct result){ now() - start, 1 };
}

static struct result refresh(size_t writes)
{
	char *column = make_column(), *place = snapshot(column, pages_of_column * PAGE, NULL);
	uint64_t start;

	touch(column, writes);
	start = now();
	snapshot(column, pages_of_column * PAGE, place);
	return (struct result){ now() - start, 1 };
}

static struct result drop(size_t writes)
{
	char *column = make_column(), *place = snapshot(column, pages_of_column * PAGE, NULL);
	uint64_t start;

	touch(column, writes);
	start = now();
	munmap(place, pages_of_column * PAGE);
	return (struct result){ now() - start, 1 };
}

static struct result write_first(size_t writes)
{
	char *column = make_column();
	uint64_t start;

	snapshot(column, pages_of_column * PAGE, NULL);
	start = now();
	touch(column, writes);
	return (struct result){ now() - start, 1 };
}

static struct result write_plain(size_t writes)
{
	char *column = make_column();
	uint64_t start = now();

	touch(column, writes);
	return (struct result){ now() - start, 1 };
}

/* --- fork --- */

static pid_t sleeping_child(void)
{
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static struct result create_by_fork(size_t writes)
{
	char *column = make_column();
	pid_t first = sleeping_child(), second;
	struct result result = { 0, 1 };
	uint64_t start;

	touch(column, writes);
	start = now();
	second = sleeping_child();
	result.nanoseconds = now() - start;
	end_child(first);
	end_child(second);
	return result;
}

static struct result write_after_fork(size_t writes)
{
	char *column = make_column();
	pid_t child = sleeping_child();
	uint64_t start = now();
	struct result result;

	touch(column, writes);
	result = (struct result){ now() - start, 1 };
	end_child(child);
	return result;
}

/* --- copying --- */

static struct result copy_to_new(size_t writes)
{
	char *column = make_column(), *copy;
	uint64_t start;

	touch(column, writes);
	start = now();
	copy = map(pages_of_column * PAGE);
	memcpy(copy, column, pages_of_column * PAGE);
	return (struct result){ now() - start, 1 };
}

static struct result copy_to_used(size_t writes)
{
	char *column = make_column(), *copy = make_column();
	uint64_t start;

	touch(column, writes);
	start = now();
	memcpy(copy, column, pages_of_column * PAGE);
	return (struct result){ now() - start, 1 };
}

/* --- rewiring --- */

static struct {
	int file;
	char *column;
	uint32_t *place;	/* page of the column -> page of the file */
	uint32_t unused;
} rewired;

static void map_run(char *area, size_t page, size_t count, int protection)
{
	CHECK(mmap(area + page * PAGE, count * PAGE, protection, MAP_SHARED | MAP_FIXED, rewired.file,
		   rewired.place[page] * PAGE) != MAP_FAILED, "mmap of a run");
}

/* One mapping per run of pages that are neighbours in the file. Returns how many. */
static size_t map_runs(char *area)
{
	size_t runs = 0;

	for (size_t page = 0, next; page < pages_of_column; page = next) {
		for (next = page + 1; next < pages_of_column; next++)
			if (rewired.place[next] != rewired.place[page] + (next - page))
				break;
		map_run(area, page, next - page, PROT_READ);
		runs++;
	}
	return runs;
}

static void on_write(int signal, siginfo_t *info, void *context)
{
	size_t page = ((char *)info->si_addr - rewired.column) / PAGE;
	char copy[PAGE];

	(void)signal, (void)context;
	if (page >= pages_of_column)
		_exit(3);
	memcpy(copy, rewired.column + page * PAGE, PAGE);
	rewired.place[page] = rewired.unused++;
	map_run(rewired.column, page, 1, PROT_READ | PROT_WRITE);
	memcpy(rewired.column + page * PAGE, copy, PAGE);
}

static void make_rewired(void)
{
	struct sigaction action = { .sa_sigaction = on_write, .sa_flags = SA_SIGINFO | SA_NODEFER };

	rewired.file = memfd_create("column", 0);
	CHECK(rewired.file >= 0 && !ftruncate(rewired.file, 2 * pages_of_column * PAGE), "file");
	rewired.place = calloc(pages_of_column, sizeof(*rewired.place));
	rewired.unused = pages_of_column;
	for (size_t page = 0; page < pages_of_column; page++)
		rewired.place[page] = page;
	rewired.column = mmap(NULL, pages_of_column * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, rewired.file, 0);
	CHECK(rewired.column != MAP_FAILED, "mmap");
	for (size_t page = 0; page < pages_of_column; page++)
		*(uint64_t *)(rewired.column + page * PAGE) = page;
	CHECK(!sigaction(SIGSEGV, &action, NULL), "sigaction");
}

static size_t snapshot_rewired(void)
{
	char *area = mmap(NULL, pages_of_column * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t runs;

	CHECK(area != MAP_FAILED, "mmap");
	runs = map_runs(area);
	CHECK(!mprotect(rewired.column, pages_of_column * PAGE, PROT_READ), "mprotect");
	return runs;
}

static struct result create_rewired(size_t writes)
{
	uint64_t start;
	size_t runs;

	make_rewired();
	snapshot_rewired();
	touch(rewired.column, writes);
	start = now();
	runs = snapshot_rewired();
	return (struct result){ now() - start, runs };
}

static struct result write_rewired(size_t writes)
{
	uint64_t start;

	make_rewired();
	snapshot_rewired();
	start = now();
	touch(rewired.column, writes);
	return (struct result){ now() - start, writes };
}

/* --- measuring --- */

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct result *)a)->nanoseconds, y = ((const struct result *)b)->nanoseconds;

	return (x > y) - (x < y);
}

static bool in_fresh_process(struct result (*work)(size_t), size_t writes, struct result *result)
{
	int pipes[2], status;
	pid_t child;

	CHECK(!pipe(pipes), "pipe");
	child = fork();
	if (!child) {
		*result = work(writes);
		_exit(write(pipes[1], result, sizeof(*result)) != sizeof(*result));
	}
	close(pipes[1]);
	bool got = read(pipes[0], result, sizeof(*result)) == sizeof(*result);
	close(pipes[0]);
	return waitpid(child, &status, 0) == child && !status && got;
}

static int failures;

static void measure(const char *what, const char *technique, struct result (*work)(size_t), size_t writes)
{
	struct result results[REPEATS];

	for (int i = 0; i < REPEATS; i++) {
		if (!in_fresh_process(work, writes, &results[i])) {
			printf("%s %s failed\n", what, technique);
			failures++;
			return;
		}
	}
	qsort(results, REPEATS, sizeof(*results), by_time);
	printf("%s,%s,%d,%lu,%zu,%lu,%lu,%lu,%lu\n", what, technique, huge_pages ? 2048 : 4,
	       (unsigned long)(pages_of_column * PAGE >> 20), writes, (unsigned long)results[REPEATS / 2].nanoseconds,
	       (unsigned long)results[0].nanoseconds, (unsigned long)results[REPEATS - 1].nanoseconds,
	       (unsigned long)results[REPEATS / 2].mappings);
	fflush(stdout);
}

static void measure_creation(void)
{
	/* Of the pages of a column of 200 MB: none, about 1%, 10% and nearly all. */
	const size_t shares[] = { 0, 500, 5000, 50000 };

	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		size_t writes = shares[i] * pages_of_column / 51200;
		measure("create", "vm_snapshot", create_new, writes);
		measure("create", "vm_snapshot_replace", create_in_place_of_another, writes);
		measure("create", "vm_snapshot_refresh", refresh, writes);
		measure("create", "fork", create_by_fork, writes);
		measure("create", "memcpy_new", copy_to_new, writes);
		measure("create", "memcpy_used", copy_to_used, writes);
		if (!huge_pages)
			measure("create", "rewiring", create_rewired, writes);
		measure("drop", "vm_snapshot", drop, writes);
	}
}

static void measure_writes(void)
{
	const size_t shares[] = { 500, 5000, 50000 };

	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		size_t writes = shares[i] * pages_of_column / 51200;
		measure("write", "plain", write_plain, writes);
		measure("write", "vm_snapshot", write_first, writes);
		measure("write", "fork", write_after_fork, writes);
		if (!huge_pages)
			measure("write", "rewiring", write_rewired, writes);
	}
}

/* How the costs grow with the range when nothing, or a fixed number of pages, has changed. */
static void measure_sizes(size_t pages_max)
{
	for (size_t pages = pages_max / 16; pages <= pages_max; pages *= 2) {
		pages_of_column = pages;
		measure("size", "vm_snapshot", create_new, 0);
		measure("size", "vm_snapshot_refresh", refresh, 0);
		measure("size", "vm_snapshot_refresh", refresh, 50);
		measure("size", "fork", create_by_fork, 0);
	}
}

int main(int count, char **arguments)
{
	size_t pages = (count > 1 ? strtoul(arguments[1], NULL, 10) : 200) << 8;

	struct timespec resolution;

	write_file("/proc/sys/vm/max_map_count", "1000000");
	clock_getres(CLOCK_MONOTONIC, &resolution);
	CHECK(resolution.tv_nsec < 1000, "the clock is too coarse: %ld ns", resolution.tv_nsec);
	printf("median of %d, column of %lu MB, %ld MB of memory, %ld processors, software emulation: compare within this run\n",
	       REPEATS, (unsigned long)(pages >> 8), field("/proc/meminfo", "MemTotal") >> 10,
	       sysconf(_SC_NPROCESSORS_ONLN));
	printf("BEGIN CSV\nexperiment,technique,page_kb,column_mb,pages_written,ns_median,ns_min,ns_max,mappings\n");
	for (int huge = 0; huge < 2; huge++) {
		huge_pages = huge;
		pages_of_column = pages;
		measure_creation();
		measure_writes();
		measure_sizes(pages);
	}
	printf("END CSV\n");
	return failures != 0;
}
