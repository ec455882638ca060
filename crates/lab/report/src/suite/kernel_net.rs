//! Packets through a veth pair inside a kernel: dropped, accepted, forwarded; without a rule, by nftables and by iptables.

use weighbridge_record::CaseId;

use super::{Found, Record, Section, Theirs, counted, reasons, table};
use crate::units::signed;

/// A frame of Ethernet has 4 bytes of checksum, and takes 20 more for its preamble and the gap behind it. At 10 Gbit/s a byte is 0.8 ns.
const FURTHER_BYTES: u64 = 4 + 20;
const NS_OF_BYTE: f64 = 0.8;
/// The budget in instructions is that of a CPU of 3 GHz which executes one in each cycle.
const INSTRUCTIONS_PER_NS: f64 = 3.0;

/// Where a packet ends, the filter, and the test.
const PATHS: [(&str, &str, &str); 9] = [
    ("the pair alone", "–", "veth"),
    ("drop", "nftables", "nftables-drop"),
    ("drop", "iptables", "iptables-drop"),
    ("accept", "–", "accept"),
    ("accept", "nftables", "nftables-accept"),
    ("accept", "iptables", "iptables-accept"),
    ("forward", "–", "forward"),
    ("forward", "nftables", "nftables-forward"),
    ("forward", "iptables", "iptables-forward"),
];

pub(super) fn section(record: &Record<'_>) -> Section {
    let unit = record.unit();
    let counts = unit == "instructions";
    let found = PATHS.map(|(.., test)| {
        let begin = format!("kernel-bench:{test}:");
        record.find(|id: &CaseId| id.mechanism.starts_with(&begin))
    });
    let first = found.iter().find_map(|found| match found {
        Found::Value(case, _) => Some(*case),
        _ => None,
    });
    let bytes = first.map_or(60, |case| case.id.payload_bytes);
    let budget_ns = (bytes + FURTHER_BYTES) as f64 * NS_OF_BYTE;
    let budget = if counts { budget_ns * INSTRUCTIONS_PER_NS } else { budget_ns };
    let frame = format!("{}-byte frame", bytes + 4);
    let pair = found[0];
    let row = |((path, filter, test), found): (&(&str, &str, &str), &Found<'_>)| {
        let ours =
            found.value().map_or([found.blank(), "".into(), "".into(), "".into(), "".into()], |value| {
                let ratio = if *test == "veth" { None } else { record.ratio(pair, *found) };
                let theirs = Theirs { source: "10 Gbit/s Ethernet", name: &frame, unit, value: budget };
                let times = ratio.map_or(String::new(), |line| format!("{:.3}", line.ratio));
                let [least, most] = variation(*found, value);
                [counted(Some(value), unit), least, most, times, record.times(*found, &theirs, value)]
            });
        [(*path).to_owned(), (*filter).to_owned()].into_iter().chain(ours).collect()
    };
    let cpu = if counts {
        format!(
            " A CPU of 3 GHz which executes one instruction in each cycle has {budget:.1} instructions in that time, and 1 % of it is {:.1} \
             instructions. A real one executes more or fewer in a cycle, so the share is one of instructions and not of time.",
            budget / 100.0
        )
    } else {
        String::new()
    };
    let flows = first.and_then(|case| case.case.as_ref()?.facts.get("flows")).filter(|flows| *flows != "1");
    let flows = flows.map_or(String::new(), |flows| format!(" of {flows} flows in turn"));
    let about = format!(
        "{}; UDP in frames of {bytes} bytes ({} with their checksum){flows}, one CPU; {unit} per packet.",
        record.guest(),
        bytes + 4
    );
    let title = "Where a packet ends, behind a rule at PREROUTING with priority raw";
    let heads =
        format!("path|filter|{unit}/\npacket|least|most|× the pair\nalone|× the budget\nof 10 Gbit/s");
    Section::new(
        "Packets through a veth pair inside the kernel",
        &[&about],
        [table(title, 2, &heads, PATHS.iter().zip(&found).map(row))],
        &[
            &format!(
                "The budget of a packet is {budget_ns:.1} ns: frames of {} bytes at 10 Gbit/s are {:.2} million a second.{cpu}",
                bytes + 4,
                1e3 / budget_ns
            ),
            "Least and most are of the batches, as differences from the figure, which is their median.",
            "Every figure includes the kernel's packet generator, which allocates each packet, and the pair of interfaces: the first row. \
             One rule each: that packets of UDP which come in over this interface are dropped, or accepted, and counted.",
        ],
    )
    .with(reasons(found))
}

/// By how much the least and the most of all batches differ from the figure.
fn variation(found: Found<'_>, value: f64) -> [String; 2] {
    let Found::Value(case, _) = found else { return Default::default() };
    let samples = || case.runs.iter().flat_map(|run| run.samples.iter().copied());
    let ends = [samples().reduce(f64::min), samples().reduce(f64::max)];
    ends.map(|end| end.map_or(String::new(), |end| signed(end - value, |of| format!("{of:.3}"))))
}
