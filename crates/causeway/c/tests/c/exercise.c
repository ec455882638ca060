/* Every area once, with its outcomes and errors: exercise FOLDER BUS. Frees all that it has made. */
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[200];
static const char *at(const char *folder, const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void errors(const char *folder) {
    cw_error *error = NULL;
    cw_group *group = (cw_group *)&error; /* not written where there is no success */
    TRUE(cw_group_join(at(folder, "none"), &group, &error) == CW_E_OS && group == (cw_group *)&error);
    TRUE(cw_error_code(error) == CW_E_OS && cw_error_errno(error) == ENOENT);
    TRUE(strstr(cw_error_text(error), "none") && strstr(cw_error_remedy(error), "start the process"));
    TRUE(!cw_error_name(error));
    cw_error_free(error);
    error = NULL;
    IS(CW_E_NULL, cw_group_join(NULL, &group, &error));
    IS(CW_E_NULL, cw_group_join(path, NULL, &error));
    IS(CW_E_OS, cw_group_join(path, &group, NULL));
    struct { cw_group_options known; uint64_t later; } grown;
    memset(&grown, 0, sizeof grown);
    OK(cw_group_create("grown", (cw_group_options *)&grown, sizeof grown, &group, &error));
    cw_group_free(group);
    OK(cw_group_create("shrunk", (cw_group_options *)&grown, 8, &group, &error));
    cw_group_free(group);
    grown.later = 1;
    IS(CW_E_RANGE, cw_group_create("later", (cw_group_options *)&grown, sizeof grown, &group, &error));
    grown.known.flags = 1u << 31;
    IS(CW_E_RANGE, cw_group_create("flags", &grown.known, sizeof grown.known, &group, &error));
    grown.known.flags = 0;
    grown.known.capacity_bytes = 5000;
    IS(CW_E_INVALID, cw_group_create("size", &grown.known, sizeof grown.known, &group, &error));
    IS(CW_E_RANGE, cw_group_create("\xff", NULL, 0, &group, &error));
    cw_group_options of_later;
    memset(&of_later, 0, sizeof of_later);
    of_later.format = 99;
    IS(CW_E_INVALID, cw_group_create("later", &of_later, sizeof of_later, &group, &error));
}

static void logs(const char *folder) {
    cw_error *error = NULL;
    cw_group *group, *joined;
    cw_group_options options;
    memset(&options, 0, sizeof options);
    options.flags = CW_SEVERAL_PUBLISHERS;
    options.capacity_bytes = 4096;
    OK(cw_group_create("exercise", &options, sizeof options, &group, &error));
    OK(cw_group_serve_at(group, at(folder, "log"), &error));
    OK(cw_group_join(path, &joined, &error));
    IS(CW_E_INVALID, cw_group_resize(joined, 1 << 16, &error));
    uint32_t format = 0;
    OK(cw_group_upgrade(group, &format, &error));
    TRUE(format == 2);
    cw_peer server;
    OK(cw_group_server(joined, &server, sizeof server, &error));
    TRUE(server.pid == (uint32_t)getpid() && server.uid == geteuid());
    int socket;
    OK(cw_group_invite(group, &socket, &error));
    cw_group *invited;
    OK(cw_group_join_socket(socket, &invited, &error));
    IS(CW_E_RANGE, cw_group_join_socket(-1, &invited, &error));

    cw_pub *pub;
    cw_sub *sub, *lossy;
    cw_message m;
    cw_sub_options want;
    memset(&want, 0, sizeof want);
    IS(CW_E_RANGE, cw_sub_new(joined, &want, sizeof want, &sub, &error));
    OK(cw_pub_new(group, &pub, &error));
    want.policy = CW_RELIABLE;
    uint32_t topics[2] = {7, 0};
    want.flags = CW_ONLY_TOPICS;
    want.topics = topics;
    want.topic_count = 2;
    OK(cw_sub_new(joined, &want, sizeof want, &sub, &error));
    want.flags = 0;
    want.policy = CW_LOSSY;
    OK(cw_sub_new(invited, &want, sizeof want, &lossy, &error));
    OK(cw_pub_wait_for_subscribers(pub, 2, 60 * S, &error));
    IS(CW_TIMED_OUT, cw_pub_wait_for_subscribers(pub, 3, 1, &error));

    IS(CW_EMPTY, cw_sub_next(sub, &m, sizeof m, &error));
    IS(CW_TIMED_OUT, cw_sub_recv(sub, 1000, &m, sizeof m, &error));
    IS(CW_TIMED_OUT, cw_sub_wait(sub, 1000, &error));
    IS(CW_MAY_SLEEP, cw_sub_prepare(sub, &error));
    OK(cw_sub_disarm(sub, &error));
    uint64_t first, second;
    OK(cw_pub_publish(pub, 9, "skipped", 7, 0, &first, &error));
    OK(cw_pub_publish(pub, 7, "hello", 5, S, &second, &error));
    TRUE(second > first);
    OK(cw_sub_prepare(sub, &error));
    OK(cw_sub_recv(sub, CW_FOREVER, &m, sizeof m, &error));
    TRUE(m.bytes == 5 && !memcmp(m.data, "hello", 5) && m.topic == 7 && m.position == second && m.sequence == 1);
    /* A caller of an older version has fewer fields. */
    char few[16];
    void *space;
    OK(cw_pub_loan(pub, 300, CW_FOREVER, &space, &error));
    IS(CW_E_STATE, cw_pub_publish(pub, 0, "x", 1, 0, NULL, &error));
    memset(space, 'b', 300);
    OK(cw_pub_commit(pub, 0, NULL, &error));
    IS(CW_E_STATE, cw_pub_commit(pub, 0, NULL, &error));
    OK(cw_sub_next(sub, (cw_message *)few, sizeof few, &error));
    uint64_t bytes;
    memcpy(&bytes, few + 8, 8);
    TRUE(bytes == 300);
    OK(cw_pub_loan(pub, 8, 0, &space, &error));
    OK(cw_pub_abandon(pub, &error));

    OK(cw_pub_publish(pub, 0, "in place", 8, 0, NULL, &error));
    OK(cw_sub_spin(sub, S, &error));
    OK(cw_sub_view(sub, &m, sizeof m, &error));
    TRUE(m.bytes == 8 && !m.data);
    IS(CW_E_STATE, cw_sub_next(sub, &m, sizeof m, &error));
    char copy[8];
    size_t copied;
    OK(cw_view_copy(sub, copy, sizeof copy, &copied, &error));
    TRUE(copied == 8 && !memcmp(copy, "in place", 8));
    OK(cw_view_finish(sub, &error));
    IS(CW_E_STATE, cw_view_finish(sub, &error));
    IS(CW_EMPTY, cw_sub_view(sub, &m, sizeof m, &error));

    size_t most;
    OK(cw_pub_payload_bytes_max(pub, &most, &error));
    TRUE(most <= 1024);
    IS(CW_E_TOO_LONG, cw_pub_publish(pub, 0, copy, most + 1, 0, NULL, &error));
    IS(CW_E_NULL, cw_pub_publish(pub, 0, NULL, 1, 0, NULL, &error));
    int code = CW_OK;
    for (int i = 0; i < 1000 && code == CW_OK; i++) code = cw_pub_publish(pub, 0, copy, 8, 0, NULL, &error);
    IS(CW_FULL, code);
    IS(CW_TIMED_OUT, cw_pub_publish(pub, 0, copy, 8, 1000, NULL, &error));
    int received = 0;
    while ((code = cw_sub_next(sub, &m, sizeof m, &error)) == CW_OK) received++;
    IS(CW_EMPTY, code);
    TRUE(received > 20);
    cw_health health;
    OK(cw_sub_health(sub, &health, sizeof health, &error));
    TRUE(!health.server_is_gone && health.publishers == 1 && health.unfinished_by == -1 && health.given_up >= 2);
    /* Programs of a later release and of one before have other sizes. */
    struct {
        cw_health known;
        unsigned char more[16];
    } later;
    memset(&later, 7, sizeof later);
    OK(cw_sub_health(sub, &later.known, sizeof later, &error));
    for (size_t i = 0; i < sizeof later.more; i++) TRUE(later.more[i] == 0);
    TRUE(later.known.given_up == health.given_up);
    memset(&later, 7, sizeof later);
    OK(cw_sub_health(sub, &later.known, offsetof(cw_health, publishers), &error));
    TRUE(later.known.demoted == 0 && later.known.publishers == 0x07070707);
    OK(cw_group_resize(group, 8192, &error));
    for (int i = 0; i < 300; i++) {
        OK(cw_pub_publish(pub, 0, copy, 8, CW_FOREVER, NULL, &error));
        OK(cw_sub_recv(sub, S, &m, sizeof m, &error));
    }
    uint64_t lost = 0;
    while ((code = cw_sub_next(lossy, &m, sizeof m, &error)) != CW_EMPTY) {
        TRUE(code == CW_OK || code == CW_LOST);
        if (code == CW_LOST) lost += m.lost_messages;
    }
    uint64_t all;
    OK(cw_sub_lost(lossy, &all, &error));
    TRUE(lost > 0 && all == lost);

    uint32_t id, gone;
    OK(cw_pub_server_is_gone(pub, &gone, &error));
    TRUE(!gone);
    OK(cw_sub_id(lossy, &id, &error));
    OK(cw_group_disconnect(group, id, &error));
    IS(CW_NOT_FOUND, cw_group_disconnect(group, id, &error));
    IS(CW_ENDED, cw_sub_recv(lossy, 60 * S, &m, sizeof m, &error));
    OK(cw_pub_id(pub, &id, &error));
    OK(cw_group_evict(group, id, &error));
    IS(CW_E_RANGE, cw_group_evict(group, 256, &error));
    IS(CW_E_INVALID, cw_group_disconnect_publisher(joined, id, &error));
    cw_pub_free(pub);
    IS(CW_ENDED, cw_sub_recv(sub, 60 * S, &m, sizeof m, &error));
    cw_sub_free(lossy);
    cw_sub_free(sub);
    cw_group_free(invited);
    cw_group_free(joined);
    cw_group_free(group);
}

static void large(uint32_t kind) {
    cw_error *error = NULL;
    cw_group *group;
    cw_group_options options;
    memset(&options, 0, sizeof options);
    options.flags = CW_LARGE_PAYLOADS;
    OK(cw_group_create("large", &options, sizeof options, &group, &error));
    cw_pool_options pool;
    memset(&pool, 0, sizeof pool);
    cw_large_pub *pub;
    IS(CW_E_INVALID, cw_large_pub_new(group, &pool, sizeof pool, &pub, &error));
    pool.payload_bytes_max = 1 << 16;
    pool.kind = kind;
    pool.files = 2;
    OK(cw_large_pub_new(group, &pool, sizeof pool, &pub, &error));
    cw_sub_options want;
    memset(&want, 0, sizeof want);
    want.policy = CW_RELIABLE;
    cw_large_sub *sub;
    OK(cw_large_sub_new(group, &want, sizeof want, &sub, &error));
    OK(cw_large_pub_wait_for_subscribers(pub, 1, 60 * S, &error));
    IS(CW_MAY_SLEEP, cw_large_sub_prepare(sub, &error));
    int fd;
    OK(cw_large_sub_fd(sub, &fd, &error));
    TRUE(fd >= 0);
    cw_payload *held[2], *none = NULL;
    cw_message m;
    void *space;
    for (int i = 0; i < 2; i++) {
        OK(cw_large_pub_loan(pub, 1 << 16, CW_FOREVER, &space, &error));
        memset(space, 'a' + i, 1 << 16);
        OK(cw_large_pub_commit(pub, i ? S : 0, NULL, &error));
        OK(cw_large_sub_recv(sub, S, &held[i], &m, sizeof m, &error));
        TRUE(m.bytes == 1 << 16);
    }
    IS(CW_FULL, cw_large_pub_loan(pub, 100, 0, &space, &error));
    IS(CW_EMPTY, cw_large_sub_recv(sub, 0, &none, &m, sizeof m, &error));
    const void *data;
    size_t bytes;
    char copy[3];
    if (kind == CW_SEALED) {
        OK(cw_payload_data(held[1], &data, &bytes, &error));
        TRUE(bytes == 1 << 16 && ((const char *)data)[bytes - 1] == 'b');
    } else {
        IS(CW_E_NOT_SEALED, cw_payload_data(held[1], &data, &bytes, &error));
    }
    OK(cw_payload_copy(held[0], copy, 3, &bytes, &error));
    TRUE(bytes == 3 && !memcmp(copy, "aaa", 3));
    cw_payload_free(held[0]);
    OK(cw_large_pub_loan(pub, 100, S, &space, &error));
    OK(cw_large_pub_abandon(pub, &error));
    cw_large_pub_free(pub);
    IS(CW_ENDED, cw_large_sub_recv(sub, 60 * S, &none, &m, sizeof m, &error));
    cw_large_sub_free(sub);
    cw_payload_free(held[1]);
    cw_group_free(group);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t parked = PTHREAD_COND_INITIALIZER;
static cw_responder *later;

static void answer(void *user, const cw_request *request, cw_responder *responder) {
    cw_error *error = NULL;
    ++*(int *)user; /* there is one client, so one thread */
    const char *text = request->data;
    if (request->bytes == 4 && !memcmp(text, "wait", 4)) {
        pthread_mutex_lock(&lock);
        later = responder;
        pthread_cond_signal(&parked);
        pthread_mutex_unlock(&lock);
        return;
    }
    if (request->fd_count) OK(cw_reply(responder, text, request->bytes, request->fds, request->fd_count, &error));
    else if (request->bytes) OK(cw_reply(responder, text, request->bytes, NULL, 0, &error));
    if (request->bytes) IS(CW_CANCELLED, cw_reply(responder, "again", 5, NULL, 0, &error));
    cw_responder_free(responder);
}

static void calls(const char *folder) {
    cw_error *error = NULL;
    int answered = 0;
    cw_serve_options options;
    memset(&options, 0, sizeof options);
    options.flags = CW_DESCRIPTORS;
    cw_server *server;
    IS(CW_E_NULL, cw_call_serve(at(folder, "calls"), NULL, 0, NULL, NULL, &server, &error));
    OK(cw_call_serve(path, &options, sizeof options, answer, &answered, &server, &error));
    cw_client *client;
    OK(cw_client_connect(path, &client, &error));
    OK(cw_client_spin_at_most(client, 0, &error));
    cw_request reply;
    OK(cw_client_call(client, "ping", 4, 60 * S, &reply, sizeof reply, &error));
    TRUE(reply.bytes == 4 && !memcmp(reply.data, "ping", 4) && !reply.fd_count);
    IS(CW_NO_REPLY, cw_client_call(client, NULL, 0, 60 * S, &reply, sizeof reply, &error));
    size_t count;
    OK(cw_server_clients(server, &count, &error));
    TRUE(count == 1);
    uint64_t call, over[4];
    int fd = dup(0);
    OK(cw_client_begin(client, "fd", 2, &fd, 1, 60 * S, &call, &error));
    OK(cw_client_wait(client, call, &reply, sizeof reply, &error));
    struct stat sent, back;
    TRUE(reply.fd_count == 1 && !fstat(fd, &sent) && !fstat(reply.fds[0], &back) && sent.st_ino == back.st_ino);
    close(fd);
    IS(CW_CANCELLED, cw_client_wait(client, call, &reply, sizeof reply, &error));
    OK(cw_client_begin(client, "wait", 4, NULL, 0, CW_FOREVER, &call, &error));
    OK(cw_client_poll(client, over, 4, &count, &error));
    TRUE(count == 0);
    pthread_mutex_lock(&lock);
    while (!later) pthread_cond_wait(&parked, &lock);
    pthread_mutex_unlock(&lock);
    uint32_t cancelled;
    OK(cw_responder_is_cancelled(later, &cancelled, &error));
    TRUE(!cancelled);
    OK(cw_client_cancel(client, call, &error));
    IS(CW_NOT_FOUND, cw_client_cancel(client, call, &error));
    OK(cw_client_call(client, "after", 5, 60 * S, &reply, sizeof reply, &error));
    IS(CW_CANCELLED, cw_reply(later, "late", 4, NULL, 0, &error));
    cw_responder_free(later);
    cw_server_free(server);
    TRUE(answered == 5);
    IS(CW_E_SERVER_GONE, cw_client_call(client, "gone", 4, 60 * S, &reply, sizeof reply, &error));
    cw_client_free(client);
}

static cwb_message *take(cwb_bus *bus, uint32_t kind) {
    cw_error *error = NULL;
    for (;;) {
        cwb_message *message;
        OK(cwb_next(bus, 60 * S, &message, NULL, &error));
        if (cwb_message_kind(message) == kind && strcmp(cwb_message_interface(message), "org.freedesktop.DBus"))
            return message;
        cwb_message_free(message);
    }
}

static void *serve(void *user) {
    cwb_bus *bus = user;
    cw_error *error = NULL;
    for (int calls = 0; calls < 4; calls++) {
        cwb_message *call = take(bus, CWB_CALL);
        const char *member = cwb_message_member(call);
        if (!strcmp(member, "Echo")) {
            const char *text;
            uint32_t number;
            double fraction;
            int fd, flag;
            OK(cwb_message_arg(call, 0, 's', &text, &error));
            OK(cwb_message_arg(call, 1, 'u', &number, &error));
            OK(cwb_message_arg(call, 2, 'd', &fraction, &error));
            OK(cwb_message_arg(call, 3, 'b', &flag, &error));
            OK(cwb_message_arg(call, 4, 'h', &fd, &error));
            IS(CWB_E_ARGUMENTS, cwb_message_arg(call, 0, 'u', &number, &error));
            IS(CW_NOT_FOUND, cwb_message_arg(call, 9, 'u', &number, &error));
            TRUE(number == 7 && fraction == 0.5 && flag == 1 && !strcmp(cwb_message_signature(call), "sudbhay"));
            const void *data;
            size_t bytes;
            OK(cwb_message_arg_bytes(call, 5, &data, &bytes, &error));
            TRUE(bytes == 3 && !memcmp(data, "abc", 3));
            cwb_body *body;
            OK(cwb_body_new(&body, &error));
            OK(cwb_body_append(body, 's', text, &error));
            OK(cwb_reply(bus, call, body, &error));
            cwb_body_free(body);
        } else if (!strcmp(member, "Words")) {
            const void *data;
            size_t bytes;
            OK(cwb_message_body(call, &data, &bytes, &error));
            TRUE(bytes > 20);
            OK(cwb_reply(bus, call, NULL, &error));
        } else if (!strcmp(member, "Late")) {
            /* Its caller has given up before. */
        } else {
            IS(CW_NOT_FOUND, cwb_answer_standard(bus, call, &error));
            OK(cwb_reply_error(bus, call, "com.example.Error.No", "not here", &error));
        }
        cwb_message_free(call);
    }
    return NULL;
}

static void buses(const char *at) {
    cw_error *error = NULL;
    cwb_bus *bus, *service;
    OK(cwb_open(at, NULL, 0, &bus, &error));
    cwb_options options;
    memset(&options, 0, sizeof options);
    options.flags = CWB_NEVER_POLL;
    OK(cwb_open(at, &options, sizeof options, &service, &error));
    uint32_t reply;
    OK(cwb_request_name(service, "com.example.Exercise", CWB_DO_NOT_QUEUE, &reply, &error));
    TRUE(reply == CWB_PRIMARY_OWNER);
    OK(cwb_describe(service, "/", "<interface name=\"com.example.I\"/>", &error));
    const char *name, *owner;
    OK(cwb_unique_name(service, &name, &error));
    OK(cwb_name_owner(bus, "com.example.Exercise", &owner, &error));
    TRUE(!strcmp(name, owner));
    IS(CW_NOT_FOUND, cwb_name_owner(bus, "com.example.Nobody", &owner, &error));
    pthread_t thread;
    pthread_create(&thread, NULL, serve, service);

    cwb_body *body;
    cwb_message *message;
    OK(cwb_body_new(&body, &error));
    OK(cwb_body_append(body, 's', "hello", &error));
    OK(cwb_body_append(body, 'u', &(uint32_t){7}, &error));
    OK(cwb_body_append(body, 'd', &(double){0.5}, &error));
    OK(cwb_body_append(body, 'b', &(int){1}, &error));
    OK(cwb_body_append(body, 'h', &(int){0}, &error));
    OK(cwb_body_append_bytes(body, "abc", 3, &error));
    IS(CW_E_RANGE, cwb_body_append(body, 'o', "no path", &error));
    IS(CW_E_RANGE, cwb_body_append(body, '(', "", &error));
    OK(cwb_call(bus, "com.example.Exercise", "/", "com.example.I", "Echo", body, &message, &error));
    const char *text;
    OK(cwb_message_arg(message, 0, 's', &text, &error));
    TRUE(!strcmp(text, "hello") && cwb_message_kind(message) == CWB_RETURN && cwb_message_position(message) > 0);
    TRUE(cwb_message_sent_ns(message) > 0 && !cwb_message_path(message) && !cwb_message_error_name(message));
    cwb_message_free(message);
    cwb_body_free(body);

    const char *words[] = {"2", "a", "u", "7", "b", "s", "x"};
    OK(cwb_body_of_words("a{sv}", words, 7, &body, &error));
    IS(CW_E_STATE, cwb_body_append(body, 's', "more", &error));
    OK(cwb_call(bus, "com.example.Exercise", "/", "com.example.I", "Words", body, &message, &error));
    cwb_message_free(message);
    cwb_body_free(body);
    IS(CW_E_RANGE, cwb_body_of_words("u", words, 7, &body, &error));

    TRUE(cwb_call(bus, "com.example.Exercise", "/", "com.example.I", "No", NULL, &message, &error) == CWB_E_METHOD);
    TRUE(!strcmp(cw_error_name(error), "com.example.Error.No") && !strcmp(cw_error_text(error), "not here"));
    cw_error_free(error);
    error = NULL;
    IS(CWB_E_METHOD, cwb_call(bus, "com.example.Nobody", "/", "com.example.I", "No", NULL, &message, &error));
    uint32_t serial, over;
    OK(cwb_call_async(bus, "com.example.Exercise", "/", "com.example.I", "Late", NULL, 1000, &serial, &error));
    IS(CW_TIMED_OUT, cwb_next(bus, CW_FOREVER, &message, &over, &error));
    TRUE(over == serial);
    IS(CW_NOT_FOUND, cwb_cancel(bus, serial, &error));
    pthread_join(thread, NULL);

    OK(cwb_call_async(bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", NULL,
                      CW_FOREVER, &serial, &error));
    OK(cwb_next(bus, 60 * S, &message, &over, &error));
    TRUE(over == serial && cwb_message_kind(message) == CWB_RETURN);
    IS(CW_E_RANGE, cwb_reply(bus, message, NULL, &error));
    cwb_message_free(message);

    OK(cwb_add_match(bus, "type='signal',interface='com.example.I'", &error));
    IS(CWB_E_METHOD, cwb_add_match(bus, "nonsense", &error));
    OK(cwb_body_new(&body, &error));
    OK(cwb_body_append(body, 'h', &(int){1}, &error));
    OK(cwb_emit(service, "/a", "com.example.I", "Changed", body, &error));
    cwb_body_free(body);
    message = take(bus, CWB_SIGNAL);
    TRUE(!strcmp(cwb_message_path(message), "/a") && !strcmp(cwb_message_sender(message), name));
    int fd;
    OK(cwb_message_take_fd(message, 0, &fd, &error));
    IS(CW_NOT_FOUND, cwb_message_take_fd(message, 0, &fd, &error));
    close(fd);
    cwb_message_free(message);
    OK(cwb_remove_match(bus, "type='signal',interface='com.example.I'", &error));
    OK(cwb_call_no_reply(bus, name, "/", "com.example.I", "Quiet", NULL, &error));
    cwb_message_free(take(service, CWB_CALL));
    OK(cwb_release_name(service, "com.example.Exercise", NULL, &error));

    int events;
    uint64_t until;
    OK(cwb_get_fd(bus, &fd, &error));
    OK(cwb_get_events(bus, &events, &error));
    while (cwb_process(bus, &message, NULL, &error) == CW_OK) cwb_message_free(message);
    OK(cwb_get_timeout(bus, &until, &error));
    TRUE(fd >= 0 && events == 1 && until == UINT64_MAX);
    OK(cwb_call_async(bus, name, "/", "com.example.I", "Never", NULL, 3600 * S, &serial, &error));
    OK(cwb_get_timeout(bus, &until, &error));
    TRUE(until > 1000000 && until < UINT64_MAX);
    OK(cwb_cancel(bus, serial, &error));
    cwb_free(service);
    cwb_free(bus);
}

/* Valgrind before 3.21 knows no pidfd, without which there are no groups; the bus needs none in a member. */
static int has_groups(void) {
    cw_group *group;
    int code = cw_group_create("exercise", NULL, 0, &group, NULL);
    if (code == CW_OK) cw_group_free(group);
    return code != CW_E_KERNEL;
}

int main(int argc, char **argv) {
    TRUE(argc == 3);
    if (!has_groups()) {
        buses(argv[2]);
        puts("only the bus");
        return 0;
    }
    errors(argv[1]);
    logs(argv[1]);
    large(CW_SEALED);
    large(CW_REUSED);
    calls(argv[1]);
    buses(argv[2]);
    puts("done");
    return 0;
}
