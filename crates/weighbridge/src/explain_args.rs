//! What was typed after `weighbridge explain`. What does it is in [`commands::explain`](crate::commands).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weighbridge_analysis::explain::Asked;
use weighbridge_record::CaseId;

use crate::Failure;
use crate::output_args::OutputWithPage;
use crate::values::{self, DocumentFormat};

/// What stands below the options.
pub const AFTER_HELP: &str = "\
The cost: a round trip is measured in turns with what it is made of: the same mechanism with both ends in one process, which never waits, trivial \
system calls, copies, switches. Its cost is then a count times a price for each part, and what is left: the unexplained part, with its interval. \
What cannot be measured alone (to block and to be woken) is fitted from other mechanisms, never from the one that is explained. The verdict is \
about what the case costs beyond the mechanism to itself: `not explained` where surely more than 15 % of that are left. Beside it stands what a \
model that knows no parts would say: the median of the other mechanisms. Prices are tried in the case itself: work of a known price is put into \
each operation (the axis `dose`), and what the case costs more is the price there.

The kernel: a case is observed in runs of its own. Events of the CPUs of its roles are counted, and their time is sampled. Each probe is used in a \
run by itself, in turns with unobserved runs, so that the cost of looking is known. Figures of observed runs are no results. What \
the kernel does not allow is left out, and named with the right or setting that would allow it. Samples rank functions and are no exact times: \
one that falls where interrupts are off is taken where they come back on.

The time line: the roles note when each message begins, is written and is read, and the kernel's scheduler is recorded beside them where that is allowed: the phases of an operation, and a picture of a few operations in the page.

--a with --b answers what the kernel does differently in two cases; whether one costs more, `weighbridge compare` says, and in which functions \
the instructions differ, `weighbridge guest explain`.

A what-if question is a part and how many more or fewer (switches-1, system-calls+2; spaces are `-`, a beginning is enough), payload=BYTES, or \
prices=RECORD, the price list of another machine's explanation.

Exit code: 0 success, 2 a usage mistake, 3 nothing explained, 4 its figures are void, 130 interrupted.

Examples:
  weighbridge explain roundtrip/pipe/64/same-cpu
  weighbridge explain roundtrip/pipe/1/two-cpus                    the halt of idle CPUs is a part of its own
  weighbridge explain roundtrip/unix-stream/64/same-cpu --what-if switches-1 --what-if payload=65536
  weighbridge explain --suite quick --place same-cpu               every mechanism, each predicted from the others
  weighbridge explain --a roundtrip/pipe/1/same-cpu --b roundtrip/unix-stream/1/same-cpu
  weighbridge explain roundtrip/pipe/1/two-cpus --only kernel --folded stacks.txt
  weighbridge explain --timeline roundtrip/pipe/1/same-cpu
  weighbridge explain --timeline pingpong/futex/0/two-cpus --only timeline --trace-out futex.json
  weighbridge explain --probes                                     what can be used to look here";

/// A question that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// What the cost is made of
    Cost,
    /// What the kernel does meanwhile
    Kernel,
    /// When each thing happens; as --timeline
    Timeline,
}

/// So many cases are observed without asking.
const FEW: usize = 2;

/// What `weighbridge explain` takes besides the cases.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Answer these questions only [default: cost and kernel for one or two cases, cost for more; timeline if --timeline asks for it]
    #[arg(
        long,
        value_enum,
        value_name = "QUESTION,…",
        value_delimiter = ',',
        help_heading = "What is explained"
    )]
    pub only: Vec<Question>,
    #[command(flatten)]
    pub cost: CostArgs,
    #[command(flatten)]
    pub observation: ObserveArgs,
    #[command(flatten)]
    pub timeline: TimelineArgs,
    /// Seed of the order of sets and runs [default: a random one, kept in the record]
    #[arg(long, value_name = "N", help_heading = "Precision and time")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub output: OutputWithPage<DocumentFormat>,
}

impl ExplainArgs {
    /// Is this answered of so many cases?
    pub fn answers(&self, question: Question, cases: usize) -> bool {
        match question {
            Question::Timeline if self.timeline.timeline => true,
            _ if !self.only.is_empty() => self.only.contains(&question),
            Question::Cost => true,
            Question::Kernel => cases <= FEW,
            Question::Timeline => false,
        }
    }

    /// Refuses the first option of a question that is not answered. `is_answered` says whether there are cases left for it, of so many that were
    /// selected.
    pub fn check(&self, cases: usize, is_answered: impl Fn(Question) -> bool) -> Result<(), Failure> {
        let Self { cost, observation, timeline, .. } = self;
        let options = [
            ("--what-if", !cost.what_if.is_empty(), Question::Cost),
            ("--runs", cost.runs.is_some(), Question::Cost),
            ("--budget", cost.budget.is_some(), Question::Cost),
            ("--no-system-calls", cost.no_system_calls, Question::Cost),
            ("--no-doses", cost.no_doses, Question::Cost),
            ("--a with --b", observation.a.is_some(), Question::Kernel),
            ("--rounds", observation.rounds.is_some(), Question::Kernel),
            ("--top", observation.top.is_some(), Question::Kernel),
            ("--folded", observation.folded.is_some(), Question::Kernel),
            ("--trace-out", timeline.trace_out.is_some(), Question::Timeline),
        ];
        let refused =
            options.into_iter().find(|(_, is_given, question)| *is_given && !is_answered(*question));
        let Some((option, _, question)) = refused else { return Ok(()) };
        let name = question.to_possible_value().expect("no question is hidden").get_name().to_owned();
        if self.answers(question, cases) {
            return Err(Failure::mistake(format!(
                "{option} has no effect: none of the selected cases has an answer to the question `{name}`"
            )));
        }
        let of = format!(" of {cases} cases unless it is named");
        let of = if self.only.is_empty() { of } else { String::new() };
        Err(Failure::mistake(format!(
            "{option} has no effect, because the question `{name}` is not answered{of}; name it with --only, as in `--only {name}`"
        )))
    }

