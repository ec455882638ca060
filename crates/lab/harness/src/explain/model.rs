//! Which primitives a round trip is made of, and how many of each: the case itself says its system calls, switches and faults, the target
//! its copies, and the same mechanism to itself what is left of it without a wait.

mod parts;

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_analysis::explain::{
    Count, Direct, Fitted, Formula, Subject, kept_in_cache, names, place_of,
};
use weighbridge_probe::topology::CacheKind;
use weighbridge_record::{CaseId, Skipped};

use crate::axis::{Choice, Idle};
use crate::catalogue;
use crate::contract::{Caps, Prepared};
use crate::host::Host;
use crate::hub;

pub(super) use parts::{Counts, cache_line, futex_wake, switch};
use parts::{hops, solo, to_itself, yields};

/// Mechanisms from which prices are fitted where too few others are asked for.
const REFERENCES: [&str; 6] = ["pipe", "fifo", "unix-stream", "unix-seqpacket", "mq-posix", "ring-futex"];
/// With so many mechanisms of one place no further ones are needed: each is explained from five others.
const ENOUGH: usize = 6;
/// Work that is slower where two processes do it in turn.
pub(super) const WORK: &[&str] =
    &[names::SYSTEM_CALLS, names::OWN_WORK, names::FURTHER_CALLS, names::FUTEX_CALLS];
/// A count below this is noise.
pub(super) const LEAST: f64 = 0.02;

/// Why a case cannot be explained; `None` where it can.
pub fn refusal(case: &Prepared, host: &Host) -> Option<String> {
    let id = &case.params.id;
    let example = "explain takes round trips of mechanisms, as in roundtrip/pipe/64/same-cpu; `weighbridge list roundtrip` shows them";
    let why = match id.pattern.as_str() {
        "roundtrip" => match hub_of(case, host) {
            Err(why) => format!("it cannot take turns with a hub: {why}"),
            Ok(_) => {
                let why = catalogue::prepare(&to_itself(id, id.payload_bytes), host).err()?;
                format!("what it does without a wait cannot be measured: {why}")
            }
        },
        "solo" | "self" | "pingpong" => "it is a price itself, of which others are made".into(),
        _ => "its operations overlap, so that counts times prices do not add up to its time".into(),
    };
    Some(format!("{id} cannot be explained: {why}; {example}"))
}

/// With what a case takes turns; nothing in virtual time, in which nothing disturbs it.
fn hub_of(case: &Prepared, host: &Host) -> Result<Option<Prepared>, String> {
    if is_virtual(case) {
        return Ok(None);
    }
    let hub = hub::of(case)?;
    catalogue::prepare(&hub, host).map(Some).map_err(|why| format!("{hub} cannot run here: {why}"))
}

/// The smallest first-level cache of data; where the kernel shows none, as many bytes as most have.
fn cache_bytes(host: &Host) -> u64 {
    const USUAL: u64 = 32 << 10;
    let caches = host.topology.caches.iter();
    let first = caches.filter(|cache| cache.level == 1 && cache.kind != CacheKind::Instruction);
    first.map(|cache| cache.size_bytes).min().unwrap_or(USUAL)
}

fn is_virtual(case: &Prepared) -> bool {
    case.target.caps.has(Caps::VIRTUAL_TIME)
}

/// Does a case go from one pinned CPU to another?
fn is_apart(case: &Prepared) -> bool {
    !case.params.same_cpu() && case.params.id.placement != "free"
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) groups: Vec<(Option<CaseId>, Vec<Prepared>)>,
    pub(super) hubs: BTreeMap<CaseId, Prepared>,
    pub(super) skipped: Vec<Skipped>,
    explained: Vec<Target>,
    payloads: Vec<u64>,
    /// Bytes that the first-level cache keeps.
    cache_bytes: u64,
}

/// A case that becomes a subject.
struct Target {
    case: Prepared,
    is_asked: bool,
    /// Its parts are those of this case, and what the halt of CPUs adds.
    twin: Option<CaseId>,
}

