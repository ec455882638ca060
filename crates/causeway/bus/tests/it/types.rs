//! Arguments of all types against zbus, both ways and in both byte orders, and against the check of whole bodies, which hostile bytes must not pass.

use std::collections::{BTreeMap, HashMap};

use causeway_bus::wire::{
    Body, Builder, Decode, Encode, Endian, Header, ObjectPath, Signature, Value, Variant, arguments,
    arguments_of, walk,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use zbus::wire::serialized::Context;
use zbus::wire::{Endian as TheirEndian, to_bytes};

type Numbers = (u8, bool, i16, u16, i32, u32, i64, u64, f64);
type Containers =
    (Vec<u8>, Vec<(bool, Vec<String>)>, HashMap<String, BTreeMap<u16, Vec<f64>>>, ((String,), Vec<i64>));

const ORDERS: [(Endian, TheirEndian); 2] =
    [(Endian::Little, TheirEndian::Little), (Endian::Big, TheirEndian::Big)];

fn numbers() -> impl Strategy<Value = Numbers> {
    let real = proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::INFINITE;
    (any::<(u8, bool, i16, u16, i32, u32, i64, u64)>(), real)
        .prop_map(|((a, b, c, d, e, f, g, h), i)| (a, b, c, d, e, f, g, h, i))
}

/// D-Bus has no zero bytes in its texts.
fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,9}"
}

fn containers() -> impl Strategy<Value = Containers> {
    let real = proptest::num::f64::NORMAL;
    let map = proptest::collection::hash_map(text(), btree_map(any::<u16>(), vec(real, 0..4), 0..3), 0..2);
    (
        vec(any::<u8>(), 0..20),
        vec((any::<bool>(), vec(text(), 0..4)), 0..4),
        map,
        ((text(),).prop_map(|it| it), vec(any::<i64>(), 0..5)),
    )
}

fn message(body: Body) -> Vec<u8> {
    Builder::signal("/", "a.B", "C").body(body).build(1).unwrap()
}

/// Ours is theirs, byte for byte, and theirs is read as what it was.
fn is_as_zbus_has_it<T>(value: &T)
where
    T: Encode
        + for<'a> Decode<'a>
        + PartialEq
        + std::fmt::Debug
        + zbus::wire::export::serde::Serialize
        + zbus::wire::Type,
{
    let signature = <T as causeway_bus::wire::Type>::SIGNATURE.as_str();
    assert_eq!(signature, <T as zbus::wire::Type>::SIGNATURE.to_string());
    for (endian, their_endian) in ORDERS {
        let bytes = to_bytes(Context::new(their_endian, 0), value).unwrap();
        let theirs = message(Body::marshalled(endian, signature, bytes.bytes()));
        assert_eq!(&arguments_of::<(T,)>(&theirs).unwrap().0, value);
        if endian == Endian::NATIVE {
            assert_eq!(message(Body::of(&(value,)).unwrap()), theirs);
        }
    }
}

/// Signatures of one complete type each.
fn types() -> impl Strategy<Value = String> {
    let basic =
        proptest::sample::select(&["y", "b", "n", "q", "i", "u", "x", "t", "d", "s", "o", "g", "v"][..]);
    basic.prop_map(str::to_owned).prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|element| format!("a{element}")),
            inner.clone().prop_map(|value| format!("a{{q{value}}}")),
            vec(inner, 1..4).prop_map(|fields| format!("({})", fields.concat())),
        ]
    })
}

