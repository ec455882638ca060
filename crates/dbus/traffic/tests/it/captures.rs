//! Captures of all formats, whole and damaged, to the last message.

use std::collections::BTreeMap;

use crate::common::{START_NS, boot, mixed, to_driver};
use crate::oracle::parsed_by_zbus;
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Body, Builder, Header, Leaf, walk};
use weighbridge_dbus_traffic::anonymize::Anonymizer;
use weighbridge_dbus_traffic::bus::Unmatched;
use weighbridge_dbus_traffic::capture::{Format, NotACapture, Packet, Problems, Reader, Writer};
use weighbridge_dbus_traffic::lint::Level;
use weighbridge_dbus_traffic::traffic::{Analysis, Analyzer, Options, Work};

fn analyzed(capture: &[u8]) -> (Analysis, Problems) {
    let mut reader = Reader::new(capture).unwrap();
    let has_sizes = !reader.format().is_text();
    let mut analyzer = Analyzer::new(Options { has_sizes, ..Options::default() });
    while let Some(packet) = reader.next_packet().unwrap() {
        analyzer.push(&packet);
    }
    let problems = reader.problems();
    (analyzer.finish(), problems)
}

fn messages(capture: &[u8]) -> (Vec<(u64, Vec<u8>)>, Problems) {
    let mut reader = Reader::new(capture).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        found.push((packet.time_ns, packet.bytes.to_vec()));
    }
    (found, reader.problems())
}

/// Counts by type, interface and member, and bytes: with the parser of zbus.
fn counted_otherwise(capture: &[u8]) -> (BTreeMap<(u8, String, String), u64>, u64) {
    let (mut counts, mut total) = (BTreeMap::new(), 0);
    for (_, bytes) in messages(capture).0 {
        let message = parsed_by_zbus(&bytes).unwrap();
        let header = message.header();
        let interface = header.interface().map(ToString::to_string).unwrap_or_default();
        let member = header.member().map(ToString::to_string).unwrap_or_default();
        *counts.entry((message.message_type() as u8, interface, member)).or_default() += 1;
        total += bytes.len() as u64;
    }
    (counts, total)
}

#[test]
fn counts_of_a_hundred_thousand_messages_are_those_of_an_independent_counter() {
    let capture = mixed(Vec::new(), 100_000);
    let (counts, bytes) = counted_otherwise(&capture);
    let (Analysis { facts, .. }, problems) = analyzed(&capture);
    assert_eq!(problems, Problems::default());
    let of =
        |kind: u8| counts.iter().filter(|((of, ..), _)| *of == kind).map(|(_, count)| count).sum::<u64>();
    let totals = &facts.totals;
    let by_type = [totals.method_calls, totals.method_returns, totals.errors, totals.signals];
    assert_eq!(by_type, [of(1), of(2), of(3), of(4)]);
    assert_eq!((totals.bytes, totals.messages), (Some(bytes), counts.values().sum()));
    assert!(facts.capture.big_endian > 10_000, "{}", facts.capture.big_endian);
    let kinds = [("method_call", 1), ("signal", 4)];
    for row in facts.by_member.iter().filter(|row| !row.kind.contains("return") && row.kind != "error") {
        let kind = kinds.iter().find(|(word, _)| *word == row.kind).unwrap().1;
        assert_eq!(
            Some(&row.messages),
            counts.get(&(kind, row.interface.clone(), row.member.clone())),
            "{row:?}"
        );
    }
    assert_eq!(facts.by_member.iter().map(|row| row.messages).sum::<u64>(), totals.messages);
    assert_eq!(facts.sizes.iter().map(|row| row.bytes).sum::<u64>(), bytes);
    assert_eq!(facts.timeline.counts.iter().flatten().sum::<u64>(), totals.messages);
    assert_eq!(facts.calls.latency.count, of(2) + of(3));
}

