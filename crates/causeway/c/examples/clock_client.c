/* Calls the method Seconds of com.example.Clock: clock_client SOCKET. */
#include <causeway-bus.h>
#include <stdio.h>

#define CLOCK "com.example.Clock"

int main(int argc, char **argv) {
    cw_error *error = NULL;
    cwb_bus *bus = NULL;
    cwb_message *reply = NULL;
    uint32_t seconds;
    int code;

    code = cwb_open(argc > 1 ? argv[1] : NULL, NULL, 0, &bus, &error);
    if (!code) code = cwb_call(bus, CLOCK, "/", CLOCK, "Seconds", NULL, &reply, &error);
    if (!code) code = cwb_message_arg(reply, 0, 'u', &seconds, &error);
    if (!code) printf("seconds: %u\n", (unsigned)seconds);
    if (error) fprintf(stderr, "%s\n", cw_error_text(error));
    cw_error_free(error);
    cwb_message_free(reply);
    cwb_free(bus);
    return code != 0;
}
