//! Records of many machines: pushed into a store that is files, and asked.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use weighbridge_fleet::analysis::{Options, analyze};
use weighbridge_fleet::examples::EXAMPLES;
use weighbridge_fleet::filter::Filter;
use weighbridge_fleet::lake::{Lake, Wanted};
use weighbridge_fleet::push::{self, push, records};
use weighbridge_fleet::report::{Format, report};
use weighbridge_fleet::store::Store;
use weighbridge_fleet::{Exit, Failure, compact, compare, secrets, sql, table};
use weighbridge_record::plan::Plan;
use weighbridge_report::Style;

/// Records of many machines: files in an object store, and what they say together.
///
/// URL is a folder, file://, s3://, gs:// or az://; credentials come from the environment variables of each provider's own tools. Exit
/// codes: 0 done, 1 a cost went up (compare), 2 will not work the next time either, 4 nothing can be said, 75 the store is away.
#[derive(Debug, Parser)]
#[command(name = "weighbridge-fleet", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Puts records into the store: each as it was, then a table of its cases. Safe to repeat.
    Push {
        /// The store.
        url: String,
        /// Records, or folders with records (*.jsonl).
        #[arg(required = true)]
        records: Vec<PathBuf>,
        #[command(flatten)]
        patience: Patience,
    },
    /// Writes the table of a record's cases as a Parquet file, without a network.
    Parquet {
        /// The record.
        record: PathBuf,
        /// The file; the record's name with .parquet where it is not given.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// What all machines say together: what is off, why, since when, what is missing, what to measure again.
    Report {
        /// The store.
        url: String,
        #[command(flatten)]
        of: Of,
        /// Rows of which this SQL condition holds.
        #[arg(long = "where", value_name = "SQL")]
        only: Option<String>,
        /// Differences below it do not matter.
        #[arg(long, default_value = "3%", value_parser = share)]
        margin: f64,
        /// A file with the names of the machines that should be there, one a line.
        #[arg(long, value_name = "FILE")]
        hosts: Option<PathBuf>,
        /// Writes a plan of what to measure again, which `weighbridge run --plan` carries out on each of its machines.
        #[arg(long, value_name = "FILE", requires = "plan")]
        remeasure: Option<PathBuf>,
        /// The plan that was carried out, whose cases and effort --remeasure asks for again.
        #[arg(long, value_name = "FILE", requires = "remeasure")]
        plan: Option<PathBuf>,
        /// The most machines of a class to measure again; one in twenty where it is not given.
        #[arg(long, value_name = "N")]
        most: Option<usize>,
        /// How to write it.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
        /// Where to write it.
        #[arg(long)]
        out: Option<PathBuf>,
        #[command(flatten)]
        patience: Patience,
    },
    /// Two groups of sessions, case by case; the machine is the unit.
    Compare {
        /// The store.
        url: String,
        /// The sessions of one side, as an SQL condition: "kernel_release = '6.1.0'".
        #[arg(long, value_name = "SQL")]
        a: String,
        /// Those of the other side.
        #[arg(long, value_name = "SQL")]
        b: String,
        /// Compares each machine with itself.
        #[arg(long)]
        paired: bool,
        #[command(flatten)]
        of: Of,
        /// Differences below it do not matter.
        #[arg(long, default_value = "2%", value_parser = share)]
        margin: f64,
        /// How to write it.
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
        #[command(flatten)]
        patience: Patience,
    },
    /// Answers a query over the table `results` and its views `measured` and `latest`.
    Sql {
        /// The store.
        url: String,
        /// The query; not needed with --duckdb.
        #[arg(required_unless_present = "duckdb")]
        query: Option<String>,
        /// Prints what gives DuckDB the same table and views, and asks nothing.
        #[arg(long)]
        duckdb: bool,
        /// How to write the answer.
        #[arg(long, value_enum, default_value = "table")]
        format: sql::Format,
        #[command(flatten)]
        patience: Patience,
    },
    /// Copies the tables of closed days into few files of another store.
    Compact {
        /// The store.
        url: String,
        /// The other store.
        #[arg(long, value_name = "URL")]
        to: String,
        /// Days before this one: 2026-11-26.
        #[arg(long, value_name = "DAY")]
        before: String,
        #[command(flatten)]
        patience: Patience,
    },
    /// Prints a starter: slurm, kubernetes, parallel, ansible.
    Examples {
        /// Which; a list of them where it is not given.
        name: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Of {
    /// Only sessions from this day on: 2026-11-26.
    #[arg(long, value_name = "DAY")]
    since: Option<String>,
    /// Only this campaign.
    #[arg(long)]
    campaign: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Patience {
    /// For how long a request that fails is made again, in seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    patience: u64,
}

impl Patience {
    fn open(&self, url: &str) -> Result<Store, Failure> {
        Store::open(url, Duration::from_secs(self.patience))
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(execute(args.command)),
        Err(error) => Err(Failure::new(Exit::Again, format!("no threads to work with: {error}"))),
    };
    let exit = ended.unwrap_or_else(|failure| {
        say(&format!("error: {failure}"));
        failure.exit
    });
    ExitCode::from(exit as u8)
}

async fn execute(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Push { url, records, patience } => pushed(&url, &records, &patience).await,
        Command::Parquet { record, out } => {
            let out = out.unwrap_or_else(|| record.with_extension("parquet"));
            let (read, _) = push::read(&record)?;
            write(&out, &table::parquet(&table::batch(&read)))?;
            say(&format!("{}: {} cases", out.display(), read.outcomes.len()));
            Ok(Exit::Fine)
        }
        Command::Report { url, of, only, margin, hosts, remeasure, plan, most, format, out, patience } => {
            let only = only.as_deref().map(Filter::new).transpose()?;
            let expected = hosts.map(names).transpose()?.unwrap_or_default();
            let again = remeasure.zip(plan.map(planned).transpose()?);
            let store = patience.open(&url)?;
            let wanted = Wanted { only, since: of.since, campaign: of.campaign, ..Wanted::default() };
            let lake = Lake::read(&store, &wanted).await?;
            not_empty(&lake, &store)?;
            let findings = analyze(&lake, &Options { margin, expected, remeasure: most });
            if let Some((file, plan)) = again {
                let plan =
                    serde_json::to_string_pretty(&findings.remeasure.as_plan(&plan)).expect("plain data");
                write(&file, plan.as_bytes())?;
            }
            let text = report(&findings, format, Style::default());
            out.map_or_else(|| print(&text), |file| write(&file, text.as_bytes()))?;
            Ok(told(&lake.problems))
        }
        Command::Compare { url, a, b, paired, of, margin, format, patience } => {
            let sides = vec![Filter::new(&a)?, Filter::new(&b)?];
            let store = patience.open(&url)?;
            let wanted = Wanted { sides, since: of.since, campaign: of.campaign, ..Wanted::default() };
            let lake = Lake::read(&store, &wanted).await?;
            not_empty(&lake, &store)?;
            let found = compare::compare(&lake, [a, b], margin, paired);
            let document = compare::document(&found);
            let text = match format {
                Format::Text => document.text(Style::default()),
                Format::Html => document.html(),
                Format::Json => serde_json::to_string_pretty(&found).expect("plain data") + "\n",
            };
            print(&text)?;
            let exit = if found.hosts.contains(&0) { Exit::Undecided } else { found.exit() };
            for (name, hosts) in ["A", "B"].iter().zip(found.hosts).filter(|(_, hosts)| *hosts == 0) {
                say(&format!(
                    "error: {name} has {hosts} machines with a figure in {}; the condition is that of a row of `results`",
                    store.shown()
                ));
            }
            Ok(if told(&lake.problems) == Exit::Fine { exit } else { Exit::Hopeless })
        }
        Command::Sql { url, query, duckdb, format, patience } => {
            let store = patience.open(&url)?;
            let Some(query) = query.filter(|_| !duckdb) else {
                print(&sql::for_duckdb(&store))?;
                return Ok(Exit::Fine);
            };
            let (answer, problems) = sql::answer(&store, &query, format).await?;
            print(&answer)?;
            Ok(told(&problems))
        }
        Command::Compact { url, to, before, patience } => {
            let (from, to) = (patience.open(&url)?, patience.open(&to)?);
            let done = compact::compact(&from, &to, &before).await?;
            say(&format!("{} rows of {} objects are in {} of {}", done.rows, done.from, done.to, to.shown()));
            Ok(told(&done.problems))
        }
        Command::Examples { name: None } => {
            let lines = EXAMPLES.iter().map(|of| format!("{:12} {}\n", of.name, of.about));
            print(&lines.collect::<String>())?;
            Ok(Exit::Fine)
        }
        Command::Examples { name: Some(name) } => {
            let known = EXAMPLES.iter().map(|example| example.name).collect::<Vec<_>>().join(", ");
            let example = EXAMPLES.iter().find(|example| example.name == name);
            let unknown = || Failure::hopeless(format!("there is no example {name}; there are {known}"));
            print(example.ok_or_else(unknown)?.text)?;
            Ok(Exit::Fine)
        }
    }
}

async fn pushed(url: &str, paths: &[PathBuf], patience: &Patience) -> Result<Exit, Failure> {
    let files = records(paths)?;
    let store = patience.open(url)?;
    let done = push(&store, &files).await;
    for failure in &done.failures {
        say(&format!("error: {failure}"));
    }
    let also = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    let at_work = also(done.at_work, "still being written");
    let not = also(done.failures.len(), "not pushed");
    say(&format!("{}: {} new, {} there already{at_work}{not}", store.shown(), done.new, done.known));
    Ok(done.exit())
}

/// An empty store is no fleet without a fault.
fn not_empty(lake: &Lake, store: &Store) -> Result<(), Failure> {
    if !lake.sessions.is_empty() || !lake.problems.is_empty() {
        return Ok(());
    }
    let where_from = store.shown();
    Err(Failure::hopeless(format!("no results in {where_from}; `weighbridge record push` puts them there")))
}

fn told(problems: &[Failure]) -> Exit {
    problems.iter().for_each(|problem| say(&format!("error: {problem}")));
    if problems.is_empty() { Exit::Fine } else { Exit::Hopeless }
}

fn text_of(file: &std::path::Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::hopeless(format!("{}: {error}", file.display())))
}

fn planned(file: PathBuf) -> Result<Plan, Failure> {
    Plan::read(&text_of(&file)?).map_err(|why| Failure::hopeless(format!("{} {why}", file.display())))
}

fn names(file: PathBuf) -> Result<Vec<String>, Failure> {
    Ok(text_of(&file)?
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(String::from)
        .collect())
}

fn write(file: &std::path::Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, bytes).map_err(|error| Failure::hopeless(format!("{}: {error}", file.display())))
}

/// A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::hopeless(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// What stands on standard error holds no secret.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", secrets::hidden(text));
}

/// `3%` or `0.03`.
fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share = number.trim().parse::<f64>().map(|number| number * scale).ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is no share between 0 and 100 %"))
}
