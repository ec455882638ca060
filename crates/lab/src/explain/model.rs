//! Which primitives a round trip is made of, and how many of each: the case itself says its system calls, switches and faults, the target
//! its copies, and the same mechanism to itself what is left of it without a wait.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_explain::{Direct, Fitted, Formula, Subject, names, place_of};
use weighbridge_record::{CaseId, PerOp, Skipped, SystemCalls};

use crate::axis::{Choice, Idle};
use crate::catalogue::{self, Refusal};
use crate::contract::{Caps, Prepared};
use crate::host::Host;
use crate::hub;

/// Mechanisms from which prices are fitted where too few others are asked for.
const REFERENCES: [&str; 6] = ["pipe", "fifo", "unix-stream", "unix-seqpacket", "mq-posix", "ring-futex"];
/// With so many mechanisms of one place no further ones are needed.
const ENOUGH: usize = 5;
/// A count below this is noise.
const LEAST: f64 = 0.02;
/// Axes that the same mechanism to itself does not have.
const NOT_TO_ITSELF: [&str; 5] = ["time", "rate", "warm", "idle", "peers"];

/// Why a case cannot be explained; `None` where it can.
pub fn refusal(case: &Prepared, host: &Host) -> Option<String> {
    let id = &case.params.id;
    let example = "explain takes round trips of mechanisms, as in roundtrip/pipe/64/same-cpu; `weighbridge list roundtrip` shows them";
    if id.pattern != "roundtrip" {
        let what = match id.pattern.as_str() {
            "solo" | "self" | "pingpong" => "it is a price itself, of which others are made",
            _ => "its operations overlap, so that counts times prices do not add up to its time",
        };
        return Some(format!("{id} cannot be explained: {what}; {example}"));
    }
    if !case.target.caps.has(Caps::VIRTUAL_TIME)
        && let Err(why) = hub::of(case)
    {
        return Some(format!("{id} cannot be explained: it cannot take turns with a hub: {why}; {example}"));
    }
    match catalogue::prepare(&to_itself(id, id.payload_bytes), host) {
        Ok(_) => None,
        Err(Refusal::NotHere(why) | Refusal::NoSuchCase(why)) => Some(format!(
            "{id} cannot be explained: what it does without a wait cannot be measured: {why}; {example}"
        )),
    }
}

/// The same mechanism with both ends in one role.
fn to_itself(case: &CaseId, payload_bytes: u64) -> CaseId {
    let placement = if case.placement == "free" { "free" } else { "same-cpu" };
    let mut id = CaseId::new("self", &case.mechanism, payload_bytes, placement);
    id.axes = case.axes.clone();
    id.axes.retain(|axis, _| !NOT_TO_ITSELF.contains(&axis.as_str()));
    id
}

fn solo(op: &str, bytes: u64) -> CaseId {
    CaseId::new("solo", op, bytes, "same-cpu")
}

fn cache_line(case: &CaseId) -> CaseId {
    CaseId::new("pingpong", "atomic", 0, &case.placement)
}

fn yields() -> CaseId {
    CaseId::new("pingpong", "spin-yield", 0, "same-cpu")
}

/// The case with CPUs that do not halt.
fn without_halts(case: &CaseId) -> CaseId {
    case.clone().with(Idle::AXIS.name, Idle::Busy.name())
}

/// Everything that is measured, and what for.
pub(super) struct Plan {
    pub(super) groups: Vec<(Option<CaseId>, Vec<Prepared>)>,
    pub(super) hubs: BTreeMap<CaseId, Prepared>,
    pub(super) skipped: Vec<Skipped>,
    explained: Vec<Target>,
    payloads: Vec<u64>,
}

/// A case that becomes a subject.
struct Target {
    case: Prepared,
    is_asked: bool,
    /// Its parts are those of this case, and what the halt of CPUs adds.
    twin: Option<CaseId>,
}

