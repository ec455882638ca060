//! Services that are started by their `.service` files, for clients and for members. The service is this test program, started again.

use std::fs::File;
use std::process::Command;

use causeway_bus::client::Bus as Client;
use causeway_bus::{Connection as Member, ConnectionOptions, name};
use causeway_dbus_wire::wire::{Args, Body, Builder, Kind, Marshal};

use crate::support::lease::Lease;
use crate::support::*;

/// The variable that the bus is told to give to its services.
const WORD: &str = "CAUSEWAYD_TEST_WORD";

/// Takes its name and answers calls with their text, as a client or as a member; as a test it has nothing to do.
#[test]
fn role() {
    let Some((role, ..)) = play() else { return };
    let word = std::env::var(WORD).unwrap_or_default();
    let client = || Client::open(&std::env::var("DBUS_STARTER_ADDRESS").unwrap()).unwrap();
    match role.as_str() {
        "client" => {
            let mut client = client();
            client.request_name("a.Client", 0).unwrap();
            for _ in 0..2 {
                let asked = wait_for_member(&mut client, "Ask");
                answer(&mut client, &asked, text(&texts(&asked)[0]).text(&word));
            }
            // The bus has the last answer when it answers this.
            sync(&mut client);
        }
        "member" => {
            let mut member = Member::session().unwrap();
            member.request_name("a.Member", 0).unwrap();
            for _ in 0..2 {
                let asked = call(&mut member);
                member.reply(&asked, text(asked.text().unwrap()).text(&word)).unwrap();
            }
        }
        "dies" => {
            let mut client = client();
            client.request_name("a.DiesWhenAsked", 0).unwrap();
            wait_for_member(&mut client, "Ask");
        }
        other => panic!("{other}"),
    }
}

fn ask(service: &str) -> Builder<'_> {
    Builder::call(PATH, "Ask").destination(service)
}

/// A bus with these services, of which some are this program in a role.
fn broker(folder: &TempDir, services: &[(&str, &str)], settings: &str) -> Broker {
    for (name, exec) in services {
        let role = exec.strip_prefix("role ").map(|role| role_as_service(module_path!(), role));
        write_service(folder.path(), name, role.as_deref().unwrap_or(exec), "");
    }
    Broker::native_with(&["--config-file", &with_services(folder, settings)])
}

#[test]
fn a_call_starts_the_service_and_reaches_it_in_order() {
    let folder = temp_dir("services");
    let services =
        [("a.Client", "role client"), ("a.Member", "role member"), ("a.DiesWhenAsked", "role dies")];
    let bus = broker(&folder, &services, "");
    let mut variables = Marshal::default();
    variables.array(8, |out| {
        out.align(8);
        out.text(WORD);
        out.text("hello");
    });
    let update = driver_call("UpdateActivationEnvironment").body(variables.into_body("a{ss}"));
    bus.client().call(&update, PATIENCE).unwrap();
    for mut caller in bus.of_both_kinds() {
        let names = caller.ask_driver("ListActivatableNames", Body::default());
        assert!(contains(&names.unwrap(), "a.Member"));
        for service in ["a.Client", "a.Member"] {
            // Two calls and a start wait for the same program.
            let ask = |word: &str| Builder::call(PATH, "Ask").destination(service).body(text(word));
            let first = caller.send(&ask("one")).unwrap();
            let start = driver_call("StartServiceByName").body(text(service).u32(0));
            let start = caller.send(&start).unwrap();
            let second = caller.send(&ask("two")).unwrap();
            let mut answers = Vec::new();
            while answers.len() < 3 {
                let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
                assert_eq!(header(&answer).kind, Kind::MethodReturn, "{:?}", texts(&answer));
                let number = Args::of(&answer).first_u32();
                answers.push((header(&answer).reply_serial.unwrap(), texts(&answer), number));
            }
            answers.sort();
            let said = |word: &str| vec![word.to_owned(), "hello".to_owned()];
            let expected =
                [(first, said("one"), None), (start, vec![], Some(1)), (second, said("two"), None)];
            assert_eq!(answers, expected, "{service}");
            // It leaves once it has answered, so that the next caller starts it, too.
            eventually("the service stays", || caller.name_owner(service).unwrap().is_none());
        }
        let dies = Builder::call(PATH, "Ask").destination("a.DiesWhenAsked");
        assert_eq!(refusal(caller.call(&dies, PATIENCE)), "NoReply");
    }
}

#[test]
fn a_service_starts_with_no_signal_blocked() {
    let folder = temp_dir("services");
    let status = folder.path().join("status");
    let exec = format!("/bin/cp /proc/self/status {}", status.display());
    let bus = broker(&folder, &[("a.Copy", &exec)], "");
    // It ends without its name.
    let start = driver_call("StartServiceByName").body(text("a.Copy").u32(0));
    refusal(bus.client().call(&start, PATIENCE));
    let status = std::fs::read_to_string(status).unwrap();
    let blocked = status.lines().find(|line| line.starts_with("SigBlk:"));
    assert_eq!(blocked, Some("SigBlk:\t0000000000000000"));
}

