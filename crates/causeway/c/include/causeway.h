/*
 * Causeway: a message bus in shared memory; the log and calls. The bus is in causeway-bus.h.
 *
 * Results: 0 is success. 1 and above are outcomes that every program must expect, each its own number. Below -4096 are
 * failures (never an errno). Nothing but the error is written where a function does not return 0; what else is written
 * stands at the function.
 *
 * Errors: the last argument of a function, where it is a cw_error **, may be null. After a failure it is what
 * cw_error_free frees.
 *
 * Handles: pointers to incomplete types. Each is freed by the function of its name and by no other; freeing null is
 * nothing. One thread at a time uses a handle: a second one gets CW_E_BUSY. After a fork, the child gets CW_E_FORKED from
 * all functions but those that free, which then free nothing but memory.
 *
 * Times are nanoseconds of an int64_t; a negative one has no limit, and 0 does not wait.
 *
 * Structures may grow at the end in later versions: pass sizeof. Those for options begin as zeroes, and a zero is the
 * default. What a library does not know of a caller's structure must be zero; what a caller does not know is zero.
 */
#ifndef CAUSEWAY_H
#define CAUSEWAY_H

#include <stddef.h>
/* Where stdint.h is missing, define CW_NO_STDINT and the types int32_t, int64_t, uint32_t and uint64_t. */
#ifndef CW_NO_STDINT
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CW_OK 0
#define CW_FOREVER ((int64_t)-1)

enum cw_outcome {
    CW_MAY_SLEEP = 1,   /* nothing is there: wait for the descriptor */
    CW_EMPTY = 2,       /* there is no message yet */
    CW_FULL = 3,        /* the log is full */
    CW_TIMED_OUT = 4,   /* the time is over */
    CW_LOST = 5,        /* messages were lost before the next one */
    CW_DEMOTED = 6,     /* publishers no longer wait for this subscriber */
    CW_ENDED = 7,       /* the group has ended: everything was received */
    CW_OVERWRITTEN = 8, /* what was read does not count: it was overwritten meanwhile */
    CW_CANCELLED = 9,   /* the call was cancelled, never begun, or its reply was taken */
    CW_NO_REPLY = 10,   /* the server ended the call without a reply */
    CW_CLIENT_GONE = 11, /* the client of a call is gone, or does not read its replies */
    CW_NOT_FOUND = 12,  /* there is no such thing */
    CWB_AUTHORITY_GONE = 13 /* the process that serves the bus is gone; members go on */
};

enum cw_failure {
    CW_E_PANIC = -4097,      /* the library has a defect; the handle is unusable from now on */
    CW_E_POISONED = -4098,   /* an earlier call on this handle returned CW_E_PANIC */
    CW_E_FORKED = -4099,     /* this process is a child of the one that made the handle */
    CW_E_BUSY = -4100,       /* another thread uses this handle */
    CW_E_NULL = -4101,       /* a pointer is null that must not be */
    CW_E_RANGE = -4102,      /* a number, a flag or a text is none that is possible here */
    CW_E_STATE = -4103,      /* not now: a loan or a view is open, or none is */
    CW_E_OS = -4104,         /* the kernel refused a call: cw_error_errno */
    CW_E_KERNEL = -4105,     /* this kernel lacks what the library needs */
    CW_E_INVALID = -4106,    /* a descriptor, a message or an argument is not what it should be */
    CW_E_REFUSED = -4107,    /* the server refused: cw_error_remedy says what helps */
    CW_E_SERVER_GONE = -4108, /* the process that serves is gone */
    CW_E_TOO_LONG = -4109,   /* a message is longer than is possible */
    CW_E_EVICTED = -4110,    /* this publisher was evicted */
    CW_E_MISSED_DEADLINE = -4111, /* this subscriber missed its deadline and is disconnected */
    CW_E_CORRUPT = -4112,    /* shared memory holds what no correct process writes */
    CW_E_NO_ANSWER = -4113,  /* the server does not answer in time */
    CW_E_WRONG_SIZE = -4114, /* a message is not as long as its type */
    CW_E_TOO_MANY_REFERENCES = -4115, /* this subscriber holds as many payloads as it may */
    CW_E_NOT_SEALED = -4116, /* this payload can change: copy it */
    CW_E_REPLIES_NOT_READ = -4117, /* the server ended the connection, because its replies were not read */
    CW_E_UNKNOWN = -4118,    /* a failure that this version has no number for */
    CWB_E_METHOD = -4119,    /* the answer is a D-Bus error: cw_error_name */
    CWB_E_ARGUMENTS = -4120, /* the arguments have other types */
    CWB_E_DISCONNECTED = -4121, /* the bus ended this connection */
    CWB_E_AUTHORITY_GONE = -4122 /* the process that serves the bus is gone, and what was asked needs it */
};

