//! `weighbridge env`: the machine as a record describes it, what it lacks, and why.

use std::fmt::Write;

use weighbridge_harness::machine;
use weighbridge_record::{Dram, Machine};

use super::look_at_host;
use crate::args::{Env, TextOrJson};
use crate::values::spoken_size;
use crate::{Exit, Failure, output};

/// Shows the machine.
pub fn env(args: &Env) -> Result<Exit, Failure> {
    let machine = machine::describe(&look_at_host()?);
    output::print(match args.format {
        TextOrJson::Text => text(&machine),
        TextOrJson::Json => serde_json::to_string_pretty(&machine).expect("a machine is plain data") + "\n",
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

fn text(machine: &Machine) -> String {
    let mut out = String::new();
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<16}{value}");
    };
    fact("host", machine.hostname.clone());
    fact("kernel", format!("{} {} {}", machine.kernel, machine.arch, machine.kernel_build));
    if let Some(boot_id) = &machine.boot_id {
        fact("boot", boot_id.clone());
    }
    let microcode = machine.microcode.as_ref().map_or(String::new(), |code| format!(", microcode {code}"));
    fact("processor", format!("{}{microcode}", machine.cpu_model));
    let allowed: Vec<String> = machine.allowed_cpus.iter().map(u32::to_string).collect();
    fact("allowed CPUs", format!("{} (of {} online)", allowed.join(","), machine.cpus.len()));
    for cpu in &machine.cpus {
        let name = format!("CPU {}", cpu.cpu);
        fact(
            &name,
            format!(
                "core {}, package {}, last-level cache {}, node {}",
                cpu.core, cpu.package, cpu.llc, cpu.node
            ),
        );
    }
    for cache in &machine.caches {
        let name = format!("L{} cache", cache.level);
        let size = spoken_size(cache.size_bytes);
        fact(&name, format!("{size} {}, lines of {} B", cache.r#type.to_lowercase(), cache.line_bytes));
    }
    fact("memory", format!("{:.1} GiB", machine.memory_bytes as f64 / (1u64 << 30) as f64));
    if let Some(dram) = &machine.dram {
        fact("memory modules", modules(dram));
    }
    for node in &machine.nodes {
        let size = node.memory_bytes as f64 / (1u64 << 30) as f64;
        let cpus: Vec<String> = node.cpus.iter().map(u32::to_string).collect();
        fact(&format!("node {}", node.node), format!("{size:.1} GiB, CPUs {}", cpus.join(",")));
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
    if let Some(libc) = &machine.libc {
        fact("C library", libc.clone());
    }
    if let Some(load) = &machine.load {
        fact("load", load.clone());
    }
    if let Some(line) = &machine.command_line {
        fact("kernel command", line.clone());
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
