//! The text format of OpenMetrics 1.0. Source: the specification of that name, section "Text Format".

use std::collections::{BTreeMap, HashMap};
use std::fmt::{Display, Write};

use causeway_os::process::{cgroup, program};

use super::Snapshot;
use crate::member::MemberId;
use crate::report::{BusNumber, FACTS, Fact, Kind, Line, Metric};

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// No metrics.
pub const EMPTY: &str = "# EOF\n";
/// Connections, users and control groups that have series of their own: those that hold most.
const SERIES_MAX: usize = 64;

/// Programs and control groups of connections, read once.
#[derive(Debug, Default)]
pub struct Identities(HashMap<u64, Identity>);

#[derive(Debug)]
struct Identity {
    program: String,
    cgroup: String,
}

impl Identities {
    /// Knows those of the snapshot from now on, and no others.
    fn follow(&mut self, lines: &[Line]) {
        let mut before = std::mem::take(&mut self.0);
        let known = lines.iter().map(|line| {
            let identity = before.remove(&line.id).unwrap_or_else(|| Identity {
                program: program(line.pid).unwrap_or_default(),
                cgroup: cgroup(line.pid).unwrap_or_default(),
            });
            (line.id, identity)
        });
        self.0 = known.collect();
    }
}

/// All metrics of a snapshot.
pub fn render(snapshot: &Snapshot, identities: &mut Identities) -> String {
    identities.follow(&snapshot.lines);
    let mut text = Text::default();
    of_bus(&mut text, snapshot);
    let mut lines: Vec<&Line> = snapshot.lines.iter().collect();
    lines.sort_by_key(|line| (std::cmp::Reverse(line.weight()), line.id));
    let (mut users, mut cgroups): (Groups<'_>, Groups<'_>) = Default::default();
    for line in &lines {
        users.entry(line.uid.to_string()).or_default().push(line);
        cgroups.entry(identities.0[&line.id].cgroup.clone()).or_default().push(line);
    }
    of_groups(&mut text, "user", &users);
    of_groups(&mut text, "cgroup", &cgroups);
    lines.truncate(SERIES_MAX);
    of_connections(&mut text, &lines, identities);
    text.0.push_str(EMPTY);
    text.0
}

fn of_bus(text: &mut Text, snapshot: &Snapshot) {
    for BusNumber { value, metric, .. } in &snapshot.bus {
        let Some(Metric { name, kind, help }) = *metric else { continue };
        let family = text.family("bus", name, kind, help);
        let is_time = name.ends_with("_seconds");
        if is_time {
            text.sample(&family, &[], *value as f64 / 1e6)
        } else {
            text.sample(&family, &[], value)
        }
    }
    let help = "Connections that the bus has ended, by the limit or other reason.";
    let family = text.family("bus", "evictions", Kind::Counter, help);
    for (reason, count) in &snapshot.evictions {
        text.sample(&family, &[("reason", reason)], count);
    }
    if let Some((held, capacity)) = snapshot.fill {
        for (name, help, value) in [
            ("log_entries", "Entries of the order log that somebody may still have to read.", held),
            ("log_capacity", "Entries that the order log holds.", capacity),
        ] {
            let family = text.family("bus", name, Kind::Gauge, help);
            text.sample(&family, &[], value);
        }
    }
}

/// Connections by what they have in common, those that hold most first.
type Groups<'a> = BTreeMap<String, Vec<&'a Line>>;

/// Of counters there are no sums: they would fall when a connection ends.
fn of_groups(text: &mut Text, label: &str, groups: &Groups<'_>) {
    let weight = |lines: &[&Line]| lines.iter().map(|line| line.weight()).sum::<u64>();
    let mut groups: Vec<(&String, &Vec<&Line>)> = groups.iter().collect();
    groups.sort_by_key(|(name, lines)| (std::cmp::Reverse(weight(lines)), *name));
    groups.truncate(SERIES_MAX);
    let family = text.family(label, "connections", Kind::Gauge, "Connections.");
    for (name, lines) in &groups {
        text.sample(&family, &[(label, name)], lines.len());
    }
    for fact in FACTS.iter().filter(|fact| fact.kind != Kind::Counter) {
        let family = text.family(label, fact.metric, fact.kind, fact.help);
        for (name, lines) in &groups {
            let values = lines.iter().filter_map(|line| fact.value(line));
            let value = if fact.kind == Kind::Age { values.max().unwrap_or(0) } else { values.sum() };
            text.value(&family, &[(label, name)], fact, value);
        }
    }
}

