/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What systemd wants to be told by a service of Type=notify: sd_notify(3), without its library. */
#ifndef FS_NOTIFY_H
#define FS_NOTIFY_H

/*
 * Sends a state, such as "READY=1", to $NOTIFY_SOCKET. Without one, or if nobody takes it, nothing
 * happens: the service manager then gives up on its own terms.
 */
void notify_manager(const char *state);

#endif
