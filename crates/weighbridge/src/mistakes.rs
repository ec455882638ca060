//! What was typed wrongly, in one sentence that says what and what to do.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{args, nearest};

/// The sentence, without a full stop.
pub fn sentence(error: &Error) -> String {
    let mistake = Mistake(error);
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
            mistake.argument(ContextKind::InvalidArg).map(|missing| format!("{missing} is missing"))
        }
        ErrorKind::ArgumentConflict => mistake
            .argument(ContextKind::InvalidArg)
            .zip(mistake.argument(ContextKind::PriorArg))
            .map(|(one, other)| one_of(&one, &other)),
        _ => None,
    };
    format!("{}; see `{} --help`", what.unwrap_or_else(|| mistake.in_its_own_words()), mistake.command())
}

fn one_of(one: &str, other: &str) -> String {
    if one == other {
        format!("{one} is given twice")
    } else {
        format!("{one} and {other} exclude each other")
    }
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
        let takes = valid.map_or(String::new(), |valid| format!(" takes {valid}"));
        if value.is_empty() {
            return Some(if takes.is_empty() {
                format!("{argument} needs a value")
            } else {
                format!("{argument}{takes}")
            });
        }
        let near = self.word(ContextKind::SuggestedValue);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Some(if takes.is_empty() {
            format!("{argument} does not take `{value}`{near}")
        } else {
            format!("{argument}{takes}, not `{value}`{near}")
        })
    }

    fn refused_value(&self) -> Option<String> {
        use std::error::Error as _;
        let argument = self.argument(ContextKind::InvalidArg)?;
        let why = self.0.source()?.to_string();
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

    fn typed(args: &[&str]) -> String {
        let words = std::iter::once("weighbridge").chain(args.iter().copied());
        sentence(&crate::args::command().try_get_matches_from(words).unwrap_err())
    }

    #[test]
    fn a_word_that_is_not_among_those_there_are_is_named_with_what_there_is() {
        let said = typed(&["run", "--suite", "quik"]);
        assert!(said.starts_with("--suite takes quick, "), "{said}");
        assert!(said.contains(", not `quik`; did you mean `quick`?"), "{said}");
    }

    #[test]
    fn a_value_that_has_no_meaning_is_refused_with_the_reason() {
        let said = typed(&["run", "--sizes", "1,4Q"]);
        assert!(said.starts_with("--sizes: `4Q` is not a size; "), "{said}");
    }

    #[test]
    fn a_number_out_of_its_limits_is_refused_with_the_limits() {
        assert_eq!(typed(&["run", "--max-runs", "41"]), "--max-runs takes 1 to 40, not `41`");
    }

    /// Under whatever name the program was started: a link, a copy.
    #[test]
    fn the_help_is_named_by_the_name_of_the_program() {
        for name in ["/tmp/wb", "weighbridge", "./weighbridge-1.2"] {
            let error =
                crate::args::command().try_get_matches_from([name, "run", "--budgt", "3s"]).unwrap_err();
            assert!(sentence(&error).ends_with("; see `weighbridge run --help`"), "{}", sentence(&error));
        }
    }

    #[test]
    fn options_and_commands_that_do_not_exist_have_their_neighbors_named() {
        assert!(
            typed(&["run", "--sizs", "1"])
                .starts_with("there is no option `--sizs`; did you mean `--sizes`?")
        );
        assert!(typed(&["rn"]).starts_with("there is no command `rn`; did you mean `run`?"));
        assert!(typed(&["zzz"]).starts_with("there is no command `zzz`; see"));
    }

    #[test]
    fn a_value_that_is_missing_is_asked_for() {
        assert_eq!(typed(&["run", "--budget"]), "--budget needs a value");
        assert_eq!(typed(&["list", "--format"]), "--format takes text, json");
    }

    #[test]
    fn every_other_mistake_is_one_line_that_names_the_help() {
        for args in
            [&["run", "-x"][..], &["env", "pipe"], &["completions"], &["run", "--seed", "1", "--seed", "2"]]
        {
            let said = typed(args);
            assert!(!said.contains('\n') && said.contains("; see `weighbridge"), "{args:?}: {said}");
        }
    }
}
