//! One run: operations, bytes and calls as its roles count them and as the kernel does; messages that were lost.

use super::found::{DEFECT, Found, MECHANISM};
use crate::{Case, RoleCounters, Run};

/// The fact of a case whose payload goes by `read` and `write`, so that the kernel counts its bytes and calls for each role.
pub const MOVED_BY: &str = "moved_by";

pub(super) fn check(case: &Case, run: &Run, found: &mut Found) {
    sent(case, run, found);
    stream_bytes(case, run, found);
    messages(case, run, found);
    moved(case, run, found);
    calls(case, run, found);
    lost(case, run, found);
}

/// Bytes, or messages of at most 32 bytes, that the buffers of a stream may hold when its sender begins to count.
fn in_flight_bytes(mechanism: &str) -> u64 {
    match mechanism {
        // The kernel lets them grow, on machines with much memory to this (`tcp_rmem`, and `tcp_wmem`).
        "tcp" => (32 << 20) + (4 << 20),
        _ => 4 << 20,
    }
}
/// What the two ends of a stream may differ in when they begin and end to count.
const ENDS_DIFFER_BY: f64 = 0.03;

/// Sender and receiver of a stream.
fn ends<'a>(case: &Case, run: &'a Run) -> Option<(&'a RoleCounters, &'a RoleCounters)> {
    let [sender, receiver] = &run.roles[..] else { return None };
    (case.pattern == "stream" && case.roles.len() == 2 && case.has("harness") != Some(true))
        .then_some((sender, receiver))
}

/// More messages of a stream arrived than its sender says it sent.
fn sent(case: &Case, run: &Run, found: &mut Found) {
    let Some((sender, receiver)) = ends(case, run) else { return };
    let (sent, received) = (sender.ops, receiver.ops);
    let in_flight = in_flight_bytes(&case.mechanism) / case.payload_bytes.max(32) + 1;
    if received as f64 > sent as f64 * (1.0 + ENDS_DIFFER_BY) + in_flight as f64 {
        let said = format!(
            "the receiver has counted {received} messages, of which the sender has counted only {sent}"
        );
        found.broken("sent", &run.case, said, "no more than were sent", DEFECT);
    }
}

/// Bytes of a stream are messages times payload, in the samples, in the slices and at the receiver.
fn stream_bytes(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "stream-bytes";
    let payload = case.payload_bytes;
    if case.pattern != "stream" || payload == 0 {
        return;
    }
    let Some(total) = run.sampled_total else { return found.not_run(LAW, "the bytes of its samples") };
    let mut counts = vec![("the samples", total.bytes, total.ops)];
    if let Some((_, receiver)) = ends(case, run) {
        counts.push(("the receiver", receiver.received_bytes, receiver.ops));
    }
    if let Some(slices) = &run.slices {
        counts.push((
            "the slices",
            slices.of_case.ops.iter().fold(0u64, |sum, ops| sum.saturating_add(*ops)),
            total.ops,
        ));
    }
    for (who, bytes, ops) in counts {
        if bytes != ops.saturating_mul(payload) {
            let said = format!("{who} have {bytes} bytes in {ops} messages of {payload} bytes");
            let expected = format!("{} bytes", ops.saturating_mul(payload));
            return found.broken(LAW, &run.case, said, expected, DEFECT);
        }
    }
}

/// What each role received is as much as its operations say: bytes of a round trip, counted as they arrived, and how far the mechanism came by
/// its own count, which no loop of the harness keeps.
fn messages(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "messages";
    let payload =
        payload_of(case, 0).filter(|_| case.pattern == "roundtrip" && case.has("harness") == Some(false));
    for role in run.roles.iter().take(case.roles.len()) {
        let each_bytes = payload.map_or(0, |(_, read)| read);
        let bytes = payload.map(|_| (role.received_bytes, each_bytes, "bytes arrived"));
        let position = role
            .position
            .map(|position| (position.by, position.each, "is how far its mechanism says that it came"));
        for (count, each, what) in bytes.into_iter().chain(position) {
            if count != each.saturating_mul(role.ops) {
                let said = format!("{} has counted {} operations, and {count} {what}", role.role, role.ops);
                let expected = format!("{}, {each} an operation", each.saturating_mul(role.ops));
                return found.broken(LAW, &run.case, said, expected, DEFECT);
            }
        }
    }
}

/// What a count of the kernel may differ in from one of a role, and so many messages besides: those under way at either end.
const COUNTS_DIFFER_BY: f64 = 0.005;
const MESSAGES_BESIDE: u64 = 4;

