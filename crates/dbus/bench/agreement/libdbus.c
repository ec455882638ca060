/* A method call and its reply through a D-Bus broker, over and over, from two processes, by libdbus: an independent check of the case
 * roundtrip/dbus-daemon/…/client=libdbus. Shares no code with the laboratory.
 *
 * libdbus ADDRESS BYTES CPU BROKER: the address of the broker, and its process id. See blocks.h.
 *
 * The server is this program started anew, with the pipe for its name as a fifth argument. After a mere fork both would have the library at the
 * same addresses, as no two programs have; calls then take 4 % less time, and the roles 8 % less CPU time.
 */
#define _GNU_SOURCE
#include "blocks.h"

#include <dbus/dbus.h>

static DBusConnection *bus;
static unsigned char *payload;
static int bytes;
static char server[256];

static void check(DBusError *error, const char *what) {
    if (!dbus_error_is_set(error)) return;
    fprintf(stderr, "%s: %s\n", what, error->message);
    exit(1);
}

static void join(const char *address) {
    DBusError error = DBUS_ERROR_INIT;
    bus = dbus_connection_open_private(address, &error);
    check(&error, "connecting");
    dbus_bus_register(bus, &error);
    check(&error, "Hello");
}

/* The array of a message, every byte of which must be 7. */
static void read_array(DBusMessage *message) {
    DBusError error = DBUS_ERROR_INIT;
    unsigned char *array;
    int count;
    dbus_message_get_args(message, &error, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, &array, &count, DBUS_TYPE_INVALID);
    check(&error, "reading");
    if (count != bytes) exit(1);
    for (int index = 0; index < count; index++)
        if (array[index] != 7) exit(1);
}

static void append_array(DBusMessage *message) {
    memset(payload, 7, bytes);
    if (!dbus_message_append_args(message, DBUS_TYPE_ARRAY, DBUS_TYPE_BYTE, &payload, bytes, DBUS_TYPE_INVALID)) exit(1);
}

static void call(void) {
    DBusError error = DBUS_ERROR_INIT;
    DBusMessage *message = dbus_message_new_method_call(server, "/agreement", "org.weighbridge.Agreement", "Ping");
    append_array(message);
    DBusMessage *reply = dbus_connection_send_with_reply_and_block(bus, message, -1, &error);
    check(&error, "calling");
    dbus_message_unref(message);
    read_array(reply);
    dbus_message_unref(reply);
}

static DBusHandlerResult serve(DBusConnection *connection, DBusMessage *message, void *data) {
    (void)data;
    if (!dbus_message_is_method_call(message, "org.weighbridge.Agreement", "Ping")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    read_array(message);
    DBusMessage *reply = dbus_message_new_method_return(message);
    append_array(reply);
    dbus_connection_send(connection, reply, NULL);
    dbus_message_unref(reply);
    return DBUS_HANDLER_RESULT_HANDLED;
}

static int serve_calls(const char *address, int names) {
    die_with(getppid());
    join(address);
    static const DBusObjectPathVTable object = {.message_function = serve};
    dbus_connection_register_object_path(bus, "/agreement", &object, NULL);
    strncpy(server, dbus_bus_get_unique_name(bus), sizeof server - 1);
    if (write(names, server, sizeof server) != sizeof server) fail("write");
    while (dbus_connection_read_write_dispatch(bus, -1)) {}
    return 1;
}

int main(int count, char **arguments) {
    int is_server = count == 6;
    if (count != 5 && !is_server) { fprintf(stderr, "libdbus ADDRESS BYTES CPU BROKER\n"); return 2; }
    bytes = atoi(arguments[2]);
    payload = malloc(bytes + 1);
    pin(atoi(arguments[3]));
    if (is_server) return serve_calls(arguments[1], atoi(arguments[5]));
    int names[2];
    if (pipe(names)) fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        char name[16];
        snprintf(name, sizeof name, "%d", names[1]);
        execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], name, (char *)NULL);
        fail("exec");
    }
    close(names[1]);
    if (read(names[0], server, sizeof server) != sizeof server) fail("read");
    join(arguments[1]);
    make_blocks(call, child, atoi(arguments[4]));
    return 0;
}
