// SPDX-License-Identifier: GPL-2.0
/* What the kernel notes about pages: KSM's pages of zeros, soft-dirty bits, pages that may be freed, areas of one offset. */
#include "harness.h"
#include <time.h>

#define PAGES 600UL

static long number(const char *path)
{
	FILE *file = fopen(path, "r");
	long value = -1;

	CHECK(file && fscanf(file, "%ld", &value) == 1, "%s", path);
	fclose(file);
	return value;
}

/* Pages that KSM has replaced by the page of zeros are counted, until they are written to or unmapped: once each. */
static void zeros_of_ksm(void)
{
	const char *const counter = "/sys/kernel/mm/ksm/ksm_zero_pages";
	char *source = map(PAGES * PAGE), *copy;
	long before = number(counter);

	write_file("/sys/kernel/mm/ksm/use_zero_pages", "1");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "10");
	CHECK(!madvise(source, PAGES * PAGE, MADV_MERGEABLE), "madvise");
	memset(source, 0, PAGES * PAGE);
	write_file("/sys/kernel/mm/ksm/run", "1");
	scan_twice();
	write_file("/sys/kernel/mm/ksm/run", "0");
	CHECK(number(counter) == before + (long)PAGES, "%ld", number(counter));
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(number(counter) == before + (long)PAGES, "a snapshot's pages are counted: %ld", number(counter));
	for (size_t page = 0; page < PAGES; page += 2)
		*cell(copy, page) = 1;
	CHECK(number(counter) == before + (long)PAGES, "%ld", number(counter));
	CHECK(!munmap(copy, PAGES * PAGE), "munmap");
	CHECK(number(counter) == before + (long)PAGES, "counted off, but not on: %ld", number(counter));
	/* As a destination: each that is replaced is counted off. */
	copy = map(PAGES * PAGE);
	fill(copy, PAGES, 3);
	char *older = snapshot(copy, PAGES * PAGE, NULL);
	CHECK(!madvise(older, PAGES * PAGE, MADV_MERGEABLE) && !madvise(copy, PAGES * PAGE, MADV_MERGEABLE), "madvise");
	memset(older, 0, PAGES * PAGE);
	write_file("/sys/kernel/mm/ksm/run", "1");
	scan_twice();
	write_file("/sys/kernel/mm/ksm/run", "0");
	CHECK(number(counter) == before + 2 * (long)PAGES, "%ld", number(counter));
	snapshot(copy, PAGES * PAGE, older);
	expect(older, PAGES, 3);
	CHECK(number(counter) == before + (long)PAGES, "%ld", number(counter));
	CHECK(!munmap(source, PAGES * PAGE), "munmap");
	CHECK(number(counter) == before, "%ld", number(counter));
	write_file("/sys/kernel/mm/ksm/use_zero_pages", "0");
}

static bool soft_dirty(void *address)
{
	uint64_t entry = 0;
	int file = open("/proc/self/pagemap", O_RDONLY);

	CHECK(file >= 0 && pread(file, &entry, 8, (uintptr_t)address / PAGE * 8) == 8, "pagemap");
	close(file);
	return entry >> 55 & 1;
}

static size_t count_soft_dirty(char *area, size_t pages)
{
	size_t count = 0;

	for (size_t page = 0; page < pages; page++)
		count += soft_dirty(area + page * PAGE);
	return count;
}

/* For a program that saves only what has changed since the last time, as CRIU does: a snapshot is new, and so is what a refresh replaces. */
static void soft_dirty_bits(void)
{
	char *source = map(PAGES * PAGE), *copy, *second;

	fill(source, PAGES, 1);
	copy = snapshot(source, PAGES * PAGE, NULL);
	write_file("/proc/self/clear_refs", "4");
	CHECK(count_soft_dirty(source, PAGES) == 0 && count_soft_dirty(copy, PAGES) == 0, "not cleared");
	second = snapshot(source, PAGES * PAGE, NULL);
	CHECK(count_soft_dirty(second, PAGES) == PAGES, "%zu pages of a new area are new", count_soft_dirty(second, PAGES));
	CHECK(count_soft_dirty(source, PAGES) == 0, "the source has changed");
	for (size_t page = 0; page < PAGES; page += 10)
		*cell(source, page) += 1;
	write_file("/proc/self/clear_refs", "4");
	snapshot(source, PAGES * PAGE, copy);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(soft_dirty(copy + page * PAGE) == (page % 10 == 0), "page %zu", page);
	CHECK(count_soft_dirty(source, PAGES) == 0, "the source has changed");
	/* Huge pages. */
	char *room = map(4 * HUGE), *huge = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);
	CHECK(!madvise(huge, 2 * HUGE, MADV_HUGEPAGE), "madvise");
	fill(huge, 1024, 1);
	copy = snapshot(huge, 2 * HUGE, NULL);
	CHECK(!madvise(huge, HUGE, MADV_DONTNEED), "madvise");
	fill(huge, 512, 2);
	write_file("/proc/self/clear_refs", "4");
	snapshot(huge, 2 * HUGE, copy);
	CHECK(count_soft_dirty(copy, 512) == 512 && count_soft_dirty(copy + HUGE, 512) == 0, "%zu and %zu pages",
	      count_soft_dirty(copy, 512), count_soft_dirty(copy + HUGE, 512));
}

