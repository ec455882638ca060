//! Records that were measured before, compared: the boot is the unit, because two boots of one kernel differ among themselves.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{Case, CaseId, CaseVerdict, Claims, Header, Line, Reading, SliceSeries, Slices};
use weighbridge_stats::compare::FEWEST_BOOTS;
use weighbridge_stats::discovery;
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};
use weighbridge_stats::evidence::Evidence;
use weighbridge_stats::{BootComparison, compare_boots, median, verdict};

use super::judge::{self, Rules};

/// The records of one side, each with the name that it is called by.
pub type SideRecords = Vec<(String, Reading)>;

/// The runs of a case in one boot, as costs: nanoseconds or seconds, and as multiples of the hub's where all of them have one.
#[derive(Clone, Debug, Default, PartialEq)]
struct BootOfCase {
    costs: Vec<f64>,
    to_hub: Vec<(CaseId, f64)>,
}

#[derive(Default)]
struct Side {
    label: String,
    machines: Vec<Header>,
    boots: BTreeSet<String>,
    cases: BTreeMap<CaseId, BTreeMap<String, BootOfCase>>,
    units: BTreeMap<CaseId, Case>,
    without_hub: BTreeSet<String>,
}

/// Compares the records of two sides: a verdict for each case that both have, and what holds of all of them; a sentence where they have none in
/// common, or are of different machines and that was not asked for.
pub fn compare(
    old: SideRecords,
    new: SideRecords,
    rules: Rules,
    across_machines: bool,
) -> Result<(Vec<CaseVerdict>, Claims), String> {
    let (a, b) = (Side::new(old), Side::new(new));
    let foreign = other_machine(&a, &b);
    if let Some(what) = foreign.as_ref().filter(|_| !across_machines) {
        return Err(format!(
            "the records are of different machines ({what}), so a ratio would be one of machines; give --across-machines \
             to compare them all the same"
        ));
    }
    let common: Vec<&CaseId> = a.cases.keys().filter(|case| b.cases.contains_key(case)).collect();
    if common.is_empty() {
        if let Some(empty) = [&a, &b].into_iter().find(|side| side.cases.is_empty()) {
            return Err(format!("no run of any case is in {}", empty.label));
        }
        let [a, b] = [&a, &b].map(|Side { label, cases, .. }| {
            format!("{label} has {} such as {}", cases.len(), cases.keys().next().expect("it has some"))
        });
        return Err(format!("the two sides have no case in common: {a}, {b}"));
    }
    let compared: Vec<OfCase> = common.iter().map(|case| OfCase::new(case, &a, &b, rules)).collect();
    // Fewer boots have no p value.
    let testable = |of: &&OfCase| of.evidence.units() >= FEWEST_BOOTS;
    let evidence: Vec<Evidence> = compared.iter().filter(testable).map(|of| of.evidence.clone()).collect();
    let judged = discovery::claims(&evidence, rules.fdr);
    let mut claims = judged.claims.iter();
    let verdicts: Vec<CaseVerdict> = compared
        .iter()
        .map(|of| {
            let claim = testable(&of).then(|| claims.next()).flatten();
            of.verdict(claim, &a, &b, foreign.as_deref(), rules)
        })
        .collect();
    let claims = Claims {
        differences: differences(&a, &b),
        remarks: remarks(&a, &b, common.len()),
        ..judge::claims_of(&verdicts, rules, verdicts.len())
    };
    Ok((verdicts, claims))
}

