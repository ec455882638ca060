//! What was typed. Values are checked for their form here; whether they make sense together, [`scope`](crate::scope) decides.

use std::path::PathBuf;
use std::time::Duration;

use causeway_command_line::mistakes;
use clap::builder::FalseyValueParser;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::advise_args::{self, AdviseArgs};
use crate::bisect_args;
use crate::compare_args::{self, CompareArgs, ExitMeaning};
use crate::explain_args::{self, ExplainArgs, TimelineArgs};
use crate::labels::Label;
use crate::output_args::{Answer, OutputWithPage};
use crate::record_args;
pub use crate::selection_args::{Effort, KERNEL_SLAB, Selection};
use crate::values::{self, PageFormat};
pub use crate::values::{RunFormat, TextOrJson};
use crate::{Exit, destination, nearest, output, redact};

const AFTER_HELP: &str = "\
Examples:
  weighbridge advise                         which mechanism to take for a message; asks what it is
  weighbridge run                            every mechanism, a few sizes, within two minutes
  weighbridge run 'roundtrip/pipe/*'         round trips over pipes
  weighbridge list                           what can be measured here
  weighbridge report                         the tables of the last run
  weighbridge history                        the records of earlier runs
  weighbridge compare --a X --b Y            whether B, a setting or a build, costs more than A

Each command's help says which questions it answers, and which command answers those next to it.

Results go to standard output, progress and warnings to standard error.
Exit code: 0 it holds, or was done; 1 a verdict against: regressed, outside a band, findings, a broken promise; 2 what was typed has no \
meaning here, and nothing was done; 3 something failed or is missing; 4 no verdict: figures are void, or a case is \
inconclusive and --strict was given; 130 interrupted, with a valid partial record.";

const AFTER_RUN_HELP: &str = "\
A case is named pattern/mechanism/payload bytes/placement, then axes that are not at their default:
  roundtrip/pipe/4096/same-cpu/wait=poll

Without a GLOB, run measures the suite `quick`. A GLOB selects from everything that `weighbridge list` shows: every \
pattern with every mechanism, 1, 4096 and 65536 bytes, same-cpu and two-cpus, other axes at their defaults. Where a GLOB \
spells out a size, a placement or an axis, that value takes the place of these defaults. With --suite, a GLOB selects only cases of that suite. A \
complete id is always measured.

In a GLOB, `*` also matches slashes, a path selects everything below it, and braces are alternatives. A word without a \
slash is compared with each part of an id: `pipe` selects the mechanism, `stream` the pattern, `wait=poll` that way to \
wait. `noop` (the harness) and `mock` (for tests) are selected by name only. `weighbridge plan` shows how a selection \
was understood.

Examples:
  weighbridge run                                        suite quick
  weighbridge run pipe tcp --sizes 1..64K                two mechanisms over powers of two
  weighbridge run 'roundtrip/ring-*' --place two-cpus    rings between two CPUs
  weighbridge run 'fan-out/*/64/same-cpu/receivers=5'    every way to reach five receivers
  weighbridge run --suite ipc --wait poll --budget 10m   as a main loop reads
  weighbridge run --suite akbench                        what akbench measures, with its published figures
  weighbridge run latency_barrier                        a row of it by the name that akbench has for it
  weighbridge run --target ./libmine.so roundtrip/mine roundtrip/pipe    a mechanism of your own, in C or what C can call
  weighbridge run fan-in/pipe/1/free --run-time 15s --interval 1s
  weighbridge run stream/tcp/131072/two-cpus --format json --html none";

// A line is as wide as the reader's terminal: paragraphs are one line each here.
const AFTER_CHECK_HELP: &str = "\
Answers whether our figures agree with those of other tools. Whether something here has become more expensive, `weighbridge compare` says.

Each round runs the external tool and our case alternately, one to five times, on the same CPUs. The result is the median \
over the rounds of the ratio ours/theirs. The verdict is inside when the whole 95 % interval of the ratio lies in the expected \
band, outside when the whole interval lies outside the band, and inconclusive otherwise. Tools that are missing are listed \
with their package.

A tool runs in a session of its own, on given CPUs, with a deadline. A supervisor process ends every process that the tool \
started when the tool ends, and when weighbridge ends.

