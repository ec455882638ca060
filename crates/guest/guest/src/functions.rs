//! Instructions by function: what the plugin counted by address, and the names of the addresses, put together.

use std::collections::BTreeMap;

use weighbridge_record::{CaseId, FunctionCount, Functions, Line, Run, StackCount, Summary};

use crate::error::Error;
use crate::symbols::{Place, Symbols};

/// What the plugin wrote; its form is that of `counts.rs` of `weighbridge-guest-plugin`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Of each node its parent, and the address of the call in it.
    nodes: BTreeMap<u32, (u32, u64)>,
    windows: Vec<Vec<Executed>>,
}

/// The mechanism by which a session measures itself, whatever was selected.
const HARNESS: &str = "noop";

/// A window whose operations take more, or fewer, instructions than the median by more than this share was disturbed.
const MOST_DISTURBED: f64 = 0.01;

/// A block of instructions, and how often it was executed with one call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Executed {
    node: u32,
    address: u64,
    /// Of one execution.
    length: u64,
    executions: u64,
}

impl Executed {
    fn instructions(&self) -> u64 {
        self.length * self.executions
    }
}

impl Counts {
    fn read(text: &str) -> Option<Counts> {
        let mut lines = text.lines();
        lines.next().filter(|line| *line == "weighbridge-counts 1")?;
        let mut counts = Counts::default();
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["end"] => return Some(counts),
                ["node", number, parent, site] => {
                    let (number, parent) = (number.parse().ok()?, parent.parse().ok()?);
                    let is_known = parent == 0 || counts.nodes.contains_key(&parent);
                    counts.nodes.insert(number, (Some(parent).filter(|_| is_known)?, address(site)?));
                }
                ["window"] => counts.windows.push(Vec::new()),
                ["block", node, at, length, executions] => counts.windows.last_mut()?.push(Executed {
                    node: node.parse().ok().filter(|node| *node == 0 || counts.nodes.contains_key(node))?,
                    address: address(at)?,
                    length: length.parse().ok()?,
                    executions: executions.parse().ok()?,
                }),
                _ => return None,
            }
        }
        None
    }

    /// The functions of a node's calls, the outermost first.
    fn stack(&self, node: u32, symbols: &Symbols) -> Vec<String> {
        let mut stack = Vec::new();
        let mut at = node;
        while let Some((parent, site)) = self.nodes.get(&at) {
            stack.push(name(&symbols.place(*site)));
            at = *parent;
        }
        stack.reverse();
        stack
    }
}

fn name(place: &Place) -> String {
    match place {
        Place::Function { name, module: None } => name.clone(),
        Place::Function { name, module: Some(module) } => format!("{name} [{module}]"),
        Place::User(file) => format!("user: {file}"),
    }
}

/// The instructions of the one case of `lines`, a record in instructions, by function.
///
/// # Errors
/// The record has not one case that was measured in batches, a run of it failed, or the counts are damaged; the sentence says what to do.
pub fn by_function(lines: &[Line], counts: &[u8], symbols: &Symbols) -> Result<Functions, Error> {
    let (summary, windows) = measured(lines)?;
    let damaged =
        "the emulator's plugin wrote nothing that can be read; is it of the same version as this program?";
    let counts = std::str::from_utf8(counts).ok().and_then(Counts::read);
    let mut counts = counts.ok_or_else(|| Error::new(damaged))?;
    if counts.windows.is_empty() {
        return Err(Error::new(format!(
            "`{}` marks no windows: instructions by function are counted of cases that are measured in batches, which are those of roundtrip, \
             pingpong, solo and fan-out, and in intervals, which are those of fan-in",
            summary.case
        )));
    }
    if counts.windows.len() != windows.len() {
        return Err(Error::new(format!(
            "the guest marked {} windows and its record of `{}` has {} samples",
            counts.windows.len(),
            summary.case,
            windows.len()
        )));
    }
    let mut is_own = windows.iter().map(Option::is_some);
    counts.windows.retain(|_| is_own.next().expect("there are as many"));
    let samples: Vec<u64> = windows.into_iter().flatten().collect();
    let quiet = quiet(&each_window(&counts, &samples));
    let operations: u64 = quiet.iter().map(|index| samples[*index]).sum();
    let each = |count: u64| count as f64 / operations as f64;
    let sums = Sums::of(&counts, &quiet, symbols);
    let counted: u64 = sums.stacks.values().sum();
    let functions = sums.functions.into_iter().map(|(function, (instructions, calls))| FunctionCount {
        function,
        instructions: each(instructions),
        calls: calls.map(each),
    });
    let mut functions: Vec<FunctionCount> = functions.collect();
    functions.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
    let (unit, measured) = of_one(summary);
    let stack = |(stack, instructions)| StackCount { stack, instructions: each(instructions) };
    Ok(Functions {
        case: summary.case.clone(),
        kernel: None,
        unit,
        windows: quiet.len() as u64,
        left_out: (samples.len() - quiet.len()) as u64,
        operations,
        measured,
        counted: each(counted),
        functions,
        stacks: sums.stacks.into_iter().map(stack).collect(),
    })
}

