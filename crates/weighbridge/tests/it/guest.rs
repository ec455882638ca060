//! `weighbridge guest`: what it says where something is missing, and one real boot where an emulator and a kernel are installed.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_testkit::{Cause, has_program, skipped};
use weighbridge_guest::boot::{Ended, Limits, boot};
use weighbridge_guest::job::{self, Job};
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::program;
use weighbridge_guest::qemu::{self, Accel, Machine};
use weighbridge_record::{Functions, Line};

use crate::emulator::Emulator;
use crate::{Said, all, files, folder, said, valid_record, weighbridge};

/// A kernel to boot: the one that this variable names, or the newest of /boot.
const KERNEL: &str = "WEIGHBRIDGE_TEST_KERNEL";
/// Our module, built for that kernel.
const MODULE: &str = "WEIGHBRIDGE_TEST_MODULE";

#[test]
fn what_is_missing_is_named_with_what_brings_it() {
    let folder = folder();
    let told = |kernel: &str, path: &str| {
        let command =
            weighbridge(folder.path()).args(["guest", "run", "--kernel", kernel, "roundtrip/mock/1/free"]);
        let cache = folder.path().join("cache");
        Said::by(command.env("PATH", path).env("XDG_CACHE_HOME", cache)).with(3).stderr
    };
    let none = "error: qemu-system-x86_64 is not installed; `apt-get install qemu-system-x86` brings it";
    assert_eq!(told("host", "/nothing").trim(), none);
    let emulator = folder.path().join("bin");
    std::fs::create_dir(&emulator).unwrap();
    std::fs::write(emulator.join("qemu-system-x86_64"), "").unwrap();
    let bin = emulator.display().to_string();
    let missing = told("deb:linux-image-9.9-none", &bin);
    assert!(missing.contains("`apt-get download linux-image-9.9-none` brings it"), "{missing}");
    let no_kernel = told(&bin, &bin);
    assert!(no_kernel.contains("there is no kernel in"), "{no_kernel}");
    assert_eq!(files(folder.path()), ["bin"], "nothing is left behind");
}

#[test]
fn a_mistake_in_a_case_is_told_before_anything_is_booted() {
    let said = said(folder().path(), "guest run --kernel host roundtrip/pip/1/same-cpu").with(2);
    assert!(said.stderr.contains("pipe"), "{}", said.stderr);
}

#[test]
fn doctor_names_everything_that_guests_need() {
    let folder = folder();
    let command = weighbridge(folder.path()).args(["guest", "doctor"]).env("PATH", "/nothing");
    let stdout = Said::by(command).with(3).stdout;
    for word in ["emulator", "apt-get install qemu-system-x86", "host's kernel", "KVM", "kernel headers"] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
}

#[test]
fn a_kernel_is_booted_and_its_instructions_are_counted() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let cases = "roundtrip/pipe/1/same-cpu solo/getppid/0/same-cpu";
    let words = format!("guest run --runs 2 --out r.jsonl --kernel {} {cases}", kernel.display());
    let stdout = said(folder.path(), &words).with(0).stdout;
    assert!(stdout.contains("instructions/roundtrip"), "{stdout}");
    assert!(!stdout.contains(" ns"), "a unit of time: {stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert!(header.machine.clock.counts_instructions());
    assert_eq!(header.settings["guest.accel"], "icount");
    let summaries = all!(lines, Summary);
    let median = |mechanism: &str| summaries.iter().find(|of| of.case.mechanism == mechanism).unwrap().median;
    // A system call is hundreds of instructions, a round trip with two switches thousands: not nanoseconds of this machine.
    assert!((100.0..3000.0).contains(&median("getppid")), "{}", median("getppid"));
    assert!((3000.0..100_000.0).contains(&median("pipe")), "{}", median("pipe"));
}

