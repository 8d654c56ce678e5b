// SPDX-License-Identifier: GPL-2.0
/* Each error, and that nothing has changed after it. */
#include "harness.h"
#include <sys/prctl.h>

#define PAGES 300UL

static void arguments(void)
{
	char *source = map(PAGES * PAGE), *copy = map(PAGES * PAGE);

	fill(source, PAGES, 1);
	fill(copy, PAGES, 2);
	REFUSED(EINVAL, source, 0, NULL);
	REFUSED(EINVAL, source + 1, PAGE, NULL);
	REFUSED(EINVAL, source, PAGE + 1, NULL);
	REFUSED(EINVAL, source, PAGE, copy + 8);
	REFUSED(EINVAL, source, -PAGE, NULL);
	REFUSED(EINVAL, source, 1UL << 60, NULL);
	REFUSED(EINVAL, (void *)-PAGE, PAGE, NULL);
	REFUSED(EINVAL, source, PAGE, (void *)-PAGE);
	REFUSED(EINVAL, (void *)0xffff888000000000, PAGE, NULL);
	/* Overlaps, of all shapes. */
	REFUSED(EINVAL, source, 10 * PAGE, source);
	REFUSED(EINVAL, source, 10 * PAGE, source + 9 * PAGE);
	REFUSED(EINVAL, source + 9 * PAGE, 10 * PAGE, source);
	expect(source, PAGES, 1);
	expect(copy, PAGES, 2);
}

static void not_mapped(void)
{
	char *source = map(PAGES * PAGE), *copy = map(PAGES * PAGE);

	fill(source, PAGES, 1);
	fill(copy, PAGES, 2);
	REFUSED(EFAULT, (void *)PAGE, PAGE, NULL);
	munmap(source + 100 * PAGE, PAGE);
	REFUSED(EFAULT, source, PAGES * PAGE, NULL);
	REFUSED(EFAULT, source, PAGES * PAGE, copy);
	REFUSED(EFAULT, source, 101 * PAGE, copy);
	REFUSED(EFAULT, source + 100 * PAGE, 10 * PAGE, copy);
	CHECK(!munmap(source + 290 * PAGE, 10 * PAGE), "munmap");
	REFUSED(EFAULT, source + 101 * PAGE, 199 * PAGE, copy);
	expect(copy, PAGES, 2);
	snapshot(source, 100 * PAGE, copy);
	expect(copy, 100, 1);

	munmap(copy + 50 * PAGE, PAGE);
	*cell(source, 5) = 77;
	REFUSED(EFAULT, source, 100 * PAGE, copy);
	CHECK(*cell(copy, 5) == 6, "a destination with a hole was changed");
	REFUSED(EFAULT, source, 50 * PAGE, (void *)(64 * PAGE));
}

static char *shared(void)
{
	return mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void shared_memory(void)
{
	int file = memfd_create("f", 0);
	char *area = shared(), *copy = map(16 * PAGE), *mixed = map(16 * PAGE);

	CHECK(area != MAP_FAILED && !ftruncate(file, 8 * PAGE), "shared");
	fill(area, 8, 1);
	fill(copy, 16, 2);
	fill(mixed, 16, 3);
	REFUSED(EOPNOTSUPP, area, 8 * PAGE, NULL);
	REFUSED(EOPNOTSUPP, area, 8 * PAGE, copy);
	area = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, file, 0);
	REFUSED(EOPNOTSUPP, area, 8 * PAGE, NULL);
	/* Private and shared in one range. */
	CHECK(mmap(mixed + 8 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED, "mmap");
	REFUSED(EOPNOTSUPP, mixed, 16 * PAGE, NULL);
	REFUSED(EOPNOTSUPP, mixed, 16 * PAGE, copy);
	expect(copy, 16, 2);
	/* As a place, shared memory is as good as any: it is replaced, and the file keeps its pages. */
	area = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	fill(area, 8, 5);
	snapshot(copy, 8 * PAGE, area);
	expect(area, 8, 2);
	fill(area, 8, 6);
	expect(copy, 16, 2);
	area = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, file, 0);
	expect(area, 8, 5);
}

static void huge_tlb(void)
{
	char *area, *copy = map(HUGE);

	write_file("/proc/sys/vm/nr_hugepages", "4");
	area = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	CHECK(area != MAP_FAILED, "hugetlb");
	*area = 1;
	REFUSED(EOPNOTSUPP, area, HUGE, NULL);
	REFUSED(EOPNOTSUPP, area, HUGE, copy);
	/* As a place: whole pages can be replaced, parts of them not. */
	*copy = 9;
	snapshot(copy, HUGE, area);
	CHECK(*area == 9, "contents");
	area = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	CHECK(area != MAP_FAILED, "hugetlb");
	*area = 3;
	REFUSED(EINVAL, copy, PAGE, area);
	CHECK(*area == 3, "the destination was changed");
	munmap(area, HUGE);
	write_file("/proc/sys/vm/nr_hugepages", "0");
}

