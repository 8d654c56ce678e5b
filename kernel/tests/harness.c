// SPDX-License-Identifier: GPL-2.0
/* Looks into /proc and writes to its switches. */
#include "harness.h"

static long field_of(FILE *file, const char *name)
{
	char line[256];
	size_t length = strlen(name);
	long value = -1;

	while (value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':')
			value = atol(line + length + 1);
	return value;
}

long field(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	long value;

	CHECK(file, "%s", path);
	value = field_of(file, name);
	fclose(file);
	return value;
}

long area_field(void *address, const char *name)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512];
	unsigned long start, end;
	long value = -1;

	CHECK(file, "smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && start <= (uintptr_t)address &&
		    (uintptr_t)address < end) {
			value = field_of(file, name);
			break;
		}
	}
	fclose(file);
	return value;
}

uint64_t frame(void *address)
{
	uint64_t entry = 0;
	int file = open("/proc/self/pagemap", O_RDONLY);

	CHECK(file >= 0, "pagemap");
	CHECK(pread(file, &entry, 8, (uintptr_t)address / PAGE * 8) == 8, "pagemap");
	close(file);
	return entry >> 63 ? entry & ((1UL << 55) - 1) : 0;
}

size_t send_to_node(char *area, size_t pages, int node)
{
	static __thread void *addresses[2048];
	static __thread int nodes[2048], status[2048];
	size_t there = 0;

	CHECK(pages <= 2048, "%zu pages", pages);
	for (size_t page = 0; page < pages; page++) {
		addresses[page] = area + page * PAGE;
		nodes[page] = node;
		status[page] = -1;
	}
	CHECK(syscall(SYS_move_pages, 0, pages, addresses, nodes, status, 4 /* MPOL_MF_MOVE_ALL */) >= 0, "move_pages");
	for (size_t page = 0; page < pages; page++)
		there += status[page] == node;
	return there;
}

void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CREAT, 0600);

	CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
	close(file);
}

long settled_free(void)
{
	sync();
	write_file("/proc/sys/vm/drop_caches", "3");
	write_file("/proc/sys/vm/compact_memory", "1");
	usleep(200 * 1000);
	return field("/proc/meminfo", "MemFree");
}
