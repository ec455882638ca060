//! What a bridge counts, and who asks for it: `stat`, and OpenMetrics.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_os::lock::lock;
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::state::make_folder;

/// Says what happens, on the standard error: systemd and containers have their logs from there.
#[allow(clippy::print_stderr, reason = "the log of this program")]
pub fn log(text: &str) {
    eprintln!("causeway-bridge: {text}");
}

/// The counters of a route, their names in `stat` and metrics, and what they mean.
macro_rules! counters {
    ($($name:ident: $help:literal,)*) => {
        /// What is counted of a route.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: AtomicU64,)*
        }

        impl Counters {
            fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), $help, self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    sent: "Messages, signals or calls that went out on this route, or came in and were passed on",
    acknowledged: "Of these, how many the slowest receiver has; of those that came in, how many were acknowledged",
    lost: "Messages that are not there any more and that nobody will get",
    resent: "Messages that were sent, or asked for, once more",
    duplicates: "Messages that had come before and were dropped",
    looped: "Messages that had passed this host before and were dropped",
    refused: "What was not understood, or is not allowed, and was dropped",
    queue: "Messages, or calls, that wait now",
    peers: "Hosts at the other end that answer now",
}

/// Which way a route goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this host.
    Out,
    /// To this host.
    In,
}

/// One name in one direction, and what is counted of it.
#[derive(Debug)]
pub struct Route {
    /// `group`, `calls` or `signals`.
    pub kind: &'static str,
    /// Of the group, or on the bus.
    pub name: String,
    /// Which way.
    pub direction: Direction,
    /// The host at the other end, empty for all.
    pub host: String,
    /// What is counted.
    pub counters: Counters,
    last_error: Mutex<Option<String>>,
    said: Mutex<Option<Instant>>,
}

/// What goes wrong again and again is said so often.
const SAY_AGAIN: Duration = Duration::from_secs(1);

impl Route {
    /// Notes what went wrong, and says it, unless it said the same last, or something a moment ago.
    pub fn fail(&self, why: &str) {
        let mut last = lock(&self.last_error);
        if last.as_deref() != Some(why) {
            let mut said = lock(&self.said);
            if said.is_none_or(|at| at.elapsed() >= SAY_AGAIN) {
                log(&format!("{} {}: {why}", self.kind, self.name));
                *said = Some(Instant::now());
            }
            *last = Some(why.to_owned());
        }
    }

    /// What went wrong last.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}

/// Adds to a counter.
pub fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// What is known of a bridge.
#[derive(Debug)]
pub struct Status {
    /// The realm.
    pub realm: String,
    /// The name of this host in it.
    pub host: String,
    /// Whether there is a connection to a router, or to another bridge.
    pub is_connected: AtomicBool,
    routes: Mutex<Vec<Arc<Route>>>,
    last_error: Mutex<Option<String>>,
}

impl Status {
    /// Of the bridge of this host.
    pub fn new(realm: &str, host: &str) -> Status {
        Status {
            realm: realm.to_owned(),
            host: host.to_owned(),
            is_connected: AtomicBool::new(false),
            routes: Mutex::default(),
            last_error: Mutex::default(),
        }
    }

    /// A route of this kind, name, direction and host: the one that there is, or a new one.
    pub fn route(&self, kind: &'static str, name: &str, direction: Direction, host: &str) -> Arc<Route> {
        let mut routes = lock(&self.routes);
        let is_it = |route: &&Arc<Route>| {
            (route.kind, route.direction) == (kind, direction) && route.name == name && route.host == host
        };
        if let Some(route) = routes.iter().find(is_it) {
            return Arc::clone(route);
        }
        let route = Arc::new(Route {
            kind,
            name: name.to_owned(),
            direction,
            host: host.to_owned(),
            counters: Counters::default(),
            last_error: Mutex::default(),
            said: Mutex::default(),
        });
        routes.push(Arc::clone(&route));
        route
    }

    /// Notes and says what is wrong with the bridge as a whole, unless it said the same last.
    pub fn fail(&self, why: &str) {
        let mut last = lock(&self.last_error);
        if last.as_deref() != Some(why) {
            log(why);
            *last = Some(why.to_owned());
        }
    }

    /// All of it.
    pub fn to_json(&self) -> Value {
        let route = |route: &Arc<Route>| {
            let direction = if route.direction == Direction::Out { "out" } else { "in" };
            let mut fields = json!({
                "kind": route.kind, "name": route.name, "direction": direction, "host": route.host, "last_error": route.last_error(),
            });
            for (name, _, value) in route.counters.each() {
                fields[name] = value.into();
            }
            fields
        };
        json!({
            "realm": self.realm, "host": self.host, "pid": std::process::id(),
            "connected": self.is_connected.load(Ordering::Relaxed),
            "last_error": *lock(&self.last_error),
            "routes": lock(&self.routes).iter().map(route).collect::<Vec<_>>(),
        })
    }

    /// Serves all of it on a socket: a thread writes it to each connection, until the process ends.
    pub fn serve(self: &Arc<Self>, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        // One that nobody listens at is of a process that was killed.
        if path.exists() && UnixStream::connect(path).is_err() {
            let _ = std::fs::remove_file(path);
        }
        let listener = UnixListener::bind(path).map_err(|error| {
            Failure::on(
                path,
                format!(
                    "{error}: is another bridge of this realm and host running? --stat sets another socket"
                ),
            )
        })?;
        let status = Arc::clone(self);
        let serve = move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                let _ = stream.write_all(status.to_json().to_string().as_bytes());
            }
        };
        std::thread::Builder::new().name("stat".into()).spawn(serve)?;
        Ok(())
    }
}

