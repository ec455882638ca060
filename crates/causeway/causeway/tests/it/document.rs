//! `docs/wire.md` states where every byte lies and what its bits mean, and so does the code. These tests compare the two.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of_val};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::common::wire::genuine;
use causeway::log::layout::{
    ABI, CAPACITY_LOG2, LogHeader, MAGIC, PAGE_BYTES, PREFIX_BYTES, PublisherWords, STATUS_BYTES, Status,
    SubscriberWords, TAIL_OFFSET, Tail, WakeWords,
};
use causeway::log::wait::WaitTarget;
use causeway::log::word::{FREE_KEY_MASK, GRANULE_BYTES, HEADER_BYTES, PUBLISHERS_MAX, State, Word};
use causeway::log::{Claimed, Gate, HeapMemory, Kind, Label, Memory, Writer};
use causeway::{Group, GroupOptions};

const DOCUMENT: &str = include_str!("../../../../../docs/wire.md");

/// A table of the document.
#[derive(Debug)]
struct Table {
    heading: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
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
    match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// `8`, or `256 × 4`.
fn size(text: &str) -> usize {
    text.split(" × ").map(number).product()
}

/// Holds a table of offset, size and meaning to what the code has, in order. Each row must say the word by which it is known
/// here, so that two rows that change places are found out.
fn hold(table: &Table, code: &[(&str, usize, usize)]) {
    let said: Vec<_> = table.rows.iter().map(|row| (number(row[0]), size(row[1]))).collect();
    let is: Vec<_> = code.iter().map(|(_, offset, size)| (*offset, *size)).collect();
    assert_eq!(said, is, "offset and size under {:?}", table.heading);
    for (row, (word, ..)) in table.rows.iter().zip(code) {
        assert!(row[2].contains(word), "{word:?} is not what lies at {}: {}", row[0], row[2]);
    }
}

/// A row of [`hold`]: offset and size of a field, as the compiler lays it out.
macro_rules! place {
    ($word:literal, $type:ident . $($path:tt)+) => {
        ($word, offset_of!($type, $($path)+), size_of_val(&$type::default().$($path)+))
    };
}

#[test]
fn every_table_that_gives_a_place_is_held_to_the_code() {
    // Those of the bus are held by the tests of `causeway-bus`.
    let is_of_the_bus =
        |table: &Table| ["Order log", "Outbox"].iter().any(|of| table.heading.starts_with(of));
    let gives_places = |table: &Table| {
        (table.columns[0].contains("offset") || table.columns[0].contains("bits")) && !is_of_the_bus(table)
    };
    let found: Vec<_> =
        tables().into_iter().filter(gives_places).map(|table| (table.heading, table.columns[0])).collect();
    let begins = |index: usize, heading: &str, column: &str| {
        found.get(index).is_some_and(|(there, first)| there.starts_with(heading) && *first == column)
    };
    let held = [
        ("Page 0", "offset"),
        ("Pages 1 to 3", "offset"),
        ("Pages 1 to 3", "offset in its line"),
        ("From page 4", "offset in frame"),
        ("From page 4", "bits of the header word"),
        ("From page 4", "offset in frame"),
        ("A subscriber page", "offset"),
        ("The wake page", "offset"),
        ("The status pages", "offset"),
    ];
    for (index, (heading, column)) in held.into_iter().enumerate() {
        assert!(begins(index, heading, column), "table {index} is not {heading}, {column}: {found:?}");
    }
    assert_eq!(found.len(), held.len(), "a table that no test here knows: {found:?}");
}

#[test]
fn the_constants_of_a_log_lie_where_the_document_says() {
    let (_, kind_and_abi, both) = place!("ABI", LogHeader.abi_and_kind);
    let halves = [("ABI", kind_and_abi, both / 2), ("kind", kind_and_abi + both / 2, both / 2)];
    hold(
        &table("Page 0", "offset", "size"),
        &[
            place!("magic", LogHeader.magic),
            halves[0],
            halves[1],
            place!("random number", LogHeader.group_id),
            place!("epoch", LogHeader.epoch),
            place!("logarithm of the capacity", LogHeader.capacity_log2),
            place!("first position", LogHeader.start),
            place!("messages", LogHeader.messages),
        ],
    );
    assert!(DOCUMENT.contains(&format!("ABI number: **{ABI}**")));
    assert!(DOCUMENT.contains(&format!("Size: {PREFIX_BYTES} + capacity bytes")));
    assert!(DOCUMENT.contains(&format!("words that change (offset {TAIL_OFFSET};")));
    assert!(DOCUMENT.contains("a size of 16384 + a power of two (4 KiB … 1 GiB)"));
    assert_eq!((1u64 << CAPACITY_LOG2.start(), 1u64 << CAPACITY_LOG2.end()), (4 << 10, 1 << 30));
}

#[test]
fn the_words_of_a_log_that_change_lie_where_the_document_says() {
    hold(
        &table("Pages 1 to 3", "offset", "size"),
        &[
            place!("`limit`", Tail.limit.0),
            place!("`floor`", Tail.floor.0),
            place!("`hint`", Tail.hint.0),
            place!("`wake_seq`", Tail.wake_seq.0),
            place!("`reclaim_lock`", Tail.reclaim_lock.0),
            place!("`last_cpu`", Tail.last_cpu.0),
            place!("`publishers_waiting`", Tail.publishers_waiting.0),
            place!("`mark_index`", Tail.mark_index.0),
            place!("marks", Tail.marks),
            place!("`demoted`", Tail.demoted),
            place!("`given_up`", Tail.given_up.0),
            place!("`publishers`", Tail.publishers),
        ],
    );
    hold(
        &table("Pages 1 to 3", "offset in its line", "size"),
        &[place!("`claim`", PublisherWords.claim), place!("`published`", PublisherWords.published)],
    );
}

#[test]
fn a_subscriber_page_is_as_the_document_says() {
    let table = table("A subscriber page", "offset", "size");
    hold(
        &table,
        &[
            place!("`cursor`", SubscriberWords.cursor.0),
            place!("`arm`", SubscriberWords.arm.0),
            place!("messages received", SubscriberWords.received),
            place!("messages lost", SubscriberWords.lost_messages),
            place!("bytes of log lost", SubscriberWords.lost_bytes),
            place!("process", SubscriberWords.process),
            place!("`topics`", SubscriberWords.topics),
            place!("`released`", SubscriberWords.released.0),
            place!("`references`", SubscriberWords.references.0),
        ],
    );
    assert!(table.heading.contains(&format!("one memfd of {PAGE_BYTES} bytes per subscriber")));
    let targets = [
        (WaitTarget::SharedFutex, "asleep in the wake page"),
        (WaitTarget::Doorbell, "asleep on the doorbell"),
        (WaitTarget::OwnFutex, "asleep on this word"),
    ];
    for (target, meaning) in targets {
        assert!(table.rows[1][2].contains(&format!("{} {meaning}", target as u32)), "{target:?}");
    }
}

#[test]
fn the_wake_page_is_as_the_document_says() {
    let table = table("The wake page", "offset", "size");
    hold(&table, &[place!("`wake_seq`", WakeWords.wake_seq)]);
    assert!(table.heading.contains(&format!("one memfd of {PAGE_BYTES} bytes")));
}

#[test]
fn the_status_page_is_as_the_document_says() {
    let table = table("The status pages", "offset", "size");
    hold(
        &table,
        &[
            place!("`subscriber_changes`", Status.subscriber_changes.0),
            place!("`placed`", Status.placed.0),
            place!("one bit per live publisher", Status.publishers),
            place!("in the server's own process", Status.local_publishers),
            place!("phase", Status.phase),
            place!("`killed_publishers`", Status.killed_publishers),
            place!("one bit per subscriber", Status.present),
            place!("generation", Status.subscribers),
            place!("`epoch`", Status.epoch),
            place!("`log_start`", Status.log_start),
        ],
    );
    assert!(table.heading.contains(&format!("one memfd of {STATUS_BYTES} bytes")));
}

/// First and last number of `9–31`, or of `0`.
fn range(text: &str) -> (usize, usize) {
    let mut ends = text.split('–').map(number);
    let first = ends.next().unwrap();
    (first, ends.next().unwrap_or(first))
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
    assert_eq!(largest(slot) as usize, PUBLISHERS_MAX - 1);
    assert_eq!(GRANULE_BYTES, 64);
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
    let group = Group::create("read", GroupOptions::new().capacity_bytes(4096).several_publishers()).unwrap();
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
    let constant = |word: &str| {
        let row = constants.rows.iter().find(|row| row[2].contains(word)).unwrap();
        value(&bytes(&log, number(row[0]) as u64, size(row[1]).min(8)))
    };
    assert_eq!(constant("magic"), MAGIC);
    assert_eq!(constant("magic").to_le_bytes(), *b"CAUSEWY1");
    assert_eq!((constant("ABI"), constant("kind")), (u64::from(ABI), 1));
    assert_eq!((constant("logarithm"), constant("first position"), constant("epoch")), (12, 0, 0));

    let frame = table("From page 4", "offset in frame", "size");
    let field = |word: &str| {
        let row = frame.rows.iter().find(|row| row[2].contains(word)).unwrap();
        let from = PREFIX_BYTES + position % 4096 + number(row[0]) as u64;
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
    assert_eq!(bytes(&log, PREFIX_BYTES + position % 4096 + HEADER_BYTES, 40), payload);
    assert!(frame.rows[1][2].contains("upper 4 bytes: 0"));
    assert_eq!(bytes(&log, PREFIX_BYTES + position % 4096 + 12, 4), [0; 4]);

    // The free word after the last frame, from the group's number.
    let key = (constant("random number") % (1 << 29)) | 1;
    let end = position + 128;
    let free = value(&bytes(&log, PREFIX_BYTES + end % 4096, 8));
    assert_eq!(free, (end / 4096) << range(bits.rows[3][0]).0 | key << range(bits.rows[1][0]).0);

    let page = table("The status pages", "offset", "size");
    let told = |row: usize| value(&bytes(&status, number(page.rows[row][0]) as u64, size(page.rows[row][1])));
    assert_eq!([told(2), told(3), told(4)], [0b11, 0b11, 1]);
    drop(group);
}

/// The one field that no publisher of today fills.
#[test]
fn the_correlation_of_a_message_lies_where_the_document_says() {
    struct NoReceivers;
    impl Gate for NoReceivers {
        fn subscriber_changes(&mut self) -> u64 {
            0
        }
        fn lowest(&mut self) -> u64 {
            u64::MAX
        }
    }
    let memory = HeapMemory::new(4096, false);
    let mut writer = Writer::new(&memory, Kind::Shared, 0);
    let Ok(Claimed::At(claim)) = writer.claim(8, &mut NoReceivers) else { panic!("an empty log has room") };
    let position = claim.position;
    writer.commit(claim, Label { topic: 3, correlation: 0x0102_0304_0506_0708 }).unwrap();
    let table = table("From page 4", "offset in frame", "size");
    let row = table.rows.iter().find(|row| row[2].contains("correlation")).unwrap();
    assert_eq!(size(row[1]), 8);
    let words = memory.meta(position);
    let word = &words[(number(row[0]) - 8) / 8];
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
    let document: BTreeSet<String> = table
        .rows
        .iter()
        .flat_map(|row| row[0].split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    assert_eq!(source, document);
}

/// A group of one publisher, told apart by the same byte.
#[test]
fn the_kind_of_a_log_is_the_number_that_the_document_gives() {
    let group = Group::create("one", GroupOptions::new().capacity_bytes(4096)).unwrap();
    let mut publisher = group.publisher().unwrap();
    publisher.try_publish(b"x").unwrap();
    let [_, log, ..] = genuine(&group);
    let constants = table("Page 0", "offset", "size");
    let row = constants.rows.iter().find(|row| row[2].starts_with("kind")).unwrap();
    assert_eq!(row[2], "kind: 0 one publisher (`sw`), 1 several (`mw`)");
    assert_eq!(value(&bytes(&log, number(row[0]) as u64, 4)), 0);
}
