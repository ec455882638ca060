//! The results of our kernel module (`kernel/`), and those of packets in a guest, which have the same form: operations and nanoseconds of each
//! batch, and of the same loop without the operation. Each test that was run is a run, its batches are samples.
//!
//! Identity: the test, the part of it, and the settings that it uses (`kernel/README.md`); how many loops and batches were made is effort.

use crate::Machine;
use weighbridge_stats::median;

use super::{Format, Text};
use crate::import::entry::{Entry, Identity, Outcome, Run};
use crate::import::found::Found;
use crate::import::text::lines;

pub const FORMAT: Format = Format {
    tool: "kernel-bench",
    about: "the file `results` of weighbridge's kernel module: each test is a run, its batches are samples",
    rules: &[
        "nanoseconds of a batch over its operations become nanoseconds per operation; the empty loop is not subtracted",
    ],
    json: None,
    text: Some(Text {
        example: "weighbridge-bench 1",
        is_line: |line| line.starts_with(MARK),
        hint: "weighbridge-bench",
        read,
    }),
};

const MARK: &str = "weighbridge-bench ";
/// What is not named in a case where it has this value.
const DEFAULTS: [(&str, &str); 5] =
    [("context", "process"), ("count", "256"), ("bulk", "16"), ("order", "0"), ("flows", "1")];

/// Tests whose parts are ways to do the same with objects of the same size, and what that is. All others are work of their own.
const ALTERNATIVES: [(&str, &[&str]); 5] = [
    (
        "an object is allocated and freed",
        &["kmalloc-reuse", "kmem-cache-reuse", "pool-reuse", "pool-bh-reuse"],
    ),
    (
        "many objects are allocated, then freed",
        &["kmalloc-pattern", "kmem-cache-pattern", "pool-pattern", "pool-bh-pattern"],
    ),
    ("a packet is dropped by a rule", &["nftables-drop", "iptables-drop"]),
    ("a packet is accepted by a rule", &["nftables-accept", "iptables-accept"]),
    ("a packet is forwarded by a rule", &["nftables-forward", "iptables-forward"]),
];

/// A test while it is read: its name, the size of its objects, and the samples of each part.
struct Open {
    line: usize,
    name: String,
    settings: Vec<(String, String)>,
    parts: Vec<(String, Vec<(u64, f64)>)>,
}

fn read(text: &str, found: &mut Found) {
    let mut open: Option<Open> = None;
    for line in lines(text) {
        let number = line.number;
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let mut problem = |why: &str| found.problem(number, format!("{why}: `{}`", line.text));
        match &words[..] {
            [] => {}
            ["weighbridge-bench", "1"] => drop(found.versions.insert("1".into())),
            ["weighbridge-bench", version, ..] => {
                return found.problem(number, format!("version {version} of the form is not known, only 1"));
            }
            ["kernel", release] => {
                let machine = Machine { kernel: (*release).into(), ..Machine::default() };
                found.machine(number, machine).unwrap_or_else(|problem| found.problems.push(problem));
            }
            ["clock", ticks, ns] => match (ticks.parse::<f64>(), ns.parse::<f64>()) {
                (Ok(ticks), Ok(ns)) if ticks > 0.0 && ns > 0.0 => {
                    found.machine.get_or_insert_default().clock.tsc_hz = Some(ticks / ns * 1e9);
                }
                _ => problem("no reading of a counter"),
            },
            ["test", name, settings @ ..] => {
                let before = open.replace(Open::new(number, name, settings));
                before.into_iter().for_each(|before| before.break_off(found));
            }
            ["sample", part, ops, ns] => match (&mut open, ops.parse::<u64>(), ns.parse::<f64>()) {
                (Some(open), Ok(ops), Ok(ns)) if ops > 0 && ns >= 0.0 => open.add(part, ops, ns),
                _ => problem("no sample of a test"),
            },
            ["end"] => match open.take() {
                Some(open) => open.close(found),
                None => problem("the end of no test"),
            },
            ["failed", name, settings @ ..] => {
                let why = line.text.split_once(": ").map_or("no reason is told", |(_, why)| why);
                let failed = Open::new(number, name.trim_end_matches(':'), settings);
                found.add(failed.entry("op", Outcome::Skipped(why.into())));
            }
            _ => problem("not understood"),
        }
    }
    open.into_iter().for_each(|open| open.break_off(found));
}

impl Open {
    fn new(line: usize, name: &str, settings: &[&str]) -> Open {
        let pairs = settings.iter().filter_map(|setting| setting.trim_end_matches(':').split_once('='));
        let settings = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Open { line, name: name.into(), settings, parts: Vec::new() }
    }

    fn add(&mut self, part: &str, ops: u64, ns: f64) {
        match self.parts.iter_mut().find(|(known, _)| known == part) {
            Some((_, samples)) => samples.push((ops, ns)),
            None => self.parts.push((part.into(), vec![(ops, ns)])),
        }
    }

