/* Event loops, and what sends to them in bursts with pauses, so that they sleep as often as they find something.
 *
 *     loops publish SOCKET COUNT    loops poll SOCKET COUNT      a log, and a subscriber in a loop of poll,
 *                                   loops libevent SOCKET COUNT  or of libevent
 *     loops emit BUS COUNT          loops sd-event BUS COUNT     a bus, and a member in a loop of sd-event
 *     loops killed SOCKET BUS       frees everything after the end of all that served it
 *
 * A wake-up that is lost is a wait of a minute, and a failure; so is a tenth of wake-ups that bring nothing.
 */
#include "check.h"
#include <poll.h>
#include <string.h>
#include <time.h>

static cw_error *error;

/* Ends a burst now and then. Pauses have many lengths, among them those in which the other end is falling asleep. */
static void pause_after(uint64_t sent) {
    static uint32_t random = 12345;
    random = random * 1664525u + 1013904223u;
    if (sent % (1 + random % 100) == 0) {
        struct timespec time = {0, (random >> 8) % 60000};
        nanosleep(&time, NULL);
    }
}

static int publish(const char *path, uint64_t count) {
    cw_group *group;
    cw_pub *pub;
    OK(cw_group_create("loops", NULL, 0, &group, &error));
    OK(cw_pub_new(group, &pub, &error));
    OK(cw_group_serve_at(group, path, &error));
    puts("ready");
    fflush(stdout);
    OK(cw_pub_wait_for_subscribers(pub, 1, 60 * S, &error));
    for (uint64_t i = 0; i < count; i++) {
        OK(cw_pub_publish(pub, 0, &i, sizeof i, 60 * S, NULL, &error));
        pause_after(i);
    }
    cw_pub_free(pub);
    cw_group_free(group);
    return 0;
}

/* Waits until a descriptor is readable, at most a minute; 0 if it is not then. */
static int sleep_in_poll(int fd) {
    struct pollfd wait = {0, POLLIN, 0};
    wait.fd = fd;
    return poll(&wait, 1, 60000);
}

#ifdef WITH_LIBEVENT
#include <event2/event.h>

static void is_readable(evutil_socket_t fd, short what, void *readable) {
    (void)fd;
    *(int *)readable = (what & EV_READ) != 0;
}

/* The event stays in the loop, as that of a program with others does. */
static int sleep_in_libevent(int fd) {
    static struct event_base *base;
    static struct event *event;
    static int readable;
    struct timeval minute = {60, 0};
    if (!base) {
        TRUE((base = event_base_new()) && (event = event_new(base, fd, EV_READ | EV_PERSIST, is_readable, &readable)));
    }
    readable = 0;
    TRUE(event_add(event, &minute) == 0 && event_base_loop(base, EVLOOP_ONCE) >= 0);
    return readable;
}
#endif

static int subscribe(const char *path, uint64_t count, int (*sleep)(int fd)) {
    int fd;
    cw_group *group;
    cw_sub *sub;
    cw_sub_options options;
    memset(&options, 0, sizeof options);
    options.policy = CW_RELIABLE;
    OK(cw_group_join(path, &group, &error));
    OK(cw_sub_new(group, &options, sizeof options, &sub, &error));
    OK(cw_sub_fd(sub, &fd, &error));
    uint64_t got = 0, sleeps = 0, got_before = 0, idle = 0;
    for (;;) {
        cw_message m;
        int code = cw_sub_next(sub, &m, sizeof m, &error);
        if (code == CW_OK) {
            TRUE(m.bytes == 8 && !memcmp(m.data, &got, 8));
            got++;
        } else if (code == CW_ENDED) {
            break;
        } else {
            IS(CW_EMPTY, code);
            code = cw_sub_prepare(sub, &error);
            if (code == CW_MAY_SLEEP) {
                idle += sleeps++ > 0 && got == got_before;
                got_before = got;
                if (sleep(fd) == 0) {
                    fprintf(stderr, "no message %llu within a minute\n", (unsigned long long)got);
                    return 1;
                }
            } else if (code != CW_ENDED) {
                OK(code);
            }
        }
    }
    TRUE(got == count && sleeps > count / 1000 && idle <= sleeps / 10);
    printf("%llu messages, %llu sleeps, %llu of them for nothing\n", (unsigned long long)got, (unsigned long long)sleeps,
           (unsigned long long)idle);
    cw_sub_free(sub);
    cw_group_free(group);
    return 0;
}

