//! `weighbridge dbus replay`: the traffic of a capture on other buses, and what it costs there.

mod verdict;

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_os::sched;
use clap::ValueEnum;
use serde::Serialize;
use weighbridge_dbus_client::brokers::{Broker, Error as BrokerError, Limits, Program};
use weighbridge_dbus_replay::plan::{Counts, Plan, Planner};
use weighbridge_dbus_replay::player::{Options, Run, Speed, play};
use weighbridge_harness::duet::Random;
use weighbridge_report::{Document, Section, Table, grouped, start_of_2010_s};
use weighbridge_stats::Evidence;
use weighbridge_stats::order::median;

use super::read::{Captures, Source};
use super::watch::{Messages, Watch};
use crate::commands::measuring::random_seed;
use crate::dbus_args::{Replay, ReplayPlace, Target};
use crate::destination::refuse_existing;
use crate::values::{CompareFormat, DocumentFormat};
use crate::{Exit, Failure, output};

/// Rounds when brokers are compared.
const ROUNDS: u16 = 7;
const CONFIDENCE: f64 = 0.95;
/// Well above what a busy machine delays a broker; it is in the time of a replay that loses broadcasts.
const GIVE_UP: Duration = Duration::from_millis(500);

/// A bus that the capture is replayed on.
#[derive(Debug, Serialize)]
struct Subject {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip)]
    target: Target,
}

/// One replay.
#[derive(Debug, Serialize)]
struct Played {
    /// From 1.
    round: u16,
    broker: String,
    #[serde(flatten)]
    run: Run,
}

/// What a broker costs in comparison with the first one, by pairs of replays of one round.
#[derive(Debug, Serialize)]
struct Ratio {
    broker: String,
    baseline: String,
    quantity: &'static str,
    pairs: usize,
    ratio: f64,
    #[serde(flatten)]
    interval: Option<Interval>,
}

#[derive(Debug, Serialize)]
struct Interval {
    low: f64,
    high: f64,
    confidence: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    files: Vec<Source>,
    connections: usize,
    messages: Counts,
    /// Times the recorded speed; nothing for as fast as causes allow.
    speed: Option<f64>,
    place: String,
    rounds: u16,
    brokers: Vec<Subject>,
    replays: Vec<Played>,
    ratios: Vec<Ratio>,
}

