//! What a call costs a program of zbus on each transport: [`zbus_clock`](zbus_clock.rs) on a native socket and through D-Bus brokers, and
//! beside them a call between two members without zbus.
//!
//! `zbus_costs [ROUNDS]` prints a table: the median of the rounds and its 95 % interval. Each row has a bus and a service of its own; in each
//! round every row has its turn, so that the machine is in the same state for all, and ratios are taken in each round. All processes run
//! on one CPU. `causewayd` and the examples have to be built; a broker that is not installed has no row.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use causeway_bus::Connection;
use causeway_bus::wire::Body;
use causeway_os::sched;
use weighbridge_dbus_client::brokers::{Broker, Error, Limits, Program};
use weighbridge_dbus_client::native_path;
use weighbridge_stats::{median, median_interval};

const CLOCK: &str = "com.example.Clock";
const CALLS: u32 = 2_000;
/// Figures of a table, in the order of rounds.
type Row = (String, Vec<f64>);

/// Who calls, and where.
struct Transport {
    title: &'static str,
    /// A path, or an address of D-Bus.
    place: String,
    /// The caller of a call without zbus; else `zbus_clock` is.
    member: Option<Connection>,
    service: Child,
    _broker: Broker,
}

impl Drop for Transport {
    fn drop(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }
}

impl Transport {
    /// Starts a bus and its clock; nothing where the broker is not installed.
    fn start(title: &'static str, program: Program, has_zbus: bool) -> Option<Transport> {
        let broker = match Broker::start(program, &Limits::default()) {
            Err(missing @ Error::Missing(_)) => {
                println!("{missing}\n");
                return None;
            }
            started => started.expect("a bus"),
        };
        let native = native_path(broker.address()).map(|path| path.to_string_lossy().into_owned());
        let place = native.unwrap_or_else(|| broker.address().to_owned());
        let mut command = match has_zbus {
            true => Command::new(example("zbus_clock")),
            false => Command::new(example("clock_service")),
        };
        command.args(has_zbus.then_some("serve")).arg(&place).stdout(Stdio::piped());
        let mut service = command.spawn().expect("the clock");
        let mut line = String::new();
        BufReader::new(service.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.contains(CLOCK), "{title}: the clock says {line:?}");
        let member = (!has_zbus).then(|| Connection::open(&place).expect("a member"));
        Some(Transport { title, place, member, service, _broker: broker })
    }

    /// Time of a call, in µs.
    fn call_us(&mut self) -> f64 {
        let Some(member) = &mut self.member else { return zbus_call_us(&self.place) };
        let start = Instant::now();
        for _ in 0..CALLS {
            member.call(CLOCK, "/", CLOCK, "Seconds", Body::default()).expect("a reply");
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
    }
}

/// What `zbus_clock` says that one call takes.
fn zbus_call_us(place: &str) -> f64 {
    let mut command = Command::new(example("zbus_clock"));
    let output =
        command.args(["call", place, "--count"]).arg(CALLS.to_string()).output().expect("zbus_clock");
    let said = String::from_utf8_lossy(&output.stdout);
    let figure =
        said.lines().find_map(|line| line.strip_suffix(" us each")?.rsplit(' ').next()?.parse().ok());
    figure.unwrap_or_else(|| panic!("{place}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// An example beside this one.
fn example(name: &str) -> PathBuf {
    let path = std::env::current_exe().expect("this program").with_file_name(name);
    assert!(path.exists(), "build it with: cargo build --release -p causeway-bus --features zbus --examples");
    path
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(15, |rounds| rounds.parse().expect("a number of rounds"));
    let cpus = sched::allowed_cpus().expect("the CPUs of this process");
    sched::pin(&cpus[..1]).expect("pinned");
    let wanted = [
        ("zbus, native socket of causewayd", Program::CausewayBus, true),
        ("zbus, D-Bus socket of causewayd", Program::Causewayd, true),
        ("zbus, dbus-broker", Program::DbusBroker, true),
        ("zbus, dbus-daemon", Program::DbusDaemon, true),
        ("members without zbus", Program::CausewayBus, false),
    ];
    let mut transports: Vec<Transport> = wanted
        .into_iter()
        .filter_map(|(title, program, zbus)| Transport::start(title, program, zbus))
        .collect();
    let mut figures: Vec<Row> = transports.iter().map(|one| (one.title.to_owned(), Vec::new())).collect();
    let mut ratios: Vec<Row> = Vec::new();
    for round in 0..=rounds {
        let times: Vec<f64> = transports.iter_mut().map(Transport::call_us).collect();
        // In the first round the ends find each other.
        if round > 0 {
            figures.iter_mut().zip(&times).for_each(|((_, values), time)| values.push(*time));
        }
    }
    let [(native, natives), others @ ..] = &figures[..] else { return };
    for (title, values) in others {
        ratios
            .push((format!("{native} / {title}"), natives.iter().zip(values).map(|(a, b)| a / b).collect()));
    }
    print("call and its reply, µs", &figures);
    print("ratio", &ratios);
}

fn print(title: &str, rows: &[Row]) {
    println!("| {title} | median | 95 % interval |\n|---|---|---|");
    for (row, values) in rows.iter().filter(|(_, values)| !values.is_empty()) {
        let interval = median_interval(values, 0.95).map_or_else(
            || "too few rounds".to_owned(),
            |interval| format!("{:.2} – {:.2}", interval.low, interval.high),
        );
        println!("| {row} | {:.2} | {interval} |", median(values));
    }
    println!();
}