#[test]
fn the_suite_of_round_trips_boots_once_with_every_mechanism_and_shows_its_tables() {
    let folder = folder();
    let does = "cp /proc/self/fd/5 \"$(dirname \"$0\")/image\"; cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000";
    let emulator = Emulator::that(folder.path(), does);
    emulator.answers_with_a_record();
    let suite = |words: &str| {
        let command = weighbridge(folder.path()).args(["guest", "suite", "--kernel", &emulator.kernel]);
        Said::by(command.args(words.split(' ')).env("PATH", &emulator.path))
    };
    let stdout = suite("ipc --out r.jsonl --format markdown").with(0).stdout;
    assert!(stdout.contains("Round trips on one CPU") && stdout.contains("| mock | 1000 |"), "{stdout}");
    assert!(stdout.contains("instructions per round trip") && stdout.contains("kdbus, memfd"), "{stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert_eq!(header.settings["suite"], "kernel-ipc");
    let image = std::fs::read(folder.path().join("emulator/image")).unwrap();
    for case in ["roundtrip/mq-posix/4096/same-cpu", "roundtrip/pipe/1/same-cpu/wait=poll"] {
        let is_asked = image.windows(case.len()).any(|bytes| bytes == case.as_bytes());
        assert!(is_asked, "the guest is not asked for {case}");
    }
    let stderr = suite("net --runs 3").with(2).stderr;
    assert!(stderr.contains("--runs is for the suite ipc"), "{stderr}");
}

#[test]
fn two_kernels_are_compared_by_the_tables_of_a_suite_and_too_few_boots_are_warned_of() {
    let folder = folder();
    let does = "cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000";
    let emulator = Emulator::that(folder.path(), does);
    let tests = "test kmem-cache-reuse size=256\nsample op 10 2820\nend\ntest list\nsample op 10 60\nend\n";
    emulator.answers(format!("weighbridge-bench 1\nkernel 6.1.0\n{tests}").as_bytes());
    std::fs::write(folder.path().join("weighbridge_bench.ko"), "a module").unwrap();
    let compare = |words: &str| {
        let command = weighbridge(folder.path()).args(["guest", "compare", "--a", &emulator.kernel]);
        let words = format!("--suite slab --b ,append=x --rounds 2 {words}");
        Said::by(command.args(words.split(' ')).env("PATH", &emulator.path))
    };
    assert!(compare("--out r.jsonl").with(3).stderr.contains("the suite slab needs our module"));
    for format in ["table", "markdown"] {
        let said = compare(&format!("--module . --format {format} --out {format}.jsonl"));
        let shown = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ").replace("| ", "");
        let row = "kmem fastpath reuse 18.599 17.523 −1.076 282.0 282.0 0.0 instructions/op";
        assert!(shown.contains(row), "{row}: {} {}", said.stdout, said.stderr);
        assert!(shown.contains("list: op"), "{shown}");
        assert!(!said.stdout.contains("imported/"), "a raw id: {}", said.stdout);
        assert!(said.stderr.contains("2 boots a side"), "{}", said.stderr);
    }
    let lines = valid_record(folder.path().join("table.jsonl")).lines;
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert_eq!(header.settings["suite"], "kernel-slab");
    assert!(header.machine.cpu_model.contains("emulated by qemu"), "{}", header.machine.cpu_model);
}

#[test]
fn several_cpus_with_counted_instructions_are_warned_of_once_before_the_boot() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "echo Linux >&3");
    let warnings = |words: &str| {
        let (stderr, _) = emulator.says(words);
        assert!(stderr.contains("powered off before it started our program"), "{stderr}");
        let words = "CPUs take turns in one thread of the emulator";
        let warning = stderr.find(words);
        assert!(warning.is_none_or(|at| at < stderr.find("error: ").unwrap()), "{stderr}");
        stderr.matches(words).count()
    };
    assert_eq!(warnings("--cpus 2 --out a.jsonl"), 1);
    assert_eq!(warnings("--cpus 1 --out b.jsonl"), 0);
    assert_eq!(warnings("--cpus 2 --accel tcg --out c.jsonl"), 0);
}

#[test]
fn what_runs_no_guest_is_tried_once_and_not_before_each_boot() {
    let folder = folder();
    // As an emulator that cannot use /dev/kvm; where there is none it is not even started.
    let does = "case \"$*\" in *kvm*) echo 'no KVM' >&2; exit 1;; esac; cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000";
    let emulator = Emulator::that(folder.path(), does);
    emulator.answers_with_a_record();
    let words = "--b ,append=x --rounds 2 --accel auto --out r.jsonl roundtrip/mock/1/free";
    let command = weighbridge(folder.path()).args(["guest", "compare", "--a", &emulator.kernel]);
    let stderr = Said::by(command.args(words.split(' ')).env("PATH", &emulator.path)).stderr;
    assert_eq!(stderr.matches("kvm does not work here").count(), 1, "{stderr}");
    assert_eq!(stderr.matches(", side ").count(), 4, "each boot has an answer: {stderr}");
    assert!(folder.path().join("r.jsonl").exists(), "{stderr}");
}