Exit code: 0 when no ratio is outside its band, also when tools are missing or a verdict is inconclusive; 1 when a \
ratio is outside; 3 when a tool or a case of ours failed, the budget ended before the first turn of a check, or nothing \
could be compared; 4 when a record of it is void; 130 interrupted.

Examples:
  weighbridge check                        everything that is installed
  weighbridge check perf                   the checks of one tool
  weighbridge check 'perf-sched-*' iperf3 --rounds 13 --format json";

/// What the program is called, whatever it was started as.
const NAME: &str = "weighbridge";

/// Measures the cost of moving messages, wake-ups and memory between Linux processes.
#[derive(Debug, Parser)]
#[command(name = NAME, bin_name = NAME, version, long_version = long_version(), after_help = AFTER_HELP, max_term_width = 110)]
struct Typed {
    #[command(subcommand)]
    command: Command,
    /// Replace files that exist and are named with --out, --html and the like
    #[arg(long, global = true, help_heading = "Output")]
    force: bool,
    /// Show text in ASCII alone, as where the locale is of another encoding than UTF-8
    #[arg(long, global = true, help_heading = "Output")]
    ascii: bool,
    /// Say on standard error, too, which cases are measured, which are skipped and why, and how the words were understood
    #[arg(long, short, global = true, env = "WEIGHBRIDGE_VERBOSE", value_parser = FalseyValueParser::new(), hide_env_values = true, help_heading = "Output")]
    verbose: bool,
    /// Colors of tables: by default on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        env = "WEIGHBRIDGE_COLOR",
        hide_env_values = true,
        help_heading = "Output"
    )]
    color: clap::ColorChoice,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure cases; print a table, write a record and a page
    #[command(after_help = AFTER_RUN_HELP)]
    Run(Box<Run>),
    /// Show which cases `run` would measure, which it would skip and why, and how long that takes
    #[command(after_help = "\
Takes the same selection as `weighbridge run`; see `weighbridge run --help`.

With --format json it is a plan as a file, for many machines: the same words make the same plan, cases that this machine cannot measure are in it \
too, and each has the seconds that it is expected to take at most.

Examples:
  weighbridge plan --suite quick
  weighbridge plan --suite quick --format json > plan.json
  weighbridge plan --suite quick --format json --shard 2/8 > part.json
  weighbridge run --plan plan.json --out-dir spool --resume")]
    Plan(Box<Plan>),
    /// Show what can be measured: patterns, mechanisms, axes, placements, suites
    List(List),
    /// Show the machine as a record describes it, and what is not available on it
    Env(Env),
    /// Say which mechanism to take for a message: what it costs, how sure that is, and what each demand costs
    #[command(after_help = advise_args::AFTER_HELP)]
    Advise(Box<AdviseArgs>),
    /// Show records in any format
    #[command(after_help = "\
The valid lines of a damaged record are shown; standard error names the other lines, and why they are not valid.

--baseline answers by how much each case differs from one case, or from another record; it gives ratios and no verdict. Whether a change made \
something more expensive, `weighbridge compare OLD --with NEW` says.

Examples:
  weighbridge report                                    the last run
  weighbridge report weighbridge-20260102-030405.jsonl
  weighbridge report before.jsonl after.jsonl --format markdown
  weighbridge report record.jsonl --baseline roundtrip/pipe/64/same-cpu
  weighbridge report after.jsonl --baseline before.jsonl
  weighbridge report - --format html --out page.html < record.jsonl")]
    Report(Report),
    /// List the records of earlier runs, or show each case over them with its changes of level
    #[command(after_help = "\
Without --by and --changes, the records are listed. With one of them, or as a page, each case is shown as a series over the \
records: its cost as a multiple of the hub's where all of its records have that, else its median. A change of level is found by \
E-divisive (Matteson and James 2014) with 999 permutations; three records on each side are the fewest. --changes answers since when; whether \
two sets of records differ, `weighbridge compare OLD --with NEW` says.

Runs keep their records in $XDG_STATE_HOME/weighbridge, by default ~/.local/state/weighbridge, unless --out names a file. \
A record and its page are plain files: move or delete them as you like.

