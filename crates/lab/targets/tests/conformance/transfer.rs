//! A stream that is sent once: its one sample, and what is known of it besides.

use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::measured::measure;
use crate::runs::with;

pub const TESTS: &[crate::Test] = &[
    ("a_transfer_is_one_sample_of_all_its_bytes", once),
    ("a_tcp_connection_tells_what_it_sent_again_and_its_window", tcp),
];

fn once(host: &Host) {
    let cases = [
        ("pipe", 4096, "two-cpus", &[][..]),
        ("unix-stream", 65_536, "same-cpu", &[("working-set", "1048576"), ("memory", "fresh")]),
        ("mq-posix", 64, "free", &[("peers", "thread")]),
        ("causeway-sw", 1024, "free", &[("touch", "none")]),
        ("noop", 4096, "free", &[]),
    ];
    for (mechanism, bytes, placement, axes) in cases {
        let id = with(CaseId::new("stream", mechanism, bytes, placement), axes);
        let Some(measured) = measure(host, &id.with("transfer", "4194304")) else { continue };
        let [sample] = &measured.samples[..] else {
            panic!("{mechanism}: {} samples", measured.samples.len())
        };
        assert_eq!(sample.ops, 4_194_304 / bytes, "{mechanism}");
        assert!(sample.elapsed_ns > 0, "{mechanism}");
        if mechanism != "noop" {
            assert_eq!(sample.bytes, 4_194_304, "{mechanism}");
            assert!(measured.roles.iter().all(|role| role.counted.ops == sample.ops), "{mechanism}");
        }
    }
}

fn tcp(host: &Host) {
    for id in ["stream/tcp/65536/free", "roundtrip/tcp/64/free", "stream/tcp/65536/free/transfer=1048576"] {
        let Some(measured) = measure(host, &id.parse().unwrap()) else { continue };
        let sender = &measured.roles[0].counted.series;
        // The kernel begins with ten segments.
        assert!(sender["tcp_cwnd_kib"][0] > 1.0, "{id}: {sender:?}");
        assert!(sender["tcp_retransmits"][0] >= 0.0, "{id}: {sender:?}");
        assert!(!measured.roles[1].counted.series.contains_key("tcp_cwnd_kib"), "{id}: the sender tells");
    }
    let measured = measure(host, &"stream/pipe/65536/free".parse().unwrap()).unwrap();
    assert!(!measured.roles[0].counted.series.contains_key("tcp_cwnd_kib"));
}
