//! Settings are made as asked or refused; a refusal names the limit and how to raise it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::runs::{SHORT, measure, prepare, refuses, run};

fn case(pattern: &str, mechanism: &str, bytes: u64) -> CaseId {
    CaseId::new(pattern, mechanism, bytes, "free")
}

/// Each setting in both patterns, and the fact that shows it.
pub fn settings_are_read_back(host: &Host) {
    for (mechanism, axis, value, fact, shown) in [
        ("pipe", "pipe-size", "8192", "pipe_bytes", "8192"),
        ("mq-posix", "priority", "7", "priority", "7"),
        ("memfd-pass", "vector", "yes", "vector_bytes", "7000"),
        ("pipe-packet", "pipe-size", "8192", "pipe_bytes", "8192"),
        ("pipe-packet", "pipe-size", "default", "packets", "yes"),
        ("fifo", "pipe-size", "131072", "pipe_bytes", "131072"),
        ("vmsplice", "pipe-size", "8192", "pipe_bytes", "8192"),
        ("vmsplice", "pipe-size", "4096", "sender_buffers", "2"),
        ("unix-stream", "sndbuf", "4000", "sndbuf_bytes", "8000"),
        ("unix-seqpacket", "sndbuf", "20000", "sndbuf_bytes", "40000"),
        ("unix-dgram", "rcvbuf", "20000", "rcvbuf_bytes", "40000"),
        ("tcp", "sndbuf", "30000", "sndbuf_bytes", "60000"),
        ("tcp", "nodelay", "no", "nodelay", "no"),
        ("tcp", "nodelay", "yes", "nodelay", "yes"),
        ("udp", "rcvbuf", "30000", "rcvbuf_bytes", "60000"),
        ("unix-stream", "metadata", "creds", "metadata", "creds"),
        ("unix-seqpacket", "metadata", "both", "metadata", "both"),
        ("unix-dgram", "metadata", "time", "metadata", "time"),
        ("udp", "metadata", "time", "metadata", "time"),
        ("udp", "metadata", "none", "metadata", "none"),
        ("mq-posix", "depth", "1", "queue_messages", "1"),
        ("ring-futex", "depth", "1", "ring_slots", "1"),
        ("ring-futex", "depth", "5", "ring_slots", "5"),
        ("ring-eventfd", "backing", "shm", "ring_slots", "37"),
        ("ring-futex", "backing", "file", "ring_slots", "37"),
        ("memfd-pass", "depth", "1", "memfds_under_way", "1"),
        ("memfd-pass", "reuse", "yes", "memfds_sealed", "no"),
        ("memfd-pass", "reuse", "no", "memfds_sealed", "yes"),
        ("causeway-sw", "trust", "same-user", "trust", "same-user"),
        ("causeway-mw", "trust", "strangers", "trust", "strangers"),
        ("process-vm", "depth", "1", "sender_buffers", "1"),
        ("process-vm", "depth", "64", "sender_buffers", "64"),
    ] {
        for pattern in ["roundtrip", "stream"] {
            let bytes = if mechanism == "pipe-packet" { 4000 } else { 7000 };
            let id = case(pattern, mechanism, bytes).with(axis, value);
            let measured = measure(host, &prepare(host, &id).unwrap(), SHORT);
            let told = measured.facts.get(fact).map(String::as_str);
            assert_eq!(told, Some(shown), "{id}: {:?}", measured.facts);
        }
    }
    let id = case("roundtrip", "memfd-pass", 0).with("reuse", "no");
    measure(host, &prepare(host, &id).unwrap(), SHORT);
}

/// A number under `/proc/sys` that this kernel has.
fn sysctl(host: &Host, path: &str) -> u64 {
    host.sysctl_number(path).unwrap_or_else(|| panic!("no {path}"))
}

