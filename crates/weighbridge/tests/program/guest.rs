//! `weighbridge guest`: what it says where something is missing, and one real boot where an emulator and a kernel are installed.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weighbridge_guest::boot::{Ended, Limits, boot};
use weighbridge_guest::job::{self, Job};
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::program;
use weighbridge_guest::qemu::{self, Accel, Machine};
use weighbridge_record::{Functions, Line};

use crate::emulator::Emulator;
use crate::{files, folder, valid_record, weighbridge};

/// A kernel to boot: the one that this variable names, or the newest of /boot.
const KERNEL: &str = "WEIGHBRIDGE_TEST_KERNEL";
/// Our module, built for that kernel.
const MODULE: &str = "WEIGHBRIDGE_TEST_MODULE";

#[test]
fn what_is_missing_is_named_with_what_brings_it() {
    let folder = folder();
    let said = |kernel: &str, path: &str| {
        let output = weighbridge(folder.path())
            .args(["guest", "run", "--kernel", kernel, "roundtrip/mock/1/free"])
            .env("PATH", path)
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let none = said("host", "/nothing");
    assert_eq!(
        none.trim(),
        "error: qemu-system-x86_64 is not installed; `apt-get install qemu-system-x86` brings it"
    );
    let emulator = folder.path().join("bin");
    std::fs::create_dir(&emulator).unwrap();
    std::fs::write(emulator.join("qemu-system-x86_64"), "").unwrap();
    let bin = emulator.display().to_string();
    let missing = said("deb:linux-image-9.9-none", &bin);
    assert!(missing.contains("`apt-get download linux-image-9.9-none` brings it"), "{missing}");
    let no_kernel = said(&bin, &bin);
    assert!(no_kernel.contains("there is no kernel in"), "{no_kernel}");
    assert_eq!(files(folder.path()), ["bin"], "nothing is left behind");
}

#[test]
fn a_mistake_in_a_case_is_told_before_anything_is_booted() {
    let folder = folder();
    let output = weighbridge(folder.path())
        .args(["guest", "run", "--kernel", "host", "roundtrip/pip/1/same-cpu"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("pipe"), "{stderr}");
}

#[test]
fn doctor_names_everything_that_guests_need() {
    let folder = folder();
    let output =
        weighbridge(folder.path()).args(["guest", "doctor"]).env("PATH", "/nothing").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stdout}");
    for word in ["emulator", "apt-get install qemu-system-x86", "host's kernel", "KVM", "linux-headers-amd64"]
    {
        assert!(
            stdout.contains(word) || (word.starts_with("linux-") && stdout.contains("/build")),
            "{word}: {stdout}"
        );
    }
}

#[test]
fn a_kernel_is_booted_and_its_instructions_are_counted() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let output = weighbridge(folder.path())
        .args(["guest", "run", "--runs", "2", "--out", "r.jsonl", "--kernel"])
        .arg(&kernel)
        .args(["roundtrip/pipe/1/same-cpu", "solo/getppid/0/same-cpu"])
        .output()
        .unwrap();
    let (stdout, stderr) = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("instructions/roundtrip"), "{stdout}");
    assert!(!stdout.contains(" ns"), "a unit of time: {stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert!(header.machine.clock.counts_instructions());
    assert_eq!(header.settings["guest.accel"], "icount");
    let median = |mechanism: &str| {
        let of = |line: &Line| match line {
            Line::Summary(summary) if summary.case.mechanism == mechanism => Some(summary.median),
            _ => None,
        };
        lines.iter().find_map(of).unwrap()
    };
    // A system call is hundreds of instructions, a round trip with two switches thousands: not nanoseconds of this machine.
    assert!((100.0..3000.0).contains(&median("getppid")), "{}", median("getppid"));
    assert!((3000.0..100_000.0).contains(&median("pipe")), "{}", median("pipe"));
}

#[test]
fn the_suite_of_round_trips_boots_once_with_every_mechanism_and_shows_its_tables() {
    let folder = folder();
    let does = "cp /proc/self/fd/5 \"$(dirname \"$0\")/image\"; cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000";
    let emulator = Emulator::that(folder.path(), does);
    let mock = ["run", "roundtrip/mock/1/free", "--out", "m.jsonl", "--html", "none", "-q"];
    assert!(weighbridge(folder.path()).args(mock).output().unwrap().status.success());
    emulator.answers(&std::fs::read(folder.path().join("m.jsonl")).unwrap());
    let suite = |name: &str, args: &[&str]| {
        let output = weighbridge(folder.path())
            .args(["guest", "suite", name, "--kernel", &emulator.kernel])
            .args(args)
            .env("PATH", &emulator.path)
            .output()
            .unwrap();
        let texts: [String; 2] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), texts)
    };
    let (code, [stdout, stderr]) = suite("ipc", &["--out", "r.jsonl", "--format", "markdown"]);
    assert_eq!(code, Some(0), "{stderr}");
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
    let (code, [_, stderr]) = suite("net", &["--runs", "3"]);
    assert!(code == Some(2) && stderr.contains("--runs is for the suite ipc"), "{stderr}");
}

