//! Files that do not open, programs that do not start: who wants them waits, and nobody else.

use std::path::Path;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Kind};

use crate::support::lease::Lease;
use crate::support::*;

/// A program of its own file, which ends with status 1, and its command.
fn program(path: &Path) -> &str {
    std::fs::copy("/bin/false", path).unwrap();
    path.to_str().unwrap()
}

fn broker(folder: &TempDir, settings: &str) -> Broker {
    Broker::native_with(&["--config-file", &with_services(folder, settings)])
}

/// All others are served.
fn serves(bus: &Broker, callers: &mut [Client; 2]) {
    callers.iter_mut().for_each(sync);
    sync(&mut bus.client());
    let [mut one, mut two] = [bus.member(), bus.member()];
    exchange(&mut one, &mut two);
}

fn ask(service: &str) -> Builder<'_> {
    Builder::call(PATH, "Ask").destination(service)
}

fn error_of_reply(client: &mut Client, serial: u32) -> String {
    let reply = wait_for_reply(client, serial);
    header(&reply).error_name.unwrap().rsplit_once("Error.").unwrap().1.to_owned()
}

/// What has come to a caller up to now is no answer to what it asked for.
fn has_no_answer(client: &mut Client) {
    sync(client);
    while let Some(message) = client.receive(std::time::Duration::ZERO).unwrap() {
        assert_eq!(header(&message).reply_serial, None, "{:?}", texts(&message));
    }
}

#[test]
fn a_program_that_does_not_start_keeps_nobody_else_waiting() {
    let folder = temp_dir("blocking");
    let (hanging, other) = (folder.path().join("hanging"), folder.path().join("other"));
    write_service(folder.path(), "a.Hangs", program(&hanging), "");
    write_service(folder.path(), "a.Other", program(&other), "");
    let bus = broker(&folder, "");
    for asking in 0..2 {
        let Some(lease) = Lease::on(&hanging) else { return };
        let mut callers = bus.of_both_kinds();
        let asked = callers[asking].send(&ask("a.Hangs")).unwrap();
        eventually("the program is not started", || lease.is_waited_for());
        serves(&bus, &mut callers);
        // Another one is started meanwhile.
        assert_eq!(refusal(callers[asking].call(&ask("a.Other"), PATIENCE)), "Spawn.ChildExited");
        has_no_answer(&mut callers[asking]);
        drop(lease);
        assert_eq!(error_of_reply(&mut callers[asking], asked), "Spawn.ChildExited");
    }
}

#[test]
fn a_program_that_starts_when_its_time_is_over_does_not_stay() {
    let folder = temp_dir("blocking");
    let hanging = folder.path().join("hanging");
    std::fs::copy("/bin/sleep", &hanging).unwrap();
    write_service(folder.path(), "a.Hangs", &format!("{} 1000", hanging.display()), "");
    let bus = broker(&folder, "<limit name='service_start_timeout'>300</limit>");
    let Some(lease) = Lease::on(&hanging) else { return };
    assert_eq!(refusal(bus.client().call(&ask("a.Hangs"), PATIENCE)), "TimedOut");
    assert!(lease.is_waited_for());
    drop(lease);
    eventually_seen("the program stays", || proc::children(bus.child.pid()), |children| children.is_empty());
}

/// More programs hang than there are threads that start them; those that do not fit wait, and their time passes.
#[test]
fn programs_that_do_not_start_take_a_bounded_number_of_threads() {
    const PROGRAMS: usize = 40;
    let folder = temp_dir("blocking");
    let hanging = folder.path().join("hanging");
    let names: Vec<String> = (0..PROGRAMS).map(|number| format!("a.B{number}")).collect();
    let exec = program(&hanging);
    names.iter().for_each(|name| write_service(folder.path(), name, exec, ""));
    let bus = broker(&folder, "");
    let Some(lease) = Lease::on(&hanging) else { return };
    let mut callers = bus.of_both_kinds();
    let asked: Vec<u32> = names.iter().map(|name| callers[0].send(&ask(name)).unwrap()).collect();
    eventually("no program is started", || lease.is_waited_for());
    let threads = || std::fs::read_dir(format!("/proc/{}/task", bus.child.pid())).unwrap().count();
    eventually_seen("not all threads start programs", threads, |threads| *threads > 16);
    serves(&bus, &mut callers);
    assert!(threads() <= 1 + 16 + 4 + 1, "{}", threads());
    drop(lease);
    let mut missing: std::collections::BTreeSet<u32> = asked.into_iter().collect();
    while !missing.is_empty() {
        let reply = wait_for(&mut callers[0], |header| header.reply_serial.is_some());
        assert!(header(&reply).error_name.unwrap().ends_with(".Spawn.ChildExited"), "{:?}", texts(&reply));
        missing.remove(&header(&reply).reply_serial.unwrap());
    }
}

