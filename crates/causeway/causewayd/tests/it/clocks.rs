//! Clocks: which of them deadlines are measured with, and members whose clock is another one.
//!
//! All deadlines of bus and log are measured with `CLOCK_MONOTONIC`, which stands still while the machine sleeps, and each process with its own:
//! no moment that another one has read is compared with it. So neither a clock of the day that is set, nor a machine that has slept, nor a time
//! namespace with days between its clock and that of the others ends anything.

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_bus::wire::Body;
use causeway_bus::{Connection as Member, ConnectionOptions, Error, Incoming, name};

use crate::support::*;

/// How far the clocks of the others are ahead, in seconds.
const AHEAD: [i64; 2] = [864_000, -60];
const NAME: &str = "com.example.Elsewhen";
const SIGNALS: usize = 3_000;
const SHORT: Duration = Duration::from_millis(20);

/// A member that has little space, so that it waits for others, and this deadline for them.
fn member(socket: &Path, laggard_deadline: Duration) -> Member {
    Member::open_with(socket, ConnectionOptions { laggard_deadline: Some(laggard_deadline), ..small() })
        .unwrap()
}

fn emit_all(member: &mut Member) {
    for number in 0..SIGNALS {
        member.emit(PATH, INTERFACE, "Count", text(&number.to_string())).unwrap();
    }
}

fn hear_all(member: &mut Member) {
    for number in 0..SIGNALS {
        assert_eq!(signal_of(member, INTERFACE).text(), Some(&*number.to_string()));
    }
}

/// It does what it is called for, and answers when it has.
#[test]
fn role() {
    let Some((_, socket, _)) = play() else { return };
    let mut own = member(&socket, PATIENCE);
    let start = Instant::now();
    while own.next(Some(SHORT)).unwrap().is_some() {}
    assert!(start.elapsed() >= SHORT);
    own.request_name(NAME, 0).unwrap();
    loop {
        let asked = call(&mut own);
        match asked.header().member.unwrap() {
            "Echo" => {}
            "Listen" => own.add_match(RULE).unwrap(),
            "Emit" => emit_all(&mut own),
            "Evict" => {
                // This one reads nothing meanwhile.
                own.remove_match(RULE).unwrap();
                emit_all(&mut member(&socket, Duration::from_millis(100)));
            }
            _ => {
                // The caller keeps silent: its time is over here after its time.
                let silent = asked.header().sender.unwrap().to_owned();
                let start = Instant::now();
                let serial = own.start_call(&silent, PATH, INTERFACE, "Wait", Body::default()).unwrap();
                let error = own.finish_call(serial, SHORT).unwrap_err();
                assert!(start.elapsed() >= SHORT && error.name() == Some(name::NO_REPLY), "{error}");
            }
        }
        own.reply(&asked, Body::default()).unwrap();
        if asked.header().member == Some("Listen") {
            hear_all(&mut own);
        }
    }
}

fn ask(member: &mut Member, what: &str) {
    let serial = member.start_call(NAME, PATH, INTERFACE, what, Body::default()).unwrap();
    member.finish_call(serial, PATIENCE).unwrap();
}

/// What members do with each other that wait, sleep, and stand in the way of others.
fn examine(broker: &Broker, _other: &Running) {
    let mut own = member(&broker.path(), PATIENCE);
    own.add_match("type='signal',member='NameOwnerChanged'").unwrap();
    eventually("the other one comes", || own.name_owner(NAME).is_some());
    for _ in 0..200 {
        ask(&mut own, "Echo");
    }
    ask(&mut own, "TimeOut");
    ask(&mut own, "Listen");
    emit_all(&mut own);
    // It has heard all of them before it takes the next call.
    own.add_match(RULE).unwrap();
    let serial = own.start_call(NAME, PATH, INTERFACE, "Emit", Body::default()).unwrap();
    hear_all(&mut own);
    own.finish_call(serial, PATIENCE).unwrap();
    own.remove_match(RULE).unwrap();
    // One that reads nothing is evicted by a sender there as by one here.
    let mut lazy = member(&broker.path(), PATIENCE);
    lazy.add_match(RULE).unwrap();
    ask(&mut own, "Evict");
    assert!(matches!(error_of(&mut lazy), Error::Disconnected(_)));
    // What those are told that look after the bus does not break.
    let mut client = broker.client();
    let most = Body::default().u32(9);
    let stats = causeway_dbus_wire::wire::Builder::of_driver("GetAllConnectionStats");
    client.call(&stats.interface("org.freedesktop.DBus.Debug.Stats").body(most), PATIENCE).unwrap();
    assert!(
        own.next(Some(Duration::ZERO))
            .is_ok_and(|incoming| !matches!(incoming, Some(Incoming::AuthorityGone)))
    );
}

#[test]
fn a_member_whose_clock_differs_by_days_exchanges_messages_and_neither_evicts_nor_is_evicted_for_it() {
    for ahead in AHEAD {
        let broker = Broker::native();
        let role = role_of(module_path!(), "other", &broker.path());
        let Some(mut there) = at_another_time(&role, ahead) else { return };
        examine(&broker, &Running::start(there.stdout(std::process::Stdio::null())));
    }
}

#[test]
fn a_bus_whose_clock_differs_by_days_from_that_of_its_members_serves_them() {
    for ahead in AHEAD {
        let place = ["--address", "unix:tmpdir=/tmp"];
        let Some(broker) = Broker::native_as(&place, |command| at_another_time(&command, ahead)) else {
            return;
        };
        examine(&broker, &Running::start(&mut role_of(module_path!(), "other", &broker.path())));
    }
}

/// The files of bus and log that read the clock of the day, which a user may set, and what for.
const OF_THE_DAY: [(&str, &str); 2] = [
    ("causewayd/src/service_file.rs", "when a file was changed"),
    ("cli/src/bus/show.rs", "when a message was seen, for people"),
];

#[test]
fn no_deadline_reads_a_clock_that_jumps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<_> =
        ["causeway", "bus", "causewayd", "cli", "../base"].map(|part| root.join(part)).into();
    let (mut found, mut files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["target", "tests", "examples", "fuzz", "testkit"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files += 1;
                let reads =
                    ["SystemTime", "Realtime", "CLOCK_REALTIME", "UNIX_EPOCH", "gettimeofday", "CLOCK_TAI"];
                if reads.iter().any(|clock| text.contains(clock)) {
                    found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
    }
    found.sort_unstable();
    assert!(files > 200, "{files} files are all of them?");
    assert_eq!(found, OF_THE_DAY.map(|(file, _)| file), "what reads the clock of the day?");
}
