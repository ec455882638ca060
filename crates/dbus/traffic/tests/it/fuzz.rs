//! Fuzzing of captures, and of messages with the parser of zbus as a witness.

use causeway_dbus_wire::wire::{Header, Kind};
use causeway_testkit::fuzz;
use weighbridge_dbus_traffic::anonymize::Anonymizer;
use weighbridge_dbus_traffic::capture::{Reader, Writer};
use weighbridge_dbus_traffic::traffic::{Analyzer, Options};

use crate::oracle::{fields, parsed_by_zbus, their_fields};

/// Times in a pcap end in 2106.
const TIME_NS_MAX: u64 = (u32::MAX as u64) * 1_000_000_000;

/// A packet: its time, its bytes, and how many there were before it was cut.
type Packet = (u64, Vec<u8>, usize);

fn packets(capture: &[u8]) -> Result<(Vec<Packet>, bool, u64), String> {
    let mut reader = Reader::new(capture).map_err(|error| error.to_string())?;
    let is_text = reader.format().is_text();
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet().expect("memory can be read") {
        found.push((packet.time_ns, packet.bytes.to_vec(), packet.original_bytes));
    }
    Ok((found, is_text, reader.problems().damaged))
}

#[test]
fn capture_of_any_bytes_is_read_to_its_end_and_written_as_the_same() {
    let words = [
        "\t",
        "\n",
        "signal time=",
        "   string \"",
        "method call",
        "sig\t",
        "<none>",
        "\u{a}\r\r\n",
        "\0\0\0\0",
    ];
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/capture"), &words, |input| {
        let (found, is_text, damaged) = match packets(input) {
            Ok(found) => found,
            Err(why) => {
                assert!(!why.is_empty());
                return Err(why.replace(char::is_numeric, ""));
            }
        };
        let (mut analyzer, mut anonymizer) =
            (Analyzer::new(Options { has_sizes: !is_text, ..Options::default() }), Anonymizer::new());
        let mut copy = Writer::new(Vec::new()).unwrap();
        let mut anonymous = 0;
        for (time_ns, bytes, original_bytes) in &found {
            analyzer.push(&weighbridge_dbus_traffic::capture::Packet {
                time_ns: *time_ns,
                original_bytes: *original_bytes,
                bytes,
            });
            copy.write(*time_ns, bytes, *original_bytes).unwrap();
            if let Ok(message) = anonymizer.message(bytes) {
                let (before, after) = (Header::parse(bytes).unwrap(), Header::parse(&message).unwrap());
                assert_eq!(
                    (after.kind, after.serial, after.body_bytes),
                    (before.kind, before.serial, before.body_bytes)
                );
                anonymous += 1;
            }
        }
        // A message of a text is made from its line.
        assert!(is_text || found.iter().map(|(_, bytes, _)| bytes.len()).sum::<usize>() <= input.len());
        assert!(found.len() <= input.len());
        let analysis = analyzer.finish();
        assert!(analysis.facts.totals.messages <= found.len() as u64);
        let copied = packets(&copy.finish().unwrap()).unwrap().0;
        assert_eq!(copied.len(), found.len());
        for (copied, found) in copied.iter().zip(&found) {
            assert_eq!((&copied.1, copied.2), (&found.1, found.2.max(found.1.len())));
            assert!(copied.0 == found.0 || found.0 > TIME_NS_MAX, "{} and {}", copied.0, found.0);
        }
        Ok((is_text, found.len().min(20), anonymous.min(20), damaged.min(5)))
    });
}

/// A message is refused by one of the two parsers, or understood alike.
#[test]
fn message_means_the_same_to_zbus() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../base/dbus-wire/tests/corpus/message");
    fuzz::run(corpus, &["\u{1}\u{1}o\0", "\u{5}\u{1}u\0", "\u{8}\u{1}g\0", "a{sv}", "/a", "a.B"], |input| {
        let Ok(header) = Header::parse(input) else { return None };
        let is_whole = header.message_bytes() == input.len() && !matches!(header.kind, Kind::Other(_));
        let message = parsed_by_zbus(input).ok().filter(|_| is_whole)?;
        assert_eq!(fields(&header), their_fields(&message));
        Some((header.kind.number(), header.signature.len()))
    });
}
