//! The machine: what decides in the open, the rest behind a fold.

use std::collections::BTreeMap;

use weighbridge_record::{Cpu, EarlierSessions, End, Header, Hub};

use super::Context;
use crate::document::{Block, Fact, Section, fact};
use crate::notes;
use crate::units::{Scale, amount, significant, size};
use crate::words::many;

/// One of all records; what measuring itself costs, and what share of the memory bus was used, too.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let mut blocks = Vec::new();
    for source in &report.sources {
        if report.has_several_sources() {
            blocks.push(Block::Heading(source.name.clone()));
        }
        let Some(header) = &source.header else {
            blocks.push(Block::Paragraph("The record does not say.".into()));
            continue;
        };
        blocks.push(Block::Facts(headline(header, source.end.as_ref())));
        blocks.extend(hubs(&source.hubs));
        let groups = details(header).into_iter();
        let inside = groups.flat_map(|(title, facts)| [Block::Heading(title.into()), Block::Facts(facts)]);
        blocks.push(Block::fold("Everything known about it".into(), inside.collect()));
    }
    let harness = notes::harness(report);
    if !harness.is_empty() {
        blocks.push(Block::Paragraph(format!("Harness itself: {}.", harness.join("; "))));
    }
    blocks
        .extend(notes::dram(report).into_iter().map(|line| Block::Paragraph(format!("Memory bus: {line}."))));
    Section::new("machine", "Machine", blocks)
}

/// The facts that decide whether a figure can be compared with another one.
fn headline(header: &Header, end: Option<&End>) -> Vec<Fact> {
    let machine = &header.machine;
    let mut facts = vec![fact("Host", &machine.hostname), fact("CPU", &machine.cpu_model)];
    // A record that was imported has no more than its tool told.
    if !machine.cpus.is_empty() {
        let cpus = format!("{} allowed of {}", machine.allowed_cpus.len(), machine.cpus.len());
        facts.push(fact("CPUs", &cpus));
    }
    facts.push(system(header));
    let of_guest = [("config", "configuration"), ("preempt", ""), ("allocator", ""), ("compiler", "")];
    let of_guest = of_guest.into_iter().filter_map(|(name, what)| {
        let value = header.settings.get(&format!("guest.{name}"))?;
        Some(if what.is_empty() { value.clone() } else { format!("{what} {value}") })
    });
    let of_guest: Vec<String> = of_guest.collect();
    facts.extend((!of_guest.is_empty()).then(|| fact("Built as", &of_guest.join("; "))));
    facts.extend((machine.memory_bytes > 0).then(|| fact("Memory", &amount(machine.memory_bytes))));
    let doubt = header.settings.get("started").map_or(String::new(), |doubt| format!(" ({doubt})"));
    let measured = format!("{}{doubt}", header.started);
    facts.extend([fact("Virtualisation", &machine.virtualisation), fact("Measured", &measured)]);
    let elapsed_s = end.map_or(0.0, |end| end.elapsed_s);
    facts.extend((elapsed_s > 0.0).then(|| fact("Took", &format!("{} s", significant(elapsed_s)))));
    let commit = header.tool.commit.as_deref().map_or(String::new(), |commit| format!(" ({commit})"));
    facts.push(fact("Tool", &format!("{} {}{commit}", header.tool.name, header.tool.version)));
    facts.extend((!header.command.is_empty()).then(|| fact("Command", &header.command.join(" "))));
    facts
}

/// The kernel, or another operating system that an imported file names, as far as it does. This program measures on Linux.
fn system(header: &Header) -> Fact {
    let machine = &header.machine;
    let is_linux =
        machine.os.eq_ignore_ascii_case("linux") || (machine.os.is_empty() && machine.kernel != UNKNOWN);
    let (name, os) = if is_linux { ("Kernel", "Linux") } else { ("Operating system", machine.os.as_str()) };
    let known: Vec<&str> = [os, &machine.kernel, &machine.arch]
        .into_iter()
        .filter(|text| ![UNKNOWN, ""].contains(text))
        .collect();
    let known = known.join(" ");
    fact(name, if known.is_empty() { UNKNOWN } else { &known })
}

/// What a tool does not tell whose output was imported.
const UNKNOWN: &str = "unknown";

/// How steady the machine was, once: the hubs, with which every case took turns.
fn hubs(hubs: &[Hub]) -> Option<Block> {
    let one = |hub: &Hub| {
        let scale = Scale::alone(&hub.unit, hub.median);
        let [median, low, high] = [hub.median, hub.range[0], hub.range[1]].map(|value| scale.show(value));
        let earlier = hub.earlier.as_ref().map_or(String::new(), |of| earlier(of, &scale));
        format!("{} took {median} {}, 90 % of its slices {low} to {high}{earlier}", hub.case, scale.name)
    };
    let all: Vec<String> = hubs.iter().map(one).collect();
    (!all.is_empty()).then(|| {
        Block::Paragraph(format!(
            "How steady the machine was: in this session {}. Cases took turns with these hubs in slices of some milliseconds, so \
             that a disturbance of the machine affects both. Ratios hold from session to session; absolute figures follow the hub{}.",
            all.join("; "),
            if hubs.iter().any(|hub| hub.earlier.as_ref().is_some_and(|of| of.expected.is_some())) {
                ", and their ± contains that"
            } else {
                ": no ± is given for them until five sessions of this machine are in the store of records"
            }
        ))
    })
}

