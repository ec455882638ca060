//! Instructions by function, counted in a guest: what each contributes to an operation, and in which functions two sides differ.

use weighbridge_record::{FunctionChange, FunctionCount, Functions, FunctionsCompared, StackCount};

use crate::chart::{Chart, Drawing};
use crate::document::{Block, Cell, Column, Section, Table};
use crate::flame::{Flame, FlameUnit, IN_KERNEL};
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
            let kernel = of.stack.split(';').map(|name| format!("{name}{IN_KERNEL}"));
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
