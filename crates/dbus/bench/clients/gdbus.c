/* GDBus, of GLib: calls with g_dbus_connection_call_sync, and receives in a main context of its own, which hands calls to a registered
 * object (server) and signals to a subscription (subscriber). The library reads and writes the socket in a thread of its own. */
#include "client.h"

#include <gio/gio.h>

struct client {
    struct common common;
    GMainContext *context;
    GDBusConnection *bus;
    gboolean is_closed;
    /* One turn of the main context may bring several: the arguments of each, and the invocation of a call. */
    GQueue parameters, invocations;
    /* What was handed out last: the array, and the call that may be replied to. */
    GVariant *array;
    GDBusMethodInvocation *invocation;
};

unsigned client_abi(void) { return CLIENT_ABI; }

const char *client_version(void) {
    static char version[32];
    snprintf(version, sizeof version, "%u.%u.%u", glib_major_version, glib_minor_version, glib_micro_version);
    return version;
}

static int ended(struct client *client, GError *error) {
    failed(&client->common, "%s", error->message);
    int is_closed = g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CLOSED) || (client->bus && g_dbus_connection_is_closed(client->bus));
    g_error_free(error);
    return is_closed ? CLOSED : FAILED;
}

static void release(struct client *client) {
    g_clear_pointer(&client->array, g_variant_unref);
    g_clear_object(&client->invocation);
}

static void on_call(GDBusConnection *bus, const gchar *sender, const gchar *path, const gchar *interface, const gchar *member,
                    GVariant *parameters, GDBusMethodInvocation *invocation, gpointer data) {
    struct client *client = data;
    (void)bus, (void)sender, (void)path, (void)interface, (void)member;
    g_queue_push_tail(&client->parameters, g_variant_ref(parameters));
    g_queue_push_tail(&client->invocations, invocation);
}

static void on_signal(GDBusConnection *bus, const gchar *sender, const gchar *path, const gchar *interface, const gchar *member,
                      GVariant *parameters, gpointer data) {
    struct client *client = data;
    (void)bus, (void)sender, (void)path, (void)interface, (void)member;
    g_queue_push_tail(&client->parameters, g_variant_ref(parameters));
}

static void on_closed(GDBusConnection *bus, gboolean by_peer, GError *error, gpointer data) {
    struct client *client = data;
    (void)bus, (void)by_peer, (void)error;
    client->is_closed = TRUE;
}

static const char introspection[] = "<node><interface name='" LAB_INTERFACE "'><method name='" LAB_MEMBER
                                    "'><arg type='ay' direction='in'/><arg type='ay' direction='out'/></method></interface></node>";

static GVariant *call_driver(struct client *client, const char *member, GVariant *arguments, GError **error) {
    return g_dbus_connection_call_sync(client->bus, DRIVER, DRIVER_PATH, DRIVER, member, arguments, NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL,
                                       error);
}

static int open_bus(struct client *client, const char *address) {
    static const GDBusInterfaceVTable object = {.method_call = on_call};
    GError *error = NULL;
    client->bus = g_dbus_connection_new_for_address_sync(
        address, G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION, NULL, NULL, &error);
    if (!client->bus) return ended(client, error);
    g_signal_connect(client->bus, "closed", G_CALLBACK(on_closed), client);
    if (client->common.role == SERVER) {
        GDBusNodeInfo *node = g_dbus_node_info_new_for_xml(introspection, &error);
        if (!node) return ended(client, error);
        guint id = g_dbus_connection_register_object(client->bus, LAB_PATH, node->interfaces[0], &object, client, NULL, &error);
        g_dbus_node_info_unref(node);
        if (!id) return ended(client, error);
    }
    if (client->common.role == SUBSCRIBER) {
        g_dbus_connection_signal_subscribe(client->bus, NULL, LAB_INTERFACE, LAB_MEMBER, LAB_PATH, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                           on_signal, client, NULL);
        /* The subscription is sent and not waited for. The broker has it once it answers a later call. */
        GVariant *reply = call_driver(client, "GetId", NULL, &error);
        if (!reply) return ended(client, error);
        g_variant_unref(reply);
    }
    return OK;
}

