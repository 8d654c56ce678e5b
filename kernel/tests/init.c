// SPDX-License-Identifier: GPL-2.0
/*
 * The first and only service of the machine: runs /command, sends what it left in /out through the second serial line, and
 * stops the machine. The last line on the console says how it went; if it is missing, the machine did not survive.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void write_all(int file, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t written = write(file, at, length);
		if (written < 0 && errno != EINTR) {
			perror("the second serial line");
			return;
		}
		at += written < 0 ? 0 : written;
		length -= written < 0 ? 0 : written;
	}
}

/* One member of an archive that cpio unpacks (format "newc"). */
static void send_member(int line, const char *name, const char *data, size_t length, unsigned int mode)
{
	static unsigned int inode = 1;
	char header[111];
	static const char zeros[4];
	size_t name_length = strlen(name) + 1;

	snprintf(header, sizeof(header), "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", inode++, mode, 0, 0, 1, 0,
		 (unsigned int)length, 0, 0, 0, 0, (unsigned int)name_length, 0);
	write_all(line, header, 110);
	write_all(line, name, name_length);
	write_all(line, zeros, -(110 + name_length) & 3);
	write_all(line, data, length);
	write_all(line, zeros, -length & 3);
}

static void send_file(int line, const char *path)
{
	struct stat status;
	int file = open(path, O_RDONLY);
	char *data;

	if (file < 0 || fstat(file, &status) || !(data = malloc(status.st_size + 1)))
		return;
	if (read(file, data, status.st_size) == status.st_size)
		send_member(line, path, data, status.st_size, 0100644);
	free(data);
	close(file);
}

static void send_folder(int line, const char *folder)
{
	struct dirent *entry;
	struct stat status;
	char path[512];
	DIR *list = opendir(folder);

	if (!list)
		return;
	send_member(line, folder, NULL, 0, 040755);
	while ((entry = readdir(list))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (!stat(path, &status) && S_ISDIR(status.st_mode))
			send_folder(line, path);
		else if (S_ISREG(status.st_mode))
			send_file(line, path);
	}
	closedir(list);
}

static void send_results(void)
{
	struct termios settings;
	int line = open("/dev/ttyS1", O_WRONLY | O_NOCTTY);

	if (line < 0)
		return;
	if (!tcgetattr(line, &settings)) {
		cfmakeraw(&settings);
		tcsetattr(line, TCSANOW, &settings);
	}
	if (!chdir("/"))
		send_folder(line, "out");
	send_member(line, "TRAILER!!!", NULL, 0, 0);
	tcdrain(line);
	close(line);
}

/* Programs expect to reach themselves at 127.0.0.1. */
static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request))
		perror("loopback");
	close(any);
}

/* /command: one argument per line, and before them settings (NAME=VALUE). */
static int run_command(void)
{
	static char text[8192];
	char *arguments[128];
	int count = 0, status = -1, file = open("/command", O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	if (length <= 0)
		return -1;
	for (char *at = strtok(text, "\n"); at && count < 127; at = strtok(NULL, "\n"))
		if (count || at[0] == '/')
			arguments[count++] = at;
		else
			putenv(at);
	arguments[count] = NULL;
	pid_t child = fork();
	if (!child) {
		execv(arguments[0], arguments);
		perror(arguments[0]);
		_exit(127);
	}
	while (waitpid(child, &status, 0) != child)
		;
	return status;
}

int main(void)
{
	struct rlimit files = { 65536, 65536 };
	struct timespec booted, ended;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mkdir("/dev/shm", 01777);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	mount("tmpfs", "/out", "tmpfs", 0, NULL);
	int console = open("/dev/console", O_RDWR);
	dup2(console, 0);
	dup2(console, 1);
	dup2(console, 2);
	loopback_up();
	setrlimit(RLIMIT_NOFILE, &files);
	setenv("PATH", "/bin", 1);
	setenv("HOME", "/tmp", 1);
	setenv("TMPDIR", "/tmp", 1);
	/* What must work here: tests fail where it is missing (crates/region/tests/expected.rs). */
	setenv("ANKERDB_TECHNIQUES", "physical fork rewiring vm-snapshot", 1);
	clock_gettime(CLOCK_BOOTTIME, &booted);
	printf("booted in %ld.%02ld s\n", (long)booted.tv_sec, booted.tv_nsec / 10000000);
	int status = run_command();
	clock_gettime(CLOCK_BOOTTIME, &ended);
	send_results();
	printf("ended after %ld s with status %d\n", (long)(ended.tv_sec - booted.tv_sec), status);
	printf("vm_snapshot machine: %s\n", status ? "FAILED" : "PASSED");
	fflush(stdout);
	sync();
	tcdrain(1);
	reboot(RB_AUTOBOOT);
	return 0;
}