/* ---- Errors. They belong to no handle and to no process. Texts live until the error is freed. ---- */

typedef struct cw_error cw_error;

int cw_error_code(const cw_error *error);
int cw_error_errno(const cw_error *error);            /* 0 where the kernel has none */
const char *cw_error_text(const cw_error *error);     /* what happened */
const char *cw_error_remedy(const cw_error *error);   /* what to do about it; null where that is not known */
const char *cw_error_name(const cw_error *error);     /* the name of a D-Bus error, or null */
void cw_error_free(cw_error *error);

/* ---- Groups ---- */

typedef struct cw_group cw_group;

/* Policies: what happens when a subscriber falls behind. The value of two is a time in ns, of the last one bytes. */
#define CW_RELIABLE 1u
#define CW_DEMOTE_AFTER 2u
#define CW_DISCONNECT_AFTER 3u
#define CW_LOSSY 4u
#define CW_LAG_AT_MOST 5u

/* Flags of a group. */
#define CW_SEVERAL_PUBLISHERS 1u /* up to 64, all in this process */
#define CW_LATE_PUBLISHERS 2u    /* publishers of other processes, at any time */
#define CW_LARGE_PAYLOADS 4u     /* cw_large_pub_new, cw_large_sub_new */
#define CW_ANY_PUBLISHER 8u      /* of any user */
#define CW_ANY_SUBSCRIBER 16u    /* of any user */

#define CW_SAME_USER 1u
#define CW_STRANGERS 2u

typedef struct cw_group_options {
    uint64_t capacity_bytes;       /* a power of two from 4 KiB to 1 GiB; 256 KiB by default */
    uint32_t flags;
    uint32_t remote_publishers;    /* so many in other processes, and then none */
    uint64_t publisher_rate_max;   /* messages in a second of a publisher of another process */
    uint32_t trust;                /* CW_SAME_USER, CW_STRANGERS; by default what the rules allow */
    uint32_t most_patient;         /* the most patient policy for other processes, and its value */
    uint64_t most_patient_value;
    uint32_t most_patient_for_others; /* the same for other users */
    uint32_t format;               /* the highest of its logs; that of the release before by default */
    uint64_t most_patient_for_others_value;
    const uint32_t *publishers;    /* users that may publish besides root; the same user by default */
    uint64_t publisher_count;
    const uint32_t *subscribers;
    uint64_t subscriber_count;
} cw_group_options;

typedef struct cw_peer {
    uint32_t pid;
    uint32_t uid;
    uint32_t gid;
} cw_peer;

int cw_group_create(const char *name, const cw_group_options *options, size_t options_bytes, cw_group **group,
                    cw_error **error);
