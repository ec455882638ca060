//! Credentials that were typed stay out of records and out of what is said.
//!
//! A record keeps the command line, and goes where its owner sends it. What looks like a secret there (the password of an address, the value of
//! a name such as `token` or `AWS_SECRET_ACCESS_KEY`) is replaced. It is a net and no wall: credentials belong into the environment.

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// Parts of names whose values are secrets, in lower case.
const SECRET: [&str; 8] =
    ["password", "passwd", "secret", "token", "credential", "signature", "api-key", "apikey"];
/// Whole names, likewise.
const SECRET_WHOLE: [&str; 7] = ["key", "sig", "auth", "pwd", "access-key", "account-key", "authorization"];

/// Does a name say that its value is a secret?
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase().replace('_', "-");
    let is_key = || name.ends_with("-key") || name.ends_with("-key-id");
    SECRET.iter().any(|part| name.contains(part)) || SECRET_WHOLE.contains(&name.as_str()) || is_key()
}

/// Does a text hold a secret, as far as that can be seen?
pub fn has_secret(text: &str) -> bool {
    word(text) != text
}

/// A word of a command line without what is secret in it.
pub fn word(typed: &str) -> String {
    let mut parts = Vec::new();
    // Settings in one word are separated so, in addresses and in lists of ours.
    for part in typed.split_inclusive(['?', '&', ',', ';', ' ']) {
        let (part, end) = match part.strip_suffix(['?', '&', ',', ';', ' ']) {
            Some(inner) => part.split_at(inner.len()),
            None => (part, ""),
        };
        parts.push(without_value(&without_password(part)) + end);
    }
    parts.concat()
}

/// `--password VALUE` and its like are two words: a command line without what is secret in it.
pub fn words(typed: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_value = false;
    typed
        .map(|text| {
            let is_option = text.starts_with("--") && !text.contains('=');
            let hides = std::mem::replace(&mut is_value, is_option && is_secret_name(&text[2..]));
            if hides { HIDDEN.into() } else { word(&text) }
        })
        .collect()
}

/// `scheme://user:password@host` without user and password.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}{}", &rest[authority.len()..]),
        None => text.into(),
    }
}

/// `NAME=VALUE`, `env:NAME=VALUE` or `--label NAME=VALUE` without the value of such a name.
fn without_value(text: &str) -> String {
    let Some((before, value)) = text.split_once('=') else { return text.into() };
    let name = before.rsplit([':', '/']).next().unwrap_or(before).trim_start_matches('-');
    if is_secret_name(name) {
        return format!("{before}={HIDDEN}");
    }
    format!("{before}={}", without_value(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_replaced_and_what_is_not_stays_as_it_was() {
        for (typed, kept) in [
            ("s3://me:pass@bucket/path", "s3://***@bucket/path"),
            ("https://x.example/c?sv=1&sig=abc%3D&se=2", "https://x.example/c?sv=1&sig=***&se=2"),
            ("env:AWS_SECRET_ACCESS_KEY=abc", "env:AWS_SECRET_ACCESS_KEY=***"),
            ("env:AWS_ACCESS_KEY_ID=abc", "env:AWS_ACCESS_KEY_ID=***"),
            ("--label=db-password=x,rack=7", "--label=db-password=***,rack=7"),
            ("X-Amz-Signature=0a", "X-Amz-Signature=***"),
        ] {
            assert_eq!(word(typed), kept);
            assert!(has_secret(typed));
        }
        for same in [
            "roundtrip/pipe/4096/same-cpu/wait=poll",
            "--set=touch=none,all",
            "env:MALLOC_ARENA_MAX=1",
            "s3://bucket/a@b?x=1",
            "rack=r7",
            "monkey=1",
        ] {
            assert_eq!(word(same), same);
        }
    }

    #[test]
    fn the_word_behind_an_option_of_such_a_name_is_replaced_too() {
        let typed = ["push", "--token", "abc", "--label", "a=b"].map(String::from);
        assert_eq!(words(typed.into_iter()), ["push", "--token", "***", "--label", "a=b"]);
    }
}
