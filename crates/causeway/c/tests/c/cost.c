/* What examples/cost.rs does, in C: to count the instructions of both (docs/c.md).
 *
 *     cost COUNT
 */
#include "check.h"
#include <string.h>

struct end {
    cw_group *group;
    cw_pub *pub;
    cw_sub *sub;
};

static struct end make(void) {
    cw_error *error = NULL;
    cw_sub_options want;
    struct end end;
    memset(&want, 0, sizeof want);
    want.policy = CW_RELIABLE;
    OK(cw_group_create("cost", NULL, 0, &end.group, &error));
    OK(cw_pub_new(end.group, &end.pub, &error));
    OK(cw_sub_new(end.group, &want, sizeof want, &end.sub, &error));
    return end;
}

int main(int argc, char **argv) {
    cw_error *error = NULL;
    char payload[64];
    memset(payload, 7, sizeof payload);
    TRUE(argc == 2);
    struct end there = make(), back = make();
    for (long count = atol(argv[1]); count > 0; count--) {
        cw_message m;
        if (cw_pub_publish(there.pub, 0, payload, 64, CW_FOREVER, NULL, &error)) return 1;
        if (cw_sub_next(there.sub, &m, sizeof m, &error)) return 1;
        if (cw_pub_publish(back.pub, 0, m.data, m.bytes, CW_FOREVER, NULL, &error)) return 1;
        if (cw_sub_next(back.sub, &m, sizeof m, &error) || m.bytes != 64) return 1;
    }
    return 0;
}
