//! `weighbridge env`: the machine as a record describes it, what it lacks, and why.

use std::fmt::Write;

use weighbridge_harness::machine;
use weighbridge_record::{Cpu, Dram, Machine};

use super::look_at_host;
use crate::args::{Env, TextOrJson};
use crate::values::spoken_size;
use crate::{Exit, Failure, output};

pub fn env(args: &Env) -> Result<Exit, Failure> {
    let machine = machine::describe(&look_at_host()?);
    output::print(match args.format {
        TextOrJson::Text => text(&machine),
        TextOrJson::Json => output::json(&machine),
    })?;
    Ok(Exit::Fine)
}

fn modules(dram: &Dram) -> String {
    let mut parts = vec![dram.modules.to_string()];
    parts.extend(dram.channels.map(|channels| format!("in {channels} channels")));
    parts.extend(dram.megatransfers_per_s.map(|speed| format!("at {speed} MT/s")));
    parts.extend(dram.data_bits.map(|bits| format!("of {bits} bits")));
    let together =
        dram.bytes_per_s.map_or(String::new(), |rate| format!(": {:.1} GB/s in theory", rate / 1e9));
    parts.join(" ") + &together
}

/// Numbers of CPUs with commas between.
fn listed(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn text(machine: &Machine) -> String {
    let mut out = String::new();
    let mut fact = |name: &str, value: String| _ = writeln!(out, "{name:<16}{value}");
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64);
    fact("host", machine.hostname.clone());
    fact("kernel", format!("{} {} {}", machine.kernel, machine.arch, machine.kernel_build));
    machine.boot_id.iter().for_each(|boot_id| fact("boot", boot_id.clone()));
    let microcode = machine.microcode.as_ref().map_or(String::new(), |code| format!(", microcode {code}"));
    fact("processor", format!("{}{microcode}", machine.cpu_model));
    let online = machine.cpus.len();
    fact("allowed CPUs", format!("{} (of {online} online)", listed(&machine.allowed_cpus)));
    for Cpu { cpu, core, package, llc, node, .. } in &machine.cpus {
        let place = format!("core {core}, package {package}, last-level cache {llc}, node {node}");
        fact(&format!("CPU {cpu}"), place);
    }
    for cache in &machine.caches {
        let size = spoken_size(cache.size_bytes);
        let value = format!("{size} {}, lines of {} B", cache.r#type.to_lowercase(), cache.line_bytes);
        fact(&format!("L{} cache", cache.level), value);
    }
    fact("memory", gib(machine.memory_bytes));
    machine.dram.iter().for_each(|dram| fact("memory modules", modules(dram)));
    for node in &machine.nodes {
        let value = format!("{}, CPUs {}", gib(node.memory_bytes), listed(&node.cpus));
        fact(&format!("node {}", node.node), value);
    }
    let clock = &machine.clock;
    let tsc = clock.tsc_hz.map_or(String::new(), |hz| format!(", TSC {:.3} GHz", hz / 1e9));
    fact(
        "clock",
        format!(
            "{} from {}, steps of {:.1} ns, {:.1} ns a reading{tsc}",
            clock.source, clock.kernel_source, clock.resolution_ns, clock.read_ns
        ),
    );
    fact("virtualisation", machine.virtualisation.clone());
    fact("PMU", if machine.pmu { "usable".into() } else { "not usable".to_owned() });
    for (name, value) in
        [("C library", &machine.libc), ("load", &machine.load), ("kernel command", &machine.command_line)]
    {
        value.iter().for_each(|value| fact(name, value.clone()));
    }
    for (title, entries) in [
        ("mitigations", &machine.mitigations),
        ("power and idling", &machine.power),
        ("limits (soft/hard)", &machine.limits),
        ("kernel settings", &machine.sysctls),
    ] {
        let _ = writeln!(out, "\n{title}");
        let width = entries.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in entries {
            let _ = writeln!(out, "  {name:<width$}  {value}");
        }
        if entries.is_empty() {
            out.push_str("  none of these can be read here\n");
        }
    }
    out.push_str("\nnot available here, with the reason\n");
    for missing in &machine.missing {
        let _ = writeln!(out, "  {missing}");
    }
    if machine.missing.is_empty() {
        out.push_str("  nothing\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_as_far_as_they_are_known() {
        let known = Dram {
            modules: 4,
            channels: Some(2),
            megatransfers_per_s: Some(3200),
            data_bits: Some(64),
            bytes_per_s: Some(51.2e9),
        };
        assert_eq!(modules(&known), "4 in 2 channels at 3200 MT/s of 64 bits: 51.2 GB/s in theory");
        assert_eq!(modules(&Dram { modules: 1, ..Dram::default() }), "1");
    }
}
