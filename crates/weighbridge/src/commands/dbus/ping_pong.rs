//! `weighbridge dbus ping-pong`: calls and replies on a bus that runs, with its consent.
//!
//! One thread owns a name and answers, the other calls it, at a bounded rate. Nothing else on the bus is touched; what its policy refuses is
//! said in a sentence.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus, Error};
use causeway_dbus_wire::wire::{Body, Builder, Header, Kind, names};
use serde::Serialize;
use weighbridge_harness::machine;
use weighbridge_record::import::{About, Import, Input};
use weighbridge_record::{Machine, Writer};
use weighbridge_report::{Document, Section, Table, grouped};
use weighbridge_stats::quantile;

use crate::args::typed;
use crate::commands::look_at_host;
use crate::dbus_args::PingPong;
use crate::destination::{cannot_create, create_record};
use crate::{Exit, Failure, output};

const PATH: &str = "/org/weighbridge/PingPong";
const INTERFACE: &str = "org.weighbridge.PingPong";
const MEMBER: &str = "Echo";
/// How long a reply may take, and how often the answering thread looks whether it is done.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(50);
/// Do not wait for a name that another has.
const DO_NOT_QUEUE: u32 = 4;
const PRIMARY_OWNER: u32 = 1;

/// What was measured.
#[derive(Serialize)]
struct Answer {
    address: String,
    name: String,
    /// Calls a second at most.
    rate: u32,
    /// The program that measured.
    version: &'static str,
    /// When, RFC 3339.
    started: String,
    machine: Machine,
    sizes: Vec<OfSize>,
}

/// Calls of one size.
#[derive(Serialize)]
struct OfSize {
    array_bytes: u32,
    calls: u32,
    /// From the call to its reply.
    median_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    most_ns: f64,
    /// Of each call, in order.
    times_ns: Vec<f64>,
}

/// Measures calls of each size.
pub fn ping_pong(args: &PingPong) -> Result<Exit, Failure> {
    let Some(address) = args.bus.address()? else {
        return Err(Failure::mistake("which bus? give --session, --system or --address ADDRESS"));
    };
    if !names::is_bus_name(&args.name) || args.name.starts_with(':') {
        return Err(Failure::mistake(format!("`{}` is not a well-known name of a bus", args.name)));
    }
    let record = args.out.as_deref().map(|out| {
        create_record(out).map(|writer| (out, writer)).map_err(|error| cannot_create(out, "--out", &error))
    });
    let record = record.transpose()?;
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut server = Bus::connect(&address).map_err(Failure::of)?;
    let mut client = Bus::connect(&address).map_err(Failure::of)?;
    own(&mut server, &args.name)?;
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let answering = thread::spawn(move || answer(&mut server, &done));
    let pause = Duration::from_secs(1) / args.rate;
    let measured: Result<Vec<OfSize>, Error> =
        args.sizes.iter().map(|bytes| of_size(&mut client, args, *bytes, pause)).collect();
    is_done.store(true, Ordering::Relaxed);
    let answered = answering.join().map_err(|_| Failure::new("the answering thread panicked"))?;
    let sizes = measured.map_err(|error| refused(&args.name, &error))?;
    answered.map_err(Failure::of)?;
    let answer = Answer {
        address,
        name: args.name.clone(),
        rate: args.rate,
        version: env!("CARGO_PKG_VERSION"),
        started,
        machine: machine::describe(&look_at_host()?),
        sizes,
    };
    if let Some((out, writer)) = record {
        write(&answer, out, writer)?;
    }
    output::print(output::rendered(args.format, || document(&answer), &answer)).map(|()| Exit::Fine)
}

/// Writes the record: what `weighbridge import` makes of the answer as JSON, so that there is one way from it to a record.
fn write(answer: &Answer, out: &Path, mut writer: Writer) -> Result<(), Failure> {
    let text = serde_json::to_string(answer).map_err(|error| Failure::new(error.to_string()))?;
    let mut import = Import::default();
    if let Some(problem) = import.add(Input { path: out, text: &text }).problems.first() {
        return Err(Failure::new(problem.to_string()));
    }
    let about = About {
        importer: format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        command: typed(),
        ..About::default()
    };
    let written = import.into_lines(&about).try_for_each(|line| writer.write(&line));
    written.map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", out.display())))?;
    output::say(&format!("record: {}", out.display()));
    Ok(())
}