fn of_connections(text: &mut Text, lines: &[&Line], identities: &Identities) {
    let family = text.family("connection", "info", Kind::Gauge, "Who it is.");
    for line in lines {
        let Identity { program, cgroup } = &identities.0[&line.id];
        let name = line.names.first().map_or("", String::as_str);
        let kind = if line.member.is_some() { "member" } else { "client" };
        let (pid, user) = (line.pid.to_string(), line.uid.to_string());
        let who = [("name", name), ("pid", &pid), ("user", &user), ("program", program), ("cgroup", cgroup)];
        let labels = [("connection", unique(line)), ("kind", kind.to_owned())];
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(label, value)| (*label, value.as_str())).chain(who).collect();
        text.sample(&family, &labels, 1);
    }
    for fact in &FACTS {
        let family = text.family("connection", fact.metric, fact.kind, fact.help);
        for line in lines {
            if let Some(value) = fact.value(line) {
                text.value(&family, &[("connection", &unique(line))], fact, value);
            }
        }
    }
}

fn unique(line: &Line) -> String {
    MemberId(line.id).label()
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// Begins a family, and returns the name of its samples.
    fn family(&mut self, of: &str, name: &str, kind: Kind, help: &str) -> String {
        let name = format!("causeway_{of}_{name}");
        let is_counter = kind == Kind::Counter;
        let _ = writeln!(self.0, "# TYPE {name} {}", if is_counter { "counter" } else { "gauge" });
        if let Some(unit) = ["bytes", "seconds"].into_iter().find(|unit| name.ends_with(unit)) {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
        if is_counter { name + "_total" } else { name }
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], fact: &Fact, value: u64) {
        match fact.kind {
            Kind::Age => self.sample(name, labels, value as f64 / 1e3),
            _ => self.sample(name, labels, value),
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{value}\"");
            before = ',';
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::RESOURCES;
    use crate::report::Traffic;

    #[test]
    fn only_those_that_hold_most_have_series_and_no_text_breaks_a_line() {
        let line = |id| Line {
            id,
            names: vec!["a.B".into()],
            pid: 0,
            uid: id as u32,
            held: [id; RESOURCES],
            peak: [id; RESOURCES],
            queued: 0,
            oldest: Some(std::time::Duration::from_millis(1_500)),
            traffic: Traffic::default(),
            member: None,
            in_flight: (0, 0),
        };
        let lines: Vec<Line> = (1..=10_000).map(line).collect();
        let wild = |id| Identity { program: "a\\b\"c\nd".into(), cgroup: format!("/{id}") };
        let mut identities = Identities(lines.iter().map(|line| (line.id, wild(line.id))).collect());
        let accepted = BusNumber::metric("A", 7, "accepted_messages", Kind::Counter, "Messages.");
        let bus = vec![accepted, BusNumber::of("ForDBusAlone", 8)];
        let evictions = BTreeMap::from([("max_outgoing_bytes", 3)]);
        let mut snapshot = Snapshot { lines, bus, evictions, fill: Some((1, 2)) };
        let text = render(&snapshot, &mut identities);
        assert!(text.contains(r#",program="a\\b\"c\nd",cgroup="/10000"} 1"#), "{text}");
        assert!(text.contains("causeway_bus_accepted_messages_total 7\n"), "{text}");
        assert!(!text.contains("ForDBusAlone"), "{text}");
        assert!(text.contains("causeway_bus_evictions_total{reason=\"max_outgoing_bytes\"} 3\n"), "{text}");
        assert!(text.contains("causeway_user_oldest_wait_seconds{user=\"10000\"} 1.5\n"), "{text}");
        for of in ["connection", "user", "cgroup"] {
            let name = format!("causeway_{of}_outgoing_bytes{{");
            assert_eq!(text.matches(&name).count(), SERIES_MAX, "{of}");
        }
        assert!(!text.contains("connection=\":1.9934\"") && text.contains("connection=\":1.9935\""));
        // Those that have gone are forgotten.
        snapshot.lines.truncate(1);
        render(&snapshot, &mut identities);
        assert_eq!(identities.0.len(), 1);
    }
}