/// What was counted.
pub(super) struct Counts {
    pub(super) per_op: BTreeMap<CaseId, PerOp>,
    pub(super) calls: BTreeMap<CaseId, SystemCalls>,
    /// Why the system calls of a case were not counted.
    pub(super) not_counted: BTreeMap<CaseId, String>,
    /// The same of cases that are in neither.
    pub(super) otherwise: &'static str,
}

impl Plan {
    pub(super) fn new(cases: &[Prepared], payloads: &[u64], host: &Host) -> Plan {
        let mut plan = Plan {
            groups: Vec::new(),
            hubs: BTreeMap::new(),
            skipped: Vec::new(),
            explained: Vec::new(),
            payloads: payloads.to_vec(),
        };
        for case in cases {
            plan.add_target(case.clone(), true, host);
        }
        // Prices are fitted where CPUs do not halt.
        let real = |target: &Target| !target.case.target.caps.has(Caps::VIRTUAL_TIME);
        let places: BTreeSet<(String, CaseId)> = plan
            .explained
            .iter()
            .filter(|target| real(target))
            .map(|target| target.twin.clone().unwrap_or_else(|| target.case.params.id.clone()))
            .map(|id| {
                let mut like = CaseId::new("roundtrip", "pipe", 1, &id.placement);
                like.axes
                    .extend(id.axes.get(Idle::AXIS.name).map(|idle| (Idle::AXIS.name.into(), idle.clone())));
                (place_of(&id), like)
            })
            .collect();
        for (place, like) in places {
            let mut mechanisms: BTreeSet<String> = plan.mechanisms_at(&place);
            for reference in REFERENCES {
                if mechanisms.len() > ENOUGH || !mechanisms.insert(reference.into()) {
                    continue;
                }
                let id = CaseId { mechanism: reference.into(), ..like.clone() };
                if let Ok(case) = catalogue::prepare(&id, host) {
                    plan.add_target(case, false, host);
                }
            }
        }
        plan.add_primitives(host);
        plan
    }

    fn mechanisms_at(&self, place: &str) -> BTreeSet<String> {
        let here = |target: &&Target| place_of(&target.case.params.id) == place;
        self.explained.iter().filter(here).map(|target| target.case.params.id.mechanism.clone()).collect()
    }

    fn add_target(&mut self, case: Prepared, is_asked: bool, host: &Host) {
        let id = case.params.id.clone();
        if self.explained.iter().any(|target| target.case.params.id == id) {
            return;
        }
        let halts = case.target.caps.has(Caps::PAYLOAD)
            && !case.target.caps.has(Caps::VIRTUAL_TIME)
            && !case.params.same_cpu()
            && case.params.choice_if_declared() == Some(Idle::Halt);
        let twin = halts.then(|| without_halts(&id));
        if let Some(Ok(twin)) = twin.as_ref().map(|twin| catalogue::prepare(twin, host)) {
            self.add_target(twin, false, host);
        }
        let own = to_itself(&id, id.payload_bytes);
        let mut group = vec![case.clone()];
        if twin.is_none() {
            group.extend(self.prepared(&own, host));
        }
        let hub = self.hub_of(&case, host);
        self.groups.push((hub, group));
        self.explained.push(Target { case, is_asked, twin });
    }

    /// A case that is not planned yet and can run here.
    fn prepared(&mut self, id: &CaseId, host: &Host) -> Option<Prepared> {
        if self.groups.iter().flat_map(|(_, cases)| cases).any(|case| case.params.id == *id) {
            return None;
        }
        match catalogue::prepare(id, host) {
            Ok(case) => Some(case),
            Err(Refusal::NotHere(why) | Refusal::NoSuchCase(why)) => {
                self.skipped.push(Skipped { case: id.clone(), step: "fit".into(), why });
                None
            }
        }
    }