/// A value of this type.
fn value_of(types: &str, depth: u32) -> BoxedStrategy<Value<'static>> {
    let owned = types.to_owned();
    match types.as_bytes()[0] {
        b'y' => any::<u8>().prop_map(Value::Byte).boxed(),
        b'b' => any::<bool>().prop_map(Value::Bool).boxed(),
        b'n' => any::<i16>().prop_map(Value::I16).boxed(),
        b'q' => any::<u16>().prop_map(Value::U16).boxed(),
        b'i' => any::<i32>().prop_map(Value::I32).boxed(),
        b'u' => any::<u32>().prop_map(Value::U32).boxed(),
        b'x' => any::<i64>().prop_map(Value::I64).boxed(),
        b't' => any::<u64>().prop_map(Value::U64).boxed(),
        b'd' => proptest::num::f64::NORMAL.prop_map(Value::F64).boxed(),
        b's' => text().prop_map(|text| Value::Text(text.into())).boxed(),
        b'o' => "(/[a-z]{1,3}){1,3}".prop_map(|path| Value::Path(path.into())).boxed(),
        b'g' => crate::types::types().prop_map(|types| Value::Signature(types.into())).boxed(),
        b'v' if depth == 0 => any::<u8>().prop_map(|it| Value::Variant(Box::new(Value::Byte(it)))).boxed(),
        b'v' => any_value(depth - 1).prop_map(|value| Value::Variant(Box::new(value))).boxed(),
        b'(' => {
            let fields = causeway_bus::wire::signature::types(&types[1..types.len() - 1]);
            let fields: Vec<_> = fields.map(|field| value_of(field, depth)).collect();
            fields.prop_map(Value::Struct).boxed()
        }
        _ if types == "ay" => vec(any::<u8>(), 0..9).prop_map(|bytes| Value::Bytes(bytes.into())).boxed(),
        _ => match owned[1..].strip_prefix('{') {
            None => {
                let element = owned[1..].to_owned();
                let elements = vec(value_of(&element, depth), 0..4);
                elements.prop_map(move |elements| Value::Array(element.clone().into(), elements)).boxed()
            }
            // zbus sorts the keys of its dictionaries.
            Some(entry) => {
                let entry = entry[..entry.len() - 1].to_owned();
                let entries = btree_map(any::<u16>(), value_of(&entry[1..], depth), 0..4);
                let made = move |entries: BTreeMap<u16, Value<'static>>| {
                    let entries = entries.into_iter().map(|(key, value)| (Value::U16(key), value));
                    Value::Dictionary(entry.clone().into(), entries.collect())
                };
                entries.prop_map(made).boxed()
            }
        },
    }
}

fn any_value(depth: u32) -> BoxedStrategy<Value<'static>> {
    types().prop_flat_map(move |types| value_of(&types, depth)).boxed()
}