/// What the document of 2011 found by hand.
#[test]
fn the_findings_of_2011_are_found_in_a_boot_like_that() {
    let (Analysis { facts, findings }, _) = analyzed(&boot(Vec::new()));
    let totals = &facts.totals;
    let by_type = [totals.method_calls, totals.method_returns, totals.signals, totals.errors];
    assert_eq!((totals.messages, by_type), (8_313, [2_850, 761, 4_699, 3]));
    assert_eq!((totals.driver_calls, totals.add_match_calls), (2_066, 1_308));
    assert!(!facts.capture.has_driver_replies);
    assert_eq!((facts.calls.unanswered, facts.calls.open_at_end), (0, 0));
    let most = facts.sizes.iter().max_by_key(|class| class.messages).unwrap();
    assert_eq!((most.from_bytes, most.to_bytes), (101, 316));
    let is_change_of_owner = |rule: &str| rule.contains("NameOwnerChanged");
    let doubled: Vec<_> = findings
        .iter()
        .filter(|found| found.kind == "duplicate" && is_change_of_owner(&found.rule))
        .collect();
    assert_eq!((doubled.len(), doubled.iter().map(|found| found.count).sum::<u64>()), (25, 628));
    let wide: Vec<_> = facts.recipients.signals.iter().filter(|row| row.most_recipients > 3).collect();
    assert_eq!(
        wide.iter().map(|row| (row.signals, row.most_recipients)).collect::<Vec<_>>(),
        [(1, 4), (1, 4)]
    );
    let calls = |member| {
        facts.calls.methods.iter().filter(move |row| row.member == member).map(|row| row.calls).sum::<u64>()
    };
    assert_eq!(calls("GetContactAttributes"), 17);
    let account = facts.recipients.signals.iter().find(|row| row.member == "AccountPropertyChanged").unwrap();
    // That capture has no answers of the bus.
    assert_eq!((account.signals, account.deliveries, account.unwanted), (11, 0, None));
    let coverage = facts.recipients.coverage;
    assert_eq!((coverage.connections, coverage.rules_known, coverage.unanswered_changes), (25, 0, 1_308));
    assert_eq!(findings.iter().find(|found| found.level == Level::Error), None);
}

#[test]
fn a_cut_body_leaves_its_header_in_use() {
    let (whole, _) = messages(&mixed(Vec::new(), 1_000));
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (time, bytes) in &whole {
        writer.write(*time, &bytes[..bytes.len().min(400)], bytes.len()).unwrap();
    }
    let (Analysis { facts, .. }, problems) = analyzed(&writer.finish().unwrap());
    assert_eq!(problems, Problems::default());
    assert_eq!(facts.totals.messages as usize, whole.len());
    assert_eq!(facts.totals.bytes, Some(whole.iter().map(|(_, bytes)| bytes.len() as u64).sum()));
    assert_eq!(facts.capture.cut as usize, whole.iter().filter(|(_, bytes)| bytes.len() > 400).count());
    assert!(facts.capture.cut > 0);
}

#[test]
fn damage_costs_the_packets_that_it_hits_and_no_others() {
    let capture = mixed(Vec::new(), 2_000);
    let (whole, _) = messages(&capture);
    // The length in the header of the third record, and everything of the tenth.
    let mut places = vec![24];
    for (_, bytes) in &whole {
        places.push(places.last().unwrap() + 16 + bytes.len());
    }
    let mut damaged = capture.clone();
    damaged[places[2] + 8..places[2] + 12].fill(0xFF);
    damaged[places[9]..places[10]].fill(0xAA);
    let (found, problems) = messages(&damaged);
    assert_eq!(found.len(), whole.len() - 2);
    assert!(found.iter().all(|message| whole.contains(message)));
    assert_eq!(problems.damaged, 2);
    let lost = 32 + whole[2].1.len() + whole[9].1.len();
    assert_eq!(problems.skipped as usize, lost);
    // Cut anywhere, what is before is there.
    for end in [capture.len() - 1, places[100] + 3, places[100] + 16] {
        let (found, problems) = messages(&capture[..end]);
        let expected = places.iter().skip(1).filter(|place| **place <= end).count();
        assert_eq!(found.len(), expected);
        assert!(problems.ends_early);
    }
    assert!(matches!(Reader::new(&b""[..]), Err(NotACapture::Empty)));
    assert!(matches!(Reader::new(&b"hello, world; this is no capture"[..]), Err(NotACapture::Unknown)));
    let mut ethernet = capture;
    ethernet[20] = 1;
    assert!(matches!(Reader::new(&ethernet[..]), Err(NotACapture::LinkType(1))));
}

