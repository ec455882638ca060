/* One mechanism over a pair of sockets, and the same with one defect each: its name says which. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "weighbridge-target.h"

struct end { int socket; int count; char out[4096], in[4096]; };

static int crash(void) { *(volatile int *)16 = 0; return 0; }

static int create(const struct weighbridge_case *of, struct weighbridge_resources *ends) {
    struct weighbridge_resources *a = &ends[0], *b = &ends[1];
    int pair[2];
    (void)of;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) return errno;
    a->fd_count = b->fd_count = 1, a->fds[0] = pair[0], b->fds[0] = pair[1];
    a->byte_count = b->byte_count = 3, memcpy(a->bytes, "abc", 3), memcpy(b->bytes, "def", 3);
    return 0;
}
#define CREATE(name, does) static int create_##name(const struct weighbridge_case *of, struct weighbridge_resources *ends) { \
    int error = create(of, ends); does; return error; }
CREATE(crash, crash())
CREATE(exit, _exit(0))
CREATE(hang, for (;;) pause())
CREATE(refuse, error = EACCES)
CREATE(closed, ends->fds[0] = 99)
CREATE(many, ends->fd_count = 1000)
/* A process that nobody waits for, of a session of its own, with nothing of the run open. */
static void leave(void) { if (!fork()) { setsid(), closefrom(0); for (;;) pause(); } }
CREATE(leave, leave())
#ifdef SELF
CREATE(change, if (system("echo >> " SELF)) error = EIO)
#endif

static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **end) {
    struct end *made = calloc(1, sizeof *made);
    (void)of;
    made->socket = from->fds[0], *end = made;
    return from->byte_count == 3 && !memcmp(from->bytes, side == WEIGHBRIDGE_NEAR ? "abc" : "def", 3) ? 0 : EBADMSG;
}
#define ATTACH(name, does) static int attach_##name(const struct weighbridge_case *of, uint32_t side, \
    struct weighbridge_resources *from, void **end) { int error = attach(of, side, from, end); does; return error; }
ATTACH(crash, crash())
ATTACH(exit, _exit(0))
ATTACH(hang, for (;;) pause())
ATTACH(own_error, error = 12345)
ATTACH(leave, leave())
ATTACH(close_all, closefrom(0); for (;;) pause())

static int loan(void *end, size_t bytes, void **data, size_t *room) { return *data = ((struct end *)end)->out, *room = bytes, 0; }
static int loan_short(void *end, size_t bytes, void **data, size_t *room) { return loan(end, bytes, data, room), *room = bytes - 1, 0; }
static int loan_nowhere(void *end, size_t bytes, void **data, size_t *room) { return *data = NULL, *room = bytes, (void)end, 0; }

static int commit(void *end, void *data, size_t bytes) {
    return send(((struct end *)end)->socket, data, bytes, MSG_NOSIGNAL) < 0 ? errno : 0;
}
static int commit_crash(void *end, void *data, size_t bytes) {
    return ++((struct end *)end)->count > 100 ? crash() : commit(end, data, bytes);
}

static int take(void *end, size_t expected, const void **data, size_t *bytes) {
    struct end *of = end;
    ssize_t got = recv(of->socket, of->in, expected ? expected : 1, 0);
    return *data = of->in, *bytes = got > 0 ? (size_t)got : 0, got < 0 ? errno : got == 0 && expected ? EPIPE : 0;
}
#define TAKE(name, does) static int take_##name(void *end, size_t expected, const void **data, size_t *bytes) { \
    int error = take(end, expected, data, bytes); struct end *of = end; (void)of; does; return error; }
TAKE(short, --*bytes)
TAKE(long, ++*bytes)
TAKE(nowhere, *data = NULL)
TAKE(damage, of->in[*bytes - 1] ^= 1)
/* 64 messages are checked before anything is timed; the timed part of a loaded machine may be of a few. */
TAKE(damage_late, if (++of->count > 64) of->in[*bytes - 1] ^= 1)

static int release_fail(void *end, const void *data) { return (void)end, (void)data, EIO; }
static uint64_t position_still(void *end) { return (void)end, 12345; }
static void close_crash(void *end) { (void)end, crash(); }
static const char *error_text(int error) { return error == 12345 ? "the moon is full" : NULL; }

#define SOUND .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .about = "a test", \
    .measured_version = "1", .capabilities = WEIGHBRIDGE_DUPLEX, .waits = "block", .to_itself_bytes = 4096, .create = create, \
    .attach = attach, .loan = loan, .commit = commit, .take = take, .error_text = error_text

#pragma GCC diagnostic ignored "-Woverride-init"
const struct weighbridge_target weighbridge_targets[] = {
    {SOUND, .name = "sound"},
    {SOUND, .name = "create-crash", .create = create_crash}, {SOUND, .name = "create-exit", .create = create_exit},
    {SOUND, .name = "create-hang", .create = create_hang}, {SOUND, .name = "create-refuse", .create = create_refuse},
    {SOUND, .name = "create-closed", .create = create_closed}, {SOUND, .name = "create-many", .create = create_many},
#ifdef SELF
    {SOUND, .name = "change", .create = create_change},
#endif
    {SOUND, .name = "attach-crash", .attach = attach_crash}, {SOUND, .name = "attach-exit", .attach = attach_exit},
    {SOUND, .name = "attach-hang", .attach = attach_hang}, {SOUND, .name = "own-error", .attach = attach_own_error},
    {SOUND, .name = "loan-short", .loan = loan_short}, {SOUND, .name = "loan-nowhere", .loan = loan_nowhere},
    {SOUND, .name = "commit-crash", .commit = commit_crash},
    {SOUND, .name = "take-short", .take = take_short}, {SOUND, .name = "take-long", .take = take_long},
    {SOUND, .name = "take-nowhere", .take = take_nowhere}, {SOUND, .name = "damage", .take = take_damage},
    {SOUND, .name = "damage-late", .take = take_damage_late}, {SOUND, .name = "release-fail", .release = release_fail},
    {SOUND, .name = "close-crash", .close = close_crash}, {SOUND, .name = "position-still", .position = position_still},
    {SOUND, .name = "attach-close-all", .attach = attach_close_all},
    {SOUND, .name = "create-leave", .create = create_leave}, {SOUND, .name = "attach-leave", .attach = attach_leave},
    {0},
};