/// What a bridge says of itself at a socket.
pub fn ask(path: &Path) -> Result<Value> {
    let mut text = String::new();
    let mut stream = UnixStream::connect(path).map_err(|error| Failure::on(path, error))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.read_to_string(&mut text).map_err(|error| Failure::on(path, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::on(path, error))
}

/// The sockets of all bridges of a folder.
pub fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|of| of == "stat")).collect();
    found.sort();
    found
}

/// A table for a person.
pub fn to_table(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut head = vec!["route".to_owned()];
    head.extend(Counters::default().each().map(|(name, _, _)| name.to_owned()));
    let mut rows = vec![head];
    let mut errors = String::new();
    for route in status["routes"].as_array().into_iter().flatten() {
        let host = text(&route["host"]);
        let way = match (text(&route["direction"]).as_str(), host.as_str()) {
            ("out", _) => "→".to_owned(),
            (_, host) => format!("← {host}"),
        };
        let name = format!("{} {} {way}", text(&route["kind"]), text(&route["name"]));
        let mut row = vec![name.clone()];
        row.extend(Counters::default().each().map(|(counter, _, _)| route[counter].to_string()));
        rows.push(row);
        if let Some(error) = route["last_error"].as_str() {
            errors += &format!("{name}: {error}\n");
        }
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let connected = if status["connected"] == true { "connected" } else { "not connected" };
    let mut table = format!("{} in realm {}: {connected}\n", text(&status["host"]), text(&status["realm"]));
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            table += &if column == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
        }
        table.push('\n');
    }
    if let Some(error) = status["last_error"].as_str() {
        errors = format!("{error}\n{errors}");
    }
    table + &errors
}

/// The text format of OpenMetrics.
pub fn to_metrics(status: &Value) -> String {
    let escape = |value: &Value| {
        value.as_str().unwrap_or("").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    };
    let mut text = String::new();
    let is_connected = u8::from(status["connected"] == true);
    text += "# HELP causeway_bridge_connected Whether there is a connection to a router or another bridge.\n";
    text += "# TYPE causeway_bridge_connected gauge\n";
    text += &format!("causeway_bridge_connected{{realm=\"{}\"}} {is_connected}\n", escape(&status["realm"]));
    for (name, help, _) in Counters::default().each() {
        let (kind, suffix) =
            if ["queue", "peers"].contains(&name) { ("gauge", "") } else { ("counter", "_total") };
        text += &format!("# HELP causeway_bridge_{name} {help}.\n# TYPE causeway_bridge_{name} {kind}\n");
        for route in status["routes"].as_array().into_iter().flatten() {
            let [of, called, direction, host] =
                ["kind", "name", "direction", "host"].map(|field| escape(&route[field]));
            text += &format!(
                "causeway_bridge_{name}{suffix}{{kind=\"{of}\",name=\"{called}\",direction=\"{direction}\",host=\"{host}\"}} {}\n",
                route[name]
            );
        }
    }
    text + "# EOF\n"
}

/// Writes metrics into a file, which is replaced, every five seconds.
pub fn write_metrics(status: Arc<Status>, path: PathBuf) -> Result<()> {
    let write = move |status: &Status| -> std::io::Result<()> {
        let mut new = path.clone().into_os_string();
        new.push(".new");
        std::fs::write(&new, to_metrics(&status.to_json()))?;
        std::fs::rename(&new, &path)
    };
    write(&status).map_err(|error| Failure::of(format!("cannot write metrics: {error}")))?;
    let every = move || {
        loop {
            std::thread::sleep(Duration::from_secs(5));
            if let Err(error) = write(&status) {
                status.fail(&format!("cannot write metrics: {error}"));
            }
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(every)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        let status = Status::new("home", "a");
        let out = status.route("group", "prices", Direction::Out, "");
        count(&out.counters.sent, 12);
        count(&out.counters.lost, 3);
        status.route("group", "prices", Direction::In, "b").fail("it is \"broken\"");
        status
    }

    #[test]
    fn a_route_is_there_once_and_its_counts_are_shown_in_every_form() {
        let status = status();
        count(&status.route("group", "prices", Direction::Out, "").counters.sent, 1);
        let json = status.to_json();
        assert_eq!(json["routes"].as_array().unwrap().len(), 2);
        assert_eq!((&json["routes"][0]["sent"], &json["routes"][0]["lost"]), (&13.into(), &3.into()));
        let table = to_table(&json);
        let row: Vec<_> = table
            .lines()
            .find(|line| line.starts_with("group prices →"))
            .unwrap()
            .split_whitespace()
            .collect();
        assert_eq!(row[3..6], ["13", "0", "3"], "{table}");
        assert!(table.contains("group prices ← b: it is \"broken\"\n"), "{table}");
        let metrics = to_metrics(&json);
        let line =
            "causeway_bridge_sent_total{kind=\"group\",name=\"prices\",direction=\"out\",host=\"\"} 13\n";
        assert!(metrics.contains(line) && metrics.ends_with("# EOF\n"), "{metrics}");
    }

    #[test]
    fn a_bridge_answers_at_its_socket_also_after_one_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.stat");
        drop(UnixListener::bind(&path).unwrap());
        let status = Arc::new(status());
        status.serve(&path).unwrap();
        assert_eq!(ask(&path).unwrap()["routes"][0]["sent"], 12);
        assert_eq!(sockets(folder.path()), std::slice::from_ref(&path));
        let second = status.serve(&path).unwrap_err().to_string();
        assert!(second.contains("another bridge"), "{second}");
    }
}
