//! Services that are started by their `.service` files. The service is this test program, started again.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Header, Kind, Marshal};

use crate::support::*;

/// The variable by which a started test knows that it is a service.
const IS_SERVICE: &str = "CAUSEWAYD_TEST_SERVICE";

/// A bus with services `(name, program)`.
fn broker(folder: &Path, services: &[(&str, &str)], settings: &str) -> Broker {
    for (name, exec) in services {
        let text = format!("[D-BUS Service]\nName={name}\nExec={exec}\n");
        std::fs::write(folder.join(format!("{name}.service")), text).unwrap();
    }
    Broker::configured(&format!("<servicedir>{}</servicedir>{settings}", folder.display()))
}

/// Takes its name and answers one call with an argument of its environment, if it is started as a service; as a test it has nothing to do.
#[test]
fn the_service_itself() {
    let Ok(word) = std::env::var(IS_SERVICE) else { return };
    let mut connection = Client::open(&std::env::var("DBUS_STARTER_ADDRESS").unwrap()).unwrap();
    connection.request_name("a.Service", 0).unwrap();
    for _ in 0..2 {
        let call = wait_for(&mut connection, |header| header.member == Some("Say"));
        let header = Header::parse(&call).unwrap();
        let body = Body::default().text(&word).text(texts(&call).first().map_or("", String::as_str));
        connection
            .send(&Builder::reply(header.serial).destination(header.sender.unwrap()).body(body))
            .unwrap();
    }
    // The bus has the last answer when it answers this.
    connection.ask_driver("GetId", Body::default()).unwrap();
}

#[test]
fn a_call_starts_the_service_and_reaches_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let exec = format!("'{}' --exact services::the_service_itself --test-threads 1", own.display());
    let broker = broker(folder.path(), &[("a.Service", &exec)], "");
    let mut client = broker.open();
    let mut variables = Marshal::default();
    variables.array(8, |out| {
        out.align(8);
        out.text(IS_SERVICE);
        out.text("hello");
    });
    let update = driver_call("UpdateActivationEnvironment").body(variables.into_body("a{ss}"));
    client.call(&update, PATIENCE).unwrap();
    let names = client.ask_driver("ListActivatableNames", Body::default()).unwrap();
    assert!(names.windows(9).any(|part| part == b"a.Service"));
    // Two calls and a start wait for the same program.
    let say =
        |word: &str| Builder::call("/", "Say").destination("a.Service").body(Body::default().text(word));
    let first = client.send(&say("one")).unwrap();
    let start = client
        .send(&driver_call("StartServiceByName").body(Body::default().text("a.Service").u32(0)))
        .unwrap();
    let second = client.send(&say("two")).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let answer = wait_for(&mut client, |header| header.reply_serial.is_some());
        let header = Header::parse(&answer).unwrap();
        assert_eq!(header.kind, Kind::MethodReturn, "{:?}", texts(&answer));
        answers.push((header.reply_serial.unwrap(), texts(&answer), number(&answer)));
    }
    answers.sort();
    let said = |word: &str| vec!["hello".to_owned(), word.to_owned()];
    assert_eq!(answers, [(first, said("one"), None), (start, vec![], Some(1)), (second, said("two"), None)]);
}

#[test]
fn a_service_that_fails_is_an_error_to_all_that_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let services = [
        ("a.Dies", "/bin/sh -c 'exit 3'"),
        ("a.IsKilled", "/bin/sh -c 'kill -9 $$'"),
        ("a.Missing", "/no/such/program"),
        ("a.TakesNoName", "/bin/sh -c 'exit 0'"),
        ("a.IsSlow", "/bin/sleep 1000"),
    ];
    let broker = broker(folder.path(), &services, "<limit name='service_start_timeout'>300</limit>");
    let mut client = broker.open();
    for (name, error) in [
        ("a.Dies", "Spawn.ChildExited"),
        ("a.IsKilled", "Spawn.ChildSignaled"),
        ("a.Missing", "Spawn.ExecFailed"),
        ("a.TakesNoName", "TimedOut"),
        ("a.IsSlow", "TimedOut"),
        ("a.Unknown", "ServiceUnknown"),
    ] {
        let call = Builder::call("/", "M").destination(name);
        let start = driver_call("StartServiceByName").body(Body::default().text(name).u32(0));
        assert_eq!(refusal(client.call(&call, PATIENCE)), error, "{name}");
        assert_eq!(refusal(client.call(&start, PATIENCE)), error, "{name}");
    }
    end_sleepers(&broker);
}

