//! `docs/wire.md` states where every byte lies and what its bits mean, and so does the code. These tests compare the two.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of_val};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::common::wire::genuine;
use crate::common::{group, kinds};
use causeway::log::layout::{
    CAPACITY_LOG2, FORMATS, LogHeader, MAGIC, PAGE_BYTES, PREFIX_BYTES, PREFIX_BYTES_2, PREFIX_BYTES_MAX,
    PublisherWords, STATUS_BYTES, Status, SubscriberWords, TAIL_OFFSET, Tail, WakeWords,
};
use causeway::log::wait::WaitTarget;
use causeway::log::word::{FREE_KEY_MASK, GRANULE_BYTES, HEADER_BYTES, PUBLISHERS_MAX, State, Word};
use causeway::log::{Claimed, HeapMemory, Kind, Label, Memory, Writer};

const DOCUMENT: &str = include_str!("../../../../../docs/wire.md");

/// A table of the document.
#[derive(Debug)]
struct Table {
    heading: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

impl Table {
    /// The row whose third cell says this.
    fn row(&self, word: &str) -> &[&'static str] {
        self.rows.iter().find(|row| row[2].contains(word)).unwrap()
    }
}

fn tables() -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let (mut heading, mut inside) = ("", false);
    for line in DOCUMENT.lines() {
        let Some(row) = line.strip_prefix("| ").or_else(|| line.strip_prefix("|-")) else {
            inside = false;
            heading = line.strip_prefix('#').map_or(heading, |rest| rest.trim_start_matches(['#', ' ']));
            continue;
        };
        let cells = row.trim_end_matches('|').split('|').map(str::trim).collect();
        match tables.last_mut().filter(|_| inside) {
            None => tables.push(Table { heading, columns: cells, rows: Vec::new() }),
            Some(_) if line.starts_with("|-") => {}
            Some(table) => table.rows.push(cells),
        }
        inside = true;
    }
    tables
}

/// The table under the heading that begins so, with this first and second column.
fn table(heading: &str, first: &str, second: &str) -> Table {
    let found = |table: &Table| table.heading.starts_with(heading) && table.columns[..2] == [first, second];
    tables().into_iter().find(found).unwrap_or_else(|| panic!("no table {first}, {second} under {heading:?}"))
}

