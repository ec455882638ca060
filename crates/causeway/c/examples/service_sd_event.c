/* A service of the bus in sd-event: service_sd_event SOCKET is com.example.Clock, whose method Seconds returns a u. */
#include <causeway-bus.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-event.h>
#include <time.h>

static int failed(cw_error *error) {
    if (error) fprintf(stderr, "%s\n", cw_error_text(error));
    cw_error_free(error);
    return -1;
}

static int answer(cwb_bus *bus, cwb_message *call, cw_error **error) {
    uint32_t now = (uint32_t)time(NULL);
    cwb_body *body;
    int code;
    if (cwb_message_kind(call) != CWB_CALL) return 0;
    if (strcmp(cwb_message_member(call), "Seconds"))
        return cwb_reply_error(bus, call, "org.freedesktop.DBus.Error.UnknownMethod", "there is Seconds", error);
    if (cwb_body_new(&body, error)) return -1;
    code = cwb_body_append(body, 'u', &now, error) || cwb_reply(bus, call, body, error);
    cwb_body_free(body);
    return code;
}

static int take(sd_event_source *source, int fd, uint32_t events, void *bus) {
    (void)source, (void)fd, (void)events, (void)bus;
    return 0; /* what has come is taken before each wait */
}

int main(int argc, char **argv) {
    cw_error *error = NULL;
    cwb_bus *bus;
    cwb_message *message;
    sd_event *loop;
    uint64_t until;
    int fd, events, code;

    if (cwb_open(argc > 1 ? argv[1] : NULL, NULL, 0, &bus, &error)) return failed(error) != 0;
    if (cwb_request_name(bus, "com.example.Clock", 0, NULL, &error)) return failed(error) != 0;
    if (cwb_get_fd(bus, &fd, &error) || cwb_get_events(bus, &events, &error)) return failed(error) != 0;
    if (sd_event_new(&loop) < 0 || sd_event_add_io(loop, NULL, fd, (uint32_t)events, take, bus) < 0) return 1;
    do {
        while ((code = cwb_process(bus, &message, NULL, &error)) == CW_OK) {
            if (answer(bus, message, &error)) failed(error), error = NULL;
            cwb_message_free(message);
        }
        if (code < 0 || code == CWB_AUTHORITY_GONE || cwb_get_timeout(bus, &until, &error)) break;
        /* No call of this program has a timeout: 0, there is more, or none. */
    } while (sd_event_run(loop, until) >= 0);
    failed(error);
    cwb_free(bus);
    sd_event_unref(loop);
    return 1;
}
