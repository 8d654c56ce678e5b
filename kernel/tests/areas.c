// SPDX-License-Identifier: GPL-2.0
/* Areas with properties: locked, merged, watched by userfaultfd, pinned, limited. */
#include "harness.h"
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#define PAGES 700UL

static void locked(void)
{
	char *source = map(PAGES * PAGE), *copy;

	CHECK(!mlock(source, PAGES * PAGE), "mlock");
	fill(source, PAGES, 1);
	long before = field("/proc/self/status", "VmLck");
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(field("/proc/self/status", "VmLck") == before, "the snapshot is locked, too");
	CHECK(area_field(source, "Locked") > 0, "the source is no longer locked");
	fill(source, PAGES, 2);
	expect(copy, PAGES, 1);
	CHECK(!mlock(copy, PAGES * PAGE), "mlock");
	CHECK(field("/proc/self/status", "VmLck") == 2 * before, "VmLck");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(field("/proc/self/status", "VmLck") == before, "a replaced area is still counted as locked");
	expect(copy, PAGES, 2);
	munmap(source, PAGES * PAGE);
	CHECK(field("/proc/self/status", "VmLck") == 0, "VmLck");
	expect(copy, PAGES, 2);
}

void scan_twice(void)
{
	long until = 0;
	FILE *file;

	for (int i = 0; i < 400; i++) {
		long scans = -1;
		file = fopen("/sys/kernel/mm/ksm/full_scans", "r");
		CHECK(file && fscanf(file, "%ld", &scans) == 1, "full_scans");
		fclose(file);
		until = until ? until : scans + 3;
		if (scans >= until)
			return;
		usleep(50 * 1000);
	}
	CHECK(false, "no scan in time");
}

/* Merged pages: the snapshot gets its own; pages that are merged afterwards stay apart. */
static void merged(void)
{
	char *source = map(PAGES * PAGE), *copy;

	write_file("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "10");
	CHECK(!madvise(source, PAGES * PAGE, MADV_MERGEABLE), "madvise");
	memset(source, 5, PAGES * PAGE);
	write_file("/sys/kernel/mm/ksm/run", "1");
	scan_twice();
	CHECK(frame(source + PAGE) == frame(source + 2 * PAGE), "not merged");
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(frame(copy + PAGE) != frame(source + PAGE), "a merged page is shared with the snapshot");
	write_file("/sys/kernel/mm/ksm/run", "0");
	uint64_t kept = frame(copy + PAGE);
	snapshot(source, PAGES * PAGE, copy);
	CHECK(frame(copy + PAGE) == kept, "a merged page was copied again");
	write_file("/sys/kernel/mm/ksm/run", "1");
	for (size_t page = 0; page < PAGES; page++)
		CHECK(source[page * PAGE] == 5 && copy[page * PAGE] == 5, "page %zu", page);
	for (size_t page = 0; page < PAGES; page++)
		source[page * PAGE + 9] = 6;
	for (size_t page = 0; page < PAGES; page++)
		CHECK(copy[page * PAGE + 9] == 5, "page %zu", page);
	/* Shared with a snapshot first, merged then (where a side has it alone), refreshed and written to. */
	snapshot(source, PAGES * PAGE, copy);
	scan_twice();
	for (size_t page = 0; page < PAGES; page += 2)
		source[page * PAGE + 9] = 7;
	for (size_t page = 0; page < PAGES; page++)
		CHECK(copy[page * PAGE + 9] == 6, "page %zu", page);
	snapshot(source, PAGES * PAGE, copy);
	scan_twice();
	for (size_t page = 0; page < PAGES; page++)
		CHECK(copy[page * PAGE + 9] == (page % 2 ? 6 : 7), "page %zu", page);
	write_file("/sys/kernel/mm/ksm/run", "2");
	for (size_t page = 0; page < PAGES; page++)
		CHECK(copy[page * PAGE + 9] == (page % 2 ? 6 : 7), "page %zu", page);
	write_file("/sys/kernel/mm/ksm/run", "0");
}

int watch(char *area, size_t pages, uint64_t mode)
{
	int watcher = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)area, pages * PAGE }, .mode = mode };

	CHECK(watcher >= 0 && !ioctl(watcher, UFFDIO_API, &api), "userfaultfd");
	CHECK(!ioctl(watcher, UFFDIO_REGISTER, &range), "register");
	return watcher;
}

static void *write_first(void *area)
{
	*cell(area, 0) = 99;
	return NULL;
}