int cw_group_join(const char *path, cw_group **group, cw_error **error);
/* A socket of cw_group_invite, from another process. It is the library's after a success. */
int cw_group_join_socket(int socket, cw_group **group, cw_error **error);
int cw_group_serve_at(cw_group *group, const char *path, cw_error **error);
int cw_group_invite(cw_group *group, int *socket, cw_error **error);
int cw_group_resize(cw_group *group, uint64_t capacity_bytes, cw_error **error);
/* The highest format of this release, as soon as all members have it. Writes that of the next log. */
int cw_group_upgrade(cw_group *group, uint32_t *format, cw_error **error);
/* CW_NOT_FOUND where there is no such subscriber or publisher. */
int cw_group_disconnect(cw_group *group, uint32_t subscriber, cw_error **error);
int cw_group_disconnect_publisher(cw_group *group, uint32_t publisher, cw_error **error);
int cw_group_evict(cw_group *group, uint32_t publisher, cw_error **error);
int cw_group_server(cw_group *group, cw_peer *server, size_t server_bytes, cw_error **error);
void cw_group_free(cw_group *group);

/* ---- Publishers ---- */

typedef struct cw_pub cw_pub;

int cw_pub_new(cw_group *group, cw_pub **publisher, cw_error **error);
/* CW_FULL without a wait, CW_TIMED_OUT after one, CW_ENDED. The position may be null. */
int cw_pub_publish(cw_pub *publisher, uint32_t topic, const void *data, size_t bytes, int64_t timeout_ns,
                   uint64_t *position, cw_error **error);
/* Space for a message, to be written and then committed or abandoned. Until then the publisher does nothing else. */
int cw_pub_loan(cw_pub *publisher, size_t bytes, int64_t timeout_ns, void **data, cw_error **error);
int cw_pub_commit(cw_pub *publisher, uint32_t topic, uint64_t *position, cw_error **error);
int cw_pub_abandon(cw_pub *publisher, cw_error **error);
int cw_pub_wait_for_subscribers(cw_pub *publisher, uint32_t count, int64_t timeout_ns, cw_error **error);
int cw_pub_id(cw_pub *publisher, uint32_t *id, cw_error **error);
int cw_pub_payload_bytes_max(cw_pub *publisher, size_t *bytes, cw_error **error);
int cw_pub_server_is_gone(cw_pub *publisher, uint32_t *is_gone, cw_error **error);
void cw_pub_free(cw_pub *publisher);

/* ---- Subscribers ---- */

typedef struct cw_sub cw_sub;

#define CW_FROM_OLDEST 1u /* the oldest message of the log comes first */
#define CW_ONLY_TOPICS 2u /* those of the array */
#define CW_LIMITED 4u     /* cw_sub_new waits at most timeout_ns for remote publishers */

typedef struct cw_sub_options {
    uint32_t policy; /* required */
    uint32_t flags;
    uint64_t policy_value;
    int64_t timeout_ns;
    const uint32_t *topics;
    uint64_t topic_count;
} cw_sub_options;

typedef struct cw_message {
    const void *data;       /* valid until the next use of the subscriber; null where the payload is elsewhere */
    uint64_t bytes;
    uint64_t position;      /* the same for all subscribers */
    uint32_t publisher;
    uint32_t sequence;      /* messages of this publisher before, modulo 2^32 */
    uint32_t topic;
    uint32_t lost_before;   /* messages of this publisher that this subscriber lost; UINT32_MAX: not known */
    uint64_t lost_messages; /* with CW_LOST alone, as the next */
    uint64_t lost_bytes;
} cw_message;

typedef struct cw_health {
    uint32_t server_is_gone;
    uint32_t demoted;
    uint32_t publishers;
    int32_t unfinished_by; /* the publisher that has not finished the next message; -1 for none */
    uint64_t given_up;
    uint64_t killed_publishers;
} cw_health;

int cw_sub_new(cw_group *group, const cw_sub_options *options, size_t options_bytes, cw_sub **subscriber,
               cw_error **error);
/* The next message: without waiting (CW_EMPTY), or within a time (CW_TIMED_OUT). CW_LOST, which writes lost_messages
   and lost_bytes, CW_DEMOTED, CW_ENDED. */