#[test]
fn several_cpus_with_counted_instructions_are_warned_of_once_before_the_boot() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "echo Linux >&3");
    let warnings = |args: &[&str]| {
        let output = emulator.boots(args).wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("powered off before it started our program"), "{stderr}");
        let words = "CPUs take turns in one thread of the emulator";
        let warning = stderr.find(words);
        assert!(warning.is_none_or(|at| at < stderr.find("error: ").unwrap()), "{stderr}");
        stderr.matches(words).count()
    };
    assert_eq!(warnings(&["--cpus", "2", "--out", "a.jsonl"]), 1);
    assert_eq!(warnings(&["--cpus", "1", "--out", "b.jsonl"]), 0);
    assert_eq!(warnings(&["--cpus", "2", "--accel", "tcg", "--out", "c.jsonl"]), 0);
}

#[test]
fn what_runs_no_guest_is_tried_once_and_not_before_each_boot() {
    let folder = folder();
    // As an emulator that cannot use /dev/kvm; where there is none it is not even started.
    let does = "case \"$*\" in *kvm*) echo 'no KVM' >&2; exit 1;; esac; cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000";
    let emulator = Emulator::that(folder.path(), does);
    let mock = ["run", "roundtrip/mock/1/free", "--out", "m.jsonl", "--html", "none", "-q", "--alone"];
    assert!(weighbridge(folder.path()).args(mock).output().unwrap().status.success());
    emulator.answers(&std::fs::read(folder.path().join("m.jsonl")).unwrap());
    let output = weighbridge(folder.path())
        .args([
            "guest",
            "compare",
            "--a",
            &emulator.kernel,
            "--b",
            ",append=x",
            "--boots",
            "2",
            "--accel",
            "auto",
        ])
        .args(["--out", "r.jsonl", "roundtrip/mock/1/free"])
        .env("PATH", &emulator.path)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.matches("kvm does not work here").count(), 1, "{stderr}");
    assert_eq!(stderr.matches(", side ").count(), 4, "each boot has an answer: {stderr}");
    assert!(folder.path().join("r.jsonl").exists(), "{stderr}");
}

