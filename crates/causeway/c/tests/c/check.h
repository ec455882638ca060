/* What the test programs share: a check that says what it saw, and a wish that ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <causeway-bus.h>
#include <stdio.h>
#include <stdlib.h>

#define S 1000000000ll

static int is_code(int code, int wanted, cw_error **error, const char *what, int line) {
    if (code != wanted) {
        fprintf(stderr, "line %d: %s is %d and not %d: %s; %s\n", line, what, code, wanted,
                *error ? cw_error_text(*error) : "", *error && cw_error_remedy(*error) ? cw_error_remedy(*error) : "");
        exit(1);
    }
    cw_error_free(*error);
    *error = NULL;
    return code;
}

/* `call` uses `&error`, and returns `wanted`. */
#define IS(wanted, call) is_code(call, wanted, &error, #call, __LINE__)
#define OK(call) IS(CW_OK, call)
#define TRUE(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#endif
