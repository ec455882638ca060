/* What a library of D-Bus does for one role of the laboratory: the functions that `src/libraries/loaded.rs` loads. Each library has one file
 * beside this one, which is compiled to one shared object.
 *
 * Functions that return int return OK, FAILED (the words are in client_error) or CLOSED (the broker has closed the connection).
 */
#ifndef WEIGHBRIDGE_CLIENT_H
#define WEIGHBRIDGE_CLIENT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Raised with every change of what is declared here. */
#define CLIENT_ABI 1

/* The object, interface and member of every message, as in src/client.rs. */
#define LAB_PATH "/org/weighbridge/Lab"
#define LAB_INTERFACE "org.weighbridge.Lab"
#define LAB_MEMBER "Carry"

#define DRIVER "org.freedesktop.DBus"
#define DRIVER_PATH "/org/freedesktop/DBus"

enum { OK = 0, FAILED = 1, CLOSED = 2 };

/* What the role does, as `Role` in src/libraries/mod.rs. */
enum role {
    CALLER = 0,     /* calls, and waits for the reply */
    SENDER = 1,     /* calls that want no reply */
    SERVER = 2,     /* is called, and replies */
    EMITTER = 3,    /* emits signals */
    SUBSCRIBER = 4, /* receives them */
    ASKER = 5,      /* calls the broker itself */
};

struct client;

unsigned client_abi(void);
/* Of the library. */
const char *client_version(void);
/* Connects, says Hello, and registers what the role needs. `partner` is the unique name that a caller or sender calls. The client is
 * there after a failure too, for client_error; NULL where there is no memory for it. */
struct client *client_open(const char *address, int role, const char *partner, int *result);
/* Unique name of the connection. */
const char *client_name(const struct client *client);
/* A caller calls and waits for the reply, a server replies to the call that it received last, others send and do not wait. */
int client_send(struct client *client, const uint8_t *bytes, size_t len);
/* A caller's reply; of others the next message, waiting for it. The bytes are valid until the next call of a function here. */
int client_receive(struct client *client, const uint8_t **bytes, size_t *len);
/* Calls a method of the broker, with a string or none (NULL), and waits for its reply. */
int client_ask(struct client *client, const char *member, const char *argument);
const char *client_error(const struct client *client);
void client_close(struct client *client);

/* The beginning of every struct client. */
struct common {
    enum role role;
    char partner[256];
    char error[512];
};

static inline __attribute__((format(printf, 2, 3))) int failed(struct common *common, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(common->error, sizeof common->error, format, arguments);
    va_end(arguments);
    return FAILED;
}

static inline int set_up(struct common *common, int role, const char *partner) {
    common->role = (enum role)role;
    if (strlen(partner) >= sizeof common->partner) return failed(common, "the name %s is too long", partner);
    strcpy(common->partner, partner);
    return OK;
}

#endif
