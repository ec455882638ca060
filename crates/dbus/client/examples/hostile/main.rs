//! What hostile clients of a broker cost two honest ones: round trips with and without each hostile client, in turn within one run.
//!
//! `hostile [BROKER…]` starts each broker that is installed, once for every hostile client, and prints a table. The broker and the
//! honest clients are on one CPU, the hostile client is a process on another. A second broker on the first CPU, with a hostile client of its
//! own, shows what of this is competition for the CPU. `hostile.sh` builds and runs it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program that prints a table")]

mod attack;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus, Error};
use causeway_dbus_wire::wire::{Body, Builder, Header, Value, arguments_of};
use causeway_os::sched;
use weighbridge_dbus_client::brokers::{Broker, Limits, Program};

use attack::Attack;

/// A broker that takes longer stands still.
const PATIENCE: Duration = Duration::from_secs(3);
/// Sets of slices: one with the hostile clients at rest, one with that of the broker at work, one with that of another broker.
const SETS: usize = 12;
const SLICE: Duration = Duration::from_millis(100);
/// The beginning of a slice, which is not measured.
const SETTLING: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &args[..] {
        [word, name, address, cpu] if word == "attack" => attack::run(name, address, cpu),
        names => measure(names),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hostile: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(names: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let known = |name: &String| Program::ALL.into_iter().find(|program| program.name() == name);
    let named = names.iter().map(|name| known(name).ok_or(format!("{name} is not a broker")));
    let mut programs = named.collect::<Result<Vec<Program>, _>>()?;
    if programs.is_empty() {
        programs = vec![Program::Causewayd, Program::DbusDaemon, Program::DbusBroker];
    }
    let cpus = sched::allowed_cpus()?;
    let (honest, hostile) = (cpus[0], cpus[cpus.len() - 1]);
    if honest == hostile {
        eprintln!("hostile: there is one CPU, which the hostile clients share with the others");
    }
    sched::pin(&[honest])?;
    println!(
        "| broker | hostile client | p50 alone, µs | beside it | ratio | of another broker | p99 alone, µs | beside it | ratio | of another broker | longest turn, ms | its CPU time, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for program in programs {
        if program.path().is_none() {
            eprintln!("hostile: {program} is not installed ({})", program.package());
            continue;
        }
        for (_, attack, _) in Attack::ALL {
            let row = match beside(program, attack, hostile) {
                Ok(row) => row,
                Err(error) if error.is::<Stalled>() => format!("{error} |"),
                Err(error) => return Err(error),
            };
            println!("| {program} | {attack} | {row}");
        }
    }
    Ok(())
}

/// The rest of a row: round trips of two honest clients alone and beside a hostile one.
fn beside(program: Program, attack: &str, cpu: u32) -> Result<String, Box<dyn std::error::Error>> {
    let [broker, other] = [(); 2].map(|()| Broker::start(program, &Limits::default()));
    let (broker, other) = (broker?, other?);
    let (mut client, mut server) = (Bus::open(broker.address())?, Bus::open(broker.address())?);
    let mut hostile = Hostile::start(attack, broker.address(), cpu)?;
    // What the same costs that has another process to suffer from it: time of the CPU, and nothing that honest clients wait for.
    let mut elsewhere = Hostile::start(attack, other.address(), cpu)?;
    let (mut alone, mut together, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SETS {
        alone.push(slice(&mut client, &mut server)?);
        for (hostile, slices) in [(&mut hostile, &mut together), (&mut elsewhere, &mut beyond)] {
            hostile.say(b'g')?;
            slices.push(slice(&mut client, &mut server)?);
            hostile.say(b's')?;
        }
    }
    let mut row = String::new();
    for percent in [50, 99] {
        let of =
            |slices: &[Vec<f64>]| slices.iter().map(|slice| percentile(slice, percent)).collect::<Vec<_>>();
        let (alone, together, beyond) = (of(&alone), of(&together), of(&beyond));
        let ratios = |to: &[f64]| to.iter().zip(&alone).map(|(with, without)| with / without).collect();
        let ratios: [Vec<f64>; 2] = [ratios(&together), ratios(&beyond)];
        let [of_this, of_other] = ratios.map(|values| percentile(&sorted(values), 50));
        let [alone, together] = [alone, together].map(|values| percentile(&sorted(values), 50));
        write!(row, "{alone:.1} | {together:.1} | {of_this:.2} | {of_other:.2} | ")?;
    }
    let turn =
        |name| longest_turn(&mut client, name).map(|time| time.map_or("–".into(), |ms| format!("{ms:.2}")));
    let turn: Result<Vec<String>, Error> =
        ["PeakTurnMicroseconds", "PeakTurnCPUMicroseconds"].into_iter().map(turn).collect();
    Ok(row + &turn?.join(" | ") + " |")
}

/// The broker stands still.
#[derive(Debug)]
struct Stalled;

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer in {} s", PATIENCE.as_secs())
    }
}

impl std::error::Error for Stalled {}

/// Round trips for the time of a slice, each in µs, sorted.
fn slice(client: &mut Bus, server: &mut Bus) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let to = server.unique_name().to_owned();
    let call = Builder::call("/", "M").interface("a.B").destination(&to).body(Body::default().blob(&[7; 64]));
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < SLICE {
        let start = Instant::now();
        let serial = client.send(&call)?;
        let asked = next(server, |header| header.member == Some("M"))?;
        let header = Header::parse(&asked).map_err(Error::Protocol)?;
        server.send(&Builder::reply(header.serial).destination(header.sender.unwrap_or_default()))?;
        next(client, |header| header.reply_serial == Some(serial))?;
        if began.elapsed() > SETTLING {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(sorted(times))
}

/// The next message that `is_it`.
fn next(
    connection: &mut Bus,
    is_it: impl Fn(&Header<'_>) -> bool,
) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    loop {
        let message = connection.receive(PATIENCE)?.ok_or(Stalled)?;
        if is_it(&Header::parse(&message).map_err(Error::Protocol)?) {
            return Ok(message);
        }
    }
}

/// What causewayd says of its turns, in ms; nothing from others.
fn longest_turn(client: &mut Bus, name: &str) -> Result<Option<f64>, Error> {
    let ask = Builder::of_driver("GetStats").interface("org.freedesktop.DBus.Debug.Stats");
    let answer = match client.call(&ask, PATIENCE) {
        Ok(answer) => answer,
        Err(Error::Refused { .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    let facts: HashMap<&str, Value<'_>> = arguments_of(&answer).map_err(Error::from)?;
    Ok(facts.get(name).and_then(|value| value.to::<u32>().ok()).map(|us| f64::from(us) / 1e3))
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The smallest value with at least so many percent at or below it; `sorted` has one at least.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// The process of a hostile client, killed when dropped.
struct Hostile {
    child: Child,
    orders: ChildStdin,
}

impl Hostile {
    fn start(attack: &str, address: &str, cpu: u32) -> Result<Hostile, std::io::Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["attack", attack, address, &cpu.to_string()]);
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let orders = child.stdin.take().expect("it is a pipe");
        Ok(Hostile { child, orders })
    }

    /// `g`: go on. `s`: rest.
    fn say(&mut self, order: u8) -> Result<(), std::io::Error> {
        self.orders.write_all(&[order])
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
