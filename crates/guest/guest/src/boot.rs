//! One boot of a guest: from the start of the emulator to its answer. Nothing is left afterwards, however it ends.

use std::fs::File;
use std::io::{PipeReader, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use causeway_os::process::{Child, Spawn, Stderr, poll};
use rustix::fs::MemfdFlags;

use crate::console::Console;
use crate::error::Error;
use crate::port::{Answer, Reader};
use crate::qemu::{Accel, Machine};

/// Lines of the console that an error shows.
const SHOWN: usize = 12;

/// The limits of a boot.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the start until our program runs in the guest.
    pub up: Duration,
    /// From the start to the answer.
    pub answer: Duration,
}

/// How a boot ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// With a record.
    Record {
        /// Its bytes.
        bytes: Vec<u8>,
        /// From the start until our program ran in the guest.
        up: Duration,
        /// From the start to the record.
        answer: Duration,
        /// What the machine's plugin wrote; nothing where it has none.
        counts: Vec<u8>,
    },
    /// By the user.
    Interrupted,
}

/// Boots `machine` with the initramfs `image`, and waits for its answer. `stop` becomes readable when the user has had enough.
///
/// # Errors
/// No answer came, or that of a failure: one sentence, with the last lines of the guest's console.
pub fn boot(
    qemu: &Path,
    machine: &Machine,
    image: &[u8],
    limits: Limits,
    stop: BorrowedFd<'_>,
) -> Result<Ended, Error> {
    let cannot = |what| move |error: std::io::Error| Error::new(format!("cannot {what}: {error}"));
    let began = Instant::now();
    let image = memory_file(image).map_err(cannot("keep the initramfs in memory"))?;
    let counts = memory_file(&[]).map_err(cannot("make a file in memory"))?;
    let to_counts = counts.try_clone().map_err(cannot("duplicate a descriptor"))?;
    let pipe = || std::io::pipe().map_err(cannot("make a pipe"));
    let ((console, to_console), (answer, to_answer), (said, to_said)) = (pipe()?, pipe()?, pipe()?);
    // The emulator's descriptors are 3, 4, 5, 6 in this order: `qemu::CONSOLE_FD` and those after it.
    let fds = [to_console.into(), to_answer.into(), image, to_counts];
    let spawn = fds.into_iter().fold(Spawn::new(qemu).args(machine.arguments()), Spawn::fd);
    let spawn = spawn.stderr(Stderr::Fd(to_said.into())).dies_with_parent();
    // Dropped, it is killed and waited for.
    let child = Child::spawn(spawn)
        .map_err(|error| Error::new(format!("`{}` cannot be started: {error}", qemu.display())))?;
    let mut guest = Guest {
        console: Console::default(),
        reader: Reader::default(),
        said: Console::default(),
        is_kvm: machine.accel == Accel::Kvm,
        up: None,
        pipes: [console, answer, said],
        counts: File::from(counts),
    };
    let ended = guest.follow(&child, began, limits, stop);
    ended.map_err(|why| {
        let mut sentence = format!("the guest with kernel `{}` {why}", machine.kernel.name);
        if guest.is_kvm && guest.up.is_none() {
            sentence += "; /dev/kvm is there and may not work, as in some virtual machines: --accel icount does without it";
        }
        Error::new(sentence).with_console(guest.console.telling(SHOWN))
    })
}

