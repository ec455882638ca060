//! What was typed after `weighbridge dbus`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use weighbridge_dbus_client::brokers::Program;
use weighbridge_dbus_exam::Property;
use weighbridge_dbus_replay::player::Speed;
use weighbridge_dbus_traffic::lint::Level;

use crate::Failure;
use crate::output_args::Answer;
use crate::values::{self, CompareFormat, DocumentFormat, PageFormat, TextOrJson};

#[derive(Debug, Args)]
pub struct Dbus {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do with a D-Bus.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record the messages of a running bus as pcap
    #[command(after_help = "\
The bus is asked for the right to monitor. Where it refuses, rules that eavesdrop are tried, then broadcasts alone; what is \
missing is said. The match rules, names and processes that exist are asked for first, so that recipients can be computed. \
A capture holds the contents of messages, secrets among them; `weighbridge dbus analyse --anonymize` takes them out.

A time line is kept in memory: the latest 50,000 messages as the monitor gets them, and as many events of the kernel as its buffers hold. It is \
written in the end; SIGUSR2 has what is in memory written meanwhile, as FILE.1.json, FILE.2.json and so on, and forgotten. It has no contents of messages.

Examples:
  weighbridge dbus capture --session --budget 10s -o desktop.pcap
  weighbridge dbus capture --session --budget 10s --trace-out desktop.json
  weighbridge dbus capture --system | weighbridge dbus analyse -")]
    Capture(Capture),
    /// Say what happened in a capture: counts, sizes, latencies, habits, recipients, costly match rules
    #[command(after_help = "\
Reads pcap and pcapng with D-Bus messages (`dbus-monitor --pcap`, `busctl capture`, `bustle-pcap`, `weighbridge dbus \
capture`) and the texts of `dbus-monitor` and `dbus-monitor --profile`. Several files are parts of one capture, in order of time. What is \
damaged is skipped and counted. Of the contents of messages nothing is shown but match rules and the names of owners.

Examples:
  weighbridge dbus analyse boot.pcap
  weighbridge dbus analyse boot.pcap --format html -o boot.html --window 2s..2100ms
  weighbridge dbus analyse boot.pcap --format csv -o boot.csv
  weighbridge dbus analyse boot.pcap --anonymize -o shape.pcap")]
    Analyse(Analyse),
    /// Find match rules that cost more than they bring, in a capture or on a running bus
    #[command(after_help = "\
Exit code: 0 no finding at or above the level, 1 findings, 2 a mistake, 3 a failure.

Examples:
  weighbridge dbus lint boot.pcap
  weighbridge dbus lint --system --level error --format json")]
    Lint(Lint),
    /// Examine what a bus does: order, loss, senders, rules, names, calls, stalled receivers, invalid messages, limits
    #[command(after_help = "\
Without a bus, every broker that is installed is started for each experiment anew, with limits that are low enough to be reached, and \
killed after it. On a running bus, experiments that fill queues or tables are left out; the others connect, send to each other and leave.

Exit code: 0 every promise is kept, 1 one is broken or answers differ between repetitions, 2 a mistake, 3 a failure.

Examples:
  weighbridge dbus exam
  weighbridge dbus exam --broker dbus-daemon --only stalled-subscriber,told-of-stall
  weighbridge dbus exam --session --format json")]
    Exam(Exam),
    /// Send the traffic of a capture again over other buses, and measure what it costs there
    #[command(after_help = "\
Every connection of the capture becomes one of this program, with the same names, match rules and messages; services answer with what \
they answered. No message is sent before those that its sender had received before it. A broker is started privately for each replay. With \
several brokers, each round has them in random order, and ratios compare replays of one round with the first broker: which carries this traffic \
for less. What one call or signal costs a broker, `weighbridge run --suite dbus-curves` says.

With --a and --b the capture is a test of regressions: each round has A, B and A once more in random order, each on a broker of its own. The verdicts are on the time, and on CPU time and context switches of the broker, as in `weighbridge compare`; a message that is lost, refused or unplanned on B and not on A counts as regressed.

Exit code: 0 nothing regressed, or no verdict was asked for; 1 regressed; 2 a mistake; 3 a failure; 4 A differed from itself, or a verdict is inconclusive and --strict was given.

Signals and calls of the replay reach other programs of a running bus that want them; a bus where a name of the capture is taken is refused.

Examples:
  weighbridge dbus replay desktop.pcap --broker dbus-daemon
  weighbridge dbus replay desktop.pcap --broker dbus-daemon --broker dbus-broker --rounds 20
  weighbridge dbus replay desktop.pcap --a dbus-daemon --b dbus-daemon=./build/bus/dbus-daemon --format junit
  weighbridge dbus replay desktop.pcap --broker unix:path=/tmp/bus --speed recorded --format json")]
    Replay(Replay),
    /// Measure calls and their replies on a bus that runs, by size
    #[command(after_help = "\
Two connections are made: one asks for a name of its own, the other calls it, and both leave. The bus is asked first: where its policy lets this \
user own no such name, that is said and nothing is measured. What they send each other reaches no other program, but those that want to know \
of each connection that comes and goes are told of these two. The rate is bounded. Brokers of a run of their own, by place and library, are measured by `weighbridge run \
--suite dbus-ping-pong`.

Examples:
  weighbridge dbus ping-pong --session
  weighbridge dbus ping-pong --address unix:path=/run/user/1000/bus --sizes 1,100,10000 --rate 50")]
    PingPong(PingPong),
}