impl Side {
    fn new(records: SideRecords) -> Side {
        let names: Vec<&str> = records.iter().map(|(name, _)| name.as_str()).collect();
        let label = match &names[..] {
            [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
            names => names.join(", "),
        };
        let mut side = Side { label, ..Side::default() };
        for (name, reading) in records {
            side.add(&name, reading);
        }
        side
    }

    fn add(&mut self, name: &str, reading: Reading) {
        // A record that does not tell its boot is taken for one of its own.
        let mut boot = name.to_owned();
        let void = reading.void_cases();
        for line in reading.lines {
            match line {
                Line::Run(run) if void.contains(&run.case) => {}
                Line::Header(header) => {
                    boot = header.machine.boot_id.clone().unwrap_or(boot);
                    self.boots.insert(boot.clone());
                    self.machines.push(*header);
                }
                Line::Case(case) => {
                    self.units.entry(case.case.clone()).or_insert(case);
                }
                Line::Run(run) if run.value > 0.0 => {
                    let is_rate = self.units.get(&run.case).is_some_and(|case| case.higher_is_better);
                    let of_boot = self.cases.entry(run.case).or_default().entry(boot.clone()).or_default();
                    of_boot.costs.push(if is_rate { 1.0 / run.value } else { run.value });
                    let to_hub = |slices: &Slices| Some((slices.hub.clone(), ratio_to_hub(slices)?));
                    match run.slices.as_ref().and_then(to_hub) {
                        Some(to_hub) => of_boot.to_hub.push(to_hub),
                        None => _ = self.without_hub.insert(name.to_owned()),
                    }
                }
                _ => {}
            }
        }
    }

    /// The hub of every run of a case, where all of them have the same.
    fn hub_of(&self, case: &CaseId) -> Option<&CaseId> {
        let mut boots = self.cases[case].values();
        let hub = &boots.clone().next()?.to_hub.first()?.0;
        let same = |boot: &BootOfCase| {
            boot.to_hub.len() == boot.costs.len() && boot.to_hub.iter().all(|(other, _)| other == hub)
        };
        boots.all(same).then_some(hub)
    }

    fn costs(&self, case: &CaseId) -> Vec<Vec<f64>> {
        self.cases[case].values().map(|boot| boot.costs.clone()).collect()
    }

    fn to_hub(&self, case: &CaseId) -> Vec<Vec<f64>> {
        let ratios = |boot: &BootOfCase| boot.to_hub.iter().map(|(_, ratio)| *ratio).collect();
        self.cases[case].values().map(ratios).collect()
    }
}

fn ratio_to_hub(slices: &Slices) -> Option<f64> {
    let of = |series: &SliceSeries, party| -> Vec<Slice> {
        let each = series.start_ns.iter().zip(&series.elapsed_ns).zip(&series.ops);
        each.filter(|(_, ops)| **ops > 0)
            .map(|((&start_ns, &elapsed_ns), &ops)| Slice { start_ns, elapsed_ns, ops, party })
            .collect()
    };
    let mut all = of(&slices.of_case, Party::Case(0));
    all.extend(of(&slices.of_hub, Party::Hub));
    all.sort_by_key(|slice| slice.start_ns);
    set_log_ratio(&all, Party::Case(0), Party::Hub).map(f64::exp)
}

struct OfCase {
    case: CaseId,
    evidence: Evidence,
    found: BootComparison,
    raw_ratio: Option<f64>,
}

impl OfCase {
    fn new(case: &CaseId, a: &Side, b: &Side, rules: Rules) -> OfCase {
        let raw = [a.costs(case), b.costs(case)];
        let hubs = (a.hub_of(case), b.hub_of(case));
        let has_hub = matches!(hubs, (Some(of_a), Some(of_b)) if of_a == of_b);
        let boots = if has_hub { [a.to_hub(case), b.to_hub(case)] } else { raw.clone() };
        let values = |boots: &[Vec<f64>]| boots.iter().map(|runs| median(runs)).collect::<Vec<_>>();
        OfCase {
            case: case.clone(),
            evidence: Evidence::of_groups(&values(&boots[0]), &values(&boots[1])),
            found: compare_boots(&boots[0], &boots[1], rules.margin),
            raw_ratio: has_hub.then(|| compare_boots(&raw[0], &raw[1], rules.margin).ratio),
        }
    }

