//! The question: what was typed, what a user answers, and defaults for the rest.

use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::str::FromStr;

use weighbridge_record::Property;
use weighbridge_report::Question;

use crate::advise_args::AdviseArgs;
use crate::{Failure, output, values};

const PAYLOAD_BYTES: u64 = 64;
const RECEIVERS: u64 = 1;
const RATE: f64 = 1000.0;

/// The properties that are asked for, with the words of the question; the others have options only.
const ASKED: [(Property, &str); 4] = [
    (Property::OtherUsers, "Are the processes of users that do not trust each other?"),
    (Property::Pollable, "Must the end that waits have a descriptor for epoll?"),
    (Property::SurvivesKill, "Must the others go on when one is killed?"),
    (Property::AcrossContainers, "Are they in several containers?"),
];

/// What is asked of `cpus` CPUs.
pub fn question(args: &AdviseArgs, may_ask: bool, cpus: usize) -> Result<Question, Failure> {
    if may_ask {
        let mut asker = Asker { from: io::stdin().lock(), to: io::stderr() };
        return asker.question(args, cpus);
    }
    let question = with_defaults(args, cpus);
    let taken: Vec<String> = [
        args.payload.is_none().then(|| format!("--payload {PAYLOAD_BYTES}")),
        args.receivers.is_none().then(|| format!("--receivers {RECEIVERS}")),
        args.rate.is_none().then(|| format!("--rate {RATE}")),
        args.cpus.is_none().then(|| format!("--cpus {}", default_cpus(cpus))),
        args.users.is_none().then(|| "--users same".into()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !taken.is_empty() && !args.quiet {
        output::say(&format!("by default: {}", taken.join(" ")));
    }
    Ok(question)
}

fn default_cpus(cpus: usize) -> u8 {
    if cpus < 2 { 1 } else { 2 }
}

fn with_defaults(args: &AdviseArgs, cpus: usize) -> Question {
    let receivers = args.receivers.unwrap_or(RECEIVERS);
    let pattern = match receivers {
        1 if args.one_way => "stream",
        1 => "roundtrip",
        _ => "fan-out",
    };
    Question {
        pattern: pattern.into(),
        placement: place(args.cpus.unwrap_or(default_cpus(cpus))).into(),
        payload_bytes: args.payload.unwrap_or(PAYLOAD_BYTES),
        receivers,
        rate: args.rate.unwrap_or(RATE),
        demands: args.demands(),
        cpu_budget: args.cpu_budget,
        among: args.among.clone(),
    }
}

fn place(cpus: u8) -> &'static str {
    if cpus == 1 { "same-cpu" } else { "two-cpus" }
}

/// Asks one line for each thing that was not typed.
struct Asker<R, W> {
    from: R,
    to: W,
}

impl<R: BufRead, W: Write> Asker<R, W> {
    fn question(&mut self, args: &AdviseArgs, cpus: usize) -> Result<Question, Failure> {
        let mut question = with_defaults(args, cpus);
        if args.payload.is_none() {
            question.payload_bytes = self.ask("Bytes of a message?", PAYLOAD_BYTES, values::size)?;
        }
        if args.receivers.is_none() {
            question.receivers = self.ask("How many receive each message?", RECEIVERS, at_least_one)?;
            if question.receivers > 1 {
                question.pattern = "fan-out".into();
            }
        }
        if args.rate.is_none() {
            question.rate = self.ask("Messages in a second?", RATE, values::per_second)?;
        }
        if args.cpus.is_none() {
            let cpus = self.ask("On one CPU or on two?", default_cpus(cpus), |text| match text {
                "1" => Ok(1),
                "2" => Ok(2),
                _ => Err(format!("`{text}` is neither 1 nor 2")),
            })?;
            question.placement = place(cpus).into();
        }
        for (property, words) in ASKED {
            let is_said = question.demands.contains(&property)
                || (property == Property::OtherUsers && args.users.is_some());
            if !is_said && self.ask(words, YesNo(false), YesNo::from_str)?.0 {
                question.demands.push(property);
            }
        }
        question.demands.sort_unstable();
        if args.cpu_budget.is_none() {
            let none = "any".to_owned();
            let budget = self.ask("The most of a CPU, as in 10%?", none.clone(), |text| {
                values::cpu_share(text).map(|_| text.to_owned())
            })?;
            question.cpu_budget =
                (budget != none).then(|| values::cpu_share(&budget)).transpose().map_err(Failure::new)?;
        }
        Ok(question)
    }

    /// The answer, asked for again until it can be read. The default at an empty line, and at the end of the input.
    fn ask<T: Display>(
        &mut self,
        words: &str,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        loop {
            let mut line = String::new();
            let asked = write!(self.to, "{words} [{default}] ").and_then(|()| self.to.flush());
            asked
                .and_then(|()| self.from.read_line(&mut line))
                .map_err(|error| Failure::new(format!("nothing can be asked: {error}; give the options")))?;
            match line.trim() {
                "" => return Ok(default),
                text => match read(text) {
                    Ok(value) => return Ok(value),
                    Err(why) => _ = writeln!(self.to, "{why}"),
                },
            }
        }
    }
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err(format!("`{text}` is not a whole number of at least 1")),
    }
}