fn number(text: &str) -> usize {
    let number = match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// `8`, or `256 × 4`.
fn size(text: &str) -> usize {
    text.split(" × ").map(number).product()
}

/// First and last number of `9–31`, or of `0`.
fn range(text: &str) -> (usize, usize) {
    let mut ends = text.split('–').map(number);
    let first = ends.next().unwrap();
    (first, ends.next().unwrap_or(first))
}

/// The word by which a row is known here, so that two rows that change places are found out, and the offset and size of its field.
type Place = (&'static str, usize, usize);

/// The fields of a structure, as the compiler lays them out: each in the form word = path.
macro_rules! places {
    ($type:ident: $($word:literal = $($path:tt).+),+ $(,)?) => {
        vec![$(($word, offset_of!($type, $($path).+), size_of_val(&$type::default().$($path).+))),+]
    };
}

/// Heading, first column and rows of each table that gives the places of a structure.
fn structures() -> Vec<(&'static str, &'static str, Vec<Place>)> {
    let mut constants = places!(LogHeader: "magic" = magic, "format level" = level_and_kind, "random number" = group_id,
        "epoch" = epoch, "logarithm of the capacity" = capacity_log2, "first position" = start, "messages" = messages, "offset of the words" = tail_offset,
        "offset of the ring" = ring_offset, "`compat`" = compat_and_ro_compat, "`incompat`" = incompat);
    // One word of the code, two of the document.
    let (_, offset, both) = constants[1];
    constants.splice(1..2, [("format level", offset, both / 2), ("kind", offset + both / 2, both / 2)]);
    vec![
        ("Page 0", "offset", constants),
        (
            "Pages 1 to 3",
            "offset",
            places!(Tail: "`limit`" = limit.0, "`floor`" = floor.0, "`hint`" = hint.0, "`wake_seq`" = wake_seq.0,
                "`reclaim_lock`" = reclaim_lock.0, "`last_cpu`" = last_cpu.0,
                "`publishers_waiting`" = publishers_waiting.0, "`mark_index`" = mark_index.0, "marks" = marks,
                "`demoted`" = demoted, "`given_up`" = given_up.0, "`publishers`" = publishers),
        ),
        (
            "Pages 1 to 3",
            "offset in its line",
            places!(PublisherWords: "`claim`" = claim, "`published`" = published, "`waits_for`" = waits_for,
                "`waits_since_ns`" = waits_since_ns),
        ),
        (
            "A subscriber page",
            "offset",
            places!(SubscriberWords: "`cursor`" = cursor.0, "`arm`" = arm.0, "messages received" = received,
                "messages lost" = lost_messages, "bytes of log lost" = lost_bytes, "process" = process,
                "`topics`" = topics, "`released`" = released.0, "`references`" = references.0),
        ),
        ("The wake page", "offset", places!(WakeWords: "`wake_seq`" = wake_seq)),
        (
            "The status pages",
            "offset",
            places!(Status: "`subscriber_changes`" = subscriber_changes.0, "`placed`" = placed.0,
                "one bit per live publisher" = publishers, "in the server's own process" = local_publishers,
                "phase" = phase, "`killed_publishers`" = killed_publishers, "one bit per subscriber" = present,
                "generation" = subscribers, "`epoch`" = epoch, "`log_start`" = log_start),
        ),
    ]
}

#[test]
fn every_word_lies_where_the_document_says() {
    for (heading, first, places) in structures() {
        let table = table(heading, first, "size");
        let said: Vec<_> = table.rows.iter().map(|row| (number(row[0]), size(row[1]))).collect();
        let is: Vec<_> = places.iter().map(|(_, offset, size)| (*offset, *size)).collect();
        assert_eq!(said, is, "offset and size under {heading:?}");
        for (row, (word, ..)) in table.rows.iter().zip(places) {
            assert!(row[2].contains(word), "{word:?} is not what lies at {}: {}", row[0], row[2]);
        }
    }
    // What other tests here, and those of `causeway-bus`, hold.
    let of_frames = [("offset in frame", 2), ("bits of the header word", 1)];
    let held = structures().len() + of_frames.iter().map(|(_, count)| count).sum::<usize>();
    let is_of_the_bus =
        |table: &Table| ["Order log", "Outbox"].iter().any(|of| table.heading.starts_with(of));
    let gives_places =
        |table: &&Table| table.columns[0].contains("offset") || table.columns[0].contains("bits");
    let all = tables();
    let found: Vec<_> = all.iter().filter(gives_places).filter(|table| !is_of_the_bus(table)).collect();
    assert_eq!(found.len(), held, "a table that no test here knows: {found:?}");
}

#[test]
fn the_numbers_of_the_document_are_those_of_the_code() {
    let targets = [
        (WaitTarget::SharedFutex, "asleep in the wake page"),
        (WaitTarget::Doorbell, "asleep on the doorbell"),
        (WaitTarget::OwnFutex, "asleep on this word"),
    ];
    let arm = table("A subscriber page", "offset", "size");
    for (target, meaning) in targets {
        assert!(arm.row("`arm`")[2].contains(&format!("{} {meaning}", target as u32)), "{target:?}");
    }
    for sentence in [
        format!("Format levels of this release: **{} and {}**", FORMATS.start(), FORMATS.end()),
        format!("Version of the handshake: **{}**", causeway_os::handshake::VERSION),
        format!("An operation from {} on", causeway_os::handshake::MAY_BE_IGNORED),
        format!("{PREFIX_BYTES} bytes at level 1, {PREFIX_BYTES_2} at level 2"),
        format!("at {} MiB at the latest", PREFIX_BYTES_MAX >> 20),
        format!("words that change (offset {TAIL_OFFSET};"),
        format!("one memfd of {PAGE_BYTES} bytes per subscriber"),
        format!("one memfd of {STATUS_BYTES} bytes"),
        "(4 KiB … 1 GiB)".to_owned(),
    ] {
        assert!(DOCUMENT.contains(&sentence), "{sentence:?} is not in the document");
    }
    assert_eq!((1u64 << CAPACITY_LOG2.start(), 1u64 << CAPACITY_LOG2.end()), (4 << 10, 1 << 30));
}

#[test]
fn the_bits_of_a_header_word_are_as_the_document_says() {
    let table = table("From page 4", "bits of the header word", "what");
    let fields: Vec<_> = table.rows.iter().map(|row| range(row[0])).collect();
    let [state, slot, granules, lap] = fields[..] else { panic!("{fields:?}") };
    for (row, word) in
        table.rows.iter().zip(["state", "slot of the publisher", "granules of 64 bytes", "lap"])
    {
        assert!(row[1].contains(word), "{word:?} is not what {} holds: {}", row[0], row[1]);
    }
    let largest = |(first, last): (usize, usize)| (1u64 << (last - first + 1)) - 1;
    assert_eq!((largest(slot) as usize, GRANULE_BYTES), (PUBLISHERS_MAX - 1, 64));
    let states = [
        (State::Free, "free"),
        (State::Busy, "busy"),
        (State::Done, "done"),
        (State::Pad, "padding"),
        (State::Sealed, "sealed"),
    ];
    let said: Vec<_> = states.iter().map(|(state, name)| format!("{} {name}", *state as u32)).collect();
    assert_eq!(table.rows[0][1], format!("state: {}", said.join(", ")));
    for (kind, _) in states {
        for (of_slot, of_granules, of_lap) in [
            (largest(slot), 1, 0),
            (0, largest(granules), 0),
            (0, 1, largest(lap)),
            (largest(slot), largest(granules), 5),
        ] {
            let word = Word::busy(of_lap as u32, of_slot as u8, of_granules).with_state(kind);
            let said =
                (kind as u64) << state.0 | of_slot << slot.0 | of_granules << granules.0 | of_lap << lap.0;
            assert_eq!(word.0, said, "{word:?}");
        }
    }
    // A free frame's number lies across the fields of slot and length.
    assert_eq!(slot.1 + 1, granules.0);
    let bits = granules.1 - slot.0 + 1;
    assert!(table.rows[1][1].contains("key + lap / 2³², modulo 2²⁹"), "{}", table.rows[1][1]);
    assert_eq!((bits, FREE_KEY_MASK), (29, (1 << 29) - 1));
    for (of_lap, key) in [(0, 1), (7, FREE_KEY_MASK), (5 << 32, 0x1234_5677), (u64::MAX >> 12, FREE_KEY_MASK)]
    {
        let number = ((of_lap >> 32) + u64::from(key)) % (1 << bits);
        assert_eq!(Word::free(of_lap, key).0, (of_lap << lap.0) | (number << slot.0));
    }
}

/// The bytes of a file that this process may only read.
fn bytes(fd: &OwnedFd, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    assert_eq!(rustix::io::pread(fd, &mut bytes, offset).unwrap(), length);
    bytes
}

fn value(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A log of several publishers in its third lap, read by the tables of the document and nothing else.
#[test]
#[cfg(target_endian = "little")]
fn the_document_is_enough_to_read_the_log_of_a_real_group() {
    for level in FORMATS {
        read_a_log(level);
    }
}

#[cfg(target_endian = "little")]
fn read_a_log(level: u32) {
    let [single, shared] = kinds().map(|options| options.format(level));
    let group = group(shared);
    let _first = group.publisher().unwrap();
    let mut publisher = group.publisher().unwrap();
    let payload: Vec<u8> = (1..=40).collect();
    let mut position = 0;
    for count in 0..70u32 {
        let mut loan = publisher.try_loan(payload.len()).unwrap().with_topic(count + 1000);
        loan.copy_from_slice(&payload);
        position = loan.commit().unwrap().0;
    }
    let [status, log, ..] = genuine(&group);

    let constants = table("Page 0", "offset", "size");
    let constant_of = |log: &OwnedFd, word: &str| {
        let row = constants.row(word);
        value(&bytes(log, number(row[0]) as u64, size(row[1]).min(8)))
    };
    let constant = |word: &str| constant_of(&log, word);
    assert_eq!(constant("magic"), MAGIC);
    assert_eq!(constant("magic").to_le_bytes(), *b"CAUSEWY1");
    assert_eq!((constant("format level"), constant("kind")), (u64::from(level), 1));
    assert_eq!((constant("logarithm"), constant("first position"), constant("epoch")), (12, 0, 0));
    assert_eq!(constants.row("kind: ")[2], "kind: 0 one publisher (`sw`), 1 several (`mw`)");
    let of_one = crate::common::group(single);
    let _publisher = of_one.publisher().unwrap();
    assert_eq!(constant_of(&genuine(&of_one)[1], "kind"), 0);

    let prefix_bytes = if level == 1 { PREFIX_BYTES } else { constant("offset of the ring") };
    let frame = table("From page 4", "offset in frame", "size");
    let field = |word: &str| {
        let row = frame.row(word);
        let from = prefix_bytes + position % 4096 + number(row[0]) as u64;
        value(&bytes(&log, from, size(row[1])))
    };
    let bits = table("From page 4", "bits of the header word", "what");
    let part = |row: usize| {
        let (first, last) = range(bits.rows[row][0]);
        field("header word") << (63 - last) >> (63 - last + first)
    };
    assert_eq!([part(0), part(1), part(2)], [State::Done as u64, 1, 2]);
    assert_eq!((position / 4096, part(3)), (2, 2));
    assert_eq!((field("payload length"), field("topic"), field("correlation")), (40, 1069, 0));
    assert_eq!(field("count of its messages"), 69);
    let last = frame.rows.last().unwrap();
    assert_eq!((number(last[0]) as u64, last[1]), (HEADER_BYTES, "…"));
    assert_eq!(bytes(&log, prefix_bytes + position % 4096 + HEADER_BYTES, 40), payload);
    assert!(frame.rows[1][2].contains("upper 4 bytes: 0"));
    assert_eq!(bytes(&log, prefix_bytes + position % 4096 + 12, 4), [0; 4]);

    // The free word after the last frame, from the group's number.
    let key = (constant("random number") % (1 << 29)) | 1;
    let end = position + 128;
    let free = value(&bytes(&log, prefix_bytes + end % 4096, 8));
    assert_eq!(free, (end / 4096) << range(bits.rows[3][0]).0 | key << range(bits.rows[1][0]).0);

    let page = table("The status pages", "offset", "size");
    let told = |row: usize| value(&bytes(&status, number(page.rows[row][0]) as u64, size(page.rows[row][1])));
    assert_eq!([told(2), told(3), told(4)], [0b11, 0b11, 1]);
}

/// The one field that no publisher of a group fills.
#[test]
fn the_correlation_of_a_message_lies_where_the_document_says() {
    let memory = HeapMemory::new(4096, false);
    let mut writer = Writer::new(&memory, Kind::Shared, 0);
    let Ok(Claimed::At(claim)) = writer.claim(8, &mut || u64::MAX) else { panic!("an empty log has room") };
    let position = claim.position;
    writer.commit(claim, Label { topic: 3, correlation: 0x0102_0304_0506_0708 }).unwrap();
    let table = table("From page 4", "offset in frame", "size");
    let row = table.row("correlation");
    assert_eq!(size(row[1]), 8);
    let word = &memory.meta(position)[(number(row[0]) - 8) / 8];
    assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), 0x0102_0304_0506_0708);
}

/// The table of writers must divide a frame where its fields lie.
#[test]
fn the_parts_of_a_frame_that_have_one_writer_are_those_of_its_fields() {
    let parts = table("From page 4", "offset in frame", "written by");
    let fields = table("From page 4", "offset in frame", "size");
    let begins: Vec<_> = fields.rows.iter().map(|row| number(row[0])).collect();
    let cut: Vec<_> = parts.rows.iter().map(|row| row[0]).collect();
    let [header, meta, payload] = cut[..] else { panic!("{cut:?}") };
    assert_eq!(number(header), begins[0]);
    assert_eq!(range(meta), (begins[1], HEADER_BYTES as usize - 1));
    assert_eq!(payload, format!("{HEADER_BYTES} …"));
    assert_eq!(begins.last(), Some(&(HEADER_BYTES as usize)));
    // Fields lie one behind the other; only behind the length is something left over.
    for (row, next) in fields.rows.iter().zip(&begins[1..]) {
        let left_over = if row[2].contains("(upper 4 bytes: 0)") { 4 } else { 0 };
        assert_eq!(number(row[0]) + size(row[1]) + left_over, *next, "{}", row[2]);
    }
}

/// The names behind `PAIR` in these sources.
fn pairs_in(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pairs_in(&path, names);
            continue;
        }
        for after in std::fs::read_to_string(&path).unwrap().split("PAIR ").skip(1) {
            let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            names.insert(after.chars().take_while(|letter| is_name(*letter)).collect());
        }
    }
}

#[test]
fn every_pair_of_orders_in_the_source_is_in_the_document_and_none_besides() {
    let mut source = BTreeSet::new();
    pairs_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut source);
    let table = table("Orders", "pair", "what it guarantees");
    let names = table.rows.iter().flat_map(|row| row[0].split(", "));
    let document: BTreeSet<String> = names.map(|name| name.trim_matches('`').to_owned()).collect();
    assert_eq!(source, document);
}