/// `; in 6 earlier sessions 1.9 to 2.6, so another is expected at 1.8 to 2.7`.
fn earlier(of: &EarlierSessions, scale: &Scale) -> String {
    let shown = |[low, high]: [f64; 2]| format!("{} to {}", scale.show(low), scale.show(high));
    let ends = of.medians.iter().fold([f64::INFINITY, 0.0], |[low, high], of| [of.min(low), of.max(high)]);
    let sessions = many(of.medians.len(), "earlier session");
    let expected =
        of.expected.map_or(String::new(), |of| format!(", so another is expected at {} (95 %)", shown(of)));
    format!(" (in {sessions} {}{expected})", shown(ends))
}

/// Everything else, in groups with a heading.
fn details(header: &Header) -> Vec<(&'static str, Vec<Fact>)> {
    let machine = &header.machine;
    let known = [
        ("Kernel command line", &machine.command_line),
        ("Boot id", &machine.boot_id),
        ("Microcode", &machine.microcode),
        ("C library", &machine.libc),
        ("Load at the start", &machine.load),
    ];
    let mut system = vec![fact("Kernel build", &machine.kernel_build)];
    system.extend(known.into_iter().filter_map(|(name, value)| Some(fact(name, value.as_ref()?))));
    let pmu = fact("Performance monitoring unit", if machine.pmu { "usable" } else { "not usable" });
    system.extend((!header.is_imported()).then_some(pmu));
    let missing = machine.missing.iter().map(|what| fact("Not available", what)).collect();
    let pairs = |map: &BTreeMap<String, String>| map.iter().map(|(name, value)| fact(name, value)).collect();
    let mut settings: Vec<Fact> = pairs(&header.settings);
    let own = [fact("seed", &header.seed.to_string()), fact("build profile", &header.tool.profile)];
    settings.extend(own.into_iter().filter(|_| !header.is_imported()));
    let groups = vec![
        ("System", system),
        ("What would have told more", missing),
        ("Clock", clock(header)),
        ("CPUs", cpus(header)),
        ("Caches and memory", memory(header)),
        ("Power", pairs(&machine.power)),
        ("Mitigations", pairs(&machine.mitigations)),
        ("Limits (soft/hard)", pairs(&machine.limits)),
        ("Kernel settings", pairs(&machine.sysctls)),
        ("Settings of this measurement", settings),
    ];
    groups.into_iter().filter(|(_, facts): &(_, Vec<Fact>)| !facts.is_empty()).collect()
}

fn clock(header: &Header) -> Vec<Fact> {
    let clock = &header.machine.clock;
    if clock.source.is_empty() {
        return vec![];
    }
    let unit = if clock.counts_instructions() { "instructions" } else { "ns" };
    let mut facts = vec![
        fact("Source", &format!("{} ({})", clock.source, clock.kernel_source)),
        fact("Resolution", &format!("{} {unit}", significant(clock.resolution_ns))),
        fact("Cost of a reading", &format!("{} {unit}", significant(clock.read_ns))),
    ];
    let tsc = clock.tsc_hz.map(|hz| format!("{} GHz", significant(hz / 1e9)));
    facts.extend(tsc.map(|tsc| fact("Time-stamp counter", &tsc)));
    facts
}

fn cpus(header: &Header) -> Vec<Fact> {
    let place = |Cpu { cpu, core, package, llc, node }: &Cpu| {
        let may = if header.machine.allowed_cpus.contains(cpu) { "" } else { ", not allowed" };
        let value =
            format!("core {core}, package {package}, last-level cache of CPU {llc}, node {node}{may}");
        fact(&format!("CPU {cpu}"), &value)
    };
    header.machine.cpus.iter().map(place).collect()
}

fn memory(header: &Header) -> Vec<Fact> {
    let caches = header.machine.caches.iter().map(|cache| {
        let lines =
            if cache.line_bytes > 0 { format!(", lines of {} B", cache.line_bytes) } else { String::new() };
        let value = format!("{}{lines}", size(cache.size_bytes));
        fact(&format!("L{} {}", cache.level, cache.r#type.to_lowercase()), &value)
    });
    let nodes = header.machine.nodes.iter().map(|node| {
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        let value = format!("{}, CPUs {}", amount(node.memory_bytes), cpus.join(" "));
        fact(&format!("Node {}", node.node), &value)
    });
    caches.chain(nodes).collect()
}
