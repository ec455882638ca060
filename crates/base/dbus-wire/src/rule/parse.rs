//! Text to a rule.

use std::ops::Range;
use std::str::FromStr;

use super::{ARG_MAX, ArgMatch, MatchRule, PathMatch};
use crate::number::leading_integer;
use crate::wire::{Kind, names};

/// Most bytes of a rule. The reference implementation refuses longer ones; the specification names no limit.
pub const RULE_BYTES_MAX: usize = 1024;

/// One `key='value'` of a rule: the key, the value without quotes, and where the value stands in the text, quotes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// `sender`, `arg3path` …
    pub key: &'a str,
    /// The value.
    pub value: String,
    /// Bytes of the text that spell the value.
    pub at: Range<usize>,
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Splits the text of a rule. Neither keys nor values are checked. An empty key ends the rule, as in the reference implementation: `=` is the
/// rule without conditions. Fails if a part has no `=`, or a quote is not closed.
pub fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        at = text.len() - text[at..].trim_start_matches(BLANKS).len();
        if at == text.len() || text[at..].starts_with('=') {
            return Ok(parts);
        }
        let equals = text[at..].find('=').ok_or_else(|| format!("`{}` has no value", &text[at..]))?;
        let key = text[at..at + equals].trim_end_matches(BLANKS);
        if key.contains(BLANKS) {
            return Err(format!("`{key}` has no value"));
        }
        let start = at + equals + 1;
        let (value, end) = value(text, start)?;
        parts.push(Part { key, value, at: start..end });
        at = (end + 1).min(text.len());
    }
}

/// The value from `start` on, and its end. Between apostrophes all is literal; outside, a comma ends the value, and a backslash takes this
/// meaning from a comma or an apostrophe. It stays in the value but before an apostrophe.
fn value(text: &str, start: usize) -> Result<(String, usize), String> {
    let (mut value, mut quoted) = (String::new(), false);
    let mut letters = text[start..].char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => quoted = !quoted,
            ',' if !quoted => return Ok((value, start + at)),
            '\\' if !quoted => match letters.next() {
                Some((_, '\'')) => value.push('\''),
                Some((_, other)) => value.extend(['\\', other]),
                None => value.push('\\'),
            },
            _ => value.push(letter),
        }
    }
    if quoted { Err("a quote is not closed".to_owned()) } else { Ok((value, text.len())) }
}

impl FromStr for MatchRule {
    /// A sentence.
    type Err = String;

    fn from_str(text: &str) -> Result<MatchRule, String> {
        if text.len() > RULE_BYTES_MAX {
            return Err(format!("a rule of {} bytes is longer than {RULE_BYTES_MAX}", text.len()));
        }
        let mut rule = MatchRule::default();
        for Part { key, value, .. } in parts(text)? {
            match key {
                "type" => once(&mut rule.kind, key, kind(&value)?)?,
                "sender" => once(&mut rule.sender, key, checked(key, value, names::is_bus_name)?)?,
                "interface" => once(&mut rule.interface, key, checked(key, value, names::is_interface)?)?,
                "member" => once(&mut rule.member, key, checked(key, value, names::is_member)?)?,
                "path" | "path_namespace" => {
                    let path = checked(key, value, names::is_path)?;
                    let kind = if key == "path" { PathMatch::Exact } else { PathMatch::Namespace };
                    once_path(&mut rule.path, key, kind(path))?;
                }
                "destination" => once(&mut rule.destination, key, checked(key, value, names::is_bus_name)?)?,
                "eavesdrop" => {
                    // Given twice, the last counts: monitors put it behind the rules of their users.
                    let wanted = value.parse();
                    rule.eavesdrop =
                        wanted.map_err(|_| format!("eavesdrop is true or false, not `{value}`"))?;
                }
                _ => rule.add_arg(key, value)?,
            }
        }
        rule.args.sort_by_key(|(index, _)| *index);
        Ok(rule)
    }
}

impl MatchRule {
    fn add_arg(&mut self, key: &str, value: String) -> Result<(), String> {
        let unknown = || format!("`{key}` is not a key of a match rule");
        let (index, arg) = if key == "arg0namespace" {
            (0, ArgMatch::Namespace(checked(key, value, names::is_namespace)?))
        } else {
            let (index, suffix) = key.strip_prefix("arg").and_then(leading_integer).ok_or_else(unknown)?;
            let arg = match suffix {
                "" => ArgMatch::Text(value),
                "path" => ArgMatch::Path(value),
                _ => return Err(unknown()),
            };
            let index = u8::try_from(index).ok().filter(|index| *index <= ARG_MAX);
            (index.ok_or_else(|| format!("`{key}` is beyond argument {ARG_MAX}"))?, arg)
        };
        if self.args.iter().any(|(other, _)| *other == index) {
            return Err(format!("argument {index} is matched twice"));
        }
        self.args.push((index, arg));
        Ok(())
    }
}

fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        Some(_) => Err(format!("`{key}` is given twice")),
        None => Ok(()),
    }
}

fn once_path(place: &mut Option<PathMatch>, key: &str, value: PathMatch) -> Result<(), String> {
    match place {
        Some(before) if std::mem::discriminant(before) != std::mem::discriminant(&value) => {
            Err("`path` and `path_namespace` exclude each other".to_owned())
        }
        _ => once(place, key, value),
    }
}

fn checked(key: &str, value: String, is_valid: fn(&str) -> bool) -> Result<String, String> {
    if is_valid(&value) { Ok(value) } else { Err(format!("`{value}` is not valid for {key}")) }
}

fn kind(word: &str) -> Result<Kind, String> {
    let mut kinds = [Kind::MethodCall, Kind::MethodReturn, Kind::Error, Kind::Signal].into_iter();
    kinds.find(|kind| kind.word() == word).ok_or_else(|| format!("`{word}` is not a type of message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> MatchRule {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn quoting_follows_the_specification() {
        let value = |text: &str| parts(text).unwrap()[0].value.clone();
        assert_eq!(value(r"arg0=''\''',arg1='x'"), "'");
        assert_eq!(value(r"arg0='\',arg1='x'"), r"\");
        assert_eq!(value(r"arg0='a,b'"), "a,b");
        assert_eq!(value(r"arg0=a\b'c'd"), r"a\bcd");
        assert_eq!(value(r"arg0=a\,b,arg1='x'"), r"a\,b");
        assert_eq!(value(r"arg0=\\'a,'"), r"\\a,");
        assert_eq!(value(r"arg0=a\"), r"a\");
    }

    #[test]
    fn a_rule_that_was_printed_is_the_same_rule() {
        for text in [
            "",
            "type='signal',sender='org.a.B',interface='a.B',member='C',path='/x',arg0='it''s'",
            "path_namespace='/a/b',arg3path='/q/',arg63='',eavesdrop='true',destination=':1.4'",
            "arg0namespace='com.example', arg1='a,b=c'",
        ] {
            let parsed = rule(text);
            assert_eq!(rule(&parsed.to_string()), parsed, "{text}");
        }
    }

    #[test]
    fn rules_that_the_reference_implementation_takes_are_rules() {
        for (text, same) in [
            ("=", ""),
            (" \t=type='none'", ""),
            ("member='A',=,member='B'", "member='A'"),
            ("member='A', \r\n", "member='A'"),
            ("eavesdrop='true',eavesdrop='false'", ""),
            ("arg0x3f='a'", "arg63='a'"),
            ("arg010path='/a'", "arg8path='/a'"),
            ("arg+00=a", "arg0='a'"),
        ] {
            assert_eq!(rule(text), rule(same), "{text}");
        }
        for text in ["arg0namespace=':1'", "sender=':'", "destination=':.a'"] {
            rule(text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("type='signals'", "`signals` is not a type of message"),
            ("foo='1'", "`foo` is not a key of a match rule"),
            ("arg64='1'", "`arg64` is beyond argument 63"),
            ("arg='1'", "`arg` is not a key of a match rule"),
            ("arg08='1'", "`arg08` is not a key of a match rule"),
            ("arg0xpath='/'", "`arg0xpath` is not a key of a match rule"),
            ("arg00namespace='a'", "`arg00namespace` is not a key of a match rule"),
            ("arg99999999999999999999='1'", "`arg99999999999999999999` is not a key of a match rule"),
            ("\u{a0}=''", "`\u{a0}` is not a key of a match rule"),
            ("member='a',member='b'", "`member` is given twice"),
            ("path='/',path_namespace='/'", "`path` and `path_namespace` exclude each other"),
            ("arg0='a',arg0path='/a'", "argument 0 is matched twice"),
            ("interface='x'", "`x` is not valid for interface"),
            ("type='signal", "a quote is not closed"),
            ("type", "`type` has no value"),
            ("arg 0=''", "`arg 0` has no value"),
        ] {
            assert_eq!(text.parse::<MatchRule>().unwrap_err().to_string(), why, "{text}");
        }
    }
}
