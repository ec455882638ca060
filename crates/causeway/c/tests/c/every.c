/* Every function of the headers, called in a way that none may harm its host: every null|panic|forked|busy FOLDER BUS.
 * `every.h` is made from the headers by tests/it/every.rs: a function `try_NAME(all, mode)` for each, and ALL, their list.
 */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum mode { NULLS, PANIC, FORKED };

void cw_test_panic_in(const char *name);

struct all {
    cw_group *group, *large_group;
    cw_pub *pub;
    cw_sub *sub;
    cw_large_pub *large_pub;
    cw_large_sub *large_sub;
    cw_payload *payload;
    cw_server *server;
    cw_responder *responder;
    cw_client *client;
    cwb_bus *bus;
    cwb_message *message;
    cwb_body *body;
};

static void must(int code, int wanted, const char *name) {
    if (wanted ? code != wanted : code > -4097) {
        fprintf(stderr, "%s returned %d and not %d\n", name, code, wanted);
        exit(1);
    }
}

#include "every.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t parked = PTHREAD_COND_INITIALIZER;

static void park(void *user, const cw_request *request, cw_responder *responder) {
    (void)request;
    pthread_mutex_lock(&lock);
    *(cw_responder **)user = responder;
    pthread_cond_signal(&parked);
    pthread_mutex_unlock(&lock);
}

static void make(struct all *all, const char *folder, const char *bus) {
    cw_error *error = NULL;
    char path[200];
    cw_group_options options;
    cw_sub_options want;
    cw_pool_options pool;
    cw_message m;
    void *space;
    uint64_t call;
    memset(all, 0, sizeof *all);
    memset(&options, 0, sizeof options);
    memset(&want, 0, sizeof want);
    memset(&pool, 0, sizeof pool);
    want.policy = CW_RELIABLE;
    pool.payload_bytes_max = 4096;
    pool.kind = CW_SEALED;
    OK(cw_group_create("every", &options, sizeof options, &all->group, &error));
    OK(cw_pub_new(all->group, &all->pub, &error));
    OK(cw_sub_new(all->group, &want, sizeof want, &all->sub, &error));
    options.flags = CW_LARGE_PAYLOADS;
    OK(cw_group_create("every", &options, sizeof options, &all->large_group, &error));
    OK(cw_large_pub_new(all->large_group, &pool, sizeof pool, &all->large_pub, &error));
    OK(cw_large_sub_new(all->large_group, &want, sizeof want, &all->large_sub, &error));
    OK(cw_large_pub_wait_for_subscribers(all->large_pub, 1, 60 * S, &error));
    OK(cw_large_pub_loan(all->large_pub, 10, 0, &space, &error));
    OK(cw_large_pub_commit(all->large_pub, 0, NULL, &error));
    OK(cw_large_sub_recv(all->large_sub, 60 * S, &all->payload, &m, sizeof m, &error));
    static int made; /* a server whose end panics stays */
    snprintf(path, sizeof path, "%s/calls%d", folder, made++);
    OK(cw_call_serve(path, NULL, 0, park, &all->responder, &all->server, &error));
    OK(cw_client_connect(path, &all->client, &error));
    OK(cw_client_begin(all->client, "", 0, NULL, 0, CW_FOREVER, &call, &error));
    pthread_mutex_lock(&lock);
    while (!all->responder) pthread_cond_wait(&parked, &lock);
    pthread_mutex_unlock(&lock);
    OK(cwb_open(bus, NULL, 0, &all->bus, &error));
    OK(cwb_call(all->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", NULL,
                &all->message, &error));
    OK(cwb_body_new(&all->body, &error));
}

static void end(struct all *all) {
    cwb_body_free(all->body);
    cwb_message_free(all->message);
    cwb_free(all->bus);
    cw_responder_free(all->responder);
    cw_client_free(all->client);
    cw_server_free(all->server);
    cw_payload_free(all->payload);
    cw_large_sub_free(all->large_sub);
    cw_large_pub_free(all->large_pub);
    cw_group_free(all->large_group);
    cw_sub_free(all->sub);
    cw_pub_free(all->pub);
    cw_group_free(all->group);
}

static void try_all(struct all *all, enum mode mode) {
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) ALL[i](all, mode);
}

static void *receive(void *sub) {
    cw_message m;
    int code;
    do code = cw_sub_recv(sub, 60 * S, &m, sizeof m, NULL);
    while (code == CW_E_BUSY);
    must(code == CW_OK ? CW_E_UNKNOWN : CW_E_PANIC, CW_E_UNKNOWN, "cw_sub_recv");
    return NULL;
}

int main(int argc, char **argv) {
    struct all all;
    cw_error *error = NULL;
    TRUE(argc == 4);
    if (!strcmp(argv[1], "null")) {
        memset(&all, 0, sizeof all);
        try_all(&all, NULLS);
    } else if (!strcmp(argv[1], "panic")) {
        for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
            make(&all, argv[2], argv[3]);
            ALL[i](&all, PANIC);
            end(&all);
        }
    } else if (!strcmp(argv[1], "forked")) {
        make(&all, argv[2], argv[3]);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            try_all(&all, FORKED);
            end(&all);
            _exit(0);
        }
        int status;
        TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        /* The parent has everything as before. */
        cw_message m;
        OK(cw_pub_publish(all.pub, 0, "x", 1, 0, NULL, &error));
        OK(cw_sub_next(all.sub, &m, sizeof m, &error));
        uint32_t cancelled;
        OK(cw_responder_is_cancelled(all.responder, &cancelled, &error));
        TRUE(!cancelled);
        OK(cwb_request_name(all.bus, "com.example.Parent", 0, NULL, &error));
        end(&all);
    } else {
        pthread_t thread;
        cw_message m;
        int code;
        make(&all, argv[2], argv[3]);
        pthread_create(&thread, NULL, receive, all.sub);
        do code = cw_sub_next(all.sub, &m, sizeof m, NULL);
        while (code == CW_EMPTY);
        must(code, CW_E_BUSY, "cw_sub_next");
        cw_sub_free(all.sub); /* nothing, for it is in use */
        OK(cw_pub_publish(all.pub, 0, "x", 1, 0, NULL, &error));
        pthread_join(thread, NULL);
        IS(CW_EMPTY, cw_sub_next(all.sub, &m, sizeof m, &error));
        end(&all);
    }
    puts("done");
    return 0;
}
