//! `weighbridge dbus capture`: the messages of a running bus as pcap, and on a time line with what the kernel saw.
//!
//! A time line is kept in memory: the latest messages ([`Traffic`]) and the latest events of the kernel. It is written in the end, and whenever
//! SIGUSR2 asks for it.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use causeway_bus::client::{Bus, Error};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Header};
use causeway_os::clock;
use causeway_os::process::{self, block_signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use weighbridge_dbus_client::{Monitoring, become_monitor, process_of, rules_and_processes};
use weighbridge_dbus_traffic::capture::Writer;
use weighbridge_harness::interrupt::Interrupt;

use super::traffic::Traffic;
use super::watch::{Messages, Watch};
use crate::commands::measuring::interrupt;
use crate::dbus_args::Capture;
use crate::destination::{cannot_create, create_new, refuse_existing};
use crate::{Exit, Failure, output};

/// How often the file gets what was recorded, so that a reader of it sees a bus at work.
const FLUSH: Duration = Duration::from_millis(200);

/// Records until the time is over, Ctrl-C, or the end of the bus.
pub fn capture(args: &Capture) -> Result<Exit, Failure> {
    let Some(address) = args.bus.address()? else {
        return Err(Failure::mistake("which bus? give --session, --system or --address ADDRESS"));
    };
    let to_stdout = args.out.as_deref().is_none_or(|out| out == Path::new("-"));
    // A time line is something without the capture, too.
    let is_kept = args.out.is_some() || args.trace_out.is_none();
    if is_kept && to_stdout && io::stdout().is_terminal() {
        return Err(Failure::mistake("a capture is not written to a terminal; give -o FILE"));
    }
    if let Some(file) = &args.trace_out {
        refuse_existing(file, "--trace-out")?;
    }
    // Before the thread below, so that it does not have these signals open.
    let interrupt = interrupt()?;
    let asked = args.trace_out.is_some().then(|| block_signals(&[Signal::USR2.as_raw()])).transpose();
    let asked = asked.map_err(Failure::of)?;
    let mut monitor = Bus::connect(&address).map_err(Failure::of)?;
    let mut asker = Bus::connect(&address).map_err(Failure::of)?;
    let sees_all = say_what_is_seen(&become_monitor(&mut monitor).map_err(Failure::of)?);
    let out: Box<dyn Write> = match args.out.as_deref().filter(|_| !to_stdout) {
        None if is_kept => Box::new(io::stdout()),
        None => Box::new(io::sink()),
        Some(path) => Box::new(create_new(path).map_err(|error| cannot_create(path, "--out", &error))?),
    };
    let writer = Writer::new(BufWriter::with_capacity(256 << 10, out)).map_err(cannot_write)?;
    // What a monitor does not see is taken from the asker, whose own messages are left out.
    let ignored = (!sees_all).then(|| asker.unique_name().to_owned());
    let timeline = args.trace_out.as_deref().zip(asked);
    let timeline = timeline.map(|(file, asked)| Timeline::begin(file, asked, &mut asker)).transpose()?;
    let mut recording = Recording { writer, messages: 0, bytes: 0, ignored, timeline };
    let asking = ask(asker);
    let began = Instant::now();
    let ended = recording.record(&mut monitor, args.budget, &interrupt, &asking);
    let took = began.elapsed();
    let Recording { writer, messages, bytes, timeline, .. } = recording;
    writer.finish().map_err(cannot_write)?;
    // Also of a bus that has gone.
    timeline.map_or(Ok(()), Timeline::end)?;
    output::say(&format!("{messages} messages, {bytes} bytes in {:.1} s", took.as_secs_f64()));
    match ended? {
        End::Time | End::Interrupted => Ok(Exit::Fine),
        End::Bus(why) => {
            output::warn(&format!("the capture ends early: {why}"));
            Ok(Exit::Failed)
        }
    }
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::new(format!("the capture cannot be written: {error}"))
}

/// Are all messages seen?
fn say_what_is_seen(monitoring: &Monitoring) -> bool {
    let refused = match monitoring {
        Monitoring::Everything => return true,
        Monitoring::Eavesdropping(why) => {
            format!("({why}); the capture holds what its policy lets this user eavesdrop on")
        }
        Monitoring::Broadcasts(why) => {
            format!("({why}) and rules that eavesdrop; the capture holds broadcasts only")
        }
    };
    output::warn(&format!(
        "the bus refuses a monitor {refused}. The right that is missing: BecomeMonitor of \
         org.freedesktop.DBus.Monitoring, which root and the owner of a bus have"
    ));
    false
}

/// A thread that asks the driver while the monitor records.
struct Asking {
    /// Calls and replies, for where the monitor does not see them.
    answers: mpsc::Receiver<Vec<u8>>,
    /// Connections whose process is to be asked for.
    newcomers: mpsc::Sender<String>,
}

/// Asks for the rules, names and processes that there are, then for the process of each connection that comes.
fn ask(mut asker: Bus) -> Asking {
    let (sender, answers) = mpsc::channel();
    let (newcomers, names) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut seen = |message: &[u8]| {
            // The capture may have ended.
            let _ = sender.send(message.to_owned());
        };
        if let Err(error) = rules_and_processes(&mut asker, &mut seen) {
            output::warn(&format!(
                "the bus does not tell its match rules ({error}); recipients will be known of connections that come during the capture"
            ));
        }
        let own = asker.unique_name().to_owned();
        for name in names.into_iter().filter(|name| *name != own) {
            if process_of(&mut asker, &name, &mut seen).is_err() {
                // The monitor notices too, and says why.
                return;
            }
        }
    });
    Asking { answers, newcomers }
}