Examples:
  weighbridge history
  weighbridge history results/ other.jsonl --format json
  weighbridge history results/ --by commit
  weighbridge history results/ --changes --format html --out history.html
  weighbridge history results/ --coverage")]
    History(History),
    /// Say whether B costs more than A: two settings, two programs, or records of before and after a change
    #[command(after_help = compare_args::AFTER_HELP)]
    Compare(Box<CompareArgs>),
    /// Say why a figure is what it is: what the cost is made of, what the kernel does meanwhile, and when
    #[command(after_help = explain_args::AFTER_HELP)]
    Explain(Box<Explain>),
    /// Read the output of other benchmark tools into a record
    #[command(after_help = after_import_help())]
    Import(Import),
    /// Measure with other tools and with weighbridge in turn, and compare the figures
    #[command(after_help = AFTER_CHECK_HELP)]
    Check(Check),
    /// Record and analyse the traffic of a D-Bus; find costly match rules
    Dbus(crate::dbus_args::Dbus),
    /// Measure in a kernel of your choice, in an emulated machine that counts instructions
    Guest(crate::guest_args::Guest),
    /// Find the commit that changed a noisy figure: says what to measure next, and is told what that came to
    #[command(after_help = bisect_args::AFTER_HELP)]
    Bisect(bisect_args::Bisect),
    /// Put records where those of all machines are, or into a table
    #[command(after_help = record_args::AFTER_HELP)]
    Record(record_args::Record),
    /// Say which symbols and sections of an ELF file grew: two kernels (vmlinux), modules or programs
    #[command(after_help = "\
Answers what grew in a file. What runs longer, `weighbridge compare` and `weighbridge guest compare` say.

Symbols of one name are added up, without the numbers that compilers give to copies of a function. A bzImage is compressed: take the \
vmlinux of the same build.

Examples:
  weighbridge bloat linux-old/vmlinux linux-new/vmlinux
  weighbridge bloat linux-old/vmlinux linux-new/vmlinux --symbols '{kmem_cache_alloc,kmem_cache_free}*'
  weighbridge bloat old.ko new.ko --format json")]
    Bloat(Bloat),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  weighbridge completions bash > ~/.local/share/bash-completion/completions/weighbridge"
    )]
    Completions(Completions),
    /// Print the manual page, of the program or of one command
    #[command(
        after_help = "Examples:\n  weighbridge man run | man -l -\n  weighbridge man dbus replay | man -l -"
    )]
    Man(Man),
}

impl Command {
    /// Does `git bisect run` read the exit code?
    pub fn bisects(&self) -> bool {
        matches!(self, Command::Compare(args) if args.bisect || args.exit == Some(ExitMeaning::Bisect))
    }

    /// Does a scheduler read the exit code?
    pub fn is_job(&self) -> bool {
        matches!(self, Command::Run(args) if args.plan.is_some())
    }
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub effort: Effort,
    /// Seed of the order of runs [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    /// Our kernel module, or the folder kernel in which it was built, for --suite kernel-slab: it is loaded into this kernel, which needs root
    #[arg(long, value_name = "PATH", help_heading = "Which cases")]
    pub module: Option<PathBuf>,
    /// What memory can move in a second, as in 25.6G (powers of 1000; GiB of 1024), where the firmware's table of modules cannot be read: shares of it are shown
    #[arg(long, value_name = "BYTES_PER_S", value_parser = values::rate, help_heading = "Output")]
    pub memory_bandwidth: Option<f64>,
    /// Measure every case alone, and not in turns with a hub (a case of the same kind that the same noise affects)
    #[arg(long, help_heading = "Precision and time")]
    pub alone: bool,
    /// Count no system calls, which takes one more run of each case, with a tracer (ptrace)
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
    #[command(flatten)]
    pub timeline: TimelineArgs,
    #[command(flatten)]
    pub output: OutputWithPage<RunFormat>,
    /// Say on standard error, each second of a run, what it has done so far; this program then wakes up while something is timed
    #[arg(long, help_heading = "Output", conflicts_with = "quiet")]
    pub progress: bool,
    /// Show what would be measured; measure and write nothing
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Carry out this plan, which `weighbridge plan --format json` wrote: cases, effort and seed are the plan's
    #[arg(long, value_name = "FILE", requires = "out_dir", help_heading = "A plan", conflicts_with_all = ["globs", "suite", "sizes", "place", "wait", "set", "precision", "budget", "run_time", "interval", "max_runs", "seed", "alone", "no_system_calls", "module", "memory_bandwidth", "timeline", "out", "html"])]
    pub plan: Option<PathBuf>,
    /// The folder for records of plans, made where it does not exist: a new one for each attempt
    #[arg(long, value_name = "DIR", requires = "plan", help_heading = "A plan")]
    pub out_dir: Option<PathBuf>,
    /// Leave out cases that an earlier attempt in that folder finished, by this program on this machine since it was booted
    #[arg(long, requires = "plan", help_heading = "A plan")]
    pub resume: bool,
}

