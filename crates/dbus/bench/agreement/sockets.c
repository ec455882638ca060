/* A method call and its reply through a D-Bus broker, over and over, from two processes, by nothing but sockets: an independent
 * check of the case roundtrip/dbus-daemon. Shares no code with the laboratory, and writes its messages by its own reading of the
 * D-Bus Specification.
 *
 * sockets SOCKET BYTES CPU BROKER: the name of the broker's socket in the abstract namespace, and its process id. See blocks.h.
 */
#define _GNU_SOURCE
#include "blocks.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct message {
    unsigned char *bytes;
    size_t len;
};

static void align(struct message *out, size_t to) {
    while (out->len % to) out->bytes[out->len++] = 0;
}

static void put_u32(struct message *out, uint32_t number) {
    align(out, 4);
    memcpy(out->bytes + out->len, &number, 4);
    out->len += 4;
}

static void put_field(struct message *out, char code, char type, const char *text, uint32_t number) {
    align(out, 8);
    const char front[] = {code, 1, type, 0};
    memcpy(out->bytes + out->len, front, 4);
    out->len += 4;
    if (type == 'u') {
        put_u32(out, number);
        return;
    }
    if (type == 'g') out->bytes[out->len++] = (unsigned char)strlen(text);
    else put_u32(out, (uint32_t)strlen(text));
    strcpy((char *)out->bytes + out->len, text);
    out->len += strlen(text) + 1;
}

/* type 1: a call of `member`; type 2: a reply to `answered`. The body is an array of `bytes` bytes; no body where bytes < 0. */
static struct message make(int type, const char *destination, const char *member, uint32_t serial, uint32_t answered, long bytes) {
    struct message out = {calloc(1, 512 + (bytes > 0 ? bytes : 0)), 0};
    const char *interface = strcmp(member, "Hello") ? "org.weighbridge.Agreement" : "org.freedesktop.DBus";
    const char *path = strcmp(member, "Hello") ? "/agreement" : "/org/freedesktop/DBus";
    const unsigned char first[] = {'l', (unsigned char)type, 0, 1};
    memcpy(out.bytes, first, 4);
    out.len = 4;
    put_u32(&out, bytes < 0 ? 0 : (uint32_t)(4 + bytes));
    put_u32(&out, serial);
    put_u32(&out, 0);
    size_t fields = out.len;
    if (type == 1) {
        put_field(&out, 1, 'o', path, 0);
        put_field(&out, 2, 's', interface, 0);
        put_field(&out, 3, 's', member, 0);
    } else {
        put_field(&out, 5, 'u', NULL, answered);
    }
    put_field(&out, 6, 's', destination, 0);
    if (bytes >= 0) put_field(&out, 8, 'g', "ay", 0);
    uint32_t fields_len = (uint32_t)(out.len - fields);
    memcpy(out.bytes + 12, &fields_len, 4);
    align(&out, 8);
    if (bytes >= 0) {
        put_u32(&out, (uint32_t)bytes);
        memset(out.bytes + out.len, 7, bytes);
        out.len += bytes;
    }
    return out;
}

static void send_all(int fd, const unsigned char *bytes, size_t len) {
    while (len) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent < 0) fail("send");
        bytes += sent;
        len -= sent;
    }
}

/* The next message of a type; others are passed over. Its bytes stay valid until the next call. */
static unsigned char *receive(int fd, int type, size_t *len) {
    static unsigned char buffer[1 << 20];
    static size_t there, used;
    for (;;) {
        memmove(buffer, buffer + used, there - used);
        there -= used;
        used = 0;
        for (;;) {
            if (there >= 16) {
                uint32_t body, fields;
                memcpy(&body, buffer + 4, 4);
                memcpy(&fields, buffer + 12, 4);
                *len = (16 + fields + 7) / 8 * 8 + body;
                if (there >= *len) break;
            }
            ssize_t got = recv(fd, buffer + there, sizeof buffer - there, 0);
            if (got < 0) fail("recv");
            if (got == 0) { fprintf(stderr, "the broker closed the connection\n"); exit(1); }
            there += got;
        }
        used = *len;
        if (buffer[1] == 3) { fprintf(stderr, "an error came as answer\n"); exit(1); }
        if (buffer[1] == type) return buffer;
    }
}

