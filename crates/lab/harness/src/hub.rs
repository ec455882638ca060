//! Which case others take turns with: a yardstick must feel the same noise, so there is one for each kind of work.

use weighbridge_record::CaseId;

use crate::axis::{Choice, Idle};
use crate::contract::{Caps, Prepared};
use crate::ctx::Warm;
use crate::params::{CaseParams, Wait};
use crate::pattern::transfer;

/// The yardstick of a case, or why the case cannot take turns with another one; it is then measured by itself.
pub fn of(case: &Prepared) -> Result<CaseId, String> {
    let params = &case.params;
    let id = &params.id;
    if case.target.caps.has(Caps::HARNESS) || case.target.caps.has(Caps::VIRTUAL_TIME) {
        return Err("it exchanges nothing, so nothing that disturbs others disturbs it".into());
    }
    if params.axes.get("time").is_some_and(|time| time == "each")
        || params.axes.get("rate").is_some_and(|rate| rate != "default")
    {
        return Err("single operations are timed, and a pause between slices would be seen as a delay".into());
    }
    if params.choice_if_declared() == Some(Warm::Cold) {
        return Err("each of its bursts follows a pause, in which a hub would keep the CPUs warm".into());
    }
    // What the CPUs do while they are idle holds for both: they share them.
    let idle: Idle = params.choice();
    let hub = |pattern: &str, target: &str, bytes| {
        let hub = CaseId::new(pattern, target, bytes, &id.placement);
        if idle == Idle::Halt { hub } else { hub.with(Idle::AXIS.name, idle.name()) }
    };
    let copies = case.target.caps.has(Caps::PAYLOAD) && id.payload_bytes > 0;
    match id.pattern.as_str() {
        "roundtrip" | "pingpong" | "fan-out" if spins(params) => Ok(hub("pingpong", "atomic", 0)),
        "roundtrip" | "pingpong" | "fan-out" => Ok(hub("roundtrip", "pipe", 1)),
        "stream" if transfer::bytes(params).is_some() => {
            Err("all of a transfer is one window, which ends where the transfer does".into())
        }
        "stream" if case.target.caps.has(Caps::LOSSY) => {
            Err("it may lose messages, so a slice has no known end".into())
        }
        "fan-in" if params.axes.get("wait").is_some_and(|wait| wait == "none") => {
            Err("its reader blocks on a stream that a writer at rest does not write to".into())
        }
        "stream" | "fan-in" => Ok(hub("stream", "pipe", 65536)),
        "contend" if !params.same_cpu() => Ok(hub("pingpong", "atomic", 0)),
        "solo" | "parallel" if copies => Ok(hub(&id.pattern, "memcpy", 4096)),
        "self" | "solo" | "contend" => Ok(hub("solo", "getppid", 0)),
        "parallel" => Ok(hub("parallel", "getppid", 0)),
        "all-to-all" => {
            Err("its receivers wait until the senders close their ends, so only the run ends it".into())
        }
        pattern => Err(format!("{pattern} has windows that its roles do not share with another case")),
    }
}

/// Do the roles of a case keep their CPUs while they wait?
fn spins(params: &CaseParams) -> bool {
    !params.same_cpu() && matches!(params.wait, Wait::Spin | Wait::SpinBlock | Wait::Yield)
}
