//! What is known of the machine, as names and texts.

use weighbridge_record::{End, Header};

use crate::units::{amount, significant};
use crate::words::plain;

/// A name and a text.
pub type Fact = (String, String);

/// The facts that decide whether a figure can be compared with another one.
pub fn headline(header: &Header, end: Option<&End>) -> Vec<Fact> {
    let machine = &header.machine;
    let mut facts = vec![fact("Host", &machine.hostname), fact("CPU", &machine.cpu_model)];
    // A record that was imported has no more than its tool told.
    if !machine.cpus.is_empty() {
        facts
            .push(fact("CPUs", &format!("{} allowed of {}", machine.allowed_cpus.len(), machine.cpus.len())));
    }
    facts.push(fact("Kernel", &format!("Linux {} {}", machine.kernel, machine.arch)));
    if machine.memory_bytes > 0 {
        facts.push(fact("Memory", &amount(machine.memory_bytes)));
    }
    facts.push(fact("Virtualisation", &machine.virtualisation));
    facts.push(fact("Measured", &header.started));
    if let Some(end) = end.filter(|end| end.elapsed_s > 0.0) {
        facts.push(fact("Took", &format!("{} s", significant(end.elapsed_s))));
    }
    let commit = header.tool.commit.as_deref().map_or(String::new(), |commit| format!(" ({commit})"));
    facts.push(fact("Tool", &format!("{} {}{commit}", header.tool.name, header.tool.version)));
    if !header.command.is_empty() {
        facts.push(fact("Command", &header.command.join(" ")));
    }
    facts
}

/// A name and a text, made safe to show.
pub fn fact(name: &str, value: &str) -> Fact {
    (plain(name), plain(value))
}