#[derive(Clone, Copy)]
struct YesNo(bool);

impl Display for YesNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0 { "y" } else { "n" })
    }
}

impl FromStr for YesNo {
    type Err = String;

    fn from_str(text: &str) -> Result<YesNo, String> {
        match text {
            "y" | "yes" => Ok(YesNo(true)),
            "n" | "no" => Ok(YesNo(false)),
            _ => Err(format!("`{text}` is neither y nor n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn args(typed: &str) -> AdviseArgs {
        crate::register();
        let command = AdviseArgs::augment_args(clap::Command::new("advise").no_binary_name(true));
        AdviseArgs::from_arg_matches(&command.get_matches_from(typed.split_whitespace())).unwrap()
    }

    fn asked(typed: &str, answers: &str) -> (Question, String) {
        let mut to = Vec::new();
        let question = Asker { from: answers.as_bytes(), to: &mut to }.question(&args(typed), 2).unwrap();
        (question, String::from_utf8(to).unwrap())
    }

    #[test]
    fn what_was_not_typed_is_asked_in_a_line_each_and_an_empty_one_is_the_default() {
        let (question, said) = asked("--payload 500 --users same", "8\n20k\n\ny\n\n\n10%\n");
        assert_eq!((question.pattern.as_str(), question.receivers, question.rate), ("fan-out", 8, 20_000.0));
        assert_eq!(question.demands, [Property::Pollable]);
        assert_eq!((question.cpu_budget, question.placement.as_str()), (Some(0.1), "two-cpus"));
        assert_eq!(said.matches('?').count(), 7, "{said}");
        assert!(!said.contains("Bytes") && !said.contains("users"), "{said}");
    }

    #[test]
    fn what_cannot_be_read_is_asked_again_and_the_end_of_the_input_takes_defaults() {
        let (question, said) = asked("", "many\n500\n");
        assert!(said.contains("`many`") && said.matches("Bytes of a message?").count() == 2, "{said}");
        let expected = Question { payload_bytes: 500, ..with_defaults(&args(""), 2) };
        assert_eq!(question, expected);
    }

    #[test]
    fn one_receiver_is_a_round_trip_or_a_stream_and_several_are_a_fan_out() {
        let pattern = |typed: &str| with_defaults(&args(typed), 1).pattern;
        assert_eq!(
            [pattern(""), pattern("--one-way"), pattern("--receivers 2 --one-way")],
            ["roundtrip", "stream", "fan-out"]
        );
        assert_eq!(with_defaults(&args(""), 1).placement, "same-cpu");
    }
}