#[test]
fn invalid_messages_are_counted_by_reason() {
    let good = Builder::signal("/a", "a.B", "C").build(1).unwrap();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut bad = good.clone();
    bad[3] = 2;
    for bytes in [&good, &bad, &good[..20].to_vec()] {
        writer.write(START_NS, bytes, good.len()).unwrap();
    }
    let (Analysis { facts, .. }, _) = analyzed(&writer.finish().unwrap());
    assert_eq!(facts.totals.messages, 1);
    let mut reasons: Vec<_> =
        facts.capture.invalid.iter().map(|row| (row.name.as_str(), row.messages)).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, [("the bytes end before the message does", 1), ("the protocol version is not 1", 1)]);
}

/// The same packets as pcapng, in either byte order, with a resolution of nanoseconds and blocks of other types.
pub fn as_pcapng(packets: &[(u64, Vec<u8>)], is_big: bool) -> Vec<u8> {
    let four = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let two = |number: u16| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let bytes = four(padded as u32 + 12);
        [&four(kind)[..], &bytes, body, &vec![0; padded - body.len()], &bytes].concat()
    };
    let section = [&four(0x1A2B_3C4D)[..], &two(1), &two(0), &[0xFF; 8]].concat();
    let interface =
        [&two(231)[..], &two(0), &four(0), &two(9), &two(1), &[9, 0, 0, 0], &two(0), &two(0)].concat();
    let mut out = [block(0x0A0D_0D0A, &section), block(1, &interface), block(0x0BAD, b"unknown")].concat();
    for (time, bytes) in packets {
        let lengths = four(bytes.len() as u32);
        let head = [four(0), four((time >> 32) as u32), four(*time as u32), lengths, lengths].concat();
        out.extend(block(6, &[&head[..], bytes].concat()));
    }
    out
}

/// As a pcap of a link type, in either byte order, with times in micro- or nanoseconds.
fn as_pcap(packets: &[(u64, Vec<u8>)], link_type: u32, is_big: bool, tick_ns: u64) -> Vec<u8> {
    let four = |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let two = |number: u16| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    let magic = if tick_ns == 1 { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
    let mut out = [&four(magic)[..], &two(2), &two(4), &[0; 8], &four(65_535), &four(link_type)].concat();
    for (time, bytes) in packets {
        let length = four(bytes.len() as u32);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000 / tick_ns);
        out.extend([four(seconds as u32), four(rest as u32), length, length].concat());
        out.extend(bytes);
    }
    out
}

#[test]
fn messages_are_found_under_every_link_type_that_holds_them() {
    let (whole, _) = messages(&mixed(Vec::new(), 50));
    // That of D-Bus, that of early versions of Bustle, and those for everybody's use.
    for link_type in [231, 0, 147, 162] {
        for (is_big, tick_ns) in [(false, 1), (true, 1), (false, 1_000), (true, 1_000)] {
            let (found, problems) = messages(&as_pcap(&whole, link_type, is_big, tick_ns));
            assert_eq!(
                (found, problems),
                (whole.clone(), Problems::default()),
                "{link_type} {is_big} {tick_ns}"
            );
        }
        let mut pcapng = as_pcapng(&whole, false);
        pcapng[28 + 8..28 + 10].copy_from_slice(&(link_type as u16).to_le_bytes());
        assert_eq!(messages(&pcapng), (whole.clone(), Problems::default()), "{link_type}");
    }
    // A capture without packets.
    assert_eq!(messages(&as_pcap(&[], 0, false, 1)), (Vec::new(), Problems::default()));
}

#[test]
fn other_link_types_are_refused_by_number_and_name() {
    // The loopback of BSD begins with the family of addresses.
    let packet = [(START_NS, [&[2, 0, 0, 0, 0x45][..], &[0; 60]].concat())];
    for (link_type, name) in [
        (0, "BSD loopback"),
        (1, "Ethernet"),
        (113, "Linux cooked"),
        (147, "private use"),
        (9_999, "unknown here"),
    ] {
        for capture in [as_pcap(&packet, link_type, false, 1), as_pcap(&packet, link_type, true, 1_000)] {
            let why = Reader::new(&capture[..]).unwrap_err();
            let text = why.to_string();
            assert!(matches!(why, NotACapture::LinkType(is) if is == link_type), "{text}");
            assert!(
                text.contains(&format!("link type {link_type} ({name}"))
                    && text.contains("weighbridge dbus capture"),
                "{text}"
            );
        }
    }
    let mut pcapng = as_pcapng(&packet, false);
    pcapng[28 + 8..28 + 10].copy_from_slice(&1_u16.to_le_bytes());
    let (found, problems) = messages(&pcapng);
    assert_eq!((found.len(), problems.foreign, problems.foreign_type), (0, 1, Some(1)));
    let compressed = Reader::new(&b"\x1F\x8B\x08 and so on"[..]).unwrap_err().to_string();
    assert!(compressed.contains("gzip -dc"), "{compressed}");
}