/// A figure of a replay: its name, and how to find it.
type Quantity = (&'static str, fn(&Run) -> Option<f64>);

const TIME: Quantity = ("time", |run| Some(run.wall_ns as f64));
const CPU: Quantity = ("CPU time of the broker", |run| run.usage.map(|usage| usage.cpu_ns as f64));
const SWITCHES: Quantity = ("switches of the broker", |run| run.usage.map(|usage| usage.switches as f64));
const QUANTITIES: [Quantity; 3] = [TIME, CPU, SWITCHES];

pub fn replay(args: &Replay) -> Result<Exit, Failure> {
    if let (Some(a), Some(b)) = (&args.a, &args.b) {
        return verdict::compare(args, a, b);
    }
    if args.format == CompareFormat::Junit {
        return Err(Failure::mistake("JUnit has verdicts; say what to compare with --a and --b"));
    }
    let subjects = subjects(args)?;
    let (plan, files) = read(args)?;
    let rounds = args.rounds.unwrap_or(if subjects.len() > 1 { ROUNDS } else { 1 });
    if args.trace_out.is_some() && (subjects.len(), rounds) != (1, 1) {
        return Err(Failure::mistake(
            "--trace-out is of one replay; name one bus with --broker, and no more than one of --rounds",
        ));
    }
    if let Some(file) = &args.trace_out {
        refuse_existing(file, "--trace-out")?;
    }
    prepare();
    let broker_cpu = place(args.place)?;
    let (mut replays, mut timeline) = (Vec::new(), Ok(()));
    for round in 1..=rounds {
        for subject in in_random_order(&subjects) {
            let (run, written) = replayed(&plan, subject, broker_cpu, args)?;
            timeline = timeline.and(written);
            replays.push(Played { round, broker: subject.name.clone(), run });
        }
    }
    let report = Report {
        files,
        connections: plan.connections().len(),
        messages: plan.counts().clone(),
        speed: if let Speed::Times(times) = args.speed { Some(times) } else { None },
        place: name_of(args.place),
        rounds,
        ratios: ratios(&subjects, &replays),
        brokers: subjects,
        replays,
    };
    let format = match args.format {
        CompareFormat::Table | CompareFormat::Junit => DocumentFormat::Table,
        CompareFormat::Markdown => DocumentFormat::Markdown,
        CompareFormat::Json => DocumentFormat::Json,
    };
    output::print(output::rendered(format, || report.document(), &report))?;
    timeline.map(|()| Exit::Fine)
}

/// A bus with a thousand connections needs as many descriptors, here and in the broker that is started.
fn prepare() {
    if let Err(error) = causeway_os::limits::raise_nofile() {
        output::warn(&format!("the limit on open files stays as it is: {error}"));
    }
}

fn name_of(place: ReplayPlace) -> String {
    place.to_possible_value().expect("no place is hidden").get_name().to_owned()
}

fn subjects(args: &Replay) -> Result<Vec<Subject>, Failure> {
    let installed = || Program::ALL.into_iter().filter(|program| program.path().is_some());
    let targets =
        if args.broker.is_empty() { installed().map(Target::Broker).collect() } else { args.broker.clone() };
    let mut subjects: Vec<Subject> = Vec::new();
    for target in targets {
        let found = subject(&target, args)?;
        if subjects.iter().any(|other| other.name == found.name) {
            return Err(Failure::mistake(format!("--broker: `{}` is there twice", found.name)));
        }
        subjects.push(found);
    }
    if subjects.is_empty() {
        return Err(Failure::new(
            "no broker is installed; install dbus-daemon or dbus-broker, or name a running bus with --broker ADDRESS",
        ));
    }
    Ok(subjects)
}

fn subject(target: &Target, args: &Replay) -> Result<Subject, Failure> {
    let (name, version) = match target {
        Target::Broker(program) if program.path().is_none() => {
            return Err(Failure::of(BrokerError::Missing(*program)));
        }
        Target::Broker(program) => (program.name().to_owned(), program.version()),
        Target::Build(_, file) if !file.is_file() => {
            return Err(Failure::mistake(format!("`{}` is not a file of a broker", file.display())));
        }
        Target::Build(program, file) => {
            (format!("{program}={}", file.display()), Program::version_of(&in_this_folder(file)))
        }
        Target::Address(address) if args.place != ReplayPlace::Free => {
            return Err(Failure::mistake(format!(
                "--place is for brokers that are started for the replay, and `{address}` runs already; leave it out"
            )));
        }
        Target::Address(address) => (address.clone(), None),
    };
    Ok(Subject { name, version, target: target.clone() })
}

/// A file that is named without a folder is one of the present folder, and none of `PATH`.
fn in_this_folder(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.into())
}

/// Puts this process where it is to run, and says on which CPU the broker is.
fn place(place: ReplayPlace) -> Result<Option<u32>, Failure> {
    let refused = |error: causeway_os::Error| Failure::mistake(format!("--place: {error}"));
    let cpus = sched::allowed_cpus().map_err(refused)?;
    let (player, broker) = match (place, &cpus[..]) {
        (ReplayPlace::Free, _) => return Ok(None),
        (ReplayPlace::SameCpu, [only, ..]) => (*only, *only),
        (ReplayPlace::TwoCpus, [player, broker, ..]) => (*player, *broker),
        _ => {
            return Err(Failure::mistake(
                "--place two-cpus needs two CPUs, and this process may run on one; use --place same-cpu or leave it out",
            ));
        }
    };
    sched::pin(&[player]).map_err(refused)?;
    Ok(Some(broker))
}

fn read(args: &Replay) -> Result<(Plan, Vec<Source>), Failure> {
    let captures = Captures::open(&args.files)?;
    if !captures.have_sizes() {
        return Err(Failure::mistake(
            "a text of `dbus-monitor` has no sizes and no signatures; record with `weighbridge dbus capture` or `dbus-monitor --pcap`",
        ));
    }
    let mut planner = Planner::default();
    let files = captures.read(|packet| {
        planner.push(packet);
        Ok(())
    })?;
    let plan = planner.finish();
    if plan.counts().sent == 0 {
        return Err(Failure::new("the capture has no message that can be sent again"));
    }
    Ok((plan, files))
}

fn in_random_order(subjects: &[Subject]) -> Vec<&Subject> {
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    Random::new(random_seed()).shuffle(&mut order);
    order.into_iter().map(|index| &subjects[index]).collect()
}