/// The instructions of the windows that count, by name.
#[derive(Default)]
struct Sums {
    /// Instructions of each function, and how often it was entered.
    functions: BTreeMap<String, (u64, Option<u64>)>,
    /// Instructions of the innermost function of each call stack.
    stacks: BTreeMap<String, u64>,
}

impl Sums {
    fn of(counts: &Counts, windows: &[usize], symbols: &Symbols) -> Sums {
        let mut sums = Sums::default();
        for block in windows.iter().flat_map(|index| &counts.windows[*index]) {
            let place = symbols.place(block.address);
            let instructions = block.instructions();
            let of = sums.functions.entry(name(&place)).or_default();
            of.0 += instructions;
            if matches!(place, Place::Function { .. }) {
                // A function is entered where its first instruction begins a block.
                let entries = if symbols.is_entry(block.address) { block.executions } else { 0 };
                of.1 = Some(of.1.unwrap_or(0) + entries);
            }
            let mut stack = counts.stack(block.node, symbols);
            stack.push(name(&place));
            *sums.stacks.entry(stack.join(";")).or_default() += instructions;
        }
        sums
    }
}

/// Of each window the instructions of an operation.
fn each_window(counts: &Counts, operations: &[u64]) -> Vec<f64> {
    let windows = counts.windows.iter().zip(operations);
    let each = |(window, operations): (&Vec<Executed>, &u64)| {
        window.iter().map(Executed::instructions).sum::<u64>() as f64 / *operations as f64
    };
    windows.map(each).collect()
}

/// Windows whose operations take as many instructions as those of the others, to one part in a hundred; all, where most differ. In the others a
/// timer or a thread of the kernel ran too.
fn quiet(each: &[f64]) -> Vec<usize> {
    let mut sorted = each.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let quiet: Vec<usize> =
        (0..each.len()).filter(|index| (each[*index] / median - 1.0).abs() <= MOST_DISTURBED).collect();
    if quiet.len() * 2 > each.len() { quiet } else { (0..each.len()).collect() }
}

/// What the only case has measured: the unit of an operation and the instructions of one, also where the case tells how many operations
/// a million instructions make.
fn of_one(summary: &Summary) -> (String, f64) {
    match summary.unit.strip_suffix("/million instructions") {
        Some(many) => {
            (format!("instructions/{}", many.strip_suffix('s').unwrap_or(many)), 1e6 / summary.median)
        }
        None => (summary.unit.clone(), summary.median),
    }
}

/// Operations of each window of a run. Where they differ, because a window is a length of time, they are in the proportion of the rates.
fn operations(run: &Run) -> Vec<u64> {
    let Run { samples, ops_per_sample, sampled_total, .. } = run;
    let sum: f64 = samples.iter().sum();
    match sampled_total {
        Some(total) if total.ops != ops_per_sample * samples.len() as u64 && sum > 0.0 => {
            let share = |rate: &f64| (total.ops as f64 * rate / sum).round() as u64;
            samples.iter().map(|rate| share(rate).max(1)).collect()
        }
        _ => vec![(*ops_per_sample).max(1); samples.len()],
    }
}