/// One more than each limit.
pub fn refusals_name_the_limit(host: &Host) {
    let more = |id: &str, path: &str| format!("{id}{}", sysctl(host, path) + 1);
    let too_large =
        |mechanism: &str, path: &str| format!("roundtrip/{mechanism}/{}/free", sysctl(host, path) + 1);
    let far_too_large = format!("roundtrip/unix-dgram/{}/free", 4 * sysctl(host, "net/core/wmem_max"));
    let pipe_size = ["fs.pipe-max-size", "sysctl fs"];
    for (id, words) in [
        (more("roundtrip/pipe/1/free/pipe-size=", "fs/pipe-max-size"), pipe_size),
        (more("stream/vmsplice/1/free/pipe-size=", "fs/pipe-max-size"), pipe_size),
        (more("roundtrip/tcp/1/free/sndbuf=", "net/core/wmem_max"), ["net.core.wmem_max", "sysctl net"]),
        (more("roundtrip/udp/1/free/rcvbuf=", "net/core/rmem_max"), ["net.core.rmem_max", "sysctl net"]),
        (more("roundtrip/mq-posix/1/free/depth=", "fs/mqueue/msg_max"), ["fs.mqueue.msg_max", "sysctl fs"]),
        (too_large("mq-posix", "fs/mqueue/msgsize_max"), ["fs.mqueue.msgsize_max", "sysctl fs"]),
        (too_large("msg-sysv", "kernel/msgmax"), ["kernel.msgmax", "sysctl kernel.msgmax="]),
        (
            too_large("unix-seqpacket", "net/core/wmem_default"),
            ["net.core.wmem_default", "set the axis sndbuf="],
        ),
        (far_too_large, ["net.core.wmem_max", "sysctl net.core.wmem_max="]),
        ("roundtrip/udp/65508/free".into(), ["IPv4", "smaller size"]),
        ("roundtrip/pipe-packet/4097/free".into(), ["PIPE_BUF = 4096", "smaller size"]),
        ("roundtrip/mq-posix/1/free/priority=32768".into(), ["32767", "message queue"]),
        ("roundtrip/memfd-pass/4194304/free/vector=yes".into(), ["net.core.wmem_default", "smaller size"]),
        ("roundtrip/udp/1/free/metadata=time/wait=uring".into(), ["recvmsg", "another wait"]),
        ("stream/udp/64/free/transfer=640".into(), ["may lose messages", "transfer"]),
        ("stream/pipe/1000/free/transfer=2500".into(), ["whole number", "3000"]),
        ("stream/process-vm/1/free/depth=65".into(), ["acknowledgements", "lower depth"]),
    ] {
        refuses(host, &[(&id, &words)]);
    }
}

/// The rules of the kernel, to the byte: what they allow is carried, and one byte more is refused.
pub fn largest_messages(host: &Host) {
    let unix = sysctl(host, "net/core/wmem_default") - 32;
    for (mechanism, bytes) in [
        ("mq-posix", sysctl(host, "fs/mqueue/msgsize_max")),
        ("msg-sysv", sysctl(host, "kernel/msgmax").min(sysctl(host, "kernel/msgmnb"))),
        ("unix-seqpacket", unix),
        ("unix-dgram", unix),
        ("udp", 65_507),
        ("pipe-packet", 4096),
    ] {
        for pattern in ["roundtrip", "stream"] {
            measure(host, &prepare(host, &case(pattern, mechanism, bytes)).unwrap(), SHORT);
            assert!(prepare(host, &case(pattern, mechanism, bytes + 1)).is_err(), "{mechanism}: {bytes} + 1");
        }
    }
    // The remedy that a refusal names is a remedy, and not more than is needed.
    for mechanism in ["unix-seqpacket", "unix-dgram"] {
        let id = case("stream", mechanism, 300_001);
        let why = prepare(host, &id).unwrap_err();
        let (_, sndbuf) = why.rsplit_once("sndbuf=").unwrap();
        measure(host, &prepare(host, &id.clone().with("sndbuf", sndbuf)).unwrap(), SHORT);
        let less = (sndbuf.parse::<u64>().unwrap() - 1).to_string();
        assert!(prepare(host, &id.with("sndbuf", &less)).is_err());
    }
}

/// The kernel has a minimum, and gives it without saying so.
pub fn too_small_a_buffer(host: &Host) {
    let id = case("roundtrip", "unix-stream", 1).with("sndbuf", "1");
    let outcome = run(host, &prepare(host, &id).unwrap(), SHORT);
    let Outcome::Failed { step, why } = outcome else { panic!("{outcome:?}") };
    assert!(step == "plan" && why.contains("sndbuf=1 is not what the kernel gives"), "{step}: {why}");
}

/// RLIMIT_MSGQUEUE counts the bytes of all queues of a user, and holds for root too.
pub fn low_msgqueue_limit(host: &Host) {
    let id = case("roundtrip", "mq-posix", 1000);
    let case = prepare(host, &id).unwrap();
    let before = getrlimit(Resource::Msgqueue);
    setrlimit(Resource::Msgqueue, Rlimit { current: Some(2 * 10 * 1096 - 1), ..before }).unwrap();
    let (refused, outcome) = (prepare(host, &id), run(host, &case, SHORT));
    setrlimit(Resource::Msgqueue, Rlimit { current: Some(2 * 10 * 1096), ..before }).unwrap();
    let allowed = prepare(host, &id).map(|case| run(host, &case, SHORT));
    setrlimit(Resource::Msgqueue, before).unwrap();
    let why = refused.unwrap_err();
    assert!(why.contains("RLIMIT_MSGQUEUE = 21919") && why.contains("ulimit -q 21920"), "{why}");
    // The kernel says the same of a case that was prepared before.
    let Outcome::Failed { step, why } = outcome else { panic!("{outcome:?}") };
    assert!(step == "plan" && why.contains("RLIMIT_MSGQUEUE"), "{step}: {why}");
    assert!(matches!(allowed, Ok(Outcome::Measured(_))), "{allowed:?}");
}
