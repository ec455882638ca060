//! When text is in ASCII alone.

/// Is a locale of another encoding than UTF-8 set? `variable` reads the environment. Where none is set at all, as in containers, terminals read
/// UTF-8 all the same.
pub fn is_of_the_locale(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let is_utf8 = |locale: String| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    set.is_some_and(|locale| !is_utf8(locale))
}

/// Does this process show ASCII alone: where `--ascii` was typed, or by its locale?
pub fn is_wanted(is_typed: bool) -> bool {
    is_typed || is_of_the_locale(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_of_another_encoding_asks_for_ascii_and_none_at_all_does_not() {
        let with = |set: &[(&str, &str)]| {
            let of =
                |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            is_of_the_locale(of)
        };
        assert!(with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]) && with(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!with(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]) && !with(&[]));
    }
}
