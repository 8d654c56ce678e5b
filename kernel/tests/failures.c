// SPDX-License-Identifier: GPL-2.0
/* Calls that end midway: by limits, by a lack of memory, by a signal that kills. */
#include "harness.h"
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define PAGES 700UL

/*
 * The destination is of a kind that does not count as data, and the source does: the limit is found before the destination
 * is given up.
 */
static void limit_of_data(void)
{
	char *source = map(PAGES * PAGE), *place;
	struct rlimit limit, old;

	fill(source, PAGES, 1);
	place = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(place != MAP_FAILED, "mmap");
	getrlimit(RLIMIT_DATA, &old);
	limit = old;
	limit.rlim_cur = field("/proc/self/status", "VmData") * 1024 + 100 * PAGE;
	long size = field("/proc/self/status", "VmSize"), data = field("/proc/self/status", "VmData");
	long committed = field("/proc/meminfo", "Committed_AS");
	CHECK(!setrlimit(RLIMIT_DATA, &limit), "setrlimit");
	REFUSED(ENOMEM, source, PAGES * PAGE, place);
	REFUSED(ENOMEM, source, PAGES * PAGE, NULL);
	CHECK(area_field(place, "Size") == (long)PAGES * 4, "the place is no longer mapped");
	CHECK(field("/proc/self/status", "VmSize") == size && field("/proc/self/status", "VmData") == data, "VmSize, VmData");
	CHECK(field("/proc/meminfo", "Committed_AS") - committed < 600, "accounting");
	/* A destination of memory that counts gives as much as the snapshot takes. */
	char *other = mmap(place, PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	setrlimit(RLIMIT_DATA, &old);
	CHECK(!mprotect(other, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	fill(other, PAGES, 2);
	limit.rlim_cur = field("/proc/self/status", "VmData") * 1024;
	CHECK(!setrlimit(RLIMIT_DATA, &limit), "setrlimit");
	snapshot(source, PAGES * PAGE, other);
	setrlimit(RLIMIT_DATA, &old);
	expect(other, PAGES, 1);
}

/* Areas that have one page: the 1,025th is refused, as each walk over the reverse map visits them all. */
static void limit_of_areas(void)
{
	enum { MAX = 1024 };
	char *source = map(3 * PAGE), *copies[MAX];
	int taken = 0;

	fill(source, 3, 1);
	for (void *next; taken < MAX && (next = vm_snapshot(source + PAGE, PAGE, NULL)) != MAP_FAILED; taken++)
		copies[taken] = next;
	CHECK(errno == ENOMEM && taken == MAX - 1, "%d snapshots", taken);
	REFUSED(ENOMEM, source, 2 * PAGE, NULL);
	REFUSED(ENOMEM, source + PAGE, 2 * PAGE, map(2 * PAGE));
	REFUSED(ENOMEM, copies[500], PAGE, NULL);
	/* Its neighbours are free, refresh needs no area, and one that goes makes room. */
	snapshot(source, PAGE, NULL);
	snapshot(source + 2 * PAGE, PAGE, NULL);
	*cell(source, 1) = 5;
	snapshot(source + PAGE, PAGE, copies[7]);
	CHECK(*(uint64_t *)((char *)cell(source, 1) - source - PAGE + copies[7]) == 5, "contents");
	CHECK(!munmap(copies[9], PAGE), "munmap");
	snapshot(source + PAGE, PAGE, NULL);
	REFUSED(ENOMEM, source + PAGE, PAGE, NULL);
}

static void set(const char *folder, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", folder, name);
	write_file(path, value);
}

/* Allocations of this thread fail on request, each kind of them. False where the kernel has nothing of the kind. */
static bool may_fail(void)
{
	static const char *const folders[] = { "failslab", "fail_page_alloc" };

	if (mount("none", "/sys/kernel/debug", "debugfs", 0, NULL) && errno != EBUSY)
		return false;
	if (access("/sys/kernel/debug/failslab", F_OK))
		return false;
	for (int i = 0; i < 2; i++) {
		set(folders[i], "ignore-gfp-wait", "N");
		set(folders[i], "verbose", "0");
	}
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
	set("fail_page_alloc", "min-order", "0");
	return true;
}

/* The call of which the n-th allocation fails. *failed: was there one? */
static void *with_failure(int n, void *src, size_t length, void *dst, bool *failed)
{
	char text[16], left[16] = { 0 };
	int file = open("/proc/thread-self/fail-nth", O_RDWR), error;

	CHECK(file >= 0, "fail-nth");
	sprintf(text, "%d", n);
	CHECK(write(file, text, strlen(text)) > 0, "fail-nth");
	void *result = vm_snapshot(src, length, dst);
	error = errno;
	CHECK(pread(file, left, sizeof(left) - 1, 0) > 0, "fail-nth");
	CHECK(pwrite(file, "0", 1, 0) == 1, "fail-nth");
	close(file);
	*failed = !atoi(left);
	errno = error;
	return result;
}

/* Three areas, one huge page, and some pages that were never written to. */
static char *make_source(void)
{
	char *room = map(4 * HUGE), *area = (char *)(((uintptr_t)room + HUGE - 1) / HUGE * HUGE);

	CHECK(!madvise(area + HUGE, HUGE, MADV_HUGEPAGE), "madvise");
	fill(area, 1200, 1);
	CHECK(!mprotect(area + 100 * PAGE, 10 * PAGE, PROT_READ), "mprotect");
	return area;
}

enum { SOURCE = 1300, FILLED = 1200 };

/* Each allocation of a call fails once: the source stays as it was, the error is told, nothing is lost. */
static void failing_allocations(void)
{
	char *source, *place = NULL;
	bool failed = true;
	int failures[3] = { 0 };

	if (!may_fail()) {
		printf("  no fault injection here\n");
		return;
	}
	source = make_source();
	long size = field("/proc/self/status", "VmSize");
	for (int n = 1; failed; n++) {
		void *copy = with_failure(n, source, SOURCE * PAGE, NULL, &failed);
		if (copy == MAP_FAILED) {
			CHECK(errno == ENOMEM && failed, "errno");
			CHECK(field("/proc/self/status", "VmSize") == size, "a place is left mapped");
			failures[0]++;
		} else {
			expect(copy, FILLED, 1);
			CHECK(!munmap(copy, SOURCE * PAGE), "munmap");
		}
		expect(source, FILLED, 1);
	}
	failed = true;
	for (int n = 1; failed; n++) {
		place = mmap(place, SOURCE * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED : 0), -1, 0);
		CHECK(place != MAP_FAILED, "mmap");
		void *copy = with_failure(n, source, SOURCE * PAGE, place, &failed);
		if (copy == MAP_FAILED) {
			CHECK((errno == ENOMEM || errno == ENOTRECOVERABLE) && failed, "errno");
			CHECK((area_field(place, "Size") == -1) == (errno == ENOTRECOVERABLE), "mapped or not");
			failures[1]++;
		} else {
			expect(copy, FILLED, 1);
		}
		expect(source, FILLED, 1);
	}
	failed = true;
	for (int n = 1; failed; n++) {
		snapshot(source, SOURCE * PAGE, place);
		CHECK(!madvise(place, SOURCE * PAGE, MADV_DONTNEED), "madvise");
		for (size_t page = 0; page < FILLED; page += 100)
			if (page != 100)
				*cell(source, page) = 1 + page;
		void *copy = with_failure(n, source, SOURCE * PAGE, place, &failed);
		if (copy == MAP_FAILED) {
			CHECK(errno == ENOMEM && failed, "errno");
			CHECK(area_field(place, "Size") > 0, "the place is no longer mapped");
			failures[2]++;
		}
		snapshot(source, SOURCE * PAGE, place);
		expect(place, FILLED, 1);
		expect(source, FILLED, 1);
	}
	CHECK(failures[0] > 5 && failures[1] > 5, "%d, %d, %d failures", failures[0], failures[1], failures[2]);
}

/* A thread is in the call when its process is killed, at any moment of it. */
static void killed(void)
{
	long before = settled_free(), after;
	volatile uint64_t *begun = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(begun != MAP_FAILED, "mmap");
	for (int round = 0; round < 150; round++) {
		int status;
		*begun = 0;
		pid_t child = fork();
		if (!child) {
			char *source = make_source(), *copy = NULL;
			for (uint64_t change = 0;; change++) {
				*cell(source, change % 90) = change;
				copy = snapshot(source, SOURCE * PAGE, change % 4 ? copy : NULL);
				*begun = 1;
			}
		}
		CHECK(child > 0, "fork");
		while (!*begun)
			usleep(100);
		usleep(round * 97 % 3000);
		CHECK(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child, "kill");
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "ended before: %x", status);
	}
	after = settled_free();
	CHECK(after > before - 2000, "%ld kB are gone", before - after);
}

enum { IN_GROUP = 1000 };

/* Pages of four copies are too many for the group. Pages that are pinned are copied in the call, others as they are written to. */
static void exceed_group(bool pinned)
{
	char pid[32], *source = map(IN_GROUP * PAGE);
	struct io_uring_params parameters = { 0 };
	struct iovec pin = { source, IN_GROUP * PAGE };

	sprintf(pid, "%d", getpid());
	write_file("/tmp/group/limited/cgroup.procs", pid);
	fill(source, IN_GROUP, 1);
	if (pinned) {
		int ring = syscall(SYS_io_uring_setup, 4, &parameters);
		CHECK(ring >= 0 && !syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &pin, 1), "pin");
	}
	for (int copies = 0; copies < 60; copies++) {
		char *copy = vm_snapshot(source, IN_GROUP * PAGE, NULL);
		if (copy == MAP_FAILED) {
			CHECK(errno == ENOMEM, "errno");
			expect(source, IN_GROUP, 1);
			_exit(0);
		}
		if (!pinned)
			fill(copy, IN_GROUP, 2);
	}
	CHECK(false, "the limit was never met");
}

/* A memory cgroup whose limit is met within the call, or later: the process gets ENOMEM or is killed; memory comes back. */
static void limit_of_group(void)
{
	long before = settled_free(), after;

	mkdir("/tmp/group", 0700);
	CHECK(!mount("none", "/tmp/group", "cgroup2", 0, NULL) || errno == EBUSY, "cgroup2");
	write_file("/tmp/group/cgroup.subtree_control", "+memory");
	mkdir("/tmp/group/limited", 0700);
	write_file("/tmp/group/limited/memory.max", "16M");
	for (int round = 0; round < 4; round++) {
		int status;
		fflush(stdout);
		pid_t child = fork();
		if (!child)
			exceed_group(round % 2);
		CHECK(child > 0 && waitpid(child, &status, 0) == child, "child");
		CHECK(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL), "%x", status);
	}
	after = settled_free();
	CHECK(after > before - 2000, "%ld kB are gone", before - after);
}

const struct test failure_tests[] = {
	{ "failures: limit of data", limit_of_data },
	{ "failures: limit of areas of one page", limit_of_areas },
	{ "failures: each allocation", failing_allocations },
	{ "failures: killed in the call", killed },
	{ "failures: limit of a memory cgroup", limit_of_group },
	{ NULL, NULL },
};
