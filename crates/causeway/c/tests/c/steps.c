/* Counts the instructions that the first thread of a program executes in user mode: steps PROGRAM ARGUMENT... */
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int status;
    unsigned long steps = 0;
    if (argc < 2) return 2;
    pid_t child = fork();
    if (child == 0) {
        /* Without its tracer it would go on. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        steps++;
        ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(long)(signal == 5 ? 0 : signal));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "%s failed: %x\n", argv[1], status);
        return 1;
    }
    printf("%lu\n", steps);
    return 0;
}
