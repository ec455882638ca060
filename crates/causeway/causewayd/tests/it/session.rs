//! Which bus a native program of the session joins, by its environment.

use std::path::PathBuf;

use causeway_bus::{ADDRESS_VARIABLE, Connection, native_socket_beside};

use crate::support::*;

const OUTCOME: &str = "CAUSEWAY_TEST_OUTCOME";

/// Joins the bus of the session and writes its GUID, or what is wrong, if it is started for that; as a test it has nothing to do.
#[test]
fn the_program_itself() {
    let Some(file) = std::env::var_os(OUTCOME) else { return };
    let outcome = match Connection::session() {
        Ok(bus) => bus.bus_id(),
        Err(error) => error.to_string(),
    };
    std::fs::write(file, outcome).unwrap();
}

#[test]
fn the_address_of_dbus_counts_more_than_an_inherited_socket() {
    let folder = temp_dir("session");
    let path = |name: &str| folder.path().join(name);
    let at = |name: &str| at(&path(name));
    let serve = |address: &str| {
        let mut command = causewayd(&["--session", "--address", address]);
        let broker = Broker::spawn(command.env("XDG_RUNTIME_DIR", folder.path()));
        let guid = broker.address.split_once("guid=").unwrap().1.to_owned();
        (broker, guid)
    };
    let (own, guid) = serve(&at("bus"));
    let (without_file, guid_without_file) = serve("unix:tmpdir=/tmp");
    let (_other, _) = serve(&at("other"));
    let native = |name: &str| Some(native_socket_beside(&path(name)));
    let joined = |dbus: Option<&str>, native: Option<PathBuf>| {
        let mut program = causeway_testkit::rerun(module_path!(), "the_program_itself");
        program.env(OUTCOME, path("outcome")).env("XDG_RUNTIME_DIR", folder.path());
        program.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove(ADDRESS_VARIABLE);
        program.envs(dbus.map(|address| ("DBUS_SESSION_BUS_ADDRESS", address)));
        program.envs(native.map(|path| (ADDRESS_VARIABLE, path)));
        assert!(program.output().unwrap().status.success());
        std::fs::read_to_string(path("outcome")).unwrap()
    };
    for inherited in [None, native("other")] {
        assert_eq!(joined(Some(&at("bus")), inherited.clone()), guid);
        assert_eq!(joined(Some(&own.address), inherited.clone()), guid);
        assert_eq!(joined(Some(&without_file.address), inherited), guid_without_file);
    }
    // Another bus has taken its place, or none serves there natively: the variable counts, if it can be the same bus.
    let replaced = format!("{},guid={guid}", at("other"));
    assert_eq!(joined(Some(&replaced), native("bus")), guid);
    assert_eq!(joined(Some(&at("none")), native("bus")), guid);
    assert_eq!(joined(None, native("bus")), guid);
    assert_eq!(joined(Some(""), None), guid);
    let two = joined(Some(&format!("{},guid={guid}", at("none"))), native("other"));
    assert!(two.contains("refer to different buses"), "{two}");
    let none = joined(Some(&replaced), None);
    assert!(none.contains("no native socket found"), "{none}");
}
