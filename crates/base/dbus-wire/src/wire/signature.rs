//! Type signatures: which are valid, and where each of their complete types ends.

/// Most bytes of a signature.
pub const SIGNATURE_BYTES_MAX: usize = 255;
/// Most arrays inside each other, and most structs inside each other.
pub(super) const NESTING_MAX: u32 = 32;

/// Checks a signature of any number of complete types. The error says which rule it breaks.
pub fn check(signature: &str) -> Result<(), &'static str> {
    if signature.len() > SIGNATURE_BYTES_MAX {
        return Err("a signature is longer than 255 bytes");
    }
    let mut rest = signature.as_bytes();
    // Most signatures are a few letters.
    while let Some((_, after)) = rest.split_first().filter(|(code, _)| is_basic(**code)) {
        rest = after;
    }
    while !rest.is_empty() {
        rest = complete_type(rest, 0, 0)?;
    }
    Ok(())
}

/// The complete types of a valid signature, from left to right. Of an invalid one, those before the error.
pub fn types(signature: &str) -> impl Iterator<Item = &str> {
    let mut rest = signature;
    std::iter::from_fn(move || {
        let (first, other) = split(rest)?;
        rest = other;
        Some(first)
    })
}

/// The first complete type and what follows it.
pub(super) fn split(signature: &str) -> Option<(&str, &str)> {
    if signature.is_empty() {
        return None;
    }
    let rest = complete_type(signature.as_bytes(), 0, 0).ok()?;
    Some(signature.split_at(signature.len() - rest.len()))
}

/// The boundary on which values of a type begin, by the type's first letter.
pub const fn alignment(code: u8) -> usize {
    match code {
        b'n' | b'q' => 2,
        b'b' | b'i' | b'u' | b'h' | b's' | b'o' | b'a' => 4,
        b'x' | b't' | b'd' | b'(' | b'{' => 8,
        _ => 1,
    }
}

/// The bytes of every value of a type, where all values have the same number of them.
pub(super) const fn fixed_bytes(code: u8) -> Option<usize> {
    match code {
        b'y' => Some(1),
        b'n' | b'q' => Some(2),
        b'b' | b'i' | b'u' | b'h' => Some(4),
        b'x' | b't' | b'd' => Some(8),
        _ => None,
    }
}

/// Is every value of this complete type a number or a boolean, so that an array of it has a multiple of its size?
pub fn is_fixed(complete_type: &str) -> bool {
    matches!(complete_type.as_bytes(), [code] if fixed_bytes(*code).is_some())
}

/// Is this letter a complete type?
pub(super) const fn is_one_type(code: u8) -> bool {
    is_basic(code) || code == b'v'
}

const fn is_basic(code: u8) -> bool {
    fixed_bytes(code).is_some() || matches!(code, b's' | b'o' | b'g')
}

/// What follows the first complete type.
fn complete_type(types: &[u8], arrays: u32, structs: u32) -> Result<&[u8], &'static str> {
    let (&code, rest) = types.split_first().ok_or("a signature ends inside a type")?;
    match code {
        b'v' => Ok(rest),
        _ if is_basic(code) => Ok(rest),
        b'a' if arrays == NESTING_MAX => Err("more than 32 arrays are inside each other"),
        b'a' if rest.first() == Some(&b'{') => dict_entry(&rest[1..], arrays + 1, structs),
        b'a' => complete_type(rest, arrays + 1, structs),
        b'(' if structs == NESTING_MAX => Err("more than 32 structs are inside each other"),
        b'(' if rest.first() == Some(&b')') => Err("a struct has no fields"),
        b'(' => {
            let mut rest = rest;
            while rest.first() != Some(&b')') {
                rest = complete_type(rest, arrays, structs + 1)?;
            }
            Ok(&rest[1..])
        }
        b'{' => Err("a dict entry is not the element of an array"),
        _ => Err("a signature has a letter that is not a type"),
    }
}

