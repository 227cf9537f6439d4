/* SPDX-License-Identifier: GPL-2.0-or-later */
/* USDT probes of pinned processes: see pinusdt.h. */
#include "core/pinusdt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static int read_maps(void *data, struct text *text)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	int r = pin_last_text(data, PIN_MAPS, &snapshot);

	if (r < 0)
		return r;
	char *at = text_reserve(text, snapshot_size(snapshot));

	if (!at)
		return -ENOMEM;
	text->len += snapshot_read(snapshot, 0, at, snapshot_size(snapshot));
	return 0;
}

static int open_mapped(void *data, const struct mapping *mapping, dev_t own_dev,
		       struct mapped_file *ret)
{
	_cleanup_held_file_ struct held_file *file = NULL;
	char name[MAP_FILES_NAME_SIZE];

	mapping_name(mapping, name);
	int r = pin_mapped_file(data, name, &file);

	if (r < 0)
		return r;
	int fd = fcntl(held_file_fd(file), F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : mapped_file_from_fd(fd, own_dev, ret);
}

static int open_memory(void *data)
{
	int fd, r = pin_open_memory(data, &fd);

	return r < 0 ? r : fd;
}

static void release(void *data)
{
	pin_unref(data);
}

int pin_usdt_source(struct pin *pin, const char *name, struct usdt_source *ret)
{
	static const struct usdt_source_ops ops = {
		.maps = read_maps,
		.open = open_mapped,
		.open_memory = open_memory,
		.release = release,
	};

	pin_look(pin, PIN_LOOK_MAPS);
	if (pin_is_released(pin))
		return -ESTALE;
	*ret = (struct usdt_source){
		.ops = &ops,
		.data = pin_ref(pin),
		.key = pin_start_ticks(pin) << 22 ^ pin_pid(pin),
	};
	/* As files of /proc are named while there is such a process, of this tree once there is
	 * not. */
	if (pin_is_alive(pin))
		snprintf(ret->map_files, sizeof(ret->map_files), "/proc/%d/map_files/",
			 pin_pid(pin));
	else
		snprintf(ret->map_files, sizeof(ret->map_files), "pins/%s/map_files/", name);
	return 0;
}
