//! What was typed after `weighbridge guest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use weighbridge_guest::qemu::Accel;

use crate::output_args::Output;
use crate::values::{self, CompareFormat, RunFormat, TextOrJson};

#[derive(Debug, Args)]
pub struct Guest {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do with guests.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot a kernel, measure cases in it, and print their instructions per operation
    #[command(after_help = "\
The kernel is booted by qemu with an initramfs that holds this program as its first process, and nothing else. With `--accel \
icount`, the default, the machine's clock counts instructions: figures repeat to 0.1 % on any machine and beside any load, and \
they are no times. Nothing is downloaded, and root is not needed.

A kernel is a bzImage; a folder, which is a build tree or an unpacked package; deb:PACKAGE, the file of a Debian package or the name of \
one whose file is in the current folder or in apt's cache; or host. `weighbridge guest doctor` says what is missing.

Exit code: 0 success, 2 a mistake, 3 no record came from the guest, 130 interrupted.

Examples:
  weighbridge guest run --kernel host roundtrip/pipe/1/same-cpu
  weighbridge guest run --kernel ~/src/linux --append mitigations=off 'roundtrip/*/1/same-cpu'
  weighbridge guest run --kernel deb:linux-image-6.1.0-56-amd64 'stream/pipe/4096/same-cpu'")]
    Run(Box<Run>),
    /// Boot two kernels in turn, and say for each case whether B costs more than A
    #[command(after_help = "\
Answers whether a case needs more instructions on B. In which functions, `weighbridge guest explain` says; whether it takes more time on \
this kernel, `weighbridge compare`.

A side is a KERNEL, then its own modules, then what is added to the kernel's command line: KERNEL,module=DIR,append=PARAMETERS. A side \
without a KERNEL has that of the other. Each side is booted as often as --rounds says, in random order, and the boot is the unit: a verdict needs six a side, as by default; \
four give one where few cases are compared. --suite compares by the tables of a suite, those of slab as they were published of a patch. `--format markdown` is a report for a mailing list.

Exit code: 0 no case regressed, 1 a case regressed, 2 a mistake, 3 no record came from a guest, 4 a case is inconclusive and \
--strict was given, 130 interrupted.

Examples:
  weighbridge guest compare --a ./linux-old --b ./linux-new 'roundtrip/*/1/same-cpu' --format markdown
  weighbridge guest compare --a host --b ,append=mitigations=off solo/getppid/0/same-cpu roundtrip/pipe/1/same-cpu
  weighbridge guest compare --suite slab --a ./linux-old,module=bench-old --b ./linux-new,module=bench-new")]
    Compare(Box<Compare>),
    /// Count which functions of the kernel execute the instructions of an operation
    #[command(after_help = "\
One boot measures the case while a plugin of the emulator counts the instructions of each function of the kernel, and of each file in user mode. The table has instructions for each operation, their share, and calls; the record has all functions and all call stacks. The case must be one that is measured in batches: roundtrip, pingpong, solo, fan-out.

Two cases, or one case on two kernels, are compared function by function; whether one needs more as a whole, `weighbridge guest compare` \
says. A side is written as in `weighbridge guest compare`.

Exit code: 0 success, 2 a mistake, 3 no record came from the guest, 130 interrupted.

Examples:
  weighbridge guest explain --kernel host roundtrip/pipe/1/same-cpu
  weighbridge guest explain --kernel host roundtrip/pipe/1/same-cpu --html pipe.html --folded pipe.folded
  weighbridge guest explain --kernel host roundtrip/pipe/1/same-cpu roundtrip/unix-stream/1/same-cpu
  weighbridge guest explain --a host --b ,append=mitigations=off roundtrip/pipe/1/same-cpu")]
    Explain(Box<Explain>),
    /// Measure a part of a kernel in one boot, and print its tables
    #[command(after_help = "\
slab: what time_bench, slab_test and qmempool measure: kmalloc, caches, pages and an object pool by size and context, locks, masks, \
atomics, beside the figures of a published report. The module is in the folder kernel of the sources, and must be built for the kernel that \
is booted.

net: packets through a veth pair into a drop, an accept and a forward, without a rule, by nftables and by iptables, with their share \
of the time that 10 Gbit/s leave to a packet. The kernel's own modules are loaded: veth, pktgen, nf_tables, iptable_raw. Packets are sent one \
by one: pktgen refuses a burst over veth, which shares no packets.

ipc: round trips of 1 B and 4 KiB on one CPU by every mechanism of the suite quick, as multiples of a pipe's, beside kdbus of 2014.

Examples:
  weighbridge guest suite ipc --kernel host
  weighbridge guest suite slab --kernel deb:linux-image-6.1.0-56-amd64 --module kernel
  weighbridge guest suite net --kernel deb:linux-image-6.1.0-56-amd64")]
    Suite(Box<Suite>),
    /// Find the commit of a kernel that changed a case, by git bisect with exact counts, and the function in which
    #[command(after_help = "\
Builds and boots both ends, then what git bisect chooses, then the commit that it found and its parent once more, by function. Instructions \
repeat to 0.1 %, so a step of 0.5 % takes one boot of each commit. A commit that does not build or boot, or gives no answer within --timeout, is skipped; \
where skipped ones hide the commit, all that it may be are named. For noisy times there is `weighbridge bisect`.

The command of --build runs in the repository with sh; the kernel is then what --kernel names there. The repository must have no changes; afterwards \
it is as it was.

Exit code: 0 the commit is named, 2 a mistake, 3 an end does not build or boot, or something else failed, 4 the ends do not differ, no single commit \
explains the difference, or skipped ones hide it, 130 interrupted.

Examples:
  weighbridge guest bisect --good v6.11 --bad v6.12 --build 'make -j8 bzImage' roundtrip/pipe/1/same-cpu
  weighbridge guest bisect --good HEAD~200 --bad HEAD --build ./build.sh --kernel out/bzImage solo/getppid/0/same-cpu --format json")]
    Bisect(Box<Bisect>),
    /// Say what guests need and what of it is missing here, with the package that has it
    Doctor,
}