/// A copy is called like the bus until it is another program, and making it takes the longer the more the bus holds.
#[test]
fn a_service_is_started_without_a_copy_of_the_bus() {
    let folder = temp_dir("services");
    let hanging = folder.path().join("hanging");
    std::fs::copy("/bin/false", &hanging).unwrap();
    let bus = broker(&folder, &[("a.Hangs", hanging.to_str().unwrap())], "");
    let Some(lease) = Lease::on(&hanging) else { return };
    let mut client = bus.client();
    let asked = client.send(&ask("a.Hangs")).unwrap();
    eventually("the program is not started", || lease.is_waited_for());
    let [child] = proc::children(bus.child.pid())[..] else { panic!("not one child") };
    assert_ne!(proc::command_line(child), proc::command_line(bus.child.pid()));
    drop(lease);
    let answer = wait_for_reply(&mut client, asked);
    assert!(header(&answer).error_name.unwrap().ends_with("Spawn.ChildExited"), "{:?}", texts(&answer));
}

#[test]
fn a_service_that_does_not_come_is_an_error_to_all_that_wait_for_it() {
    let folder = temp_dir("services");
    let services = [
        ("a.Fails", "/bin/sh -c 'exit 3'"),
        ("a.IsKilled", "/bin/sh -c 'kill -9 $$'"),
        ("a.Missing", "/no/such/program"),
        ("a.TakesNoName", "/bin/sh -c 'exit 0'"),
        ("a.IsSlow", "/bin/sleep 1000"),
    ];
    let bus = broker(&folder, &services, "<limit name='service_start_timeout'>300</limit>");
    for mut caller in bus.of_both_kinds() {
        for (service, error) in [
            ("a.Fails", "Spawn.ChildExited"),
            ("a.IsKilled", "Spawn.ChildSignaled"),
            ("a.Missing", "Spawn.ExecFailed"),
            ("a.TakesNoName", "TimedOut"),
            ("a.IsSlow", "TimedOut"),
            ("a.Unknown", "ServiceUnknown"),
        ] {
            let ask = Builder::call(PATH, "Ask").destination(service);
            let asked = caller.send(&ask).unwrap();
            let start = driver_call("StartServiceByName").body(text(service).u32(0));
            assert_eq!(refusal(caller.call(&start, PATIENCE)), error, "{service}");
            let answer = wait_for_reply(&mut caller, asked);
            assert!(header(&answer).error_name.unwrap().ends_with(error), "{service}: {:?}", texts(&answer));
        }
    }
    let careful = ConnectionOptions { auto_start: false, ..ConnectionOptions::default() };
    let mut careful = Member::open_with(bus.path(), careful).unwrap();
    let error = careful.call("a.Fails", PATH, INTERFACE, "Ask", text("")).unwrap_err();
    assert_eq!(error.name(), Some(name::SERVICE_UNKNOWN), "{error}");
    // One that hangs does not stay beside the next.
    eventually_seen("a program stays", || proc::children(bus.child.pid()), |children| children.is_empty());
}

#[test]
fn of_a_service_whose_time_is_over_nothing_stays() {
    let folder = temp_dir("services");
    let number = folder.path().join("number");
    let exec = format!("/bin/sh -c '/bin/sleep 1000 & echo $! > {}; wait'", number.display());
    let bus = broker(&folder, &[("a.Waits", &exec)], "<limit name='service_start_timeout'>500</limit>");
    assert_eq!(refusal(bus.client().call(&ask("a.Waits"), PATIENCE)), "TimedOut");
    let started = std::fs::read_to_string(&number).unwrap().trim().parse().unwrap();
    eventually("what the program has started stays", || {
        proc::state(started).is_none_or(|state| state == 'Z')
    });
}

#[test]
fn a_service_outlives_its_bus() {
    let folder = temp_dir("services");
    let word = folder.path().join("word");
    let exec = format!("/bin/sh -c 'read word; sleep 1; echo lives > {}'", word.display());
    let mut bus = broker(&folder, &[("a.Lives", &exec)], "");
    bus.client().send(&ask("a.Lives")).unwrap();
    // One whose start nobody has noticed yet ends with the bus.
    eventually("no program is looked after", || watches_a_process(bus.child.pid()));
    bus.child.signal(rustix::process::Signal::TERM).unwrap();
    assert!(bus.child.wait().success());
    eventually("it has ended with its bus", || word.exists());
}

/// Does it wait for a process to end, by `epoll`?
fn watches_a_process(pid: u32) -> bool {
    let numbers_of = |kind: &str| -> Vec<String> {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|file| file.unwrap().path());
        files
            .filter(|file| {
                std::fs::read_link(file).is_ok_and(|target| target.to_string_lossy().contains(kind))
            })
            .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    };
    let processes = numbers_of("pidfd");
    numbers_of("eventpoll").iter().any(|epoll| {
        let told = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).unwrap();
        let mut watched =
            told.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
        watched.any(|number| processes.iter().any(|process| process == number))
    })
}

