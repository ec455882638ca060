//! Values and messages as JSON, in the form of busctl's: a variant has its type with it, a dictionary is an object.

use std::fmt::{Display, Write};

use super::{Fault, Header, Kind, Value, values};

/// Most bytes of arguments that are shown.
pub const SHOWN_BYTES_MAX: usize = 1 << 20;

/// What a message is, in a word of its own.
pub const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::MethodCall => "call",
        Kind::MethodReturn => "reply",
        Kind::Error => "error",
        Kind::Signal => "signal",
        Kind::Other(_) => "other",
    }
}

/// A value.
pub fn value(value: &Value<'_>) -> String {
    let mut out = String::new();
    push_value(&mut out, value);
    out
}

/// The types and values of all arguments: `{"type":"su","data":["a",1]}`.
///
/// # Errors
/// The bytes are no message.
pub fn arguments(message: &[u8]) -> Result<String, Fault> {
    let header = Header::parse(message)?;
    let values = values(&header, &message[header.header_bytes..])?;
    let mut object = Object::new();
    object.text("type", header.signature);
    push_list(object.key("data"), &values);
    Ok(object.end())
}

/// A message, with numbers that it does not have itself.
pub fn message(header: &Header<'_>, message: &[u8], more: &[(&str, &dyn Display)]) -> String {
    let mut object = Object::new();
    object.text("kind", word(header.kind));
    object.number("serial", header.serial);
    object.number("flags", header.flags);
    object.text("type", header.signature);
    object.number("body_bytes", header.body_bytes);
    let texts = [
        ("sender", header.sender),
        ("destination", header.destination),
        ("path", header.path),
        ("interface", header.interface),
        ("member", header.member),
        ("error", header.error_name),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            object.text(name, text);
        }
    }
    if let Some(serial) = header.reply_serial {
        object.number("reply_serial", serial);
    }
    for (name, number) in more {
        object.number(name, number);
    }
    match left_out(header, message) {
        Some(why) => object.text("left_out", why),
        None => match values(header, &message[header.header_bytes..]) {
            Ok(values) => push_list(object.key("data"), &values),
            Err(fault) => object.text("left_out", &format!("invalid arguments: {fault}")),
        },
    }
    object.end()
}

