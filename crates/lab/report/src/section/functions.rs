//! Instructions by function, counted in a guest: what each contributes to an operation, and in which functions two sides differ.

use weighbridge_record::{FunctionChange, FunctionCount, Functions, FunctionsCompared, Profile, StackCount};

use crate::chart::{Chart, Drawing};
use crate::document::{Block, Cell, Column, Section, Table};
use crate::flame::{Flame, FlameUnit};
use crate::model::Report;
use crate::words::{many, plain};

/// How the name of a file in user mode begins.
const USER: &str = "user: ";
/// Rows that are shown at once.
const FEW: usize = 20;

const ABOUT: &str = "Instructions that each function executed itself, for each operation, in the windows in which the benchmark measured. A share is one of all \
                     that was counted. A function is entered by a call or a jump to its first instruction.";
const COMPARED: &str = "Instructions that each function executed itself, for each operation. Functions of which both sides execute as many are left out.";

/// Nothing where no function was counted.
pub fn sections(report: &Report) -> Vec<Section> {
    let several = report.functions.len() > 1;
    let one = |(index, of): (usize, &Functions)| {
        let id = if several { format!("functions-{}", index + 1) } else { "functions".into() };
        Section::new(&id, &format!("Functions of {}", title(of)), blocks(of))
    };
    let compared = report.functions_compared.iter().enumerate().filter_map(|(index, of)| {
        let id = format!("functions-compared-{}", index + 1);
        Section::new(&id, "Functions compared", compared_blocks(&of.what))
    });
    let each = report.functions.iter().map(|of| &of.what).enumerate().filter_map(one);
    compared.chain(each).collect()
}

fn title(of: &Functions) -> String {
    match &of.kernel {
        Some(kernel) => format!("{} on {kernel}", of.case),
        None => of.case.to_string(),
    }
}

fn blocks(of: &Functions) -> Vec<Block> {
    let shares = shares(of);
    let rows: Vec<Vec<Cell>> =
        of.functions.iter().zip(&shares).map(|(of, shares)| row(of, *shares)).collect();
    let mut few = rows[..rows.len().min(FEW)].to_vec();
    if let Some(rest) = of.functions.get(FEW..).filter(|rest| !rest.is_empty()) {
        let instructions: f64 = rest.iter().map(|of| of.instructions).sum();
        let name = format!("{} more", many(rest.len(), "function"));
        few.push(sum(name, instructions, instructions / of.counted));
    }
    few.push(sum("all functions".into(), of.counted, 1.0));
    few.push(sum("remainder".into(), of.remainder(), of.remainder() / of.counted));
    few.push(sum("as the benchmark measured it".into(), of.measured, of.measured / of.counted));
    let mut blocks = vec![
        Block::Paragraph(format!("{ABOUT} {}", windows(of))),
        Block::Table(table(&of.unit, few)),
        Block::Chart(Box::new(Chart {
            title: format!("Flame graph: {}", plain(&title(of))),
            about: "A box is as wide as its instructions for each operation and stands on its caller. Boxes below 0.5 % are left out.".into(),
            drawing: Drawing::Flame(flame(of)),
            figures: None,
        })),
    ];
    if of.functions.len() > FEW {
        let name = format!("All {}", many(of.functions.len(), "function"));
        blocks.push(Block::fold(name, vec![Block::Table(table(&of.unit, rows))]));
    }
    blocks
}

fn windows(of: &Functions) -> String {
    let [operations, windows] = [(of.operations, "operation"), (of.windows, "window")]
        .map(|(count, name)| many(count as usize, name));
    let left_out = match of.left_out {
        0 => String::new(),
        left_out => {
            format!("; {} in which something else ran too left out", many(left_out as usize, "window"))
        }
    };
    format!("Counted: {operations} in {windows}{left_out}.")
}

/// The call stacks, on a box for each mode of the CPU.
fn flame(of: &Functions) -> Flame {
    let stack = |of: &StackCount| {
        let names = if of.stack.starts_with(USER) {
            format!("user mode;{}", of.stack)
        } else {
            let kernel = of.stack.split(';').map(|name| format!("{name}{}", Profile::IN_KERNEL));
            kernel.fold("kernel".into(), |names, name| format!("{names};{name}"))
        };
        (names, of.instructions.round() as u64)
    };
    let folded: Vec<(String, u64)> = of.stacks.iter().map(stack).collect();
    Flame { unit: FlameUnit::Instructions, ..Flame::of(&folded) }
}

/// Of each function its share, and that of all down to it.
fn shares(of: &Functions) -> Vec<[f64; 2]> {
    let mut cumulated = 0.0;
    let mut share = |function: &FunctionCount| {
        cumulated += function.instructions;
        [function.instructions / of.counted, cumulated / of.counted]
    };
    of.functions.iter().map(&mut share).collect()
}

fn table(unit: &str, rows: Vec<Vec<Cell>>) -> Table {
    let heads = ["function", unit, "share", "cumulated", "calls"].map(String::from);
    Table::new("", heads, rows)
}

fn row(of: &FunctionCount, [share, cumulated]: [f64; 2]) -> Vec<Cell> {
    let calls = of.calls.map_or(String::new(), |calls| format!("{calls:.2}"));
    vec![
        of.function.as_str().into(),
        figure(of.instructions).into(),
        percent(share).into(),
        percent(cumulated).into(),
        calls.into(),
    ]
}

