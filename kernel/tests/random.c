// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a few areas, held against a model: one number per page. Finds what nobody thought of: combinations of
 * snapshots of parts, refreshes, moves, collapsed and split huge pages, reclaim and fork. The seed is printed with a failure.
 */
#include "harness.h"
#include <signal.h>
#include <sys/prctl.h>

#define SLOTS 12
#define PAGES_MAX 1300UL

struct slot {
	char *area;
	size_t pages;
	uint64_t values[PAGES_MAX];
};

static struct slot slots[SLOTS];
static uint64_t state;
static unsigned int seed_now, step;

static size_t below(size_t bound)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % bound;
}

static uint64_t *place(const struct slot *slot, size_t page)
{
	return (uint64_t *)(slot->area + page * PAGE);
}

static void check_page(const struct slot *slot, size_t page)
{
	CHECK(*place(slot, page) == slot->values[page], "seed %u, step %u, slot %ld, page %zu of %zu: %lu, not %lu", seed_now, step,
	      (long)(slot - slots), page, slot->pages, (unsigned long)*place(slot, page), (unsigned long)slot->values[page]);
}

static void check_all(void)
{
	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		for (size_t page = 0; slot->area && page < slot->pages; page++)
			check_page(slot, page);
}

/* A part of a slot: often the whole, often aligned to huge pages. */
static size_t part(const struct slot *slot, size_t *from)
{
	size_t length;

	*from = 0;
	if (below(2))
		return slot->pages;
	*from = below(slot->pages);
	length = 1 + below(slot->pages - *from);
	return length;
}

static void make(struct slot *slot)
{
	slot->pages = below(3) ? 1 + below(PAGES_MAX) : 1024;
	slot->area = map(slot->pages * PAGE);
	memset(slot->values, 0, sizeof(slot->values));
	if (below(2))
		madvise(slot->area, slot->pages * PAGE, MADV_HUGEPAGE);
}

static void unmap(struct slot *slot)
{
	CHECK(!munmap(slot->area, slot->pages * PAGE), "munmap");
	slot->area = NULL;
}

static void write_some(struct slot *slot)
{
	size_t from, length = part(slot, &from), stride = 1 + below(40);

	for (size_t page = from; page < from + length; page += stride)
		*place(slot, page) = slot->values[page] = 1 + below(1 << 30);
}

static void snapshot_new(struct slot *slot, struct slot *target)
{
	size_t from, length = part(slot, &from);

	if (target->area)
		unmap(target);
	target->area = snapshot(slot->area + from * PAGE, length * PAGE, NULL);
	target->pages = length;
	memmove(target->values, slot->values + from, length * 8);
}

/* Over a part of another slot, or over another part of the same. */
static void snapshot_over(struct slot *slot, struct slot *target)
{
	size_t from, length = part(slot, &from), to = 0;

	if (length > target->pages)
		length = target->pages;
	to = below(2) ? 0 : below(target->pages - length + 1);
	if (from + length <= target->pages && below(2))
		to = from;
	if (slot == target && from < to + length && to < from + length)
		return;
	snapshot(slot->area + from * PAGE, length * PAGE, target->area + to * PAGE);
	memmove(target->values + to, slot->values + from, length * 8);
}

static void advise(struct slot *slot)
{
	static const int advice[] = { MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_PAGEOUT, MADV_COLD, MADV_DONTFORK, MADV_DOFORK,
				      MADV_MERGEABLE, MADV_UNMERGEABLE, 25 /* MADV_COLLAPSE */, 25, 25, 25 };
	size_t from, length = part(slot, &from);

	madvise(slot->area + from * PAGE, length * PAGE, advice[below(sizeof(advice) / sizeof(*advice))]);
}

static void give_back(struct slot *slot)
{
	size_t from, length = part(slot, &from);

	CHECK(!madvise(slot->area + from * PAGE, length * PAGE, MADV_DONTNEED), "madvise");
	memset(slot->values + from, 0, length * 8);
}

static void protect(struct slot *slot)
{
	size_t from, length = part(slot, &from);

	CHECK(!mprotect(slot->area + from * PAGE, length * PAGE, below(2) ? PROT_READ : PROT_NONE), "mprotect");
	CHECK(!mprotect(slot->area, slot->pages * PAGE, PROT_READ | PROT_WRITE), "mprotect");
}

static void move(struct slot *slot)
{
	/* Fails where the slot is more than one area. */
	void *moved = mremap(slot->area, slot->pages * PAGE, slot->pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			     map(slot->pages * PAGE));

	if (moved != MAP_FAILED)
		slot->area = moved;
}

static void operate(bool may_fork);

/* A child goes on with operations of its own; the parent finds nothing changed. */
static void forked(void)
{
	int status;
	pid_t child;

	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		if (slot->area)
			madvise(slot->area, slot->pages * PAGE, MADV_DOFORK);
	child = fork();
	if (!child) {
		for (int i = 0; i < 20; i++)
			operate(false);
		check_all();
		_exit(0);
	}
	below(7);
	CHECK(waitpid(child, &status, 0) == child && !status, "seed %u, step %u: child", seed_now, step);
}

static void operate(bool may_fork)
{
	struct slot *slot = &slots[below(SLOTS)], *other = &slots[below(SLOTS)];

	if (!slot->area)
		make(slot);
	switch (below(20)) {
	case 0 ... 5:
		write_some(slot);
		break;
	case 6 ... 8:
		if (slot != other)
			snapshot_new(slot, other);
		break;
	case 9 ... 12:
		if (other->area)
			snapshot_over(slot, other);
		break;
	case 13 ... 14:
		advise(slot);
		break;
	case 15:
		give_back(slot);
		break;
	case 16:
		protect(slot);
		break;
	case 17:
		unmap(slot);
		break;
	case 18:
		move(slot);
		break;
	case 19:
		if (may_fork && !below(3))
			forked();
		break;
	}
	for (int i = 0; i < 20; i++) {
		struct slot *any = &slots[below(SLOTS)];
		if (any->area)
			check_page(any, below(any->pages));
	}
}

static void one_seed(unsigned int seed)
{
	seed_now = seed;
	state = seed;
	for (step = 0; step < 300; step++)
		operate(true);
	check_all();
	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		if (slot->area)
			unmap(slot);
}

static void random_operations(void)
{
	for (unsigned int seed = 1; seed <= 40; seed++)
		one_seed(seed);
}

/* The same with pages that are moved by compaction, sent out to swap space and merged by KSM all the time. */
static void random_operations_disturbed(void)
{
	pid_t disturber;

	swap_on();
	disturber = fork();

	if (!disturber) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			write_file("/proc/sys/vm/compact_memory", "1");
			reclaim_some();
			usleep(3000);
		}
	}
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "2000");
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "5");
	write_file("/sys/kernel/mm/ksm/run", "1");
	for (unsigned int seed = 101; seed <= 120; seed++)
		one_seed(seed);
	write_file("/sys/kernel/mm/ksm/run", "2");
	write_file("/sys/kernel/mm/ksm/run", "0");
	kill(disturber, SIGKILL);
	waitpid(disturber, NULL, 0);
	swap_off();
}

const struct test random_tests[] = {
	{ "random operations", random_operations },
	{ "random operations, pages on the move", random_operations_disturbed },
	{ NULL, NULL },
};