/// The machine that is booted.
#[derive(Debug, Args)]
#[command(next_help_heading = "The machine")]
pub struct Machine {
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cpus: u32,
    /// Memory, as in 512M or 2G; a number alone counts MiB
    #[arg(long = "memory", value_name = "BYTES", default_value = "1G", value_parser = values::memory_mib)]
    pub memory_mib: u32,
    /// What runs its instructions
    #[arg(long, default_value = "icount", value_parser = accelerators())]
    pub accel: Accelerators,
    /// A module to load, or a folder of modules, in the order given
    #[arg(long, value_name = "DIR")]
    pub module: Vec<PathBuf>,
    /// Time for one boot with its measurement; a guest that takes longer is killed
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration)]
    pub timeout: Duration,
}

/// What a kernel is told.
#[derive(Debug, Args)]
#[command(next_help_heading = "The machine")]
pub struct Added {
    /// Added to the kernel's command line
    #[arg(
        long,
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub append: String,
}

/// A kernel, and the machine that boots it.
#[derive(Debug, Args)]
pub struct Booted {
    /// The kernel: a bzImage, a folder, deb:PACKAGE or host
    #[arg(long, value_name = "KERNEL", help_heading = "The machine")]
    pub kernel: String,
    #[command(flatten)]
    pub added: Added,
    #[command(flatten)]
    pub machine: Machine,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Cases to measure: globs on case ids, single words, or complete ids [default: roundtrip/*/1/same-cpu]
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    #[command(flatten)]
    pub guest: Booted,
    /// Runs of a case; fewer than 6 give no interval
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=40))]
    pub runs: u16,
    #[command(flatten)]
    pub output: Output<RunFormat>,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Cases to measure: globs on case ids, single words, or complete ids [default: roundtrip/*/1/same-cpu]
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    /// Compare by a suite in place of cases
    #[arg(long, value_enum, value_name = "SUITE", conflicts_with = "globs")]
    pub suite: Option<SuiteName>,
    /// The kernel of side A, with modules of its own and what is added to its command line
    #[arg(long, value_name = "KERNEL[,module=…][,append=…]", help_heading = "What is compared")]
    pub a: String,
    /// The kernel of side B, in the same form
    #[arg(long, value_name = "KERNEL[,module=…][,append=…]", help_heading = "What is compared")]
    pub b: String,
    #[command(flatten)]
    pub machine: Machine,
    /// Boots of each side; fewer than 6 give no verdict where many cases are compared
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=100), help_heading = "Precision and time")]
    pub rounds: u16,
    /// Runs of a case in each boot
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=40), help_heading = "Precision and time")]
    pub runs: u16,
    /// Costs that differ by no more than this share are the same
    #[arg(long, value_name = "SHARE", default_value = "0.2%", value_parser = values::precision, help_heading = "Precision and time")]
    pub margin: f64,
    /// Claim any difference that is sure, also one that may be smaller than the margin
    #[arg(long, help_heading = "Precision and time")]
    pub any_difference: bool,
    /// Largest share of the claimed differences that may be chance
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = values::precision, help_heading = "Precision and time")]
    pub fdr: f64,
    /// End with code 3 where a case is inconclusive
    #[arg(long, help_heading = "Precision and time")]
    pub strict: bool,
    /// Seed of the order of boots [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    /// Keep the record of every boot in this folder, as a-1.jsonl, b-1.jsonl, …
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub keep: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output<CompareFormat>,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The case, by its whole id; a second one is compared with it
    #[arg(value_name = "CASE", required = true, num_args = 1..=2)]
    pub cases: Vec<String>,
    /// The kernel: a bzImage, a folder, deb:PACKAGE or host
    #[arg(long, value_name = "KERNEL", required_unless_present = "a", help_heading = "The machine")]
    pub kernel: Option<String>,
    #[command(flatten)]
    pub added: Added,
    #[command(flatten)]
    pub machine: Machine,
    /// In place of --kernel, the kernel of side A of a comparison
    #[arg(
        long,
        value_name = "KERNEL[,module=…][,append=…]",
        requires = "b",
        conflicts_with_all = ["kernel", "append"],
        help_heading = "What is compared"
    )]
    pub a: Option<String>,
    /// The kernel of side B, in the same form
    #[arg(
        long,
        value_name = "KERNEL[,module=…][,append=…]",
        requires = "a",
        help_heading = "What is compared"
    )]
    pub b: Option<String>,
    /// Runs of a case
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=40))]
    pub runs: u16,
    /// Write the call stacks to this file, in the form that tools for flame graphs read; of a comparison, side B goes to FILE.b
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub folded: Option<PathBuf>,
    /// Write a page with the flame graph to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output<RunFormat>,
}

