//! Hello, and the methods about names.

use causeway_dbus_wire::driver::NameReply;
use causeway_dbus_wire::wire::{Body, names};

use super::request::{Answer, Refusal, Request, no_owner, refused, reply};
use crate::bus::{Bus, DRIVER, DirectoryUpdate};
use crate::error;
use crate::member::{MemberId, Stage};
use crate::quota::Resource;

pub fn hello(bus: &mut Bus, request: Request<'_>) -> Answer {
    if bus.members[&request.from].stage != Stage::New {
        return refused(error::FAILED, "this connection has already called Hello");
    }
    if let Err(limit) = bus.claim_place(request.from) {
        return refused(error::LIMITS_EXCEEDED, limit.to_string());
    }
    let id = bus.give_number(request.from);
    bus.said_hello = Some(id);
    bus.activate(id);
    let name = id.unique_name();
    // The answer comes first: a client learns its name before it is told that it has it.
    reply(bus, Request { from: id, ..request }, Body::default().text(&name));
    bus.publish(&crate::names::Change { name, old: None, new: Some(id) });
    Ok(None)
}

/// A name that a connection can ask for.
fn well_known(name: &str) -> Result<&str, Refusal> {
    if name == DRIVER {
        return refused(error::INVALID_ARGS, format!("{DRIVER} is the name of the bus"));
    }
    if names::is_well_known(name) {
        Ok(name)
    } else {
        refused(error::INVALID_ARGS, format!("invalid well-known name `{name}`"))
    }
}

pub fn request_name(bus: &mut Bus, request: Request<'_>) -> Answer {
    let (name, flags) = (well_known(request.text(0))?, request.number(1));
    if !bus.members[&request.from].rules.borrow().may_own(name) {
        let why = format!("the bus policy does not let this connection own {name}");
        return refused(error::ACCESS_DENIED, why);
    }
    let is_new = !bus.names.is_in_queue(name, request.from);
    if is_new && let Err(limit) = bus.charge(request.from, Resource::Names, 1) {
        return refused(error::LIMITS_EXCEEDED, limit.to_string());
    }
    let (requested, change) = bus.names.request(name, request.from, flags);
    bus.settle_names(request.from);
    // What has waited for the name comes before what members send to it once the directory shows it, and that before the
    // announcement: who reacts to that finds the new owner everywhere.
    if requested == NameReply::PrimaryOwner {
        bus.service_came(name, request.from);
    }
    bus.update_directory(DirectoryUpdate::Name(name.into()));
    if let Some(change) = change {
        if let Some(old) = change.old {
            bus.settle_names(old);
        }
        bus.publish(&change);
    }
    Ok(Some(Body::default().u32(requested as u32)))
}

pub fn release_name(bus: &mut Bus, request: Request<'_>) -> Answer {
    let name = well_known(request.text(0))?;
    let (released, change) = bus.names.release(name, request.from);
    bus.settle_names(request.from);
    bus.update_directory(DirectoryUpdate::Name(name.into()));
    if let Some(change) = change {
        bus.publish(&change);
    }
    Ok(Some(Body::default().u32(released as u32)))
}

pub fn list_queued_owners(bus: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(0);
    let itself = || Ok(Some(Body::default().texts(&[name])));
    match MemberId::from_unique_name(name) {
        _ if name == DRIVER => itself(),
        Some(_) if bus.resolve(name).is_some() => itself(),
        None if bus.names.owner(name).is_some() => {
            if request.expects_reply() {
                bus.list_queue(request.from, request.routed.header.serial, name);
            }
            Ok(None)
        }
        _ => no_owner(name),
    }
}

pub fn get_name_owner(bus: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(0);
    if name == DRIVER {
        return Ok(Some(Body::default().text(DRIVER)));
    }
    match bus.resolve(name) {
        Some(owner) => Ok(Some(Body::default().text(&owner.unique_name()))),
        None => no_owner(name),
    }
}

pub fn name_has_owner(bus: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(0);
    let has_owner = name == DRIVER || bus.resolve(name).is_some();
    let mut out = causeway_dbus_wire::wire::Marshal::default();
    out.u32(has_owner.into());
    Ok(Some(out.into_body("b")))
}

pub fn list_names(bus: &mut Bus, request: Request<'_>) -> Answer {
    if request.expects_reply() {
        bus.list_names(request.from, request.routed.header.serial);
    }
    Ok(None)
}
