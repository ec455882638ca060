//! The commands.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_os::process::{block_signals, poll};
use clap::CommandFactory;
use serde_json::json;
use zenoh::{Config, Wait};

use crate::args::{Arguments, BridgeArguments, RouterArguments, StatArguments};
use crate::bus;
use crate::failure::{Failure, Result};
use crate::group::Carried;
use crate::keys::part;
use crate::lists::Names;
use crate::net::{Place, tls_settings};
use crate::state::folder;
use crate::status::{Status, ask, log, sockets, to_metrics, to_table, write_metrics};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
/// How often it is looked whether there is a connection, and how soon, and how often, for whom.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_FOR_REALMS: Duration = Duration::from_secs(5);
/// How long threads have to end; what then still waits for something ends with the process.
const END_TIME: Duration = Duration::from_secs(2);

/// The name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Bridges until it is told to end.
pub fn bridge(arguments: BridgeArguments) -> Result<()> {
    // Blocked before there is a second thread, which inherits that.
    let signals = block_signals(&[SIGINT, SIGTERM])?;
    let Some(realm) = arguments.realm.clone().filter(|realm| !realm.is_empty()) else {
        return Err(Failure::Usage("--realm is missing".into()));
    };
    let (exports, imports) = (Names::of(&arguments.exports), Names::of(&arguments.imports));
    let host = arguments.host.clone().unwrap_or_else(machine);
    let state = arguments.state.clone().unwrap_or_else(folder);
    let status = Arc::new(Status::new(&realm, &host));
    let carried = carried(&arguments, &exports, &imports, &state)?;
    let is_idle = carried.is_empty() && (arguments.bus.is_none() || exports.is_empty() && imports.is_empty());
    if is_idle {
        let why = "nothing crosses: name groups (--group) or a bus (--bus), and what of them may cross (--export, --import)";
        return Err(Failure::Usage(why.into()));
    }
    zenoh::try_init_log_from_env();
    status.serve(&state.join(format!("{}.{}.stat", part(&realm), part(&host))))?;
    if let Some(path) = arguments.metrics.clone() {
        write_metrics(Arc::clone(&status), path)?;
    }
    let place = Place {
        realm,
        host,
        routers: arguments.routers.clone(),
        listen: arguments.listen.clone(),
        lease: arguments.lease,
        tls: arguments.tls.clone(),
    };
    place.config()?;
    let stop = Arc::new(AtomicBool::new(false));
    let bus = arguments.bus.clone().map(|path| {
        Arc::new(bus::Carried {
            path,
            exports,
            imports,
            call_timeout: arguments.call_timeout,
            own: Mutex::default(),
            calls: AtomicU64::new(0),
        })
    });
    let work = {
        let (stop, status) = (Arc::clone(&stop), Arc::clone(&status));
        move || work(&place, carried, bus, &status, &stop)
    };
    let worker = std::thread::Builder::new().name("bridge".into()).spawn(work)?;
    while !poll(&[signals.as_fd()], Some(LOOK))?[0] {
        if worker.is_finished() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let end = Instant::now() + END_TIME;
    while !worker.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = std::fs::remove_file(state.join(format!("{}.{}.stat", part(&status.realm), part(&status.host))));
    if worker.is_finished() {
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    } else {
        Ok(())
    }
}

/// The groups that cross.
fn carried(
    arguments: &BridgeArguments,
    exports: &Names,
    imports: &Names,
    state: &std::path::Path,
) -> Result<Vec<Carried>> {
    let mut carried = Vec::<Carried>::new();
    for place in &arguments.groups {
        let (is_out, is_in) = (exports.contain(&place.name), imports.contain(&place.name));
        if carried.iter().any(|other| other.place.name == place.name) {
            return Err(Failure::Usage(format!(
                "there are two groups with the name {}: serve one at another path",
                place.name
            )));
        }
        if !is_out && !is_in {
            let name = &place.name;
            log(&format!(
                "the group {name} is in neither list and does not cross: --export {name}, --import {name}"
            ));
            continue;
        }
        carried.push(Carried {
            place: place.clone(),
            exports: is_out,
            imports: is_in,
            patience: arguments.patience,
            packs: !arguments.no_packs,
            folder: state.to_owned(),
            loss_topic: arguments.loss_topic,
        });
    }
    Ok(carried)
}

fn work(
    place: &Place,
    carried: Vec<Carried>,
    bus: Option<Arc<bus::Carried>>,
    status: &Arc<Status>,
    stop: &Arc<AtomicBool>,
) -> Result<()> {
    let Some(net) = place.open(status, stop)? else { return Ok(()) };
    let _token = net.session.liveliness().declare_token(net.realm.host(&net.host)).wait()?;
    let mut threads: Vec<_> = carried
        .into_iter()
        .map(|carried| {
            let (net, status, stop) = (Arc::clone(&net), Arc::clone(status), Arc::clone(stop));
            std::thread::Builder::new()
                .name(carried.place.name.clone())
                .spawn(move || carried.run(&net, &status, &stop))
        })
        .collect::<Result<_, _>>()?;
    if let Some(bus) = bus {
        let (exports, imports) = (Arc::clone(&bus), bus);
        if !exports.exports.is_empty() {
            let (net, status, stop) = (Arc::clone(&net), Arc::clone(status), Arc::clone(stop));
            let run = move || bus::exports::run(&net, &exports, &status, &stop);
            threads.push(std::thread::Builder::new().name("exports".into()).spawn(run)?);
        }
        if !imports.imports.is_empty() {
            let (net, status, stop) = (Arc::clone(&net), Arc::clone(status), Arc::clone(stop));
            let run = move || {
                if let Err(failure) = bus::imports::run(&net, &imports, &status, &stop) {
                    status.fail(&failure.to_string());
                }
            };
            threads.push(std::thread::Builder::new().name("imports".into()).spawn(run)?);
        }
    }
    let (mut look_at, mut was_connected) = (Instant::now() + LOOK_FOR_REALMS, true);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        let is_connected = net.is_connected();
        status.is_connected.store(is_connected, Ordering::Relaxed);
        if is_connected != was_connected {
            was_connected = is_connected;
            match is_connected {
                true => log("connected again"),
                false if place.routers.is_empty() => log("no other bridge can be seen now"),
                false => status
                    .fail(&format!("the router at {} is gone; looking for it", place.routers.join(", "))),
            }
        }
        if Instant::now() >= look_at {
            look_at += LOOK_FOR_REALMS * 12;
            if let Some(why) = net.other_realms() {
                status.fail(&why);
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
    let _ = net.session.close().wait();
    Ok(())
}

/// Prints the manual page.
pub fn man() -> Result<()> {
    clap_mangen::Man::new(Arguments::command()).render(&mut std::io::stdout().lock())?;
    Ok(())
}

/// Prints what bridges say of themselves.
#[allow(clippy::print_stdout, reason = "what it is asked for")]
pub fn stat(arguments: &StatArguments) -> Result<()> {
    let folder = arguments.state.clone().unwrap_or_else(folder);
    let answers: Vec<_> = sockets(&folder).iter().filter_map(|socket| ask(socket).ok()).collect();
    if answers.is_empty() {
        return Err(Failure::of(format!(
            "no bridge answers in {}; --state names the folder of one",
            folder.display()
        )));
    }
    for answer in &answers {
        match arguments {
            StatArguments { json: true, .. } => println!("{answer}"),
            StatArguments { metrics: true, .. } => print!("{}", to_metrics(answer)),
            _ => print!("{}", to_table(answer)),
        }
    }
    Ok(())
}

/// Routes until it is told to end.
pub fn router(arguments: &RouterArguments) -> Result<()> {
    let signals = block_signals(&[SIGINT, SIGTERM])?;
    let mut config = match &arguments.config {
        Some(path) => {
            Config::from_file(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?
        }
        None => Config::default(),
    };
    let mut settings = vec![
        ("mode".to_owned(), json!("router")),
        ("listen/endpoints".into(), json!(arguments.listen)),
        ("connect/endpoints".into(), json!(arguments.connect)),
        ("scouting/multicast/enabled".into(), json!(false)),
    ];
    settings.extend(arguments.tls.iter().flat_map(|folder| tls_settings(folder)));
    for (key, value) in settings {
        config
            .insert_json5(&key, &value.to_string())
            .map_err(|error| Failure::Usage(format!("{key}: {error}")))?;
    }
    zenoh::try_init_log_from_env();
    let session = zenoh::open(config).wait()?;
    log(&format!("routes at {}", arguments.listen.join(", ")));
    poll(&[signals.as_fd()], None)?;
    session.close().wait()?;
    Ok(())
}
