//! What was typed wrongly, in one sentence that says what and what to do.

use std::io::{self, Write};

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Prints the help that was asked for, or what was typed wrongly in one sentence on standard error; the exit code, 0 or 2. `nearest_command` is
/// the command that may have been meant, for a word of which the parser knows none.
pub fn tell(error: &Error, program: &str, nearest_command: impl Fn(&str) -> Option<String>) -> u8 {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match error.kind() {
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand => {
            // A reader that has closed its end is no reason for another code.
            let _ = error.print();
            if error.use_stderr() { 2 } else { 0 }
        }
        _ => {
            let _ = writeln!(io::stderr(), "error: {}", sentence(error, program, nearest_command));
            2
        }
    }
}

/// The sentence, without a full stop, of a program of this name.
pub fn sentence(error: &Error, program: &str, nearest_command: impl Fn(&str) -> Option<String>) -> String {
    let mistake = Mistake { error, program };
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
            let near = mistake.word(ContextKind::InvalidSubcommand).and_then(|typed| nearest_command(&typed));
            mistake.unknown("command", ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand, near)
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

struct Mistake<'a> {
    error: &'a Error,
    program: &'a str,
}

impl Mistake<'_> {
    /// What is known of a kind, as a list in words.
    fn word(&self, kind: ContextKind) -> Option<String> {
        match self.error.get(kind)? {
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
        self.unknown("option", ContextKind::InvalidArg, ContextKind::SuggestedArg, None)
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
        let why = self.error.source()?;
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

    fn unknown(
        &self,
        what: &str,
        invalid: ContextKind,
        suggested: ContextKind,
        otherwise: Option<String>,
    ) -> Option<String> {
        let typed = self.word(invalid)?;
        let near = self.word(suggested).or(otherwise);
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        Some(format!("there is no {what} `{typed}`{near}"))
    }

    /// The first line of what the parser would print.
    fn in_its_own_words(&self) -> String {
        let text = self.error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':').into()
    }

    /// The command as typed, from its usage line: `Usage: weighbridge run [OPTIONS]` or the same of a part of it.
    fn command(&self) -> String {
        let Some(ContextValue::StyledStr(usage)) = self.error.get(ContextKind::Usage) else {
            return self.program.into();
        };
        let usage = usage.to_string();
        let words = usage.split_whitespace().skip_while(|word| *word != self.program);
        let is_of_command =
            |word: &&str| *word == self.program || word.chars().all(|c| c.is_ascii_lowercase());
        words.take_while(is_of_command).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, value_parser};

    use super::*;

    fn program() -> Command {
        let run = Command::new("run")
            .arg(Arg::new("budget").long("budget"))
            .arg(Arg::new("runs").long("runs").value_parser(value_parser!(u8)));
        Command::new("lab").bin_name("lab").subcommand_required(true).subcommand(run)
    }

    fn said(typed: &[&str]) -> String {
        let error = program().try_get_matches_from(typed).unwrap_err();
        sentence(&error, "lab", |typed| (typed == "rn").then(|| "run".into()))
    }

    /// Under whatever name the program was started: a link, a copy.
    #[test]
    fn a_mistake_is_one_sentence_with_a_way_out_whatever_the_program_was_started_as() {
        for name in ["/tmp/wb", "lab", "./lab-1.2"] {
            assert_eq!(
                said(&[name, "run", "--budgt", "3s"]),
                "there is no option `--budgt`; did you mean `--budget`?; see `lab run --help`"
            );
        }
        assert_eq!(said(&["lab", "rn"]), "there is no command `rn`; did you mean `run`?; see `lab --help`");
        assert_eq!(said(&["lab", "run", "--runs", "many"]), "--runs takes a number, not `many`");
        assert!(said(&["lab", "run", "more"]).starts_with("`more` is one word too many"));
        let error = Command::new("lab-record").try_get_matches_from(["lab-record", "more"]).unwrap_err();
        assert!(sentence(&error, "lab-record", |_| None).ends_with("; see `lab-record --help`"));
    }
}