static int join(const char *name, char *unique) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
    if (connect(fd, (void *)&address, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) fail("connect");
    char line[256], user[32], *end = line;
    snprintf(user, sizeof user, "%u", getuid());
    *end++ = 0;
    end += sprintf(end, "AUTH EXTERNAL ");
    for (char *digit = user; *digit; digit++) end += sprintf(end, "%02x", *digit);
    end += sprintf(end, "\r\n");
    send_all(fd, (unsigned char *)line, end - line);
    if (recv(fd, line, sizeof line, 0) < 2 || strncmp(line, "OK", 2)) fail("authentication");
    send_all(fd, (const unsigned char *)"BEGIN\r\n", 7);
    struct message hello = make(1, "org.freedesktop.DBus", "Hello", 1, 0, -1);
    send_all(fd, hello.bytes, hello.len);
    size_t len;
    unsigned char *reply = receive(fd, 2, &len);
    uint32_t fields, name_len;
    memcpy(&fields, reply + 12, 4);
    size_t body = (16 + fields + 7) / 8 * 8;
    memcpy(&name_len, reply + body, 4);
    memcpy(unique, reply + body + 4, name_len + 1);
    return fd;
}

static int fd;
static struct message message;
static uint32_t serial = 2;
static long bytes;

/* Every byte of the array at the end of a message must be 7. */
static void check(const unsigned char *received, size_t len) {
    for (const unsigned char *at = received + len - bytes; at < received + len; at++)
        if (*at != 7) { fprintf(stderr, "a message is damaged\n"); exit(1); }
}

static void send_message(void) {
    memcpy(message.bytes + 8, &serial, 4);
    serial++;
    memset(message.bytes + message.len - bytes, 7, bytes);
    send_all(fd, message.bytes, message.len);
}

static void call(void) {
    size_t len;
    send_message();
    unsigned char *reply = receive(fd, 2, &len);
    check(reply, len);
}

static void serve(void) {
    char caller[256] = {0};
    size_t len, answered_at = 0;
    for (;;) {
        unsigned char *call = receive(fd, 1, &len);
        check(call, len);
        if (!*caller) {
            /* The sender is a field that the broker added: 7, a string. */
            const unsigned char mark[] = {7, 1, 's', 0};
            unsigned char *field = memmem(call, len, mark, 4);
            if (!field) fail("sender");
            strncpy(caller, (char *)field + 8, sizeof caller - 1);
            message = make(2, caller, "", 0x11223344, 0x55667788, bytes);
            const uint32_t marked = 0x55667788;
            answered_at = (unsigned char *)memmem(message.bytes, message.len, &marked, 4) - message.bytes;
        }
        memcpy(message.bytes + answered_at, call + 8, 4);
        send_message();
    }
}

int main(int count, char **arguments) {
    if (count != 5) { fprintf(stderr, "sockets SOCKET BYTES CPU BROKER\n"); return 2; }
    bytes = atol(arguments[2]);
    pin(atoi(arguments[3]));
    int names[2];
    if (pipe(names)) fail("pipe");
    char server[256] = {0}, unique[256];
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        die_with(parent);
        fd = join(arguments[1], server);
        if (write(names[1], server, sizeof server) != sizeof server) fail("write");
        serve();
    }
    if (read(names[0], server, sizeof server) != sizeof server) fail("read");
    fd = join(arguments[1], unique);
    message = make(1, server, "Ping", 2, 0, bytes);
    make_blocks(call, child, atoi(arguments[4]));
    return 0;
}
