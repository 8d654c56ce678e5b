// SPDX-License-Identifier: GPL-2.0
/*
 * Pages and page tables that others change meanwhile: migration to another node of memory, KSM, UFFDIO_MOVE, reclaim. What
 * goes wrong here is seldom wrong contents: the kernel stops, or reports a table that it has lost. Each goes on for some
 * seconds, and at least until both sides have got somewhere; a test that hangs is ended (main.c).
 */
#include "harness.h"
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <time.h>

static atomic_bool stop;

struct lot {
	char *area;
	size_t pages;
	atomic_size_t moved;
};

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Sends pages to and fro between the nodes. */
static void *mover(void *argument)
{
	struct lot *lot = argument;

	for (int node = 1; !stop; node = !node) {
		lot->moved += send_to_node(lot->area, lot->pages, node);
		usleep(200); /* faults on pages that are being moved wait; they have to get on, too */
	}
	return NULL;
}

static pthread_t start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	stop = false;
	CHECK(!pthread_create(&thread, NULL, run, argument), "thread");
	return thread;
}

static void end(pthread_t thread)
{
	stop = true;
	CHECK(!pthread_join(thread, NULL), "join");
}

static void merge_pairs(char *area, size_t pages)
{
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "10");
	CHECK(!madvise(area, pages * PAGE, MADV_MERGEABLE), "madvise");
	for (size_t page = 0; page < pages; page++)
		memset(area + page * PAGE, 1 + page / 2, PAGE);
	write_file("/sys/kernel/mm/ksm/run", "1");
	scan_twice();
	write_file("/sys/kernel/mm/ksm/run", "0");
}

static void expect_pairs(char *area, size_t pages)
{
	for (size_t page = 0; page < pages; page++)
		CHECK(area[page * PAGE + 77] == (char)(1 + page / 2), "page %zu", page);
}

/*
 * KSM finds the mappings of its pages by address: an entry that says "on the move" and is copied is never restored, and the
 * next touch of it, or the exit, stops the kernel.
 */
static void merged_pages(void)
{
	enum { N = 240 };
	char *source = map(N * PAGE), *kept = NULL;
	struct lot lot = { source, N, 0 };
	double until = seconds() + 3;
	pthread_t thread;
	int rounds = 0;

	merge_pairs(source, N);
	CHECK(area_field(source, "KSM") == N * 4, "%ld kB are merged", area_field(source, "KSM"));
	thread = start(mover, &lot);
	for (; seconds() < until || rounds < 20 || lot.moved < 2 * N; rounds++) {
		char *copy = snapshot(source, N * PAGE, NULL);
		expect_pairs(copy, N);
		copy[rounds % N * PAGE] = 0;
		CHECK(!munmap(copy, N * PAGE), "munmap");
		kept = snapshot(source, N * PAGE, kept);
		expect_pairs(kept, N);
	}
	end(thread);
	expect_pairs(source, N);
}

/* A page that a snapshot shares does not become KSM's through its source: it stays one that can be moved. */
static void merged_afterwards(void)
{
	enum { N = 240 };
	char *source = map(N * PAGE), *copy;

	for (size_t page = 0; page < N; page++)
		memset(source + page * PAGE, 1 + page / 2, PAGE);
	copy = snapshot(source, N * PAGE, NULL);
	CHECK(!madvise(source, N * PAGE, MADV_MERGEABLE), "madvise");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "10");
	write_file("/sys/kernel/mm/ksm/smart_scan", "0"); /* which passes over pages that were in vain before */
	write_file("/sys/kernel/mm/ksm/run", "1");
	scan_twice();
	CHECK(area_field(copy, "KSM") == 0, "%ld kB of the snapshot are KSM's", area_field(copy, "KSM"));
	for (int node = 1; node >= 0; node--) {
		size_t moved = send_to_node(copy, N, node);
		CHECK(moved >= N - 8, "%zu of %d pages can be moved", moved, N);
	}
	/* Pages that are the source's alone are merged. */
	for (size_t page = 0; page < N; page++)
		memset(source + page * PAGE, 100 + page % 2, PAGE);
	scan_twice();
	CHECK(frame(source) == frame(source + 2 * PAGE), "pages of the source alone are not merged");
	expect_pairs(copy, N);
	write_file("/sys/kernel/mm/ksm/run", "2");
	write_file("/sys/kernel/mm/ksm/run", "0");
}

/* Pages of the source and of the snapshot, on the move all the time, with writes to both. */
static void any_pages(void)
{
	enum { N = 64 };
	/* One snapshot before and one behind its source, as the reverse map goes through areas in some order. */
	char *room = map(3 * N * PAGE), *source = room + N * PAGE;
	struct lot lot = { room, 3 * N, 0 };
	double until = seconds() + 3;
	pthread_t thread = start(mover, &lot);
	uint64_t round = 0;

	for (; seconds() < until || round < 10 || lot.moved < 2 * N; round++) {
		fill(source, N, round * 1000);
		snapshot(source, N * PAGE, room);
		*cell(source, round % N) = 0;
		expect(room, N, round * 1000);
		*cell(source, round % N) = round * 1000 + round % N;
		snapshot(source, N * PAGE, room + 2 * N * PAGE);
		fill(source, N, 7);
		expect(room + 2 * N * PAGE, N, round * 1000);
		fill(room, N, 9);
		expect(source, N, 7);
	}
	end(thread);
}

struct exchange {
	char *left, *right;
	int watcher;
	atomic_size_t moves;
};