#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub effort: Effort,
    /// What standard output shows: what this machine would measure, or a plan that any machine carries out with `weighbridge run --plan`
    #[arg(long, value_enum, default_value_t = TextOrJson::Text, help_heading = "Output")]
    pub format: TextOrJson,
    /// Of the plan in JSON only this part, as in 2/8: parts are disjoint and together the plan, and cases of one hub are in one of them
    #[arg(long, value_name = "I/N", value_parser = values::shard, help_heading = "Output")]
    pub shard: Option<values::Shard>,
    /// Seed of the order of runs, of a plan in JSON [default: one that follows from the plan]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    /// Measure every case alone, and not in turns with a hub, of a plan in JSON
    #[arg(long, help_heading = "Precision and time")]
    pub alone: bool,
    /// Count no system calls, of a plan in JSON
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
}

#[derive(Debug, Args)]
pub struct List {
    /// Patterns, mechanisms, axes, placements or suites to describe in full
    #[arg(value_name = "NAME", conflicts_with = "format")]
    pub names: Vec<String>,
    /// A shared object with mechanisms of your own, to be listed too; several may be given
    #[arg(long, value_name = "FILE")]
    pub target: Vec<PathBuf>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

#[derive(Debug, Args)]
pub struct Env {
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

#[derive(Debug, Args)]
pub struct Report {
    /// Records, several of which are shown side by side; `-` is standard input [default: the last one that `weighbridge history` lists]
    #[arg(value_name = "RECORD")]
    pub records: Vec<PathBuf>,
    #[command(flatten)]
    pub answer: Answer<ReportFormat>,
    /// Compare every case with this case of the same record, by pairs of runs of one round; or with the same cases of
    /// another record, whose runs were not interleaved with these
    #[arg(long, value_name = "CASE|FILE")]
    pub baseline: Option<String>,
    /// Compare with a record of another machine too; each line says so
    #[arg(long, requires = "baseline")]
    pub across_machines: bool,
}

#[derive(Debug, Args)]
pub struct History {
    /// Records, or folders that hold records [default: the folder in which runs keep theirs]
    #[arg(value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Order the series by this, records of one value next to each other
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<By>,
    /// Show only cases whose level changed
    #[arg(long)]
    pub changes: bool,
    /// Put records of several machines into one series; each line says so
    #[arg(long)]
    pub across_machines: bool,
    /// Show what the intervals of each session foretold and what the next session of the same machine found
    #[arg(long, conflicts_with_all = ["by", "changes", "across_machines"])]
    pub coverage: bool,
    #[command(flatten)]
    pub answer: Answer<PageFormat>,
}

#[derive(Debug, Args)]
pub struct Import {
    /// Files that another tool wrote; which tool is told from the content
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The record, a file that does not exist yet [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, value_name = "RECORD")]
    pub out: Option<PathBuf>,
    /// The commit that was measured, for `weighbridge history --by commit`
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
}

#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub how: ExplainArgs,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Checks: globs on their names, or the names of tools [default: all]
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    /// Rounds of each check, in which both take their turn; fewer than 6 give no interval and so no verdict; 9 or more tolerate one disturbed round on
    /// each side of the median
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Time for all rounds together, as in 90s or 5m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration)]
    pub budget: Duration,
    /// Time for one run of a tool; a tool that takes longer is killed, and its check fails
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = values::duration)]
    pub timeout: Duration,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
    /// Write a record of the checks to this file, which must not exist yet; `weighbridge report` shows it in any format
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, env = "WEIGHBRIDGE_QUIET", value_parser = FalseyValueParser::new())]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Bloat {
    /// The old file
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The new file
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Only symbols with such a name, and also those of the same size, as `nm --print-size` lists them
    #[arg(long, value_name = "GLOB")]
    pub symbols: Option<String>,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub format: TextOrJson,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The command whose page it is, as in dbus replay [default: the program]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// A line per case
    Csv,
    /// One document with everything but the samples
    Json,
    /// One page that works offline
    Html,
}