#[test]
fn packets_of_every_block_type_and_interface_are_read() {
    let (whole, _) = messages(&mixed(Vec::new(), 3));
    let block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let bytes = (padded as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &bytes, body, &vec![0; padded - body.len()], &bytes].concat()
    };
    // Times in microseconds as none is given, and in 1/2^10 of a second, 100 seconds later.
    let interface = |link_type: u16, limit: u32, options: &[u8]| {
        block(1, &[&link_type.to_le_bytes()[..], &[0; 2], &limit.to_le_bytes(), options].concat())
    };
    let options = [9, 0, 1, 0, 0x8A, 0, 0, 0, 14, 0, 8, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let section = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
    let (first, length) = (&whole[0].1, whole[0].1.len() as u32);
    let head = |words: [u32; 5]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let capture = [
        block(0x0A0D_0D0A, &section),
        interface(231, 21, &[]),
        interface(231, 0, &options),
        // An enhanced packet of the second interface, an old one of it, and one without time that its interface cuts.
        block(6, &[&head([1, 0, 2_048, length, length])[..], first].concat()),
        block(2, &[&head([1, 0, 1_024, length, length])[..], first].concat()),
        block(3, &[&length.to_le_bytes()[..], &first[..21]].concat()),
        // Of an interface that does not exist, and one whose type is damaged.
        block(6, &[&head([7, 0, 0, length, length])[..], first].concat()),
        block(0x46, &[&head([0, 0, 0, length, length])[..], first].concat()),
    ]
    .concat();
    let (found, problems) = messages(&capture);
    let expected =
        [(102_000_000_000, first.clone()), (101_000_000_000, first.clone()), (0, first[..21].to_vec())];
    assert_eq!((found, problems.damaged), (expected.to_vec(), 2));
}

