/* doorbell: each way one place for a message in shared memory, and two eventfds: "there is a message", "there is room".
 *     cc -O2 -shared -fPIC doorbell.c -o libdoorbell.so
 *     weighbridge run --target ./libdoorbell.so roundtrip/doorbell roundtrip/ring-eventfd roundtrip/pipe */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "weighbridge-target.h"

enum { LINE = 64 };                                /* the length lies at the beginning of a way, the message a line further */
struct way { int message, room, lent; char *memory; };
struct end { struct way out, in; };

static size_t way_bytes(const struct weighbridge_case *of) { return 2 * LINE + of->payload_bytes / LINE * LINE; }
static int ring(int bell) { return eventfd_write(bell, 1) ? errno : 0; }
static int hear(int bell) { eventfd_t count; return eventfd_read(bell, &count) ? errno : 0; }

static int create(const struct weighbridge_case *of, struct weighbridge_resources *ends) {
    int memory = memfd_create("doorbell", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t)(2 * way_bytes(of)))) return errno;
    int bells[4] = {eventfd(0, 0), eventfd(1, 0), eventfd(0, 0), eventfd(1, 0)}; /* at first there is room */
    memcpy(ends[0].fds, (int[]){memory, bells[0], bells[1], bells[2], bells[3]}, sizeof(int[5]));
    memcpy(ends[1].fds, (int[]){memory, bells[2], bells[3], bells[0], bells[1]}, sizeof(int[5]));
    ends[0].fd_count = ends[1].fd_count = 5;
    return bells[0] < 0 || bells[1] < 0 || bells[2] < 0 || bells[3] < 0 ? EMFILE : 0;
}
static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **made) {
    const int *fds = from->fds, flags = MAP_SHARED | MAP_POPULATE;
    char *memory = mmap(NULL, 2 * way_bytes(of), PROT_READ | PROT_WRITE, flags, fds[0], 0), *other = memory + way_bytes(of);
    struct end *end = malloc(sizeof *end);
    if (!end || memory == MAP_FAILED) return errno;
    end->out = (struct way){fds[1], fds[2], 0, side == WEIGHBRIDGE_NEAR ? memory : other};
    end->in = (struct way){fds[3], fds[4], 0, side == WEIGHBRIDGE_NEAR ? other : memory};
    return *made = end, close(fds[0]) ? errno : 0;
}
static int loan(void *end, size_t bytes, void **data, size_t *room) {
    struct way *out = &((struct end *)end)->out;
    int error = out->lent ? 0 : hear(out->room); /* what was lent and not sent is lent again */
    return *data = out->memory + LINE, *room = bytes, out->lent = !error, error;
}
static int commit(void *end, void *data, size_t bytes) {
    return memcpy((char *)data - LINE, &bytes, sizeof bytes), ((struct end *)end)->out.lent = 0, ring(((struct end *)end)->out.message);
}
static int take(void *end, size_t expected_bytes, const void **data, size_t *bytes) {
    struct way *in = &((struct end *)end)->in;
    int error = hear(in->message);
    return (void)expected_bytes, *data = in->memory + LINE, memcpy(bytes, in->memory, sizeof *bytes), error;
}
static int release(void *end, const void *data) { return (void)data, ring(((struct end *)end)->in.room); }

const struct weighbridge_target weighbridge_targets[] = {{
    .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .name = "doorbell", .waits = "block",
    .about = "one place for a message in shared memory each way, and eventfds", .measured_version = "1", .to_itself_bytes = SIZE_MAX,
    .capabilities = WEIGHBRIDGE_DUPLEX | WEIGHBRIDGE_ZERO_COPY, .create = create, .attach = attach, .loan = loan, .commit = commit,
    .take = take, .release = release,
}, {0}};
