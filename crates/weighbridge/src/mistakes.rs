//! What was typed wrongly, in one sentence that says what and what to do.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{args, nearest};

/// The sentence, without a full stop.
pub fn sentence(error: &Error) -> String {
    let mistake = Mistake(error);
    let argument = |kind| mistake.argument(kind);
    let complete = match error.kind() {
        ErrorKind::InvalidValue => mistake.invalid_value(),
        ErrorKind::ValueValidation => mistake.refused_value(),
        _ => None,
    };
    if let Some(complete) = complete {
        return complete;
    }
    let what = match error.kind() {
        ErrorKind::UnknownArgument => mistake.unknown_argument(),
        ErrorKind::InvalidSubcommand => {
            mistake.unknown("command", ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::MissingRequiredArgument => {
            argument(ContextKind::InvalidArg).map(|missing| format!("{missing} is missing"))
        }
        ErrorKind::ArgumentConflict => {
            let both = argument(ContextKind::InvalidArg).zip(argument(ContextKind::PriorArg));
            both.map(|(one, other)| {
                if one == other {
                    format!("{one} is given twice")
                } else {
                    format!("{one} and {other} exclude each other")
                }
            })
        }
        _ => None,
    };
    format!("{}; see `{} --help`", what.unwrap_or_else(|| mistake.in_its_own_words()), mistake.command())
}

/// The command closest to a word, by the measure that is used for names of cases: the parser's own finds no `run`
/// for `rn`.
fn nearest_command(typed: &str) -> Option<String> {
    let program = args::command();
    let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
    nearest::words(typed, &known).into_iter().next()
}

struct Mistake<'a>(&'a Error);

impl Mistake<'_> {
    /// What is known of a kind, as a list in words.
    fn word(&self, kind: ContextKind) -> Option<String> {
        match self.0.get(kind)? {
            ContextValue::String(word) => Some(word.clone()),
            ContextValue::Strings(words) if !words.is_empty() => Some(words.join(", ")),
            _ => None,
        }
    }

    /// An argument without what stands for its value: `--suite`, and `<RECORD>...` where it has no name.
    fn argument(&self, kind: ContextKind) -> Option<String> {
        let argument = self.word(kind)?;
        let name = argument.split(' ').next().filter(|name| name.starts_with('-'));
        Some(name.map_or_else(|| argument.clone(), String::from))
    }

    fn unknown_argument(&self) -> Option<String> {
        let typed = self.word(ContextKind::InvalidArg)?;
        if !typed.starts_with('-') {
            return Some(format!("`{typed}` is one word too many"));
        }
        self.unknown("option", ContextKind::InvalidArg, ContextKind::SuggestedArg)
    }

    fn invalid_value(&self) -> Option<String> {
        let argument = self.argument(ContextKind::InvalidArg)?;
        let value = self.word(ContextKind::InvalidValue)?;
        let valid = self.word(ContextKind::ValidValue);
        let near = self.word(ContextKind::SuggestedValue);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Some(match (valid, value.is_empty()) {
            (None, true) => format!("{argument} needs a value"),
            (Some(valid), true) => format!("{argument} takes {valid}"),
            (None, false) => format!("{argument} does not take `{value}`{near}"),
            (Some(valid), false) => format!("{argument} takes {valid}, not `{value}`{near}"),
        })
    }

    fn refused_value(&self) -> Option<String> {
        use std::error::Error as _;
        let argument = self.argument(ContextKind::InvalidArg)?;
        let why = self.0.source()?;
        let value = self.word(ContextKind::InvalidValue).unwrap_or_default();
        if why.is::<std::num::ParseIntError>() {
            return Some(format!("{argument} takes a number, not `{value}`"));
        }
        let why = why.to_string();
        // The parser of numbers words its limits as a program would.
        let limits =
            why.split_once(" is not in ").and_then(|(typed, range)| Some((typed, range.split_once("..=")?)));
        Some(match limits {
            Some((typed, (least, most))) => format!("{argument} takes {least} to {most}, not `{typed}`"),
            None => format!("{argument}: {why}"),
        })
    }

    fn unknown(&self, what: &str, invalid: ContextKind, suggested: ContextKind) -> Option<String> {
        let typed = self.word(invalid)?;
        let near = self.word(suggested);
        let near = near.or_else(|| (what == "command").then(|| nearest_command(&typed)).flatten());
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Some(format!("there is no {what} `{typed}`{near}"))
    }

    /// The first line of what the parser would print.
    fn in_its_own_words(&self) -> String {
        let text = self.0.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':').into()
    }

    /// The command as typed, from its usage line: `Usage: weighbridge run [OPTIONS]` or the same of a part of it.
    fn command(&self) -> String {
        let Some(ContextValue::StyledStr(usage)) = self.0.get(ContextKind::Usage) else {
            return "weighbridge".into();
        };
        let usage = usage.to_string();
        let words = usage.split_whitespace().skip_while(|word| *word != "weighbridge");
        words.take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under whatever name the program was started: a link, a copy. What else can be mistaken is in tests/it/mistakes.rs.
    #[test]
    fn the_help_is_named_by_the_name_of_the_program() {
        for name in ["/tmp/wb", "weighbridge", "./weighbridge-1.2"] {
            let typed = [name, "run", "--budgt", "3s"];
            let said = sentence(&args::command().try_get_matches_from(typed).unwrap_err());
            assert!(said.ends_with("; see `weighbridge run --help`"), "{said}");
        }
    }
}