    fn verdict(
        &self,
        claim: Option<&discovery::Claim>,
        a: &Side,
        b: &Side,
        foreign: Option<&str>,
        rules: Rules,
    ) -> CaseVerdict {
        let boots = self.evidence.units();
        let mut remarks = vec![self.found.reason.clone()];
        let holds = claim.is_some_and(|claim| claim.holds);
        let chosen = claim.filter(|_| holds);
        let interval = chosen.and_then(|claim| claim.interval).or(self.found.interval);
        let found = match chosen {
            Some(_) => verdict(interval, rules.margin, boots),
            None => self.found.verdict,
        };
        let found = judge::unless_by_chance(found, holds, &mut remarks);
        let by_rules = rules.apply(found, interval, rules.margin, boots);
        let found = judge::said(by_rules, found, &mut remarks);
        if let Some(what) = foreign {
            remarks.push(format!("across machines: {what}"));
        }
        let known = a.units.get(&self.case).or(b.units.get(&self.case));
        let value = |side: &Side| {
            let costs: Vec<f64> = side.costs(&self.case).into_iter().flatten().collect();
            let cost = median(&costs);
            if known.is_some_and(|case| case.higher_is_better) { 1.0 / cost } else { cost }
        };
        let b_label = match foreign {
            Some(_) => format!("{} (another machine)", b.label),
            None => b.label.clone(),
        };
        CaseVerdict {
            ratio: Some(self.found.ratio),
            margin: rules.margin,
            minimum_detectable_effect: self
                .found
                .p
                .and_then(|_| rules.detectable(&self.evidence, rules.margin)),
            p: self.found.p,
            raw_ratio: self.raw_ratio,
            unit: known.map_or(String::new(), |case| case.unit.clone()),
            a_value: Some(value(a)),
            b_value: Some(value(b)),
            remarks,
            ..judge::line(&self.case, [&a.label, &b_label], found, interval, boots)
        }
    }
}

/// What two records of one machine have in common: the hardware and its name.
fn identity(header: &Header) -> [(&'static str, String); 4] {
    let machine = &header.machine;
    [
        ("hostname", machine.hostname.clone()),
        ("architecture", machine.arch.clone()),
        ("CPU", machine.cpu_model.clone()),
        ("number of CPUs", machine.cpus.len().to_string()),
    ]
}

/// In what the machines differ, where they are not the same.
fn other_machine(a: &Side, b: &Side) -> Option<String> {
    let first = identity(a.machines.first()?);
    let headers = a.machines.iter().chain(&b.machines);
    let mut pairs = headers.flat_map(|header| first.iter().zip(identity(header)));
    let ((name, here), (_, there)) = pairs.find(|((_, here), (_, there))| here != there)?;
    Some(format!("{name}: {here} and {there}"))
}

/// Everything about a machine that changes results and may change from boot to boot or from build to build.
fn facts(header: &Header) -> BTreeMap<String, String> {
    let (machine, tool) = (&header.machine, &header.tool);
    let mut facts: BTreeMap<String, String> =
        identity(header).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in [
        ("kernel", Some(&machine.kernel)),
        ("kernel build", Some(&machine.kernel_build)),
        ("kernel command line", machine.command_line.as_ref()),
        ("microcode", machine.microcode.as_ref()),
        ("virtualisation", Some(&machine.virtualisation)),
        ("clock source", Some(&machine.clock.kernel_source)),
        ("C library", machine.libc.as_ref()),
        ("weighbridge", Some(&tool.version)),
        ("commit of weighbridge", tool.commit.as_ref()),
        ("build of weighbridge", Some(&tool.profile)),
    ] {
        facts.insert(name.into(), value.map_or("unknown", String::as_str).to_owned());
    }
    for (group, values) in
        [("mitigation of", &machine.mitigations), ("power", &machine.power), ("sysctl", &machine.sysctls)]
    {
        facts.extend(values.iter().map(|(name, value)| (format!("{group} {name}"), value.clone())));
    }
    facts
}

/// What differs between the machines and programs of both sides, one sentence each.
fn differences(a: &Side, b: &Side) -> Vec<String> {
    let all = |side: &Side| {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in side.machines.iter().flat_map(facts) {
            all.entry(name).or_default().insert(value);
        }
        all
    };
    let (of_a, of_b) = (all(a), all(b));
    let said = |values: Option<&BTreeSet<String>>| match values {
        Some(values) => values.iter().map(String::as_str).collect::<Vec<_>>().join(" or "),
        None => "unknown".into(),
    };
    let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    let differs = |name: &&&String| of_a.get(**name) != of_b.get(**name);
    let sentence = |name: &String| format!("{name}: A {}, B {}", said(of_a.get(name)), said(of_b.get(name)));
    names.iter().filter(differs).map(|name| sentence(name)).collect()
}

/// Boots a side below which chance alone gives the best order too often for a claim about one of [`MANY_CASES`].
const BOOTS_FOR_MANY: usize = 6;
const MANY_CASES: usize = 10;

fn remarks(a: &Side, b: &Side, common: usize) -> Vec<String> {
    let mut all = Vec::new();
    let same: Vec<&str> = a.boots.intersection(&b.boots).map(String::as_str).collect();
    if !same.is_empty() {
        let same = same.join(", ");
        all.push(format!(
            "boot {same} is on both sides, so what is compared there is two sessions of one boot"
        ));
    }
    let without: Vec<&str> = a.without_hub.union(&b.without_hub).map(String::as_str).collect();
    if !without.is_empty() {
        let without = without.join(", ");
        all.push(format!(
            "not every run of {without} took turns with a hub; such cases are compared by their figures alone, with all that changed on \
             the machine between the records"
        ));
    }
    let left_out = a.cases.len() + b.cases.len() - 2 * common;
    if left_out > 0 {
        all.push(format!("{left_out} cases are on one side only, and left out"));
    }
    let [of_a, of_b] = [a, b].map(|side| side.boots.len());
    if of_a.min(of_b) < FEWEST_BOOTS {
        all.push(format!(
            "{of_a} and {of_b} boots: a verdict needs {FEWEST_BOOTS} a side, and {BOOTS_FOR_MANY} where many cases are compared"
        ));
    } else if of_a.min(of_b) < BOOTS_FOR_MANY && common >= MANY_CASES {
        all.push(format!(
            "{of_a} and {of_b} boots: where {common} cases are compared, no difference is sure with fewer than {BOOTS_FOR_MANY} a side"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::{Machine, Run};

    fn record(boot: &str, kernel: &str, cost: f64, has_hub: bool) -> Reading {
        let case = CaseId::new("roundtrip", "pipe", 64, "same-cpu");
        let (hostname, kernel, boot_id) = ("host".into(), kernel.into(), Some(boot.into()));
        let machine = Machine { hostname, kernel, boot_id, ..Machine::default() };
        let run = |index: u32| {
            let drift = 1.0 + 0.2 * f64::from(index);
            let series = |cost: f64, offset: u64| SliceSeries {
                start_ns: (0..8).map(|slice| slice * 10_000_000 + offset).collect(),
                elapsed_ns: vec![(cost * drift * 1000.0) as u64; 8],
                ops: vec![1000; 8],
            };
            let (of_case, of_hub) = (series(cost, 0), series(100.0, 5_000_000));
            let hub = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
            let slices =
                has_hub.then_some(Slices { hub, slice_ms: 2.0, of_case, of_hub, hub_roles: Vec::new() });
            Line::Run(Run { case: case.clone(), value: cost * drift, slices, ..Run::default() })
        };
        let header = Line::Header(Box::new(Header { machine, ..Header::default() }));
        Reading { lines: std::iter::once(header).chain((0..3).map(run)).collect(), problems: Vec::new() }
    }

    fn side(name: &str, kernel: &str, costs: &[f64], has_hub: bool) -> SideRecords {
        let one = |(index, cost): (usize, &f64)| {
            (format!("{name}{index}.jsonl"), record(&format!("{name}-{index}"), kernel, *cost, has_hub))
        };
        costs.iter().enumerate().map(one).collect()
    }

    const SIX: [f64; 6] = [200.0, 201.0, 199.0, 200.5, 198.5, 202.0];

    fn compared(old: &SideRecords, new: &SideRecords) -> (CaseVerdict, Claims) {
        let (mut verdicts, claims) = compare(old.clone(), new.clone(), Rules::default(), false).unwrap();
        (verdicts.remove(0), claims)
    }

    #[test]
    fn boots_that_are_too_few_for_a_verdict_or_for_one_of_many_cases_are_told() {
        let of = |boots: usize, cases: usize| {
            let id = |case: usize| CaseId::new("solo", &format!("test-{case}"), 0, "free");
            let side = || Side {
                boots: (0..boots).map(|boot| boot.to_string()).collect(),
                cases: (0..cases).map(|case| (id(case), BTreeMap::new())).collect(),
                ..Side::default()
            };
            let told = remarks(&side(), &side(), cases).join("; ");
            // What is said of one boot on both sides is of another kind.
            told.split("; ").filter(|sentence| sentence.contains("boots:")).collect::<String>()
        };
        assert_eq!(of(1, 1), "1 and 1 boots: a verdict needs 4 a side, and 6 where many cases are compared");
        assert!(of(4, 110).contains("where 110 cases are compared, no difference is sure with fewer than 6"));
        assert_eq!([of(4, 3), of(6, 110)], ["", ""]);
    }

    #[test]
    fn six_boots_a_side_find_a_regression_and_its_sign() {
        let slower = SIX.map(|cost| cost * 1.1);
        let (old, new) = (side("old", "6.1", &SIX, true), side("new", "6.2", &slower, true));
        let (found, claims) = compared(&old, &new);
        assert_eq!((found.verdict.as_str(), found.sets), ("regressed", 6), "{found:?}");
        assert!((found.ratio.unwrap() - 1.1).abs() < 0.01 && (found.raw_ratio.unwrap() - 1.1).abs() < 0.01);
        assert!(claims.differences.contains(&"kernel: A 6.1, B 6.2".to_owned()), "{claims:?}");
        assert_eq!(claims.claimed, 1);
        assert_eq!(compared(&new, &old).0.verdict, "improved");
        assert_eq!(compared(&old, &side("new", "6.1", &SIX, true)).0.verdict, "equivalent");
    }

    #[test]
    fn one_boot_a_side_is_inconclusive_and_the_same_boot_is_named() {
        let one = side("x", "6.1", &[200.0], true);
        let (found, claims) = compared(&one, &one);
        assert!(found.is_inconclusive());
        let remarks = claims.remarks.join("\n");
        assert!(remarks.contains("boot x-0 is on both sides") && remarks.contains("needs 4"), "{remarks}");
    }

    #[test]
    fn records_without_hub_are_compared_by_their_figures_and_that_is_said() {
        let (found, claims) = compared(&side("old", "6.1", &SIX, true), &side("new", "6.1", &SIX, false));
        assert_eq!(found.raw_ratio, None);
        assert!(claims.remarks[0].contains("not every run of new0.jsonl"), "{claims:?}");
    }

    #[test]
    fn other_machines_and_other_cases_are_refused() {
        let old = side("old", "6.1", &SIX, true);
        let changed = |change: fn(&mut Line)| {
            let mut new = side("new", "6.1", &SIX, true);
            new.iter_mut().flat_map(|(_, reading)| &mut reading.lines).for_each(change);
            new
        };
        let elsewhere = changed(|line| {
            if let Line::Header(header) = line {
                header.machine.hostname = "elsewhere".into();
            }
        });
        let why = compare(old.clone(), elsewhere.clone(), Rules::default(), false).unwrap_err();
        assert!(why.contains("hostname: host and elsewhere") && why.contains("--across-machines"), "{why}");
        let (verdicts, _) = compare(old.clone(), elsewhere, Rules::default(), true).unwrap();
        assert!(verdicts[0].remarks.iter().any(|remark| remark.starts_with("across machines")));
        let other = changed(|line| {
            if let Line::Run(run) = line {
                run.case.mechanism = "tcp".into();
            }
        });
        let why = compare(old, other, Rules::default(), false).unwrap_err();
        assert!(why.contains("no case in common"), "{why}");
    }
}