/// A file in memory, so that nothing is left on a disk.
fn memory_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("weighbridge-initramfs", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

struct Guest {
    console: Console,
    reader: Reader,
    /// What the emulator itself says.
    said: Console,
    /// Does the host's CPU run it? Then a silent one says more of /dev/kvm than of the kernel.
    is_kvm: bool,
    up: Option<Duration>,
    /// From the console, the answering port, the emulator.
    pipes: [PipeReader; 3],
    counts: File,
}

impl Guest {
    /// Reads everything until the answer is there. An error is the end of a sentence that begins with the guest.
    fn follow(
        &mut self,
        child: &Child,
        began: Instant,
        limits: Limits,
        stop: BorrowedFd<'_>,
    ) -> Result<Ended, String> {
        let internal = |error: causeway_os::Error| format!("cannot be followed: {error}");
        let mut open = [true; 3];
        loop {
            let limit = if self.up.is_some() { limits.answer } else { limits.up.min(limits.answer) };
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(self.too_late(limit));
            }
            let mut fds = vec![stop];
            let followed: Vec<usize> = (0..3).filter(|index| open[*index]).collect();
            fds.extend(followed.iter().map(|index| self.pipes[*index].as_fd()));
            if followed.is_empty() {
                // Every end of the pipes is closed: the emulator has ended, or is about to.
                fds.push(child.pidfd());
            }
            let ready = poll(&fds, Some(left)).map_err(internal)?;
            if ready[0] {
                return Ok(Ended::Interrupted);
            }
            if followed.is_empty() {
                return Err(self.gone());
            }
            for (index, _) in followed.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                let mut bytes = [0; 1 << 16];
                let read = self.pipes[*index]
                    .read(&mut bytes)
                    .map_err(|error| format!("cannot be read: {error}"))?;
                open[*index] = read > 0;
                match index {
                    0 => self.console.push(&bytes[..read]),
                    1 => match self.reader.push(&bytes[..read])? {
                        Some(Answer::Record(bytes)) => {
                            let answer = began.elapsed();
                            let up = self.up.unwrap_or(answer);
                            return Ok(Ended::Record { bytes, up, answer, counts: self.counts()? });
                        }
                        Some(Answer::Failed(why)) => {
                            return Err(format!("gave no record: {why}{}", self.because()));
                        }
                        None => {}
                    },
                    _ => self.said.push(&bytes[..read]),
                }
                if self.reader.is_up() {
                    self.up.get_or_insert_with(|| began.elapsed());
                }
            }
        }
    }

    /// What the plugin has written: all, because the guest marks the end before it answers.
    fn counts(&mut self) -> Result<Vec<u8>, String> {
        let mut counts = Vec::new();
        // An emulator that does not open the file anew shares the position in it.
        let read = self.counts.seek(SeekFrom::Start(0)).and_then(|_| self.counts.read_to_end(&mut counts));
        read.map(|_| counts).map_err(|error| format!("counted into a file that cannot be read: {error}"))
    }

    /// The console's own word, where it has one, behind another reason.
    fn because(&self) -> String {
        self.console.cause().map_or(String::new(), |cause| format!("; {cause}"))
    }

    fn too_late(&self, limit: Duration) -> String {
        let within = format!("within {} s", limit.as_secs());
        let is_silent = self.console.last(1).is_empty();
        match self.console.cause() {
            Some(cause) => format!("gave no answer {within}: {cause}"),
            None if self.up.is_some() => {
                format!("gave no answer {within}; give it more with --timeout, or measure less")
            }
            None if !is_silent => format!("did not start our program {within}"),
            None if self.is_kvm => format!("wrote nothing to its console {within}"),
            None => format!(
                "wrote nothing to its console {within}: the kernel hangs, needs more time (--timeout), or has no driver for the serial port \
                 (CONFIG_SERIAL_8250_CONSOLE)"
            ),
        }
    }

    /// The emulator has ended without an answer.
    fn gone(&self) -> String {
        match (self.console.cause(), self.said.last(1).first()) {
            (Some(cause), _) => format!("ended: {cause}"),
            (None, Some(said)) => format!("ended; the emulator says: {said}"),
            (None, None) if self.up.is_some() => "restarted or powered off before it had an answer".into(),
            (None, None) => "restarted or powered off before it started our program".into(),
        }
    }
}

/// A machine that the host's CPU runs must start our program within this time, or it counts as hanging: some nested ones offer
/// `/dev/kvm` and then stop after the boot loader.
pub const KVM_PATIENCE: Duration = Duration::from_secs(20);

/// Can `/dev/kvm` be opened for reading and writing by this process? Whether it works, only a boot shows.
///
/// # Errors
/// Why not, as the end of a sentence.
pub fn kvm_is_offered() -> Result<(), String> {
    let opened = File::options().read(true).write(true).open("/dev/kvm");
    opened.map(|_| ()).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "this machine has no /dev/kvm".into(),
        std::io::ErrorKind::PermissionDenied => "this user may not open /dev/kvm; its group is kvm".into(),
        _ => format!("/dev/kvm cannot be opened: {error}"),
    })
}

impl Limits {
    /// The limits of a boot with this deadline.
    pub fn new(accel: Accel, deadline: Duration) -> Limits {
        let up = if accel == Accel::Kvm { KVM_PATIENCE } else { deadline };
        Limits { up, answer: deadline }
    }
}