/* As in the kernel's headers; those here may be older. */
struct uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES 2

static size_t move(int watcher, char *to, char *from, size_t pages)
{
	struct uffdio_move command = { .dst = (uintptr_t)to, .src = (uintptr_t)from, .len = pages * PAGE,
				       .mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES };
	int error = ioctl(watcher, UFFDIO_MOVE, &command);

	CHECK(!error || errno == EAGAIN || errno == EBUSY, "UFFDIO_MOVE");
	return command.move > 0 ? command.move / PAGE : 0;
}

enum { MOVED = 32 };

/* Page by page, as a page that was moved must not be moved over. */
static void *exchanger(void *argument)
{
	struct exchange *exchange = argument;

	while (!stop)
		for (size_t page = 0; page < MOVED; page++) {
			char *left = exchange->left + page * PAGE, *right = exchange->right + page * PAGE;
			while (!move(exchange->watcher, right, left, 1) && !stop)
				;
			while (!move(exchange->watcher, left, right, 1) && !stop)
				;
			exchange->moves++;
		}
	return NULL;
}

static int watch_both(char *left, char *right)
{
	int watcher = watch(left, MOVED, UFFDIO_REGISTER_MODE_MISSING);
	struct uffdio_register range = { .range = { (uintptr_t)right, MOVED * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	CHECK(!ioctl(watcher, UFFDIO_REGISTER, &range), "register");
	return watcher;
}

static char *map_at(char *place, size_t pages)
{
	char *area = mmap(place, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	CHECK(area == place, "mmap");
	return area;
}

/*
 * UFFDIO_MOVE and snapshots, in different areas, but in two page tables that are the same: each needs both locks. If one took
 * them in another order, both would wait for ever, and so would the machine.
 */
static void two_tables(void)
{
	enum { N = 8 };
	char *room = map(4 * HUGE), *left = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE), *right = left + HUGE;
	/* Gaps of protected pages keep the areas apart, so that they share no anon_vma, whose lock would hide the others'. */
	struct exchange exchange = { left + 256 * PAGE, right + 256 * PAGE, -1, 0 };
	double until = seconds() + 3;
	pthread_t thread;
	int rounds = 0;

	CHECK(!mprotect(left, 2 * HUGE, PROT_NONE), "mprotect");
	map_at(exchange.left, MOVED);
	map_at(exchange.right, MOVED);
	exchange.watcher = watch_both(exchange.left, exchange.right);
	/* A watched page that is missing waits for its watcher, so that these are filled by copying. */
	for (size_t page = 0; page < MOVED; page++) {
		static char zeros[PAGE];
		struct uffdio_copy copy = { .dst = (uintptr_t)exchange.left + page * PAGE, .src = (uintptr_t)zeros, .len = PAGE };
		CHECK(!ioctl(exchange.watcher, UFFDIO_COPY, &copy), "copy");
	}
	fill(map_at(left, N), N, 1);
	fill(map_at(right + 64 * PAGE, N), N, 2);
	map_at(right, N);
	map_at(left + 64 * PAGE, N);
	thread = start(exchanger, &exchange);
	for (; seconds() < until || rounds < 100 || exchange.moves < 100; rounds++) {
		*cell(left, 1) = *cell(right + 64 * PAGE, 2) = rounds;
		snapshot(left, N * PAGE, right);
		snapshot(right + 64 * PAGE, N * PAGE, left + 64 * PAGE);
		CHECK(*cell(right, 1) == (uint64_t)rounds && *cell(left + 64 * PAGE, 2) == (uint64_t)rounds, "contents");
	}
	end(thread);
	close(exchange.watcher);
}

static void *reclaimer(void *unused)
{
	while (!stop)
		reclaim_some();
	return unused;
}

/*
 * Huge pages of a snapshot that is refreshed, split by reclaim meanwhile: a huge entry must not be written over the page
 * table that came in its place, which would be lost; the kernel counts them when the process ends.
 */
static void huge_pages_split(void)
{
	enum { HUGES = 24, N = HUGES * 512 };
	char *room = map((HUGES + 1) * HUGE), *source = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE), *copy;
	double until = seconds() + 4;
	pthread_t thread;
	int rounds = 0;

	swap_on();
	CHECK(!madvise(source, HUGES * HUGE, MADV_HUGEPAGE), "madvise");
	for (size_t page = 0; page < N; page += 64)
		source[page * PAGE] = 1;
	copy = snapshot(source, HUGES * HUGE, NULL);
	thread = start(reclaimer, NULL);
	for (; seconds() < until || rounds < 4; rounds++) {
		CHECK(!madvise(source, HUGES * HUGE, MADV_DONTNEED), "madvise");
		for (size_t page = 0; page < N; page += 64)
			source[page * PAGE] = rounds;
		snapshot(source, HUGES * HUGE, copy);
		for (size_t page = 0; page < N; page += 64)
			CHECK(copy[page * PAGE] == (char)rounds, "page %zu", page);
	}
	end(thread);
	CHECK(!munmap(copy, HUGES * HUGE) && !munmap(room, (HUGES + 1) * HUGE), "munmap");
	swap_off();
}

const struct test move_tests[] = {
	{ "moves: merged pages", merged_pages },
	{ "moves: pages merged after they were shared", merged_afterwards },
	{ "moves: any pages, between nodes", any_pages },
	{ "moves: UFFDIO_MOVE in the same two page tables", two_tables },
	{ "moves: huge pages split by reclaim", huge_pages_split },
	{ NULL, NULL },
};