#[derive(Debug, Args)]
pub struct Bisect {
    /// The case, by its whole id
    #[arg(value_name = "CASE")]
    pub case: String,
    /// A commit before the change
    #[arg(long, value_name = "REF", help_heading = "What is searched")]
    pub good: String,
    /// A commit after it
    #[arg(long, value_name = "REF", help_heading = "What is searched")]
    pub bad: String,
    /// Builds a commit, in the repository and with sh; a commit for which it fails is skipped
    #[arg(long, value_name = "CMD", help_heading = "What is searched")]
    pub build: String,
    /// The repository
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "What is searched")]
    pub repository: PathBuf,
    /// The kernel that a build leaves, below the repository: a bzImage or a folder
    #[arg(long, value_name = "PATH", default_value = ".", help_heading = "The machine")]
    pub kernel: PathBuf,
    #[command(flatten)]
    pub added: Added,
    #[command(flatten)]
    pub machine: Machine,
    /// Time for one build; one that takes longer is ended, and its commit is skipped
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = values::duration, help_heading = "Precision and time")]
    pub build_timeout: Duration,
    /// Counts that differ by no more than this share are the same
    #[arg(long, value_name = "SHARE", default_value = "0.2%", value_parser = values::precision, help_heading = "Precision and time")]
    pub margin: f64,
    /// Runs of the case in each boot
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=40), help_heading = "Precision and time")]
    pub runs: u16,
    /// What standard output shows
    #[arg(long, value_enum, default_value_t = TextOrJson::Text, help_heading = "Output")]
    pub format: TextOrJson,
    /// Write only warnings to standard error, no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Suite {
    /// Which tests
    #[arg(value_enum)]
    pub name: SuiteName,
    #[command(flatten)]
    pub guest: Booted,
    /// Runs of a case of the suite ipc; the tests of the others run once in a boot [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=40))]
    pub runs: Option<u16>,
    /// Of the suite net: bytes of a frame of Ethernet, without its checksum of 4 bytes [default: 60]
    #[arg(long, value_name = "BYTES", value_parser = values::size_within(60..=1514))]
    pub frame: Option<u32>,
    /// Of the suite net: flows that take turns, each from a port of its own [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10000))]
    pub flows: Option<u16>,
    #[command(flatten)]
    pub output: Output<RunFormat>,
}

/// The suites of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SuiteName {
    /// The kernel's allocator, and what it is made of
    Slab,
    /// Packets into a drop, an accept and a forward
    Net,
    /// Round trips between two processes on one CPU
    Ipc,
}

/// What may run a guest's instructions: each is tried where those before it do not work.
pub type Accelerators = &'static [Accel];

const ACCELERATORS: [(&str, Accelerators, &str); 4] = [
    ("icount", &[Accel::Icount], "Emulation whose clock counts instructions"),
    ("tcg", &[Accel::Tcg], "Emulation with the host's clock: its times say nothing of real ones"),
    ("kvm", &[Accel::Kvm], "The host's CPU: times; an error where /dev/kvm does not work"),
    ("auto", &[Accel::Kvm, Accel::Icount], "kvm where it works, else icount"),
];

fn accelerators() -> impl TypedValueParser<Value = Accelerators> {
    let words = ACCELERATORS.map(|(word, _, about)| PossibleValue::new(word).help(about));
    PossibleValuesParser::new(words).map(|typed| {
        let found = ACCELERATORS.into_iter().find(|(word, ..)| *word == typed);
        found.expect("one of the possible values").1
    })
}