/// Which bus.
#[derive(Debug, Args)]
#[group(required = false, multiple = false)]
pub struct Bus {
    /// The bus at this address, as in unix:path=/run/user/1000/bus
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// The session bus of this user
    #[arg(long)]
    pub session: bool,
    /// The system bus
    #[arg(long)]
    pub system: bool,
}

impl Bus {
    /// The address, if a bus was named.
    pub fn address(&self) -> Result<Option<String>, Failure> {
        match (&self.address, self.session, self.system) {
            (Some(address), ..) => Ok(Some(address.clone())),
            (_, true, _) => causeway_bus::client::session().map(Some).map_err(Failure::of),
            (_, _, true) => Ok(Some(causeway_bus::client::system())),
            _ => Ok(None),
        }
    }
}

#[derive(Debug, Args)]
pub struct Capture {
    #[command(flatten)]
    pub bus: Bus,
    /// How long [default: until Ctrl-C, or until the bus ends]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub budget: Option<Duration>,
    /// The capture, a file that does not exist yet, or `-` for standard output [default: standard output if it is no
    /// terminal; none with --trace-out]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// File for a time line in the Trace Event Format, which ui.perfetto.dev opens: the latest messages, and what the kernel saw of the bus and
    /// its programs
    #[arg(long, value_name = "FILE.json")]
    pub trace_out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Analyse {
    /// Captures; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub answer: Answer<AnalysisFormat>,
    /// Analyse nothing; write a capture of the same shape, with hashes for names and nothing of contents
    #[arg(long, alias = "anonymise", requires = "out", conflicts_with_all = ["format", "window", "top"])]
    pub anonymize: bool,
    /// The window that a page shows message by message, from the start of the capture [default: its first messages]
    #[arg(long, value_name = "FROM..TO", value_parser = window)]
    pub window: Option<(Duration, Duration)>,
    /// What the traffic costs each broker of this record, which `weighbridge run --suite dbus-curves` has made
    #[arg(long, value_name = "RECORD", conflicts_with = "anonymize")]
    pub costs: Option<PathBuf>,
    /// What messages of each class of size take on their way, by the calls of this record, which `weighbridge run --suite dbus-ping-pong` has made
    #[arg(long, value_name = "RECORD", conflicts_with = "anonymize")]
    pub ping_pong: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub top: u16,
}

/// Formats of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnalysisFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// One document with everything
    Json,
    /// One page with pictures, which works offline
    Html,
    /// A line for all messages, then one for each method, signal and reply: how many, their bytes, the peaks of size and recipients
    Csv,
}

