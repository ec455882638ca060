//! The machine: what decides in the open, the rest behind a fold.

use weighbridge_record::{Header, Hub};

use crate::document::{Block, Section};
use crate::machine::{Fact, fact, headline};
use crate::model::Report;
use crate::notes;
use crate::units::{Scale, amount, significant, size};

/// One of all records; what measuring itself costs, and what share of the memory bus was used, too.
pub fn section(report: &Report) -> Option<Section> {
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

/// How steady the machine was, once: the hubs, with which every case took turns.
fn hubs(hubs: &[Hub]) -> Option<Block> {
    let one = |hub: &Hub| {
        let scale = Scale::alone(&hub.unit, hub.median);
        let [median, low, high] = [hub.median, hub.range[0], hub.range[1]].map(|value| scale.show(value));
        format!("{} took {median} {}, 90 % of its slices {low} to {high}", hub.case, scale.name)
    };
    let all: Vec<String> = hubs.iter().map(one).collect();
    (!all.is_empty()).then(|| {
        Block::Paragraph(format!(
            "How steady the machine was: in this session {}. Cases took turns with these hubs in slices of some milliseconds, so \
             that a disturbance of the machine affects both.",
            all.join("; ")
        ))
    })
}

/// Everything else, in groups with a heading.
fn details(header: &Header) -> Vec<(&'static str, Vec<Fact>)> {
    let machine = &header.machine;
    let optional = |name: &str, value: &Option<String>| value.as_ref().map(|value| fact(name, value));
    let mut system = vec![fact("Kernel build", &machine.kernel_build)];
    system.extend(optional("Kernel command line", &machine.command_line));
    system.extend(optional("Boot id", &machine.boot_id));
    system.extend(optional("Microcode", &machine.microcode));
    system.extend(optional("C library", &machine.libc));
    system.extend(optional("Load at the start", &machine.load));
    system.push(fact("Performance monitoring unit", if machine.pmu { "usable" } else { "not usable" }));
    let missing = machine.missing.iter().map(|what| fact("Not available", what)).collect();
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| fact(name, value)).collect::<Vec<_>>()
    };
    let mut settings = pairs(&header.settings);
    settings.push(fact("seed", &header.seed.to_string()));
    settings.push(fact("build profile", &header.tool.profile));
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
    facts
        .extend(clock.tsc_hz.map(|hz| fact("Time-stamp counter", &format!("{} GHz", significant(hz / 1e9)))));
    facts
}

fn cpus(header: &Header) -> Vec<Fact> {
    let allowed = &header.machine.allowed_cpus;
    let place = |cpu: &weighbridge_record::Cpu| {
        let may = if allowed.contains(&cpu.cpu) { "" } else { ", not allowed" };
        fact(
            &format!("CPU {}", cpu.cpu),
            &format!(
                "core {}, package {}, last-level cache of CPU {}, node {}{may}",
                cpu.core, cpu.package, cpu.llc, cpu.node
            ),
        )
    };
    header.machine.cpus.iter().map(place).collect()
}

fn memory(header: &Header) -> Vec<Fact> {
    let caches = header.machine.caches.iter().map(|cache| {
        let value = format!("{}, lines of {} B", size(cache.size_bytes), cache.line_bytes);
        fact(&format!("L{} {}", cache.level, cache.r#type.to_lowercase()), &value)
    });
    let nodes = header.machine.nodes.iter().map(|node| {
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        fact(
            &format!("Node {}", node.node),
            &format!("{}, CPUs {}", amount(node.memory_bytes), cpus.join(" ")),
        )
    });
    caches.chain(nodes).collect()
}