/// One replay, and whether its time line could be written; a private broker is started for it alone.
fn replayed(
    plan: &Plan,
    subject: &Subject,
    broker_cpu: Option<u32>,
    args: &Replay,
) -> Result<(Run, Result<(), Failure>), Failure> {
    let broker = match &subject.target {
        Target::Address(_) => None,
        Target::Broker(program) => Some(Broker::start(*program, &Limits::default())),
        Target::Build(program, file) => {
            Some(Broker::start_file(*program, in_this_folder(file), &Limits::default()))
        }
    };
    let broker = broker.transpose().map_err(|error| match &subject.target {
        // Which build.
        Target::Build(..) => Failure::new(format!("{}: {error}", subject.name)),
        _ => Failure::of(error),
    })?;
    let pid = broker.as_ref().map(Broker::pid);
    if let (Some(pid), Some(cpu)) = (pid, broker_cpu) {
        let pinned = sched::pin_process(pid, &[cpu]);
        pinned.map_err(|error| Failure::new(format!("--place: {error}")))?;
    }
    let options = Options {
        speed: args.speed,
        give_up: GIVE_UP,
        stall: args.timeout,
        pid,
        native_share: args.native_share,
        is_watched: args.trace_out.is_some(),
    };
    let watch = args.trace_out.as_ref().map(|file| (Watch::begin(pid), file));
    let played = play(plan, broker.as_ref().map_or(&subject.name, Broker::address), &options);
    let run = played.map_err(|error| match &broker {
        None => Failure::of(error),
        Some(broker) if has_ended(broker) => {
            Failure::new(format!("{}: the broker ended in the middle: {error}", subject.name))
        }
        Some(_) => Failure::new(format!("{}: {error}", subject.name)),
    })?;
    let messages = Messages::Replay(plan, &run.notes);
    let written =
        watch.map_or(Ok(()), |(watch, file)| watch.end("replay of a D-Bus capture", &messages, file));
    Ok((run, written))
}

/// The sockets of a process close a little before it has ended.
fn has_ended(broker: &Broker) -> bool {
    const TRIES: u32 = 20;
    (0..TRIES).any(|_| {
        let has_ended = broker.has_ended();
        if !has_ended {
            std::thread::sleep(Duration::from_millis(10));
        }
        has_ended
    })
}

fn runs<'a>(on: &Subject, replays: &'a [Played]) -> impl Iterator<Item = &'a Run> {
    replays.iter().filter(|played| played.broker == on.name).map(|played| &played.run)
}

/// Of every broker but the first, by pairs of the same round.
fn ratios(subjects: &[Subject], replays: &[Played]) -> Vec<Ratio> {
    let Some((baseline, others)) = subjects.split_first() else { return Vec::new() };
    let ratio = |(other, (quantity, of)): (&Subject, Quantity)| {
        let pairs: Vec<(f64, f64)> = runs(baseline, replays)
            .zip(runs(other, replays))
            .filter_map(|(baseline, other)| of(baseline).zip(of(other)))
            .filter(|(baseline, other)| *baseline > 0.0 && *other > 0.0)
            .collect();
        let evidence = Evidence::of_pairs(&pairs);
        let interval = evidence.interval(CONFIDENCE);
        Some(Ratio {
            broker: other.name.clone(),
            baseline: baseline.name.clone(),
            quantity,
            pairs: pairs.len(),
            ratio: evidence.ratio()?,
            interval: interval.map(|of| Interval { low: of.low, high: of.high, confidence: of.confidence }),
        })
    };
    others.iter().flat_map(|other| QUANTITIES.map(|of| (other, of))).filter_map(ratio).collect()
}

impl Report {
    fn document(&self) -> Document {
        let files: Vec<&str> = self.files.iter().map(|source| source.file.as_str()).collect();
        let title = format!("Replay of {}", files.join(", "));
        let mut sections = vec![Section::of(&title, self.lead(), Vec::new()), self.brokers()];
        if !self.ratios.is_empty() {
            sections.push(self.ratios());
        }
        Document { title, warnings: Vec::new(), sections }
    }

