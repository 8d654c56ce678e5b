// SPDX-License-Identifier: GPL-2.0
/*
 * Threads write while snapshots are taken: every snapshot is a causal cut. If it holds a write, it holds all writes that its
 * writer, or anyone whose writes that writer had seen, did before.
 */
#include "harness.h"
#include <linux/io_uring.h>
#include <stdatomic.h>

static atomic_bool stop;

struct lane {
	char *area;
	size_t pages;
	/* The other writer's counter, and where to note what was seen of it; or NULL. */
	_Atomic uint64_t *other;
	_Atomic uint64_t *seen;
	_Atomic uint64_t *own;
	_Atomic uint64_t written;
};

static _Atomic uint64_t *slot(char *area, size_t page)
{
	return (_Atomic uint64_t *)cell(area, page);
}

/* Write number n goes to page n * 7 modulo the number of pages, so that neighbours in time are far apart in place. */
static size_t page_of(uint64_t write, size_t pages)
{
	return write * 7 % pages;
}

static void *writer(void *argument)
{
	struct lane *lane = argument;

	for (uint64_t write = 1; !atomic_load_explicit(&stop, memory_order_relaxed); write++) {
		atomic_store_explicit(slot(lane->area, page_of(write, lane->pages)), write, memory_order_release);
		if (lane->own) {
			uint64_t other = atomic_load_explicit(lane->other, memory_order_acquire);
			atomic_store_explicit(lane->seen, other, memory_order_release);
			atomic_store_explicit(lane->own, write, memory_order_release);
		}
		atomic_store_explicit(&lane->written, write, memory_order_relaxed);
	}
	return NULL;
}

/* All writes up to the newest are there, and the newest before each page's turn came again. Returns the newest. */
static uint64_t check_lane(char *area, size_t pages)
{
	uint64_t newest = 0;

	for (size_t page = 0; page < pages; page++) {
		uint64_t value = *slot(area, page);
		newest = value > newest ? value : newest;
	}
	for (uint64_t back = 0; back < pages && back < newest; back++) {
		uint64_t write = newest - back;
		CHECK(*slot(area, page_of(write, pages)) == write, "write %lu is there, write %lu is missing (%lu)",
		      (unsigned long)newest, (unsigned long)write,
		      (unsigned long)*slot(area, page_of(write, pages)));
	}
	return newest;
}

/*
 * Lets the writer go round twice, so that it meets no more faults: it runs at full speed when the next snapshot begins, with
 * all of its pages in the translation buffer of its processor.
 */
static void warm_up(struct lane *lane)
{
	uint64_t until = lane->written + 2 * lane->pages;

	while (lane->written < until)
		usleep(500);
}

static pthread_t start(struct lane *lane)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, writer, lane), "thread");
	return thread;
}

/* Takes snapshots of one writer's pages in the way that the round says, and checks each. */
static void race_one(char *area, size_t pages, int rounds)
{
	struct lane lane = { .area = area, .pages = pages };
	pthread_t thread = start(&lane);
	char *refreshed = NULL;
	uint64_t newest = 0;

	for (int round = 0; round < rounds; round++) {
		if (round % 2)
			warm_up(&lane);
		char *copy = snapshot(area, pages * PAGE, NULL);
		uint64_t found = check_lane(copy, pages);
		CHECK(found >= newest, "time goes back");
		newest = found;
		if (round % 4 == 3)
			warm_up(&lane);
		refreshed = snapshot(area, pages * PAGE, refreshed);
		found = check_lane(refreshed, pages);
		CHECK(found >= newest, "time goes back");
		/* The older one has not moved. */
		CHECK(check_lane(copy, pages) <= newest, "a snapshot changed");
		newest = found;
		CHECK(!munmap(copy, pages * PAGE), "munmap");
	}
	stop = true;
	pthread_join(thread, NULL);
	CHECK(newest > pages, "the writer never came round");
}

static void one_writer(void)
{
	char *area = map(1031 * PAGE);

	fill(area, 1, 0);
	race_one(area, 1031, 150);
}

static void one_writer_huge(void)
{
	char *room = map(4 * HUGE), *area = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);

	CHECK(!madvise(area, 2 * HUGE, MADV_HUGEPAGE), "madvise");
	race_one(area, 1021, 100);
}

/* Two areas of different kind in one range, and pages that were never written to before. */
static void one_writer_two_areas(void)
{
	char *area = map(1031 * PAGE);

	CHECK(!madvise(area + 500 * PAGE, 100 * PAGE, MADV_DONTFORK), "madvise");
	race_one(area, 1031, 100);
}

