//! The machine: what decides in the open, the rest behind a fold.

use weighbridge_record::Header;

use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::machine::{Fact, fact, headline};
use crate::notes;
use crate::units::{amount, significant, size};

pub const SECTION: Section = Section { id: "machine", title: "Machine", body };

fn body(page: &Page<'_>) -> Option<String> {
    let report = page.report;
    let mut out = String::new();
    for source in &report.sources {
        if report.has_several_sources() {
            out += &format!("<h3>{}</h3>\n", escaped(&source.name));
        }
        let Some(header) = &source.header else {
            out += "<p>The record does not say.</p>\n";
            continue;
        };
        out += &facts(&headline(header, source.end.as_ref()));
        out += "<details><summary>Everything known about it</summary>\n";
        for (title, group) in details(header) {
            out += &format!("<h3>{title}</h3>\n{}", facts(&group));
        }
        out += "</details>\n";
    }
    let harness = notes::harness(report);
    if !harness.is_empty() {
        out += &format!("<p>Cost of the harness itself: {}.</p>\n", escaped(&harness.join("; ")));
    }
    for line in notes::dram(report) {
        out += &format!("<p>Memory bus: {}.</p>\n", escaped(&line));
    }
    Some(out)
}

fn facts(facts: &[Fact]) -> String {
    let one =
        |(name, value): &Fact| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value));
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(one).collect::<String>())
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
    let mut facts = vec![
        fact("Source", &format!("{} ({})", clock.source, clock.kernel_source)),
        fact("Resolution", &format!("{} ns", significant(clock.resolution_ns))),
        fact("Cost of a reading", &format!("{} ns", significant(clock.read_ns))),
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