    /// A small pipe in the same place: it feels the noise of what blocks there.
    fn hub_of(&mut self, case: &Prepared, host: &Host) -> Option<CaseId> {
        if case.target.caps.has(Caps::VIRTUAL_TIME) {
            return None;
        }
        let id = &case.params.id;
        let mut hub = CaseId::new("roundtrip", "pipe", 1, &id.placement);
        hub.axes.extend(id.axes.get(Idle::AXIS.name).map(|idle| (Idle::AXIS.name.into(), idle.clone())));
        if !self.hubs.contains_key(&hub) {
            self.hubs.insert(hub.clone(), catalogue::prepare(&hub, host).ok()?);
        }
        Some(hub)
    }

    fn add_primitives(&mut self, host: &Host) {
        // Virtual time is made of nothing but itself.
        let has_real = self.explained.iter().any(|target| !target.case.target.caps.has(Caps::VIRTUAL_TIME));
        let mut wanted = match has_real {
            true => vec![
                solo("getppid", 0),
                solo("sched-yield", 0),
                yields(),
                solo("futex-wake", 0),
                solo("first-touch", 0),
            ],
            false => Vec::new(),
        };
        let targets: Vec<(CaseId, u32, bool, bool)> = self
            .explained
            .iter()
            .map(|target| {
                let params = &target.case.params;
                let is_apart = !params.same_cpu() && params.id.placement != "free";
                (params.id.clone(), target.case.target.copies(), is_apart, target.is_asked)
            })
            .collect();
        for (id, copies, is_apart, is_asked) in targets {
            let further = if is_asked { self.payloads.clone() } else { Vec::new() };
            for bytes in std::iter::once(id.payload_bytes).chain(further) {
                if copies > 0 && bytes > 0 {
                    wanted.push(solo("memcpy", bytes));
                }
                if bytes != id.payload_bytes {
                    wanted.push(to_itself(&id, bytes));
                }
            }
            if is_apart {
                wanted.push(cache_line(&id));
            }
        }
        let mut primitives: Vec<Prepared> = Vec::new();
        for id in wanted {
            if primitives.iter().all(|case| case.params.id != id) {
                primitives.extend(self.prepared(&id, host));
            }
        }
        // In virtual time alone; all others two by two with the hub of one place, in which a single role is alike.
        let (virtual_time, real): (Vec<_>, Vec<_>) =
            primitives.into_iter().partition(|case| case.target.caps.has(Caps::VIRTUAL_TIME));
        self.groups.extend(virtual_time.into_iter().map(|case| (None, vec![case])));
        let like = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let Ok(hub) = catalogue::prepare(&like, host) else { return };
        self.hubs.insert(like.clone(), hub);
        self.groups.extend(real.chunks(2).map(|pair| (Some(like.clone()), pair.to_vec())));
    }

    /// Are the system calls of this case a part of something?
    pub(super) fn counts_calls_of(&self, id: &CaseId) -> bool {
        id.pattern == "self" || self.explained.iter().any(|target| target.case.params.id == *id)
    }

    /// The cases in terms of the model, from what was counted. Only cases in `measured` have a cost.
    pub(super) fn subjects(&self, counts: &Counts, measured: &BTreeSet<&CaseId>) -> Vec<Subject> {
        let is_measured = |target: &&Target| measured.contains(&target.case.params.id);
        self.explained
            .iter()
            .filter(is_measured)
            .map(|target| self.subject(target, counts, measured))
            .collect()
    }

