// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a device and broken memory, where the kernel has them (./run kernel test --hostile). The device is the one that
 * the kernel's own tests use, lib/test_hmm.c: it has no hardware.
 */
#include "harness.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define PAGES 64UL

/* As in lib/test_hmm_uapi.h. */
struct command {
	uint64_t addr, ptr, npages, cpages, faults;
};
#define TO_DEVICE _IOWR('H', 0x02, struct command)
#define EXCLUSIVE _IOWR('H', 0x05, struct command)

/* The device mirrors the address space of the process that opens it. -1 where there is none. */
static int open_device(void)
{
	FILE *file = fopen("/proc/devices", "r");
	char line[128], name[128];
	unsigned int major = 0, number;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%u %127s", &number, name) == 2 && !strcmp(name, "HMM_DMIRROR"))
			major = number;
	if (file)
		fclose(file);
	if (!major) {
		printf("  no memory of a device here\n");
		return -1;
	}
	CHECK(!mknod("/tmp/mirror", S_IFCHR | 0600, makedev(major, 0)) || errno == EEXIST, "mknod");
	int device = open("/tmp/mirror", O_RDWR);
	CHECK(device >= 0, "/tmp/mirror");
	return device;
}

static void command(int device, unsigned long what, char *area, size_t pages)
{
	char *buffer = map(pages * PAGE);
	struct command command = { .addr = (uintptr_t)area, .ptr = (uintptr_t)buffer, .npages = pages };
	int error;

	while ((error = ioctl(device, what, &command)) && errno == EBUSY)
		;
	CHECK(!error && command.cpages == pages, "ioctl, %lu pages", (unsigned long)command.cpages);
	munmap(buffer, pages * PAGE);
	for (size_t page = 0; page < pages; page++)
		CHECK(!frame(area + page * PAGE), "page %zu is not the device's", page);
}

/* A destination whose pages are the device's: refresh gives them back, and counts them. */
static void of_the_destination(void)
{
	char *source, *copy;
	int device = open_device();

	if (device < 0)
		return;
	source = map(PAGES * PAGE);
	fill(source, PAGES, 1);
	for (int exclusive = 0; exclusive < 2; exclusive++) {
		copy = snapshot(source, PAGES * PAGE, NULL);
		fill(copy, PAGES, 2);
		long resident = field("/proc/self/status", "RssAnon");
		command(device, exclusive ? EXCLUSIVE : TO_DEVICE, copy, PAGES);
		snapshot(source, PAGES * PAGE, copy);
		CHECK(field("/proc/self/status", "RssAnon") <= resident + 64, "RssAnon");
		expect(copy, PAGES, 1);
		fill(copy, PAGES, 3);
		expect(source, PAGES, 1);
		CHECK(!munmap(copy, PAGES * PAGE), "munmap");
	}
	close(device);
}

/* A source whose pages are the device's: shared as fork shares them, and taken back from exclusive use. */
static void of_the_source(void)
{
	char *source, *copy = NULL;
	int device = open_device();

	if (device < 0)
		return;
	source = map(PAGES * PAGE);
	for (uint64_t round = 0; round < 6; round++) {
		fill(source, PAGES, 10 * round);
		command(device, round % 2 ? EXCLUSIVE : TO_DEVICE, source, PAGES);
		copy = snapshot(source, PAGES * PAGE, round < 4 ? NULL : copy);
		if (!(round % 2))
			CHECK(!frame(copy) && !frame(source), "the device's memory was left");
		*cell(source, 3) = 99;
		expect(copy, PAGES, 10 * round);
		fill(copy, PAGES, 5);
		CHECK(*cell(source, 3) == 99 && *cell(source, 4) == 10 * round + 4, "not apart");
	}
	/* Pages that both sides share go to the device together. */
	fill(source, PAGES, 7);
	copy = snapshot(source, PAGES * PAGE, copy);
	command(device, TO_DEVICE, copy, PAGES);
	fill(source, PAGES, 8);
	expect(copy, PAGES, 7);
	expect(source, PAGES, 8);
	close(device);
}

static sigjmp_buf back;

static void on_bus_error(int number)
{
	siglongjmp(back, number);
}

static bool is_broken(volatile char *address)
{
	if (sigsetjmp(back, 1))
		return true;
	(void)*address;
	return false;
}

/* A broken page is broken on both sides, and no other is. */
static void broken(void)
{
	struct sigaction action = { .sa_handler = on_bus_error };
	char *source = map(PAGES * PAGE), *before, *after;

	fill(source, PAGES, 1);
	before = snapshot(source, PAGES * PAGE, NULL);
	CHECK(!sigaction(SIGBUS, &action, NULL), "sigaction");
	if (madvise(source + 5 * PAGE, PAGE, 100 /* MADV_HWPOISON */)) {
		printf("  no broken memory here\n");
		return;
	}
	after = snapshot(source, PAGES * PAGE, NULL);
	for (size_t page = 0; page < PAGES; page++) {
		char *const places[] = { source, before, after };
		for (int i = 0; i < 3; i++) {
			CHECK(is_broken((char *)cell(places[i], page)) == (page == 5), "page %zu of %d", page, i);
			CHECK(page == 5 || *cell(places[i], page) == 1 + page, "page %zu of %d", page, i);
		}
	}
	/* What is given back is whole again, and so is the snapshot then. */
	CHECK(!madvise(source + 5 * PAGE, PAGE, MADV_DONTNEED), "madvise");
	*cell(source, 5) = 6;
	snapshot(source, PAGES * PAGE, before);
	expect(before, PAGES, 1);
}

const struct test device_tests[] = {
	{ "devices: pages of the destination", of_the_destination },
	{ "devices: pages of the source", of_the_source },
	{ "devices: a broken page", broken },
	{ NULL, NULL },
};
