/* Serves a group at a socket, waits for a subscriber and publishes three prices: publisher SOCKET. */
#include <causeway.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const char *const prices[] = {"42.17", "42.18", "42.19"};
    cw_error *error = NULL;
    cw_group *group = NULL;
    cw_pub *publisher = NULL;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: publisher SOCKET\n");
        return 2;
    }
    code = cw_group_create("prices", NULL, 0, &group, &error);
    if (!code) code = cw_pub_new(group, &publisher, &error);
    if (!code) code = cw_group_serve_at(group, argv[1], &error);
    if (!code) code = cw_pub_wait_for_subscribers(publisher, 1, CW_FOREVER, &error);
    for (size_t i = 0; !code && i < sizeof prices / sizeof *prices; i++)
        code = cw_pub_publish(publisher, 0, prices[i], strlen(prices[i]), CW_FOREVER, NULL, &error);
    if (error) fprintf(stderr, "%s\n", cw_error_text(error));
    cw_error_free(error);
    cw_pub_free(publisher);
    cw_group_free(group);
    return code != 0;
}