static void secret_memory(void)
{
	int file = syscall(SYS_memfd_secret, 0);
	char *area;

	if (file < 0) {
		printf("  no memfd_secret here (errno %d)\n", errno);
		return;
	}
	CHECK(!ftruncate(file, 4 * PAGE), "ftruncate");
	area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(area != MAP_FAILED, "mmap");
	*area = 1;
	REFUSED(EOPNOTSUPP, area, 4 * PAGE, NULL);
}

static void *area_named(const char *name, size_t *length)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long start = 0, end = 0;

	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, name)) {
			sscanf(line, "%lx-%lx", &start, &end);
			break;
		}
	}
	fclose(file);
	*length = end - start;
	return (void *)start;
}

/* The stack, which grows, and pages that are the kernel's. */
static void special_areas(void)
{
	const char *const names[] = { "[stack]", "[vdso]", "[vvar]" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t length;
		void *area = area_named(names[i], &length);
		CHECK(area, "no %s", names[i]);
		REFUSED(EOPNOTSUPP, area, length, NULL);
	}
	REFUSED(EOPNOTSUPP, mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0),
		PAGE, NULL);
	/* The heap is memory as any. */
	size_t length;
	free(malloc(100));
	void *heap = area_named("[heap]", &length);
	CHECK(heap, "no heap");
	snapshot(heap, length, NULL);
}

/* Mappings of devices: zeros are anonymous memory, others are refused. */
static void devices(void)
{
	int zero = open("/dev/zero", O_RDWR), memory = open("/dev/mem", O_RDWR);
	char *area = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0), *copy;

	CHECK(area != MAP_FAILED, "/dev/zero");
	*area = 1;
	copy = snapshot(area, 4 * PAGE, NULL);
	*area = 2;
	CHECK(*copy == 1 && !copy[PAGE], "contents");
	if (memory >= 0) {
		area = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, memory, 0xb8000);
		CHECK(area != MAP_FAILED, "/dev/mem");
		REFUSED(EOPNOTSUPP, area, PAGE, NULL);
	} else {
		printf("  no /dev/mem here\n");
	}
}

static void sealed(void)
{
	char *source = map(4 * PAGE), *copy = snapshot(source, 4 * PAGE, NULL), *other = map(4 * PAGE);

	fill(source, 4, 1);
	CHECK(!syscall(462 /* mseal */, copy, 4 * PAGE, 0), "mseal");
	CHECK(!syscall(462, other, 4 * PAGE, 0), "mseal");
	REFUSED(EPERM, source, 4 * PAGE, copy);
	REFUSED(EPERM, source, 4 * PAGE, other);
	CHECK(!*cell(copy, 0) && !*cell(other, 0), "a sealed area was changed");
	CHECK(!syscall(462, source, 4 * PAGE, 0), "mseal");
	copy = snapshot(source, 4 * PAGE, NULL);
	expect(copy, 4, 1);
	CHECK(!munmap(copy, 4 * PAGE), "the snapshot of a sealed area is not sealed");
}

/* Pages without any right to access are kept as they are, and protected as they are. */
static void no_access(void)
{
	char *source = map(PAGES * PAGE), *copy;

	fill(source, PAGES, 1);
	CHECK(!mprotect(source, PAGES * PAGE, PROT_NONE), "mprotect");
	copy = snapshot(source, PAGES * PAGE, NULL);
	CHECK(!mprotect(source, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	fill(source, PAGES, 2);
	int pipes[2];
	CHECK(!pipe(pipes) && write(pipes[1], copy, 1) == -1 && errno == EFAULT, "readable");
	CHECK(!mprotect(copy, PAGES * PAGE, PROT_READ | PROT_WRITE), "mprotect");
	expect(copy, PAGES, 1);
}

const struct test error_tests[] = {
	{ "errors: arguments", arguments },
	{ "errors: not mapped", not_mapped },
	{ "errors: shared memory", shared_memory },
	{ "errors: hugetlb", huge_tlb },
	{ "errors: secret memory", secret_memory },
	{ "errors: special areas", special_areas },
	{ "errors: devices", devices },
	{ "errors: sealed", sealed },
	{ "errors: no access", no_access },
	{ NULL, NULL },
};
