//! `docs/wire.md` says where the words of a bus are; so does the code.

use causeway_bus::shared::directory::{LABEL_BYTES, NAME_BYTES, PEER_BYTES, QUEUE_SHOWN};
use causeway_bus::shared::filter::{EXACT_RULES, HASHED_BITS};
use causeway_bus::shared::order::{
    BROKEN, EVICTIONS, GROUP_BYTES, GROUPS, HINT, LIMIT, LINE_BYTES, LINES, line,
};
use causeway_bus::shared::outbox::{FLOOR, GRANULE_BYTES};
use causeway_bus::shared::ring::{BROADCAST, Entry, GROUP_SLOTS, PLACES};
use causeway_bus::shared::{FORMAT, FORMATS, directory, header, order, outbox};

const _: () = assert!(*FORMATS.start() == 1 && FORMAT == 1);

const DOCUMENT: &str = include_str!("../../../../../docs/wire.md");

#[test]
fn offsets_and_sizes_in_the_document_are_those_of_the_code() {
    let (_, bus) = DOCUMENT.split_once("\n## The bus\n").expect("the document describes the bus");
    let bus = bus.split_whitespace().collect::<Vec<_>>().join(" "); // whatever the length of its lines
    let magic = |magic: u64| format!("`{}`", String::from_utf8(magic.to_le_bytes().to_vec()).unwrap());
    for text in [
        format!("Format level of the bus: **{FORMAT}**"),
        magic(order::MAGIC),
        magic(outbox::MAGIC),
        magic(directory::MAGIC),
        format!("| {HINT} | 8 | hint"),
        format!("| {LIMIT} | 8 | limit"),
        format!("| {EVICTIONS} | 8 | how many members were evicted"),
        format!("| {BROKEN} | 8 | 0, or what ended the bus"),
        format!("| {GROUPS} | 4, {GROUP_BYTES} apart | the futex word of each group of {GROUP_SLOTS} slots"),
        format!("| {LINES} | {LINE_BYTES} each | a line"),
        format!("{} armed word", line::ARMED),
        format!("{} number of the member that was evicted", line::EVICTED),
        format!("{} cursor, {} sending", line::CURSOR, line::SENDING),
        format!("{} number of the member whose reply", line::WAITING_FOR),
        format!("{} nine words of statistics", line::STATISTICS),
        format!("form: {} as described, {} in a memory file", header::INLINE, header::BODY_IN_FILE),
        format!("{FLOOR} floor"),
        format!("a multiple of {GRANULE_BYTES} with a header of {} bytes", header::HEADER_BYTES),
        format!("From {} on {PEER_BYTES} bytes for each peer", directory::PEERS),
        format!("then {NAME_BYTES} for each name"),
        format!(
            "({}), whether there are clients that the directory does not show ({})",
            directory::WATCHED,
            directory::PARTIAL
        ),
        format!("{} number of changes of wake filters", directory::FILTER_VERSION),
        format!("{} bits of slots in use, {} bits of peers", directory::PRESENT, directory::LISTENERS),
        format!("label ({LABEL_BYTES})"),
        format!("{EXACT_RULES} rules of 4 words; a set of {HASHED_BITS} bits"),
        format!("numbers of up to {QUEUE_SHOWN} that wait"),
    ] {
        assert!(bus.contains(&text), "the document does not say {text:?}");
    }
}

#[test]
fn the_bits_of_an_entry_are_where_the_document_says() {
    let word = |sender, destination, place| Entry { sender, destination, place }.word(0);
    assert_eq!(word(BROADCAST, 0, 0), 0x7ff << 37);
    assert_eq!(word(0, BROADCAST, 0), 0x7ff << 26);
    assert_eq!(word(0, 0, PLACES - 1), (1 << 26) - 1);
    assert_eq!(Entry { sender: 0, destination: 0, place: 0 }.word(u16::MAX), 0xffff << 48);
}

#[test]
fn the_words_of_a_header_are_where_the_document_says() {
    let of = |header: header::BusHeader| header.words();
    let zero = header::BusHeader::default;
    assert_eq!(of(header::BusHeader { serial: 1, reply_serial: 2, ..zero() })[24 / 8], 1 | 2 << 32);
    assert_eq!(of(header::BusHeader { message_bytes: 1, body_offset: 2, ..zero() })[32 / 8], 1 | 2 << 32);
    let fifth = of(header::BusHeader { kind: 1, flags: 2, form: 3, token: 4, ..zero() })[40 / 8];
    assert_eq!(fifth, 1 | 2 << 8 | 3 << 16 | 4 << 32);
    assert_eq!(of(header::BusHeader { sent_ns: 7, ..zero() })[48 / 8], 7);
}
