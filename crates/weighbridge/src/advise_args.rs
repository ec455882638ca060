//! What was typed after `weighbridge advise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::Caps;
use weighbridge_record::Property;

use crate::values::{self, PageFormat};
use crate::{Failure, nearest};

/// What stands below the options.
pub const AFTER_HELP: &str = "\
Answers which mechanism to take for a message of yours. One receiver is a round trip, or with --one-way a stream; several are a fan-out. \
Each candidate is measured as your demands need it (a descriptor for --pollable, strangers for --users any), all in one interleaved \
session, and beside them what the demands exclude, so that each demand has a price. With --record only what the record lacks is measured, beside what \
it has in front; with --no-measure nothing.

The order and what is sure of it are those of `weighbridge run`, whose record this is; `weighbridge report` shows the rest of it. Where \
something is not said, a terminal is asked; elsewhere a default is taken, which standard error names.

Exit code: 0 a choice, 1 nothing that was measured meets all demands, 2 a mistake in what was typed, 3 nothing could be measured or read, \
4 the choice is not sure and --strict was given, or the record breaks a law, 130 interrupted.

Examples:
  weighbridge advise --payload 500 --receivers 8 --rate 20000 --users any --cpus 2
  weighbridge advise --payload 64K --users any --among pipe,unix-stream
  weighbridge advise --payload 64 --pollable --survives-kill --across-containers --cpu-budget 10%
  weighbridge advise --payload 64K --one-way --record record.jsonl --no-measure --format json";

/// The most receivers.
pub const RECEIVERS_MAX: u64 = 1000;

/// Whose processes exchange messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Users {
    /// Of one user, who trust each other
    Same,
    /// Of users that do not trust each other
    Any,
}

#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// Bytes of a message, as in 500 or 4K [default: 64]
    #[arg(long, value_name = "BYTES", value_parser = values::size, help_heading = "What is exchanged")]
    pub payload: Option<u64>,
    /// How many receive each message [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RECEIVERS_MAX), help_heading = "What is exchanged")]
    pub receivers: Option<u64>,
    /// Messages in a second, with one receiver round trips, as in 20000 or 20k [default: 1000]
    #[arg(long, value_name = "N", value_parser = values::per_second, help_heading = "What is exchanged")]
    pub rate: Option<f64>,
    /// CPUs on which all of it runs [default: 2, or 1 where there is one]
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2), help_heading = "What is exchanged")]
    pub cpus: Option<u8>,
    /// Messages go one way, without a reply
    #[arg(long, help_heading = "What is exchanged")]
    pub one_way: bool,
    /// Choose among these mechanisms, as in pipe,unix-stream [default: all that `weighbridge list` shows]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "What is exchanged")]
    pub among: Vec<String>,
    /// Whose processes exchange them [default: same]
    #[arg(long, value_enum, value_name = "WHOSE", help_heading = "Demands")]
    pub users: Option<Users>,
    /// The end that waits has a descriptor for poll and epoll
    #[arg(long, help_heading = "Demands")]
    pub pollable: bool,
    /// Of a peer that is killed the others learn, and lose nothing of their own
    #[arg(long, help_heading = "Demands")]
    pub survives_kill: bool,
    /// The ends may be in containers that share no namespace
    #[arg(long, help_heading = "Demands")]
    pub across_containers: bool,
    /// A receive gives the message that a send was given
    #[arg(long, help_heading = "Demands")]
    pub boundaries: bool,
    /// Nothing is lost while all peers live
    #[arg(long, help_heading = "Demands")]
    pub lossless: bool,
    /// No memory is mapped by both ends
    #[arg(long, help_heading = "Demands")]
    pub no_shared_memory: bool,
    /// The most that all processes may take together, as a share of one CPU at the rate, as in 10%
    #[arg(long, value_name = "SHARE", value_parser = values::cpu_share, help_heading = "Demands")]
    pub cpu_budget: Option<f64>,
    /// A shared object with mechanisms of your own, which are then candidates like the others; several may be given
    #[arg(long, value_name = "FILE", help_heading = "What is exchanged")]
    pub target: Vec<PathBuf>,
    /// Read this record, and measure only what it lacks, into a record of its own
    #[arg(long, value_name = "RECORD", help_heading = "Where figures come from")]
    pub record: Option<PathBuf>,
    /// Answer from the record alone, by the nearest size and number of receivers that it has
    #[arg(long, requires = "record", conflicts_with_all = ["budget", "out", "dry_run"], help_heading = "Where figures come from")]
    pub no_measure: bool,
    /// Time for all runs together, as in 90s or 5m [default: 150s; less where a record has a part]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Where figures come from")]
    pub budget: Option<Duration>,
    /// Show which cases would be measured; measure and write nothing
    #[arg(long, help_heading = "Where figures come from")]
    pub dry_run: bool,
    /// The record of what is measured, a file that does not exist yet, or --force [default: a file in ~/.local/state/weighbridge, see `weighbridge history`]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// The form of the advice
    #[arg(long, value_enum, default_value = "table", help_heading = "Output")]
    pub format: PageFormat,
    /// End with code 4 where the choice is not sure
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
    /// Write only warnings to standard error, no progress; ask nothing
    #[arg(long, short, env = "WEIGHBRIDGE_QUIET", value_parser = FalseyValueParser::new(), help_heading = "Output")]
    pub quiet: bool,
}

impl AdviseArgs {
    /// Refuses what `--among` names and nothing has for a name. Not while words are read: mechanisms of `--target` are loaded after that.
    pub fn checked(&self) -> Result<(), Failure> {
        let known: Vec<&str> = catalogue::all()
            .filter(|target| !target.caps.has(Caps::HARNESS))
            .map(|target| target.id)
            .collect();
        let Some(word) = self.among.iter().find(|word| !known.contains(&word.as_str())) else {
            return Ok(());
        };
        Err(Failure::mistake(match nearest::words(word, &known).as_slice() {
            [] => format!("--among: `{word}` is not a mechanism; `weighbridge list` shows them"),
            close => format!("--among: `{word}` is not a mechanism; the nearest is {}", close.join(", ")),
        }))
    }

    /// The properties that are demanded by an option of their name.
    pub fn demands(&self) -> Vec<Property> {
        let asked = |property: &Property| match property {
            Property::OtherUsers => self.users == Some(Users::Any),
            Property::Pollable => self.pollable,
            Property::SurvivesKill => self.survives_kill,
            Property::AcrossContainers => self.across_containers,
            Property::Boundaries => self.boundaries,
            Property::Lossless => self.lossless,
            Property::WithoutSharedMemory => self.no_shared_memory,
        };
        Property::ALL.into_iter().filter(asked).collect()
    }
}