/* Some pages are pinned by the kernel, so that they have to be copied at once: those must be of the same cut. */
static void one_writer_pinned(void)
{
	struct io_uring_params parameters = { 0 };
	char *area = map(1031 * PAGE);
	struct iovec pins[8];
	int ring = syscall(SYS_io_uring_setup, 4, &parameters);

	CHECK(ring >= 0, "io_uring_setup");
	for (int i = 0; i < 8; i++)
		pins[i] = (struct iovec){ area + i * 128 * PAGE, (i % 2 ? 1 : 40) * PAGE };
	CHECK(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, pins, 8), "pin");
	uint64_t frame_before = frame(area);
	race_one(area, 1031, 100);
	CHECK(frame(area) == frame_before, "a pinned page was replaced in the source");
	close(ring);
}

/* Two writers that see each other: a snapshot with B's note of A's write holds that write of A. */
static void two_writers(void)
{
	enum { N = 257 };
	char *area = map((2 * N + 4) * PAGE), *refreshed = NULL;
	/* A's counter before its pages, B's behind all, so that a walk meets them at different times. */
	_Atomic uint64_t *a = slot(area, 0), *seen_by_a = slot(area, 1);
	_Atomic uint64_t *b = slot(area, 2 * N + 3), *seen_by_b = slot(area, 2 * N + 2);
	struct lane first = { area + 2 * PAGE, N, b, seen_by_a, a, 0 };
	struct lane second = { area + (2 + N) * PAGE, N, a, seen_by_b, b, 0 };
	pthread_t threads[2] = { start(&first), start(&second) };

	for (int round = 0; round < 150; round++) {
		if (round % 2) {
			warm_up(&first);
			warm_up(&second);
		}
		refreshed = snapshot(area, (2 * N + 4) * PAGE, round % 3 ? refreshed : NULL);
		uint64_t newest_a = check_lane(refreshed + 2 * PAGE, N);
		uint64_t newest_b = check_lane(refreshed + (2 + N) * PAGE, N);
		uint64_t noted_of_b = *slot(refreshed, 1), noted_of_a = *slot(refreshed, 2 * N + 2);
		CHECK(*slot(refreshed, 0) <= newest_a && *slot(refreshed, 2 * N + 3) <= newest_b,
		      "a counter is ahead of its writes");
		CHECK(noted_of_a <= *slot(refreshed, 0), "B saw %lu of A, the snapshot has %lu",
		      (unsigned long)noted_of_a, (unsigned long)*slot(refreshed, 0));
		CHECK(noted_of_b <= *slot(refreshed, 2 * N + 3), "A saw %lu of B, the snapshot has %lu",
		      (unsigned long)noted_of_b, (unsigned long)*slot(refreshed, 2 * N + 3));
	}
	stop = true;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

/* Compaction moves pages while snapshots are taken and refreshed. */
static void *mover(void *unused)
{
	while (!stop)
		write_file("/proc/sys/vm/compact_memory", "1");
	return unused;
}

static void with_moving_pages(void)
{
	pthread_t thread;
	char *area = map(1031 * PAGE), *holes = map(64 * HUGE);

	/* Something to compact: every other page is given back. */
	fill(holes, 64 * 512, 0);
	for (size_t page = 0; page < 64 * 512; page += 2)
		madvise(holes + page * PAGE, PAGE, MADV_DONTNEED);
	CHECK(!pthread_create(&thread, NULL, mover, NULL), "thread");
	race_one(area, 1031, 60);
	pthread_join(thread, NULL);
}

/* Threads that map, unmap and take snapshots of their own at the same time. */
static void *snapshotter(void *argument)
{
	char *area = argument;

	for (int round = 0; round < 200; round++) {
		char *copy = snapshot(area, 200 * PAGE, NULL), *second = snapshot(copy, 200 * PAGE, NULL);
		uint64_t value = *cell(copy, round % 200);
		*cell(copy, round % 200) = 1;
		CHECK(*cell(second, round % 200) == value, "not apart");
		munmap(round % 2 ? copy : second, 200 * PAGE);
		munmap(round % 2 ? second : copy, 200 * PAGE);
	}
	return NULL;
}

static void four_threads(void)
{
	char *area = map(200 * PAGE);
	pthread_t threads[4];

	fill(area, 200, 4);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, snapshotter, area), "thread");
	for (int round = 0; round < 20; round++) {
		int status;
		pid_t child = fork();
		if (!child)
			_exit(*cell(area, 5) != 9);
		CHECK(waitpid(child, &status, 0) == child && !status, "child");
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	expect(area, 200, 4);
}

const struct test race_tests[] = {
	{ "races: one writer", one_writer },
	{ "races: one writer, huge pages", one_writer_huge },
	{ "races: one writer, two areas", one_writer_two_areas },
	{ "races: one writer, pinned pages", one_writer_pinned },
	{ "races: two writers that see each other", two_writers },
	{ "races: pages that move", with_moving_pages },
	{ "races: four snapshotting threads and fork", four_threads },
	{ NULL, NULL },
};