#[test]
fn packets_in_a_guest_end_where_a_rule_sends_them() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let words = format!("guest suite net --out r.jsonl --format markdown --kernel {}", kernel.display());
    let said = said(folder.path(), &words);
    if ["were not found", "has no module"].iter().any(|words| said.stderr.contains(words)) {
        return skipped(Cause::Missing("iptables"), said.stderr.lines().last().unwrap_or_default());
    }
    let stdout = said.with(0).stdout;
    assert!(!stdout.contains("| skipped |"), "{stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let median = |test: &str| {
        let name = format!("kernel-bench:{test}:packet");
        let of = all!(lines, Summary).into_iter().find(|of| of.case.mechanism == name).unwrap();
        (of.median, of.unit.clone())
    };
    assert_eq!(median("veth").1, "instructions/packet");
    // A rule costs something, and a packet that is dropped there costs less than one that goes on.
    for filter in ["nftables", "iptables"] {
        let of = |way: &str| median(&format!("{filter}-{way}")).0;
        assert!(median("veth").0 < of("drop") && of("drop") < of("accept"), "{stdout}");
        assert!(median("accept").0 < of("accept") && median("forward").0 < of("forward"), "{stdout}");
    }
}

#[test]
fn what_the_suite_of_the_kernels_allocator_needs_is_named() {
    let folder = folder();
    let told = |words: &str| said(folder.path(), &format!("run --suite kernel-slab {words}")).fails().stderr;
    assert!(told("").contains("make -C kernel"), "{}", told(""));
    std::fs::write(folder.path().join("other.ko"), "").unwrap();
    assert!(told("--module .").contains("there is no weighbridge_bench.ko in `.`"));
    std::fs::write(folder.path().join("weighbridge_bench.ko"), "no module").unwrap();
    let refused = told("--module weighbridge_bench.ko");
    assert!(refused.contains("the module weighbridge_bench.ko cannot be loaded: "), "{refused}");
    assert!(told("pipe --module .").contains("is measured as a whole"));
    let planned = said(folder.path(), "plan --suite kernel-slab").stderr;
    assert!(planned.contains("--dry-run` lists its tests"), "{planned}");
    assert_eq!(files(folder.path()), ["other.ko", "weighbridge_bench.ko"], "nothing is left behind");
}

/// The kernel of a guest is one into which modules may be loaded.
#[test]
fn a_module_is_loaded_and_measured() {
    let Some(kernel) = kernel() else { return };
    let Some(module) = std::env::var_os(MODULE).map(PathBuf::from) else {
        return skipped(Cause::Setting(MODULE), "names a weighbridge_bench.ko for the kernel");
    };
    let kernel = Kernel::find(&kernel.display().to_string(), Path::new("/nothing")).unwrap();
    let in_guest = job::module_path(&module);
    let words = "run --suite kernel-slab --runs 1 --html none --out";
    let mut command: Vec<String> = words.split(' ').map(String::from).collect();
    command.extend([job::RECORD.into(), "--module".into(), in_guest]);
    let job = Job { command, ..Job::default() };
    let program = Path::new(env!("CARGO_BIN_EXE_weighbridge"));
    let image = program::image(program, &job, std::slice::from_ref(&module)).unwrap();
    let (append, accel) = (String::new(), Accel::Icount);
    let machine = Machine { kernel, append, cpus: 1, memory_mib: 1024, accel, plugin: None };
    let limits = Limits::new(accel, Duration::from_secs(600));
    let (stop, _open) = std::io::pipe().unwrap();
    let ended = boot(&qemu::find().unwrap(), &machine, &image, limits, stop.as_fd()).unwrap();
    let Ended::Record { bytes, .. } = ended else { panic!("nobody interrupted") };
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("kmalloc-reuse") && text.contains("\"suite\":\"kernel-slab\""), "{text}");
}

/// Nothing, with the reason printed, where no guest can be booted.
fn kernel() -> Option<PathBuf> {
    if !has_program("qemu-system-x86_64") {
        return None;
    }
    if let Some(named) = std::env::var_os(KERNEL) {
        return Some(named.into());
    }
    let in_boot = std::fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = in_boot.filter(|path| is_image(path)).max();
    if newest.is_none() {
        skipped(Cause::Missing("vmlinuz"), format!("no kernel in /boot; {KERNEL} names another"));
    }
    newest
}

