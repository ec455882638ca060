//! Which strings are names: of connections, interfaces, members, errors, objects.

use super::NAME_BYTES_MAX;

/// A unique name such as `:1.42` or a well-known name.
pub fn is_bus_name(name: &str) -> bool {
    is_unique(name) || is_well_known(name)
}

/// A unique name: a colon, then elements, which may start with a digit. The specification asks for two at least; the reference
/// implementation takes fewer, and a dot before the first, too. Programs may have such names in their messages and match rules.
pub fn is_unique(name: &str) -> bool {
    name.strip_prefix(':').is_some_and(|rest| {
        let elements_only = rest.strip_prefix('.').unwrap_or(rest);
        name.len() <= NAME_BYTES_MAX
            && (rest.is_empty() || elements::<b'.'>(elements_only, WORD | HYPHEN, true).is_some())
    })
}

/// A well-known name such as `org.freedesktop.DBus`: at least two elements.
pub fn is_well_known(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && elements::<b'.'>(name, WORD | HYPHEN, false).is_some_and(|count| count > 1)
}

/// What `arg0namespace` takes: a name, or the first elements of a well-known one.
pub fn is_namespace(name: &str) -> bool {
    is_unique(name) || name.len() <= NAME_BYTES_MAX && elements::<b'.'>(name, WORD | HYPHEN, false).is_some()
}

/// An interface name, or the name of an error: at least two elements without hyphens.
pub fn is_interface(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && elements::<b'.'>(name, WORD, false).is_some_and(|count| count > 1)
}

/// The name of a method or a signal.
pub fn is_member(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && elements::<b'.'>(name, WORD, false) == Some(1)
}

/// An object path. The specification sets no limit but that of a message.
pub fn is_path(path: &str) -> bool {
    path == "/" || path.strip_prefix('/').is_some_and(|rest| elements::<b'/'>(rest, WORD, true).is_some())
}

/// Do these bytes go on with an object path that is longer than `/`, behind this byte of it or at its start?
pub(super) fn continues_path(before: Option<u8>, part: &[u8]) -> bool {
    let mut last = before;
    part.iter().all(|&byte| {
        let follows = if byte == b'/' {
            last != Some(b'/')
        } else {
            last.is_some() && CLASSES[usize::from(byte)] & WORD != 0
        };
        last = Some(byte);
        follows
    })
}

/// Letters, digits and the underscore.
const WORD: u8 = 1;
const HYPHEN: u8 = 2;
const DIGIT: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let character = byte as u8;
        if character.is_ascii_alphanumeric() || character == b'_' {
            classes[byte] |= WORD;
        }
        if character.is_ascii_digit() {
            classes[byte] |= DIGIT;
        }
        if character == b'-' {
            classes[byte] |= HYPHEN;
        }
        byte += 1;
    }
    classes
};

/// How many elements a name has; nothing if it is not one.
fn elements<const SEPARATOR: u8>(name: &str, allowed: u8, may_start_with_digit: bool) -> Option<usize> {
    let not_first = if may_start_with_digit { 0 } else { DIGIT };
    let (mut count, mut is_start) = (1, true);
    for &byte in name.as_bytes() {
        let class = CLASSES[usize::from(byte)];
        if class & allowed != 0 && !(is_start && class & not_first != 0) {
            is_start = false;
        } else if byte == SEPARATOR && !is_start {
            count += 1;
            is_start = true;
        } else {
            return None;
        }
    }
    if is_start { None } else { Some(count) }
}

/// Is a path the named one, or below it?
pub fn is_below_path(path: &str, namespace: &str) -> bool {
    namespace == "/" || is_below(path, namespace, '/')
}

/// Is a name the namespace, or below it?
pub fn is_below_name(name: &str, namespace: &str) -> bool {
    is_below(name, namespace, '.')
}

fn is_below(text: &str, namespace: &str, separator: char) -> bool {
    text.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_kind_are_told_apart() {
        assert!([":1.0", ":not.active.yet", ":1", ":", ":.a", ":-"].into_iter().all(is_unique));
        assert!(!["1.0", "", ":.", ":a.", ":a..b", ":..a", ":a b", "::"].into_iter().any(is_unique));
        assert!(
            is_well_known("a.b-c") && !is_well_known("a") && !is_well_known("a.1b") && !is_well_known("a..b")
        );
        assert!(is_interface("a.b_c") && !is_interface("a.b-c") && !is_interface(".a.b"));
        assert!(is_member("Get") && !is_member("a.b") && !is_member("9") && !is_member(""));
        assert!(is_path("/") && is_path("/a/0") && !is_path("/a/") && !is_path("//") && !is_path("a"));
        assert!(is_namespace("com") && is_namespace(":1") && !is_namespace("") && !is_namespace("1"));
        assert!(!is_member(&"m".repeat(256)) && is_member(&"m".repeat(255)));
    }

    #[test]
    fn a_namespace_ends_at_an_element() {
        assert!(is_below_path("/a/b", "/a") && is_below_path("/a", "/a") && is_below_path("/a", "/"));
        assert!(!is_below_path("/ab", "/a") && !is_below_name("com.ab", "com.a"));
    }
}
