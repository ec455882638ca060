//! Our parser against that of zbus: the same messages, signatures and match rules, both ways.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::num::NonZeroU32;

use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::{
    Args, Body, Builder, Endian, Header, Kind, Leaf, message_bytes, signature, walk,
};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use zbus::message::Message;
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{Endian as TheirEndian, Signature, Variant};

fn theirs(endian: Endian) -> TheirEndian {
    if endian == Endian::Little { TheirEndian::Little } else { TheirEndian::Big }
}

pub fn parsed_by_zbus(bytes: &[u8]) -> Result<Message, zbus::Error> {
    let endian = Endian::from_mark(bytes[0]).map_or(TheirEndian::Little, theirs);
    let data = Data::new(bytes.to_vec(), Context::new(endian, 0));
    // SAFETY: whatever the encoding, the functions used here check it before they use it; the contract is about what later
    // deserialisation may find, and that is checked too.
    unsafe { Message::from_bytes(data) }
}

/// The fields of both headers, as text.
fn fields(header: &Header<'_>) -> [Option<String>; 9] {
    let text = |text: Option<&str>| text.map(String::from);
    [
        text(header.path),
        text(header.interface),
        text(header.member),
        text(header.error_name),
        text(header.destination),
        text(header.sender),
        header.reply_serial.map(|serial| serial.to_string()),
        Some(header.signature.into()),
        Some(format!(
            "{} {} {} {}",
            header.kind.number(),
            header.flags & 7,
            header.serial,
            header.body_bytes
        )),
    ]
}

fn their_fields(message: &Message) -> [Option<String>; 9] {
    let header = message.header();
    let primary = header.primary();
    let kind = primary.msg_type() as u8;
    [
        header.path().map(ToString::to_string),
        header.interface().map(ToString::to_string),
        header.member().map(ToString::to_string),
        header.error_name().map(ToString::to_string),
        header.destination().map(ToString::to_string),
        header.sender().map(ToString::to_string),
        header.reply_serial().map(|serial| serial.to_string()),
        Some(header.signature().to_string_no_parens()),
        Some(format!(
            "{kind} {} {} {}",
            primary.flags().bits() & 7,
            primary.serial_num(),
            primary.body_len()
        )),
    ]
}

fn endian() -> impl Strategy<Value = Endian> {
    prop_oneof![Just(Endian::Little), Just(Endian::Big)]
}

fn word() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_]{0,12}"
}

fn dotted() -> impl Strategy<Value = String> {
    vec(word(), 2..5).prop_map(|words| words.join("."))
}

fn unique() -> impl Strategy<Value = String> {
    (0..100_u32, 0..10_000_u32).prop_map(|(major, minor)| format!(":{major}.{minor}"))
}