    fn subject(&self, target: &Target, counts: &Counts, measured: &BTreeSet<&CaseId>) -> Subject {
        let id = &target.case.params.id;
        let twin = target.twin.as_ref().filter(|twin| measured.contains(twin));
        let like = twin.unwrap_or(id);
        let per_op = counts.per_op.get(like).cloned().unwrap_or_default();
        let mut remarks = Vec::new();
        let mut direct = parts(target, like, id.payload_bytes, counts, measured, &mut remarks);
        if let Some(twin) = twin {
            let price = Formula::of(id.clone()).less(1.0, twin.clone());
            let about = format!("the case less the same with idle=busy, {twin}");
            direct.push(Direct { name: names::HALTS, of: Some(id.to_string()), about, count: 1.0, price });
        } else if target.twin.is_some() {
            remarks.push(
                "what the halt of idle CPUs adds is not told apart: idle=busy could not be measured".into(),
            );
        }
        let own = to_itself(id, id.payload_bytes);
        let mut counted = [like].into_iter().chain(measured.contains(&own).then_some(&own));
        if let Some(case) = counted.find(|case| !counts.calls.contains_key(case)) {
            let why = counts.not_counted.get(case).map_or(counts.otherwise, String::as_str);
            let of = if case == id { String::new() } else { format!(" of {case}") };
            remarks.push(format!(
                "system calls{of} were not counted: {why}; they are in own work and in the unexplained part"
            ));
        }
        let is_apart = !target.case.params.same_cpu() && id.placement != "free";
        let mut fitted = Vec::new();
        if per_op.voluntary_switches > LEAST && !target.case.target.caps.has(Caps::HARNESS) {
            fitted.extend(
                [names::BLOCK, names::WAKE].map(|name| Fitted { name, count: per_op.voluntary_switches }),
            );
        }
        if is_apart && id.payload_bytes > 64 {
            fitted
                .push(Fitted { name: names::BYTES_BETWEEN_CPUS, count: hops(id) * id.payload_bytes as f64 });
        }
        let at_payload = self.payloads.iter().filter_map(|bytes| {
            // What the mechanism does itself must be known with both payloads, or it would be the difference of the two.
            let own = [*bytes, id.payload_bytes].map(|bytes| to_itself(id, bytes));
            own.iter().all(|own| measured.contains(own)).then(|| {
                let parts = parts(target, like, *bytes, counts, measured, &mut Vec::new());
                let halts = direct.iter().filter(|part| part.name == names::HALTS).cloned();
                (*bytes, parts.into_iter().chain(halts).collect())
            })
        });
        Subject {
            at_payload: at_payload.collect(),
            case: Some(id.clone()),
            place: place_of(like),
            is_asked: target.is_asked,
            unit: target.case.pattern.unit.name(id.payload_bytes),
            direct,
            fitted,
            per_op: counts.per_op.get(id).cloned().unwrap_or_default(),
            system_calls: counts.calls.get(id).cloned(),
            remarks,
        }
    }
}

/// Ways that the payload goes in a round trip.
fn hops(case: &CaseId) -> f64 {
    if case.axes.get("direction").is_some_and(|direction| direction == "request") { 1.0 } else { 2.0 }
}

