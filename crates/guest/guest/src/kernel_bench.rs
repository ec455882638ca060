//! The tests of our kernel module (`kernel/`), run one after the other, in a guest or on the kernel that runs here.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The first argument of this program that makes it run them; the second is the file for the results.
pub const ARGUMENT: &str = "__kernel-bench";

/// The module's name in the kernel.
pub const MODULE: &str = "weighbridge_bench";

/// Where the module is in the file system.
const FOLDER: &str = "/sys/kernel/debug/weighbridge";
/// The sizes that slab_test went through on one CPU, and on all, in bytes.
pub const SIZES: [u32; 12] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
const SIZES_TOGETHER: u32 = 4096;
const CONTEXTS: [&str; 5] = ["process", "preempt-off", "bh-off", "softirq", "irq-off"];
/// A clock that counts instructions has no noise, so that few batches tell as much as many.
const COUNTED_BATCHES: u32 = 4;
/// Batches of a test on a kernel with a real clock.
pub const TIMED_BATCHES: u32 = 12;
const LOOPS: u32 = 2000;

/// The lines that are written to the module's file `run`: what time_bench, slab_test and qmempool measured.
pub fn plan(batches: u32) -> Vec<String> {
    let mut plan = Vec::new();
    let mut add = |test: &str, settings: &str| {
        plan.push(format!("{test} batches={batches} loops={LOOPS} {settings}").trim_end().to_owned());
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
        // A process may move to another CPU, unless each operation disables bottom halves.
        let pool = if context == "process" { "pool-bh" } else { "pool" };
        for test in ["kmem-cache", pool] {
            for way in ["reuse", "pattern"] {
                add(&format!("{test}-{way}"), &format!("size=256 context={context}"));
            }
        }
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

/// Runs the plan in a guest and writes what the module handed over, and what it refused.
///
/// # Errors
/// The module is not loaded, or the results cannot be read or written, as a sentence.
pub fn run(results: &Path) -> Result<(), String> {
    let text = round(COUNTED_BATCHES, || false)?.unwrap_or_default();
    fs::write(results, text).map_err(|error| format!("the results cannot be written: {error}"))
}

/// Runs the plan once: what the module handed over, and what it refused. Nothing once `stop` says so, which is asked before each test.
///
/// # Errors
/// The module is not loaded, or the results cannot be read, as a sentence.
pub fn round(batches: u32, stop: impl Fn() -> bool) -> Result<Option<String>, String> {
    let file = |name: &str| Path::new(FOLDER).join(name);
    if !file("run").exists() {
        return Err(format!(
            "there is no {FOLDER}: the module weighbridge_bench is not loaded, or the kernel has no debugfs there, which \
             `mount -t debugfs none /sys/kernel/debug` brings"
        ));
    }
    fs::write(file("run"), "clear").map_err(|error| format!("the module cannot be used: {error}"))?;
    let mut failed = String::new();
    for line in plan(batches) {
        if stop() {
            return Ok(None);
        }
        if let Err(error) = fs::write(file("run"), &line) {
            let why = match error.raw_os_error() {
                // ENXIO
                Some(6) => "it needs a second CPU".to_owned(),
                _ => error.to_string(),
            };
            let _ = writeln!(failed, "failed {line}: {why}");
        }
    }
    let text = fs::read_to_string(file("results"))
        .map_err(|error| format!("the results cannot be read: {error}"))?;
    Ok(Some(text + &failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_the_tests_that_were_published() {
        let plan = plan(4);
        for size in SIZES {
            for test in ["kmalloc-pattern", "kmalloc-reuse"] {
                let setting = format!("size={size}");
                let found =
                    |line: &&String| line.starts_with(test) && line.split(' ').any(|word| word == setting);
                assert_eq!(plan.iter().filter(found).count(), 1, "{test} {size}");
            }
        }
        for (test, context) in
            [("pool-reuse", "softirq"), ("pool-bh-reuse", "process"), ("pool-bh-pattern", "process")]
        {
            let is_it = |line: &String| {
                line.starts_with(&format!("{test} ")) && line.ends_with(&format!("context={context}"))
            };
            assert!(plan.iter().any(is_it), "{test} in {context}");
        }
        let without_protection =
            |line: &String| line.starts_with("pool-reuse ") && line.ends_with("context=process");
        assert!(
            !plan.iter().any(without_protection),
            "a queue of a CPU needs one that its user cannot leave"
        );
    }
}
