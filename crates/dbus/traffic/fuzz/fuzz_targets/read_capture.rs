//! Any bytes as a capture, as a message, as a match rule: nothing panics, and what was printed is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weighbridge_dbus_traffic::anonymise::Anonymiser;
use weighbridge_dbus_traffic::capture::Reader;
use causeway_dbus_wire::rule::MatchRule;
use weighbridge_dbus_traffic::traffic::{Analyser, Options};

fuzz_target!(|bytes: &[u8]| {
    let mut analyser = Analyser::new(Options::default());
    let mut anonymiser = Anonymiser::new();
    if let Ok(mut reader) = Reader::new(bytes) {
        while let Some(packet) = reader.next_packet().expect("memory can be read") {
            analyser.push(&packet);
            let _ = anonymiser.message(packet.bytes);
        }
    }
    let _ = anonymiser.message(bytes);
    let analysis = analyser.finish();
    assert!(analysis.facts.totals.messages <= bytes.len() as u64);
    if let Ok(rule) = std::str::from_utf8(bytes).unwrap_or_default().parse::<MatchRule>() {
        let printed = rule.to_string();
        assert!(printed.len() > 1024 || printed.parse() == Ok(rule), "{printed}");
    }
});