/* The watch stays with the source; the snapshot is free of it. */
static void watched(void)
{
	char *source = map(PAGES * PAGE), *copy;
	struct uffdio_writeprotect protect = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct uffd_msg message;
	struct pollfd poll_it;
	pthread_t thread;
	int watcher;

	fill(source, PAGES, 1);
	watcher = watch(source, PAGES, UFFDIO_REGISTER_MODE_WP);
	protect.range = (struct uffdio_range){ (uintptr_t)source, PAGES * PAGE };
	CHECK(!ioctl(watcher, UFFDIO_WRITEPROTECT, &protect), "protect");
	copy = snapshot(source, PAGES * PAGE, NULL);
	fill(copy, PAGES, 2); /* would wait for ever if the snapshot were watched */
	expect(source, PAGES, 1);
	poll_it = (struct pollfd){ watcher, POLLIN, 0 };
	CHECK(!poll(&poll_it, 1, 0), "an event of the snapshot");
	CHECK(!pthread_create(&thread, NULL, write_first, source), "thread");
	CHECK(poll(&poll_it, 1, 20000) == 1 && read(watcher, &message, sizeof(message)) == sizeof(message), "no event");
	CHECK(message.arg.pagefault.address == (uintptr_t)source, "event");
	protect.mode = 0;
	CHECK(!ioctl(watcher, UFFDIO_WRITEPROTECT, &protect), "release");
	pthread_join(thread, NULL);
	CHECK(*cell(source, 0) == 99 && *cell(copy, 0) == 2, "contents");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(*cell(copy, 0) == 99 && *cell(copy, 1) == 2, "contents");
	close(watcher);
}

/* A page that is missing, and that the watcher would fill, is zeros in the snapshot. */
static void watched_holes(void)
{
	char *source = map(PAGES * PAGE), *copy;
	int watcher;

	fill(source, PAGES / 2, 1);
	watcher = watch(source, PAGES, UFFDIO_REGISTER_MODE_MISSING);
	copy = snapshot(source, PAGES * PAGE, NULL);
	expect(copy, PAGES / 2, 1);
	CHECK(!*cell(copy, PAGES - 1), "not zero");
	close(watcher);
}

/* A page that the kernel writes into stays the source's, and the snapshot has a copy of before. */
static void pinned(void)
{
	struct io_uring_params parameters = { 0 };
	char *source = map(PAGES * PAGE), *copy, *huge;
	struct iovec pin = { source + 100 * PAGE, 100 * PAGE };
	int ring = syscall(SYS_io_uring_setup, 4, &parameters), file = memfd_create("data", 0);
	char text[PAGE];

	fill(source, PAGES, 1);
	CHECK(ring >= 0 && !syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &pin, 1), "pin");
	uint64_t before = frame(source + 150 * PAGE);
	copy = snapshot(source, PAGES * PAGE, NULL);
	expect(copy, PAGES, 1);
	CHECK(frame(copy + 150 * PAGE) != before, "a pinned page is shared");
	CHECK(frame(copy + 99 * PAGE) == frame(source + 99 * PAGE), "a page that is not pinned was copied");
	fill(source, PAGES, 2);
	CHECK(frame(source + 150 * PAGE) == before, "a pinned page was replaced in the source");

	/* The kernel writes through its pin. */
	char *submissions = mmap(NULL, parameters.sq_off.array + parameters.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED,
				 ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, parameters.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED,
					    ring, IORING_OFF_SQES);
	CHECK(submissions != MAP_FAILED && (void *)entries != MAP_FAILED, "rings");
	memset(text, 'k', sizeof(text));
	CHECK(write(file, text, sizeof(text)) == sizeof(text), "file");
	entries[0] = (struct io_uring_sqe){ .opcode = IORING_OP_READ_FIXED, .fd = file, .len = PAGE,
					    .addr = (uintptr_t)source + 150 * PAGE };
	*(uint32_t *)(submissions + parameters.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(submissions + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
	CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1, "enter");
	CHECK(source[150 * PAGE] == 'k' && source[151 * PAGE - 1] == 'k', "the kernel's write did not reach the source");
	CHECK(*cell(copy, 150) == 151, "the kernel's write reached the snapshot");
	snapshot(source, PAGES * PAGE, copy);
	CHECK(copy[150 * PAGE] == 'k' && *cell(copy, 149) == 151, "refresh");
	/* Whether the kernel has written again only the contents tell: a copy that is still good stays. */
	uint64_t kept = frame(copy + 150 * PAGE), changed = frame(copy + 151 * PAGE);
	source[151 * PAGE] += 1;
	snapshot(source, PAGES * PAGE, copy);
	CHECK(frame(copy + 150 * PAGE) == kept, "a pinned page was copied again");
	CHECK(frame(copy + 151 * PAGE) != changed && copy[151 * PAGE] == source[151 * PAGE], "a changed page was not copied");
	CHECK(frame(source + 150 * PAGE) == before, "a pinned page was replaced in the source");

	/* A pinned huge page. */
	huge = map(4 * HUGE);
	huge = (char *)(((uintptr_t)huge + HUGE - 1) / HUGE * HUGE);
	CHECK(!madvise(huge, 2 * HUGE, MADV_HUGEPAGE), "madvise");
	fill(huge, 1024, 3);
	close(ring);
	ring = syscall(SYS_io_uring_setup, 4, &parameters);
	pin = (struct iovec){ huge + PAGE, PAGE };
	CHECK(ring >= 0 && !syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &pin, 1), "pin");
	before = frame(huge + PAGE);
	copy = snapshot(huge, 2 * HUGE, NULL);
	expect(copy, 1024, 3);
	fill(huge, 1024, 4);
	expect(copy, 1024, 3);
	CHECK(frame(huge + PAGE) == before, "a pinned page was replaced in the source");
	close(ring);
}

