//! `weighbridge bisect`: which commit changed a noisy figure. Asks for measurements, and is told what they came to.

mod state;

use std::path::Path;

use serde_json::json;
use weighbridge_record::{CaseId, Line};
use weighbridge_stats::bisect::Next as Answer;

use crate::bisect_args::{Bisect, Command, Next, Start, Tell};
use crate::repository::{Repository, short};
use crate::values::TextOrJson;
use crate::{Exit, Failure, output};
use state::State;

pub fn bisect(args: &Bisect) -> Result<Exit, Failure> {
    match &args.command {
        Command::Start(args) => start(args),
        Command::Next(args) => next(args),
        Command::Tell(args) => tell(args),
    }
}

fn start(args: &Start) -> Result<Exit, Failure> {
    let repository = Repository::read(&args.repository)?;
    let (good, bad) = (repository.commit(&args.good)?, repository.commit(&args.bad)?);
    repository.distance(&good, &bad)?;
    let commits = repository.line_of(&good, &bad)?;
    let state = State::new(good, commits, args.noise);
    state.create(&args.state)?;
    output::say(&format!("{} commits; `weighbridge bisect next` says which to measure", state.commits.len()));
    Ok(Exit::Fine)
}

fn next(args: &Next) -> Result<Exit, Failure> {
    let state = State::read(&args.state)?;
    let bisection = state.bisection();
    let answer = bisection.next();
    let levels = bisection.levels();
    let commit = |position: usize| state.commit(position).to_owned();
    let document = match &answer {
        Answer::Measure(position) => json!({ "measure": commit(*position) }),
        Answer::Found { position, probability } => {
            json!({ "first_bad": commit(*position), "probability": probability, "levels": levels })
        }
        Answer::OneOf { positions, probability } => {
            let commits: Vec<String> = positions.iter().map(|of| commit(*of)).collect();
            json!({ "one_of": commits, "probability": probability, "levels": levels })
        }
        Answer::NoStep { probability } => json!({ "no_step": probability }),
        Answer::TwoSteps { positions, probability } => {
            json!({ "two_steps": positions.map(commit), "probability": probability })
        }
    };
    output::print(match args.format {
        TextOrJson::Json => {
            let mut document = document;
            document["measurements"] = json!(bisection.measurements());
            output::json(&document)
        }
        TextOrJson::Text => text(&answer, &state, levels),
    })?;
    Ok(match answer {
        Answer::Measure(_) => Exit::Fine,
        Answer::Found { .. } => Exit::Outside,
        _ => Exit::Undecided,
    })
}

/// A commit to measure alone in its line, for scripts; of anything else a sentence.
fn text(answer: &Answer, state: &State, levels: Option<[f64; 2]>) -> String {
    let commit = |position: usize| short(state.commit(position));
    let percent = |probability: f64| format!("{:.1} %", probability * 100.0);
    let change = levels.map_or(String::new(), |[good, bad]| {
        format!("; {good:.4} before it, {bad:.4} from it on ({:+.2} %)", (bad / good - 1.0) * 100.0)
    });
    match answer {
        Answer::Measure(position) => format!("{}\n", state.commit(*position)),
        Answer::Found { position, probability } => {
            format!(
                "first bad commit: {} (probability {}){change}\n",
                state.commit(*position),
                percent(*probability)
            )
        }
        Answer::OneOf { positions, probability } => {
            let all: Vec<&str> = positions.iter().map(|of| commit(*of)).collect();
            format!(
                "one of {}, which cannot be told apart (probability {}){change}\n",
                all.join(" "),
                percent(*probability)
            )
        }
        Answer::NoStep { probability } => {
            format!("the ends do not differ (probability {}): no commit is named\n", percent(*probability))
        }
        Answer::TwoSteps { positions: [first, second], probability } => format!(
            "two commits changed it, about {} and {} (probability {}): bisect each half by itself\n",
            commit(*first),
            commit(*second),
            percent(*probability)
        ),
    }
}

fn tell(args: &Tell) -> Result<Exit, Failure> {
    let mut state = State::read(&args.state)?;
    let position = state.position(&args.commit)?;
    match (args.value, &args.record, &args.case, args.skip) {
        (_, _, _, true) => state.skip(position),
        (Some(value), ..) => state.tell(position, value)?,
        (None, Some(record), Some(case), _) => state.tell(position, figure(record, case)?)?,
        _ => {
            return Err(Failure::mistake(
                "nothing is told: give --value NUMBER, --record FILE --case CASE, or --skip",
            ));
        }
    }
    state.replace(&args.state)?;
    Ok(Exit::Fine)
}

/// The figure of a case: a multiple of its hub's drifts less than the machine.
fn figure(record: &Path, case: &str) -> Result<f64, Failure> {
    let name = record.display();
    let case: CaseId =
        case.parse().map_err(|_| Failure::mistake(format!("`{case}` is not an id of a case")))?;
    let reading = super::report::read(record)?;
    if reading.void_cases().contains(&case) {
        return Err(Failure::new(format!("{case} is void in `{name}`; measure it again")));
    }
    let found = reading.lines.iter().find_map(|line| match line {
        Line::Summary(summary) if summary.case == case => Some(summary),
        _ => None,
    });
    let summary = found.ok_or_else(|| Failure::new(format!("`{name}` has no figure of {case}")))?;
    Ok(summary.to_hub.as_ref().map_or(summary.median, |to_hub| to_hub.median))
}