impl Plan {
    pub(super) fn new(cases: &[Prepared], payloads: &[u64], host: &Host) -> Plan {
        let mut plan =
            Plan { payloads: payloads.to_vec(), cache_bytes: cache_bytes(host), ..Plan::default() };
        for case in cases {
            plan.add_target(case.clone(), true, host);
        }
        // Prices are fitted where CPUs do not halt.
        let place = |target: &Target| {
            let id = target.twin.as_ref().unwrap_or(&target.case.params.id);
            let mut like = CaseId::new("roundtrip", "pipe", 1, &id.placement);
            let idle = id.axes.get(Idle::AXIS.name).map(|idle| (Idle::AXIS.name.into(), idle.clone()));
            like.axes.extend(idle);
            (place_of(id), like)
        };
        let real = plan.explained.iter().filter(|target| !is_virtual(&target.case));
        let places: BTreeSet<(String, CaseId)> = real.map(place).collect();
        for (place, like) in places {
            let mut mechanisms: BTreeSet<String> = plan.mechanisms_at(&place);
            for reference in REFERENCES {
                if mechanisms.len() >= ENOUGH {
                    break;
                }
                let id = CaseId { mechanism: reference.into(), ..like.clone() };
                if !mechanisms.contains(reference)
                    && let Ok(case) = catalogue::prepare(&id, host)
                {
                    mechanisms.insert(reference.into());
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
            && !is_virtual(&case)
            && !case.params.same_cpu()
            && case.params.choice_if_declared() == Some(Idle::Halt);
        let twin = halts.then(|| id.clone().with(Idle::AXIS.name, Idle::Busy.name()));
        if let Some(Ok(twin)) = twin.as_ref().map(|twin| catalogue::prepare(twin, host)) {
            self.add_target(twin, false, host);
        }
        let own = to_itself(&id, id.payload_bytes);
        let mut group = vec![case.clone()];
        if twin.is_none() {
            group.extend(self.prepared(&own, host));
        }
        match hub_of(&case, host) {
            Ok(hub) => self.add_group(hub, group),
            Err(why) => return self.skip(id, why),
        }
        self.explained.push(Target { case, is_asked, twin });
    }

    /// A case that is not planned yet and can run here.
    fn prepared(&mut self, id: &CaseId, host: &Host) -> Option<Prepared> {
        if self.groups.iter().flat_map(|(_, cases)| cases).any(|case| case.params.id == *id) {
            return None;
        }
        let prepared = catalogue::prepare(id, host);
        prepared.map_err(|why| self.skip(id.clone(), why.to_string())).ok()
    }

    fn skip(&mut self, case: CaseId, why: String) {
        self.skipped.push(Skipped { case, step: "fit".into(), why });
    }

    fn add_group(&mut self, hub: Option<Prepared>, cases: Vec<Prepared>) {
        let id = hub.as_ref().map(|hub| hub.params.id.clone());
        self.hubs.extend(hub.map(|hub| (hub.params.id.clone(), hub)));
        self.groups.push((id, cases));
    }

    fn add_primitives(&mut self, host: &Host) {
        // Virtual time is made of nothing but itself.
        let has_real = self.explained.iter().any(|target| !is_virtual(&target.case));
        let mut wanted = Vec::new();
        if has_real {
            wanted.extend(["getppid", "sched-yield", "futex-wake", "first-touch"].map(|op| solo(op, 0)));
            wanted.insert(2, yields());
        }
        for Target { case, is_asked, .. } in &self.explained {
            let id = &case.params.id;
            let further = if *is_asked { &self.payloads[..] } else { &[] };
            for bytes in [id.payload_bytes].into_iter().chain(further.iter().copied()) {
                if case.target.copies() > 0 && bytes > 0 {
                    wanted.push(solo("memcpy", bytes));
                }
                if bytes != id.payload_bytes {
                    wanted.push(to_itself(id, bytes));
                }
            }
            if is_apart(case) {
                wanted.push(cache_line(id));
            }
        }
        let mut primitives: Vec<Prepared> = Vec::new();
        for id in wanted {
            if primitives.iter().all(|case| case.params.id != id) {
                primitives.extend(self.prepared(&id, host));
            }
        }
        // In virtual time alone; all others two by two with the hub of one place, in which a single role is alike.
        let (virtual_time, real): (Vec<_>, Vec<_>) = primitives.into_iter().partition(is_virtual);
        virtual_time.into_iter().for_each(|case| self.add_group(None, vec![case]));
        match catalogue::prepare(&CaseId::new("roundtrip", "pipe", 1, "same-cpu"), host) {
            Ok(hub) => real.chunks(2).for_each(|pair| self.add_group(Some(hub.clone()), pair.to_vec())),
            Err(why) => {
                for case in real {
                    self.skip(case.params.id, format!("its hub cannot run here: {why}"));
                }
            }
        }
    }

    /// The case whose parts those of an explained case are: itself, or the same whose CPUs do not halt.
    pub(super) fn like(&self, explained: &CaseId, measured: &BTreeSet<&CaseId>) -> CaseId {
        let target = self.explained.iter().find(|target| target.case.params.id == *explained);
        let twin = target.and_then(|target| target.twin.as_ref()).filter(|twin| measured.contains(twin));
        twin.unwrap_or(explained).clone()
    }

    /// Are the system calls of this case a part of something?
    pub(super) fn counts_calls_of(&self, id: &CaseId) -> bool {
        id.pattern == "self" || self.explained.iter().any(|target| target.case.params.id == *id)
    }

    /// The cases in terms of the model, from what was counted. Only cases in `measured` have a cost.
    pub(super) fn subjects(&self, counts: &Counts, measured: &BTreeSet<&CaseId>) -> Vec<Subject> {
        let explained = self.explained.iter().filter(|target| measured.contains(&target.case.params.id));
        explained.map(|target| self.subject(target, counts, measured)).collect()
    }

    fn subject(&self, target: &Target, counts: &Counts, measured: &BTreeSet<&CaseId>) -> Subject {
        let id = &target.case.params.id;
        let twin = target.twin.as_ref().filter(|twin| measured.contains(twin));
        let like = twin.unwrap_or(id);
        let per_op = counts.per_op.get(like).cloned().unwrap_or_default();
        let mut remarks = Vec::new();
        let mut direct = parts::parts(&target.case, like, id.payload_bytes, counts, measured, &mut remarks);
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
        if let Some(case) = counted.find(|case| !counts.calls.contains_key(*case)) {
            let why = counts.not_counted.get(case).map_or(counts.otherwise, String::as_str);
            let of = if case == id { String::new() } else { format!(" of {case}") };
            remarks.push(format!(
                "system calls{of} were not counted: {why}; they are in own work and in the unexplained part"
            ));
        }
        let mut fitted = Vec::new();
        if per_op.voluntary_switches > LEAST && !target.case.target.caps.has(Caps::HARNESS) {
            let waits = Count::Times(per_op.voluntary_switches);
            fitted.push(Fitted { name: names::BLOCK_AND_WAKE, count: waits });
            let share = kept_in_cache(id.payload_bytes, self.cache_bytes);
            fitted.push(Fitted { name: names::COLD_CACHES, count: Count::NsOf(WORK, share) });
        }
        if is_apart(&target.case) && id.payload_bytes > 64 {
            let bytes = hops(id) * id.payload_bytes as f64;
            fitted.push(Fitted { name: names::BYTES_BETWEEN_CPUS, count: Count::Times(bytes) });
        }
        let at_payload = self.payloads.iter().filter_map(|bytes| {
            // What the mechanism does itself must be known with both payloads, or it would be the difference of the two.
            let own = [*bytes, id.payload_bytes].map(|bytes| to_itself(id, bytes));
            own.iter().all(|own| measured.contains(own)).then(|| {
                let parts = parts::parts(&target.case, like, *bytes, counts, measured, &mut Vec::new());
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
            ..Subject::default()
        }
    }
}