struct client *client_open(const char *address, int role, const char *partner, int *result) {
    struct client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    g_queue_init(&client->parameters);
    g_queue_init(&client->invocations);
    *result = set_up(&client->common, role, partner);
    client->context = g_main_context_new();
    g_main_context_push_thread_default(client->context);
    if (*result == OK) *result = open_bus(client, address);
    return client;
}

const char *client_name(const struct client *client) { return g_dbus_connection_get_unique_name(client->bus); }

int client_send(struct client *client, const uint8_t *bytes, size_t len) {
    const char *partner = client->common.partner;
    GVariant *body = g_variant_new("(@ay)", g_variant_new_fixed_array(G_VARIANT_TYPE_BYTE, bytes, len, 1));
    GError *error = NULL;
    switch (client->common.role) {
    case CALLER: {
        release(client);
        GVariant *reply = g_dbus_connection_call_sync(client->bus, partner, LAB_PATH, LAB_INTERFACE, LAB_MEMBER, body,
                                                      G_VARIANT_TYPE("(ay)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
        if (!reply) return ended(client, error);
        client->array = g_variant_get_child_value(reply, 0);
        g_variant_unref(reply);
        return OK;
    }
    case SERVER:
        g_dbus_method_invocation_return_value(g_steal_pointer(&client->invocation), body);
        return client->is_closed ? CLOSED : OK;
    case EMITTER:
        if (!g_dbus_connection_emit_signal(client->bus, NULL, LAB_PATH, LAB_INTERFACE, LAB_MEMBER, body, &error))
            return ended(client, error);
        return OK;
    default:
        /* Without a callback the call says that it wants no reply. */
        g_dbus_connection_call(client->bus, partner, LAB_PATH, LAB_INTERFACE, LAB_MEMBER, body, NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL,
                               NULL, NULL);
        return g_dbus_connection_is_closed(client->bus) ? CLOSED : OK;
    }
}

int client_receive(struct client *client, const uint8_t **bytes, size_t *len) {
    if (client->common.role != CALLER) {
        release(client);
        while (g_queue_is_empty(&client->parameters)) {
            if (client->is_closed) return CLOSED;
            g_main_context_iteration(client->context, TRUE);
        }
        GVariant *parameters = g_queue_pop_head(&client->parameters);
        client->invocation = g_queue_pop_head(&client->invocations);
        if (g_variant_is_of_type(parameters, G_VARIANT_TYPE("(ay)"))) client->array = g_variant_get_child_value(parameters, 0);
        g_variant_unref(parameters);
    }
    if (!client->array) return failed(&client->common, "a message without an array of bytes, or a reply without a call");
    gsize count = 0;
    *bytes = g_variant_get_fixed_array(client->array, &count, 1);
    *len = count;
    return OK;
}

int client_ask(struct client *client, const char *member, const char *argument) {
    GError *error = NULL;
    GVariant *reply = call_driver(client, member, argument ? g_variant_new("(s)", argument) : NULL, &error);
    if (!reply) return ended(client, error);
    g_variant_unref(reply);
    return OK;
}

const char *client_error(const struct client *client) { return client->common.error; }

void client_close(struct client *client) {
    release(client);
    g_queue_clear_full(&client->parameters, (GDestroyNotify)g_variant_unref);
    g_queue_clear_full(&client->invocations, g_object_unref);
    if (client->bus) {
        g_signal_handlers_disconnect_by_data(client->bus, client);
        g_dbus_connection_close_sync(client->bus, NULL, NULL);
        g_object_unref(client->bus);
    }
    g_main_context_pop_thread_default(client->context);
    g_main_context_unref(client->context);
    free(client);
}
