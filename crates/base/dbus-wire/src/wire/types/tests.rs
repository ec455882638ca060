//! What is written and read, and what is refused. The comparison with zbus, at random, is a test of causeway-bus.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::super::{ARRAY_BYTES_MAX, Builder};
use super::*;

/// Marshalled in a message and read again.
fn read<T: for<'a> Decode<'a>>(body: Body) -> Result<T, Unreadable> {
    arguments_of(&Builder::signal("/", "a.B", "C").body(body).build(1).unwrap())
}

/// What is read is what was written, and has this signature.
fn goes_there_and_back<T>(value: T, signature: &str)
where
    T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug,
{
    let body = Body::of(&value).unwrap();
    assert_eq!(body.signature, signature);
    assert_eq!(read::<T>(body).unwrap(), value);
    // The same as one argument, and in a variant.
    assert_eq!(read::<(T,)>(Body::of(&(&value,)).unwrap()).unwrap(), (value,));
}

#[test]
fn every_type_goes_there_and_back() {
    goes_there_and_back((1u8, -2i16, 3u16, -4i32, 5u32, -6i64, 7u64, 8.5f64, true), "ynqiuxtdb");
    goes_there_and_back("text".to_owned(), "s");
    goes_there_and_back((DescriptorIndex(3), vec![DescriptorIndex(0)]), "hah");
    let names = (ObjectPath::new("/a/b").unwrap(), Signature::new("a{sv}").unwrap());
    let message = Builder::signal("/", "a.B", "C").body(Body::of(&names).unwrap()).build(1).unwrap();
    assert_eq!(Header::parse(&message).unwrap().signature, "og");
    assert_eq!(arguments_of::<(ObjectPath<'_>, Signature<'_>)>(&message).unwrap(), names);
    goes_there_and_back(
        (vec![1u8, 2], vec![-1.5, f64::MAX], vec![false, true], Vec::<u64>::new()),
        "ayadabat",
    );
    // Containers that have ended are not around the next ones.
    goes_there_and_back(vec![(1u8,); 100], "a(y)");
    goes_there_and_back(vec![Variant(vec![1u8]); 100], "av");
    goes_there_and_back(vec![(1u8, vec![(2u64, "x".to_owned())])], "a(ya(ts))");
    goes_there_and_back(((1u8, (2u32,)), 3u8), "(y(u))y");
    goes_there_and_back(HashMap::from([("a".to_owned(), vec![1u16]), ("b".to_owned(), vec![])]), "a{saq}");
    goes_there_and_back(BTreeMap::from([(true, BTreeMap::from([(1u8, -1i64)]))]), "a{ba{yx}}");
    goes_there_and_back(Dict(vec![(2u8, 1u8), (1, 2), (2, 3)]), "a{yy}");
    goes_there_and_back((Variant(1.5), Variant(vec![(1u8, Variant(2u8))])), "vv");
    // Nothing is not an argument, and no field.
    assert_eq!((Body::of(&()).unwrap(), read::<()>(Body::default())), (Body::default(), Ok(())));
}

#[test]
fn values_of_any_type_go_there_and_back_as_variants() {
    let texts = |texts: &[&str]| texts.iter().map(|text| Value::Text(text.to_string().into())).collect();
    for value in [
        Value::F64(-0.5),
        Value::Bytes(vec![1, 2, 3].into()),
        Value::Array("s".into(), texts(&["a", ""])),
        Value::Array("a(yt)".into(), vec![Value::Array("(yt)".into(), vec![])]),
        Value::Dictionary(
            "sv".into(),
            vec![(Value::Text("k".into()), Value::Variant(Box::new(Value::U64(1))))],
        ),
        Value::Dictionary("ya{ss}".into(), vec![]),
        Value::Struct(vec![Value::Path("/".into()), Value::Struct(vec![Value::Signature("".into())])]),
        Value::Variant(Box::new(Value::Variant(Box::new(Value::Descriptor(7))))),
    ] {
        let body = Body::of(&(1u8, &value)).unwrap();
        let message = Builder::signal("/", "a.B", "C").body(body).build(1).unwrap();
        let (_, found): (u8, Value<'_>) = arguments_of(&message).unwrap();
        assert_eq!(found, value);
        assert_eq!(found.into_owned(), value);
    }
    assert_eq!(Value::of(&(1u8, "a")).unwrap(), Value::Struct(vec![Value::Byte(1), Value::Text("a".into())]));
    assert_eq!(Value::of(&Value::Byte(1)).unwrap(), Value::Variant(Box::new(Value::Byte(1))));
    assert_eq!(Value::of(&[1u8, 2][..]).unwrap().to::<Vec<u8>>().unwrap(), [1, 2]);
}

#[test]
fn other_types_than_those_expected_are_named() {
    let refused = |why: Unreadable| why.to_string();
    let of = |body| Body::of(&body).unwrap();
    assert_eq!(refused(read::<(f64, String)>(of(7u32)).unwrap_err()), "expected \"ds\", found \"u\"");
    assert_eq!(refused(read::<()>(of(7u32)).unwrap_err()), "expected \"\", found \"u\"");
    // One struct is not its fields.
    assert_eq!(refused(read::<((u32,),)>(of(7u32)).unwrap_err()), "expected \"(u)\", found \"u\"");
    let variants = Body::of(&[Variant(1.5)]).unwrap();
    assert_eq!(refused(read::<Vec<Variant<f32Bits>>>(variants).unwrap_err()), "expected \"u\", found \"d\"");
}

/// A type of a program's own.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "as the types of numbers are written")]
struct f32Bits;

impl Type for f32Bits {
    const SIGNATURE: TypeSignature = u32::SIGNATURE;
}

impl Decode<'_> for f32Bits {
    fn decode(from: &mut Unmarshal<'_>) -> Result<f32Bits, Unreadable> {
        u32::decode(from).map(|_| f32Bits)
    }
}

