/* A signal: news SOCKET TEXT emits it, news SOCKET prints each one. */
#include <causeway-bus.h>
#include <stdio.h>
#include <string.h>

#define NEWS "com.example.News"

static int emit(cwb_bus *bus, const char *text, cw_error **error) {
    cwb_body *body;
    int code = cwb_body_new(&body, error);
    if (code) return code;
    code = cwb_body_append(body, 's', text, error);
    if (!code) code = cwb_emit(bus, "/", NEWS, "Headline", body, error);
    cwb_body_free(body);
    return code;
}

static int print_all(cwb_bus *bus, cw_error **error) {
    cwb_message *message;
    int code = cwb_add_match(bus, "type='signal',interface='" NEWS "'", error);
    if (code) return code;
    puts("listening"), fflush(stdout);
    while (!(code = cwb_next(bus, CW_FOREVER, &message, NULL, error))) {
        const char *interface = cwb_message_interface(message), *text;
        if (interface && !strcmp(interface, NEWS)) {
            code = cwb_message_arg(message, 0, 's', &text, error);
            if (!code) puts(text), fflush(stdout);
        }
        cwb_message_free(message);
        if (code) return code;
    }
    return code == CWB_AUTHORITY_GONE ? 0 : code;
}

int main(int argc, char **argv) {
    cw_error *error = NULL;
    cwb_bus *bus = NULL;
    int code;

    if (argc < 2) {
        fprintf(stderr, "usage: news SOCKET [TEXT]\n");
        return 2;
    }
    code = cwb_open(argv[1], NULL, 0, &bus, &error);
    if (!code) code = argc > 2 ? emit(bus, argv[2], &error) : print_all(bus, &error);
    if (error) fprintf(stderr, "%s\n", cw_error_text(error));
    cw_error_free(error);
    cwb_free(bus);
    return code != 0;
}
