/* ZeroMQ (libzmq, MPL-2.0) with its defaults: a DEALER at each end, whose messages its I/O thread moves.
 * It allocates each message, whose page faults are its own. Debian: libzmq3-dev. `make` beside this file builds it. */
#include <zmq.h>
#include "rival.h"

struct end { void *context, *socket; zmq_msg_t out, in; int meeting, flags, is_loaned; };

/* Of a call that gives -1 where it fails. */
static int check(int result) { return result >= 0 ? 0 : zmq_errno(); }

static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **made) {
    char address[200];
    size_t size = sizeof address;
    struct end *end = calloc(1, sizeof *end);
    if (!end) return ENOMEM;
    *made = end, end->meeting = from->fds[0];
    end->flags = strcmp(of->wait, "spin") ? 0 : ZMQ_DONTWAIT;
    end->context = zmq_ctx_new();
    end->socket = zmq_socket(end->context, ZMQ_DEALER);
    if (!end->socket) return zmq_errno();
    if (side == WEIGHBRIDGE_FAR) {
        int error = hear(end->meeting, address);
        return error ? error : check(zmq_connect(end->socket, address));
    }
    snprintf(address, sizeof address, strcmp(of->name, "zeromq-ipc") ? "tcp://127.0.0.1:*" : "ipc://%s/end", of->folder);
    if (zmq_bind(end->socket, address) || zmq_getsockopt(end->socket, ZMQ_LAST_ENDPOINT, address, &size)) return zmq_errno();
    return tell(end->meeting, address);
}
static int loan(void *made, size_t bytes, void **data, size_t *room) {
    struct end *end = made;
    if (end->is_loaned) zmq_msg_close(&end->out);
    if (zmq_msg_init_size(&end->out, bytes)) return zmq_errno();
    return end->is_loaned = 1, *data = zmq_msg_data(&end->out), *room = bytes, 0;
}
static int commit(void *made, void *data, size_t bytes) {
    struct end *end = made;
    int error;
    (void)data, (void)bytes;
    do error = check(zmq_msg_send(&end->out, end->socket, end->flags));
    while (error == EINTR || (error == EAGAIN && end->flags));
    return end->is_loaned = !!error, error;
}
static int take(void *made, size_t expected_bytes, const void **data, size_t *bytes) {
    struct end *end = made;
    int error;
    (void)expected_bytes, zmq_msg_init(&end->in);
    do error = check(zmq_msg_recv(&end->in, end->socket, end->flags));
    while (error == EINTR || (error == EAGAIN && end->flags));
    return *data = zmq_msg_data(&end->in), *bytes = zmq_msg_size(&end->in), error;
}
static int release(void *end, const void *data) { return (void)data, check(zmq_msg_close(&((struct end *)end)->in)); }
static int settle(void *end) { return meet(((struct end *)end)->meeting); }
static void finish(void *made) {
    struct end *end = made;
    int linger_ms = 0;
    zmq_setsockopt(end->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(end->socket), zmq_ctx_term(end->context), close(end->meeting), free(end);
}
static int facts(void *end, void (*fact)(void *to, const char *name, const char *value), void *to) {
    int high_water = 0;
    char text[20];
    size_t size = sizeof high_water;
    if (zmq_getsockopt(((struct end *)end)->socket, ZMQ_SNDHWM, &high_water, &size)) return zmq_errno();
    return snprintf(text, sizeof text, "%d", high_water), fact(to, "send_high_water_messages", text), 0;
}
static const char *error_text(int error) { return zmq_strerror(error); }

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define ZEROMQ(its_name, over) { \
    .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .name = its_name, \
    .about = "ZeroMQ: a DEALER socket at each end, over " over, \
    .measured_version = "libzmq " TEXT(ZMQ_VERSION_MAJOR) "." TEXT(ZMQ_VERSION_MINOR) "." TEXT(ZMQ_VERSION_PATCH), \
    .capabilities = WEIGHBRIDGE_DUPLEX | WEIGHBRIDGE_THREADS | WEIGHBRIDGE_MAPS, .waits = "block spin", .create = create, \
    .attach = attach, .loan = loan, .commit = commit, .take = take, .release = release, .settle = settle, .close = finish, \
    .facts = facts, .error_text = error_text }
const struct weighbridge_target weighbridge_targets[] = {
    ZEROMQ("zeromq-ipc", "a Unix socket"), ZEROMQ("zeromq-tcp", "TCP on the loopback device"), {0}};
