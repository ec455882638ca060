/* A frame of 8 MiB from one process to another without a copy: it is written where its subscribers read it. */
#include <causeway.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAME_BYTES ((size_t)8 << 20)

static int show(int socket) {
    cw_sub_options options = {0};
    cw_group *group;
    cw_large_sub *subscriber;
    cw_payload *payload;
    cw_message message;
    const void *frame;
    size_t bytes;

    options.policy = CW_RELIABLE;
    if (cw_group_join_socket(socket, &group, NULL)) return 1;
    if (cw_large_sub_new(group, &options, sizeof options, &subscriber, NULL)) return 1;
    if (cw_large_sub_recv(subscriber, CW_FOREVER, &payload, &message, sizeof message, NULL)) return 1;
    if (cw_payload_data(payload, &frame, &bytes, NULL)) return 1;
    printf("a frame of %zu bytes, of which the last is %d\n", bytes, ((const unsigned char *)frame)[bytes - 1]);
    cw_payload_free(payload);
    cw_large_sub_free(subscriber);
    cw_group_free(group);
    return 0;
}

int main(int argc, char **argv) {
    cw_group_options options = {0};
    cw_pool_options pool = {0};
    cw_group *group;
    cw_large_pub *publisher;
    void *frame;
    char number[16];
    int socket, status = 1;

    if (argc == 2) return sscanf(argv[1], "%d", &socket) == 1 ? show(socket) : 2;
    options.flags = CW_LARGE_PAYLOADS;
    pool.payload_bytes_max = FRAME_BYTES;
    pool.kind = CW_SEALED; /* no process can change it: subscribers get a pointer */
    if (cw_group_create("frames", &options, sizeof options, &group, NULL)) return 1;
    if (cw_large_pub_new(group, &pool, sizeof pool, &publisher, NULL)) return 1;
    if (cw_group_invite(group, &socket, NULL)) return 1;
    snprintf(number, sizeof number, "%d", dup(socket)); /* the copy stays open in the program that begins */
    if (!fork()) return execl("/proc/self/exe", argv[0], number, (char *)NULL);
    if (cw_large_pub_wait_for_subscribers(publisher, 1, CW_FOREVER, NULL)) return 1;
    if (cw_large_pub_loan(publisher, FRAME_BYTES, CW_FOREVER, &frame, NULL)) return 1;
    memset(frame, 7, FRAME_BYTES);
    if (cw_large_pub_commit(publisher, CW_FOREVER, NULL, NULL)) return 1;
    wait(&status);
    close(socket);
    cw_large_pub_free(publisher);
    cw_group_free(group);
    return status != 0;
}