/// A row that sums others up.
fn sum(name: String, instructions: f64, share: f64) -> Vec<Cell> {
    vec![name.into(), figure(instructions).into(), percent(share).into(), "".into(), "".into()]
}

fn figure(instructions: f64) -> String {
    format!("{instructions:.1}")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn compared_blocks(of: &FunctionsCompared) -> Vec<Block> {
    let rows: Vec<Vec<Cell>> = of.functions.iter().map(change).collect();
    let mut few = rows[..rows.len().min(FEW)].to_vec();
    let signed = |value: f64| Cell::from(format!("{value:+.1}"));
    if let Some(rest) = of.functions.get(FEW..).filter(|rest| !rest.is_empty()) {
        let sum = |side: usize| rest.iter().map(|of| of.instructions[side]).sum::<f64>();
        let name = format!("{} more", many(rest.len(), "function"));
        let [a, b] = [sum(0), sum(1)];
        few.push(vec![name.into(), figure(a).into(), figure(b).into(), signed(b - a), "".into(), "".into()]);
    }
    let [a, b] = of.counted;
    few.push(vec![
        "all functions".into(),
        figure(a).into(),
        figure(b).into(),
        signed(b - a),
        "".into(),
        "".into(),
    ]);
    let mut blocks = vec![
        Block::Paragraph(format!("A is {}, B is {}. {COMPARED}", of.a, of.b)),
        Block::Table(change_table(&of.unit, few)),
    ];
    if rows.len() > FEW {
        let name = format!("All {}", many(rows.len(), "function"));
        blocks.push(Block::fold(name, vec![Block::Table(change_table(&of.unit, rows))]));
    }
    blocks
}

fn change_table(unit: &str, rows: Vec<Vec<Cell>>) -> Table {
    let heads = ["function", "A", "B", "B - A", "calls\nin A", "calls\nin B"].map(String::from);
    let mut table = Table::new("", heads, rows);
    table.columns[0] = Column { head: format!("function, {unit}"), is_text: true, ..Column::default() };
    table
}

fn change(of: &FunctionChange) -> Vec<Cell> {
    let calls = |side: usize| of.calls.map_or(String::new(), |calls| format!("{:.2}", calls[side]));
    vec![
        of.function.as_str().into(),
        figure(of.instructions[0]).into(),
        figure(of.instructions[1]).into(),
        format!("{:+.1}", of.difference).into(),
        calls(0).into(),
        calls(1).into(),
    ]
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;
    use crate::document::Document;
    use crate::model::Sourced;
    use crate::text::Style;

    fn functions(count: usize) -> Functions {
        let function = |index: usize| FunctionCount {
            function: format!("f{index}"),
            instructions: 2.0,
            calls: Some(1.0),
        };
        Functions {
            case: CaseId::new("roundtrip", "pipe", 1, "same-cpu"),
            kernel: None,
            unit: "instructions/roundtrip".into(),
            windows: 9,
            left_out: 1,
            operations: 900,
            measured: 51.0,
            counted: 50.0,
            functions: (0..count).map(function).collect(),
            stacks: vec![
                StackCount { stack: "user: program".into(), instructions: 10.0 },
                StackCount { stack: "entry;do_read".into(), instructions: 40.0 },
            ],
        }
    }

    fn document(report: &Report) -> Document {
        Document { sections: sections(report), ..Document::default() }
    }

    #[test]
    fn the_table_ends_with_the_sum_the_remainder_and_what_was_measured() {
        let what = functions(25);
        let report = Report { functions: vec![Sourced { source: 0, what }], ..Report::default() };
        let text = document(&report).text(Style::default());
        let rows: Vec<String> = text
            .lines()
            .skip_while(|line| !line.contains("f19"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "f19 2.0 4.00 % 80.00 % 1.00",
                "5 functions more 10.0 20.00 %",
                "all functions 50.0 100.00 %",
                "remainder 1.0 2.00 %",
                "as the benchmark measured it 51.0 102.00 %"
            ],
            "{text}"
        );
        assert!(text.replace("\n  ", " ").contains("1 window in which something else ran too"), "{text}");
        let page = document(&report).html();
        assert!(page.contains("<title>do_read, kernel: 80.0 % (40 instructions)</title>"), "a flame graph");
        assert!(page.contains("<title>user mode: 20.0 % (10 instructions)</title>"));
    }

    #[test]
    fn a_comparison_comes_before_the_functions_of_either_side() {
        let (a, mut b) = (functions(3), functions(3));
        b.functions[1].instructions = 5.0;
        let compared = FunctionsCompared::new([("old", &a), ("new", &b)]);
        let report = Report {
            functions: [a, b].map(|what| Sourced { source: 0, what }).into(),
            functions_compared: vec![Sourced { source: 0, what: compared }],
            ..Report::default()
        };
        let document = document(&report);
        let ids: Vec<&str> = document.sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["functions-compared-1", "functions-1", "functions-2"]);
        let text = document.text(Style::default());
        let row = text.lines().find(|line| line.trim().starts_with("f1 ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["f1", "2.0", "5.0", "+3.0", "1.00", "1.00"]);
    }
}
