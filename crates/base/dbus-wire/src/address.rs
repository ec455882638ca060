//! Addresses of buses, `unix:path=/run/bus,guid=…`, in whose values some bytes are written as `%2f`.
//!
//! Source: D-Bus Specification, section "Server Addresses".

use std::fmt::Write;

/// A value as it stands in an address: bytes that are not letters, digits or one of `-_/.\*` are escaped.
pub fn escaped(value: &[u8]) -> String {
    value.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_/.\\*".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
        text
    })
}

/// The value of a key in an address of this transport; nothing if it has none, or an escape is not complete.
pub fn value(address: &str, transport: &str, key: &str) -> Option<Vec<u8>> {
    let keys = address.strip_prefix(transport)?.strip_prefix(':')?;
    let (_, value) =
        keys.split(',').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == key)?;
    unescaped(value)
}

/// As [`value`], as text; nothing if it is not UTF-8.
pub fn text(address: &str, transport: &str, key: &str) -> Option<String> {
    String::from_utf8(value(address, transport, key)?).ok()
}

/// The bytes that a value of an address stands for; nothing if an escape is not complete.
pub fn unescaped(value: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            out.push(first);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_escaped_is_read_again() {
        assert_eq!(escaped(b"/a b,c"), "/a%20b%2cc");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescaped(&escaped(&all)), Some(all));
        assert_eq!((unescaped("%z"), unescaped("%zz")), (None, None));
    }

    #[test]
    fn a_value_is_found_by_its_transport_and_key() {
        let address = "unix:path=/run/a%20b,guid=0f,broken,name=%ff";
        assert_eq!(text(address, "unix", "path").as_deref(), Some("/run/a b"));
        assert_eq!(text(address, "unix", "guid").as_deref(), Some("0f"));
        assert_eq!((value(address, "unix", "name"), text(address, "unix", "name")), (Some(vec![0xff]), None));
        for (transport, key) in [("tcp", "path"), ("uni", "path"), ("unix", "run"), ("unix", "broken")] {
            assert_eq!(value(address, transport, key), None, "{transport} {key}");
        }
    }
}