/// The parts with measured prices, as far as their prices were measured.
fn parts(
    target: &Target,
    like: &CaseId,
    payload_bytes: u64,
    counts: &Counts,
    measured: &BTreeSet<&CaseId>,
    remarks: &mut Vec<String>,
) -> Vec<Direct> {
    let id = &target.case.params.id;
    let own = to_itself(id, payload_bytes);
    let (entry, copy) = (solo("getppid", 0), solo("memcpy", payload_bytes));
    let mut parts: Vec<Direct> = Vec::new();
    let mut add = |name, of: Option<String>, about: &str, count: f64, price: Formula| {
        if count > LEAST {
            parts.push(Direct { name, of, about: about.into(), count, price });
        }
    };
    let calls_to_itself = counts.calls.get(&to_itself(id, id.payload_bytes));
    let has_entry = measured.contains(&entry);
    let calls = calls_to_itself.filter(|_| has_entry).map_or(0.0, |calls| calls.per_op);
    let copies = match measured.contains(&copy) {
        true => f64::from(target.case.target.copies()) * hops(id),
        false => 0.0,
    };
    let size = if payload_bytes == 1 { "1 byte".to_owned() } else { format!("{payload_bytes} bytes") };
    add(names::SYSTEM_CALLS, None, "a trivial system call: solo/getppid", calls, Formula::of(entry.clone()));
    add(
        names::COPIES,
        Some(size.clone()),
        "one copy of the payload between two buffers that are used again: solo/memcpy",
        copies,
        Formula::of(copy.clone()),
    );
    if measured.contains(&own) {
        let mut price = Formula::of(own.clone());
        if calls > LEAST {
            price = price.less(calls, entry.clone());
        }
        if copies > LEAST {
            price = price.less(copies, copy);
        }
        let of = match own.axes.is_empty() {
            true => format!("{}, {size}", id.mechanism),
            false => format!("{}, {size}, {}", id.mechanism, axes(&own)),
        };
        let about =
            format!("the round trip of one role with both ends, {own}, less its system calls and copies");
        add(names::OWN_WORK, Some(of), &about, 1.0, price);
    } else {
        remarks.push(format!(
            "what the mechanism does itself was not measured ({own}); it is in the unexplained part"
        ));
    }
    let further = counts.calls.get(like).zip(calls_to_itself).map(|(all, own)| more_calls(all, own));
    let (futexes, others) = further.filter(|_| has_entry).unwrap_or((0.0, 0.0));
    if measured.contains(&solo("futex-wake", 0)) {
        let about = "FUTEX_WAKE of a word on which no thread sleeps: solo/futex-wake";
        add(names::FURTHER_CALLS, Some("futex".into()), about, futexes, Formula::of(solo("futex-wake", 0)));
    }
    let about = "calls that the mechanism to itself does not make, as a trivial system call: solo/getppid";
    add(names::FURTHER_CALLS, Some("others".into()), about, others, Formula::of(entry));
    let of_case = |case: &CaseId| counts.per_op.get(case).cloned().unwrap_or_default();
    let (per_op, per_op_own) = (of_case(like), of_case(&own));
    if measured.contains(&yields()) && measured.contains(&solo("sched-yield", 0)) {
        let switches = per_op.voluntary_switches + per_op.involuntary_switches;
        let about = "a hop of two processes that yield to each other on one CPU, pingpong/spin-yield, less a yield to nobody, solo/sched-yield";
        add(names::SWITCHES, None, about, switches, Formula::of(yields()).less(1.0, solo("sched-yield", 0)));
    }
    if measured.contains(&solo("first-touch", 0)) {
        let faults = per_op.minor_faults - per_op_own.minor_faults;
        let about = "the first write to a page of anonymous memory: solo/first-touch";
        add(names::PAGE_FAULTS, None, about, faults, Formula::of(solo("first-touch", 0)));
    }
    if measured.contains(&cache_line(id)) {
        let about = "a word from one CPU to the other, where both look at it all the time: pingpong/atomic";
        add(names::CACHE_LINES, None, about, 2.0, Formula::of(cache_line(id)));
    }
    parts
}

fn axes(id: &CaseId) -> String {
    id.axes.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// Calls beyond those that the mechanism makes to itself: of `futex`, and of all other names.
fn more_calls(all: &SystemCalls, own: &SystemCalls) -> (f64, f64) {
    let by_name = |calls: &SystemCalls| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (name, count) in calls.roles.iter().flat_map(|role| &role.calls) {
            *sums.entry(name.clone()).or_default() += count;
        }
        sums
    };
    let own = by_name(own);
    let more = |(name, count): (String, f64)| {
        let more = count - own.get(&name).copied().unwrap_or(0.0);
        (name, more.max(0.0))
    };
    let (futex, others): (Vec<_>, Vec<_>) =
        by_name(all).into_iter().map(more).partition(|(name, _)| name == "futex");
    let sum = |calls: Vec<(String, f64)>| calls.into_iter().fold(0.0, |sum, (_, count)| sum + count);
    (sum(futex), sum(others))
}
