// SPDX-License-Identifier: GPL-2.0
/* Pages that are out in swap space: on a memory disk, made ready here. */
#include "harness.h"
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>

#define PAGES 800UL
#define DISK "/dev/ram0"

/*
 * A memory cgroup of our own: asked to reclaim, it sends out pages that are mapped several times, too, which madvise leaves
 * alone.
 */
static void enter_group(void)
{
	char pid[32];

	mkdir("/tmp/group", 0700);
	CHECK(!mount("none", "/tmp/group", "cgroup2", 0, NULL) || errno == EBUSY, "cgroup2");
	write_file("/tmp/group/cgroup.subtree_control", "+memory");
	mkdir("/tmp/group/swap", 0700);
	sprintf(pid, "%d", getpid());
	write_file("/tmp/group/swap/cgroup.procs", pid);
}

void swap_on(void)
{
	/* The header that mkswap writes: last page, version and signature. */
	uint32_t header[PAGE / 4] = { 0 };
	int disk = open(DISK, O_RDWR);
	off_t size;

	CHECK(disk >= 0, DISK);
	size = lseek(disk, 0, SEEK_END);
	header[256] = 1;
	header[257] = size / PAGE - 1;
	memcpy((char *)header + PAGE - 10, "SWAPSPACE2", 10);
	CHECK(pwrite(disk, header, PAGE, 0) == (ssize_t)PAGE && !fsync(disk), "header");
	close(disk);
	CHECK(!swapon(DISK, 0), "swapon");
	enter_group();
}

void reclaim_some(void)
{
	int reclaim = open("/tmp/group/swap/memory.reclaim", O_WRONLY);

	/* Fails if it cannot reach the whole amount. */
	CHECK(reclaim >= 0 && (write(reclaim, "4M", 2) == 2 || errno == EAGAIN), "reclaim");
	close(reclaim);
}

/* Sends out at least half of an area. */
static void out(char *area, size_t pages)
{
	for (int i = 0; i < 50 && area_field(area, "Swap") < (long)pages * 2; i++)
		reclaim_some();
	CHECK(area_field(area, "Swap") >= (long)pages * 2, "only %ld kB are out", area_field(area, "Swap"));
}

void swap_off(void)
{
	CHECK(!swapoff(DISK), "swapoff");
}

static void swapped_source(void)
{
	char *source = map(PAGES * PAGE), *copy, *second;

	swap_on();
	fill(source, PAGES, 10);
	out(source, PAGES);
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(area_field(copy, "Swap") >= (long)PAGES * 2, "entries were not duplicated");
	second = snapshot(copy, PAGES * PAGE, NULL);
	fill(source, PAGES, 20);
	expect(copy, PAGES, 10);
	fill(copy, PAGES, 30);
	expect(source, PAGES, 20);
	expect(second, PAGES, 10);
	munmap(source, PAGES * PAGE);
	munmap(copy, PAGES * PAGE);
	munmap(second, PAGES * PAGE);
	CHECK(field("/proc/self/status", "VmSwap") == 0, "VmSwap");
	swap_off();
}

/* Shared pages go out together, and come back on either side. */
static void shared_pages_go_out(void)
{
	char *source = map(PAGES * PAGE), *copy;

	swap_on();
	fill(source, PAGES, 10);
	copy = snapshot(source, PAGES * PAGE, NULL);
	for (int round = 0; round < 10; round++) {
		out(copy, PAGES);
		for (size_t page = 0; page < PAGES; page += 7)
			*cell(source, page) = page + 1000 + round;
		for (size_t page = 1; page < PAGES; page += 7)
			*cell(copy, page) = 1;
		uint64_t wanted = round ? 7 + 1000 + round - 1 : 7 + 10;
		CHECK(*cell(copy, 7) == wanted, "round %d: %lu", round, (unsigned long)*cell(copy, 7));
		out(source, PAGES / 4);
		snapshot(source, PAGES * PAGE, copy);
		for (size_t page = 0; page < PAGES; page++)
			CHECK(*cell(copy, page) == (page % 7 ? page + 10 : page + 1000 + round), "page %zu", page);
	}
	swap_off();
	for (size_t page = 0; page < PAGES; page++)
		CHECK(*cell(copy, page) == (page % 7 ? page + 10 : page + 1009), "page %zu", page);
}

/* More users of one swap entry than its small counter holds. */
static void many_users(void)
{
	enum { COPIES = 140, N = 40 };
	char *source = map(N * PAGE), *copies[COPIES];

	swap_on();
	fill(source, N, 10);
	out(source, N);
	for (int i = 0; i < COPIES; i++) {
		copies[i] = snapshot(source, N * PAGE, NULL);
		CHECK(area_field(source, "Swap") > 0, "came back");
	}
	fill(source, N, 20);
	for (int i = 0; i < COPIES; i++) {
		int at = i * 37 % COPIES;
		expect(copies[at], N, 10);
		CHECK(!munmap(copies[at], N * PAGE), "munmap");
	}
	expect(source, N, 20);
	swap_off();
}

const struct test swap_tests[] = {
	{ "swap: a source that is out", swapped_source },
	{ "swap: shared pages go out and come back", shared_pages_go_out },
	{ "swap: 140 users of one entry", many_users },
	{ NULL, NULL },
};
