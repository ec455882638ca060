/* Eclipse Cyclone DDS (EPL-2.0 or EDL-1.0): a participant at each end, a topic each way, reliable and all kept. Its settings
 * are its defaults, but that it uses the loopback device only, without multicast, and finds the other end at its address.
 * A payload is copied into the message that is sent and out of the one that came: the library does that, in `dds_write` and
 * `dds_take`. Debian: cyclonedds-dev, cyclonedds-tools (idlc). `make` beside this file builds it. */
#include <ctype.h>
#include <dds/dds.h>
#include <dds/version.h>
#include "message.h"
#include "rival.h"

enum { OWN = 1000, DOMAINS = 200, READER_MESSAGES = 4096 };
struct end {
    dds_entity_t domain, reader, writer, waitset;
    rival_Message out;
    void *taken;
    int meeting, does_spin;
};

static const char CONFIG[] =
    "<CycloneDDS><Domain id='any'><General><AllowMulticast>false</AllowMulticast><Interfaces>"
    "<NetworkInterface name='lo' multicast='false'/></Interfaces></General>"
    "<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address='127.0.0.1'/></Peers></Discovery>"
    "</Domain></CycloneDDS>";

/* Of a call that gives a negative number of its own where it fails. */
static int check(int result) { return result >= 0 ? 0 : OWN - result; }

/* The runs of other programs have domains and topics of their own. */
static dds_domainid_t domain_of(const char *prefix) {
    unsigned sum = 0;
    while (*prefix) sum = sum * 31 + (unsigned char)*prefix++;
    return 1 + sum % DOMAINS;
}

/* A name of a topic has letters, digits and underscores. */
static void name_topic(char name[200], const char *prefix, int way) {
    snprintf(name, 200, "way_%d_%s", way, prefix);
    for (char *at = name; *at; at++) if (!isalnum((unsigned char)*at)) *at = '_';
}

static int await(dds_entity_t entity, uint32_t status) {
    uint32_t is = 0;
    dds_entity_t set = dds_create_waitset(entity > 0 ? dds_get_participant(entity) : entity);
    int error = check(dds_set_status_mask(entity, status));
    if (!error) error = check(dds_waitset_attach(set, entity, 1));
    while (!error && !(is & status)) {
        error = check(dds_waitset_wait(set, NULL, 0, DDS_SECS(10)));
        if (!error) error = check(dds_get_status_changes(entity, &is));
    }
    dds_delete(set);
    return error;
}

static int attach(const struct weighbridge_case *of, uint32_t side, struct weighbridge_resources *from, void **made) {
    char topics[2][200];
    struct end *end = calloc(1, sizeof *end);
    if (!end) return ENOMEM;
    *made = end, end->meeting = from->fds[0], end->does_spin = !strcmp(of->wait, "spin");
    end->out.payload._buffer = malloc(of->payload_bytes + 1);
    if (!end->out.payload._buffer) return ENOMEM;
    end->out.payload._maximum = (uint32_t)of->payload_bytes;
    for (int way = 0; way < 2; way++) name_topic(topics[way], of->prefix, way);
    dds_domainid_t domain = domain_of(of->prefix);
    end->domain = dds_create_domain(domain, CONFIG);
    if (end->domain < 0) return check(end->domain);
    dds_entity_t participant = dds_create_participant(domain, NULL, NULL);
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_INFINITY);
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    dds_entity_t out = dds_create_topic(participant, &rival_Message_desc, topics[side], qos, NULL);
    dds_entity_t in = dds_create_topic(participant, &rival_Message_desc, topics[1 - side], qos, NULL);
    end->writer = dds_create_writer(participant, out, qos, NULL);
    /* What has come and is not taken would need memory without end, where a sender is faster. */
    dds_qset_resource_limits(qos, READER_MESSAGES, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
    end->reader = dds_create_reader(participant, in, qos, NULL);
    dds_delete_qos(qos);
    int error = check(end->writer < 0 ? end->writer : end->reader);
    if (!error) error = await(end->writer, DDS_PUBLICATION_MATCHED_STATUS);
    if (!error) error = await(end->reader, DDS_SUBSCRIPTION_MATCHED_STATUS);
    if (error) return error;
    end->waitset = dds_create_waitset(participant);
    error = check(dds_waitset_attach(end->waitset, dds_create_readcondition(end->reader, DDS_ANY_STATE), 1));
    return error ? error : meet(end->meeting);
}
static int loan(void *made, size_t bytes, void **data, size_t *room) {
    return *data = ((struct end *)made)->out.payload._buffer, *room = bytes, 0;
}
static int commit(void *made, void *data, size_t bytes) {
    struct end *end = made;
    (void)data, end->out.payload._length = (uint32_t)bytes;
    return check(dds_write(end->writer, &end->out));
}
static int take(void *made, size_t expected_bytes, const void **data, size_t *bytes) {
    struct end *end = made;
    dds_sample_info_t info;
    int count;
    (void)expected_bytes, end->taken = NULL;
    while ((count = dds_take(end->reader, &end->taken, &info, 1, 1)) <= 0) {
        if (count == 0 && !end->does_spin) count = dds_waitset_wait(end->waitset, NULL, 0, DDS_INFINITY);
        if (count < 0) return check(count);
    }
    if (!info.valid_data) return EPIPE;
    const rival_Message *message = end->taken;
    return *data = message->payload._buffer, *bytes = message->payload._length, 0;
}
static int release(void *made, const void *data) {
    struct end *end = made;
    return (void)data, check(dds_return_loan(end->reader, &end->taken, 1));
}
static int settle(void *end) { return meet(((struct end *)end)->meeting); }
static void finish(void *made) {
    struct end *end = made;
    dds_delete(end->domain), free(end->out.payload._buffer), close(end->meeting), free(end);
}
static const char *error_text(int error) { return error > OWN ? dds_strretcode(OWN - error) : NULL; }

const struct weighbridge_target weighbridge_targets[] = {{
    .version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct weighbridge_target), .name = "cyclone",
    .about = "Cyclone DDS: a reliable topic each way, over UDP on the loopback device", .measured_version = "Cyclone DDS " DDS_VERSION,
    .capabilities = WEIGHBRIDGE_DUPLEX | WEIGHBRIDGE_THREADS | WEIGHBRIDGE_MAPS, .waits = "block spin", .create = create,
    .attach = attach, .loan = loan, .commit = commit, .take = take, .release = release, .settle = settle, .close = finish,
    .error_text = error_text }, {0}};