    fn break_off(self, found: &mut Found) {
        found.problem(self.line, format!("the test {} has no end", self.name));
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Only what a test uses belongs to it.
    fn uses(&self, setting: &str) -> bool {
        match setting {
            "count" => self.name.ends_with("-pattern") || self.name.starts_with("together-"),
            "bulk" => self.name.ends_with("-bulk"),
            "order" => self.name.starts_with("page-"),
            "loops" | "batches" => false,
            _ => true,
        }
    }

    /// An entry of a part of the test: `kmalloc-pattern/alloc count=10000`.
    fn entry(&self, part: &str, outcome: Outcome) -> Entry {
        let mut name = format!("{}/{part}", self.name);
        for (setting, default) in DEFAULTS {
            if let Some(value) = self.setting(setting).filter(|value| self.uses(setting) && *value != default)
            {
                name += &format!(" {setting}={value}");
            }
        }
        let unit = if part == "packet" { "ns/packet" } else { "ns/op" };
        let conditions = name.strip_prefix(&self.name).unwrap_or_default();
        let what = ALTERNATIVES.iter().find(|(_, tests)| tests.contains(&self.name.as_str()));
        let alternative_to = what.map(|(what, _)| format!("{what}: {conditions}").into());
        let used = self.settings.iter().filter(|(setting, _)| self.uses(setting)).cloned();
        Entry {
            payload_bytes: self.setting("size").and_then(|size| size.parse().ok()).unwrap_or(0),
            facts: self.settings.iter().cloned().collect(),
            alternative_to,
            ..Entry::new(self.line, Identity::new(name, unit).with(used), outcome)
        }
    }

    fn close(self, found: &mut Found) {
        let per_op =
            |samples: &[(u64, f64)]| samples.iter().map(|(ops, ns)| ns / *ops as f64).collect::<Vec<_>>();
        let noop =
            self.parts.iter().find(|(part, _)| part == "noop").map(|(_, samples)| median(&per_op(samples)));
        let parts: Vec<_> = self.parts.iter().filter(|(part, _)| part != "noop").collect();
        if parts.is_empty() {
            found.add(self.entry("op", Outcome::Skipped("it has no samples".into())));
        }
        for (part, samples) in parts {
            let ops = samples[0].0;
            let ops_per_sample = if samples.iter().all(|(other, _)| *other == ops) { ops } else { 0 };
            let run = Run { samples: per_op(samples), ops_per_sample, ..Run::default() };
            let notes = noop.map(|noop| format!("the loop without the operation: {noop:.2} of the unit"));
            let entry = self.entry(part, Outcome::Runs(vec![run]));
            found.add(Entry { notes: notes.into_iter().collect(), ..entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::import::{Benchmark, Input};

    fn read(text: &str) -> Found {
        crate::import::read(Input { path: Path::new("results"), text }).unwrap()
    }

    fn of(found: Found) -> Vec<Benchmark> {
        found.benchmarks.named().map(|(_, benchmark)| benchmark).collect()
    }

    const PATTERN: &str = "test kmalloc-pattern size=64 count=10000 loops=10000 bulk=16 order=0 context=irq-off cpus=1\n\
        sample alloc 10000 500000\nsample free 10000 300000\nsample noop 10000 20000\n\
        sample alloc 10000 520000\nsample free 10000 310000\nsample noop 10000 20000\nend\n";

    #[test]
    fn a_test_is_a_run_of_each_of_its_parts_and_the_empty_loop_is_a_note() {
        let text = format!("weighbridge-bench 1\nkernel 6.1.0\nclock 5000000 2000000\n{PATTERN}{PATTERN}");
        let found = read(&text);
        assert_eq!(found.problems, []);
        let machine = found.machine.clone().unwrap();
        assert_eq!((machine.kernel.as_str(), machine.clock.tsc_hz), ("6.1.0", Some(2.5e9)));
        let benchmarks = of(found);
        let names: Vec<&str> = benchmarks.iter().map(|of| of.identity.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "kmalloc-pattern/alloc context=irq-off count=10000",
                "kmalloc-pattern/free context=irq-off count=10000"
            ]
        );
        let alloc = &benchmarks[0];
        assert_eq!((alloc.payload_bytes, alloc.runs.len(), alloc.runs[0].ops_per_sample), (64, 2, 10_000));
        assert_eq!(alloc.runs[0].samples, [50.0, 52.0]);
        assert_eq!(alloc.notes, ["the loop without the operation: 2.00 of the unit"]);
    }

    #[test]
    fn ways_to_do_the_same_under_the_same_conditions_are_alternatives_and_a_loop_is_none() {
        let text = "weighbridge-bench 1\n\
            test kmem-cache-reuse size=256 context=softirq\nsample op 10 100\nend\n\
            test pool-reuse size=256 context=softirq\nsample op 10 50\nend\n\
            test pool-reuse size=256 context=process\nsample op 10 50\nend\n\
            test pool-pattern size=256 context=softirq\nsample alloc 10 50\nsample free 10 50\nend\n\
            test noop\nsample op 10 20\nend\ntest spin-lock\nsample op 10 20\nend\n";
        let cases = of(read(text));
        let of = |index: usize| cases[index].alternative_to.as_deref();
        assert!(of(0).is_some() && of(0) == of(1), "{:?}", of(0));
        assert!(of(1) != of(2) && of(1) != of(3) && of(3) != of(4), "context and part are conditions");
        assert_eq!([of(5), of(6)], [None, None]);
    }

    #[test]
    fn what_failed_or_is_damaged_is_told() {
        let text = "weighbridge-bench 1\nfailed together-reuse size=8: there is one CPU\nsample x 0 1\ntest noop\nsample op 10 20\nend\n\
                    test list\nsample op 1 1\n";
        let found = read(text);
        let told: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["line 3: no sample of a test: `sample x 0 1`", "line 7: the test list has no end"]);
        let cases = of(found);
        assert!(cases[0].skipped.contains_key("there is one CPU"));
        assert_eq!((cases[0].payload_bytes, cases[1].runs[0].samples[0]), (8, 2.0));
        let newer = read("weighbridge-bench 2\n").problems;
        assert_eq!(newer[0].to_string(), "line 1: version 2 of the form is not known, only 1");
        let unended = "weighbridge-bench 1\ntest a\nsample op 1 1\ntest b\nsample op 1 1\nend\n";
        assert_eq!(read(unended).problems[0].to_string(), "line 2: the test a has no end");
    }
}
