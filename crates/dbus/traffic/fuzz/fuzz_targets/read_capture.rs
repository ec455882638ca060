//! Any bytes as a capture, as a message, as a match rule: nothing panics, and what was printed is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weighbridge_dbus_traffic::anonymize::Anonymizer;
use weighbridge_dbus_traffic::capture::Reader;
use causeway_dbus_wire::rule::MatchRule;
use weighbridge_dbus_traffic::traffic::{Analyzer, Options};

fuzz_target!(|bytes: &[u8]| {
    let mut analyzer = Analyzer::new(Options::default());
    let mut anonymizer = Anonymizer::new();
    if let Ok(mut reader) = Reader::new(bytes) {
        while let Some(packet) = reader.next_packet().expect("memory can be read") {
            analyzer.push(&packet);
            let _ = anonymizer.message(packet.bytes);
        }
    }
    let _ = anonymizer.message(bytes);
    let analysis = analyzer.finish();
    assert!(analysis.facts.totals.messages <= bytes.len() as u64);
    if let Ok(rule) = std::str::from_utf8(bytes).unwrap_or_default().parse::<MatchRule>() {
        let printed = rule.to_string();
        assert!(printed.len() > 1024 || printed.parse() == Ok(rule), "{printed}");
    }
});