/// The connection that comes into being with a message of the driver.
fn newcomer(message: &[u8]) -> Option<String> {
    let header = Header::parse(message).ok()?;
    if header.sender != Some(DRIVER) || header.member != Some("NameOwnerChanged") {
        return None;
    }
    let mut args = Args::new(&header, &message[header.header_bytes..]).map_while(Result::ok);
    match (args.next()?, args.next()?) {
        (Arg::Text(name), Arg::Text("")) if name.starts_with(':') => Some(name.to_owned()),
        _ => None,
    }
}

/// Why a recording ended.
enum End {
    Time,
    Interrupted,
    Bus(Error),
}

/// A time line at work.
struct Timeline {
    file: PathBuf,
    watch: Watch,
    traffic: Traffic,
    /// Readable when somebody wants what is in memory.
    asked: OwnedFd,
    written: u32,
}

impl Timeline {
    fn begin(file: &Path, asked: OwnedFd, asker: &mut Bus) -> Result<Timeline, Failure> {
        let mut traffic = Traffic::default();
        process_of(asker, DRIVER, &mut |message| traffic.learn(message)).map_err(Failure::of)?;
        let watch = Watch::begin(traffic.broker());
        Ok(Timeline { file: file.to_owned(), watch, traffic, asked, written: 0 })
    }

    /// Writes what is in memory, if somebody asks for it: `name.1.json`, `name.2.json` and so on beside the last one. What comes meanwhile is not
    /// recorded by the kernel.
    fn dump_where_asked(&mut self) -> Result<(), Failure> {
        if process::read_signal(&self.asked).map_err(Failure::of)?.is_none() {
            return Ok(());
        }
        self.written += 1;
        let file = self.file.with_extension(format!("{}.json", self.written));
        let next = Watch::begin(self.traffic.broker());
        std::mem::replace(&mut self.watch, next).end(TITLE, &seen(&mut self.traffic), &file)
    }

    fn end(mut self) -> Result<(), Failure> {
        self.watch.end(TITLE, &seen(&mut self.traffic), &self.file)
    }
}

const TITLE: &str = "a running D-Bus";

fn seen(traffic: &mut Traffic) -> Messages<'static> {
    let (roles, names) = traffic.take();
    Messages::Seen(roles, names)
}

struct Recording<W: Write> {
    writer: Writer<W>,
    messages: u64,
    bytes: u64,
    /// A connection whose messages are not part of the capture.
    ignored: Option<String>,
    timeline: Option<Timeline>,
}

impl<W: Write> Recording<W> {
    fn record(
        &mut self,
        monitor: &mut Bus,
        time: Option<Duration>,
        interrupt: &Interrupt,
        asking: &Asking,
    ) -> Result<End, Failure> {
        let deadline = time.map(|time| Instant::now() + time);
        let mut flushed = Instant::now();
        loop {
            for message in asking.answers.try_iter().collect::<Vec<_>>() {
                if let Some(timeline) = &mut self.timeline {
                    timeline.traffic.learn(&message);
                }
                // Of a monitor that sees all, these are what it sees anyway.
                if self.ignored.is_some() {
                    self.write(&message)?;
                }
            }
            if let Some(timeline) = &mut self.timeline {
                timeline.dump_where_asked()?;
            }
            match monitor.receive(Duration::ZERO) {
                Ok(Some(message)) => {
                    if let Some(name) = newcomer(&message) {
                        let _ = asking.newcomers.send(name);
                    }
                    if !self.ignored.as_deref().is_some_and(|name| is_of(&message, name)) {
                        self.write(&message)?;
                    }
                }
                Ok(None) => {
                    if flushed.elapsed() >= FLUSH {
                        self.writer.flush().map_err(cannot_write)?;
                        flushed = Instant::now();
                    }
                    let asked = self.timeline.as_ref().map(|timeline| timeline.asked.as_fd());
                    wait(monitor, [Some(interrupt.fd()), asked], deadline);
                }
                Err(error) => return Ok(End::Bus(error)),
            }
            if interrupt.take().is_ok_and(|is_taken| is_taken) {
                return Ok(End::Interrupted);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(End::Time);
            }
        }
    }

    fn write(&mut self, message: &[u8]) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if let Some(timeline) = &mut self.timeline {
            timeline.traffic.see(clock::monotonic_ns(), message);
        }
        self.messages += 1;
        self.bytes += message.len() as u64;
        let time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.writer.write(time_ns, message, message.len()).map_err(cannot_write)
    }
}

fn is_of(message: &[u8], name: &str) -> bool {
    Header::parse(message).is_ok_and(|header| header.sender == Some(name) || header.destination == Some(name))
}

/// Until a message, one of these descriptors, the deadline, or the next time that the file wants to be written.
fn wait(monitor: &Bus, others: [Option<BorrowedFd<'_>>; 2], deadline: Option<Instant>) {
    let left =
        deadline.map_or(FLUSH, |deadline| deadline.saturating_duration_since(Instant::now()).min(FLUSH));
    let fds = others.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = [PollFd::new(monitor, PollFlags::IN)].into_iter().chain(fds).collect();
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    // Whatever it says, the loop looks at everything again.
    let _ = poll(&mut fds, Some(&left));
}