/// Is `count` what `expected` says, but for messages of `each` that a reading may fall between?
fn agrees(count: u64, expected: u64, each: u64) -> bool {
    let beside = MESSAGES_BESIDE.saturating_mul(each.max(1));
    count.abs_diff(expected) as f64 <= expected as f64 * COUNTS_DIFFER_BY + beside as f64
}

/// What each role writes and reads of the payload in an operation: nothing where that is not known.
fn payload_of(case: &Case, role: usize) -> Option<(u64, u64)> {
    let payload = case.payload_bytes;
    match (case.pattern.as_str(), role) {
        ("roundtrip", 0 | 1) if case.axes.get("direction").is_none_or(|way| way == "both") => {
            Some((payload, payload))
        }
        ("stream", 0) => Some((payload, 0)),
        ("stream", 1) => Some((0, payload)),
        _ => None,
    }
}

/// The kernel saw the payload pass, as often as the roles say: an independent count of operations and of bytes.
fn moved(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "moved";
    if case.traits.is_none() && payload_of(case, 0).is_some() {
        return found.not_run(LAW, "what the kernel saw its roles read and write");
    }
    if !case.facts.contains_key(MOVED_BY) || case.axes.get("wait").is_some_and(|wait| wait == "uring") {
        return;
    }
    for (index, role) in run.roles.iter().enumerate().take(case.roles.len()) {
        let Some((written, read)) = payload_of(case, index) else { return };
        let Some(io) = role.io else {
            return found.not_run(LAW, "what the kernel saw its roles read and write");
        };
        for (way, count, each) in [("write", io.written_bytes, written), ("read", io.read_bytes, read)] {
            if each > 0 && !agrees(count, role.ops.saturating_mul(each), each) {
                let said =
                    format!("the kernel saw {} {way} {count} bytes in {} operations", role.role, role.ops);
                let expected = format!("{} bytes, {each} an operation", role.ops.saturating_mul(each));
                return found.broken(LAW, &run.case, said, expected, MECHANISM);
            }
        }
    }
}

/// Up to this size a message crosses in one piece.
const ONE_PIECE_BYTES: u64 = 4096;
/// So many calls for each piece of a message: more are calls that found nothing.
const MOST_CALLS: u64 = 3;

/// A role that says it blocks, and asks again and again.
fn calls(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "blocks";
    let blocks = case.axes.get("wait").is_some_and(|wait| wait == "block");
    if !blocks || !case.facts.contains_key(MOVED_BY) || payload_of(case, 0).is_none() {
        return;
    }
    let pieces = case.payload_bytes.div_ceil(ONE_PIECE_BYTES).max(1);
    for role in run.roles.iter().take(case.roles.len()) {
        let Some(io) = role.io else { return found.not_run(LAW, "how often its roles read") };
        let most = (MOST_CALLS * pieces).saturating_mul(role.ops).saturating_add(1000);
        if io.read_calls > most {
            let said =
                format!("{} called read {} times in {} operations", role.role, io.read_calls, role.ops);
            let expected = format!("at most {most} calls, of a role that waits in them (wait=block)");
            return found.broken(LAW, &run.case, said, expected, MECHANISM);
        }
    }
}

/// From this share on a loss is told: the sender begins and ends to count a chunk away from the receiver.
const LEAST_LOSS: f64 = 0.02;

/// The share of the messages offered that a lossy stream lost, by what its roles counted, where that is worth telling.
pub fn lost_share(case: &Case, run: &Run) -> Option<f64> {
    let (sender, receiver) = ends(case, run).filter(|_| case.has("lossy") == Some(true))?;
    let share = 1.0 - receiver.ops as f64 / sender.ops.max(1) as f64;
    (sender.ops > 0 && share > LEAST_LOSS).then_some(share)
}

/// A loss is told.
fn lost(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "loss-told";
    if ends(case, run).is_none() {
        return;
    }
    if case.has("lossy").is_none() {
        return found.not_run(LAW, "whether its target may lose messages");
    }
    let is_told = run.flags.iter().any(|flag| flag.starts_with("lost:"));
    if let Some(share) = lost_share(case, run).filter(|_| !is_told) {
        let said =
            format!("{:.1} % of the messages offered did not arrive, and no flag says so", share * 100.0);
        found.broken(LAW, &run.case, said, "a flag `lost`", DEFECT);
    }
}