int cw_sub_next(cw_sub *subscriber, cw_message *message, size_t message_bytes, cw_error **error);
int cw_sub_recv(cw_sub *subscriber, int64_t timeout_ns, cw_message *message, size_t message_bytes, cw_error **error);
/* Something is there, or CW_TIMED_OUT. The second never sleeps. */
int cw_sub_wait(cw_sub *subscriber, int64_t timeout_ns, cw_error **error);
int cw_sub_spin(cw_sub *subscriber, int64_t timeout_ns, cw_error **error);
int cw_sub_spin_at_most(cw_sub *subscriber, uint64_t longest_ns, cw_error **error);
/* Event loops: before each wait cw_sub_prepare. 0: look again (cw_sub_next until CW_EMPTY); CW_MAY_SLEEP: the next
   message makes the descriptor readable. Do not read from it. */
int cw_sub_fd(cw_sub *subscriber, int *fd, cw_error **error);
int cw_sub_prepare(cw_sub *subscriber, cw_error **error);
int cw_sub_disarm(cw_sub *subscriber, cw_error **error);
/* The next message where it lies; data is null. What was copied counts only if cw_view_finish returns 0, and not
   CW_OVERWRITTEN. Until then the subscriber does nothing else. */
int cw_sub_view(cw_sub *subscriber, cw_message *message, size_t message_bytes, cw_error **error);
int cw_view_copy(cw_sub *subscriber, void *into, size_t bytes, size_t *copied, cw_error **error);
int cw_view_finish(cw_sub *subscriber, cw_error **error);
int cw_sub_health(cw_sub *subscriber, cw_health *health, size_t health_bytes, cw_error **error);
int cw_sub_id(cw_sub *subscriber, uint32_t *id, cw_error **error);
int cw_sub_lost(cw_sub *subscriber, uint64_t *messages, cw_error **error);
void cw_sub_free(cw_sub *subscriber);

/* ---- Large payloads, by reference: in groups with CW_LARGE_PAYLOADS ---- */

typedef struct cw_large_pub cw_large_pub;
typedef struct cw_large_sub cw_large_sub;
typedef struct cw_payload cw_payload;

#define CW_REUSED 1u /* memory is used again: fast; subscribers copy */
#define CW_SEALED 2u /* no process can change what was published: subscribers read it where it lies */

typedef struct cw_pool_options {
    uint64_t payload_bytes_max; /* required */
    uint32_t files;             /* payloads that exist at a time, 1 to 64; 8 by default */
    uint32_t kind;              /* CW_REUSED, CW_SEALED; by default what the trust of the group allows */
} cw_pool_options;

int cw_large_pub_new(cw_group *group, const cw_pool_options *options, size_t options_bytes, cw_large_pub **publisher,
                     cw_error **error);
int cw_large_pub_loan(cw_large_pub *publisher, size_t bytes, int64_t timeout_ns, void **data, cw_error **error);
/* After CW_FULL and CW_TIMED_OUT the loan is still there. */
int cw_large_pub_commit(cw_large_pub *publisher, int64_t timeout_ns, uint64_t *position, cw_error **error);
int cw_large_pub_abandon(cw_large_pub *publisher, cw_error **error);
int cw_large_pub_wait_for_subscribers(cw_large_pub *publisher, uint32_t count, int64_t timeout_ns, cw_error **error);
void cw_large_pub_free(cw_large_pub *publisher);

int cw_large_sub_new(cw_group *group, const cw_sub_options *options, size_t options_bytes, cw_large_sub **subscriber,
                     cw_error **error);
/* As cw_sub_next and cw_sub_recv. A subscriber holds at most 16 payloads. */
int cw_large_sub_recv(cw_large_sub *subscriber, int64_t timeout_ns, cw_payload **payload, cw_message *message,
                      size_t message_bytes, cw_error **error);