#[test]
fn packets_in_a_guest_end_where_a_rule_sends_them() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let output = weighbridge(folder.path())
        .args(["guest", "suite", "net", "--out", "r.jsonl", "--format", "markdown", "--kernel"])
        .arg(&kernel)
        .output()
        .unwrap();
    let (stdout, stderr) = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    let lacks = ["were not found", "has no module"].iter().any(|words| stderr.contains(words));
    if lacks {
        println!("skipped: {}", stderr.lines().last().unwrap_or_default());
        return;
    }
    assert!(output.status.success(), "{stderr}");
    assert!(!stdout.contains("| skipped |"), "{stdout}");
    let median = |test: &str| {
        let name = format!("kernel-bench:{test}:packet");
        let of = |line: &Line| match line {
            Line::Summary(summary) if summary.case.mechanism == name => {
                Some((summary.median, summary.unit.clone()))
            }
            _ => None,
        };
        valid_record(folder.path().join("r.jsonl")).lines.iter().find_map(of).unwrap()
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
    let said = |arguments: &[&str]| {
        let output = weighbridge(folder.path())
            .args(["run", "--suite", "kernel-slab"])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&[]).contains("make -C kernel"), "{}", said(&[]));
    std::fs::write(folder.path().join("other.ko"), "").unwrap();
    assert!(said(&["--module", "."]).contains("there is no weighbridge_bench.ko in `.`"));
    std::fs::write(folder.path().join("weighbridge_bench.ko"), "no module").unwrap();
    let refused = said(&["--module", "weighbridge_bench.ko"]);
    assert!(refused.contains("the module weighbridge_bench.ko cannot be loaded: "), "{refused}");
    assert!(said(&["pipe", "--module", "."]).contains("is measured as a whole"));
    let output = weighbridge(folder.path()).args(["plan", "--suite", "kernel-slab"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--dry-run` lists its tests"));
    assert_eq!(files(folder.path()), ["other.ko", "weighbridge_bench.ko"], "nothing is left behind");
}

/// The kernel of a guest is one into which modules may be loaded.
#[test]
fn a_module_is_loaded_and_measured() {
    let Some(kernel) = kernel() else { return };
    let Some(module) = std::env::var_os(MODULE).map(PathBuf::from) else {
        println!("skipped: {MODULE} names no weighbridge_bench.ko that was built for the kernel");
        return;
    };
    let kernel = Kernel::find(&kernel.display().to_string(), Path::new("/nothing")).unwrap();
    let in_guest = job::module_path(&module);
    let words = "run --suite kernel-slab --max-runs 1 --html none --out";
    let mut command: Vec<String> = words.split(' ').map(String::from).collect();
    command.extend([job::RECORD.into(), "--module".into(), in_guest]);
    let job = Job { command, ..Job::default() };
    let program = Path::new(env!("CARGO_BIN_EXE_weighbridge"));
    let image = program::image(program, &job, std::slice::from_ref(&module)).unwrap();
    let machine = Machine {
        kernel,
        append: String::new(),
        cpus: 1,
        memory_mib: 1024,
        accel: Accel::Icount,
        plugin: None,
    };
    let limits = Limits::new(Accel::Icount, Duration::from_secs(600));
    let (stop, _open) = std::io::pipe().unwrap();
    match boot(&qemu::find().unwrap(), &machine, &image, limits, stop.as_fd()).unwrap() {
        Ended::Record { bytes, .. } => {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains("kmalloc-reuse") && text.contains("\"suite\":\"kernel-slab\""), "{text}");
        }
        Ended::Interrupted => panic!("nobody interrupted"),
    }
}

/// Nothing, with the reason printed, where no guest can be booted.
fn kernel() -> Option<PathBuf> {
    let has_emulator = std::env::split_paths(&std::env::var_os("PATH")?)
        .any(|folder| folder.join("qemu-system-x86_64").is_file());
    if !has_emulator {
        println!("skipped: qemu-system-x86_64 is not installed");
        return None;
    }
    if let Some(named) = std::env::var_os(KERNEL) {
        return Some(named.into());
    }
    let in_boot = std::fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = in_boot.filter(|path| is_image(path)).max();
    if newest.is_none() {
        println!("skipped: there is no kernel in /boot; {KERNEL} names another");
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
    let said = |args: &[&str], plugin: Option<&str>| {
        let command =
            weighbridge(folder.path()).args(["guest", "explain"]).args(args).env("PATH", &emulator.path);
        let command = match plugin {
            Some(plugin) => command.env("WEIGHBRIDGE_GUEST_PLUGIN", plugin),
            None => command,
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let kernel = &emulator.kernel[..];
    let pipe = "roundtrip/pipe/1/same-cpu";
    for (args, plugin, words) in [
        (
            &["--kernel", kernel, "roundtrip/*/1/same-cpu"][..],
            None,
            "cases, and one is explained in one boot",
        ),
        (&["--kernel", kernel, "--cpus", "2", pipe], None, "on one CPU and with --accel icount"),
        (&["--kernel", kernel, "--accel", "tcg", pipe], None, "on one CPU and with --accel icount"),
        (&["--kernel", kernel, pipe], Some("/nothing.so"), "WEIGHBRIDGE_GUEST_PLUGIN names `/nothing.so`"),
        (&["--a", kernel, "--b", ",append=x", pipe, pipe], None, "two kernels are compared by one case"),
        (&["--kernel", kernel, "--folded", "emulator/pid/x", pipe], None, "name another file"),
        (&[pipe], None, "--kernel"),
    ] {
        let stderr = said(args, plugin);
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    assert_eq!(files(folder.path()), ["emulator"], "nothing is left behind");
}

#[test]
fn functions_of_a_guest_add_up_to_what_the_benchmark_measures() {
    let Some(kernel) = kernel() else { return };
    let folder = folder();
    let output = weighbridge(folder.path())
        .args(["guest", "explain", "--runs", "1", "--out", "r.jsonl", "--folded", "f", "--html", "r.html"])
        .args(["--deadline", "20m", "--kernel"])
        .arg(&kernel)
        .args(["roundtrip/pipe/1/same-cpu", "roundtrip/unix-stream/1/same-cpu"])
        .output()
        .unwrap();
    let (stdout, stderr) = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert!(output.status.success(), "{stderr}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let functions: Vec<&Functions> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Functions(functions) => Some(&**functions),
            _ => None,
        })
        .collect();
    let [pipe, unix] = functions[..] else { panic!("not one line for each case: {stderr}") };
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
