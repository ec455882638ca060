//! `weighbridge dbus lint`: match rules that cost more than they bring.

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::Header;
use weighbridge_dbus_client::rules_and_processes;
use weighbridge_dbus_traffic::bus::Bus;
use weighbridge_dbus_traffic::lint::{self, Finding};
use weighbridge_dbus_traffic::traffic::{Analyzer, Options};
use weighbridge_report::plain;

use super::read::Captures;
use crate::dbus_args::Lint;
use crate::values::TextOrJson;
use crate::{Exit, Failure, output};

/// Findings shown as text; JSON has all.
const MOST_SHOWN: usize = 100;

pub fn lint(args: &Lint) -> Result<Exit, Failure> {
    let found = match (&args.file, args.bus.address()?) {
        (Some(file), _) => of_capture(file)?,
        (None, Some(address)) => of_bus(&address)?,
        (None, None) => {
            return Err(Failure::mistake(
                "nothing to look at; name a capture, or a running bus with --session, --system or --address ADDRESS",
            ));
        }
    };
    let found: Vec<Finding> = found.into_iter().filter(|finding| finding.level >= args.level).collect();
    output::print(match args.format {
        TextOrJson::Json => output::json(&found),
        TextOrJson::Text => text(&found),
    })?;
    Ok(if found.is_empty() { Exit::Fine } else { Exit::Outside })
}

fn of_capture(file: &std::path::Path) -> Result<Vec<Finding>, Failure> {
    let captures = Captures::open(&[file.to_owned()])?;
    let mut analyzer = Analyzer::new(Options { has_sizes: captures.have_sizes(), window_ns: 0..0 });
    captures.read(|packet| {
        analyzer.push(packet);
        Ok(())
    })?;
    let analysis = analyzer.finish();
    let coverage = analysis.facts.recipients.coverage;
    if !coverage.is_complete() {
        output::warn(&format!(
            "all rules are known of {} of {} connections: {}",
            coverage.rules_known,
            coverage.connections,
            coverage.gaps().join(" ")
        ));
    }
    Ok(analysis.findings)
}

/// The rules of a running bus, with the programs that hold them.
fn of_bus(address: &str) -> Result<Vec<Finding>, Failure> {
    let mut connection = Client::connect(address).map_err(Failure::of)?;
    let mut bus = Bus::new();
    let asked = rules_and_processes(&mut connection, &mut |message| {
        if let Ok(header) = Header::parse(message) {
            bus.observe(&header, &message[header.header_bytes..]);
        }
    });
    asked.map_err(|error| match error {
        Error::Refused { name, message } => Failure::new(format!(
            "this bus does not tell its match rules ({name}: {message}); capture while its programs start, \
             and give the capture to `weighbridge dbus lint`"
        )),
        error => Failure::of(error),
    })?;
    let mut found = lint::rules(&bus);
    for finding in &mut found {
        let process = finding.pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        finding.process = process.map(|name| name.trim_end().to_owned());
    }
    Ok(found)
}

fn text(found: &[Finding]) -> String {
    let mut out = String::new();
    for finding in found.iter().take(MOST_SHOWN) {
        out += &format!("{}: {}: {}\n", finding.level.word(), finding.kind, who(finding));
        if !finding.rule.is_empty() {
            out += &format!("  {}\n", plain(&finding.rule));
        }
        out += &format!("  {}\n", plain(&finding.text));
    }
    if found.len() > MOST_SHOWN {
        out += &format!("… and {} more; --format json has all\n", found.len() - MOST_SHOWN);
    }
    out + &format!("{} findings\n", found.len())
}

/// The connection, its name, its process.
pub fn who(finding: &Finding) -> String {
    let process = match (finding.pid, &finding.process) {
        (Some(pid), Some(process)) => format!(" (process {pid}, {})", plain(process)),
        (Some(pid), None) => format!(" (process {pid})"),
        (None, _) => String::new(),
    };
    let name = if finding.name.is_empty() { String::new() } else { format!(" {}", finding.name) };
    format!("{}{name}{process}", finding.connection)
}