impl AnalysisFormat {
    /// The same among those of other answers; nothing for one that only an analysis has.
    pub fn of_page(self) -> Option<PageFormat> {
        match self {
            AnalysisFormat::Table => Some(PageFormat::Table),
            AnalysisFormat::Markdown => Some(PageFormat::Markdown),
            AnalysisFormat::Json => Some(PageFormat::Json),
            AnalysisFormat::Html => Some(PageFormat::Html),
            AnalysisFormat::Csv => None,
        }
    }
}

#[derive(Debug, Args)]
pub struct Lint {
    /// A capture; `-` is standard input
    #[arg(value_name = "FILE", conflicts_with = "Bus")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub bus: Bus,
    /// Least level of findings that are shown, and that make the exit code 1
    #[arg(long, default_value = "warning", value_parser = levels())]
    pub level: Level,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

#[derive(Debug, Args)]
pub struct Exam {
    #[command(flatten)]
    pub bus: Bus,
    /// Start this broker: dbus-daemon, dbus-broker, busd, causewayd or causeway-bus [default: all that are installed]
    #[arg(long = "broker", value_name = "NAME", value_delimiter = ',', value_parser = broker, conflicts_with = "Bus")]
    pub brokers: Vec<Program>,
    /// Only these properties, by their words in the first column
    #[arg(long, value_name = "PROPERTY", value_delimiter = ',', value_parser = property)]
    pub only: Vec<&'static Property>,
    /// Make each experiment N times; answers that differ are shown beside each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// File for a time line of one experiment in the Trace Event Format, which ui.perfetto.dev opens; of one broker and one property
    #[arg(long, value_name = "FILE.json")]
    pub trace_out: Option<PathBuf>,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = DocumentFormat::Table)]
    pub format: DocumentFormat,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// Captures that are parts of one; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// On this broker (dbus-daemon, dbus-broker, busd, causewayd, causeway-bus) or the bus at this address; may be repeated [default: all brokers that are installed]
    #[arg(long, value_name = "ADDRESS|BROKER[=FILE]", value_parser = target, conflicts_with_all = ["a", "b"])]
    pub broker: Vec<Target>,
    /// Say with verdicts whether this traffic costs more on B than on A: brokers as for --broker, as in dbus-daemon=./build/dbus-daemon
    #[arg(long, value_name = "ADDRESS|BROKER[=FILE]", value_parser = target, requires = "b")]
    pub a: Option<Target>,
    /// The other side
    #[arg(long, value_name = "ADDRESS|BROKER[=FILE]", value_parser = target, requires = "a")]
    pub b: Option<Target>,
    /// Of a comparison: costs that differ by no more than this share are the same
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = values::precision, requires = "a")]
    pub margin: f64,
    /// Of a comparison: end with code 4 where a verdict is inconclusive
    #[arg(long, requires = "a")]
    pub strict: bool,
    /// As `recorded`, a number of times as fast, or `max`: as fast as causes allow
    #[arg(long, value_name = "SPEED", default_value = "max", value_parser = speed)]
    pub speed: Speed,
    /// Where the player of all connections and a private broker run
    #[arg(long, value_enum, default_value_t = ReplayPlace::Free)]
    pub place: ReplayPlace,
    /// Of the connections, those that are native members of a bus that has some: 1 is all, 0.5 every second one
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    pub native_share: f64,
    /// Replay N times on each [default: 1 on one bus, 7 on several, 12 with --a and --b]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Fail when nothing moves for this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    pub timeout: Duration,
    /// File for a time line of one replay in the Trace Event Format, which ui.perfetto.dev opens; on one bus, in one round
    #[arg(long, value_name = "FILE.json")]
    pub trace_out: Option<PathBuf>,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    pub format: CompareFormat,
}

