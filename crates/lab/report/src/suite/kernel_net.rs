//! Packets through a veth pair inside a kernel: dropped, accepted, forwarded; without a rule, by nftables and by iptables.

use weighbridge_record::CaseId;

use super::{Found, Record, Section, Theirs, counted, reasons, table};

/// A minimal frame of Ethernet takes 64 bytes, and 20 more for its preamble and the gap behind it: 672 bits, at 10 Gbit/s.
const BUDGET_NS: f64 = 67.2;
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
    let budget = if counts { BUDGET_NS * INSTRUCTIONS_PER_NS } else { BUDGET_NS };
    let found = PATHS.map(|(.., test)| {
        let begin = format!("kernel-bench:{test}:");
        record.find(|id: &CaseId| id.mechanism.starts_with(&begin))
    });
    let pair = found[0];
    let row = |((path, filter, test), found): (&(&str, &str, &str), &Found<'_>)| {
        let ours = found.value().map_or([found.blank(), String::new(), String::new()], |value| {
            let ratio = if *test == "veth" { None } else { record.ratio(pair, *found) };
            let theirs = Theirs { source: "10 Gbit/s Ethernet", name: "64-byte frame", unit, value: budget };
            let times = ratio.map_or(String::new(), |line| format!("{:.3}", line.ratio));
            [counted(Some(value), unit), times, record.times(*found, &theirs, value)]
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
    let about = format!(
        "{}; UDP in frames of 60 bytes (64 with their checksum), one CPU; {unit} per packet.",
        record.guest()
    );
    let title = "Where a packet ends, behind a rule at PREROUTING with priority raw";
    let heads = format!("path|filter|{unit}/\npacket|× the pair\nalone|× the budget\nof 10 Gbit/s");
    Section::new(
        "Packets through a veth pair inside the kernel",
        &[&about],
        [table(title, 2, &heads, PATHS.iter().zip(&found).map(row))],
        &[
            &format!(
                "The budget of a packet is {BUDGET_NS} ns: minimal frames of 64 bytes at 10 Gbit/s are 14.88 million a second.{cpu}"
            ),
            "Every figure includes the kernel's packet generator, which allocates each packet, and the pair of interfaces: the first row. \
             One rule each: that packets of UDP which come in over this interface are dropped, or accepted, and counted.",
        ],
    )
    .with(reasons(found))
}
