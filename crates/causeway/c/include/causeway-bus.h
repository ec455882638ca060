/*
 * The bus of Causeway: names, calls, signals and match rules of D-Bus between the members of a bus in shared memory.
 * The rules of causeway.h hold here, too.
 */
#ifndef CAUSEWAY_BUS_H
#define CAUSEWAY_BUS_H

#include <causeway.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cwb_bus cwb_bus;
typedef struct cwb_message cwb_message;
typedef struct cwb_body cwb_body;

#define CWB_NO_AUTO_START 1u /* a call to a name without owner fails at once */
#define CWB_NEVER_POLL 2u    /* sleep at once */

typedef struct cwb_options {
    uint64_t outbox_bytes;        /* a power of two; 256 KiB by default */
    uint64_t call_timeout_ns;     /* of cwb_call; 25 s by default */
    uint64_t laggard_deadline_ns; /* that of the bus by default */
    uint64_t spin_ns;             /* how long to poll before a sleep; 30 us by default */
    uint64_t inbox_bytes;
    uint64_t pending_calls;
    uint32_t flags;
    uint32_t reserved;
} cwb_options;

/* Kinds of messages. */
#define CWB_CALL 1u
#define CWB_RETURN 2u
#define CWB_ERROR 3u
#define CWB_SIGNAL 4u

/* Flags of cwb_request_name, and what it and cwb_release_name say. */
#define CWB_ALLOW_REPLACEMENT 1u
#define CWB_REPLACE_EXISTING 2u
#define CWB_DO_NOT_QUEUE 4u
#define CWB_PRIMARY_OWNER 1u
#define CWB_IN_QUEUE 2u
#define CWB_EXISTS 3u
#define CWB_ALREADY_OWNER 4u

/* Joins the bus that is served at a path; with null the bus of the session. */
int cwb_open(const char *path, const cwb_options *options, size_t options_bytes, cwb_bus **bus, cw_error **error);
int cwb_unique_name(cwb_bus *bus, const char **name, cw_error **error);
/* The reply may be null. */
int cwb_request_name(cwb_bus *bus, const char *name, uint32_t flags, uint32_t *reply, cw_error **error);
int cwb_release_name(cwb_bus *bus, const char *name, uint32_t *reply, cw_error **error);
/* Valid until the next use of this function. CW_NOT_FOUND. */
int cwb_name_owner(cwb_bus *bus, const char *name, const char **owner, cw_error **error);
void cwb_free(cwb_bus *bus);

/*
 * Arguments. A call, a signal or a reply takes what the body holds, which is empty then; a null body has none. The types
 * are letters: y uint8_t, b int, n int16_t, q uint16_t, i int32_t, u uint32_t, x int64_t, t uint64_t, d double, s o g text,
 * h int, a descriptor, of which a copy is sent. A value is passed by its address, a text by its own.
 */
int cwb_body_new(cwb_body **body, cw_error **error);
/* Arguments of any types but h, as words, in the manner of busctl: a number of elements before those of an array. */
int cwb_body_of_words(const char *types, const char *const *words, size_t count, cwb_body **body, cw_error **error);
int cwb_body_append(cwb_body *body, uint32_t type, const void *value, cw_error **error);
int cwb_body_append_bytes(cwb_body *body, const void *data, size_t bytes, cw_error **error);
void cwb_body_free(cwb_body *body);

/* CWB_E_METHOD: the answer is an error, whose name cw_error_name has. */
int cwb_call(cwb_bus *bus, const char *destination, const char *path, const char *interface, const char *member,
             cwb_body *body, cwb_message **reply, cw_error **error);
int cwb_call_no_reply(cwb_bus *bus, const char *destination, const char *path, const char *interface,
                      const char *member, cwb_body *body, cw_error **error);
/* The reply or error comes from cwb_next or cwb_process, with this serial; or CW_TIMED_OUT does. */
int cwb_call_async(cwb_bus *bus, const char *destination, const char *path, const char *interface,
                   const char *member, cwb_body *body, int64_t timeout_ns, uint32_t *serial, cw_error **error);
int cwb_cancel(cwb_bus *bus, uint32_t serial, cw_error **error);
int cwb_emit(cwb_bus *bus, const char *path, const char *interface, const char *member, cwb_body *body,
             cw_error **error);
int cwb_add_match(cwb_bus *bus, const char *rule, cw_error **error);
int cwb_remove_match(cwb_bus *bus, const char *rule, cw_error **error);

/* Answers to a message of the kind CWB_CALL. The last one is for calls that the library answers: Peer, Introspect of
   objects that were described; CW_NOT_FOUND for others. */
int cwb_reply(cwb_bus *bus, cwb_message *call, cwb_body *body, cw_error **error);
int cwb_reply_error(cwb_bus *bus, cwb_message *call, const char *name, const char *text, cw_error **error);
int cwb_describe(cwb_bus *bus, const char *path, const char *interfaces, cw_error **error);
int cwb_answer_standard(cwb_bus *bus, cwb_message *call, cw_error **error);

/*
 * What has come, within a time or at once: a call, a signal, or the reply to cwb_call_async; CW_EMPTY; CW_TIMED_OUT for
 * the call whose serial is written (which may be null, and is 0 for what is no reply); CWB_AUTHORITY_GONE, once.
 */
int cwb_next(cwb_bus *bus, int64_t timeout_ns, cwb_message **message, uint32_t *serial, cw_error **error);
int cwb_process(cwb_bus *bus, cwb_message **message, uint32_t *serial, cw_error **error);
/*
 * Event loops, as with sd-bus: ask all three before each wait, and do nothing else with the bus in between. The time is one
 * of CLOCK_MONOTONIC in microseconds: UINT64_MAX is none, and 0 means that something is there. Then cwb_process until
 * CW_EMPTY.
 */
int cwb_get_fd(cwb_bus *bus, int *fd, cw_error **error);
int cwb_get_events(cwb_bus *bus, int *events, cw_error **error);
int cwb_get_timeout(cwb_bus *bus, uint64_t *timeout_usec, cw_error **error);

/* Messages. Texts and data live as long as the message; null is for what it does not have. */
uint32_t cwb_message_kind(cwb_message *message);
const char *cwb_message_sender(cwb_message *message);
const char *cwb_message_path(cwb_message *message);
const char *cwb_message_interface(cwb_message *message);
const char *cwb_message_member(cwb_message *message);
const char *cwb_message_error_name(cwb_message *message);
const char *cwb_message_signature(cwb_message *message);
uint64_t cwb_message_position(cwb_message *message); /* in the one order of the bus */
uint64_t cwb_message_sent_ns(cwb_message *message);  /* of CLOCK_MONOTONIC */
int cwb_message_body(cwb_message *message, const void **data, size_t *bytes, cw_error **error);
/* The argument with an index, of a basic type as for cwb_body_append, also inside a variant; s, o and g write a const
   char *, h a descriptor of the message. CW_NOT_FOUND, CWB_E_ARGUMENTS. */
int cwb_message_arg(cwb_message *message, uint32_t index, uint32_t type, void *value, cw_error **error);
int cwb_message_arg_bytes(cwb_message *message, uint32_t index, const void **data, size_t *bytes, cw_error **error);
/* A descriptor, by its place among those of the message. The caller closes it. */
int cwb_message_take_fd(cwb_message *message, uint32_t index, int *fd, cw_error **error);
void cwb_message_free(cwb_message *message);

#ifdef __cplusplus
}
#endif

#endif