/// What a file says when the service is started counts, and not what it said when the bus was.
#[test]
fn service_files_that_come_change_and_go_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late.service");
    let broker = broker(folder.path(), &[], "");
    let mut client = broker.open();
    let mut look = |exec: Option<&str>| {
        match exec {
            Some(exec) => std::fs::write(&file, format!("[D-BUS Service]\nName=a.Late\nExec={exec}\n")),
            None => std::fs::remove_file(&file),
        }
        .unwrap();
        let listed = client.ask_driver("ListActivatableNames", Body::default()).unwrap();
        let is_listed = listed.windows(6).any(|part| part == b"a.Late");
        (is_listed, refusal(client.call(&Builder::call("/", "M").destination("a.Late"), PATIENCE)))
    };
    assert_eq!(look(Some("/bin/false")), (true, "Spawn.ChildExited".into()));
    assert_eq!(look(Some("/no/such/program")), (true, "Spawn.ExecFailed".into()));
    assert_eq!(look(None), (false, "ServiceUnknown".into()));
}

/// What the bus has inherited names the native socket of another one.
#[test]
fn a_service_finds_the_native_socket_of_its_own_bus_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let native = folder.path().join("native");
    let text = "[D-BUS Service]\nName=a.Service\nExec=/bin/sh -c 'echo \"<$CAUSEWAY_BUS>\" >&2; exit 1'\n";
    std::fs::create_dir_all(folder.path().join("dbus-1/services")).unwrap();
    std::fs::write(folder.path().join("dbus-1/services/a.service"), text).unwrap();
    for (args, expected) in [
        (vec![], "<>".to_owned()),
        (vec!["--native", native.to_str().unwrap()], format!("<{}>", native.display())),
    ] {
        let said = folder.path().join("said");
        let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
        command.args(["--address", "unix:tmpdir=/tmp"]).args(args);
        command.env("XDG_DATA_HOME", folder.path()).env("CAUSEWAY_BUS", "/of/another/bus");
        let broker = Broker::spawn(command.stderr(File::create(&said).unwrap()));
        let start = Builder::call("/", "M").destination("a.Service");
        assert_eq!(refusal(broker.open().call(&start, PATIENCE)), "Spawn.ChildExited");
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(said.lines().any(|line| line == expected), "{expected}: {said}");
    }
}

/// A bus that is no session's and has one user cannot start a program as another one.
#[test]
fn a_service_of_another_user_is_not_started_and_what_is_started_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, exec: &str, user: &str| {
        let text = format!("[D-BUS Service]\nName={name}\nExec={exec}\nUser={user}\n");
        std::fs::write(path(&format!("{name}.service")), text).unwrap();
    };
    let own = rustix::process::geteuid().as_raw();
    write("a.Own", "/bin/false", &own.to_string());
    write("a.Foreign", "/bin/false", &(own + 1).to_string());
    let configure = |kind: &str| {
        let text = format!(
            "<busconfig><type>{kind}</type><listen>unix:tmpdir=/tmp</listen><servicehelper>/bin/helper</servicehelper>\
             <policy context='default'><allow send_destination='*'/><allow receive_type='*'/></policy>\
             <servicedir>{}</servicedir></busconfig>",
            folder.path().display()
        );
        std::fs::write(path("bus.conf"), text).unwrap();
    };
    let text = || std::fs::read_to_string(path("said")).unwrap();
    configure("system");
    let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
    command.arg("--config-file").arg(path("bus.conf")).stderr(File::create(path("said")).unwrap());
    let broker = Broker::spawn(&mut command);
    let mut client = broker.open();
    let mut call = |name: &str| refusal(client.call(&Builder::call("/", "M").destination(name), PATIENCE));
    assert_eq!(call("a.Own"), "Spawn.ChildExited");
    assert_eq!(call("a.Foreign"), "Spawn.PermissionsInvalid");
    assert_eq!(text().matches("<servicehelper> is not supported").count(), 1);
    let requester = format!("(user {own}, process {})", std::process::id());
    let starting: Vec<String> =
        text().lines().filter(|line| line.contains("starting a.")).map(str::to_owned).collect();
    assert!(
        starting.len() == 1 && starting[0].contains("a.Own for :1.") && starting[0].contains(&requester),
        "{starting:?}"
    );
    assert!(text().contains("the program that provides a.Own has ended with status 1"), "{}", text());
    assert!(text().contains("must run as user"), "{}", text());
    // What is wrong is said again when the configuration is read again.
    write("a.Broken", "'", "0");
    configure("session");
    client.ask_driver("ReloadConfig", Body::default()).unwrap();
    assert_eq!(text().matches("<servicehelper> is not supported").count(), 2);
    assert!(text().contains("a.Broken.service: unbalanced quotes"), "{}", text());
    let foreign = client.call(&Builder::call("/", "M").destination("a.Foreign"), PATIENCE);
    assert_eq!(refusal(foreign), "Spawn.ChildExited");
}

/// A service outlives its bus, as with other brokers; this one would stay for a while.
fn end_sleepers(broker: &Broker) {
    let children = format!("/proc/{0}/task/{0}/children", broker.child.pid());
    for pid in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
