//! What the functions of a guest's kernel contribute to an operation: counted instructions, by function and by call stack.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CaseId;

/// The instructions of an operation of a case by function, counted in a guest. A figure is a mean over all operations of the windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Functions {
    /// The case.
    pub case: CaseId,
    /// The kernel that ran it, with what was added to its command line, where two kernels are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The unit of every figure: `instructions/roundtrip`, ….
    pub unit: String,
    /// Windows in which instructions were counted: the timed batches.
    pub windows: u64,
    /// Windows that are left out because something else ran in them too: their operations take over 1 % more or fewer instructions than
    /// those of most.
    pub left_out: u64,
    /// Operations in the windows in which instructions were counted.
    pub operations: u64,
    /// What the benchmark measured of an operation in the same boot, by the clock that counts instructions: the median of its runs.
    pub measured: f64,
    /// The sum of all functions.
    pub counted: f64,
    /// The functions, the one with most instructions first.
    pub functions: Vec<FunctionCount>,
    /// Call stacks with the instructions that their innermost function executed itself, in the order of their names.
    pub stacks: Vec<StackCount>,
}

/// One function, or everything that one file executes in user mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCount {
    /// Its name; of a file in user mode `user: FILE`, of a function of a module `NAME [MODULE]`.
    pub function: String,
    /// Instructions that it executed itself, for each operation.
    pub instructions: f64,
    /// How often it was entered, for each operation; absent in user mode, where that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
}

/// One call stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackCount {
    /// The functions from the outermost to the innermost, separated by semicolons (folded stacks).
    pub stack: String,
    /// Instructions of the innermost function called in this way, for each operation.
    pub instructions: f64,
}

impl Functions {
    /// What was measured and belongs to no function; below zero where more was counted than measured.
    pub fn remainder(&self) -> f64 {
        self.measured - self.counted
    }

    /// Lines of folded stacks, as tools that draw flame graphs read them: functions separated by semicolons, a blank, and a whole number:
    /// instructions of a thousand operations.
    pub fn folded(&self) -> String {
        let line = |of: &StackCount| format!("{} {:.0}\n", of.stack, of.instructions * 1000.0);
        self.stacks.iter().map(line).collect()
    }
}

/// The functions of two sides compared: two kernels, or two cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionsCompared {
    /// What side A is: its case, or its kernel.
    pub a: String,
    /// What side B is.
    pub b: String,
    /// The unit of A's figures, which is that of B's too.
    pub unit: String,
    /// The sums of all functions of A and of B.
    pub counted: [f64; 2],
    /// Functions whose instructions differ, the one with the largest difference first.
    pub functions: Vec<FunctionChange>,
}

/// One function on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionChange {
    /// Its name, as in [`FunctionCount`].
    pub function: String,
    /// Instructions for each operation of A and of B; zero where it was not executed.
    pub instructions: [f64; 2],
    /// Entries for each operation of A and of B; absent in user mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<[f64; 2]>,
    /// B's instructions less A's.
    pub difference: f64,
}

/// Differences below this many instructions for each operation are left out: windows begin and end somewhere inside a block.
const LEAST_DIFFERENCE: f64 = 0.05;

impl FunctionsCompared {
    /// B compared with A.
    pub fn new([a, b]: [(&str, &Functions); 2]) -> FunctionsCompared {
        let mut both: BTreeMap<&str, FunctionChange> = BTreeMap::new();
        for (side, (_, functions)) in [a, b].into_iter().enumerate() {
            for of in &functions.functions {
                let change = both.entry(&of.function).or_insert_with(|| FunctionChange {
                    function: of.function.clone(),
                    instructions: [0.0; 2],
                    calls: of.calls.map(|_| [0.0; 2]),
                    difference: 0.0,
                });
                change.instructions[side] = of.instructions;
                if let (Some(calls), Some(of)) = (&mut change.calls, of.calls) {
                    calls[side] = of;
                }
            }
        }
        let mut functions: Vec<FunctionChange> = both.into_values().collect();
        functions.iter_mut().for_each(|of| of.difference = of.instructions[1] - of.instructions[0]);
        functions.retain(|of| of.difference.abs() >= LEAST_DIFFERENCE);
        functions.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
        FunctionsCompared {
            a: a.0.into(),
            b: b.0.into(),
            unit: a.1.unit.clone(),
            counted: [a.1.counted, b.1.counted],
            functions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(case: &CaseId, counts: &[(&str, f64, Option<f64>)]) -> Functions {
        let functions = counts.iter().map(|(name, instructions, calls)| FunctionCount {
            function: (*name).into(),
            instructions: *instructions,
            calls: *calls,
        });
        Functions {
            case: case.clone(),
            kernel: Some("host".into()),
            unit: "instructions/roundtrip".into(),
            windows: 1,
            left_out: 1,
            operations: 100,
            measured: 101.0,
            counted: counts.iter().map(|(_, instructions, _)| instructions).sum(),
            functions: functions.collect(),
            stacks: vec![StackCount { stack: "a;b".into(), instructions: 1.5 }],
        }
    }

    #[test]
    fn functions_are_compared_by_name_and_the_largest_difference_is_first() {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let a =
            side(&case, &[("read", 50.0, Some(2.0)), ("same", 30.0, Some(1.0)), ("user: libc", 9.0, None)]);
        let b =
            side(&case, &[("read", 47.0, Some(1.0)), ("same", 30.01, Some(1.0)), ("clear", 20.0, Some(4.0))]);
        let compared = FunctionsCompared::new([("pipe", &a), ("fifo", &b)]);
        let rows: Vec<_> = compared
            .functions
            .iter()
            .map(|of| (of.function.as_str(), of.instructions, of.calls, of.difference))
            .collect();
        assert_eq!(
            rows,
            [
                ("clear", [0.0, 20.0], Some([0.0, 4.0]), 20.0),
                ("user: libc", [9.0, 0.0], None, -9.0),
                ("read", [50.0, 47.0], Some([2.0, 1.0]), -3.0)
            ]
        );
        assert_eq!(compared.counted, [89.0, 97.01]);
        assert_eq!((a.remainder(), a.folded().as_str()), (12.0, "a;b 1500\n"));
    }
}
