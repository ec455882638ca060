//! Metrics, read as a scraper reads them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use causeway_bus::Connection as Member;
use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_testkit::Call;
use nix::libc;
use rustix::process::Signal;

use crate::support::*;

/// A bus with metrics at a place in its folder.
fn start(folder: &TempDir, place: &str) -> (Broker, PathBuf) {
    let path = folder.path().join("metrics");
    let native = folder.path().join("native");
    let (metrics, native) = (format!("{place}{}", path.display()), native.display().to_string());
    let args = ["--address", "unix:tmpdir=/tmp", "--native", &native, "--metrics", &metrics];
    (Broker::with(&args), path)
}

fn request(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The metrics at a socket.
fn scrape(path: &Path) -> BTreeMap<String, f64> {
    let answer = request(path, "GET /metrics HTTP/1.1\r\nHost: bus\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.0 200 OK\r\n") && head.contains("openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    samples(body)
}

/// The samples of a text, which must be as the specification of OpenMetrics says: families in one piece and once, their names of the right
/// characters and with the suffix of their kind and unit, values that are numbers, each series once, the end marked.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|part| part == '_' || part.is_ascii_alphanumeric())
            && !name.is_empty()
    };
    let text = text.strip_suffix("# EOF\n").expect("the end is not marked");
    let (mut samples, mut families) = (BTreeMap::new(), Vec::new());
    let mut is_counter = false;
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# ") {
            let [what, name, rest] = described.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            if what == "TYPE" {
                assert!(is_name(name) && !families.contains(&name.to_owned()), "{line}");
                is_counter = rest == "counter";
                assert!(is_counter || rest == "gauge", "{line}");
                families.push(name.to_owned());
            }
            assert_eq!(families.last().map(String::as_str), Some(name), "{line}");
            assert!(what != "UNIT" || name.ends_with(&format!("_{rest}")), "{line}");
            assert!(["TYPE", "UNIT", "HELP"].contains(&what), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let family = families.last().unwrap();
        let suffix = if is_counter { "_total" } else { "" };
        assert_eq!(name, format!("{family}{suffix}"), "{line}");
        let mut rest = labels;
        while rest != "}" {
            let (label, quoted) = rest.split_once("=\"").expect(line);
            assert!(is_name(label.trim_start_matches(',')), "{line}");
            let mut end = 0;
            while !quoted[end..].starts_with('"') {
                end += if quoted[end..].starts_with('\\') { 2 } else { 1 };
            }
            rest = &quoted[end + 1..];
        }
        assert!(samples.insert(series.to_owned(), value.parse().expect(line)).is_none(), "twice: {line}");
    }
    samples
}

fn call_of(to: &str) -> Builder<'_> {
    Builder::call(PATH, "Take").destination(to).flags(FLAG_NO_REPLY_EXPECTED)
}

#[test]
fn a_scraper_sees_who_fills_a_queue_and_for_how_long() {
    let folder = temp_dir("metrics");
    let (bus, path) = start(&folder, "unix:");
    let (mut sender, mut stalled) = (bus.client(), bus.client());
    stalled.request_name("com.example.Stalled", 0).unwrap();
    let member = Member::open(folder.path().join("native")).unwrap();
    (0..20).for_each(|_| {
        let long = call_of(stalled.unique_name()).body(Body::default().blob(&[7; 100_000]));
        assert!(sender.send(&long).unwrap() > 0);
    });
    sender.send(&call_of(member.unique_name())).unwrap();
    sync(&mut sender);
    let of = |found: &BTreeMap<String, f64>, name: &str, connection: &str| {
        found[&format!("causeway_connection_{name}{{connection=\"{connection}\"}}")]
    };
    let waits = |found: &BTreeMap<String, f64>| {
        [stalled.unique_name(), member.unique_name()]
            .iter()
            .all(|name| of(found, "oldest_wait_seconds", name) > 0.01)
    };
    let found = eventually_seen("nothing waits", || scrape(&path), waits);
    assert!(of(&found, "outgoing_bytes", stalled.unique_name()) >= 100_000.0);
    assert!(of(&found, "unread_entries", member.unique_name()) > 0.0);
    assert!(of(&found, "sent_bytes_total", sender.unique_name()) > 2_000_000.0);
    let who = format!(
        "causeway_connection_info{{connection=\"{}\",kind=\"client\",name=\"com.example.Stalled\",pid=\"{}\",",
        stalled.unique_name(),
        std::process::id()
    );
    assert!(found.keys().any(|series| series.starts_with(&who)), "{who} is not in {found:?}");
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(found[&format!("causeway_user_connections{{user=\"{user}\"}}")], 3.0);
    assert!(found["causeway_bus_log_capacity"] > found["causeway_bus_log_entries"]);
    assert!(found["causeway_bus_longest_turn_seconds"] > 0.0);
    assert!(request(&path, "PUT / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405 "));
    assert!(request(&path, "GET /nosuch HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
    assert!(request(&path, "GET /metrics?all HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 "));
    let received =
        |who: &str| found.get(&format!("causeway_connection_received_bytes_total{{connection=\"{who}\"}}"));
    assert!(received(sender.unique_name()).is_some());
    assert_eq!(received(member.unique_name()), None, "nobody counts them");
}

/// They neither keep the bus nor the next one waiting for ever.
#[test]
fn scrapers_that_say_or_read_nothing_are_cut_off() {
    let folder = temp_dir("metrics");
    let (bus, path) = start(&folder, "unix:");
    let mut client = bus.client();
    let silent: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    (0..100).for_each(|_| sync(&mut client));
    assert!(scrape(&path)["causeway_bus_connections"] >= 1.0);
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "it is still connected");
    }
}