/* Memory that is counted is counted once more for the snapshot, and given back. */
static void accounted(void)
{
	char *source, *copy;
	long before, with;

	before = field("/proc/meminfo", "Committed_AS");
	source = map(PAGES * PAGE);
	copy = snapshot(source, PAGES * PAGE, NULL);
	with = field("/proc/meminfo", "Committed_AS");
	CHECK(with - before >= (long)PAGES * 8 && with - before < (long)PAGES * 8 + 600, "%ld kB", with - before);
	for (int i = 0; i < 50; i++)
		snapshot(source, PAGES * PAGE, copy);
	for (int i = 0; i < 50; i++) {
		mprotect(copy, PAGES * PAGE, PROT_READ);
		snapshot(source, PAGES * PAGE, copy);
	}
	CHECK(field("/proc/meminfo", "Committed_AS") - with < 600, "counted twice");
	munmap(source, PAGES * PAGE);
	munmap(copy, PAGES * PAGE);
	CHECK(field("/proc/meminfo", "Committed_AS") - before < 600, "not given back");
}

/* Limits end the call with ENOMEM, and leave things as they were. */
static void limits(void)
{
	char *source = map(PAGES * PAGE), *copy = snapshot(source, PAGES * PAGE, NULL);
	struct rlimit limit, old;

	fill(source, PAGES, 1);
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = field("/proc/self/status", "VmSize") * 1024 + PAGE * 64;
	CHECK(!setrlimit(RLIMIT_AS, &limit), "setrlimit");
	long size = field("/proc/self/status", "VmSize");
	REFUSED(ENOMEM, source, PAGES * PAGE, NULL);
	CHECK(field("/proc/self/status", "VmSize") == size, "VmSize");
	snapshot(source, PAGES * PAGE, copy); /* needs nothing */
	expect(copy, PAGES, 1);
	mprotect(copy, PAGES * PAGE, PROT_READ);
	snapshot(source, PAGES * PAGE, copy); /* gives as much as it takes */
	setrlimit(RLIMIT_AS, &old);

	write_file("/proc/sys/vm/max_map_count", "200");
	char *last = NULL;
	int taken = 0;
	for (void *next; (next = vm_snapshot(source, PAGE, NULL)) != MAP_FAILED; taken++)
		last = next;
	CHECK(errno == ENOMEM && taken > 50 && taken < 200, "%d snapshots", taken);
	CHECK(*cell(last, 0) == 1, "the last snapshot");
	munmap(last, PAGE);
	snapshot(source, PAGE, NULL);
	write_file("/proc/sys/vm/max_map_count", "65530");
	expect(source, PAGES, 1);
}

/* Strict accounting: refused before anything is touched. */
static void strict_accounting(void)
{
	size_t length = 400UL << 20;
	char *source = map(length), *copy = map(length);
	char ratio[32];

	*cell(source, 0) = 1;
	*cell(copy, 0) = 2;
	sprintf(ratio, "%ld", field("/proc/meminfo", "Committed_AS") + 100 * 1024);
	write_file("/proc/sys/vm/overcommit_kbytes", ratio);
	write_file("/proc/sys/vm/overcommit_memory", "2");
	REFUSED(ENOMEM, source, length, NULL);
	REFUSED(ENOMEM, source, length, copy);
	CHECK(*cell(copy, 0) == 2, "the destination was changed");
	write_file("/proc/sys/vm/overcommit_memory", "0");
	snapshot(source, length, copy);
	CHECK(*cell(copy, 0) == 1, "contents");
}

const struct test area_tests[] = {
	{ "areas: locked", locked },
	{ "areas: merged by KSM", merged },
	{ "areas: watched by userfaultfd", watched },
	{ "areas: holes watched by userfaultfd", watched_holes },
	{ "areas: pinned by io_uring", pinned },
	{ "areas: accounted", accounted },
	{ "areas: limits", limits },
	{ "areas: strict accounting", strict_accounting },
	{ NULL, NULL },
};
