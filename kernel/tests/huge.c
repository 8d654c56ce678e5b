// SPDX-License-Identifier: GPL-2.0
/* 2 MB pages: one entry where source and snapshot are congruent, 4 KB entries where they are not. */
#include "harness.h"

#define PAGES (4 * 512UL)

/* An aligned area of four huge pages, with room around it. */
static char *map_huge(void)
{
	char *room = map(6 * HUGE), *area = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);

	CHECK(!madvise(area, PAGES * PAGE, MADV_HUGEPAGE), "madvise");
	fill(area, PAGES, 0);
	CHECK(area_field(area, "AnonHugePages") == 8192, "the source is not in huge pages: %ld kB",
	      area_field(area, "AnonHugePages"));
	return area;
}

static void one_entry(void)
{
	char *source = map_huge(), *copy = snapshot(source, PAGES * PAGE, NULL);

	CHECK(area_field(copy, "AnonHugePages") == 8192, "the snapshot is not in huge pages");
	CHECK(area_field(source, "AnonHugePages") == 8192, "the source was split");
	expect(copy, PAGES, 0);
	CHECK(frame(source) == frame(copy), "not shared");
	*cell(source, 5) = 55;
	*cell(copy, 515) = 66;
	CHECK(*cell(copy, 5) == 5 && *cell(source, 515) == 515, "not apart");
	for (size_t page = 6; page < 512; page++)
		CHECK(*cell(copy, page) == page && *cell(source, page) == page, "page %zu", page);
	fill(source, PAGES, 100);
	expect(source, PAGES, 100);
	CHECK(*cell(copy, 515) == 66 && *cell(copy, 516) == 516, "copy");
	CHECK(!munmap(source, PAGES * PAGE), "munmap");
	CHECK(*cell(copy, 2047) == 2047, "copy");
}

/* Snapshots of snapshots, let go in both orders. */
static void chains(void)
{
	for (int order = 0; order < 2; order++) {
		char *links[20];

		links[0] = map_huge();
		for (int i = 1; i < 20; i++) {
			links[i] = snapshot(links[i - 1], PAGES * PAGE, NULL);
			if (i % 3 == 0)
				*cell(links[i], i * 100) = 1;
		}
		for (int i = 0; i < 20; i++) {
			int at = order ? 19 - i : i;
			CHECK(*cell(links[at], 7) == 7 && *cell(links[at], 2000) == 2000, "link %d", at);
			if (at % 3 == 0 && at)
				CHECK(*cell(links[at], at * 100) == 1, "link %d", at);
			CHECK(!munmap(links[at], PAGES * PAGE), "munmap");
		}
	}
}

/* A destination that is not congruent: the source is split, nothing else changes. */
static void misaligned(void)
{
	char *source = map_huge(), *room = map(PAGES * PAGE + HUGE);
	char *copy = (char *)((uintptr_t)room / HUGE * HUGE + HUGE + 17 * PAGE);

	copy = snapshot(source, (PAGES - 600) * PAGE, copy);
	expect(copy, PAGES - 600, 0);
	fill(source, PAGES, 9);
	expect(copy, PAGES - 600, 0);
	snapshot(source, (PAGES - 600) * PAGE, copy);
	expect(copy, PAGES - 600, 9);
	fill(copy, PAGES - 600, 3);
	expect(source, PAGES, 9);
}

/* A part that begins and ends inside huge pages: whole ones in between stay whole. */
static void parts(void)
{
	char *source = map_huge(), *copy = snapshot(source + 100 * PAGE, (PAGES - 200) * PAGE, NULL);

	CHECK(area_field(copy, "AnonHugePages") == 4096, "%ld kB are huge", area_field(copy, "AnonHugePages"));
	for (size_t page = 100; page < PAGES - 100; page++)
		CHECK(*(uint64_t *)((char *)cell(source, page) - source + copy - 100 * PAGE) == page, "page %zu", page);
	fill(source, PAGES, 50);
	CHECK(*(uint64_t *)((char *)cell(source, 300) - source + copy - 100 * PAGE) == 300, "not apart");
}

