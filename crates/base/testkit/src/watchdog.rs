//! A watchdog in each test program. A test that runs longer than [`limit`] is ended with its whole program: the state, the system call and the
//! stack of each thread are printed, and every process that the program started is killed.
//!
//! The attribute `#[test]` of this crate starts a [`Test`] for as long as its function runs. Processes are found as descendants, and by
//! [`RUN`] in their environment, because a process whose parent has ended is nobody's descendant. A process with the mark of another one, such
//! as a role, has no watchdog: its test answers for it. A worker of a fuzz target has one, for a hanging input has to be reported.
//!
//! # Safety
//! The environment is changed before `main`, while there is one thread. The stack of a thread of this process is taken by a signal handler,
//! which allocates and needs the ordinary stack (an alternate one is too small): it may wait for a lock that the interrupted code holds. That is
//! why the watchdog waits for it two seconds and then goes on; the process ends in either case.
#![allow(unsafe_code)]

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use syscalls::Sysno;

use crate::{guardian, proc};

/// The variable with the limit in seconds.
pub const LIMIT: &str = "CAUSEWAY_TEST_LIMIT_S";

/// How long a test may take without that variable.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// The variable by which processes of one run of a test program know each other.
pub const RUN: &str = "CAUSEWAY_TEST_RUN";

/// The exit status of a test program that the watchdog has ended.
pub const EXIT_STATUS: i32 = 124;

const STACK_LIMIT: Duration = Duration::from_secs(2);

/// The variable with the file of a worker of a fuzz target.
pub(crate) const WORKER: &str = "CAUSEWAY_FUZZ_WORKER";

/// How much longer a test may take that compiles programs.
pub const COMPILING: Duration = Duration::from_secs(600);

/// How much longer a test may take for each process that it stops or kills after some instructions.
pub const TRACING: Duration = Duration::from_secs(3);

struct Running {
    number: u64,
    name: String,
    start: Instant,
    limit: Duration,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

thread_local! {
    /// Number and name of the test of this thread.
    static CURRENT: RefCell<Option<(u64, String)>> = const { RefCell::new(None) };
}

fn running() -> MutexGuard<'static, Vec<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a test of this process may take.
///
/// # Panics
/// The variable [`LIMIT`] is not a whole number of seconds above 0.
pub fn limit() -> Duration {
    match env::var(LIMIT) {
        Ok(text) => match text.parse::<NonZeroU64>() {
            Ok(seconds) => Duration::from_secs(seconds.get()),
            Err(_) => panic!("{LIMIT}={text}: must be a whole number of seconds above 0 (for example 120)"),
        },
        Err(_) => DEFAULT_LIMIT,
    }
}

/// The test that this thread runs, as `package module::test`; else the name of the thread.
pub fn current_test() -> String {
    let current = CURRENT.with_borrow(|current| current.as_ref().map(|(_, name)| name.clone()));
    current.unwrap_or_else(|| thread::current().name().unwrap_or("a thread without a name").to_owned())
}

/// Gives the test of this thread more time.
pub fn extend_limit(more: Duration) {
    change_current(|test| test.limit += more);
}

/// Gives the test of this thread its whole time again: each of its parts has so much.
pub fn restart() {
    change_current(|test| test.start = Instant::now());
}

fn change_current(change: impl FnOnce(&mut Running)) {
    let current = CURRENT.with_borrow(|current| current.as_ref().map(|(number, _)| *number));
    let mut running = running();
    if let Some(test) = running.iter_mut().find(|test| Some(test.number) == current) {
        change(test);
    }
}

/// A test that runs.
#[derive(Debug)]
pub struct Test {
    number: u64,
    process: u32,
}

impl Test {
    /// Starts to watch the test `name` of `module` in `package`, until the result is dropped.
    pub fn start(package: &str, module: &str, name: &str) -> Test {
        static WATCHDOG: Once = Once::new();
        let limit = limit();
        // Miri reports each thread that `main` leaves.
        if !cfg!(miri) && (own_mark().is_some() || env::var_os(WORKER).is_some()) {
            WATCHDOG.call_once(|| {
                thread::Builder::new()
                    .name("watchdog".into())
                    .spawn(move || watch(limit))
                    .expect("the watchdog starts");
            });
        }
        let module = module.split_once("::").map(|(_, module)| format!("{module}::")).unwrap_or_default();
        let name = format!("{package} {module}{name}");
        let mut running = running();
        let number = running.last().map_or(0, |last| last.number + 1);
        CURRENT.set(Some((number, name.clone())));
        running.push(Running { number, name, start: Instant::now(), limit });
        Test { number, process: process::id() }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        // A forked child has no watchdog, and perhaps a lock that nobody will release.
        if self.process != process::id() {
            return;
        }
        CURRENT.take();
        running().retain(|test| test.number != self.number);
    }
}

/// Sleeps until the next test may take no longer: tests count what their processes do, and this thread is in each of them.
fn watch(limit: Duration) -> ! {
    loop {
        let left = |test: &Running| test.limit.saturating_sub(test.start.elapsed());
        let hung =
            running().iter().find(|test| left(test).is_zero()).map(|test| (test.name.clone(), test.start));
        if let Some((name, start)) = hung {
            end(&name, start.elapsed());
        }
        let next = running().iter().map(left).min();
        // One that starts meanwhile has at least this much time.
        thread::sleep(next.unwrap_or(limit).min(limit));
    }
}

/// Prints the report and ends all processes of this run.
fn end(test: &str, elapsed: Duration) -> ! {
    print(&format!(
        "\nwatchdog: {test} still runs after {:.0} s ({LIMIT} sets the limit)\n",
        elapsed.as_secs_f64()
    ));
    // A thread that stands still for its stack may have a lock that is needed here: then this signal ends the process.
    // SAFETY: the timer and the default action of the signal are this process's, which has no use for them afterwards.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(60);
    }
    let processes = processes();
    print(&describe(process::id()));
    print_own_stacks();
    for process in &processes {
        print(&describe(*process));
    }
    print(&format!(
        "watchdog: killed {} processes that the test program started\n",
        kill_all(self::processes)
    ));
    // Destructors and exit handlers may wait for what hangs.
    // SAFETY: ends the process, which has no use for it afterwards.
    unsafe { libc::_exit(EXIT_STATUS) }
}

