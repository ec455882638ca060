//! `docs/wire.md` says where every word lies; so does the code, and here they are compared.
#![cfg(not(loom))]

use std::mem::offset_of;

use causeway::log::layout::{ABI, LogHeader, PREFIX_BYTES, ReceiverWords, Status, Tail};

const DOCUMENT: &str = include_str!("../../../docs/wire.md");

/// The offsets in the table under the heading that begins with `heading`.
fn offsets(heading: &str) -> Vec<usize> {
    let (_, rest) = DOCUMENT.split_once(heading).unwrap_or_else(|| panic!("no heading {heading:?}"));
    let section = rest.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| 0x"));
    rows.map(|row| usize::from_str_radix(row.split(' ').next().unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_constants_of_a_log_lie_where_the_document_says() {
    let header = [
        offset_of!(LogHeader, magic),
        offset_of!(LogHeader, abi_and_kind),
        offset_of!(LogHeader, abi_and_kind) + 4,
        offset_of!(LogHeader, group_id),
        offset_of!(LogHeader, epoch),
        offset_of!(LogHeader, capacity_log2),
        offset_of!(LogHeader, start),
    ];
    assert_eq!(offsets("### Page 0"), header);
    assert!(DOCUMENT.contains(&format!("ABI number: **{ABI}**")));
    assert!(DOCUMENT.contains(&format!("Size: {PREFIX_BYTES} + capacity bytes")));
}

#[test]
fn the_words_of_a_log_that_change_lie_where_the_document_says() {
    let tail = [
        offset_of!(Tail, limit),
        offset_of!(Tail, floor),
        offset_of!(Tail, hint),
        offset_of!(Tail, wake_seq),
        offset_of!(Tail, reclaim_lock),
        offset_of!(Tail, last_cpu),
        offset_of!(Tail, writers_waiting),
        offset_of!(Tail, mark_index),
        offset_of!(Tail, marks),
        offset_of!(Tail, woken),
        offset_of!(Tail, expelled),
    ];
    assert_eq!(offsets("### Page 1"), tail);
}

#[test]
fn a_receiver_page_is_as_the_document_says() {
    let words = [
        offset_of!(ReceiverWords, cursor),
        offset_of!(ReceiverWords, arm),
        offset_of!(ReceiverWords, received),
        offset_of!(ReceiverWords, lost_messages),
        offset_of!(ReceiverWords, lost_bytes),
    ];
    assert_eq!(offsets("## A receiver page"), words);
}

#[test]
fn the_status_page_is_as_the_document_says() {
    let words = [
        offset_of!(Status, members),
        offset_of!(Status, publishers),
        offset_of!(Status, local_publishers),
        offset_of!(Status, phase),
        offset_of!(Status, receivers),
    ];
    assert_eq!(offsets("## The status page"), words);
}