fn is_image(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        && path.metadata().is_ok()
}

#[test]
fn what_cannot_be_explained_is_told_before_a_boot() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "echo Linux >&3");
    let kernel = &emulator.kernel[..];
    let pipe = "roundtrip/pipe/1/same-cpu";
    let elsewhere = "on one CPU and with --accel icount";
    for (words, plugin, why) in [
        (format!("--kernel {kernel} roundtrip/*/1/same-cpu"), "", "cases, and one is explained in one boot"),
        (format!("--kernel {kernel} --cpus 2 {pipe}"), "", elsewhere),
        (format!("--kernel {kernel} --accel tcg {pipe}"), "", elsewhere),
        (format!("--kernel {kernel} {pipe}"), "/nothing.so", "WEIGHBRIDGE_GUEST_PLUGIN names `/nothing.so`"),
        (format!("--a {kernel} --b ,append=x {pipe} {pipe}"), "", "two kernels are compared by one case"),
        (format!("--kernel {kernel} --folded emulator/pid/x {pipe}"), "", "name another file"),
        (pipe.to_owned(), "", "--kernel"),
    ] {
        let mut command = weighbridge(folder.path()).args(["guest", "explain"]).args(words.split(' '));
        if !plugin.is_empty() {
            command = command.env("WEIGHBRIDGE_GUEST_PLUGIN", plugin);
        }
        let stderr = Said::by(command.env("PATH", &emulator.path)).fails().stderr;
        assert!(stderr.contains(why), "{words}: {stderr}");
    }
    assert_eq!(files(folder.path()), ["emulator"], "nothing is left behind");
}

#[test]
fn functions_of_a_guest_add_up_to_what_the_benchmark_measures() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let cases = "roundtrip/pipe/1/same-cpu roundtrip/unix-stream/1/same-cpu";
    let words = "guest explain --runs 1 --out r.jsonl --folded f --html r.html --timeout 20m";
    let stdout =
        said(folder.path(), &format!("{words} --kernel {} {cases}", kernel.display())).with(0).stdout;
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let [pipe, unix] = all!(lines, Functions)[..] else { panic!("not one line for each case: {stdout}") };
    let calls = |of: &Functions, name: &str| {
        let found = of.functions.iter().find(|of| of.function == name);
        found.and_then(|of| of.calls).unwrap_or_default()
    };
    for of in [pipe, unix] {
        assert!(of.operations > 100 && of.windows > of.left_out, "{} in {}", of.operations, of.windows);
        assert!(of.remainder().abs() < of.measured * 0.02, "{} and {}", of.counted, of.measured);
        for sum in [
            of.functions.iter().map(|of| of.instructions).sum::<f64>(),
            of.stacks.iter().map(|of| of.instructions).sum::<f64>(),
        ] {
            assert!((sum / of.counted - 1.0).abs() < 1e-9, "{sum} and {}", of.counted);
        }
        // Two processes, each of which reads, writes and gives up the CPU once. A timer may have its turn too.
        for (name, times) in [("ksys_read", 2.0), ("ksys_write", 2.0), ("__switch_to", 2.0)] {
            assert!((calls(of, name) - times).abs() < 0.1, "{name}: {}", calls(of, name));
        }
        assert!(of.functions.iter().any(|of| of.function == "user: weighbridge"), "user mode has a row");
    }
    assert!((calls(pipe, "pipe_write") - 2.0).abs() < 0.1 && calls(unix, "pipe_write") < 0.1);
    // Below the entry of the kernel, through a switch to the other process and back.
    let reads = "do_syscall_64;ksys_read;vfs_read;pipe_read;schedule;__schedule";
    for (file, path) in [("f", reads), ("f.b", "ksys_write;vfs_write;sock_write_iter")] {
        let folded = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(folded.lines().any(|line| line.contains(path)), "no {path} in {file}");
    }
    let grew = |line: &Line| matches!(line, Line::FunctionsCompared(of) if of.functions.iter().any(|of| of.function == "unix_stream_sendmsg" && of.difference > 100.0));
    assert!(lines.iter().any(grew), "{stdout}");
    assert!(stdout.contains("unix_stream_sendmsg") && stdout.contains("remainder"), "{stdout}");
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    assert_eq!(page.matches("<svg class=\"flame\"").count(), 2, "a flame graph for each case");
}