    /// What was typed and decides what is measured, for the header of a record.
    pub fn settings(&self, costs: usize) -> Vec<(&'static str, String)> {
        let Self { cost, observation, timeline, .. } = self;
        let what_if: Vec<&str> = cost.what_if.iter().map(|asked| asked.text.as_str()).collect();
        let only: Vec<String> =
            self.only.iter().map(|question| format!("{question:?}").to_lowercase()).collect();
        let case = |case: &Option<CaseId>| case.as_ref().map_or(String::new(), CaseId::to_string);
        let yes = |is_set: bool| if is_set { "yes".to_owned() } else { String::new() };
        vec![
            ("only", only.join(",")),
            ("a", case(&observation.a)),
            ("b", case(&observation.b)),
            ("what-if", what_if.join(",")),
            ("sets", cost.sets().to_string()),
            ("budget", format!("{}s", cost.budget(costs).as_secs_f64())),
            ("no-system-calls", yes(cost.no_system_calls)),
            ("no-doses", yes(cost.no_doses)),
            ("rounds", observation.rounds().to_string()),
            ("top", observation.top.map_or(String::new(), |top| top.to_string())),
            ("timeline", yes(timeline.timeline)),
        ]
    }
}

/// Time for one case, or a few.
const LEAST_BUDGET: Duration = Duration::from_secs(18);
/// Time for each of many cases.
const BUDGET_OF_CASE: Duration = Duration::from_secs(5);

/// How costs are explained.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Answer by the same prices what a case would cost otherwise: PART±N, payload=BYTES or prices=RECORD; may be given several times
    #[arg(long, value_name = "QUESTION", value_parser = what_if, help_heading = "What is explained", allow_hyphen_values = true)]
    pub what_if: Vec<WhatIf>,
    /// Sets of each case at most, 6 to 60; fewer than 5 measured give no intervals [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(6..=60), help_heading = "Precision and time")]
    pub runs: Option<u16>,
    /// Time for all sets together, as in 30s or 2m [default: 18s, or 5s for each case where that is more]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Precision and time")]
    pub budget: Option<Duration>,
    /// Count no system calls, which takes one more run of each case, with a tracer (ptrace)
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
    /// Try no price in the case itself, which takes further sets of it with some work put into its operations, at most a third of the budget
    #[arg(long, help_heading = "Precision and time")]
    pub no_doses: bool,
}

impl CostArgs {
    /// Sets of each case at most.
    pub fn sets(&self) -> u16 {
        self.runs.unwrap_or(12)
    }

    /// Time for the sets of so many cases.
    pub fn budget(&self, cases: usize) -> Duration {
        self.budget.unwrap_or(LEAST_BUDGET.max(BUDGET_OF_CASE * cases as u32))
    }
}

/// A what-if question as it was typed and as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    pub text: String,
    /// As it was understood.
    pub asked: Asked,
}

fn what_if(text: &str) -> Result<WhatIf, String> {
    let asked = match text.strip_prefix("payload=") {
        Some(bytes) => Asked::Payload(values::size(bytes)?),
        None => Asked::parse(text)?,
    };
    Ok(WhatIf { text: text.into(), asked })
}

/// How a case is observed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Observation")]
pub struct ObserveArgs {
    /// Show what can be used to look here, and which right or setting would allow the rest; measure nothing
    #[arg(long)]
    pub probes: bool,
    /// Observe this case and the one of --b, and compare them
    #[arg(long, value_name = "CASE", requires = "b", conflicts_with_all = ["globs", "suite"])]
    pub a: Option<CaseId>,
    /// The case that is compared with that of --a
    #[arg(long, value_name = "CASE", requires = "a")]
    pub b: Option<CaseId>,
    /// Rounds of an unobserved run and one with each probe; fewer than 6 give no interval of the cost of looking [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// Functions to list of a case, each with its samples [default: 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Write all stacks to this file, which must not exist yet, for tools that draw flame graphs
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
}

impl ObserveArgs {
    /// Rounds of each case.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(8)
    }
}

/// What of the time line is wanted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Time line")]
pub struct TimelineArgs {
    /// Show when each thing happens: the phases of an operation, and a picture of a few operations in the page
    #[arg(long)]
    pub timeline: bool,
    /// File for the time line in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open; for one case
    #[arg(long, value_name = "FILE.json", requires = "timeline")]
    pub trace_out: Option<PathBuf>,
}
