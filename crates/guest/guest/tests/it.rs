//! How a boot ends, with programs in the place of the emulator that do what guests and emulators do.

#[macro_use]
extern crate causeway_testkit;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_testkit::{PATIENCE as LONG, TempDir, proc, temp_dir};
use rustix::pipe::pipe;
use weighbridge_guest::Error;
use weighbridge_guest::boot::{Ended, Limits, boot};
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::port::{self, Answer};
use weighbridge_guest::qemu::{Accel, Machine};

/// For those that are to be ended.
const SHORT: Duration = Duration::from_millis(600);

struct Emulator {
    folder: TempDir,
}

impl Emulator {
    /// A script; its descriptors 3, 4 and 5 are the console, the answering port, and the initramfs.
    fn that(does: &str) -> Emulator {
        let folder = temp_dir("guest");
        let script = format!("#!/bin/sh\necho $$ > {}/pid\n{does}\n", folder.path().display());
        fs::write(folder.path().join("qemu"), script).unwrap();
        fs::set_permissions(folder.path().join("qemu"), fs::Permissions::from_mode(0o755)).unwrap();
        Emulator { folder }
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn boot(&self, answer: Duration) -> Result<Ended, Error> {
        let (stop, _open) = pipe().unwrap();
        self.boot_until(answer, &stop)
    }

    fn boot_until(&self, answer: Duration, stop: &OwnedFd) -> Result<Ended, Error> {
        let limits = Limits::new(Accel::Icount, answer);
        let ended = boot(&self.folder.path().join("qemu"), &machine(), b"initramfs", limits, stop.as_fd());
        self.is_gone();
        ended
    }

    /// Nothing is left of the emulator, not even a zombie.
    fn is_gone(&self) {
        // One that was ended at once may not have come to say who it is.
        let said = fs::read_to_string(self.folder.path().join("pid")).unwrap_or_default();
        let Ok(pid) = said.trim().parse() else { return };
        assert_ne!(proc::parent(pid), Some(std::process::id()));
    }
}

/// A machine whose kernel no script reads.
fn machine() -> Machine {
    let kernel = Kernel { name: "k".into(), image: "/k".into(), ..Kernel::default() };
    Machine { kernel, append: String::new(), cpus: 1, memory_mib: 64, accel: Accel::Icount, plugin: None }
}

fn why(ended: Result<Ended, Error>) -> String {
    ended.unwrap_err().to_string()
}

#[test]
fn a_record_arrives_whole_and_the_emulator_is_ended() {
    // Larger than a pipe holds.
    let record: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let emulator = Emulator::that("cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000");
    let mut sent = port::up().into_bytes();
    sent.extend(port::write(&Answer::Record(record.clone())));
    emulator.file("answer", &sent);
    match emulator.boot(LONG).unwrap() {
        Ended::Record { bytes, up, answer, .. } => {
            assert_eq!(bytes, record);
            assert!(up <= answer);
        }
        Ended::Interrupted => panic!("nobody interrupted"),
    }
}

#[test]
fn the_guest_finds_its_initramfs() {
    let emulator = Emulator::that("cp /proc/self/fd/5 \"$(dirname \"$0\")/found\"");
    assert!(why(emulator.boot(LONG)).contains("restarted or powered off before it started our program"));
    assert_eq!(fs::read(emulator.folder.path().join("found")).unwrap(), b"initramfs");
}

#[test]
fn a_panic_is_told_with_the_lines_before_it() {
    let emulator = Emulator::that(
        "echo 'cannot open library' >&3; echo '[ 1.0] Kernel panic - not syncing: Attempted to kill init!' >&3; echo RIP >&3",
    );
    let error = emulator.boot(LONG).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the guest with kernel `k` ended: the kernel panicked: Attempted to kill init!"
    );
    assert_eq!(error.console[0], "cannot open library");
    assert_eq!(error.console.len(), 2, "{:?}", error.console);
}

#[test]
fn a_guest_that_hangs_is_ended_and_how_far_it_came_is_told() {
    let silent = why(Emulator::that("exec sleep 1000").boot(SHORT));
    assert!(
        silent.contains("nothing to its console") && silent.contains("CONFIG_SERIAL_8250_CONSOLE"),
        "{silent}"
    );
    let began = Instant::now();
    let booting = why(Emulator::that("echo Linux >&3; exec sleep 1000").boot(SHORT * 4));
    assert!(booting.contains("did not start our program within 2 s"), "{booting}");
    assert!(began.elapsed() < LONG);
    let up = why(Emulator::that("echo 'weighbridge-guest up' >&4; exec sleep 1000").boot(SHORT * 4));
    assert!(up.contains("give it more with --timeout"), "{up}");
}

#[test]
fn a_failure_in_the_guest_is_told_with_what_its_console_says() {
    let emulator = Emulator::that(
        "echo 'Out of memory: Killed process 7 (weighbridge)' >&3; sleep 0.2; echo 'weighbridge-guest failed signal: 9' >&4; \
         exec sleep 1000",
    );
    assert_eq!(
        why(emulator.boot(LONG)),
        "the guest with kernel `k` gave no record: signal: 9; it ran out of memory: Killed process 7 (weighbridge)"
    );
}

#[test]
fn nonsense_on_the_port_is_shown() {
    assert!(
        why(Emulator::that("echo 'login:' >&4; exec sleep 1000").boot(LONG)).contains("wrote `login:\\n`")
    );
    let endless = Emulator::that("exec cat /dev/zero >&4");
    assert!(why(endless.boot(LONG)).contains("not an answer of this program"));
}

#[test]
fn what_the_emulator_says_of_itself_is_told() {
    let said = why(Emulator::that("echo 'qemu: cannot allocate memory' >&2; exit 1").boot(LONG));
    assert_eq!(said, "the guest with kernel `k` ended; the emulator says: qemu: cannot allocate memory");
    let (stop, _open) = pipe().unwrap();
    let limits = Limits::new(Accel::Icount, LONG);
    let none = boot(Path::new("/nothing/qemu"), &machine(), b"", limits, stop.as_fd());
    assert!(why(none).starts_with("`/nothing/qemu` cannot be started"));
}

#[test]
fn the_user_ends_a_boot() {
    let (stop, tell) = pipe().unwrap();
    rustix::io::write(&tell, b"x").unwrap();
    assert_eq!(Emulator::that("exec sleep 1000").boot_until(LONG, &stop).unwrap(), Ended::Interrupted);
}