/// Prints past the test harness, which shows the output of a failed test only. Gives up where nobody reads.
pub(crate) fn print(text: &str) {
    let error = rustix::stdio::stderr();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&error, PollFlags::OUT)], Some(&limit));
        // A pipe takes at least this much without waiting when it is ready.
        let part = &rest[..rest.len().min(4096)];
        match ready
            .and_then(|ready| if ready == 0 { Err(Errno::TIMEDOUT) } else { rustix::io::write(error, part) })
        {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The mark of the run that began with this process; absent in a process that another run has started.
fn own_mark() -> Option<String> {
    env::var(RUN).ok().filter(|mark| mark.starts_with(&format!("{}-", process::id())))
}

/// The numbers of all processes.
fn numbers() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All living processes that a test program has marked with this value of [`RUN`].
pub(crate) fn marked(mark: &str) -> BTreeSet<u32> {
    let mark = format!("{RUN}={mark}");
    let is_marked = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    numbers().into_iter().filter(is_marked).filter(|process| is_alive(*process)).collect()
}

fn is_alive(process: u32) -> bool {
    proc::state(process).is_some_and(|state| state != 'Z')
}

/// All other living processes of this run: descendants, and those with its mark.
fn processes() -> BTreeSet<u32> {
    let own = process::id();
    let mut found = own_mark().map(|mark| marked(&mark)).unwrap_or_default();
    let parents: Vec<(u32, u32)> =
        numbers().into_iter().filter_map(|process| Some((process, proc::parent(process)?))).collect();
    found.insert(own);
    loop {
        let before = found.len();
        let children = parents.iter().filter(|(_, parent)| found.contains(parent)).map(|(child, _)| *child);
        let children: Vec<u32> = children.collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    found.remove(&own);
    found.retain(|process| is_alive(*process));
    found
}

/// Kills the processes that `find` finds, and looks again for those that they start meanwhile. Returns how many were killed.
pub(crate) fn kill_all(find: impl Fn() -> BTreeSet<u32>) -> usize {
    let mut killed = BTreeSet::new();
    // The attempts are limited, because a process may fork faster than the watchdog kills.
    for _ in 0..20 {
        let found = find();
        if found.is_empty() {
            break;
        }
        for process in found {
            if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            killed.insert(process);
        }
        thread::sleep(Duration::from_millis(10));
    }
    killed.len()
}

/// A process and its threads as the kernel describes them.
pub fn describe(process: u32) -> String {
    let mut text = format!("process {process}: {}\n", proc::command_line(process).join(" "));
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let read =
            |file: &str| fs::read_to_string(thread.path().join(file)).map(|text| text.trim_end().to_owned());
        let number = thread.file_name().to_string_lossy().into_owned();
        let name = read("comm").unwrap_or_default();
        let state = number.parse().ok().and_then(|thread| proc::thread_state(process, thread)).unwrap_or('?');
        let call = read("syscall")
            .map_or_else(|error| format!("system call unknown: {error}"), |call| system_call(&call));
        let waits = read("wchan").ok().filter(|place| !place.is_empty() && place != "0");
        let waits = waits.map(|place| format!(", in {place}")).unwrap_or_default();
        let _ = writeln!(text, "  thread {number} {name}: state {state}, {call}{waits}");
        // Only root may read it.
        for line in read("stack").unwrap_or_default().lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// A line of `/proc/PID/syscall`, with the name of the call.
fn system_call(line: &str) -> String {
    let (number, rest) = line.split_once(' ').unwrap_or((line, ""));
    let name = number.parse().ok().and_then(Sysno::new).map(|call| call.name());
    name.map_or_else(|| line.to_owned(), |name| format!("{name}({rest})"))
}

/// Which thread is to print its stack, and 0 once it has.
static STACK_OF: AtomicU32 = AtomicU32::new(0);

extern "C" fn print_stack(_signal: libc::c_int) {
    let stack = Backtrace::force_capture().to_string();
    // The rest is the test harness.
    print(stack.split("__rust_begin_short_backtrace").next().unwrap_or_default());
    print("\n");
    // PAIR watchdog-stack: Acquire in `print_own_stacks`
    STACK_OF.store(0, Ordering::Release);
    // Tests that went on would report the end of the processes that are killed now.
    loop {
        thread::park();
    }
}

fn print_own_stacks() {
    let signal = libc::SIGRTMAX() - 1;
    // SAFETY: the action is complete, and the handler has the signature of one without SA_SIGINFO.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = print_stack as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if installed != 0 {
        return;
    }
    let own = rustix::thread::gettid().as_raw_pid().cast_unsigned();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads: Vec<u32> = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    for thread in threads.into_iter().filter(|thread| *thread != own) {
        STACK_OF.store(thread, Ordering::Relaxed);
        print(&format!("stack of thread {thread}:\n"));
        // SAFETY: a signal with a handler, to a thread of this process or to none.
        unsafe { libc::syscall(libc::SYS_tgkill, process::id(), thread, signal) };
        let start = Instant::now();
        // PAIR watchdog-stack: Release in `print_stack`
        while STACK_OF.load(Ordering::Acquire) != 0 {
            if start.elapsed() > STACK_LIMIT {
                print("  it does not answer a signal\n");
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Marks this process for those that it starts, before `main`. Miri lets it start none and read no file.
#[used]
// SAFETY: the C library calls each function of this section once, before `main`.
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static MARK: extern "C" fn() = mark;

extern "C" fn mark() {
    // Miri has no processes.
    if env::var_os(RUN).is_some() || cfg!(miri) {
        return;
    }
    // A process number alone begins anew.
    let start = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let start = start.split(' ').next().unwrap_or_default();
    let mark = format!("{}-{start}", process::id());
    guardian::start(&mark);
    // SAFETY: no other thread exists yet.
    unsafe { env::set_var(RUN, mark) };
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::{Running, eventually, rerun};

    const HANG: &str = "TESTKIT_HANG";

    /// Not watched until its processes are there.
    #[::core::prelude::v1::test]
    fn hangs() {
        let Some(file) = env::var_os(HANG) else { return };
        // One child, and one whose parent has ended.
        let child = Running::start(Command::new("sleep").arg("1000"));
        let shell = Command::new("sh").args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]).output().unwrap();
        let orphan = String::from_utf8(shell.stdout).unwrap();
        fs::write(file, format!("{} {}", child.pid(), orphan.trim())).unwrap();
        let _test = Test::start("causeway-testkit", module_path!(), "hangs");
        extend_limit(Duration::from_secs(1));
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        receiver.recv().unwrap();
    }

    #[test]
    fn hanging_test_is_reported_and_its_processes_are_gone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut hanging = rerun(module_path!(), "hangs");
        // A run of its own, not a process of this one.
        hanging.env_remove(RUN).env(HANG, file.path()).env(LIMIT, "1").stdin(Stdio::null());
        let output = hanging.output().unwrap();
        let report = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(EXIT_STATUS), "{report}");
        for expected in [
            "causeway-testkit watchdog::tests::hangs still runs after",
            "futex",
            "sleep 1000",
            "recv",
            "killed 2",
        ] {
            assert!(report.contains(expected), "{expected} is missing: {report}");
        }
        assert!(!report.contains("still runs after 1 s"), "it had a second more: {report}");
        let started = fs::read_to_string(file.path()).unwrap();
        for process in started.split(' ') {
            eventually("both processes are gone", || proc::state(process.parse().unwrap()).is_none());
        }
    }

    #[test]
    fn running_test_has_a_name() {
        assert_eq!(current_test(), "causeway-testkit watchdog::tests::running_test_has_a_name");
        assert!(thread::spawn(current_test).join().unwrap().contains("thread"));
    }
}
