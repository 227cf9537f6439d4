/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/live/usdt_rows.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/live/support.h"

char *usdt_read(const struct ksymfs *fs, pid_t pid, const char *name)
{
	char *text = ksymfs_read(fs, NULL, "usdt/%d/%s", pid, name), *to = text;

	for (char *line = text, *end; *line; line = end) {
		end = strchrnul(line, '\n');
		end += *end == '\n';
		if (memmem(line, end - line, "/libstdc++.so", 13))
			continue;
		memmove(to, line, end - line);
		to += end - line;
	}
	*to = '\0';
	return text;
}

/* Cuts `KEY=VALUE ` from the line. */
static char *take_value(char **line, const char *key)
{
	size_t len = strlen(key);
	char *value = *line + len + 1;

	if (strncmp(*line, key, len) != 0 || (*line)[len] != '=')
		fail_msg("no %s= at %s", key, *line);
	char *end = strchr(value, ' ');

	assert_non_null(end);
	*end = '\0';
	*line = end + 1;
	return value;
}

static uint64_t take_hex(char **line, const char *key)
{
	char *value = take_value(line, key), *end;

	if (strcmp(value, "-") == 0)
		return UINT64_MAX;
	assert_true(strncmp(value, "0x", 2) == 0);
	uint64_t number = strtoull(value, &end, 16);

	assert_int_equal(*end, '\0');
	return number;
}

static struct usdt_row parse_row(char *line)
{
	struct usdt_row row = {.probe = line};

	line = strchr(line, ' ');
	assert_non_null(line);
	*line++ = '\0';
	row.object = take_value(&line, "object");
	row.kind = take_value(&line, "kind");
	row.pc = take_hex(&line, "pc");
	row.offset = take_hex(&line, "offset");
	row.semaphore = take_hex(&line, "semaphore");
	row.semaphore_offset = take_hex(&line, "semaphore_offset");
	if (strncmp(line, "invalid=", 8) == 0)
		row.invalid = take_value(&line, "invalid");
	assert_int_equal(strncmp(line, "args=", 5), 0);
	row.args = line + 5;
	return row;
}

struct usdt_rows usdt_rows_of(const char *notes, const char *object)
{
	struct usdt_rows rows = {.text = strdup(notes)};
	char *cursor = rows.text, *line;

	assert_non_null(rows.text);
	while ((line = next_line(&cursor))) {
		struct usdt_row row = parse_row(line);

		if (strcmp(row.object, object) != 0)
			continue;
		assert_true(rows.count < USDT_ROWS_MAX);
		rows.rows[rows.count++] = row;
	}
	return rows;
}

void usdt_rows_deinit(struct usdt_rows *rows)
{
	free(rows->text);
}

const struct usdt_row *usdt_row(const struct usdt_rows *rows, const char *probe, size_t nth)
{
	for (size_t i = 0; i < rows->count; i++)
		if (strcmp(rows->rows[i].probe, probe) == 0 && nth-- == 0)
			return &rows->rows[i];
	return NULL;
}

char *kstest_path(const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", getenv("KSYMFS_USDT"), name) > 0);
	return path;
}

void assert_nop(const char *path, uint64_t offset)
{
#ifdef __aarch64__
	static const unsigned char nop[] = {0x1f, 0x20, 0x03, 0xd5};
#else
	static const unsigned char nop[] = {0x90};
#endif
	unsigned char code[sizeof(nop)];
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_int_equal(pread(fd, code, sizeof(code), offset), sizeof(code));
	assert_memory_equal(code, nop, sizeof(nop));
}

struct program program_start(const char *path)
{
	struct program program;
	int in[2], out[2];
	char c;

	assert_return_code(pipe2(in, O_CLOEXEC), errno);
	assert_return_code(pipe2(out, O_CLOEXEC), errno);
	fflush(NULL);
	program.pid = fork();
	assert_true(program.pid >= 0);
	if (program.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(path, path, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	program.stdin_fd = in[1];
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	return program;
}

void program_stop(struct program *program)
{
	int status;

	close(program->stdin_fd);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	assert_int_equal(status, 0);
}

void assert_whole_provider(const struct ksymfs *fs, pid_t pid, const char *path, const char *kind)
{
	_cleanup_free_ char *notes = usdt_read(fs, pid, "notes");
	struct usdt_rows rows = usdt_rows_of(notes, path);

	assert_int_equal(rows.count, 5);
	assert_non_null(usdt_row(&rows, "kstest:plain", 0));
	assert_non_null(usdt_row(&rows, "kstest:args", 0));
	assert_non_null(usdt_row(&rows, "kstest:twice", 0));
	assert_non_null(usdt_row(&rows, "kstest:twice", 1));
	assert_non_null(usdt_row(&rows, "kstest:counted", 0));
	for (size_t i = 0; i < rows.count; i++) {
		const struct usdt_row *row = &rows.rows[i];

		assert_string_equal(row->kind, kind);
		assert_null(row->invalid);
		/* The path opens as written, and leads to the nop. */
		assert_nop(row->object, row->offset);
	}
	usdt_rows_deinit(&rows);
}
