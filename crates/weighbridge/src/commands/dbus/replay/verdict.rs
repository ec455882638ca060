//! `--a` and `--b`: a capture as a test of regressions.

use std::time::Instant;

use weighbridge_dbus_replay::player::Run;
use weighbridge_harness::compare::{Rules, Triples, judge_triples};
use weighbridge_harness::duet::Random;
use weighbridge_harness::machine;
use weighbridge_harness::session::Ended;
use weighbridge_record::{CaseId, CaseVerdict};

use super::{Quantity, Subject, place, prepare, read, replayed, subject};
use crate::commands::compare::{conclude, judged, rendered};
use crate::commands::look_at_host;
use crate::commands::measuring::{header, random_seed};
use crate::dbus_args::{Replay, Target};
use crate::values::quoted;
use crate::{Exit, Failure, output};

/// Enough for a verdict, and two that a disturbance may take.
const ROUNDS: u16 = 12;

/// What is judged, by the name of its case, with its unit.
const JUDGED: [(&str, &str, Quantity); 3] = [
    ("time", "ns", super::TIME),
    ("broker-cpu", "ns", super::CPU),
    ("broker-switches", "switches", super::SWITCHES),
];

/// Replays the capture on both sides in turn and prints the verdicts.
pub fn compare(args: &Replay, a: &Target, b: &Target) -> Result<Exit, Failure> {
    if args.trace_out.is_some() {
        return Err(Failure::mistake(
            "--trace-out is of one replay, and a comparison makes many; leave it out",
        ));
    }
    let sides = [subject(a, args)?, subject(b, args)?];
    let (plan, _) = read(args)?;
    prepare();
    let host = look_at_host()?;
    let broker_cpu = place(args.place)?;
    let (began, seed) = (Instant::now(), random_seed());
    let mut random = Random::new(seed);
    let mut rounds: Vec<[Run; 3]> = Vec::new();
    // Why B cannot be replayed on, where A can.
    let mut failed = None;
    'rounds: for _ in 0..args.rounds.unwrap_or(ROUNDS) {
        // A, B and A once more.
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        let mut runs = [None, None, None];
        for at in order {
            runs[at] = match replayed(&plan, &sides[at % 2], broker_cpu, args) {
                Ok((run, _)) => Some(run),
                Err(why) if at == 1 => {
                    // What fails on A too says nothing of B.
                    replayed(&plan, &sides[0], broker_cpu, args).map(drop)?;
                    failed = Some(why.to_string());
                    break 'rounds;
                }
                Err(why) => return Err(why),
            };
        }
        rounds.push(runs.map(|run| run.expect("each is replayed once a round")));
    }
    let labels = [0, 1].map(|side| label(&sides[side]));
    let case = |of: &str| CaseId::new("replay", of, 0, &super::name_of(args.place));
    let quantities = JUDGED.iter().filter_map(|(name, unit, (_, of))| {
        let figures: Option<Vec<[f64; 3]>> = rounds
            .iter()
            .map(|runs| runs.iter().map(*of).collect::<Option<Vec<f64>>>()?.try_into().ok())
            .collect();
        Some(Triples { case: case(name), labels: labels.clone(), unit: (*unit).into(), figures: figures? })
    });
    let rules = Rules { margin: args.margin, ..Rules::default() };
    let (mut verdicts, claims) = judge_triples(&quantities.collect::<Vec<_>>(), rules);
    verdicts.push(answers(case("answers"), labels.clone(), &rounds, failed));
    let files: Vec<String> = args.files.iter().map(|file| quoted(file)).collect();
    let [of_a, of_b] = labels;
    let settings =
        [("a", of_a), ("b", of_b), ("files", files.join(" ")), ("margin", args.margin.to_string())];
    let header = header(settings, machine::describe(&host), seed);
    let (_, report) = judged(header, &verdicts, &claims, began.elapsed().as_secs_f64());
    output::print(rendered(&report, args.format))?;
    conclude(args.strict, Ended::Complete, &report, None)
}

fn label(of: &Subject) -> String {
    [Some(of.name.as_str()), of.version.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Whether B carries the messages as A does, in every round: what costs nothing because it is refused is no improvement.
fn answers(case: CaseId, [a, b]: [String; 2], rounds: &[[Run; 3]], failed: Option<String>) -> CaseVerdict {
    let worst = |side: usize| {
        let astray = |run: &Run| run.lost + run.unplanned + run.refusals();
        rounds.iter().map(|runs| astray(&runs[side])).max().unwrap_or(0)
    };
    let (of_a, of_b) = (worst(0).max(worst(2)), worst(1));
    let is_worse = of_b > of_a || failed.is_some();
    let first = rounds.iter().find_map(|runs| runs[1].first_refusal.as_ref()).filter(|_| of_b > of_a);
    let astray =
        format!("{of_a} messages are lost, refused or unplanned in the worst replay on A, {of_b} on B");
    let remarks = [
        failed.map(|why| format!("B fails after {} rounds: {why}", rounds.len())),
        (!rounds.is_empty()).then_some(astray),
        first.map(|why| format!("B refused first: {why}")),
    ];
    CaseVerdict {
        case,
        a,
        b,
        verdict: if is_worse { "changed shape" } else { "equivalent" }.into(),
        sets: rounds.len() as u32,
        unit: "messages".into(),
        a_value: Some(of_a as f64),
        b_value: Some(of_b as f64),
        remarks: remarks.into_iter().flatten().collect(),
        ..CaseVerdict::default()
    }
}
