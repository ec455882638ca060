/* What the independent programs share, which is none of the laboratory's code: they call in blocks, as they are told to, and say what a
 * call took and what each process spent on it.
 *
 * For each line on its standard input, a program makes calls for BLOCK_NS and prints one line: nanoseconds of a call (the median of all, of
 * which each is timed by itself, so that calls in which the processes were preempted do not count), then for caller, server and
 * broker the CPU time and the context switches of a call.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_NS 1e8
/* What is dropped at the beginning of a block. */
#define WARM_NS 1e7
#define MOST_CALLS 100000

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void pin(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus)) fail("sched_setaffinity");
}

/* Of the child, after fork: it ends with its parent. */
static void die_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) exit(1);
}

struct spent {
    double cpu_ns, switches;
};

static struct spent spent_by(pid_t pid) {
    struct spent spent = {0};
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lf", &spent.cpu_ns) != 1) fail(path);
    fclose(file);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (!(file = fopen(path, "r"))) fail(path);
    while (fgets(line, sizeof line, file)) {
        char *name = strstr(line, "ctxt_switches:");
        if (name) spent.switches += atof(name + strlen("ctxt_switches:"));
    }
    fclose(file);
    return spent;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls for some time; how many, and what each took. */
static size_t call_for(double ns, void (*call)(void), double *took) {
    size_t calls = 0;
    double began = now_ns();
    for (double now = began; now < began + ns && calls < MOST_CALLS; calls++) {
        call();
        double after = now_ns();
        took[calls] = after - now;
        now = after;
    }
    return calls;
}

/* Blocks until standard input ends. `call` makes one call and checks its reply. */
static void make_blocks(void (*call)(void), pid_t server, pid_t broker) {
    static double took[MOST_CALLS];
    const pid_t processes[] = {getpid(), server, broker};
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        call_for(WARM_NS, call, took);
        struct spent before[3], after[3];
        for (int process = 0; process < 3; process++) before[process] = spent_by(processes[process]);
        size_t calls = call_for(BLOCK_NS, call, took);
        for (int process = 0; process < 3; process++) after[process] = spent_by(processes[process]);
        qsort(took, calls, sizeof *took, ascending);
        printf("%.0f", took[calls / 2]);
        for (int process = 0; process < 3; process++)
            printf(" %.0f %.3f", (after[process].cpu_ns - before[process].cpu_ns) / calls,
                   (after[process].switches - before[process].switches) / calls);
        printf("\n");
        fflush(stdout);
    }
}
