/* What the adapters of libraries share: a socket between the ends, which they meet on when nothing is timed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../weighbridge-target.h"

static inline int create(const struct weighbridge_case *of, struct weighbridge_resources *ends) {
    int pair[2];
    (void)of;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return errno;
    ends[0].fd_count = ends[1].fd_count = 1, ends[0].fds[0] = pair[0], ends[1].fds[0] = pair[1];
    return 0;
}

/* Says a text of 1 to 200 bytes to the other end, and hears one. */
static inline int tell(int meeting, const char *text) {
    return send(meeting, text, strlen(text) + 1, MSG_NOSIGNAL) < 0 ? errno : 0;
}
static inline int hear(int meeting, char text[200]) {
    ssize_t got = recv(meeting, text, 200, 0);
    return got < 0 ? errno : got == 0 ? EPIPE : 0;
}

/* Nothing that was sent needs an end any more when the other one has come so far: it has received all of it. An end that
 * is gone needs nothing. */
static inline int meet(int meeting) {
    char text[200];
    int error = tell(meeting, "settled");
    if (!error) error = hear(meeting, text);
    return error == EPIPE || error == ECONNRESET ? 0 : error;
}