int cw_large_sub_fd(cw_large_sub *subscriber, int *fd, cw_error **error);
int cw_large_sub_prepare(cw_large_sub *subscriber, cw_error **error);
void cw_large_sub_free(cw_large_sub *subscriber);

/* The payload itself, until it is freed, if it is sealed; otherwise CW_E_NOT_SEALED. */
int cw_payload_data(cw_payload *payload, const void **data, size_t *bytes, cw_error **error);
/* CW_OVERWRITTEN: the copy does not count. */
int cw_payload_copy(cw_payload *payload, void *into, size_t bytes, size_t *copied, cw_error **error);
void cw_payload_free(cw_payload *payload);

/* ---- Calls ---- */

typedef struct cw_server cw_server;
typedef struct cw_responder cw_responder;
typedef struct cw_client cw_client;

#define CW_ANY_CLIENT 1u  /* of any user */
#define CW_DESCRIPTORS 2u /* clients may send descriptors */

typedef struct cw_serve_options {
    uint64_t capacity_bytes; /* of the two logs of a client; a message has at most a quarter */
    uint32_t flags;
    uint32_t reserved;
    uint64_t patience_ns;    /* how long a reply waits for a client that does not read; 1 s by default */
    const uint32_t *clients; /* users that may call besides root; the same user by default */
    uint64_t client_count;
} cw_serve_options;

/* A request in a handler, or a reply. The descriptors are closed by the library: keep a dup. */
typedef struct cw_request {
    const void *data;
    uint64_t bytes;
    const int *fds;
    uint64_t fd_count;
    uint32_t pid; /* of the client; 0 in a reply, as the next */
    uint32_t uid;
    uint32_t gid;
    uint32_t reserved;
} cw_request;

/* Called by threads of the library, one for each client, several at once. The request ends with the call; the
   responder is the handler's, which replies now or hands it to another thread, and frees it. It returns: an exception
   of C++ that leaves it ends the program with a sentence and SIGABRT, as one that nobody catches does. */
typedef void (*cw_handler)(void *user, const cw_request *request, cw_responder *responder);

int cw_call_serve(const char *path, const cw_serve_options *options, size_t options_bytes, cw_handler handler,
                  void *user, cw_server **server, cw_error **error);
int cw_server_clients(cw_server *server, size_t *clients, cw_error **error);
/* Returns when no handler runs any more, unless a handler calls it. */
void cw_server_free(cw_server *server);

/* CW_CANCELLED, CW_CLIENT_GONE. Whatever it returns, the call is over then. */
int cw_reply(cw_responder *responder, const void *data, size_t bytes, const int *fds, size_t fd_count,
             cw_error **error);
int cw_responder_is_cancelled(cw_responder *responder, uint32_t *is_cancelled, cw_error **error);
/* Without a reply, the client gets CW_NO_REPLY. */
void cw_responder_free(cw_responder *responder);

int cw_client_connect(const char *path, cw_client **client, cw_error **error);
int cw_client_spin_at_most(cw_client *client, uint64_t longest_ns, cw_error **error);
/* The reply is valid until the next use of the client. CW_TIMED_OUT, CW_NO_REPLY. */
int cw_client_call(cw_client *client, const void *data, size_t bytes, int64_t timeout_ns, cw_request *reply,
                   size_t reply_bytes, cw_error **error);
int cw_client_begin(cw_client *client, const void *data, size_t bytes, const int *fds, size_t fd_count,
                    int64_t timeout_ns, uint64_t *call, cw_error **error);
int cw_client_wait(cw_client *client, uint64_t call, cw_request *reply, size_t reply_bytes, cw_error **error);
/* The calls for which cw_client_wait returns at once: their count, and as many as there is space for. */
int cw_client_poll(cw_client *client, uint64_t *calls, size_t capacity, size_t *count, cw_error **error);
int cw_client_cancel(cw_client *client, uint64_t call, cw_error **error);
void cw_client_free(cw_client *client);

#ifdef __cplusplus
}
#endif

#endif
