/*
 * A mechanism of your own for Weighbridge: one shared object that exports `weighbridge_targets`.
 *
 *     cc -O2 -shared -fPIC -I FOLDER_OF_THIS_FILE mine.c -o libmine.so
 *     weighbridge run --target ./libmine.so roundtrip/mine roundtrip/unix-stream
 *
 * The file needs nothing else of Weighbridge; nothing is linked to it. `doorbell.c` beside this file is an example.
 *
 * Life of a run. Weighbridge reads the table in a short-lived process. For every run it calls `create` in another one,
 * which ends when that returns: of what was made there, the descriptors, the bytes and whatever lies in the place of the
 * run remain. Then one process for each end loads the object, is pinned, and calls `attach`, `prefault`, messages,
 * `settle`, `close`. With --set peers=thread all ends are threads of one process. An end is used by one thread.
 *
 * Functions return 0, or what went wrong: a number of errno, or one of your own that `error_text` words. A wait that
 * ends because the other end is gone is EPIPE. A function that crashes or does not return ends its run and no other.
 *
 * Nothing may be cached from one message to the next that the case does not have: Weighbridge checks each message's
 * length, compares sums of what arrives with what was sent, and checks messages byte by byte before and after the
 * timed part. The table is read once, and its words may not change.
 */
#ifndef WEIGHBRIDGE_TARGET_H
#define WEIGHBRIDGE_TARGET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when anything below changes its place or meaning. An object of another version is refused. What is added stands
 * at the end of `struct weighbridge_case` and `struct weighbridge_target` and raises nothing: both say how long they are. An
 * object that knows less is measured, and one that uses more than the program knows is refused. */
#define WEIGHBRIDGE_TARGET_VERSION 2u

/* What a mechanism can do; it carries bytes in any case. What is not said is not there. */
enum weighbridge_capability {
    WEIGHBRIDGE_DUPLEX = 1 << 0,      /* both ends send and receive: needed by `roundtrip` and `self` */
    WEIGHBRIDGE_BYTE_STREAM = 1 << 1, /* keeps no message boundaries: `take` returns exactly what is expected */
    WEIGHBRIDGE_NEVER_EMPTY = 1 << 2, /* cannot send a message of 0 bytes; a byte stream never can */
    WEIGHBRIDGE_LOSSY = 1 << 3,       /* may lose messages */
    WEIGHBRIDGE_ZERO_COPY = 1 << 4,   /* the receiver reads the sender's bytes where they lie */
    WEIGHBRIDGE_ONE_COPY = 1 << 5,    /* a payload is copied once on its way; without this and the above, twice */
    WEIGHBRIDGE_MAPS = 1 << 6,        /* each message lies in memory that is new to it, so page faults belong to it */
    WEIGHBRIDGE_YIELDS = 1 << 7,      /* an end that waits gives up the CPU by sched_yield */
    WEIGHBRIDGE_THREADS = 1 << 8,     /* works in threads of its own: an end is counted with its whole process */
    /* `fan-out`: each message of end 0 reaches every other end. A receiver of a mechanism that loses messages returns EAGAIN
     * from `take` where none came for some 50 ms, so that a lost one is not waited for. */
    WEIGHBRIDGE_FAN_OUT = 1 << 9,
    /* `fan-in`: the messages of every other end reach end 0, those of each in their order. Not with LOSSY. */
    WEIGHBRIDGE_FAN_IN = 1 << 10
};

/* Ends have numbers. In fan-out and fan-in there are more than two, and 1 and on are receivers or writers. */
enum weighbridge_side {
    WEIGHBRIDGE_NEAR = 0, /* speaks first; sends in `stream` and `fan-out`, reads in `fan-in` */
    WEIGHBRIDGE_FAR = 1
};

