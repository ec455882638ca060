//! Who a connection is, and who the bus is.

use causeway_dbus_wire::wire::{Body, Marshal};
use causeway_os::machine_id;
use causeway_os::socket::Credentials;

use super::request::{Answer, Refusal, Request, no_owner, refused};
use crate::bus::{Bus, DRIVER};
use crate::error;
use crate::member::Identity;

/// The identity of the connection with a name. The bus itself has one too.
fn identity(bus: &Bus, name: &str) -> Result<Identity, Refusal> {
    if name == DRIVER {
        let gid = rustix::process::getegid().as_raw();
        let credentials = Credentials { pid: std::process::id(), uid: bus.uid, gid };
        let groups = rustix::process::getgroups().ok();
        let groups = groups.map(|groups| groups.into_iter().map(|group| group.as_raw()).collect());
        return Ok(Identity::new(credentials, groups, None));
    }
    match bus.resolve(name) {
        Some(id) => Ok(bus.members[&id].identity.clone()),
        None => no_owner(name),
    }
}

pub fn unix_user(bus: &mut Bus, request: Request<'_>) -> Answer {
    let identity = identity(bus, request.text(0))?;
    Ok(Some(Body::default().u32(identity.credentials.uid)))
}

pub fn process_id(bus: &mut Bus, request: Request<'_>) -> Answer {
    match identity(bus, request.text(0))?.credentials.pid {
        // The kernel says 0 of a process that is not in the bus's namespace.
        0 => refused(error::UNIX_PROCESS_ID_UNKNOWN, "the process is not visible to the bus"),
        pid => Ok(Some(Body::default().u32(pid))),
    }
}

pub fn credentials(bus: &mut Bus, request: Request<'_>) -> Answer {
    let Identity { credentials, groups, label } = identity(bus, request.text(0))?;
    let mut out = Marshal::default();
    out.array(8, |out| {
        if credentials.pid != 0 {
            out.entry("ProcessID", "u", |out| out.u32(credentials.pid));
        }
        out.entry("UnixUserID", "u", |out| out.u32(credentials.uid));
        if let Some(groups) = &groups {
            out.entry("UnixGroupIDs", "au", |out| {
                out.array(4, |out| groups.iter().for_each(|group| out.u32(*group)));
            });
        }
        if let Some(label) = &label {
            // Its bytes and the zero behind them.
            let bytes = label.bytes().chain([0]);
            out.entry("LinuxSecurityLabel", "ay", |out| {
                out.array(1, |out| bytes.for_each(|byte| out.byte(byte)))
            });
        }
    });
    Ok(Some(out.into_body("a{sv}")))
}

pub fn audit_data(bus: &mut Bus, request: Request<'_>) -> Answer {
    identity(bus, request.text(0))?;
    refused(error::ADT_AUDIT_DATA_UNKNOWN, "there is no audit session data on this system")
}

pub fn selinux_context(bus: &mut Bus, request: Request<'_>) -> Answer {
    identity(bus, request.text(0))?;
    refused(error::SELINUX_CONTEXT_UNKNOWN, "SELinux is not supported")
}

pub fn id(bus: &mut Bus, _: Request<'_>) -> Answer {
    Ok(Some(Body::default().text(&bus.guid)))
}

pub fn machine_id(bus: &mut Bus, _: Request<'_>) -> Answer {
    match &bus.machine_id {
        Some(id) => Ok(Some(Body::default().text(id))),
        None => refused(
            error::FAILED,
            format!("this machine has no machine ID in {}", machine_id::FILES.join(" and ")),
        ),
    }
}
