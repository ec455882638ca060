/* sd-bus, of libsystemd: calls with sd_bus_call, and receives in a loop of sd_bus_process and sd_bus_wait, which hands messages to a
 * method of a vtable (server) or a match (subscriber). */
#include "client.h"

#include <errno.h>
#include <systemd/sd-bus.h>

struct client {
    struct common common;
    sd_bus *bus;
    const char *name;
    /* The message whose bytes were handed out last: a reply, a call that may be replied to, or a signal. */
    sd_bus_message *held;
};

unsigned client_abi(void) { return CLIENT_ABI; }

/* The library does not tell its own: the one that this was compiled for. */
const char *client_version(void) { return LIBRARY_VERSION; }

static int ended(struct client *client, int error, const char *what) {
    failed(&client->common, "%s: %s", what, strerror(-error));
    return error == -ENOTCONN || error == -ECONNRESET || error == -EPIPE ? CLOSED : FAILED;
}

static int ended_with(struct client *client, int result, sd_bus_error *error) {
    int is_open = sd_bus_is_open(client->bus) > 0;
    failed(&client->common, "%s: %s", error->name ? error->name : strerror(-result), error->message ? error->message : "");
    sd_bus_error_free(error);
    return is_open ? FAILED : CLOSED;
}

static void release(struct client *client) { client->held = sd_bus_message_unref(client->held); }

static int on_message(sd_bus_message *message, void *data, sd_bus_error *error) {
    struct client *client = data;
    (void)error;
    client->held = sd_bus_message_ref(message);
    return 1;
}

static const sd_bus_vtable object[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD(LAB_MEMBER, "ay", "ay", on_message, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

static int open_bus(struct client *client, const char *address) {
    int result = sd_bus_new(&client->bus);
    if (result >= 0) result = sd_bus_set_address(client->bus, address);
    if (result >= 0) result = sd_bus_set_bus_client(client->bus, 1);
    /* As sd_bus_open_user: a call of another user's process is no question of rights here. */
    if (result >= 0) result = sd_bus_set_trusted(client->bus, 1);
    if (result >= 0) result = sd_bus_start(client->bus);
    /* Waits for the answer to Hello. */
    if (result >= 0) result = sd_bus_get_unique_name(client->bus, &client->name);
    if (result >= 0 && client->common.role == SERVER)
        result = sd_bus_add_object_vtable(client->bus, NULL, LAB_PATH, LAB_INTERFACE, object, client);
    if (result >= 0 && client->common.role == SUBSCRIBER)
        result = sd_bus_match_signal(client->bus, NULL, NULL, LAB_PATH, LAB_INTERFACE, LAB_MEMBER, on_message, client);
    return result < 0 ? ended(client, result, "connecting") : OK;
}

struct client *client_open(const char *address, int role, const char *partner, int *result) {
    struct client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    *result = set_up(&client->common, role, partner);
    if (*result == OK) *result = open_bus(client, address);
    return client;
}

const char *client_name(const struct client *client) { return client->name; }

static int new_message(struct client *client, sd_bus_message **message) {
    switch (client->common.role) {
    case SERVER: return sd_bus_message_new_method_return(client->held, message);
    case EMITTER: return sd_bus_message_new_signal(client->bus, message, LAB_PATH, LAB_INTERFACE, LAB_MEMBER);
    default:
        return sd_bus_message_new_method_call(client->bus, message, client->common.partner, LAB_PATH, LAB_INTERFACE, LAB_MEMBER);
    }
}

int client_send(struct client *client, const uint8_t *bytes, size_t len) {
    sd_bus_message *message = NULL;
    int result = new_message(client, &message);
    release(client);
    if (result >= 0) result = sd_bus_message_append_array(message, 'y', bytes, len);
    if (result >= 0 && client->common.role == CALLER) {
        sd_bus_error error = SD_BUS_ERROR_NULL;
        result = sd_bus_call(client->bus, message, 0, &error, &client->held);
        if (result < 0) {
            sd_bus_message_unref(message);
            return ended_with(client, result, &error);
        }
    } else if (result >= 0) {
        if (client->common.role == SENDER) result = sd_bus_message_set_expect_reply(message, 0);
        if (result >= 0) result = sd_bus_send(client->bus, message, NULL);
        /* What the socket did not take: the role may not come back to its loop before the other end has it. */
        if (result >= 0) result = sd_bus_flush(client->bus);
    }
    sd_bus_message_unref(message);
    return result < 0 ? ended(client, result, "sending") : OK;
}

int client_receive(struct client *client, const uint8_t **bytes, size_t *len) {
    if (client->common.role != CALLER) {
        release(client);
        while (!client->held) {
            int result = sd_bus_process(client->bus, NULL);
            if (result == 0) result = sd_bus_wait(client->bus, UINT64_MAX);
            if (result < 0 && result != -EINTR) return ended(client, result, "receiving");
        }
    }
    if (!client->held) return failed(&client->common, "a reply is taken where no call was made");
    const void *array = NULL;
    int result = sd_bus_message_read_array(client->held, 'y', &array, len);
    if (result < 0) return ended(client, result, "a message that is no array of bytes");
    *bytes = array;
    return OK;
}

int client_ask(struct client *client, const char *member, const char *argument) {
    sd_bus_error error = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;
    int result = argument ? sd_bus_call_method(client->bus, DRIVER, DRIVER_PATH, DRIVER, member, &error, &reply, "s", argument)
                          : sd_bus_call_method(client->bus, DRIVER, DRIVER_PATH, DRIVER, member, &error, &reply, NULL);
    sd_bus_message_unref(reply);
    return result < 0 ? ended_with(client, result, &error) : OK;
}

const char *client_error(const struct client *client) { return client->common.error; }

void client_close(struct client *client) {
    release(client);
    if (client->bus) sd_bus_close_unref(client->bus);
    free(client);
}
