/* Preloaded, it makes each write() do SLOWER_WRITE_LOOPS turns of a loop more. docs/figures/precision.sh compiles it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long loops;

__attribute__((constructor)) static void read_loops(void) {
    const char *text = getenv("SLOWER_WRITE_LOOPS");
    loops = text ? atol(text) : 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    for (volatile long turn = 0; turn < loops; turn++) {
    }
    return syscall(SYS_write, fd, bytes, count);
}