    fn lead(&self) -> Vec<String> {
        let messages = &self.messages;
        let mut lead = vec![format!(
            "{} of {} messages are sent again over {} connections; {} are of the driver, which each bus makes itself.",
            grouped(messages.sent),
            grouped(messages.captured),
            grouped(self.connections as u64),
            grouped(messages.of_driver),
        )];
        let left_out = messages.left_out.iter();
        lead.extend(left_out.map(|(why, count)| format!("{} {why}; they are not sent.", grouped(*count))));
        for (count, what) in [
            (messages.filled, "have a body of the same size in place of their own, which is cut."),
            (messages.starting, "started their destination; they are sent when it has its name."),
            (
                messages.confirmed,
                "change rules or names and ask for a reply now, so that their moment is known.",
            ),
        ] {
            if count > 0 {
                lead.push(format!("{} of those that are sent {what}", grouped(count)));
            }
        }
        let speed = match self.speed {
            None => "as fast as causes allow".to_owned(),
            Some(1.0) => "at the recorded speed".to_owned(),
            Some(times) => format!("{times} times as fast as recorded"),
        };
        let order = if self.brokers.len() > 1 { ", each round in random order" } else { "" };
        let rounds = if self.rounds == 1 { "1 round".into() } else { format!("{} rounds", self.rounds) };
        let place = match self.place.as_str() {
            "same-cpu" => ", player and broker on one CPU",
            "two-cpus" => ", the broker on another CPU than the player",
            _ => "",
        };
        lead.push(format!("Played {speed}, {rounds}{order}{place}."));
        lead
    }

    fn brokers(&self) -> Section {
        let of = |subject: &Subject, figure: &dyn Fn(&Run) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs(subject, &self.replays).map(figure).collect();
            values.filter(|values| !values.is_empty()).map(|values| median(&values))
        };
        let rows = |subject: &Subject| {
            let millis = |figure: fn(&Run) -> Option<f64>| {
                of(subject, &figure).map_or("–".into(), |ns| format!("{:.1}", ns / 1e6))
            };
            let count = |figure: &dyn Fn(&Run) -> Option<f64>| {
                of(subject, figure).map_or("–".into(), |count| grouped(count.round() as u64))
            };
            // A median would hide what happens in every second round.
            let worst = |figure: fn(&Run) -> u64| {
                runs(subject, &self.replays).map(figure).max().map_or("–".into(), grouped)
            };
            let [(_, time), (_, cpu), (_, switches)] = QUANTITIES;
            let title = [Some(subject.name.as_str()), subject.version.as_deref()].into_iter().flatten();
            vec![
                title.collect::<Vec<_>>().join(" "),
                millis(time),
                millis(cpu),
                count(&switches),
                count(&|run| Some(run.sent as f64)),
                count(&|run| Some(run.received as f64)),
                worst(|run| run.lost),
                worst(|run| run.unplanned),
                worst(Run::refusals),
            ]
        };
        let head =
            ["broker", "time ms", "CPU ms", "switches", "sent", "received", "lost", "unplanned", "refused"];
        let table = Table::of_first(&head, 1, self.brokers.len(), &self.brokers, rows);
        let mut about = vec![
            "Medians of the rounds; CPU time and context switches are those of the broker. Lost, unplanned and refused are those of the worst round."
                .to_owned(),
        ];
        let first = |subject: &Subject| {
            let why = runs(subject, &self.replays).find_map(|run| run.first_refusal.as_ref())?;
            Some(format!("{} refused first: {why}.", subject.name))
        };
        about.extend(self.brokers.iter().filter_map(first));
        Section::of("Brokers", about, table.blocks())
    }

    fn ratios(&self) -> Section {
        let rows = |ratio: &Ratio| {
            let end = |end: fn(&Interval) -> f64| {
                ratio.interval.as_ref().map_or("–".into(), |interval| format!("{:.3}", end(interval)))
            };
            let times = format!("{:.3}", ratio.ratio);
            vec![ratio.broker.clone(), ratio.quantity.into(), times, end(|of| of.low), end(|of| of.high)]
        };
        let head = ["broker", "of", "ratio", "from", "to"];
        let table = Table::of_first(&head, 2, self.ratios.len(), &self.ratios, rows);
        let baseline = self.ratios.first().map_or("", |ratio| ratio.baseline.as_str());
        let confidence = CONFIDENCE * 100.0;
        let about = format!(
            "Compared with {baseline}, by pairs of replays of one round; from … to is the interval of {confidence} %."
        );
        let published = start_of_2010_s().map(|[daemon, kernel]| {
            format!(
                "Published of 2010: a start of a chat program (Telepathy, N900) took {daemon} s through dbus-daemon and {kernel} s through the kernel, \
                 a ratio of {:.3}; its programs' own work is in both, and a replay has none of it.",
                kernel / daemon
            )
        });
        Section::of("Ratios", std::iter::once(about).chain(published), table.blocks())
    }
}
