//! A sender, the reader that it waits for, and the bus stand still together, as in a container that is paused or a machine that is moved: nobody
//! is evicted for that time, everything arrives, and nobody sleeps for ever.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_bus::wire::{Arg, Body};
use causeway_bus::{Connection, ConnectionOptions};

use crate::support::*;

/// How long the sender waits for one that does not read.
const DEADLINE: Duration = Duration::from_millis(2_500);
/// So long all stand still.
const FROZEN: Duration = Duration::from_millis(3_000);
/// The reader rests after so many signals, and the sender waits for it then.
const ROUND: u32 = 2_000;
const ROUNDS: u32 = 2;
const REST: Duration = Duration::from_millis(100);

#[test]
fn role() {
    let Some((role, socket, _)) = play() else { return };
    match role.as_str() {
        "authority" => serve_alone(&socket, 0),
        "sender" => send(&socket),
        "reader" => read(&socket),
        "asker" => ask(&socket),
        other => panic!("{other}"),
    }
}

fn open(socket: &Path) -> Connection {
    let (outbox_bytes, laggard_deadline) = (4096, Some(DEADLINE));
    let options = ConnectionOptions { outbox_bytes, laggard_deadline, ..ConnectionOptions::default() };
    Connection::open_with(socket, options).unwrap()
}

/// Its outbox is full all the time.
fn send(socket: &Path) {
    let mut sender = open(socket);
    for number in 0..ROUND * ROUNDS {
        sender.emit(PATH, INTERFACE, "Count", Body::default().u32(number)).unwrap();
    }
}

/// Says when it reads, and each time that it rests.
fn read(socket: &Path) {
    let mut reader = open(socket);
    reader.add_match(RULE).unwrap();
    println!("\nrest");
    for number in 0..ROUND * ROUNDS {
        assert_eq!(signal(&mut reader).rule_args(), [Arg::U32(number)]);
        if number % ROUND == ROUND / 2 {
            println!("rest");
            std::thread::sleep(REST);
        }
    }
}

/// Prints its thread, and asks the authority for something when it is told to.
fn ask(socket: &Path) {
    let mut member = open(socket);
    println!("\nthread {}", rustix::thread::gettid());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    member.use_descriptor().unwrap();
}

/// All processes of one bus, in one process group.
struct Scene {
    bus: Running,
    sender: Running,
    reader: Running,
    rests: std::io::Lines<BufReader<std::process::ChildStdout>>,
    _folder: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let folder = temp_dir("frozen");
        let socket = folder.path().join("bus");
        let command = |role| -> Command { role_of(module_path!(), role, &socket) };
        let bus = Running::start(command("authority").process_group(0));
        eventually("the bus does not come up", || Connection::open(&socket).is_ok());
        let group = bus.pid() as i32;
        let mut reader = Running::start(command("reader").process_group(group).stdout(Stdio::piped()));
        let mut rests = BufReader::new(reader.0.stdout.take().unwrap()).lines();
        await_rest(&mut rests);
        let sender = Running::start(command("sender").process_group(group));
        Scene { bus, sender, reader, rests, _folder: folder }
    }

    fn processes(&self) -> [u32; 3] {
        [&self.bus, &self.sender, &self.reader].map(Running::pid)
    }

    fn stand_still_now_and_then(mut self, freezer: &Freezer) {
        for _ in 0..ROUNDS {
            await_rest(&mut self.rests);
            freezer.freeze();
            std::thread::sleep(FROZEN);
            freezer.thaw();
        }
        // Both fail if one of them was evicted.
        assert!(self.sender.wait().success() && self.reader.wait().success());
    }
}

fn await_rest(rests: &mut impl Iterator<Item = std::io::Result<String>>) {
    assert!(rests.any(|line| line.unwrap() == "rest"), "the reader has ended");
}

#[test]
fn nobody_is_evicted_for_the_time_in_which_a_process_group_was_stopped() {
    let scene = Scene::new();
    let freezer = Freezer::Signal(scene.bus.pid(), scene.processes().to_vec());
    scene.stand_still_now_and_then(&freezer);
}

#[test]
fn nobody_is_evicted_for_the_time_in_which_a_control_group_was_frozen() {
    let scene = Scene::new();
    match ControlGroup::of(&scene.processes()) {
        Ok(group) => scene.stand_still_now_and_then(&Freezer::ControlGroup(group)),
        Err(why) => skipped(Cause::Rights("control groups"), why),
    }
}

/// One that waits for an answer is stopped with the one that is to give it, and goes on first.
#[test]
fn an_answer_of_the_bus_is_awaited_for_as_long_as_the_one_that_waits_runs() {
    /// Longer than it waits.
    const STOPPED: Duration = Duration::from_millis(5_200);
    let served = Served::start(module_path!());
    let mut command = role_of(module_path!(), "asker", &served.path());
    let mut asker = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(asker.0.stdout.take().unwrap()).lines();
    let thread = lines.find_map(|line| line.unwrap().strip_prefix("thread ")?.parse().ok()).unwrap();
    served.process.stop();
    let sleeps = || proc::status_number(thread, "voluntary_ctxt_switches");
    asker.0.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
    eventually("it does not ask", || awaits_answer(thread));
    asker.stop();
    std::thread::sleep(STOPPED);
    let before = sleeps();
    asker.resume();
    eventually("it does not look again", || sleeps() > before || asker_has_ended(&asker));
    served.process.resume();
    assert!(asker.wait().success(), "it has left the bus");
}

/// Does it wait for a descriptor, as for an answer, and not for a line?
fn awaits_answer(thread: u32) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).unwrap_or_default();
    call.split(' ').next() == Some(&nix::libc::SYS_ppoll.to_string())
}

fn asker_has_ended(asker: &Running) -> bool {
    matches!(proc::state(asker.pid()), None | Some('Z'))
}