/// Asks for the name: the bus decides.
fn own(server: &mut Bus, name: &str) -> Result<(), Failure> {
    match server.request_name(name, DO_NOT_QUEUE) {
        Ok(PRIMARY_OWNER) => Ok(()),
        Ok(_) => {
            Err(Failure::new(format!("{name} has an owner on this bus; choose another one with --name")))
        }
        Err(error @ Error::Refused { .. }) => Err(Failure::new(format!(
            "the bus does not let this program own {name}, so it is not measured ({error}); its policy would have to allow that name to this user"
        ))),
        Err(error) => Err(Failure::of(error)),
    }
}

fn refused(name: &str, error: &Error) -> Failure {
    match error {
        Error::Refused { .. } => Failure::new(format!(
            "the bus does not let this program call {name}, so it is not measured ({error}); its policy would have to allow calls to that name"
        )),
        error => Failure::new(format!("a call to {name} failed: {error}")),
    }
}

/// Answers each call with what it carries.
fn answer(server: &mut Bus, is_done: &AtomicBool) -> Result<(), Error> {
    // Relaxed: nothing but the word itself is shared.
    while !is_done.load(Ordering::Relaxed) {
        let Some(message) = server.receive(LOOK)? else { continue };
        let Ok(header) = Header::parse(&message) else { continue };
        if let (Kind::MethodCall, Some(MEMBER), Some(caller)) = (header.kind, header.member, header.sender) {
            let body = Body::marshalled(header.endian, header.signature, &message[header.header_bytes..]);
            server.send(&Builder::reply(header.serial).destination(caller).body(body))?;
        }
    }
    Ok(())
}

fn of_size(client: &mut Bus, args: &PingPong, array_bytes: u32, pause: Duration) -> Result<OfSize, Error> {
    let array = vec![0x5a; array_bytes as usize];
    let call = Builder::call(PATH, MEMBER).interface(INTERFACE).destination(&args.name);
    let call = call.body(Body::default().blob(&array));
    let mut times_ns = Vec::with_capacity(args.calls as usize);
    for _ in 0..args.calls {
        let began = Instant::now();
        client.call(&call, PATIENCE)?;
        let took = began.elapsed();
        times_ns.push(took.as_nanos() as f64);
        // What is left of its time is others'.
        thread::sleep(pause.saturating_sub(took));
    }
    let at = |share: f64| quantile(&times_ns, share);
    Ok(OfSize {
        array_bytes,
        calls: args.calls,
        median_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        most_ns: at(1.0),
        times_ns: times_ns.clone(),
    })
}

fn document(answer: &Answer) -> Document {
    let row = |size: &OfSize| {
        let times = [size.median_ns, size.p90_ns, size.p99_ns, size.most_ns];
        let counts = [u64::from(size.array_bytes), u64::from(size.calls)].map(grouped);
        counts.into_iter().chain(times.map(|ns| format!("{:.1}", ns / 1e3))).collect()
    };
    let head = ["array, bytes", "calls", "median, µs", "90 %", "99 %", "most"];
    let table = Table::of_first(&head, 0, answer.sizes.len(), &answer.sizes, row);
    let about = [
        format!(
            "Calls to {} and their replies, at most {} a second, each with an array of that many bytes both ways; times are those of this client, its wake-up included.",
            answer.name, answer.rate
        ),
        "Client and service are threads of this program, wherever the scheduler puts them, and other programs use the bus meanwhile.".to_owned(),
    ];
    let title = format!("Ping-pong on {}", answer.address);
    Document {
        title: title.clone(),
        warnings: Vec::new(),
        sections: vec![Section::of(&title, about, table.blocks())],
    }
}
