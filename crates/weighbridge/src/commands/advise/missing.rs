//! What a record leaves to be measured for a question.
//!
//! What is measured later is compared with what is measured beside it, never with a figure of the record: so those that the record has in front
//! are measured again with what it lacks. The others stay behind them, as the record has shown.

use weighbridge_record::{CaseId, Properties, Property};
use weighbridge_report::{Advice, Contender, Question, Report, advise};

/// Of the candidates for a question those to be measured; none where the record has them all.
pub fn of(
    candidates: &[CaseId],
    report: &Report,
    question: &Question,
    known: impl Fn(&CaseId) -> Option<Properties> + Copy,
) -> Vec<CaseId> {
    let is_there = |id: &CaseId| report.case(0, id).is_some_and(|case| case.summary.is_some());
    if candidates.iter().all(is_there) {
        return Vec::new();
    }
    let asked = |demands: Vec<Property>| {
        let question = Question { demands, ..question.clone() };
        let is_of_it = |advice: &Advice| advice.contenders.iter().any(|one| candidates.contains(&one.case));
        advise(report, &question, known).ok().filter(is_of_it)
    };
    let all = &question.demands;
    let without = |one: &Property| all.iter().copied().filter(|of| of != one).collect();
    let Some(advice) = asked(all.clone()).filter(|advice| has_a_sure_choice(advice, question)) else {
        return candidates.to_vec();
    };
    let relaxed = [Vec::new()].into_iter().chain(all.iter().map(without)).filter_map(asked);
    let front: Vec<CaseId> = [advice]
        .into_iter()
        .chain(relaxed)
        .flat_map(|advice| advice.front().map(|one| one.case.clone()).collect::<Vec<_>>())
        .collect();
    let matters = |id: &CaseId| {
        let mut back_to_back = id.clone();
        back_to_back.axes.remove("rate");
        front.contains(&back_to_back) || !is_there(&back_to_back)
    };
    let wanted: Vec<CaseId> = candidates.iter().filter(|id| matters(id)).cloned().collect();
    if wanted.iter().all(is_there) { Vec::new() } else { wanted }
}

/// Is there a choice that holds the rate, and the budget, whatever is measured of it later? What is behind it can then be left out.
fn has_a_sure_choice(advice: &Advice, question: &Question) -> bool {
    let is_within_budget = |one: &Contender| question.cpu_budget.is_none() || one.at_rate.is_some();
    let choice = advice.choice.map(|choice| &advice.contenders[choice]);
    advice.surely_holds_rate && choice.is_some_and(is_within_budget)
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{Across, Case, Contest, Contestant, Line, PerOp, Reading, Summary, SureOrder};

    use super::*;

    fn case(mechanism: &str) -> CaseId {
        CaseId::new("roundtrip", mechanism, 64, "same-cpu")
    }

    /// Of four mechanisms, the first two of which are not told apart, and the others surely behind.
    fn record(is_held_at: Option<f64>) -> Report {
        let all = [("pipe", 1.0), ("fifo", 1.01), ("unix-stream", 2.0), ("tcp", 3.0)];
        let mut lines = Vec::new();
        for (mechanism, times) in all {
            let properties = Some(Properties::of(&[Property::OtherUsers], Across::SharedPath));
            let (id, axes) = (case(mechanism), [("wait".to_owned(), "block".to_owned())].into());
            let roles = vec![String::new(); 2];
            let unit = "ns/roundtrip".to_owned();
            lines.push(Line::Case(Case {
                case: id.clone(),
                axes,
                roles,
                unit,
                properties,
                ..Case::default()
            }));
            let per_op = PerOp { cpu_ns: 2000.0 * times, ..PerOp::default() };
            let summary = Summary { per_op, ..Summary::new(id.clone(), "ns/roundtrip", 9, 1000.0 * times) };
            lines.push(Line::Summary(summary.clone()));
            if let Some(rate) = is_held_at {
                let series = [("held_per_s", rate), ("cpu_share_at_rate_percent", 1.0)]
                    .map(|(name, of)| (name.to_owned(), of));
                let case = id.with("rate", &rate.to_string());
                lines.push(Line::Summary(Summary { case, series: series.into(), ..summary }));
            }
        }
        let contestant = |(mechanism, times_first): (&str, f64)| Contestant {
            case: case(mechanism),
            tier: 0,
            may_be_best: true,
            times_first,
            interval: None,
            sets: 9,
        };
        lines.push(Line::Contest(Contest {
            contestants: all.map(contestant).into(),
            sure: vec![SureOrder {
                ahead: vec![case("pipe")],
                behind: vec![case("unix-stream"), case("tcp")],
            }],
            confidence: 0.95,
        }));
        let findings =
            weighbridge_record::Findings { contests: 1, claimed: 1, fdr: 0.05, expected_by_chance: 0.1 };
        lines.push(Line::Findings(findings));
        Report::from_reading(Reading { lines, problems: Vec::new() })
    }

    fn missing(candidates: &[CaseId], report: &Report, rate: f64, cpu_budget: Option<f64>) -> Vec<String> {
        let question = Question {
            pattern: "roundtrip".into(),
            placement: "same-cpu".into(),
            payload_bytes: 64,
            receivers: 1,
            rate,
            demands: vec![Property::OtherUsers],
            cpu_budget,
            among: Vec::new(),
        };
        of(candidates, report, &question, |_| None).iter().map(CaseId::variant).collect()
    }

    fn all() -> Vec<CaseId> {
        ["pipe", "fifo", "unix-stream", "tcp"].map(case).into()
    }

    #[test]
    fn a_record_of_all_candidates_leaves_none() {
        assert_eq!(missing(&all(), &record(None), 100.0, None), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_measured_beside_what_the_record_has_in_front() {
        let more: Vec<CaseId> = all().into_iter().chain([case("udp")]).collect();
        let wanted = missing(&more, &record(None), 100.0, None);
        assert_eq!(wanted, ["pipe", "fifo", "udp"], "the others are surely behind");
        let paced: Vec<CaseId> =
            all().into_iter().flat_map(|id| [id.clone(), id.with("rate", "100")]).collect();
        let wanted = missing(&paced, &record(None), 100.0, None);
        assert!(
            wanted.contains(&"fifo rate=100".into()) && !wanted.iter().any(|one| one.starts_with("tcp")),
            "{wanted:?}"
        );
    }

    /// Whoever is in front may turn out not to hold the rate, or to take more than the budget; then those behind it matter.
    #[test]
    fn nobody_is_left_out_behind_a_choice_that_may_fall() {
        let more: Vec<CaseId> = all().into_iter().chain([case("udp")]).collect();
        assert_eq!(
            missing(&more, &record(None), 400_000.0, None).len(),
            5,
            "2 µs of a CPU at this rate are too many"
        );
        assert_eq!(missing(&more, &record(None), 100.0, Some(0.5)).len(), 5);
        assert_eq!(missing(&more, &record(Some(100.0)), 100.0, Some(0.5)).len(), 3, "its share was measured");
    }

    #[test]
    fn a_record_of_another_question_leaves_all() {
        let sizes: Vec<CaseId> = all().into_iter().map(|id| CaseId { payload_bytes: 65536, ..id }).collect();
        assert_eq!(missing(&sizes, &record(None), 100.0, None).len(), 4);
    }
}
