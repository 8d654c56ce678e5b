// SPDX-License-Identifier: GPL-2.0
/* Snapshots and their sources never see each other's writes, however many there are and however they go. */
#include "harness.h"

#define PAGES 1200UL /* more than two page tables */

static void both_ways(void)
{
	char *source = map(PAGES * PAGE), *copy;

	fill(source, PAGES, 1000);
	copy = snapshot(source, PAGES * PAGE, NULL);
	expect(copy, PAGES, 1000);
	CHECK(frame(source) == frame(copy), "the first page is not shared");
	fill(source, PAGES / 2, 5000);
	expect(copy, PAGES, 1000);
	fill(copy, PAGES, 9000);
	expect(source, PAGES / 2, 5000);
	for (size_t page = PAGES / 2; page < PAGES; page++)
		CHECK(*cell(source, page) == 1000 + page, "the source saw a write to its snapshot");
	expect(copy, PAGES, 9000);
}

/* Pages that were never touched, or only read, are zeros on both sides, and stay apart. */
static void untouched_pages(void)
{
	char *source = map(PAGES * PAGE), *copy, *second;

	copy = snapshot(source, PAGES * PAGE, NULL);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(!*cell(source, page) && !*cell(copy, page), "not zero");
	second = snapshot(source, PAGES * PAGE, NULL);
	fill(source, PAGES, 1);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(!*cell(copy, page) && !*cell(second, page), "page %zu of a snapshot changed", page);
	fill(copy, PAGES, 2);
	expect(source, PAGES, 1);
	CHECK(!*cell(second, 7), "page 7 of the second snapshot changed");
}

/* Snapshot of a snapshot of a snapshot ... */
static void chain_of_40(void)
{
	enum { LINKS = 40 };
	char *links[LINKS];

	links[0] = map(PAGES * PAGE);
	fill(links[0], PAGES, 0);
	for (int i = 1; i < LINKS; i++) {
		links[i] = snapshot(links[i - 1], PAGES * PAGE, NULL);
		*cell(links[i], i) = 77;
	}
	for (int i = 0; i < LINKS; i++)
		for (size_t page = 0; page < PAGES; page++)
			CHECK(*cell(links[i], page) == (page && page <= (size_t)i ? 77 : page),
			      "link %d, page %zu", i, page);
	for (int i = 0; i < LINKS; i += 2)
		CHECK(!munmap(links[i], PAGES * PAGE), "munmap");
	for (int i = 1; i < LINKS; i += 2)
		CHECK(*cell(links[i], i) == 77 && *cell(links[i], i + 1) == (size_t)i + 1, "link %d", i);
}

/* 64 alive at once; after each the source changes all of its pages, or a few, or none. */
static void sixty_four_alive(void)
{
	enum { COPIES = 64, N = 600 };
	char *source = map(N * PAGE), *copies[COPIES];

	fill(source, N, 0);
	for (int i = 0; i < COPIES; i++) {
		copies[i] = snapshot(source, N * PAGE, NULL);
		for (size_t page = i % 3; page < N && i % 4; page += i % 4 == 1 ? 1 : 97)
			*cell(source, page) += 1000;
	}
	uint64_t *model = calloc(N, 8);
	for (int i = 0; i < COPIES; i++) {
		for (size_t page = 0; page < N; page++)
			CHECK(*cell(copies[i], page) == model[page] + page, "copy %d, page %zu", i, page);
		for (size_t page = i % 3; page < N && i % 4; page += i % 4 == 1 ? 1 : 97)
			model[page] += 1000;
	}
}

