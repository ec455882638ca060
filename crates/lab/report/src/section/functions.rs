//! Instructions by function, counted in a guest: what each contributes to an operation, and in which functions two sides differ.

use weighbridge_record::{FunctionChange, FunctionCount, Functions, FunctionsCompared, Profile, StackCount};

use super::Context;
use crate::chart::Drawing;
use crate::document::{Block, Section, Table};
use crate::flame::Flame;
use crate::words::{many, plain};

/// How the name of a file in user mode begins.
const USER: &str = "user: ";
/// Rows that are shown at once.
const FEW: usize = 20;

const ABOUT: &str = "Instructions that each function executed itself, for each operation, in the windows in which the benchmark measured. A share is one of all \
                     that was counted. A function is entered by a call or a jump to its first instruction.";
const COMPARED: &str = "Instructions that each function executed itself, for each operation. Functions of which both sides execute as many are left out.";

/// None where no function was counted.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let several = cx.report.functions.len() > 1;
    let compared = cx.report.functions_compared.iter().enumerate().flat_map(|(index, of)| {
        let id = format!("functions-compared-{}", index + 1);
        Section::new(&id, "Functions compared", compared_blocks(&of.what))
    });
    let each = cx.report.functions.iter().enumerate().flat_map(|(index, of)| {
        let id = if several { format!("functions-{}", index + 1) } else { "functions".into() };
        Section::new(&id, &format!("Functions of {}", title(&of.what)), blocks(&of.what))
    });
    compared.chain(each).collect()
}

fn title(of: &Functions) -> String {
    match &of.kernel {
        Some(kernel) => format!("{} on {kernel}", of.case),
        None => of.case.to_string(),
    }
}

fn blocks(of: &Functions) -> Vec<Block> {
    let row = |name: &str, instructions: f64, further: [String; 2]| {
        let [cumulated, calls] = further;
        [name.to_owned(), figure(instructions), percent(instructions / of.counted), cumulated, calls]
    };
    let mut cumulated = 0.0;
    let each = of.functions.iter().map(|function| {
        cumulated += function.instructions;
        let calls = function.calls.map_or(String::new(), |calls| format!("{calls:.2}"));
        row(&function.function, function.instructions, [percent(cumulated / of.counted), calls])
    });
    let sum = |name: &str, instructions: f64| row(name, instructions, [String::new(), String::new()]);
    let more = |rest: &[FunctionCount], name: &str| sum(name, rest.iter().map(|of| of.instructions).sum());
    let sums = [
        sum("all functions", of.counted),
        sum("remainder", of.remainder()),
        sum("as the benchmark measured it", of.measured),
    ];
    let heads = ["function", &of.unit, "share", "cumulated", "calls"];
    let [table, all] = few(&heads, &of.functions, each.collect(), more, &sums);
    let about = "A box is as wide as its instructions for each operation and stands on its caller. Boxes below 0.5 % are left out.";
    let name = format!("Flame graph: {}", plain(&title(of)));
    let chart = Block::chart(name, about, Drawing::Flame(flame(of)), None);
    let about = Block::Paragraph(format!("{ABOUT} {}", windows(of)));
    [Some(about), table, Some(chart), all].into_iter().flatten().collect()
}

/// A table of the first rows, a sum of the others and further sums; and all rows in a fold, where there are more.
fn few<F, const N: usize>(
    heads: &[&str; N],
    functions: &[F],
    rows: Vec<[String; N]>,
    sum: impl Fn(&[F], &str) -> [String; N],
    sums: &[[String; N]],
) -> [Option<Block>; 2] {
    let (first, rest) = functions.split_at(functions.len().min(FEW));
    let more = (!rest.is_empty()).then(|| sum(rest, &format!("{} more", many(rest.len(), "function"))));
    let has_more = more.is_some();
    let shown = rows[..first.len()].iter().cloned().chain(more).chain(sums.iter().cloned());
    let table = Block::Table(Table::new("", *heads, shown));
    let all = has_more.then(|| {
        let name = format!("All {}", many(rows.len(), "function"));
        Block::fold(name, vec![Block::Table(Table::new("", *heads, rows))])
    });
    [Some(table), all]
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
    Flame::of(&of.stacks.iter().map(stack).collect::<Vec<_>>(), "instructions")
}

fn figure(instructions: f64) -> String {
    format!("{instructions:.1}")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn compared_blocks(of: &FunctionsCompared) -> Vec<Block> {
    let row = |name: &str, [a, b]: [f64; 2], difference: f64, calls: [String; 2]| {
        let [calls_a, calls_b] = calls;
        [name.to_owned(), figure(a), figure(b), format!("{difference:+.1}"), calls_a, calls_b]
    };
    let each = of.functions.iter().map(|of| {
        let calls = of.calls.map_or_else(Default::default, |calls| calls.map(|calls| format!("{calls:.2}")));
        row(&of.function, of.instructions, of.difference, calls)
    });
    let sum = |name: &str, [a, b]: [f64; 2]| row(name, [a, b], b - a, Default::default());
    let more = |rest: &[FunctionChange], name: &str| {
        sum(name, [0, 1].map(|side| rest.iter().map(|of| of.instructions[side]).sum::<f64>()))
    };
    let function = format!("function, {}", of.unit);
    let heads = [&function, "A", "B", "B - A", "calls\nin A", "calls\nin B"];
    let tables = few(&heads, &of.functions, each.collect(), more, &[sum("all functions", of.counted)]);
    let about = Block::Paragraph(format!("A is {}, B is {}. {COMPARED}", of.a, of.b));
    [about].into_iter().chain(tables.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;
    use crate::model::{Report, Sourced};
    use crate::section::document;
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