/// The same as zbus has it.
fn theirs(value: &Value<'_>) -> zbus::Variant<'static> {
    use zbus::Variant as Their;
    let signature = |types: &str| zbus::wire::Signature::try_from(types).unwrap();
    match value {
        Value::Byte(it) => Their::U8(*it),
        Value::Bool(it) => Their::Bool(*it),
        Value::I16(it) => Their::I16(*it),
        Value::U16(it) => Their::U16(*it),
        Value::I32(it) => Their::I32(*it),
        Value::U32(it) => Their::U32(*it),
        Value::I64(it) => Their::I64(*it),
        Value::U64(it) => Their::U64(*it),
        Value::F64(it) => Their::F64(*it),
        Value::Text(it) => Their::Str(it.to_string().into()),
        Value::Path(it) => Their::ObjectPath(zbus::wire::ObjectPath::try_from(it.to_string()).unwrap()),
        Value::Signature(it) => Their::Signature(signature(it)),
        Value::Variant(it) => Their::Variant(Box::new(theirs(it))),
        Value::Bytes(bytes) => {
            let mut array = zbus::wire::Array::new(&signature("y"));
            bytes.iter().for_each(|byte| array.append(Their::U8(*byte)).unwrap());
            Their::Array(array)
        }
        Value::Array(element, elements) => {
            let mut array = zbus::wire::Array::new(&signature(element));
            elements.iter().for_each(|element| array.append(theirs(element)).unwrap());
            Their::Array(array)
        }
        Value::Dictionary(types, entries) => {
            let mut dict = zbus::wire::Dict::new(&signature(&types[..1]), &signature(&types[1..]));
            entries.iter().for_each(|(key, value)| dict.append(theirs(key), theirs(value)).unwrap());
            Their::Dict(dict)
        }
        Value::Struct(fields) => {
            let mut structure = zbus::wire::StructureBuilder::new();
            fields.iter().for_each(|field| structure.push_value(theirs(field)));
            Their::Structure(structure.build().unwrap())
        }
        Value::Descriptor(_) => unreachable!("zbus takes descriptors, and no indices of them"),
    }
}

/// What hostile bytes are read as: with texts and bytes where they are, and values of any type.
type Hostile<'a> = (
    Vec<(u8, &'a str)>,
    Value<'a>,
    BTreeMap<u8, ObjectPath<'a>>,
    Vec<u64>,
    (bool, Signature<'a>, &'a [u8]),
    Vec<Vec<Vec<i16>>>,
);

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_and_containers_are_what_zbus_makes_of_them(numbers in numbers(), containers in containers()) {
        is_as_zbus_has_it(&numbers);
        is_as_zbus_has_it(&containers);
        is_as_zbus_has_it(&vec![(numbers.0, numbers), (1, numbers)]);
        is_as_zbus_has_it(&containers.0);
        is_as_zbus_has_it(&containers.3);
    }

    #[test]
    fn values_of_any_type_are_what_zbus_makes_of_them(value in any_value(2)) {
        for (endian, their_endian) in ORDERS {
            let bytes = to_bytes(Context::new(their_endian, 0), &theirs(&value)).unwrap();
            let message_of_zbus = message(Body::marshalled(endian, "v", bytes.bytes()));
            prop_assert_eq!(&arguments_of::<Value<'_>>(&message_of_zbus).unwrap(), &value);
            if endian == Endian::NATIVE {
                prop_assert_eq!(message(Body::of(&value).unwrap()), message_of_zbus);
            }
        }
    }

    /// What is read is exactly what the check of whole bodies takes, whatever is done to the bytes.
    #[test]
    fn hostile_bytes_are_refused_as_the_check_of_bodies_refuses_them(
        value in any_value(2),
        numbers in vec(any::<u64>(), 0..4),
        texts in vec((any::<u8>(), text()), 0..3),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let paths = BTreeMap::from([(1u8, ObjectPath::new("/a/b").unwrap())]);
        let body = (&texts, &value, paths, numbers, (true, Signature::new("a{sv}").unwrap(), &b"bytes"[..]), vec![vec![vec![1i16]]]);
        let good = message(Body::of(&body).unwrap());
        let header_bytes = Header::parse(&good).unwrap().header_bytes;
        let mut bytes = good.clone();
        for (index, byte) in damage {
            let at = header_bytes + index.index(bytes.len() - header_bytes);
            // Small numbers are lengths that may fit, letters may be types.
            bytes[at] = if byte < 128 { byte % 16 } else { byte };
        }
        let header = Header::parse(&bytes).unwrap();
        let mut body = &bytes[header_bytes..];
        if let Some(cut) = cut {
            body = &body[..cut.index(body.len())];
        }
        let checked = walk(&header, body, &mut |_, _| {});
        let read = arguments::<Hostile<'_>>(&header, body);
        prop_assert_eq!(read.is_ok(), checked.is_ok(), "{:?} and {:?}", read, checked);
    }
}

/// Bodies that are much work for their bytes are read, or refused, all the same; the steps of the check are counted in its own tests.
#[test]
fn long_bodies_of_small_parts_are_read_to_their_end() {
    let deep = format!("{}y{}", "(".repeat(31), ")".repeat(31));
    let inner = (0..31).fold(Value::Byte(7), |inner, _| Value::Struct(vec![inner]));
    let count = 20_000;
    let value = Value::Array(deep.into(), vec![inner; count]);
    let bytes = message(Body::of(&value).unwrap());
    assert_eq!(arguments_of::<Value<'_>>(&bytes).unwrap(), value);
    let bytes = message(Body::of(&vec![Variant(1u8); 100_000]).unwrap());
    assert_eq!(arguments_of::<Vec<Value<'_>>>(&bytes).unwrap().len(), 100_000);
    assert!(arguments_of::<Vec<Variant<u32>>>(&bytes).is_err());
}