#[test]
fn a_file_has_the_metrics_while_the_bus_runs() {
    let folder = temp_dir("metrics");
    let (bus, path) = start(&folder, "");
    let read = || samples(&std::fs::read_to_string(&path).unwrap());
    let _client = Client::open(&bus.address).unwrap();
    let has_one = |found: &BTreeMap<String, f64>| found.get("causeway_bus_connections") == Some(&1.0);
    eventually_seen("the client is not in the file", read, has_one);
    bus.child.signal(Signal::TERM).unwrap();
    eventually("the file stays", || !path.exists());
    eventually("a part of it stays", || std::fs::read_dir(folder.path()).unwrap().count() == 0);
}

/// It says who fills a queue, and asks nobody who he is.
#[test]
fn nobody_but_its_user_can_open_the_socket() {
    use std::os::unix::fs::PermissionsExt;
    let folder = temp_dir("metrics");
    let (_bus, path) = start(&folder, "unix:");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    // Members are processes of this user, too.
    assert_eq!(mode(&folder.path().join("native")), 0o600);
}

/// As on a file system that does not answer.
#[test]
fn a_file_that_cannot_be_written_keeps_the_bus_from_ending_for_a_moment_only() {
    if !has_ptrace() {
        return;
    }
    let folder = temp_dir("metrics");
    let (bus, _path) = start(&folder, "");
    let traced = Traced::seize_running_thread(bus.child.pid() as i32, "metrics");
    let makes_a_file = |call: &Call| {
        let creates = call.arguments[2] & libc::O_CREAT as u64 != 0;
        call.number as i64 == libc::SYS_openat && creates
    };
    traced.run_into(makes_a_file);
    bus.child.signal(Signal::TERM).unwrap();
    // The first thread has ended; the other one is not let go.
    let pid = bus.child.pid();
    eventually("the bus does not end", || proc::thread_state(pid, pid).is_none_or(|state| state == 'Z'));
    drop(traced);
}

/// In a folder into which others write.
#[test]
fn nobody_can_say_beforehand_where_the_next_file_is_written() {
    let folder = temp_dir("metrics");
    let (bus, path) = start(&folder, "");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "precious").unwrap();
    let mut next = path.clone().into_os_string();
    next.push(format!(".{}", bus.child.pid()));
    std::os::unix::fs::symlink(&elsewhere, &next).unwrap();
    let _client = Client::open(&bus.address).unwrap();
    let has_one = |found: &BTreeMap<String, f64>| found.get("causeway_bus_connections") == Some(&1.0);
    let read = || samples(&std::fs::read_to_string(&path).unwrap());
    eventually_seen("the client is not in the file", read, has_one);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
}

#[test]
fn a_place_that_cannot_be_used_is_said_at_once() {
    for place in ["/no/such/folder/metrics", "unix:/no/such/folder/metrics"] {
        let mut command = causewayd(&["--address", "unix:tmpdir=/tmp", "--metrics", place]);
        let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("cannot serve metrics"), "{said}");
    }
}
