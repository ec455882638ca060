/* Large payloads, written where their subscribers read them: frames publish SOCKET in one process, frames SOCKET in others. */
#include <causeway.h>
#include <stdio.h>
#include <string.h>

#define FRAME_BYTES ((size_t)1080 * 1920 * 3)

static int publish(const char *path) {
    cw_group_options options = {.flags = CW_LARGE_PAYLOADS};
    /* CW_SEALED: no process can change what was published, so that subscribers get a pointer */
    cw_pool_options pool = {.payload_bytes_max = FRAME_BYTES, .files = 4, .kind = CW_SEALED};
    cw_group *group;
    cw_large_pub *publisher;
    void *frame;

    if (cw_group_create("frames", &options, sizeof options, &group, NULL)) return 1;
    if (cw_large_pub_new(group, &pool, sizeof pool, &publisher, NULL)) return 1;
    if (cw_group_serve_at(group, path, NULL)) return 1;
    if (cw_large_pub_wait_for_subscribers(publisher, 1, CW_FOREVER, NULL)) return 1;
    for (int gray = 0; !cw_large_pub_wait_for_subscribers(publisher, 1, 0, NULL); gray++) {
        if (cw_large_pub_loan(publisher, FRAME_BYTES, CW_FOREVER, &frame, NULL)) return 1;
        memset(frame, gray, FRAME_BYTES);
        if (cw_large_pub_commit(publisher, CW_FOREVER, NULL, NULL)) return 1;
    }
    cw_large_pub_free(publisher);
    cw_group_free(group);
    return 0;
}

static int show(const char *path) {
    cw_sub_options options = {.policy = CW_RELIABLE};
    cw_group *group;
    cw_large_sub *subscriber;

    if (cw_group_join(path, &group, NULL)) return 1;
    if (cw_large_sub_new(group, &options, sizeof options, &subscriber, NULL)) return 1;
    for (int i = 0; i < 3; i++) {
        cw_payload *payload;
        cw_message message;
        const void *frame;
        size_t bytes;
        uint64_t sum = 0;
        if (cw_large_sub_recv(subscriber, CW_FOREVER, &payload, &message, sizeof message, NULL)) return 1;
        if (cw_payload_data(payload, &frame, &bytes, NULL)) return 1;
        for (size_t at = 0; at < bytes; at++) sum += ((const unsigned char *)frame)[at];
        printf("mean %.1f\n", (double)sum / (double)bytes);
        cw_payload_free(payload);
    }
    cw_large_sub_free(subscriber);
    cw_group_free(group);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "publish")) return publish(argv[2]);
    return argc == 2 ? show(argv[1]) : 2;
}