/// As started by a program that does not care for its children.
#[test]
fn the_end_of_a_service_is_seen_where_the_bus_was_started_with_ignored_children() {
    let folder = temp_dir("services");
    write_service(folder.path(), "a.Fails", "/bin/false", "");
    let configuration = with_services(&folder, "");
    let ignoring = || {
        let mut command = Command::new("env");
        command.arg("--ignore-signal=CHLD");
        command
    };
    if !trial_succeeds(ignoring().arg("true"), Cause::Missing("env --ignore-signal")) {
        return;
    }
    let mut command = ignoring();
    command.arg(env!("CARGO_BIN_EXE_causewayd"));
    let bus = Broker::spawn(command.args(["--config-file", &configuration]));
    assert_eq!(refusal(bus.client().call(&ask("a.Fails"), PATIENCE)), "Spawn.ChildExited");
}

/// What a file says when the service is started counts, and not what it said when the bus was.
#[test]
fn service_files_that_come_change_and_go_are_noticed() {
    let folder = temp_dir("services");
    let bus = broker(&folder, &[], "");
    let mut client = bus.client();
    let mut look = || {
        let listed = client.ask_driver("ListActivatableNames", Body::default());
        let call = Builder::call("/", "M").destination("a.Late");
        (contains(&listed.unwrap(), "a.Late"), refusal(client.call(&call, PATIENCE)))
    };
    write_service(folder.path(), "a.Late", "/bin/false", "");
    assert_eq!(look(), (true, "Spawn.ChildExited".into()));
    write_service(folder.path(), "a.Late", "/no/such/program", "");
    assert_eq!(look(), (true, "Spawn.ExecFailed".into()));
    std::fs::remove_file(folder.path().join("a.Late.service")).unwrap();
    assert_eq!(look(), (false, "ServiceUnknown".into()));
}

/// What the bus has inherited names the native socket of another one.
#[test]
fn a_service_finds_the_native_socket_of_its_own_bus_or_none() {
    let folder = temp_dir("services");
    let native = folder.path().join("native");
    let services = folder.path().join("dbus-1/services");
    std::fs::create_dir_all(&services).unwrap();
    write_service(&services, "a.Service", "/bin/sh -c 'echo \"<$CAUSEWAY_BUS>\" >&2; exit 1'", "");
    for (args, expected) in [
        (vec![], "<>".to_owned()),
        (vec!["--native", native.to_str().unwrap()], format!("<{}>", native.display())),
    ] {
        let said = folder.path().join("said");
        let mut command = causewayd(&["--address", "unix:tmpdir=/tmp"]);
        command.args(args).env("XDG_DATA_HOME", folder.path()).env("CAUSEWAY_BUS", "/of/another/bus");
        let bus = Broker::spawn(command.stderr(File::create(&said).unwrap()));
        let start = Builder::call("/", "M").destination("a.Service");
        assert_eq!(refusal(bus.client().call(&start, PATIENCE)), "Spawn.ChildExited");
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
}

/// A bus that is no session's and has one user cannot start a program as another one.
#[test]
fn a_service_of_another_user_is_not_started_and_what_is_started_is_logged() {
    let folder = temp_dir("services");
    let own = rustix::process::geteuid().as_raw();
    write_service(folder.path(), "a.Own", "/bin/false", &format!("User={own}\n"));
    write_service(folder.path(), "a.Foreign", "/bin/false", &format!("User={}\n", own + 1));
    let configure = |kind: &str| {
        let more = format!("<type>{kind}</type><servicehelper>/bin/helper</servicehelper>");
        with_services(&folder, &more)
    };
    let said = folder.path().join("said");
    let log = || std::fs::read_to_string(&said).unwrap();
    let mut command = causewayd(&["--config-file", &configure("system")]);
    let bus = Broker::spawn(command.stderr(File::create(&said).unwrap()));
    let mut client = bus.client();
    let mut call = |name: &str| refusal(client.call(&Builder::call("/", "M").destination(name), PATIENCE));
    assert_eq!(call("a.Own"), "Spawn.ChildExited");
    assert_eq!(call("a.Foreign"), "Spawn.PermissionsInvalid");
    assert_eq!(log().matches("<servicehelper> is not supported").count(), 1);
    let requester = format!("(user {own}, process {} ", std::process::id());
    let starting: Vec<String> =
        log().lines().filter(|line| line.contains("starting a.")).map(str::to_owned).collect();
    let [starting] = &starting[..] else { panic!("{starting:?}") };
    assert!(starting.contains("a.Own for :1.") && starting.contains(&requester), "{starting}");
    for line in ["the program that provides a.Own has ended with status 1", "must run as user"] {
        assert!(log().contains(line), "{}", log());
    }
    // What is wrong is said again when the configuration is read again.
    write_service(folder.path(), "a.Broken", "'", "");
    configure("session");
    client.ask_driver("ReloadConfig", Body::default()).unwrap();
    assert_eq!(log().matches("<servicehelper> is not supported").count(), 2);
    let broken = client.call(&Builder::call("/", "M").destination("a.Broken"), PATIENCE);
    assert_eq!(refusal(broken), "InvalidArgs");
    let foreign = client.call(&Builder::call("/", "M").destination("a.Foreign"), PATIENCE);
    assert_eq!(refusal(foreign), "Spawn.ChildExited");
}
