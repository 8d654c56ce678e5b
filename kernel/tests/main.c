// SPDX-License-Identifier: GPL-2.0
/* Runs all tests, or those whose names begin with the first argument. Exit status: 0 if all passed. */
#include "harness.h"

extern const struct test isolation_tests[], range_tests[], refresh_tests[], huge_tests[], file_tests[], swap_tests[],
	race_tests[], move_tests[], area_tests[], count_tests[], error_tests[],
	failure_tests[], random_tests[];

static const struct test *const themes[] = { isolation_tests, range_tests, refresh_tests, huge_tests, file_tests,
					     swap_tests,      race_tests,  move_tests,    area_tests,  count_tests,
					     error_tests,     failure_tests, random_tests };

/* The debug kernel is slow in software emulation; a test that hangs still ends. */
#define SECONDS_MAX 300

static bool passes(const struct test *test)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		alarm(SECONDS_MAX);
		test->run();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

int main(int count, char **arguments)
{
	const char *only = count > 1 ? arguments[1] : "";
	int run = 0, failed = 0;

	/* Else each processor keeps tens of megabytes of free pages that nobody counts as free. */
	write_file("/proc/sys/vm/percpu_pagelist_high_fraction", "1000000");

	for (size_t theme = 0; theme < sizeof(themes) / sizeof(*themes); theme++) {
		for (const struct test *test = themes[theme]; test->name; test++) {
			if (strncmp(test->name, only, strlen(only)))
				continue;
			bool passed = passes(test);
			printf("%s %s\n", passed ? "ok" : "FAILED", test->name);
			run++;
			failed += !passed;
		}
	}
	printf("%d tests, %d failed\n", run, failed);
	return failed || !run;
}
