// SPDX-License-Identifier: GPL-2.0
/* Private mappings of files: pages of the file, and pages that were written to. */
#include "harness.h"

#define PAGES 1100UL

static int make_file(void)
{
	int file = memfd_create("source", 0);
	char *all;

	CHECK(file >= 0 && !ftruncate(file, PAGES * PAGE), "file");
	all = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(all != MAP_FAILED, "mmap");
	fill(all, PAGES, 1000);
	munmap(all, PAGES * PAGE);
	return file;
}

static void private_file(void)
{
	int file = make_file();
	char *source = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), *copy, *second;
	volatile uint64_t sum = 0;

	CHECK(source != MAP_FAILED, "mmap");
	for (size_t page = 0; page < PAGES; page += 2)
		sum += *cell(source, page);
	for (size_t page = 0; page < PAGES; page += 3)
		*cell(source, page) = 5;
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(*cell(copy, page) == (page % 3 ? 1000 + page : 5), "page %zu", page);
	fill(source, PAGES, 1);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(*cell(copy, page) == (page % 3 ? 1000 + page : 5), "page %zu", page);
	second = snapshot(copy, PAGES * PAGE, NULL);
	fill(copy, PAGES, 2);
	CHECK(*cell(second, 3) == 5 && *cell(second, 4) == 1004, "second");
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 1);
	/* Back to the file's pages, on the source's side and then on the snapshot's. */
	CHECK(!madvise(source, PAGES * PAGE, MADV_DONTNEED), "madvise");
	snapshot(source, PAGES * PAGE, copy);
	expect(copy, PAGES, 1000);
	uint64_t value = 0;
	CHECK(pread(file, &value, 8, (char *)cell(copy, 9) - copy) == 8 && value == 1009, "the file was changed");
	close(file);
	expect(copy, PAGES, 1000);
}

/* Part of a file, at an offset, behind a snapshot at another offset. */
static void offsets(void)
{
	int file = make_file();
	char *source = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 64 * PAGE), *copy;

	CHECK(source != MAP_FAILED, "mmap");
	copy = snapshot(source + 10 * PAGE, 50 * PAGE, NULL);
	for (size_t page = 0; page < 50; page++)
		CHECK(*(uint64_t *)(copy + page * PAGE + (74 + page) * 64 % PAGE) == 1074 + page, "page %zu", page);
	/* A file that shrinks takes its pages with it, on both sides. */
	CHECK(!ftruncate(file, 80 * PAGE), "ftruncate");
	CHECK(*(uint64_t *)(copy + 74 * 64 % PAGE) == 1074, "page 74");
	int pipes[2];
	CHECK(!pipe(pipes) && write(pipes[1], copy + 20 * PAGE, 1) == -1 && errno == EFAULT, "past the file's end");
	snapshot(source + 10 * PAGE, 50 * PAGE, copy);
	CHECK(*(uint64_t *)(copy + 74 * 64 % PAGE) == 1074, "page 74");
}

/* Pages that the process has not written to are the file's on both sides, and show what is written to the file later. */
static void later_writes_to_the_file(void)
{
	int file = make_file();
	char *source = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0), *copy;
	uint64_t value = 7;
	volatile uint64_t sum = 0;

	CHECK(source != MAP_FAILED, "mmap");
	for (size_t page = 0; page < PAGES; page += 3)
		*cell(source, page) = 5;
	for (size_t page = 1; page < PAGES; page += 3)
		sum += *cell(source, page);
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(pwrite(file, &value, 8, (char *)cell(source, page) - source) == 8, "pwrite");
	for (size_t page = 0; page < PAGES; page++) {
		uint64_t wanted = page % 3 ? 7 : 5;
		CHECK(*cell(source, page) == wanted && *cell(copy, page) == wanted, "page %zu: %lu, %lu", page,
		      (unsigned long)*cell(source, page), (unsigned long)*cell(copy, page));
	}
	close(file);
}

/* The program's own data and constants are private mappings of a file, too. */
static char data[64 * PAGE] __attribute__((aligned(4096))) = { 1 };

static void own_data(void)
{
	char *copy;

	memset(data, 7, sizeof(data));
	copy = snapshot(data, sizeof(data), NULL);
	memset(data, 8, sizeof(data));
	for (size_t i = 0; i < sizeof(data); i += 512)
		CHECK(copy[i] == 7, "byte %zu", i);
}

const struct test file_tests[] = {
	{ "files: private mapping", private_file },
	{ "files: offsets", offsets },
	{ "files: later writes to the file", later_writes_to_the_file },
	{ "files: the program's own data", own_data },
	{ NULL, NULL },
};
