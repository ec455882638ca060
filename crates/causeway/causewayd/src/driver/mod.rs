//! `org.freedesktop.DBus`: the object that answers for the bus itself.
//!
//! A method is a line of `METHODS` and a function; introspection is made of the same lines.

mod connections;
mod describe;
mod naming;
mod request;
mod rules;
mod services;
pub(crate) mod stats;

pub use describe::own as description;

use causeway_dbus_wire::wire::{Body, Kind};

use crate::bus::{Bus, DRIVER, DRIVER_PATH, Receiver, RoutedMessage};
use crate::error;
use crate::member::{MemberId, Stage};

use request::{Answer, Refusal, Request, refused, reply};

const PEER: &str = "org.freedesktop.DBus.Peer";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
const MONITORING: &str = "org.freedesktop.DBus.Monitoring";
const STATS: &str = "org.freedesktop.DBus.Debug.Stats";

/// Who may call a method, and on which object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Everybody, on any object: programs have always done that.
    AnyPath,
    /// Everybody, on the driver's own object.
    OwnPath,
    /// The user of the bus and root, on the driver's own object.
    Privileged,
}

struct Method {
    interface: &'static str,
    member: &'static str,
    input: &'static str,
    output: &'static str,
    access: Access,
    run: fn(&mut Bus, Request<'_>) -> Answer,
}

const fn method(
    interface: &'static str,
    member: &'static str,
    [input, output]: [&'static str; 2],
    access: Access,
    run: fn(&mut Bus, Request<'_>) -> Answer,
) -> Method {
    Method { interface, member, input, output, access, run }
}

use Access::{AnyPath, OwnPath, Privileged};

const METHODS: &[Method] = &[
    method(DRIVER, "Hello", ["", "s"], AnyPath, naming::hello),
    method(DRIVER, "RequestName", ["su", "u"], AnyPath, naming::request_name),
    method(DRIVER, "ReleaseName", ["s", "u"], AnyPath, naming::release_name),
    method(DRIVER, "ListQueuedOwners", ["s", "as"], AnyPath, naming::list_queued_owners),
    method(DRIVER, "GetNameOwner", ["s", "s"], AnyPath, naming::get_name_owner),
    method(DRIVER, "NameHasOwner", ["s", "b"], AnyPath, naming::name_has_owner),
    method(DRIVER, "ListNames", ["", "as"], AnyPath, naming::list_names),
    method(DRIVER, "ListActivatableNames", ["", "as"], AnyPath, services::list_activatable_names),
    method(DRIVER, "StartServiceByName", ["su", "u"], AnyPath, services::start_service_by_name),
    method(DRIVER, "UpdateActivationEnvironment", ["a{ss}", ""], Privileged, services::update_environment),
    method(DRIVER, "ReloadConfig", ["", ""], AnyPath, services::reload_config),
    method(DRIVER, "AddMatch", ["s", ""], AnyPath, rules::add_match),
    method(DRIVER, "RemoveMatch", ["s", ""], AnyPath, rules::remove_match),
    method(DRIVER, "GetConnectionUnixUser", ["s", "u"], AnyPath, connections::unix_user),
    method(DRIVER, "GetConnectionUnixProcessID", ["s", "u"], AnyPath, connections::process_id),
    method(DRIVER, "GetConnectionCredentials", ["s", "a{sv}"], AnyPath, connections::credentials),
    method(DRIVER, "GetAdtAuditSessionData", ["s", "ay"], AnyPath, connections::audit_data),
    method(DRIVER, "GetConnectionSELinuxSecurityContext", ["s", "ay"], AnyPath, connections::selinux_context),
    method(DRIVER, "GetId", ["", "s"], AnyPath, connections::id),
    method(PROPERTIES, "Get", ["ss", "v"], OwnPath, describe::get),
    method(PROPERTIES, "GetAll", ["s", "a{sv}"], OwnPath, describe::get_all),
    method(PROPERTIES, "Set", ["ssv", ""], OwnPath, describe::set),
    method(INTROSPECTABLE, "Introspect", ["", "s"], AnyPath, describe::introspect),
    method(PEER, "Ping", ["", ""], AnyPath, |_, _| Ok(Some(Body::default()))),
    method(PEER, "GetMachineId", ["", "s"], AnyPath, connections::machine_id),
    method(MONITORING, "BecomeMonitor", ["asu", ""], Privileged, rules::become_monitor),
    method(STATS, "GetStats", ["", "a{sv}"], Privileged, stats::of_bus),
    method(STATS, "GetAllConnectionStats", ["u", "a{sa{sv}}"], Privileged, stats::of_connections),
    method(STATS, "GetConnectionStats", ["s", "a{sv}"], Privileged, stats::of_connection),
    method(STATS, "GetAllMatchRules", ["", "a{sas}"], Privileged, stats::all_match_rules),
];

/// Most bytes of arguments, which are read at once.
const BYTES_MAX: usize = 256 << 10;

/// A message to the driver, or a call to nobody, which it answers in place of a peer.
pub fn handle(bus: &mut Bus, from: MemberId, routed: RoutedMessage<'_>) {
    let header = routed.header;
    bus.append_routed(routed, Receiver::Bus);
    // Replies and other signals to the driver say nothing that it asked for.
    if header.kind == Kind::Signal {
        if !bus.may_send(from, None, routed) {
            return bus.deny(from, routed);
        }
        bus.take_failure(from, routed);
    }
    if header.kind == Kind::MethodCall && !take_call(bus, from, routed) {
        return;
    }
    bus.eavesdrop(routed, None);
}

/// Answers a call. As in dbus-daemon, others see it only if it is for the driver, and succeeds.
fn take_call(bus: &mut Bus, from: MemberId, routed: RoutedMessage<'_>) -> bool {
    let header = routed.header;
    let is_to_nobody = header.destination.is_none();
    // Hello is all that it may say, and no policy forbids that.
    let is_new = bus.members[&from].stage == Stage::New;
    if is_to_nobody && header.interface != Some(PEER) {
        let why = format!("a call without a destination must be one of {PEER}");
        bus.refuse(from, header, error::UNKNOWN_METHOD, &why);
        return false;
    }
    if !is_to_nobody && !is_new && !bus.may_send(from, None, routed) {
        bus.deny(from, routed);
        return false;
    }
    match answer(bus, Request { from, routed }) {
        Ok(Some(body)) => reply(bus, Request { from, routed }, body),
        Ok(None) => {}
        Err(Refusal(name, why)) => {
            bus.refuse(from, header, name, &why);
            return false;
        }
    }
    !is_to_nobody
}

fn answer(bus: &mut Bus, request: Request<'_>) -> Answer {
    let header = request.routed.header;
    let (interface, member) = (header.interface, header.member.unwrap_or_default());
    let caller = &bus.members[&request.from];
    let is_hello = member == "Hello" && interface.is_none_or(|interface| interface == DRIVER);
    if caller.stage == Stage::New && !is_hello {
        return refused(error::ACCESS_DENIED, "the first message of a connection must be Hello");
    }
    let is_asked = |method: &&Method| interface.is_none_or(|interface| interface == method.interface);
    let Some(method) = METHODS.iter().filter(is_asked).find(|method| method.member == member) else {
        return match interface.filter(|_| !METHODS.iter().any(|method| is_asked(&method))) {
            Some(interface) => refused(error::UNKNOWN_INTERFACE, format!("unknown interface {interface}")),
            None => refused(error::UNKNOWN_METHOD, format!("unknown method {member}")),
        };
    };
    if method.access != AnyPath && header.path != Some(DRIVER_PATH) {
        let why = format!("{member} is available at the object {DRIVER_PATH} only");
        // Other objects have not got the later interfaces at all.
        let error = if method.interface == DRIVER { error::ACCESS_DENIED } else { error::UNKNOWN_INTERFACE };
        return refused(error, why);
    }
    if method.access == Privileged && !bus.is_privileged(request.from) {
        return refused(error::ACCESS_DENIED, format!("{member} is reserved to the user of this bus"));
    }
    if header.body_bytes > BYTES_MAX {
        let why = format!("a method of the bus takes at most {BYTES_MAX} bytes, not {}", header.body_bytes);
        return refused(error::LIMITS_EXCEEDED, why);
    }
    if header.signature != method.input {
        let said = |types: &str| match types {
            "" => "no arguments".to_owned(),
            types => format!("arguments of type `{types}`"),
        };
        let why = format!("{member} takes {}, not {}", said(method.input), said(header.signature));
        return refused(error::INVALID_ARGS, why);
    }
    (method.run)(bus, request)
}
