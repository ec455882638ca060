//! What roles note of single messages in a marked run.

use causeway_testkit::eventually_seen;
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{Measured, PeerStart};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::marks::{Mark, Point, RoleMarks};

use crate::runs::{coordinator, measured_at_last, prepare_or_skip};

pub const TESTS: &[crate::Test] = &[
    ("every_message_is_noted_where_it_is_written_and_where_it_is_read", messages),
    ("streams_into_one_reader_are_noted_by_writers_and_reader", streams),
];

fn marked(host: &Host, case: &Prepared) -> Measured {
    let interrupt = Interrupt::install().unwrap();
    measured_at_last(&case.params.id, || {
        coordinator(host, &interrupt).run_marked(case, &PeerStart::default())
    })
}

/// The marks of one point.
fn at(role: &RoleMarks, point: Point) -> impl Iterator<Item = &Mark> {
    role.marks.iter().filter(move |mark| mark.point == point)
}

/// How many messages of `from` are noted by `to`, each read after it began to be written.
fn carried(id: &str, from: &RoleMarks, to: &RoleMarks) -> usize {
    let mut count = 0;
    for read in at(to, Point::Read) {
        let written = at(from, Point::WriteBegins).find(|mark| mark.number == read.number);
        let Some(written) = written else { continue };
        assert!(written.at_ns <= read.at_ns, "{id}: {read:?} was read before {written:?}");
        count += 1;
    }
    count
}

fn messages(host: &Host) {
    for (id, ways) in [
        ("roundtrip/pipe/1/same-cpu", &[(0, 1), (1, 0)][..]),
        ("roundtrip/ring-spin/64/two-cpus", &[(0, 1), (1, 0)]),
        ("roundtrip/pipe/1/same-cpu/peers=thread", &[(0, 1), (1, 0)]),
        ("stream/unix-stream/4096/same-cpu", &[(0, 1)]),
        ("pingpong/futex/0/same-cpu", &[(0, 1), (1, 0)]),
        ("fan-out/unix-seqpacket/64/same-cpu/receivers=3", &[(0, 1), (0, 2), (0, 3)]),
    ] {
        let Some(case) = prepare_or_skip(host, &id.parse().unwrap()) else { continue };
        // Beside a load a run of 60 ms may be one time slice of each role.
        eventually_seen(
            &format!("{id}: more than 20 messages each way"),
            || {
                let measured = marked(host, &case);
                every_mark_follows(id, &measured);
                let of_way =
                    |(from, to): &(usize, usize)| carried(id, &measured.marks[*from], &measured.marks[*to]);
                ways.iter().map(of_way).collect::<Vec<_>>()
            },
            |counts| counts.iter().all(|count| *count > 20),
        );
    }
}

fn every_mark_follows(id: &str, measured: &Measured) {
    assert_eq!(measured.marks.len(), measured.roles.len(), "{id}");
    for role in &measured.marks {
        assert!(role.thread > 0, "{id}: a role has no thread");
        assert!(role.marks.is_sorted_by_key(|mark| mark.at_ns), "{id}");
        for pair in role.marks.windows(2) {
            let follows = match pair[0].point {
                Point::WriteBegins => pair[1].point == Point::Written,
                Point::WaitBegins => pair[1].point == Point::Read,
                Point::Written | Point::Read => true,
            };
            assert!(follows, "{id}: {pair:?}");
        }
    }
}

fn streams(host: &Host) {
    let id = "fan-in/pipe/64/same-cpu/streams=8/writers=2";
    let Some(case) = prepare_or_skip(host, &id.parse().unwrap()) else { return };
    // Waits of the reader, what it read, and what each writer wrote.
    eventually_seen(
        id,
        || {
            let measured = marked(host, &case);
            let count = |role: usize, point| at(&measured.marks[role], point).count();
            [
                count(0, Point::WaitBegins),
                count(0, Point::Read),
                count(1, Point::Written),
                count(2, Point::Written),
            ]
        },
        |[waits, others @ ..]| *waits > 0 && others.iter().all(|count| *count > 20),
    );
}