/* Ten snapshots with changes, let go in ten orders: memory is back where it was, to the page in this process. */
static void any_order_of_unmapping(void)
{
	enum { COPIES = 10, N = 2000 };
	long pages, size, free_before, free_after;

	for (int order = 0; order < 10; order++) {
		char *copies[COPIES + 1];

		pages = field("/proc/self/status", "RssAnon");
		size = field("/proc/self/status", "VmSize");
		free_before = settled_free();
		copies[COPIES] = map(N * PAGE);
		fill(copies[COPIES], N, 0);
		for (int i = 0; i < COPIES; i++) {
			copies[i] = snapshot(copies[COPIES], N * PAGE, NULL);
			for (size_t page = i; page < N; page += 1 + i)
				*cell(copies[page % 2 ? i : COPIES], page) += 5;
		}
		for (int i = 0; i <= COPIES; i++) {
			int at = (i * (order + 1) + order) % (COPIES + 1);
			CHECK(copies[at] && !munmap(copies[at], N * PAGE), "munmap");
			copies[at] = NULL;
		}
		CHECK(field("/proc/self/status", "VmSize") == size, "VmSize");
		long left = field("/proc/self/status", "RssAnon") - pages;
		CHECK(left < 400 && left > -400, "%ld kB are left", left);
		free_after = settled_free();
		CHECK(free_before - free_after < 2000, "%ld kB are lost", free_before - free_after);
	}
}

/* Many rounds of taking and dropping do not lose memory: what a round would lose is multiplied. */
static void no_leak_in_500_rounds(void)
{
	enum { N = 300 };
	char *source = map(N * PAGE);
	long before;

	fill(source, N, 0);
	before = settled_free();
	for (int round = 0; round < 500; round++) {
		char *copy = snapshot(source, N * PAGE, NULL);
		*cell(source, round % N) = 1;
		*cell(copy, (round + 5) % N) = 2;
		CHECK(!munmap(copy, N * PAGE), "munmap");
	}
	long lost = before - settled_free();
	CHECK(lost < 1500, "%ld kB are lost", lost);
}

/* A child inherits snapshots, takes its own, and parent and child see neither the other's. */
static void fork_with_snapshots(void)
{
	char *source = map(PAGES * PAGE), *copy, *second;
	int status;

	fill(source, PAGES, 0);
	copy = snapshot(source, PAGES * PAGE, NULL);
	*cell(source, 3) = 33;
	for (int round = 0; round < 5; round++) {
		pid_t child = fork();
		if (!child) {
			expect(copy, PAGES, 0);
			fill(source, PAGES, 500);
			expect(copy, PAGES, 0);
			/* The child's areas have reverse maps of their own: refresh must see that. */
			copy = snapshot(source, PAGES * PAGE, copy);
			fill(source, PAGES, 600);
			expect(copy, PAGES, 500);
			second = snapshot(copy, PAGES * PAGE, NULL);
			fill(copy, PAGES, 700);
			expect(second, PAGES, 500);
			pid_t grandchild = fork();
			if (!grandchild) {
				copy = snapshot(source, PAGES * PAGE, copy);
				expect(copy, PAGES, 600);
				second = snapshot(copy, PAGES * PAGE, second);
				expect(second, PAGES, 600);
				_exit(0);
			}
			CHECK(waitpid(grandchild, &status, 0) == grandchild && !status, "grandchild");
			_exit(0);
		}
		*cell(source, 4 + round) = 44;
		CHECK(waitpid(child, &status, 0) == child && !status, "child");
		expect(copy, PAGES, 0);
		CHECK(*cell(source, 3) == 33 && *cell(source, 4) == 44 && *cell(source, 100) == 100, "source");
	}
}

const struct test isolation_tests[] = {
	{ "isolation both ways", both_ways },
	{ "isolation of untouched pages", untouched_pages },
	{ "isolation in a chain of 40", chain_of_40 },
	{ "isolation of 64 alive at once", sixty_four_alive },
	{ "isolation: memory is back in any order of unmapping", any_order_of_unmapping },
	{ "isolation: no leak in 500 rounds", no_leak_in_500_rounds },
	{ "isolation: fork with snapshots", fork_with_snapshots },
	{ NULL, NULL },
};
