/* Many ends over pairs of sockets, a pair for each receiver or writer; and the same with one defect each: its name says which. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "weighbridge-target.h"

/* The message with this number, from 0, is the first that a defect is about: within a burst of ten that begins with 16. */
enum { DEFECT = 67 };
struct end { uint32_t side, count; int sockets[WEIGHBRIDGE_FDS_MAX]; struct pollfd ready[WEIGHBRIDGE_FDS_MAX]; int sent; char out[4096], kept[4096], in[4096]; };

static int create(const struct weighbridge_case *of, struct weighbridge_resources *ends) {
    for (uint32_t side = 1; side < of->end_count; side++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair)) return errno;
        ends[0].fds[ends[0].fd_count++] = pair[0], ends[side].fds[ends[side].fd_count++] = pair[1];
        ends[side].byte_count = 1, ends[side].bytes[0] = (unsigned char)side;
    }
    return 0;
}
static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **made) {
    struct end *end = calloc(1, sizeof *end);
    if (of->struct_bytes != sizeof *of || from->fd_count != (side ? 1 : of->end_count - 1)) return EBADMSG;
    if (side && (from->byte_count != 1 || from->bytes[0] != side)) return EBADMSG;
    end->side = side, end->count = from->fd_count, memcpy(end->sockets, from->fds, sizeof from->fds);
    for (uint32_t index = 0; index < end->count; index++) end->ready[index] = (struct pollfd){end->sockets[index], POLLIN, 0};
    return *made = end, 0;
}
static int loan(void *end, size_t bytes, void **data, size_t *room) { return *data = ((struct end *)end)->out, *room = bytes, 0; }
static int put(int socket, const void *data, size_t bytes) { return send(socket, data, bytes, MSG_NOSIGNAL) < 0 ? errno : 0; }
static int commit(void *made, void *data, size_t bytes) {
    struct end *end = made;
    int error = 0;
    end->sent++;
    for (uint32_t index = 0; index < end->count && !error; index++) error = put(end->sockets[index], data, bytes);
    return error;
}
/* Of the sender the second receiver, of a writer its only reader; where there is a second writer, it alone. */
static int is_odd(const struct end *end, uint32_t index) { return end->side == 2 || (end->side == 0 && index == 1); }
#define COMMIT(name, does) static int commit_##name(void *made, void *data, size_t bytes) { \
    struct end *end = made; int error = 0, number = end->sent++; \
    for (uint32_t index = 0; index < end->count && !error; index++) { \
        int socket = end->sockets[index]; \
        if (is_odd(end, index) && number >= DEFECT) { does; } else error = put(socket, data, bytes); \
    } return error; }
COMMIT(lose, if (number > DEFECT) error = put(socket, data, bytes))
COMMIT(twice, error = put(socket, data, bytes); if (number == DEFECT && !error) error = put(socket, data, bytes))
COMMIT(damage, ((char *)data)[bytes - 1] ^= number == DEFECT; error = put(socket, data, bytes); ((char *)data)[bytes - 1] ^= number == DEFECT)
COMMIT(swap, if (number == DEFECT) memcpy(end->kept, data, bytes); else { error = put(socket, data, bytes);
    if (number == DEFECT + 1 && !error) error = put(socket, end->kept, bytes); })
static int take(void *made, size_t expected, const void **data, size_t *bytes) {
    struct end *end = made;
    ssize_t got = -1;
    while (got < 0) {
        if (poll(end->ready, end->count, -1) < 0 && errno != EINTR) return errno;
        for (uint32_t index = 0; index < end->count && got < 0; index++)
            if (end->ready[index].revents) got = recv(end->sockets[index], end->in, expected, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR) return errno;
    }
    return *data = end->in, *bytes = (size_t)got, got == 0 && expected ? EPIPE : 0;
}

#define SOUND .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .about = "a test", \
    .measured_version = "1", .waits = "block", .create = create, .attach = attach, .loan = loan, .commit = commit, .take = take, \
    .capabilities = WEIGHBRIDGE_FAN_OUT | WEIGHBRIDGE_FAN_IN

#pragma GCC diagnostic ignored "-Woverride-init"
const struct weighbridge_target weighbridge_targets[] = {
    {SOUND, .name = "fans"},
    {SOUND, .name = "lose", .commit = commit_lose}, {SOUND, .name = "twice", .commit = commit_twice},
    {SOUND, .name = "damage", .commit = commit_damage}, {SOUND, .name = "swap", .commit = commit_swap},
    {SOUND, .name = "only-out", .capabilities = WEIGHBRIDGE_FAN_OUT}, {SOUND, .name = "neither", .capabilities = WEIGHBRIDGE_DUPLEX},
    {0},
};
