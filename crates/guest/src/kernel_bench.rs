//! The tests of our kernel module (`kernel/`), run one after the other in a guest.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The first argument of this program that makes it run them; the second is the file for the results.
pub const ARGUMENT: &str = "__kernel-bench";

/// Where the module is in the file system.
const FOLDER: &str = "/sys/kernel/debug/weighbridge";
/// The sizes that slab_test went through on one CPU, and on all, in bytes.
pub const SIZES: [u32; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
const SIZES_TOGETHER: u32 = 4096;
const CONTEXTS: [&str; 5] = ["process", "preempt-off", "bh-off", "softirq", "irq-off"];
/// A clock that counts instructions has no noise, so that few batches tell as much as many.
const BATCHES: u32 = 4;
const LOOPS: u32 = 2000;

/// The lines that are written to the module's file `run`: what time_bench, slab_test and qmempool measured.
pub fn plan() -> Vec<String> {
    let mut plan = Vec::new();
    let mut add = |test: &str, settings: &str| {
        plan.push(format!("{test} batches={BATCHES} loops={LOOPS} {settings}").trim_end().to_owned());
    };
    let basics = [
        "noop",
        "call",
        "call-pointer",
        "clock",
        "spin-lock",
        "spin-trylock",
        "spin-lock-bh",
        "spin-lock-irq",
        "spin-lock-irqsave",
        "local-bh",
        "local-irq",
        "local-irqsave",
        "preempt",
        "atomic-inc",
        "cmpxchg",
        "cmpxchg-local",
        "this-cpu-cmpxchg",
        "list",
    ];
    basics.iter().for_each(|test| add(test, ""));
    for context in CONTEXTS {
        add("kmem-cache-reuse", &format!("size=256 context={context}"));
        add("kmem-cache-pattern", &format!("size=256 context={context}"));
        add("pool-reuse", &format!("size=256 context={context}"));
        add("pool-pattern", &format!("size=256 context={context}"));
    }
    for size in SIZES {
        add("kmalloc-pattern", &format!("size={size} count=10000"));
        add("kmalloc-reuse", &format!("size={size}"));
    }
    for bulk in [1, 2, 4, 8, 16, 32, 64, 128, 250] {
        add("kmem-cache-bulk", &format!("size=256 bulk={bulk}"));
    }
    for order in 0..=5 {
        add("page-reuse", &format!("order={order}"));
    }
    add("page-pattern", "");
    for size in SIZES.into_iter().filter(|size| *size <= SIZES_TOGETHER) {
        for test in ["pattern", "reuse", "remote-free", "one-allocates"] {
            add(&format!("together-{test}"), &format!("size={size} count=1000"));
        }
    }
    plan
}

/// Runs the plan and writes what the module handed over, and what it refused.
///
/// # Errors
/// The module is not loaded, or the results cannot be read or written, as a sentence.
pub fn run(results: &Path) -> Result<(), String> {
    let file = |name: &str| Path::new(FOLDER).join(name);
    if !file("run").exists() {
        return Err(format!(
            "there is no {FOLDER}: the module weighbridge_bench is not loaded, or the kernel has no debugfs"
        ));
    }
    let mut failed = String::new();
    for line in plan() {
        if let Err(error) = fs::write(file("run"), &line) {
            let why = match error.raw_os_error() {
                // ENXIO
                Some(6) => "it needs a second CPU".to_owned(),
                _ => error.to_string(),
            };
            let _ = writeln!(failed, "failed {line}: {why}");
        }
    }
    let mut text = fs::read_to_string(file("results"))
        .map_err(|error| format!("the results cannot be read: {error}"))?;
    text += &failed;
    fs::write(results, text).map_err(|error| format!("the results cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_the_tests_that_were_published() {
        let plan = plan();
        for size in SIZES {
            for test in ["kmalloc-pattern", "kmalloc-reuse"] {
                let of_size = format!(" size={size}");
                let found = |line: &&String| {
                    line.starts_with(test)
                        && (line.ends_with(&of_size) || line.contains(&(of_size.clone() + " ")))
                };
                assert_eq!(plan.iter().filter(found).count(), 1, "{test} {size}");
            }
        }
        assert!(plan.iter().any(|line| line.starts_with("pool-reuse") && line.ends_with("context=softirq")));
    }
}
