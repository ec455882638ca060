/* libdbus: calls with dbus_connection_send_with_reply_and_block, and receives in a loop of dbus_connection_read_write_dispatch, which
 * hands messages to a registered object (server) or a filter (subscriber). */
#include "client.h"

#include <dbus/dbus.h>

struct client {
    struct common common;
    DBusConnection *bus;
    /* The message whose bytes were handed out last: a reply, a call that may be replied to, or a signal. */
    DBusMessage *held;
};

unsigned client_abi(void) { return CLIENT_ABI; }

const char *client_version(void) {
    static char version[32];
    int major, minor, micro;
    dbus_get_version(&major, &minor, &micro);
    snprintf(version, sizeof version, "%d.%d.%d", major, minor, micro);
    return version;
}

static int ended(struct client *client, DBusError *error) {
    int is_open = dbus_connection_get_is_connected(client->bus);
    failed(&client->common, "%s: %s", error->name ? error->name : "libdbus", error->message ? error->message : "no memory");
    dbus_error_free(error);
    return is_open ? FAILED : CLOSED;
}

static void release(struct client *client) {
    if (client->held) dbus_message_unref(client->held);
    client->held = NULL;
}

static DBusHandlerResult on_message(DBusConnection *bus, DBusMessage *message, void *data) {
    struct client *client = data;
    (void)bus;
    int is_ours = client->common.role == SERVER ? dbus_message_is_method_call(message, LAB_INTERFACE, LAB_MEMBER)
                                                : dbus_message_is_signal(message, LAB_INTERFACE, LAB_MEMBER);
    if (!is_ours) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    client->held = dbus_message_ref(message);
    return DBUS_HANDLER_RESULT_HANDLED;
}

static int open_bus(struct client *client, const char *address) {
    DBusError error = DBUS_ERROR_INIT;
    client->bus = dbus_connection_open_private(address, &error);
    if (!client->bus) {
        failed(&client->common, "%s", error.message);
        dbus_error_free(&error);
        return FAILED;
    }
    if (!dbus_bus_register(client->bus, &error)) return ended(client, &error);
    dbus_connection_set_exit_on_disconnect(client->bus, FALSE);
    static const DBusObjectPathVTable object = {.message_function = on_message};
    if (client->common.role == SERVER && !dbus_connection_register_object_path(client->bus, LAB_PATH, &object, client))
        return failed(&client->common, "no memory for an object");
    if (client->common.role == SUBSCRIBER) {
        if (!dbus_connection_add_filter(client->bus, on_message, client, NULL)) return failed(&client->common, "no memory for a filter");
        const char *rule = "type='signal',interface='" LAB_INTERFACE "',member='" LAB_MEMBER "',path='" LAB_PATH "'";
        dbus_bus_add_match(client->bus, rule, &error);
        if (dbus_error_is_set(&error)) return ended(client, &error);
    }
    return OK;
}

struct client *client_open(const char *address, int role, const char *partner, int *result) {
    /* Roles may be threads of one process. */
    dbus_threads_init_default();
    struct client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    *result = set_up(&client->common, role, partner);
    if (*result == OK) *result = open_bus(client, address);
    return client;
}

const char *client_name(const struct client *client) { return dbus_bus_get_unique_name(client->bus); }

static DBusMessage *new_message(struct client *client) {
    switch (client->common.role) {
    case SERVER: return dbus_message_new_method_return(client->held);
    case EMITTER: return dbus_message_new_signal(LAB_PATH, LAB_INTERFACE, LAB_MEMBER);
    default: return dbus_message_new_method_call(client->common.partner, LAB_PATH, LAB_INTERFACE, LAB_MEMBER);
    }
}

int client_send(struct client *client, const uint8_t *bytes, size_t len) {
    DBusMessage *message = new_message(client);
    if (!message) return failed(&client->common, "no memory for a message");
    release(client);
    int result = OK;
    if (!dbus_message_append_args(message, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, &bytes, (int)len, DBUS_TYPE_INVALID)) {
        result = failed(&client->common, "no memory for %zu bytes", len);
    } else if (client->common.role == CALLER) {
        DBusError error = DBUS_ERROR_INIT;
        client->held = dbus_connection_send_with_reply_and_block(client->bus, message, DBUS_TIMEOUT_USE_DEFAULT, &error);
        if (!client->held) result = ended(client, &error);
    } else {
        if (client->common.role == SENDER) dbus_message_set_no_reply(message, TRUE);
        if (!dbus_connection_send(client->bus, message, NULL)) result = failed(&client->common, "no memory to send");
        /* What the socket did not take: the role may not come back to its loop before the other end has it. */
        else dbus_connection_flush(client->bus);
    }
    dbus_message_unref(message);
    if (result == OK && !dbus_connection_get_is_connected(client->bus)) return CLOSED;
    return result;
}

int client_receive(struct client *client, const uint8_t **bytes, size_t *len) {
    if (client->common.role != CALLER) {
        release(client);
        while (!client->held)
            if (!dbus_connection_read_write_dispatch(client->bus, -1)) return CLOSED;
    }
    if (!client->held) return failed(&client->common, "a reply is taken where no call was made");
    DBusError error = DBUS_ERROR_INIT;
    int count = 0;
    if (!dbus_message_get_args(client->held, &error, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, bytes, &count, DBUS_TYPE_INVALID))
        return ended(client, &error);
    *len = (size_t)count;
    return OK;
}

int client_ask(struct client *client, const char *member, const char *argument) {
    DBusMessage *call = dbus_message_new_method_call(DRIVER, DRIVER_PATH, DRIVER, member);
    if (!call || (argument && !dbus_message_append_args(call, DBUS_TYPE_STRING, &argument, DBUS_TYPE_INVALID))) {
        if (call) dbus_message_unref(call);
        return failed(&client->common, "no memory for a call");
    }
    DBusError error = DBUS_ERROR_INIT;
    DBusMessage *reply = dbus_connection_send_with_reply_and_block(client->bus, call, DBUS_TIMEOUT_USE_DEFAULT, &error);
    dbus_message_unref(call);
    if (!reply) return ended(client, &error);
    dbus_message_unref(reply);
    return OK;
}

const char *client_error(const struct client *client) { return client->common.error; }

void client_close(struct client *client) {
    release(client);
    if (client->bus) {
        dbus_connection_close(client->bus);
        dbus_connection_unref(client->bus);
    }
    free(client);
}