/// What a history is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The start of each record
    Time,
    /// The commit that the program was built from, or that `import --commit` named
    Commit,
    /// The release of the kernel
    Kernel,
    /// The machine
    Machine,
}

/// Reads the command line. Help and mistakes have been printed when there is no command.
pub fn parse() -> Result<Command, Exit> {
    let parsed = Typed::try_parse().inspect(|typed| {
        destination::replace_files(typed.force);
        output::use_ascii(typed.ascii);
        output::choose_color(typed.color);
        output::use_verbose(typed.verbose);
    });
    parsed.map(|typed| typed.command).map_err(|error| match mistakes::tell(&error, NAME, nearest_command) {
        0 => Exit::Fine,
        _ => Exit::Mistaken,
    })
}

/// The command closest to a word, by the measure that is used for names of cases: the parser's own finds no `run`
/// for `rn`.
fn nearest_command(typed: &str) -> Option<String> {
    let program = command();
    let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
    nearest::words(typed, &known).into_iter().next()
}

/// Does `git bisect run` read the exit code of what was typed, whether it can be understood or not?
pub fn typed_for_bisection() -> bool {
    let typed = typed();
    let is_pair = |pair: &[String]| pair[0] == "--exit" && pair[1] == "bisect";
    typed.iter().any(|word| word == "--bisect" || word == "--exit=bisect") || typed.windows(2).any(is_pair)
}

/// The command line as a whole, for completions and manual pages.
pub fn command() -> clap::Command {
    Typed::command()
}

/// The command line as it was typed, the program by its name alone and without credentials.
pub fn typed() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    redact::words(std::iter::once(env!("CARGO_PKG_NAME").to_owned()).chain(arguments))
}

/// The commit that the program was built from, where that was known.
pub const COMMIT: Option<&str> = option_env!("GIT_COMMIT");

impl Command {
    /// Shared objects with mechanisms of the user.
    pub fn targets(&self) -> &[PathBuf] {
        match self {
            Command::Run(args) => &args.selection.target,
            Command::Plan(args) => &args.selection.target,
            Command::Compare(args) => &args.selection.target,
            Command::Explain(args) => &args.selection.target,
            Command::List(args) => &args.target,
            Command::Advise(args) => &args.target,
            _ => &[],
        }
    }
}

impl Command {
    /// What the user says of the session.
    pub fn labels(&self) -> &[Label] {
        use crate::guest_args::Command as Guest;
        match self {
            Command::Run(args) => &args.output.of.label,
            Command::Compare(args) => &args.output.of.label,
            Command::Explain(args) => &args.how.output.of.label,
            Command::Guest(args) => match &args.command {
                Guest::Run(args) => &args.output.label,
                Guest::Compare(args) => &args.output.label,
                Guest::Explain(args) => &args.output.label,
                Guest::Suite(args) => &args.output.label,
                Guest::Bisect(_) | Guest::Doctor => &[],
            },
            _ => &[],
        }
    }
}

/// How the program was built.
pub const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

fn long_version() -> String {
    let commit = COMMIT.map_or(String::new(), |commit| format!("commit {commit}, "));
    format!("{} ({commit}{PROFILE} build)", env!("CARGO_PKG_VERSION"))
}

fn after_import_help() -> String {
    let line =
        |format: &weighbridge_record::import::Format| format!("  {:<18}{}\n", format.tool, format.about);
    let formats: String = weighbridge_record::import::FORMATS.iter().map(line).collect();
    format!(
        "What is read, and what a run is there:\n{formats}\nThe machine of the record is the one that the files name, else unknown. Units \
         become nanoseconds and bytes per second, by rules that the record states. A file that cannot be used is named with its line; \
         what is valid of the others is kept, and the exit code is 3.\n\n\
         Examples:\n  weighbridge import results.json --out record.jsonl\n  weighbridge import target/criterion/*/new/sample.json --commit \
         1a2b3c4\n  weighbridge report record.jsonl"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_put_together_without_contradictions() {
        crate::register();
        command().debug_assert();
    }
}