#[test]
fn what_d_bus_does_not_have_is_not_written() {
    let refused = |body: Result<Body, Fault>| body.unwrap_err().to_string();
    assert_eq!(refused(Body::of("a\0")), "a string contains a zero byte");
    assert!(Body::of(&vec![0u8; ARRAY_BYTES_MAX]).is_ok());
    assert_eq!(refused(Body::of(&vec![0u8; ARRAY_BYTES_MAX + 1])), "an array is larger than 64 MiB");
    assert!(ObjectPath::new("a").is_err() && Signature::new("a").is_err());
    for value in [
        Value::Path("a".into()),
        Value::Signature("(".into()),
        Value::Text("\0".into()),
        Value::Struct(vec![]),
        Value::Array("".into(), vec![]),
        Value::Array("u".into(), vec![Value::U32(1), Value::I32(1)]),
        Value::Array("uu".into(), vec![]),
        // Together they would be the valid `(auu)`.
        Value::Struct(vec![Value::Array("uu".into(), vec![])]),
        Value::Dictionary("vs".into(), vec![]),
        Value::Dictionary("ss".into(), vec![(Value::Text("".into()), Value::Byte(1))]),
        Value::Struct(vec![Value::Array(
            "(y)".into(),
            vec![Value::Struct(vec![Value::Byte(1), Value::Byte(2)])],
        )]),
    ] {
        assert!(Body::of(&value).is_err(), "{value:?}");
    }
    let nested = |count| (0..count).fold(Value::Byte(1), |inner, _| Value::Variant(Box::new(inner)));
    assert!(Body::of(&nested(63)).is_ok());
    assert_eq!(refused(Body::of(&nested(64))), "more than 64 containers are inside each other");
    assert!(Body::of(&vec![nested(62)]).is_ok() && Body::of(&vec![nested(63)]).is_err());
}

#[test]
fn texts_and_bytes_are_read_where_they_are() {
    let message =
        Builder::signal("/", "a.B", "C").body(Body::of(&("text", [1u8, 2, 3])).unwrap()).build(1).unwrap();
    let (text, bytes): (&str, &[u8]) = arguments_of(&message).unwrap();
    let here = message.as_ptr_range();
    assert!(here.contains(&text.as_ptr()) && here.contains(&bytes.as_ptr()));
    let (text, _): (Cow<'_, str>, Vec<u8>) = arguments_of(&message).unwrap();
    assert!(matches!(text, Cow::Borrowed("text")));
}

#[test]
fn both_byte_orders_are_read() {
    let body = Body::in_order(Endian::Big).u32(7).text("x").blob(&[1, 2]);
    assert_eq!(read::<(u32, String, Vec<u8>)>(body).unwrap(), (7, "x".to_owned(), vec![1, 2]));
    let body =
        Body::marshalled(Endian::Big, "and", &[0, 0, 0, 4, 0, 1, 0xff, 0xfe, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read::<(Vec<i16>, f64)>(body).unwrap(), (vec![1, -2], 1.5));
}

#[test]
fn bytes_that_break_the_specification_are_refused() {
    let refused = |types: &str, bytes: &[u8]| Body::marshalled(Endian::Little, types, bytes);
    let why = |result: Result<(), Unreadable>| result.unwrap_err().to_string();
    assert_eq!(why(read::<bool>(refused("b", &[2, 0, 0, 0])).map(drop)), "a boolean is neither 0 nor 1");
    assert_eq!(
        why(read::<String>(refused("s", &[9, 0, 0, 0, 0])).map(drop)),
        "the bytes end before the message does"
    );
    let inside = refused("au", &[6, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(why(read::<Vec<u32>>(inside).map(drop)), "an array ends inside an element");
    let inside = refused("a(y)", &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(why(read::<(Vec<(u8,)>,)>(inside).map(drop)), "the body is longer than its types");
    let huge = refused("at", &[1, 0, 0, 4, 0, 0, 0, 0]);
    assert_eq!(why(read::<Vec<u64>>(huge).map(drop)), "an array is larger than 64 MiB");
    let path = refused("o", &[1, 0, 0, 0, b'a', 0]);
    assert!(
        arguments_of::<ObjectPath<'_>>(&Builder::signal("/", "a.B", "C").body(path).build(1).unwrap())
            .is_err()
    );
}
