/* nng (MIT) with its defaults: a socket of the protocol pair0 at each end. It allocates each message, whose page faults are
 * its own. Debian: libnng-dev. `make` beside this file builds it. Its numbers of errors are its own, and begin at OWN here. */
#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include "rival.h"

enum { OWN = 1000 };
struct end { nng_socket socket; nng_msg *out, *in; int meeting; };

static int check(int error) { return error == NNG_ECLOSED || error == NNG_ECONNRESET ? EPIPE : error ? OWN + error : 0; }

/* Listens where nobody else does; the address is that to dial. */
static int listen_somewhere(nng_socket socket, const struct weighbridge_case *of, char address[200]) {
    nng_listener listener;
    nng_sockaddr at;
    int is_ipc = !strcmp(of->name, "nng-ipc");
    snprintf(address, 200, is_ipc ? "ipc://%s/end" : "tcp://127.0.0.1:0", of->folder);
    int error = nng_listen(socket, address, &listener, 0);
    if (error || is_ipc) return error;
    error = nng_listener_get_addr(listener, NNG_OPT_LOCADDR, &at);
    snprintf(address, 200, "tcp://127.0.0.1:%d", ntohs(at.s_in.sa_port));
    return error;
}

static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **made) {
    char address[200];
    struct end *end = calloc(1, sizeof *end);
    if (!end) return ENOMEM;
    *made = end, end->meeting = from->fds[0];
    int error = nng_pair0_open(&end->socket);
    if (!error && of->payload_bytes > 1 << 20) error = nng_socket_set_size(end->socket, NNG_OPT_RECVMAXSZ, of->payload_bytes);
    if (error) return check(error);
    if (side == WEIGHBRIDGE_FAR) {
        error = hear(end->meeting, address);
        return error ? error : check(nng_dial(end->socket, address, NULL, 0));
    }
    error = listen_somewhere(end->socket, of, address);
    return error ? check(error) : tell(end->meeting, address);
}
static int loan(void *made, size_t bytes, void **data, size_t *room) {
    struct end *end = made;
    if (end->out) nng_msg_free(end->out);
    int error = nng_msg_alloc(&end->out, bytes);
    if (error) return end->out = NULL, check(error);
    return *data = nng_msg_body(end->out), *room = bytes, 0;
}
static int commit(void *made, void *data, size_t bytes) {
    struct end *end = made;
    (void)data, (void)bytes;
    int error = nng_sendmsg(end->socket, end->out, 0);
    if (!error) end->out = NULL;
    return check(error);
}
static int take(void *made, size_t expected_bytes, const void **data, size_t *bytes) {
    struct end *end = made;
    int error = nng_recvmsg(end->socket, &end->in, 0);
    (void)expected_bytes;
    if (error) return check(error);
    return *data = nng_msg_body(end->in), *bytes = nng_msg_len(end->in), 0;
}
static int release(void *end, const void *data) { return (void)data, nng_msg_free(((struct end *)end)->in), 0; }
static int settle(void *end) { return meet(((struct end *)end)->meeting); }
static void finish(void *made) {
    struct end *end = made;
    if (end->out) nng_msg_free(end->out);
    nng_close(end->socket), close(end->meeting), free(end);
}
static const char *error_text(int error) { return error > OWN ? nng_strerror(error - OWN) : NULL; }

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define NNG(its_name, over) { \
    .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .name = its_name, \
    .about = "nng: a socket of the protocol pair0 at each end, over " over, \
    .measured_version = "nng " TEXT(NNG_MAJOR_VERSION) "." TEXT(NNG_MINOR_VERSION) "." TEXT(NNG_PATCH_VERSION), \
    .capabilities = WEIGHBRIDGE_DUPLEX | WEIGHBRIDGE_THREADS | WEIGHBRIDGE_MAPS, .waits = "block", .create = create, .attach = attach, \
    .loan = loan, .commit = commit, .take = take, .release = release, .settle = settle, .close = finish, .error_text = error_text }
const struct weighbridge_target weighbridge_targets[] = {
    NNG("nng-ipc", "a Unix socket"), NNG("nng-tcp", "TCP on the loopback device"), {0}};
