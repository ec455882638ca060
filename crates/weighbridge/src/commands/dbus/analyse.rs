//! `weighbridge dbus analyse`: a capture as facts, in any format; or as a capture without secrets.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use weighbridge_dbus_traffic::anonymize::Anonymizer;
use weighbridge_dbus_traffic::capture::Writer;
use weighbridge_dbus_traffic::cost::{ClassTime, Cost, Curves, Predictor, Transmission};
use weighbridge_dbus_traffic::lint::Finding;
use weighbridge_dbus_traffic::traffic::{Analysis, Analyzer, Facts, Options, SignalRecipients};

use super::read::{Captures, Source};
use super::sections;
use crate::dbus_args::{Analyse, AnalysisFormat};
use crate::destination::{cannot_create, create_new};
use crate::{Exit, Failure, output};

/// Everything, for programs.
#[derive(Serialize)]
struct Everything<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    findings: &'a [Finding],
    files: &'a [Source],
    /// By broker.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    costs: &'a BTreeMap<String, Cost>,
    /// What the messages of each class of size take, by broker.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    transmission: &'a BTreeMap<String, Vec<ClassTime>>,
}

/// Analyses captures, or writes them without secrets.
pub fn analyse(args: &Analyse) -> Result<Exit, Failure> {
    if let (true, Some(out)) = (args.anonymize, &args.answer.out) {
        return anonymize(args, out);
    }
    args.answer.check(args.answer.format == AnalysisFormat::Html)?;
    let captures = Captures::open(&args.files)?;
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let window_ns = args.window.map_or(0..u64::MAX, |(from, to)| ns(from)..ns(to));
    let mut analyzer = Analyzer::new(Options { has_sizes: captures.have_sizes(), window_ns });
    let curves = args.costs.as_deref().map_or(Ok(BTreeMap::new()), curves)?;
    let transmissions = args.ping_pong.as_deref().map_or(Ok(BTreeMap::new()), transmissions)?;
    if !transmissions.is_empty() && !captures.have_sizes() {
        return Err(Failure::mistake(
            "--ping-pong needs sizes, which the text of dbus-monitor does not tell; record a pcap",
        ));
    }
    let mut predictors: Vec<Predictor<'_>> = curves.values().map(Predictor::new).collect();
    let sources = captures.read(|packet| {
        if let Some(handled) = analyzer.push(packet) {
            predictors.iter_mut().for_each(|predictor| predictor.add(&handled));
        }
        Ok(())
    })?;
    let costs: BTreeMap<String, Cost> =
        curves.keys().cloned().zip(predictors.into_iter().map(Predictor::finish)).collect();
    let Analysis { facts, findings } = analyzer.finish();
    for invalid in &facts.capture.invalid {
        output::warn(&format!("{} packets are not valid messages: {}", invalid.messages, invalid.name));
    }
    if facts.totals.messages == 0 {
        output::warn("there is no message to analyse");
    }
    let top = usize::from(args.top);
    let transmission: BTreeMap<String, Vec<ClassTime>> =
        transmissions.iter().map(|(name, of)| (name.clone(), of.of_classes(&facts.sizes))).collect();
    let document = || sections::document(&facts, &findings, &sources, (&costs, &transmission), top);
    let everything = Everything {
        facts: &facts,
        findings: &findings,
        files: &sources,
        costs: &costs,
        transmission: &transmission,
    };
    let text = match args.answer.format.of_page() {
        Some(format) => output::rendered(format, document, &everything),
        None => peaks(&facts),
    };
    args.answer.write(text).map(|()| Exit::Fine)
}

/// A line for all messages and one for each member, with peaks; what is not known is empty. No name has a comma or a quotation mark.
fn peaks(facts: &Facts) -> String {
    let totals = &facts.totals;
    let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let recipients = |most: Option<u64>| optional(most.filter(|_| facts.recipients.coverage.is_complete()));
    let mut text = String::from("type,interface,member,messages,bytes,peak_bytes,peak_recipients\n");
    text += &format!(
        "all,,,{},{},{},{}\n",
        totals.messages,
        optional(totals.bytes),
        optional(totals.peak_message_bytes),
        recipients(Some(facts.recipients.peak_recipients))
    );
    for row in &facts.by_member {
        let is_it =
            |signal: &&SignalRecipients| signal.interface == row.interface && signal.member == row.member;
        let signal = facts.recipients.signals.iter().find(is_it).filter(|_| row.kind == "signal");
        let sized = |bytes| optional(totals.bytes.map(|_| bytes));
        text += &format!(
            "{},{},{},{},{},{},{}\n",
            row.kind,
            row.interface,
            row.member,
            row.messages,
            sized(row.bytes),
            sized(row.peak_bytes),
            recipients(signal.map(|signal| signal.most_recipients))
        );
    }
    text
}

/// What a message takes through each broker that the record has.
fn transmissions(record: &Path) -> Result<BTreeMap<String, Transmission>, Failure> {
    let reading = weighbridge_record::read_file(record)
        .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", record.display())))?;
    let brokers = Transmission::of_record(&reading.lines);
    if brokers.is_empty() {
        return Err(Failure::new(format!(
            "`{}` has no calls of several sizes; make some with: weighbridge run --suite dbus-ping-pong",
            record.display()
        )));
    }
    Ok(brokers)
}

/// The curves of each broker that the record has.
fn curves(record: &Path) -> Result<BTreeMap<String, Curves>, Failure> {
    let reading = weighbridge_record::read_file(record)
        .map_err(|error| Failure::new(format!("cannot read `{}`: {error}", record.display())))?;
    let (brokers, gaps) = Curves::of_record(&reading.lines);
    gaps.iter().for_each(|gap| output::warn(&format!("no costs of {gap}")));
    if brokers.is_empty() {
        return Err(Failure::new(format!(
            "`{}` has no curves of a broker; make some with: weighbridge run --suite dbus-curves",
            record.display()
        )));
    }
    Ok(brokers)
}

fn anonymize(args: &Analyse, out: &Path) -> Result<Exit, Failure> {
    let captures = Captures::open(&args.files)?;
    let file = create_new(out).map_err(|error| cannot_create(out, "--out", &error))?;
    let cannot_write = |error| Failure::new(format!("cannot write `{}`: {error}", out.display()));
    let mut writer = Writer::new(BufWriter::new(file)).map_err(cannot_write)?;
    let mut anonymizer = Anonymizer::new();
    let (mut written, mut left_out) = (0_u64, 0_u64);
    captures.read(|packet| {
        match anonymizer.message(packet.bytes) {
            Ok(made) => {
                written += 1;
                writer.write(packet.time_ns, &made, packet.original_bytes)?;
            }
            Err(_) => left_out += 1,
        }
        Ok(())
    })?;
    writer.finish().map_err(cannot_write)?;
    output::say(&format!("{written} messages written to `{}`", out.display()));
    if left_out > 0 {
        output::warn(&format!("{left_out} packets are not valid messages and were left out"));
    }
    Ok(Exit::Fine)
}