static int emit(const char *path, uint64_t count) {
    cwb_bus *bus;
    cwb_body *body;
    const char *owner;
    cwb_options options;
    memset(&options, 0, sizeof options);
    options.laggard_deadline_ns = 600 * S; /* on a busy machine nobody is late */
    OK(cwb_open(path, &options, sizeof options, &bus, &error));
    while (cwb_name_owner(bus, "com.example.Loops", &owner, &error) == CW_NOT_FOUND) {
        struct timespec time = {0, 1000000};
        nanosleep(&time, NULL);
    }
    OK(cwb_body_new(&body, &error));
    for (uint64_t i = 0; i < count; i++) {
        OK(cwb_body_append(body, 't', &i, &error));
        OK(cwb_emit(bus, "/", "com.example.Loops", "Tick", body, &error));
        pause_after(i);
    }
    cwb_body_free(body);
    cwb_free(bus);
    return 0;
}

#ifdef WITH_SD_EVENT
#include <systemd/sd-event.h>

static int woken(sd_event_source *source, int fd, uint32_t events, void *sleeps) {
    (void)source, (void)fd, (void)events;
    ++*(uint64_t *)sleeps;
    return 0;
}

static int run_sd_event(const char *path, uint64_t count) {
    cwb_bus *bus;
    cwb_message *message;
    sd_event *loop;
    int fd, events, code = 0;
    uint64_t until, got = 0, woke = 0, got_before = 0, idle = 0;
    OK(cwb_open(path, NULL, 0, &bus, &error));
    OK(cwb_add_match(bus, "type='signal',interface='com.example.Loops'", &error));
    OK(cwb_request_name(bus, "com.example.Loops", 0, NULL, &error));
    OK(cwb_get_fd(bus, &fd, &error));
    OK(cwb_get_events(bus, &events, &error));
    TRUE(sd_event_new(&loop) >= 0 && sd_event_add_io(loop, NULL, fd, (uint32_t)events, woken, &woke) >= 0);
    while (got < count) {
        while ((code = cwb_process(bus, &message, NULL, &error)) == CW_OK) {
            uint64_t number;
            if (!strcmp(cwb_message_member(message), "Tick")) {
                OK(cwb_message_arg(message, 0, 't', &number, &error));
                TRUE(number == got);
                got++;
            }
            cwb_message_free(message);
        }
        IS(CW_EMPTY, code);
        OK(cwb_get_timeout(bus, &until, &error));
        TRUE(until == 0 || until == UINT64_MAX);
        idle += until && woke && got == got_before;
        got_before = got;
        if (got < count && sd_event_run(loop, until ? 60000000 : 0) == 0 && until) {
            fprintf(stderr, "no signal %llu within a minute\n", (unsigned long long)got);
            return 1;
        }
    }
    TRUE(woke > count / 1000 && idle <= woke / 10);
    printf("%llu signals, woken %llu times, %llu of them for nothing\n", (unsigned long long)got, (unsigned long long)woke,
           (unsigned long long)idle);
    sd_event_unref(loop);
    cwb_free(bus);
    return 0;
}
#endif

static int killed(const char *path, const char *at) {
    cw_group *group;
    cw_sub *sub;
    cwb_bus *bus;
    cw_sub_options options;
    cw_message m;
    memset(&options, 0, sizeof options);
    options.policy = CW_RELIABLE;
    int has_groups = cw_group_join(path, &group, NULL) != CW_E_KERNEL; /* see exercise.c */
    if (has_groups) OK(cw_sub_new(group, &options, sizeof options, &sub, &error));
    OK(cwb_open(at, NULL, 0, &bus, &error));
    puts("ready");
    fflush(stdout);
    int code;
    if (has_groups) {
        do code = cw_sub_recv(sub, 60 * S, &m, sizeof m, &error);
        while (code == CW_OK);
        IS(CW_ENDED, code);
        cw_sub_free(sub);
        cw_group_free(group);
        IS(CW_E_OS, cw_group_join(path, &group, &error));
    }
    cwb_message *message;
    while ((code = cwb_next(bus, 60 * S, &message, NULL, &error)) == CW_OK) cwb_message_free(message);
    IS(CWB_AUTHORITY_GONE, code);
    IS(CWB_E_AUTHORITY_GONE, cwb_request_name(bus, "com.example.Late", 0, NULL, &error));
    cwb_free(bus);
    puts(has_groups ? "done" : "only the bus");
    return 0;
}

int main(int argc, char **argv) {
    TRUE(argc == 4);
    uint64_t count = strtoull(argv[3], NULL, 10);
    if (!strcmp(argv[1], "publish")) return publish(argv[2], count);
    if (!strcmp(argv[1], "poll")) return subscribe(argv[2], count, sleep_in_poll);
#ifdef WITH_LIBEVENT
    if (!strcmp(argv[1], "libevent")) return subscribe(argv[2], count, sleep_in_libevent);
#endif
    if (!strcmp(argv[1], "emit")) return emit(argv[2], count);
    if (!strcmp(argv[1], "killed")) return killed(argv[2], argv[3]);
#ifdef WITH_SD_EVENT
    if (!strcmp(argv[1], "sd-event")) return run_sd_event(argv[2], count);
#endif
    return 2;
}
