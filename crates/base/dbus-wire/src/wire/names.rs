//! Which strings are names: of connections, interfaces, members, errors, objects.

use super::NAME_BYTES_MAX;

/// A unique name such as `:1.42` or a well-known name.
pub fn is_bus_name(name: &str) -> bool {
    is_unique(name) || is_well_known(name)
}

/// A unique name: a colon, then at least two elements, which may start with a digit.
pub fn is_unique(name: &str) -> bool {
    name.strip_prefix(':').is_some_and(|rest| {
        name.len() <= NAME_BYTES_MAX
            && elements::<b'.'>(rest, WORD | HYPHEN, true).is_some_and(|count| count > 1)
    })
}

/// A well-known name such as `org.freedesktop.DBus`: at least two elements.
pub fn is_well_known(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && elements::<b'.'>(name, WORD | HYPHEN, false).is_some_and(|count| count > 1)
}

/// What `arg0namespace` takes: a well-known name, or the first elements of one.
pub fn is_namespace(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && elements::<b'.'>(name, WORD | HYPHEN, false).is_some()
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
        assert!(is_unique(":1.0") && is_unique(":not.active.yet") && !is_unique(":1") && !is_unique("1.0"));
        assert!(
            is_well_known("a.b-c") && !is_well_known("a") && !is_well_known("a.1b") && !is_well_known("a..b")
        );
        assert!(is_interface("a.b_c") && !is_interface("a.b-c") && !is_interface(".a.b"));
        assert!(is_member("Get") && !is_member("a.b") && !is_member("9") && !is_member(""));
        assert!(is_path("/") && is_path("/a/0") && !is_path("/a/") && !is_path("//") && !is_path("a"));
        assert!(is_namespace("com") && !is_namespace(""));
        assert!(is_bus_name(":1.0") && is_bus_name("a.b") && !is_bus_name("a"));
    }

    #[test]
    fn names_have_at_most_255_bytes_and_paths_any_number() {
        type IsValid = fn(&str) -> bool;
        let kinds: [(IsValid, &str); 6] = [
            (is_unique, ":1."),
            (is_well_known, "a."),
            (is_bus_name, "a."),
            (is_namespace, ""),
            (is_interface, "a."),
            (is_member, ""),
        ];
        for (index, (is_valid, start)) in kinds.into_iter().enumerate() {
            let long = |bytes: usize| start.to_owned() + &"m".repeat(bytes - start.len());
            assert!(is_valid(&long(255)) && !is_valid(&long(256)), "{index}");
        }
        assert!(is_path(&format!("/{}", "m".repeat(256))));
    }

    #[test]
    fn each_kind_has_its_characters() {
        for (name, unique, well_known, interface, member) in [
            ("a.b", false, true, true, false),
            ("a-b.c", false, true, false, false),
            ("a_b.Z9", false, true, true, false),
            ("a.9b", false, false, false, false),
            (":1.9b", true, false, false, false),
            (":1-x.9b", true, false, false, false),
            ("a.", false, false, false, false),
            ("", false, false, false, false),
            ("_9", false, false, false, true),
            ("a-b", false, false, false, false),
            ("\u{e4}", false, false, false, false),
            ("a/b.c", false, false, false, false),
        ] {
            let found = [is_unique, is_well_known, is_interface, is_member].map(|is_valid| is_valid(name));
            assert_eq!(found, [unique, well_known, interface, member], "{name}");
        }
        for (path, is_valid) in
            [("/a_9/Z", true), ("/a-b", false), ("/a.b", false), ("", false), ("/a//b", false)]
        {
            assert_eq!(is_path(path), is_valid, "{path}");
        }
    }

    /// In front of the part stands nothing, a slash or a letter.
    #[test]
    fn a_part_continues_a_path() {
        for (part, at_start, after_slash, after_letter) in [
            ("/a/b", true, false, true),
            ("a/b", false, true, true),
            ("/", true, false, true),
            ("", true, true, true),
            ("a//b", false, false, false),
            ("a-b", false, false, false),
        ] {
            let found = [None, Some(b'/'), Some(b'a')].map(|before| continues_path(before, part.as_bytes()));
            assert_eq!(found, [at_start, after_slash, after_letter], "{part}");
        }
    }

    #[test]
    fn a_namespace_ends_at_an_element() {
        assert!(is_below_path("/a/b", "/a") && is_below_path("/a", "/a") && is_below_path("/a", "/"));
        assert!(!is_below_path("/ab", "/a") && !is_below_name("com.ab", "com.a"));
    }
}