/* Out in swap space, a replaced page is a changed one, too. */
static void soft_dirty_bits_of_swap(void)
{
	char *source = map(PAGES * PAGE), *copy;

	swap_on();
	fill(source, PAGES, 1);
	copy = snapshot(source, PAGES * PAGE, NULL);
	fill(source, PAGES, 2);
	write_file("/proc/self/clear_refs", "4");
	for (int i = 0; i < 50 && area_field(source, "Swap") < (long)PAGES * 2; i++)
		reclaim_some();
	CHECK(area_field(source, "Swap") > 0, "not out");
	CHECK(count_soft_dirty(copy, PAGES) == 0, "not cleared");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(area_field(copy, "Swap") > 0, "entries were not duplicated");
	CHECK(count_soft_dirty(copy, PAGES) == PAGES, "%zu pages", count_soft_dirty(copy, PAGES));
	expect(copy, PAGES, 2);
	swap_off();
}

/* MADV_FREE: such a page may become zeros until it is written to again; then it is a page as any other, in the snapshot, too. */
static void freed_lazily(void)
{
	char *source = map(PAGES * PAGE), *copy;
	size_t zeros = 0;

	swap_on();
	fill(source, PAGES, 1);
	CHECK(!madvise(source, PAGES * PAGE, MADV_FREE), "madvise");
	for (size_t page = 0; page < PAGES; page += 2)
		*cell(source, page) = 5000 + page;
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (int i = 0; i < 10; i++)
		reclaim_some();
	for (size_t page = 0; page < PAGES; page++) {
		uint64_t mine = *cell(source, page), its = *cell(copy, page);
		if (page % 2) {
			CHECK((!mine || mine == 1 + page) && (!its || its == 1 + page), "page %zu: %lu, %lu", page,
			      (unsigned long)mine, (unsigned long)its);
			zeros += !its;
		} else {
			CHECK(mine == 5000 + page && its == 5000 + page, "page %zu: %lu, %lu", page, (unsigned long)mine,
			      (unsigned long)its);
		}
	}
	CHECK(zeros, "no page was freed");
	snapshot(source, PAGES * PAGE, copy);
	for (size_t page = 0; page < PAGES; page += 2)
		CHECK(*cell(copy, page) == 5000 + page, "page %zu", page);
	swap_off();
}

/* A part of a snapshot is moved away, and so is a part of the source. */
static void moved_in_part(void)
{
	char *source = map(PAGES * PAGE), *copy, *place = map(PAGES * PAGE), *taken;

	fill(source, PAGES, 1);
	copy = snapshot(source, PAGES * PAGE, NULL);
	taken = mremap(copy + 64 * PAGE, 128 * PAGE, 128 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 64 * PAGE);
	CHECK(taken == place + 64 * PAGE, "mremap");
	fill(source, PAGES, 2);
	for (size_t page = 64; page < 192; page++)
		CHECK(*cell(place, page) == 1 + page, "page %zu", page);
	/* What is left, in two pieces, is refreshed; the hole is refused. */
	REFUSED(EFAULT, source, PAGES * PAGE, copy);
	snapshot(source, 64 * PAGE, copy);
	snapshot(source + 192 * PAGE, (PAGES - 192) * PAGE, copy + 192 * PAGE);
	/* The piece that was moved is still a snapshot of its part. */
	long resident = area_field(taken, "Referenced");
	CHECK(resident >= 0, "no area");
	snapshot(source + 64 * PAGE, 128 * PAGE, taken);
	for (size_t page = 0; page < PAGES; page++) {
		char *area = page >= 64 && page < 192 ? place : copy;
		CHECK(*cell(area, page) == 2 + page, "page %zu", page);
		CHECK(frame(cell(area, page)) == frame(cell(source, page)), "page %zu is not shared", page);
	}
	CHECK(mremap(source, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place, "mremap");
	fill(place, 64, 3);
	expect(copy, 64, 2);
	snapshot(place, 64 * PAGE, copy);
	expect(copy, 64, 3);
}

const struct test count_tests[] = {
	{ "counts: pages of zeros of KSM", zeros_of_ksm },
	{ "counts: soft-dirty bits", soft_dirty_bits },
	{ "counts: soft-dirty bits of swapped pages", soft_dirty_bits_of_swap },
	{ "counts: pages freed lazily", freed_lazily },
	{ "counts: parts moved away", moved_in_part },
	{ NULL, NULL },
};