fn path() -> impl Strategy<Value = String> {
    vec("[A-Za-z0-9_]{1,9}", 0..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

/// Values of all types, inside each other.
type Values = (
    (u8, bool, i16, u16, i32, u32, i64, u64),
    (f64, String, Vec<String>),
    Vec<(u8, u64)>,
    Vec<Vec<u16>>,
    HashMap<String, Vec<bool>>,
);

fn values() -> impl Strategy<Value = Values> {
    (
        any::<(u8, bool, i16, u16, i32, u32, i64, u64)>(),
        (any::<f64>(), "[^\0]{0,20}", vec("[^\0]{0,9}", 0..4)),
        vec(any::<(u8, u64)>(), 0..5),
        vec(vec(any::<u16>(), 0..5), 0..4),
        hash_map("[^\0]{0,9}", vec(any::<bool>(), 0..4), 0..4),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_zbus_writes_we_read(
        endian in endian(), serial in 1..u32::MAX, path in path(), interface in dotted(), member in word(),
        sender in unique(), destination in dotted(), values in values(), nested in "[^\0]{0,20}",
    ) {
        let variant = Variant::new(Variant::new((nested.as_str(), 7_u32)));
        let body = (values, variant, zbus::wire::ObjectPath::try_from(path.as_str()).unwrap());
        let message = Message::method_call(path.as_str(), member.as_str()).interface(interface.as_str())
            .sender(sender.as_str()).destination(destination.as_str())
            .serial(NonZeroU32::new(serial).unwrap()).endian(theirs(endian)).build(&body).unwrap();
        let bytes = message.data().bytes();
        let header = Header::parse(bytes).unwrap();
        prop_assert_eq!(header.endian, endian);
        prop_assert_eq!(fields(&header), their_fields(&message));
        prop_assert_eq!(message_bytes(bytes).unwrap(), bytes.len());
        let body = &bytes[header.header_bytes..];
        let (mut texts, mut paths) = (Vec::new(), Vec::new());
        walk(&header, body, &mut |leaf, _| match leaf {
            Leaf::Text(text) => texts.push(text.to_owned()),
            Leaf::Path(path) => paths.push(path.to_owned()),
            _ => {}
        }).unwrap();
        prop_assert!(texts.contains(&nested) && paths == [path]);
        prop_assert_eq!(Args::new(&header, body).filter(Result::is_ok).count(), signature::types(header.signature).count());
    }

    #[test]
    fn what_we_write_zbus_reads(
        endian in endian(), serial in 1..u32::MAX, path in path(), interface in dotted(), member in word(), error in dotted(),
        sender in unique(), kind in 1..=4_u8, flags in 0..8_u8, text in "[^\0]{0,30}", texts in vec("[^\0]{0,9}", 0..4),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let body = Body::in_order(endian).text(&text).u32(serial).texts(&texts).object(&path).blob(text.as_bytes()).variant_text(&text);
        let message = match kind {
            1 => Builder::call(&path, &member),
            2 => Builder::reply(serial),
            3 => Builder::error(serial, &error),
            _ => Builder::signal(&path, &interface, &member),
        };
        let bytes = message.flags(flags).sender(&sender).body(body).build(serial).unwrap();
        let message = parsed_by_zbus(&bytes).unwrap();
        prop_assert_eq!(fields(&Header::parse(&bytes).unwrap()), their_fields(&message));
        let body = message.body();
        let (first, number, list): (String, u32, Vec<String>) = {
            let structure: zbus::wire::Structure<'_> = body.deserialize().unwrap();
            let fields = structure.fields();
            (fields[0].try_clone().unwrap().try_into().unwrap(), fields[1].try_clone().unwrap().try_into().unwrap(),
             fields[2].try_clone().unwrap().try_into().unwrap())
        };
        prop_assert_eq!((first, number, list), (text, serial, texts.iter().map(ToString::to_string).collect()));
    }

    /// A message with changed bytes is refused or understood alike; nothing panics and nothing is read beyond the end.
    #[test]
    fn changed_bytes_are_refused_or_mean_the_same(
        endian in endian(), values in values(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>(),
    ) {
        let message = Message::signal("/a/b", "a.B", "C").sender(":1.5").endian(theirs(endian)).build(&values).unwrap();
        let mut bytes = message.data().bytes().to_vec();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(header) = Header::parse(&bytes) {
            let _ = walk(&header, &bytes[header.header_bytes..], &mut |_, _| {});
            if header.message_bytes() == bytes.len() && !matches!(header.kind, Kind::Other(_)) && let Ok(theirs) = parsed_by_zbus(&bytes) {
                prop_assert_eq!(fields(&header), their_fields(&theirs));
            }
        }
        let _ = Header::parse(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn signatures_are_valid_for_both_or_for_none(text in "[ybnqiuxtdsogva(){}]{0,14}") {
        prop_assert_eq!(signature::check(&text).is_ok(), Signature::try_from(text.as_str()).is_ok(), "{}", text);
    }
}

/// A rule, and values that the messages with it often share.
fn rule() -> impl Strategy<Value = String> {
    let maybe = |key: &'static str, values: &'static [&'static str]| {
        prop::option::of(prop::sample::select(values))
            .prop_map(move |value| value.map(|value| format!("{key}='{value}'")))
    };
    (
        maybe("type", &["signal", "method_call", "error"]),
        maybe("sender", &[":1.1", ":1.2"]),
        maybe("interface", &["a.B", "a.C"]),
        maybe("member", &["M", "N"]),
        maybe("path", &["/", "/x", "/x/y"]),
        prop::option::of(prop_oneof![
            Just("arg0='org.a'".to_owned()),
            Just("arg0='it'\\''s, so'".to_owned()),
            Just("arg0namespace='org.a'".to_owned()),
            Just("arg1='two'".to_owned()),
        ]),
    )
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].into_iter().flatten().collect::<Vec<_>>().join(","))
}

fn bytes_of_a_signal() -> impl Strategy<Value = Vec<u8>> {
    let one_of = |values: &'static [&'static str]| prop::sample::select(values);
    (
        one_of(&["/", "/x", "/x/y"]),
        one_of(&["a.B", "a.C"]),
        one_of(&["M", "N"]),
        one_of(&[":1.1", ":1.2"]),
        one_of(&["org.a", "org.a.b", "org.ab", "it's, so", ""]),
        one_of(&["two", "three"]),
    )
        .prop_map(|(path, interface, member, sender, arg0, arg1)| {
            let body = Body::default().text(arg0).text(arg1);
            Builder::signal(path, interface, member).sender(sender).body(body).build(1).unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// zbus knows no owners of names, so senders are unique here.
    #[test]
    fn rules_mean_the_same_to_zbus(text in rule(), bytes in bytes_of_a_signal()) {
        let ours: MatchRule = text.parse().unwrap();
        let their = zbus::MatchRule::try_from(text.as_str()).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<_> = Args::new(&header, &bytes[header.header_bytes..]).map(Result::unwrap).collect();
        let message = parsed_by_zbus(&bytes).unwrap();
        let is_namespace_of_no_name = text.contains("arg0namespace");
        if !is_namespace_of_no_name {
            prop_assert_eq!(ours.matches(&header, &args, &()), their.matches(&message).unwrap(), "{}", text);
        }
        // Each reads what the other prints.
        prop_assert_eq!(&their.to_string().parse::<MatchRule>().unwrap(), &ours);
        let printed = ours.to_string();
        prop_assert_eq!(zbus::MatchRule::try_from(printed.as_str()).unwrap(), their);
    }

    #[test]
    fn a_rule_that_subsumes_another_matches_all_that_the_other_matches(wide in rule(), narrow in rule(), bytes in bytes_of_a_signal()) {
        let (wide, narrow): (MatchRule, MatchRule) = (wide.parse().unwrap(), narrow.parse().unwrap());
        let header = Header::parse(&bytes).unwrap();
        let args: Vec<_> = Args::new(&header, &bytes[header.header_bytes..]).map(Result::unwrap).collect();
        if wide.subsumes(&narrow) && narrow.matches(&header, &args, &()) {
            prop_assert!(wide.matches(&header, &args, &()), "{} / {}", wide, narrow);
        }
        prop_assert!(narrow.subsumes(&narrow) && MatchRule::default().subsumes(&narrow));
    }
}
