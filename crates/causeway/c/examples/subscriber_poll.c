/* A subscriber in a loop of poll: subscriber_poll SOCKET prints each message of the group that is served there. */
#include <causeway.h>
#include <poll.h>
#include <stdio.h>

static int fail(cw_error *error) {
    const char *remedy = cw_error_remedy(error);
    fprintf(stderr, "%s; %s\n", cw_error_text(error), remedy ? remedy : "");
    cw_error_free(error);
    return 1;
}

int main(int argc, char **argv) {
    cw_error *error = NULL;
    cw_group *group;
    cw_sub *subscriber;
    cw_sub_options options = {0};
    struct pollfd wait = {0};
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: subscriber_poll SOCKET\n");
        return 2;
    }
    options.policy = CW_RELIABLE;
    if (cw_group_join(argv[1], &group, &error)) return fail(error);
    if (cw_sub_new(group, &options, sizeof options, &subscriber, &error)) return fail(error);
    if (cw_sub_fd(subscriber, &wait.fd, &error)) return fail(error);
    wait.events = POLLIN;

    do { /* Other descriptors can stand beside this one. */
        cw_message message;
        code = cw_sub_next(subscriber, &message, sizeof message, &error);
        if (code == CW_OK) {
            printf("%.*s\n", (int)message.bytes, (const char *)message.data);
            fflush(stdout);
        } else if (code == CW_EMPTY) {
            code = cw_sub_prepare(subscriber, &error);
            if (code == CW_MAY_SLEEP) poll(&wait, 1, -1);
        }
    } while (code >= 0 && code != CW_ENDED);

    cw_sub_free(subscriber);
    cw_group_free(group);
    return code < 0 ? fail(error) : 0;
}