/* The case that is measured; its strings are there as long as the process. */
struct weighbridge_case {
    uint32_t struct_bytes; /* of this struct, as the program has it */
    uint32_t end_count;    /* 2; in fan-out and fan-in one more than there are receivers or writers */
    const char *name;      /* of the mechanism */
    size_t payload_bytes;  /* of the largest message */
    const char *wait;      /* how this case waits: one word of `waits` */
    const char *pattern;   /* roundtrip, stream, self, fan-out or fan-in */
    /* The place of this run. Whatever lies below the folder, and whatever in /dev/shm begins with the prefix (without a
     * slash), is removed when the run is over, also if everybody was killed. */
    const char *folder;
    const char *prefix;
};

#define WEIGHBRIDGE_FDS_MAX 128
#define WEIGHBRIDGE_BYTES_MAX 1024

/* What `create` hands over to one end. */
struct weighbridge_resources {
    uint32_t fd_count;
    int fds[WEIGHBRIDGE_FDS_MAX]; /* in `attach` they belong to the end, which closes them */
    uint32_t byte_count;
    unsigned char bytes[WEIGHBRIDGE_BYTES_MAX];
};

/* One mechanism. Those functions may be NULL of which that is said. */
struct weighbridge_target {
    uint32_t version;      /* WEIGHBRIDGE_TARGET_VERSION */
    uint32_t struct_bytes; /* sizeof(struct weighbridge_target) */
    const char *name;      /* in case ids: a-z, 0-9 and -, the first a letter; no name that Weighbridge has */
    const char *about;     /* one sentence for `weighbridge list` */
    const char *measured_version; /* of what is measured, for the record */
    uint32_t capabilities; /* of enum weighbridge_capability, or-ed */
    const char *waits;     /* ways to wait, apart by spaces, the default first: block spin spin-block poll epoll uring yield */
    /* The largest message that one thread with both ends can send and then receive (pattern `self`); 0 where the ends
     * wait for each other in `attach`, or nothing is kept on its way. */
    size_t to_itself_bytes;

    /* Makes what the ends share: `ends` has `of->end_count` of them. NULL: nothing, or all of it lies in the place. */
    int (*create)(const struct weighbridge_case *of, struct weighbridge_resources *ends);
    /* End number `side` (the first two are those of enum weighbridge_side), in its process. May wait for the others. `from` is
     * there until it returns. */
    int (*attach)(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **end);
    /* Room for a message of `bytes`, waiting for it where necessary: at *data, of *room bytes or more. A loan that is not
     * committed was never sent; the next loan takes its place. */
    int (*loan)(void *end, size_t bytes, void **data, size_t *room);
    /* Sends the first `bytes` of the loan. */
    int (*commit)(void *end, void *data, size_t bytes);
    /* The next message, waiting for it: where it lies and its length, which need not be the expected one. */
    int (*take)(void *end, size_t expected_bytes, const void **data, size_t *bytes);
    /* The message that was taken is not read any more. NULL: nothing to do. */
    int (*release)(void *end, const void *data);
    /* Touches the memory that messages will lie in, before anything is timed. NULL: nothing to do. */
    int (*prefault)(void *end);
    /* Returns when nothing that was sent needs this end any more. It may wait until the other ends settle too, unless the
     * pattern is `self`, in which one thread has both. NULL: at once. */
    int (*settle)(void *end);
    /* NULL: nothing to do. */
    void (*close)(void *end);
    /* How far this end has come in what it receives, as the mechanism itself counts: messages, or a position that every
     * message of one size moves by as much. Compared with what Weighbridge counts. NULL: not counted. */
    uint64_t (*position)(void *end);
    /* Effective settings for the record, read back: calls `fact` with `to` for each. NULL: none. */
    int (*facts)(void *end, void (*fact)(void *to, const char *name, const char *value), void *to);
    /* Words for an error that is none of errno. NULL: all of them are. */
    const char *(*error_text)(int error);
};

/* What the shared object exports: its mechanisms, and after them one that is all zero. */
extern const struct weighbridge_target weighbridge_targets[];

#ifdef __cplusplus
}
#endif

#endif