#[derive(Debug, Args)]
pub struct PingPong {
    #[command(flatten)]
    pub bus: Bus,
    /// Bytes of the array that each call and each reply carries, as in 1,4K
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [1, 100, 1000, 10_000, 100_000], value_parser = values::size_within(0..=16_777_216))]
    pub sizes: Vec<u32>,
    /// Calls of each size
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,
    /// Calls a second at most
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// The name that is asked for
    #[arg(long, value_name = "NAME", default_value = "org.weighbridge.PingPong")]
    pub name: String,
    /// Write a record of every call, which `weighbridge report` and `weighbridge compare` read; a file that does not exist yet
    #[arg(long, short, value_name = "RECORD")]
    pub out: Option<PathBuf>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = DocumentFormat::Table)]
    pub format: DocumentFormat,
}

/// Where the processes of a replay run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReplayPlace {
    /// Player and broker on one CPU
    SameCpu,
    /// The player on one CPU, the broker on another one
    TwoCpus,
    /// Not pinned; the scheduler decides
    Free,
}

/// Where a capture is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// On a private broker of this program.
    Broker(Program),
    /// On a private broker that is a build of this program.
    Build(Program, PathBuf),
    /// On the bus at this address.
    Address(String),
}

fn broker(text: &str) -> Result<Program, String> {
    let names = Program::ALL.map(Program::name).join(", ");
    let found = Program::ALL.into_iter().find(|program| program.name() == text);
    found.ok_or_else(|| format!("`{text}` is not a known broker; known are {names}"))
}

fn target(text: &str) -> Result<Target, String> {
    match text.split_once('=') {
        Some((name, path)) if !name.contains(':') => {
            broker(name).map(|program| Target::Build(program, path.into()))
        }
        _ if text.contains(':') => Ok(Target::Address(text.into())),
        _ => broker(text).map(Target::Broker),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    number.ok_or_else(|| format!("`{text}` is not a share; write a number from 0 to 1"))
}

fn speed(text: &str) -> Result<Speed, String> {
    match (text, text.parse::<f64>()) {
        ("max", _) => Ok(Speed::Max),
        ("recorded", _) => Ok(Speed::Times(1.0)),
        (_, Ok(times)) if times.is_finite() && times > 0.0 => Ok(Speed::Times(times)),
        _ => Err(format!(
            "`{text}` is not a speed; write recorded, max, or a number such as 10 for ten times as fast"
        )),
    }
}

fn property(text: &str) -> Result<&'static Property, String> {
    let found = weighbridge_dbus_exam::properties().find(|property| property.id == text);
    found.ok_or_else(|| {
        let all: Vec<&str> = weighbridge_dbus_exam::properties().map(|property| property.id).collect();
        format!("`{text}` is not a property; there are {}", all.join(", "))
    })
}

const LEVELS: [(Level, &str); 3] = [
    (Level::Info, "Worth knowing"),
    (Level::Warning, "Costs something without need"),
    (Level::Error, "Grows without end, or concerns every message"),
];

fn levels() -> impl TypedValueParser<Value = Level> {
    let words = LEVELS.map(|(level, about)| PossibleValue::new(level.word()).help(about));
    PossibleValuesParser::new(words).map(|typed| {
        let found = LEVELS.into_iter().find(|(level, _)| level.word() == typed);
        found.expect("one of the possible values").0
    })
}

fn window(text: &str) -> Result<(Duration, Duration), String> {
    let form = "write two times from the start of the capture, as in 1500ms..2s";
    let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is not a window; {form}"))?;
    let from = if from.is_empty() || from == "0" { Duration::ZERO } else { values::duration(from)? };
    let to = if to.is_empty() { Duration::MAX } else { values::duration(to)? };
    if from < to { Ok((from, to)) } else { Err(format!("`{text}` ends before it begins; {form}")) }
}