/* Refresh with all pairs of whole and split on both sides. */
static void refresh(void)
{
	char *source = map_huge(), *copy = snapshot(source, PAGES * PAGE, NULL);

	snapshot(source, PAGES * PAGE, copy);
	CHECK(area_field(copy, "AnonHugePages") == 8192, "nothing changed, yet it was split");
	*cell(source, 5) = 500; /* the source's first is split */
	snapshot(source, PAGES * PAGE, copy);
	CHECK(area_field(copy, "AnonHugePages") == 6144, "%ld kB are huge", area_field(copy, "AnonHugePages"));
	CHECK(*cell(copy, 5) == 500 && *cell(copy, 6) == 6 && *cell(copy, 1000) == 1000, "contents");
	*cell(copy, 600) = 1; /* the snapshot's second is split, the source's not */
	snapshot(source, PAGES * PAGE, copy);
	CHECK(*cell(copy, 600) == 600 && *cell(copy, 601) == 601, "contents");
	fill(source, PAGES, 5);
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 5);
	/* A new huge page on the source's side over a huge page of the snapshot's. */
	char *fresh = map_huge(), *old = snapshot(fresh, PAGES * PAGE, NULL);
	CHECK(!madvise(fresh, 2 * HUGE, MADV_DONTNEED), "madvise");
	fill(fresh, PAGES, 8);
	snapshot(fresh, PAGES * PAGE, old);
	expect(old, PAGES, 8);
	CHECK(area_field(old, "AnonHugePages") >= 4096, "%ld kB are huge", area_field(old, "AnonHugePages"));
	fill(fresh, PAGES, 9);
	expect(old, PAGES, 8);
}

/* The source is collapsed into new huge pages after it was split: refresh follows. */
static void collapsed_again(void)
{
	char *source = map_huge(), *copy = snapshot(source, PAGES * PAGE, NULL);

	fill(source, PAGES, 7);
	snapshot(source, PAGES * PAGE, copy);
	/* A range of which nothing can be written to is not collapsed. */
	for (size_t page = 0; page < PAGES; page += 512)
		*cell(source, page) = 7 + page;
	CHECK(!madvise(source, PAGES * PAGE, 25 /* MADV_COLLAPSE */), "collapse");
	CHECK(area_field(source, "AnonHugePages") == 8192, "not collapsed");
	expect(copy, PAGES, 7);
	fill(source, PAGES, 8);
	expect(copy, PAGES, 7);
	fill(source, PAGES, 9);
	CHECK(!madvise(source, PAGES * PAGE, 25), "collapse");
	/* Huge on one side, 4 KB on the other: the snapshot's page tables give way. */
	long tables = field("/proc/self/status", "VmPTE");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(area_field(copy, "AnonHugePages") == 8192 && area_field(source, "AnonHugePages") == 8192,
	      "%ld kB of the snapshot are huge", area_field(copy, "AnonHugePages"));
	CHECK(field("/proc/self/status", "VmPTE") == tables, "page tables are miscounted");
	expect(copy, PAGES, 9);
	fill(source, PAGES, 8);
	expect(copy, PAGES, 9);
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 8);
	fill(source, PAGES, 9);
	expect(copy, PAGES, 8);
	fill(copy, PAGES, 8);
	CHECK(!madvise(copy, PAGES * PAGE, 25), "collapse of the snapshot");
	expect(copy, PAGES, 8);
	expect(source, PAGES, 9);
}

/* The huge page of zeros. */
static void zeros(void)
{
	char *room = map(6 * HUGE), *source = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE), *copy;
	volatile uint64_t sum = 0;

	CHECK(!madvise(source, 4 * HUGE, MADV_HUGEPAGE), "madvise");
	for (size_t page = 0; page < PAGES; page++)
		sum += *cell(source, page);
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(!*cell(copy, page), "not zero");
	fill(source, PAGES, 4);
	CHECK(!*cell(copy, 3), "not apart");
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 4);
}

static void forked(void)
{
	char *source = map_huge(), *copy = snapshot(source, PAGES * PAGE, NULL);
	int status;
	pid_t child = fork();

	if (!child) {
		fill(source, PAGES, 3);
		snapshot(source, PAGES * PAGE, copy);
		expect(copy, PAGES, 3);
		_exit(0);
	}
	fill(copy, PAGES, 4);
	CHECK(waitpid(child, &status, 0) == child && !status, "child");
	expect(source, PAGES, 0);
	expect(copy, PAGES, 4);
}

const struct test huge_tests[] = {
	{ "huge pages: one entry", one_entry },
	{ "huge pages: chains", chains },
	{ "huge pages: not congruent", misaligned },
	{ "huge pages: parts", parts },
	{ "huge pages: refresh", refresh },
	{ "huge pages: collapsed again", collapsed_again },
	{ "huge pages of zeros", zeros },
	{ "huge pages: fork", forked },
	{ NULL, NULL },
};
