//! Packets through a veth pair inside a kernel: dropped, accepted, forwarded; without a rule, by nftables and by iptables.

use weighbridge_record::CaseId;

use super::kernel_slab::cell;
use super::{Found, Record, Section, Table, Theirs, reasons};

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
    let counts = record.header.machine.clock.counts_instructions();
    let (unit, budget) =
        if counts { ("instructions", BUDGET_NS * INSTRUCTIONS_PER_NS) } else { ("ns", BUDGET_NS) };
    let append =
        record.header.settings.get("guest.append").map_or(String::new(), |append| format!(" with {append}"));
    let found = PATHS.map(|(.., test)| find(record, test));
    let pair = found[0];
    let row = |((path, filter, test), found): (&(&str, &str, &str), &Found<'_>)| {
        let mut cells = vec![(*path).to_owned(), (*filter).to_owned()];
        let Some(figure) = found.figure(|value| value) else {
            cells.extend([found.blank(), String::new(), String::new()]);
            return cells;
        };
        cells.push(cell(Some(figure.value), unit));
        let ratio = if *test == "veth" { None } else { record.ratio(pair, *found) };
        cells.push(ratio.map_or(String::new(), |line| format!("{:.3}", line.ratio)));
        let theirs = Theirs { source: "10 Gbit/s Ethernet", name: "64-byte frame", unit, value: budget };
        cells.push(record.times(*found, &theirs, figure.value));
        cells
    };
    let texts = |texts: [&str; 3]| texts.map(String::from);
    let mut notes = vec![if counts {
        format!(
            "The budget of a packet is {BUDGET_NS} ns: minimal frames of 64 bytes at 10 Gbit/s are 14.88 million a second. A CPU of 3 GHz which \
             executes one instruction in each cycle has {budget:.1} instructions in that time, and 1 % of it is {:.1} instructions. A real one \
             executes more or fewer in a cycle, so the share is one of instructions and not of time.",
            budget / 100.0
        )
    } else {
        format!(
            "The budget of a packet is {BUDGET_NS} ns: minimal frames of 64 bytes at 10 Gbit/s are 14.88 million a second."
        )
    }];
    notes.push(
        "Every figure includes the kernel's packet generator, which allocates each packet, and the pair of interfaces: the first row. \
         One rule each: that packets of UDP which come in over this interface are dropped, or accepted, and counted."
            .into(),
    );
    notes.extend(reasons(found));
    Section {
        title: "Packets through a veth pair inside the kernel".into(),
        about: vec![format!(
            "Linux {}{append}; UDP in frames of 60 bytes (64 with their checksum), one CPU; {unit} per packet.",
            record.header.machine.kernel
        )],
        tables: vec![Table {
            title: "Where a packet ends, behind a rule at PREROUTING with priority raw".into(),
            heads: texts(["path", "filter", &format!("{unit}/\npacket")])
                .into_iter()
                .chain(["× the pair\nalone", "× the budget\nof 10 Gbit/s"].map(String::from))
                .collect(),
            rows: PATHS.iter().zip(&found).map(row).collect(),
            labels: 2,
            after: Vec::new(),
        }],
        notes,
    }
}

fn find<'a>(record: &Record<'a>, test: &str) -> Found<'a> {
    let begin = format!("kernel-bench:{test}:");
    record.find(|id: &CaseId| id.mechanism.starts_with(&begin))
}