fn dict_entry(types: &[u8], arrays: u32, structs: u32) -> Result<&[u8], &'static str> {
    if structs == NESTING_MAX {
        return Err("more than 32 structs are inside each other");
    }
    match types.split_first() {
        Some((key, value)) if is_basic(*key) => {
            let rest = complete_type(value, arrays, structs + 1)?;
            rest.strip_prefix(b"}").ok_or("a dict entry has not exactly two fields")
        }
        _ => Err("the key of a dict entry is not of a basic type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_types_are_split_where_they_end() {
        let split: Vec<_> = types("a{sv}(ib)aas").collect();
        assert_eq!(split, ["a{sv}", "(ib)", "aas"]);
    }

    #[test]
    fn signatures_that_are_not_valid_are_refused_with_their_rule() {
        for (signature, expected) in [
            ("(", "a signature ends inside a type"),
            ("a", "a signature ends inside a type"),
            ("()", "a struct has no fields"),
            ("{sv}", "a dict entry is not the element of an array"),
            ("a{vs}", "the key of a dict entry is not of a basic type"),
            ("a{", "the key of a dict entry is not of a basic type"),
            ("a{svs}", "a dict entry has not exactly two fields"),
            ("z", "a signature has a letter that is not a type"),
            ("y)", "a signature has a letter that is not a type"),
        ] {
            assert_eq!(check(signature), Err(expected), "{signature}");
        }
        for signature in ["", "ybnqiuxtdsogvh", "a(yv)a{gv}", "a{s(ya{uv})}", "(((y)))", "aaay"] {
            assert_eq!(check(signature), Ok(()), "{signature}");
        }
        assert_eq!(types("ya{sv}(").collect::<Vec<_>>(), ["y", "a{sv}"]);
        assert_eq!(types("").count(), 0);
    }

    #[test]
    fn types_have_their_sizes_and_boundaries() {
        for (code, alignment_bytes, fixed) in [
            (b'y', 1, Some(1)),
            (b'n', 2, Some(2)),
            (b'q', 2, Some(2)),
            (b'b', 4, Some(4)),
            (b'i', 4, Some(4)),
            (b'u', 4, Some(4)),
            (b'h', 4, Some(4)),
            (b'x', 8, Some(8)),
            (b't', 8, Some(8)),
            (b'd', 8, Some(8)),
            (b's', 4, None),
            (b'o', 4, None),
            (b'a', 4, None),
            (b'g', 1, None),
            (b'v', 1, None),
            (b'(', 8, None),
            (b'{', 8, None),
        ] {
            let letter = char::from(code);
            assert_eq!((alignment(code), fixed_bytes(code)), (alignment_bytes, fixed), "{letter}");
            assert_eq!(is_fixed(&letter.to_string()), fixed.is_some(), "{letter}");
            assert_eq!(is_one_type(code), !b"a({".contains(&code), "{letter}");
        }
        assert!(!is_fixed("ay") && !is_fixed("uu") && !is_fixed(""));
    }

    #[test]
    fn limits_of_nesting_are_those_of_the_specification() {
        let arrays = |count| "a".repeat(count) + "y";
        assert!(check(&arrays(32)).is_ok() && check(&arrays(33)).is_err());
        let structs = |count| "(".repeat(count) + "y" + &")".repeat(count);
        assert!(check(&structs(32)).is_ok() && check(&structs(33)).is_err());
        // A dictionary entry counts as a struct.
        let entries = |count| "(".repeat(count) + "a{yy}" + &")".repeat(count);
        assert!(check(&entries(31)).is_ok() && check(&entries(32)).is_err());
        let in_entries = |count| "a{y".repeat(count) + "y" + &"}".repeat(count);
        assert!(check(&in_entries(32)).is_ok() && check(&in_entries(33)).is_err());
        let arrays_in_entry = |count| format!("a{{y{}}}", arrays(count));
        assert!(check(&arrays_in_entry(31)).is_ok() && check(&arrays_in_entry(32)).is_err());
        // Neighbors are not inside each other.
        assert!(check(&"(y)".repeat(40)).is_ok() && check(&"ay".repeat(40)).is_ok());
        assert!(
            check(&format!("a({})", arrays(31))).is_ok() && check(&format!("a({})", arrays(32))).is_err()
        );
        assert!(check(&"y".repeat(255)).is_ok() && check(&"y".repeat(256)).is_err());
    }
}