#[test]
fn a_file_of_a_service_that_does_not_open_keeps_nobody_else_waiting() {
    let folder = temp_dir("blocking");
    let bus = broker(&folder, "");
    let exec = folder.path().join("program");
    let command = program(&exec);
    let file = folder.path().join("a.Hangs.service");
    for asking in 0..2 {
        // Seen as changed, so that it is read.
        write_service(folder.path(), "a.Hangs", command, "");
        let Some(lease) = Lease::on(&file) else { return };
        let mut callers = bus.of_both_kinds();
        let asked = callers[asking].send(&ask("a.Hangs")).unwrap();
        let listed = callers[1 - asking].send(&driver_call("ListActivatableNames")).unwrap();
        eventually("the file is not opened", || lease.is_waited_for());
        serves(&bus, &mut callers);
        has_no_answer(&mut callers[asking]);
        drop(lease);
        assert_eq!(error_of_reply(&mut callers[asking], asked), "Spawn.ChildExited");
        assert!(contains(&wait_for_reply(&mut callers[1 - asking], listed), "a.Hangs"));
    }
}

#[test]
fn services_whose_files_do_not_open_are_an_error_once_their_time_is_over() {
    let folder = temp_dir("blocking");
    let bus = broker(&folder, "<limit name='service_start_timeout'>300</limit>");
    write_service(folder.path(), "a.Hangs", "/bin/false", "");
    let Some(lease) = Lease::on(&folder.path().join("a.Hangs.service")) else { return };
    for mut caller in bus.of_both_kinds() {
        assert_eq!(refusal(caller.call(&ask("a.Hangs"), PATIENCE)), "TimedOut");
        assert_eq!(refusal(caller.ask_driver("ListActivatableNames", Body::default())), "TimedOut");
    }
    drop(lease);
    // What reads goes on.
    eventually("the files are not read", || {
        refusal(bus.client().call(&ask("a.Hangs"), PATIENCE)) == "Spawn.ChildExited"
    });
}

/// One reads, and all who ask meanwhile get what is read after that: once for all of them.
#[test]
fn a_configuration_that_does_not_open_keeps_waiting_only_who_asks_for_it() {
    let folder = temp_dir("blocking");
    let log = folder.path().join("log");
    let file = configuration(&folder, "<servicehelper>/bin/helper</servicehelper>");
    let native = folder.path().join("native");
    let mut command = causewayd(&["--config-file", &file, "--native", native.to_str().unwrap()]);
    let bus = Broker::spawn(command.stderr(std::fs::File::create(&log).unwrap()));
    let readings = || std::fs::read_to_string(&log).unwrap().matches("<servicehelper> is not").count();
    assert_eq!(readings(), 1);
    let Some(lease) = Lease::on(Path::new(&file)) else { return };
    let mut first = bus.client();
    let first_asked = first.send(&driver_call("ReloadConfig")).unwrap();
    eventually("the configuration is not opened", || lease.is_waited_for());
    let mut others: Vec<Client> = (0..5).map(|_| bus.client()).collect();
    let asked: Vec<u32> =
        others.iter_mut().map(|client| client.send(&driver_call("ReloadConfig")).unwrap()).collect();
    others.iter_mut().for_each(sync);
    // One that goes does not matter.
    drop(others.pop());
    sync(&mut bus.client());
    has_no_answer(&mut first);
    assert_eq!(readings(), 1);
    drop(lease);
    assert_eq!(header(&wait_for_reply(&mut first, first_asked)).kind, Kind::MethodReturn);
    for (client, asked) in others.iter_mut().zip(asked) {
        assert_eq!(header(&wait_for_reply(client, asked)).kind, Kind::MethodReturn);
    }
    assert_eq!(readings(), 3);
}
