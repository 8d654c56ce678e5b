// SPDX-License-Identifier: GPL-2.0
/* Which ranges: parts of areas, several areas, both sides in one page table, places asked for. */
#include "harness.h"

static void sub_ranges(void)
{
	enum { N = 1500 };
	char *source = map(N * PAGE);
	long areas_before;

	fill(source, N, 0);
	for (size_t from = 0; from < N; from += 301) {
		size_t pages = from % 2 ? 1 : 200;
		char *copy = snapshot(source + from * PAGE, pages * PAGE, NULL);
		for (size_t page = 0; page < pages; page++) {
			uint64_t *value = (uint64_t *)((char *)cell(source, from + page) - source + copy - from * PAGE);
			CHECK(*value == from + page, "page %zu", from + page);
			*value = 1;
		}
	}
	expect(source, N, 0);
	/* The source is still one area. */
	areas_before = area_field(source, "Size");
	CHECK(areas_before == N * 4 || areas_before > N * 4, "the source was split: %ld kB", areas_before);
}

/* Source and destination a few pages apart, so that one page table holds both. */
static void one_page_table(void)
{
	for (size_t distance = 8; distance <= 512; distance *= 2) {
		char *area = map(8 * HUGE), *base = (char *)(((uintptr_t)area + HUGE - 1) / HUGE * HUGE);
		size_t pages = distance;

		for (int down = 0; down < 2; down++) {
			char *source = base + (down ? pages * PAGE : 0), *copy = base + (down ? 0 : pages * PAGE);
			fill(source, pages, 10);
			fill(copy, pages, 20);
			snapshot(source, pages * PAGE, copy);
			expect(copy, pages, 10);
			fill(source, pages, 30);
			expect(copy, pages, 10);
			snapshot(source, pages * PAGE, copy);
			expect(copy, pages, 30);
			fill(copy, pages, 40);
			expect(source, pages, 30);
		}
		munmap(area, 8 * HUGE);
	}
}

/* A range that consists of areas with different protection: each keeps its own. */
static void several_areas(void)
{
	enum { N = 900 };
	char *source = map(N * PAGE), *copy;

	fill(source, N, 0);
	CHECK(!mprotect(source + 300 * PAGE, 300 * PAGE, PROT_READ), "mprotect");
	CHECK(!madvise(source + 700 * PAGE, 100 * PAGE, MADV_DONTFORK), "madvise");
	copy = snapshot(source, N * PAGE, NULL);
	expect(copy, N, 0);
	*cell(copy, 0) = *cell(copy, N - 1) = 5;
	int pipes[2];
	CHECK(!pipe(pipes) && write(pipes[1], "x", 1) == 1, "pipe");
	CHECK(read(pipes[0], copy + 400 * PAGE, 1) == -1 && errno == EFAULT, "a read-only part became writable");
	/* Again, over what is there, from another start, and over one area in place of several. */
	snapshot(source, N * PAGE, copy);
	expect(copy, N, 0);
	char *plain = map(N * PAGE);
	fill(plain, N, 3);
	snapshot(plain, N * PAGE, copy);
	expect(copy, N, 3);
	*cell(copy, 400) = 4;
	snapshot(source, N * PAGE, copy);
	expect(copy, N, 0);
	*cell(source, 1) = 9;
	snapshot(source, 200 * PAGE, copy);
	CHECK(*cell(copy, 1) == 9 && *cell(copy, 850) == 850, "a part of a snapshot refreshed");
}

static void place_is_free_and_congruent(void)
{
	char *source = map(3 * HUGE + 5 * PAGE), *copy;

	fill(source, 1541, 0);
	copy = snapshot(source, 1541 * PAGE, NULL);
	CHECK(((uintptr_t)copy - (uintptr_t)source) % HUGE == 0, "not congruent modulo 2 MB");
	expect(copy, 1541, 0);
}

/* Where neighbours touch, writes still stay apart: the new area is not merged into what is beside it. */
static void neighbours(void)
{
	enum { N = 64 };
	char *room = map(4 * N * PAGE);

	fill(room, N, 0);
	snapshot(room, N * PAGE, room + N * PAGE);
	snapshot(room, N * PAGE, room + 2 * N * PAGE);
	snapshot(room + N * PAGE, 2 * N * PAGE, mmap(NULL, 2 * N * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	fill(room, N, 50);
	fill(room + 2 * N * PAGE, N, 60);
	expect(room + N * PAGE, N, 0);
	/* Halves of one range, snapshotted one after the other, side by side, and then refreshed as one. */
	char *copy = map(2 * N * PAGE), *source = map(2 * N * PAGE);
	fill(source, 2 * N, 7);
	snapshot(source, N * PAGE, copy);
	snapshot(source + N * PAGE, N * PAGE, copy + N * PAGE);
	expect(copy, 2 * N, 7);
	fill(source, 2 * N, 8);
	expect(copy, 2 * N, 7);
	snapshot(source, 2 * N * PAGE, copy);
	expect(copy, 2 * N, 8);
}

const struct test range_tests[] = {
	{ "ranges: parts of an area", sub_ranges },
	{ "ranges: both sides in one page table", one_page_table },
	{ "ranges: several areas", several_areas },
	{ "ranges: the place is congruent modulo 2 MB", place_is_free_and_congruent },
	{ "ranges: neighbours", neighbours },
	{ NULL, NULL },
};
