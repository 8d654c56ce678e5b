// SPDX-License-Identifier: GPL-2.0
/* An area used again: as the place of another snapshot, and refreshed where it is an older one of the same source. */
#include "harness.h"

#define PAGES 2100UL

static void reuse(void)
{
	char *first = map(PAGES * PAGE), *second = map(PAGES * PAGE), *copy = map(PAGES * PAGE);

	fill(first, PAGES, 1);
	fill(second, PAGES, 2);
	fill(copy, PAGES, 3);
	for (int round = 0; round < 6; round++) {
		char *source = round % 2 ? first : second;
		fill(source, PAGES, 10 * round);
		snapshot(source, PAGES * PAGE, copy);
		fill(source, PAGES, 1);
		expect(copy, PAGES, 10 * round);
	}
	CHECK(!munmap(copy, PAGES * PAGE), "munmap");
}

/* After writes to either side a refreshed snapshot equals the source, and older snapshots keep what they hold. */
static void correct_after_any_writes(void)
{
	char *source = map(PAGES * PAGE), *copy, *old;

	fill(source, PAGES, 0);
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (uint64_t round = 1; round < 30; round++) {
		old = snapshot(source, PAGES * PAGE, NULL);
		for (size_t page = round % 5; page < PAGES; page += round)
			*cell(source, page) = page + 1000 * round;
		for (size_t page = 0; page < PAGES; page += 3 + round)
			*cell(copy, page) = 7;
		uint64_t *model = malloc(PAGES * 8);
		for (size_t page = 0; page < PAGES; page++)
			model[page] = *cell(source, page);
		snapshot(source, PAGES * PAGE, copy);
		for (size_t page = 0; page < PAGES; page++) {
			CHECK(*cell(copy, page) == model[page], "round %lu, page %zu", round, page);
			CHECK(frame(cell(copy, page)) == frame(cell(source, page)), "page %zu is not shared", page);
		}
		for (size_t page = 0; page < PAGES; page += 11) {
			*cell(source, page) += 1;
			CHECK(*cell(copy, page) == model[page], "not apart");
			*cell(source, page) -= 1;
		}
		free(model);
		CHECK(!munmap(old, PAGES * PAGE), "munmap");
	}
}

/*
 * Only entries that differ are touched: a copied entry counts as not yet referenced, so the references that are left after
 * a refresh count the entries that it left alone.
 */
static void touches_only_what_differs(void)
{
	char *source = map(PAGES * PAGE), *copy;
	volatile uint64_t sum = 0;

	fill(source, PAGES, 0);
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (size_t changed = 0; changed <= PAGES; changed = changed * 4 + 1) {
		for (size_t page = 0; page < PAGES; page++)
			sum += *cell(copy, page);
		CHECK(area_field(copy, "Referenced") == (long)PAGES * 4, "not all are referenced");
		for (size_t page = 0; page < changed; page++)
			*cell(source, page) += 1;
		snapshot(source, PAGES * PAGE, copy);
		long left = area_field(copy, "Referenced") / 4;
		CHECK(left == (long)(PAGES - changed), "%zu pages differed, %ld were left alone", changed, left);
	}
}

/* Pages that the source gave back are given back by the snapshot, too. */
static void emptied_pages(void)
{
	char *source = map(PAGES * PAGE), *copy;

	fill(source, PAGES, 1);
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(!madvise(source + 100 * PAGE, 1500 * PAGE, MADV_DONTNEED), "madvise");
	CHECK(*cell(copy, 200) == 201, "the snapshot lost a page");
	long before = area_field(copy, "Rss");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(area_field(copy, "Rss") == before - 1500 * 4, "Rss");
	CHECK(!*cell(copy, 200) && *cell(copy, 1) == 2 && *cell(copy, 1700) == 1701, "contents");
	CHECK(!munmap(source, PAGES * PAGE), "munmap");
	CHECK(*cell(copy, 1) == 2, "the snapshot lives on");
}

/* A snapshot whose protection was changed is no longer equal: it becomes what a new one would be. */
static void changed_protection(void)
{
	char *source = map(PAGES * PAGE), *copy;

	fill(source, PAGES, 1);
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(!mprotect(copy, PAGES * PAGE, PROT_READ), "mprotect");
	fill(source, PAGES, 2);
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 2);
	*cell(copy, 5) = 6;
	CHECK(!mprotect(source, PAGES * PAGE, PROT_READ), "mprotect");
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 2);
	CHECK(!mprotect(copy, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	fill(copy, PAGES, 3);
	expect(source, PAGES, 2);
}

const struct test refresh_tests[] = {
	{ "refresh: a place used again for other sources", reuse },
	{ "refresh is correct after writes to either side", correct_after_any_writes },
	{ "refresh touches only pages that differ", touches_only_what_differs },
	{ "refresh gives back what the source gave back", emptied_pages },
	{ "refresh after a change of protection", changed_protection },
	{ NULL, NULL },
};