/// The summary of the only case, and of each window the operations, where it is one of that case: a session measures the harness beside what
/// was asked for.
fn measured(lines: &[Line]) -> Result<(&Summary, Vec<Option<u64>>), Error> {
    let (mut summaries, mut windows) = (Vec::new(), Vec::new());
    for line in lines {
        match line {
            Line::Skipped(skipped) => {
                let why = format!("`{}` gave no figure in the guest: {}", skipped.case, skipped.why);
                return Err(Error::new(why));
            }
            Line::Summary(summary) => summaries.push(summary),
            Line::Run(run) => {
                windows.extend(operations(run).into_iter().map(|operations| (&run.case, operations)))
            }
            _ => {}
        }
    }
    if summaries.len() > 1 {
        summaries.retain(|summary| summary.case.mechanism != HARNESS);
    }
    let [summary] = summaries[..] else {
        return Err(Error::new("instructions by function are counted of one case in one boot"));
    };
    let own = |(case, operations): (&CaseId, u64)| (*case == summary.case).then_some(operations);
    Ok((summary, windows.into_iter().map(own).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use weighbridge_record::SampledTotal;

    fn symbols() -> Symbols {
        let text = "{}\nweighbridge-symbols 1\nmap 1000 2000 /bin/weighbridge\nfn ffffffff81000000 entry\nfn 100 do_read\nfn 100 copy mod\n";
        Symbols::split(text.as_bytes()).unwrap().1
    }

    fn lines() -> Vec<Line> {
        let id = "roundtrip/pipe/1/same-cpu";
        let per_op = json!({"voluntary_switches": 0.0, "involuntary_switches": 0.0, "minor_faults": 0.0, "cpu_ns": 0.0});
        let of = |value: serde_json::Value| serde_json::from_value::<Line>(value).unwrap();
        vec![
            of(
                json!({"kind": "case", "case": id, "pattern": "roundtrip", "mechanism": "pipe", "payload_bytes": 1, "placement": "same-cpu",
                "resolved_placement": "same-cpu", "cpus": [0, 0], "roles": ["client", "server"], "axes": {}, "unit": "instructions/roundtrip",
                "higher_is_better": false, "facts": {}}),
            ),
            of(
                json!({"kind": "run", "case": id, "run": 0, "round": 0, "value": 40.0, "samples": [40.0, 41.0], "ops_per_sample": 1,
                "per_op": per_op, "roles": [], "noise": {"marked_samples": 0}, "startup_ms": 1.0, "elapsed_ms": 1.0, "flags": []}),
            ),
            of(
                json!({"kind": "summary", "case": id, "unit": "instructions/roundtrip", "runs": 1, "median": 40.0, "range": [40.0, 40.0],
                "spread_between": 0.0, "spread_within": 0.0, "stopped_by": "max-runs", "per_op": per_op, "series": {}, "anomalies": [],
                "regimes": []}),
            ),
        ]
    }

    const COUNTS: &str = "weighbridge-counts 1\nnode 1 0 ffffffff81000010\nnode 2 1 ffffffff81000120\n\
                          window\nblock 0 1000 10 1\nblock 0 ffffffff81000000 8 1\nblock 1 ffffffff81000100 5 1\n\
                          block 1 ffffffff81000110 5 2\nblock 2 ffffffff81000200 3 2\n\
                          window\nblock 0 1000 10 1\nblock 0 ffffffff81000000 8 1\nblock 1 ffffffff81000100 5 1\n\
                          block 1 ffffffff81000110 5 2\nblock 2 ffffffff81000200 3 2\nend\n";

    #[test]
    fn instructions_and_entries_are_those_of_functions_for_each_operation() {
        let found = by_function(&lines(), COUNTS.as_bytes(), &symbols()).unwrap();
        let rows: Vec<_> =
            found.functions.iter().map(|of| (of.function.as_str(), of.instructions, of.calls)).collect();
        assert_eq!(
            rows,
            [
                ("do_read", 15.0, Some(1.0)),
                ("user: weighbridge", 10.0, None),
                ("entry", 8.0, Some(1.0)),
                ("copy [mod]", 6.0, Some(2.0))
            ]
        );
        assert_eq!((found.windows, found.left_out, found.operations), (2, 0, 2));
        assert_eq!((found.counted, found.remainder()), (39.0, 1.0));
        assert_eq!(
            found.folded(),
            "entry 8000\nentry;do_read 15000\nentry;do_read;copy [mod] 6000\nuser: weighbridge 10000\n"
        );
    }

    /// Two windows of 27 and of 54 events, of which a million instructions make as many thousand.
    #[test]
    fn instructions_of_a_rate_are_those_of_an_event_and_windows_have_as_many_as_came() {
        let mut of_rate = lines();
        for line in &mut of_rate {
            match line {
                Line::Run(run) => {
                    run.samples = vec![27_000.0, 54_000.0];
                    run.sampled_total =
                        Some(SampledTotal { samples: 2, ops: 81, bytes: 0, elapsed_ns: 2000 });
                    run.ops_per_sample = 27;
                }
                Line::Summary(summary) => {
                    (summary.median, summary.unit) = (40_000.0, "events/million instructions".into());
                }
                _ => {}
            }
        }
        // The second window executes as often again what the first one does.
        let [before, window, end] = [0, 1, 2].map(|at| COUNTS.split("window\n").nth(at).unwrap());
        let twice = window.replace("10 1\n", "10 2\n").replace("8 1\n", "8 2\n").replace("5 1\n", "5 2\n");
        let twice = twice.replace("5 2\nblock 2", "5 4\nblock 2").replace("3 2\n", "3 4\n");
        let counts = format!("{before}window\n{window}window\n{twice}{}", &end[end.find("end").unwrap()..]);
        let found = by_function(&of_rate, counts.as_bytes(), &symbols()).unwrap();
        assert_eq!((found.unit.as_str(), found.measured), ("instructions/event", 25.0));
        assert_eq!((found.windows, found.operations), (2, 81));
        let each = |name: &str| found.functions.iter().find(|of| of.function == name).unwrap().instructions;
        assert_eq!(each("entry"), 24.0 / 81.0);
    }

    #[test]
    fn windows_of_the_harness_are_none_of_the_case() {
        let harness = |line: Line| {
            let text = serde_json::to_string(&line).unwrap().replace("roundtrip/pipe/", "roundtrip/noop/");
            serde_json::from_str::<Line>(&text.replace("\"mechanism\":\"pipe\"", "\"mechanism\":\"noop\""))
                .unwrap()
        };
        let alone = lines();
        let [case, run, summary] = <[Line; 3]>::try_from(lines()).unwrap().map(harness);
        let both = [vec![case, run], alone.clone(), vec![summary]].concat();
        let of_harness = "window\nblock 0 1000 10 1\nwindow\nblock 0 1000 10 1\n";
        let counts = COUNTS.replacen("window\n", &format!("{of_harness}window\n"), 1);
        let found = by_function(&both, counts.as_bytes(), &symbols()).unwrap();
        assert_eq!(found, by_function(&alone, COUNTS.as_bytes(), &symbols()).unwrap());
        assert_eq!(found.case.mechanism, "pipe");
    }

    #[test]
    fn windows_in_which_something_else_ran_are_left_out() {
        assert_eq!(quiet(&[100.0, 100.5, 130.0, 99.5]), [0, 1, 3]);
        assert_eq!(quiet(&[100.0, 150.0, 200.0]), [0, 1, 2], "nothing is the rule there");
        assert_eq!(quiet(&[7.0]), [0]);
    }

    #[test]
    fn what_cannot_be_explained_is_told() {
        let why = |lines: &[Line], counts: &str| {
            by_function(lines, counts.as_bytes(), &symbols()).unwrap_err().to_string()
        };
        assert!(why(&lines()[..2], COUNTS).contains("one case"));
        assert!(why(&lines(), "weighbridge-counts 1\nend\n").contains("marks no windows"));
        assert!(why(&lines(), "weighbridge-counts 1\nwindow\nend\n").contains("1 windows and its record"));
        for damaged in [
            "",
            "weighbridge-counts 1\n",
            "weighbridge-counts 1\nwindow\nblock 7 0 1 1\nend\n",
            "weighbridge-counts 2\nend\n",
        ] {
            assert!(why(&lines(), damaged).contains("nothing that can be read"), "{damaged}");
        }
    }
}