/// A packet that is not found is told of, whichever bit is flipped.
#[test]
fn no_flipped_bit_loses_a_message_silently() {
    let (whole, _) = messages(&mixed(Vec::new(), 4));
    for capture in [
        as_pcap(&whole, 231, false, 1),
        as_pcap(&whole, 231, true, 1_000),
        as_pcapng(&whole, false),
        as_pcapng(&whole, true),
    ] {
        let mut flipped = capture.clone();
        for at in 0..capture.len() {
            for bit in 0..8 {
                flipped[at] ^= 1 << bit;
                if let Ok(mut reader) = Reader::new(&flipped[..]) {
                    let (mut found, mut cut) = (0, false);
                    while let Some(packet) = reader.next_packet().unwrap() {
                        found += 1;
                        cut |= packet.bytes.len() < packet.original_bytes;
                    }
                    let problems = reader.problems();
                    let is_told = problems != Problems::default() || cut;
                    assert!(
                        found == whole.len() || is_told,
                        "bit {bit} of byte {at}: {found} messages, {problems:?}"
                    );
                }
                flipped[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_capture_cut_at_any_length_tells_the_bytes_left() {
    let (whole, _) = messages(&mixed(Vec::new(), 20));
    for capture in [as_pcap(&whole, 231, false, 1), as_pcapng(&whole, true)] {
        for length in 1..capture.len() {
            let Ok(mut reader) = Reader::new(&capture[..length]) else {
                assert!(length < 24, "{length}");
                continue;
            };
            let mut found = 0;
            while reader.next_packet().unwrap().is_some() {
                found += 1;
            }
            let problems = reader.problems();
            assert_eq!(problems.ends_early, problems.left > 0, "{length}: {problems:?}");
            assert_eq!((problems.damaged, problems.foreign), (0, 0), "{length}");
            // Between two packets nothing is missing that one could know of.
            assert!(problems.ends_early || found <= whole.len(), "{length}");
        }
    }
}

#[test]
fn pcapng_holds_the_same_messages_in_both_byte_orders() {
    let (whole, _) = messages(&mixed(Vec::new(), 500));
    for is_big in [false, true] {
        let capture = as_pcapng(&whole, is_big);
        let (found, problems) = messages(&capture);
        assert_eq!((found, problems), (whole.clone(), Problems::default()));
        // Damage in the length of a block.
        let mut damaged = capture.clone();
        let place = damaged.len() / 2;
        damaged[place..place + 600].fill(0xEE);
        let (found, problems) = messages(&damaged);
        assert!(found.len() >= whole.len() - 8 && found.len() < whole.len(), "{}", found.len());
        assert!(problems.damaged >= 1);
    }
}

#[test]
fn the_text_of_dbus_monitor_counts_like_the_messages() {
    let text = "#type\ttimestamp\tserial\tsender\tdestination\tpath\tinterface\tmember\n#\t\t\t\t\tin_reply_to\n\
        mc\t1795312165.404861\t1\t:1.4\torg.freedesktop.DBus\t/org/freedesktop/DBus\torg.freedesktop.DBus\tHello\n\
        mr\t1795312165.405196\t1\torg.freedesktop.DBus\t:1.4\t1\n\
        mc\t1795312165.405398\t2\t:1.4\torg.nope\t/a\t<none>\tC\nthis line is damaged\n\
        err\t1795312165.405402\t3\torg.freedesktop.DBus\t:1.4\t2\n\
        sig\t1795312165.405407\t11\t:1.4\t<none>\t/a/b\ta.b\tC\nsig\t1795312165.4054";
    let (Analysis { facts, .. }, problems) = analyzed(text.as_bytes());
    let totals = &facts.totals;
    assert_eq!((totals.method_calls, totals.method_returns, totals.errors, totals.signals), (2, 1, 1, 1));
    assert_eq!((totals.bytes, problems.damaged, problems.ends_early), (None, 1, true));
    assert_eq!(facts.capture.first_ns, 1_795_312_165_404_861_000);
    assert_eq!(facts.calls.latency.max_us, 335);
}

/// Every name and string of a capture, except those that the specification defines.
fn strings(messages: &[(u64, Vec<u8>)]) -> std::collections::BTreeSet<String> {
    let mut found = std::collections::BTreeSet::new();
    for (_, bytes) in messages {
        let header = Header::parse(bytes).unwrap();
        let is_public =
            header.interface.is_some_and(|interface| interface.starts_with("org.freedesktop.DBus"));
        let member = header.member.filter(|_| !is_public);
        let names =
            [header.path, header.interface, member, header.error_name, header.destination, header.sender];
        found.extend(names.into_iter().flatten().map(String::from));
        let _ = walk(&header, &bytes[header.header_bytes..], &mut |leaf, _| {
            if let Leaf::Text(text) | Leaf::Path(text) = leaf {
                found.insert(text.into());
            }
        });
    }
    found
}

#[test]
fn no_string_of_a_capture_survives_its_anonymisation_and_its_facts_do() {
    for capture in [boot(Vec::new()), mixed(Vec::new(), 3_000)] {
        let (original, _) = messages(&capture);
        let mut anonymizer = Anonymizer::new();
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (time, bytes) in &original {
            let made = anonymizer.message(bytes).unwrap();
            assert_eq!(made.len(), bytes.len());
            writer.write(*time, &made, made.len()).unwrap();
        }
        let made = writer.finish().unwrap();
        let (anonymous, _) = messages(&made);
        let public = ["org.freedesktop.DBus", "/org/freedesktop/DBus"];
        // `Changed` may stand in the name of the driver's own signal.
        let left: Vec<String> =
            strings(&anonymous).iter().map(|text| text.replace("NameOwnerChanged", "")).collect();
        for text in
            strings(&original).iter().filter(|text| text.len() >= 4 && !public.contains(&text.as_str()))
        {
            assert!(!left.contains(text), "{text} survives");
            // Neither whole nor in parts: each element of a name, each value of a rule.
            for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 5) {
                let is_public =
                    ["freedesktop", "NameOwnerChanged", "signal", "sender", "interface", "member"]
                        .contains(&word);
                assert!(
                    is_public || !left.iter().any(|other| other.contains(word)),
                    "{word} of {text} survives"
                );
            }
        }
        let ((before, _), (after, _)) = (analyzed(&capture), analyzed(&made));
        assert_eq!(before.facts.totals, after.facts.totals);
        assert_eq!(before.facts.sizes, after.facts.sizes);
        assert_eq!(before.facts.recipients.histogram, after.facts.recipients.histogram);
        assert_eq!(before.facts.calls.latency, after.facts.calls.latency);
        let kinds = |analysis: &Analysis| {
            let mut kinds: Vec<_> = analysis.findings.iter().map(|found| (found.kind, found.count)).collect();
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(kinds(&before), kinds(&after));
    }
}

/// Each message is one piece of work of the broker, or belongs to one.
#[test]
fn what_the_broker_did_is_said_of_each_message_with_the_rules_that_it_compares() {
    const NAME: &str = "com.example.Name";
    let mut analyzer = Analyzer::new(Options::default());
    let mut did = |message: &Builder<'_>| {
        let bytes = message.build(5).unwrap();
        let packet = Packet { time_ns: 7, original_bytes: bytes.len(), bytes: &bytes };
        analyzer
            .push(&packet)
            .map(|handled| (handled.work, handled.receivers.len(), handled.unmatched, handled.time_ns))
    };
    let none = Unmatched::default();
    let done = |work, receivers| Some((work, receivers, none, 7));
    let driver = |message: Builder<'static>| message.sender(DRIVER);
    let text = |text: &str| Body::default().text(text);
    assert_eq!(did(&to_driver(":1.1", "Hello")), done(Work::Connection, 1));
    let told = Body::default().text(":1.1").text("").text(":1.1");
    let changed = Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged");
    assert_eq!(did(&driver(changed.clone().body(told))), done(Work::DriverSignal, 0));
    assert_eq!(did(&driver(Builder::reply(5).destination(":1.1").body(text(":1.1")))), None);
    let acquired = Builder::signal("/org/freedesktop/DBus", DRIVER, "NameAcquired").destination(":1.1");
    assert_eq!(did(&driver(acquired.body(text(":1.1")))), None, "it belongs to Hello");
    assert_eq!(did(&to_driver(":1.1", "RequestName").body(text(NAME).u32(0))), done(Work::Name, 1));
    assert_eq!(did(&to_driver(":1.1", "ReleaseName").body(text(NAME))), done(Work::Name, 1));
    assert_eq!(did(&to_driver(":1.1", "GetId")), done(Work::DriverCall, 1));
    for rule in
        ["path='/a'", "interface='a.B'", "interface='a.B'", "interface='a.B',arg0='b'", "interface='a.C'"]
    {
        assert_eq!(did(&to_driver(":1.2", "AddMatch").body(text(rule))), done(Work::MatchRule, 1));
    }
    assert_eq!(did(&Builder::call("/a", "Do").sender(":1.1").destination(":1.2")), done(Work::Relay, 1));
    let signal = |interface| Builder::signal("/c", interface, "Changed").sender(":1.1");
    let unmatched = |without, with, other| Unmatched {
        without_arguments: without,
        with_arguments: with,
        other_interface: other,
    };
    assert_eq!(
        did(&signal("a.B")),
        Some((Work::Broadcast, 1, unmatched(1, 1, 1), 7)),
        "one connection gets it, by a rule that it has twice"
    );
    assert_eq!(did(&signal("a.D")), Some((Work::Broadcast, 0, unmatched(1, 0, 4), 7)));
    assert_eq!(
        did(&to_driver(":1.2", "RemoveMatch").body(text("interface='a.B'"))),
        done(Work::MatchRule, 1)
    );
    let left = Body::default().text(":1.2").text(":1.2").text("");
    assert_eq!(did(&signal("a.D")), Some((Work::Broadcast, 0, unmatched(1, 0, 3), 7)));
    assert!(did(&driver(changed.body(left))).is_some());
    assert_eq!(did(&signal("a.B")), done(Work::Broadcast, 0), "its rules went with the connection");
}

/// Classes of rules have different prices, so a rule that matches is missing in its own class only: `NameOwnerChanged` with a name each.
#[test]
fn rules_that_match_are_counted_in_their_class_whoever_has_them() {
    let mut analyzer = Analyzer::new(Options::default());
    let mut unmatched = |message: &Builder<'_>| {
        let bytes = message.build(5).unwrap();
        let packet = Packet { time_ns: 0, original_bytes: bytes.len(), bytes: &bytes };
        let handled = analyzer.push(&packet)?;
        let unmatched = handled.unmatched;
        Some((handled.receivers.len(), unmatched.without_arguments, unmatched.with_arguments))
    };
    for number in 0..100 {
        let path = format!("type='signal',interface='a.B',path='/other/n{number}'");
        unmatched(&to_driver(":1.1", "AddMatch").body(Body::default().text(&path)));
    }
    let by_name = "type='signal',interface='a.B',arg0='name'";
    for number in 0..10 {
        let connection = format!(":1.{}", 2 + number);
        unmatched(&to_driver(&connection, "AddMatch").body(Body::default().text(by_name)));
    }
    let told = |name| Builder::signal("/a", "a.B", "Changed").sender(":1.1").body(Body::default().text(name));
    assert_eq!(unmatched(&told("name")), Some((10, 100, 0)));
    assert_eq!(unmatched(&told("other")), Some((0, 100, 10)));
    // A second rule of a connection that matches, of the other class.
    unmatched(&to_driver(":1.2", "AddMatch").body(Body::default().text("interface='a.B',member='Changed'")));
    assert_eq!(unmatched(&told("name")), Some((10, 100, 0)));
    assert_eq!(unmatched(&told("other")), Some((1, 100, 10)));
}

/// What dbus-monitor 1.14 printed of a private bus.
const MONITORED: &str = include_str!("../files/dbus-monitor.txt");

#[test]
fn the_text_of_dbus_monitor_has_messages_names_and_rules() {
    let reader = Reader::new(MONITORED.as_bytes()).unwrap();
    assert_eq!((reader.format(), reader.format().word()), (Format::Monitor, "dbus-monitor"));
    let (Analysis { facts, .. }, problems) = analyzed(MONITORED.as_bytes());
    assert_eq!(problems, Problems::default());
    let lines = |word: &str| MONITORED.lines().filter(|line| line.starts_with(word)).count() as u64;
    let totals = &facts.totals;
    let counted = [totals.method_calls, totals.method_returns, totals.errors, totals.signals];
    assert_eq!(counted, ["method call ", "method return ", "error ", "signal "].map(lines));
    assert_eq!((totals.bytes, totals.add_match_calls), (None, 1));
    assert_eq!(facts.errors[0].name, "org.freedesktop.DBus.Error.ServiceUnknown");
    assert!(facts.capture.duration_ns > 1_000_000_000, "{}", facts.capture.duration_ns);
    // A rule is known by its argument: one connection more gets what comes after it.
    let more = "method call time=1795647640.000001 sender=:1.9 -> destination=org.freedesktop.DBus serial=2 path=/; interface=org.freedesktop.DBus; member=AddMatch\n   string \"interface='a.B'\"\n\
                signal time=1795647640.000002 sender=:1.8 -> destination=(null destination) serial=2 path=/a; interface=a.B; member=C\n   uint32 5\n";
    let (with, _) = analyzed(format!("{MONITORED}{more}").as_bytes());
    assert_eq!(
        with.facts.recipients.deliveries,
        facts.recipients.deliveries + 1,
        "{:?}",
        with.facts.recipients
    );
    // The text of an older dbus-monitor, which prints no times; the last message has a destination that cannot be one.
    let old = "signal sender=:1.0 -> dest=(null destination) serial=5 path=/a; interface=a.B; member=C\n   int32 5\n\
               method return sender=:1.4 -> dest=:1.0 reply_serial=3\n   array [\n      string \"x\"\n   ]\n\
               signal sender=:1.0 -> dest=nonsense! serial=5 path=/a; interface=a.B; member=C\n";
    let (found, problems) = messages(old.as_bytes());
    assert_eq!((found.len(), problems.damaged), (2, 1));
    assert!(found.iter().all(|(time_ns, _)| *time_ns == 0));
}