/// Why the arguments of a message are not shown, if they are not.
pub fn left_out(header: &Header<'_>, message: &[u8]) -> Option<&'static str> {
    if header.body_bytes > SHOWN_BYTES_MAX {
        return Some("more than 1 MiB");
    }
    // A monitor of a native bus has only the header of a message that is in a file of its own.
    (header.body_bytes > 0 && message.len() == header.header_bytes)
        .then_some("longer than a quarter of the sender's outbox, so not in the memory of the bus")
}

struct Object(String);

impl Object {
    fn new() -> Object {
        Object("{".into())
    }

    /// Where the value of this key is to be written.
    fn key(&mut self, key: &str) -> &mut String {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_text(&mut self.0, key);
        self.0.push(':');
        &mut self.0
    }

    fn text(&mut self, key: &str, text: &str) {
        push_text(self.key(key), text);
    }

    fn number(&mut self, key: &str, number: impl Display) {
        push(self.key(key), number);
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn push(out: &mut String, what: impl Display) {
    // A string takes whatever fits in memory.
    let _ = write!(out, "{what}");
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => push(out, format_args!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn push_list<'a, T: Shown + 'a>(out: &mut String, elements: impl IntoIterator<Item = &'a T>) {
    out.push('[');
    for (number, element) in elements.into_iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        element.push_to(out);
    }
    out.push(']');
}

trait Shown {
    fn push_to(&self, out: &mut String);
}

impl Shown for Value<'_> {
    fn push_to(&self, out: &mut String) {
        push_value(out, self);
    }
}

impl Shown for u8 {
    fn push_to(&self, out: &mut String) {
        push(out, self);
    }
}

fn push_value(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Byte(number) => push(out, number),
        Value::Bool(value) => push(out, value),
        Value::I16(number) => push(out, number),
        Value::U16(number) => push(out, number),
        Value::I32(number) => push(out, number),
        Value::U32(number) | Value::Descriptor(number) => push(out, number),
        Value::I64(number) => push(out, number),
        Value::U64(number) => push(out, number),
        // JSON has no numbers that are none. With a point or an exponent, others stay what they are.
        Value::F64(number) if !number.is_finite() => push_text(out, &number.to_string()),
        Value::F64(number) => push(out, format_args!("{number:?}")),
        Value::Text(text) | Value::Path(text) | Value::Signature(text) => push_text(out, text),
        Value::Bytes(bytes) => push_list(out, bytes.iter()),
        Value::Array(_, elements) | Value::Struct(elements) => push_list(out, elements),
        Value::Dictionary(_, entries) => {
            let mut object = Object::new();
            for (key, value) in entries {
                let key = match key {
                    Value::Text(text) | Value::Path(text) | Value::Signature(text) => text.to_string(),
                    other => self::value(other),
                };
                push_value(object.key(&key), value);
            }
            out.push_str(&object.end());
        }
        Value::Variant(value) => {
            let mut object = Object::new();
            object.text("type", &value.signature());
            push_value(object.key("data"), value);
            out.push_str(&object.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, text};
    use super::*;

    fn signal(types: &str, words: &str) -> Vec<u8> {
        let words: Vec<String> =
            words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let body = text::marshalled(types, &words).unwrap();
        Builder::signal("/a", "a.B", "C").sender(":1.1").body(body).build(7).unwrap()
    }

    #[test]
    fn values_of_every_type_are_json_that_says_what_they_are() {
        let cases = [
            ("sa{sv}", "x 1 k v ay 2 1 2", r#"["x",{"k":{"type":"v","data":{"type":"ay","data":[1,2]}}}]"#),
            ("da{ub}", "inf 1 7 true", r#"["inf",{"7":true}]"#),
            (
                "ddnqixt",
                "0.5 3 -5 65535 -7 -9 18446744073709551615",
                "[0.5,3.0,-5,65535,-7,-9,18446744073709551615]",
            ),
            ("(ysob)as", "9 t /p false 0", r#"[[9,"t","/p",false],[]]"#),
        ];
        for (types, words, data) in cases {
            let wanted = format!(r#"{{"type":"{types}","data":{data}}}"#);
            assert_eq!(arguments(&signal(types, words)).unwrap(), wanted);
        }
        assert_eq!(value(&Value::Text("a\"\\\n\u{1}é".into())), r#""a\"\\\n\u0001é""#);
    }

    #[test]
    fn characters_that_json_does_not_allow_are_escaped() {
        let text = "a b\t\r\n\u{1f}\u{7f}";
        assert_eq!(value(&Value::Text(text.into())), "\"a b\\t\\r\\n\\u001f\u{7f}\"");
        for (number, shown) in [(f64::NAN, "\"NaN\""), (f64::NEG_INFINITY, "\"-inf\""), (-0.0, "-0.0")] {
            assert_eq!(value(&Value::F64(number)), shown);
        }
    }

    #[test]
    fn arguments_of_more_than_a_mebibyte_are_left_out() {
        let bytes = signal("s", "x");
        let header = Header::parse(&bytes).unwrap();
        for (body_bytes, is_left_out) in
            [(SHOWN_BYTES_MAX, None), (SHOWN_BYTES_MAX + 1, Some("more than 1 MiB"))]
        {
            assert_eq!(left_out(&Header { body_bytes, ..header }, &bytes), is_left_out);
        }
        let empty = signal("", "");
        assert_eq!(left_out(&Header::parse(&empty).unwrap(), &empty), None);
    }

    #[test]
    fn every_kind_and_field_of_a_message_is_shown() {
        let error = Builder::error(9, "a.E").sender(":1.1").destination(":1.2").flags(1);
        for (kind, message) in [
            ("call", Builder::call("/", "M")),
            ("reply", Builder::reply(1)),
            ("other", Builder::new(Kind::Other(7))),
        ] {
            let bytes = message.build(1).unwrap();
            let shown = self::message(&Header::parse(&bytes).unwrap(), &bytes, &[]);
            assert!(shown.starts_with(&format!(r#"{{"kind":"{kind}","serial":1,"#)), "{shown}");
        }
        let bytes = error.build(7).unwrap();
        assert_eq!(
            message(&Header::parse(&bytes).unwrap(), &bytes, &[]),
            r#"{"kind":"error","serial":7,"flags":1,"type":"","body_bytes":0,"sender":":1.1","destination":":1.2","error":"a.E","reply_serial":9,"data":[]}"#
        );
    }

    #[test]
    fn a_message_is_an_object_with_what_its_header_says() {
        let bytes = signal("s", "x");
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(
            message(&header, &bytes, &[("position", &3)]),
            r#"{"kind":"signal","serial":7,"flags":0,"type":"s","body_bytes":6,"sender":":1.1","path":"/a","interface":"a.B","member":"C","position":3,"data":["x"]}"#
        );
        let text = message(&header, &bytes[..header.header_bytes], &[]);
        assert!(text.contains(r#""left_out":"longer than a quarter"#) && !text.contains("data"), "{text}");
    }
}
