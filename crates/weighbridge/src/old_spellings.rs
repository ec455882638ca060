//! Names that have changed. An old one is refused with the new one, so that a script is corrected once and every record
//! speaks the same language.
//!
//! A rename on the command line, in case ids or among the values of an option is one line in [`RENAMED`].

/// What kind of word was renamed, so that a new meaning of an old word elsewhere is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a case id: a pattern, a mechanism, a placement, or an axis with its value.
    CasePart,
    /// The name of an axis.
    Axis,
    /// An option of a command, with its dashes.
    Option,
    /// A command.
    Command,
    /// A value of an option: a suite, a format.
    Value,
}

/// Every old spelling with the one that took its place.
const RENAMED: &[(Kind, &str, &str)] =
    &[(Kind::CasePart, "handoff", "pingpong"), (Kind::Option, "--against", "--baseline")];

/// `` `old` is now `new` ``, if the word is an old spelling of this kind.
pub fn now(kind: Kind, word: &str) -> Option<String> {
    let (_, old, new) = RENAMED.iter().find(|(known, old, _)| *known == kind && *old == word)?;
    Some(format!("`{old}` is now `{new}`"))
}

/// The same for a case id, or a glob on case ids: the first of its parts that has an old spelling.
pub fn in_case(word: &str) -> Option<String> {
    // Braces hold alternatives; each of them is a part too.
    word.split(['/', '{', '}', ',']).find_map(|part| {
        let axis = part.split_once('=').map(|(axis, _)| axis);
        now(Kind::CasePart, part).or_else(|| now(Kind::Axis, axis?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_lab::{axis, catalogue, placement};

    #[test]
    fn an_old_part_of_a_case_id_or_glob_is_answered_with_the_new_one() {
        let wanted = Some("`handoff` is now `pingpong`".to_owned());
        for word in ["handoff", "handoff/futex/0/two-cpus", "handoff/*", "*/handoff", "{handoff,solo}/*"] {
            assert_eq!(in_case(word), wanted, "{word}");
        }
        for word in ["pingpong/*", "hand*", "handoffs", "roundtrip/pipe/1/free/touch=none"] {
            assert_eq!(in_case(word), None, "{word}");
        }
    }

    /// Otherwise somebody would be sent from a name that exists, or to one that does not.
    #[test]
    fn no_old_spelling_is_in_use_and_every_new_one_is() {
        let program = crate::args::command();
        let commands: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        let options: Vec<String> = program
            .get_subcommands()
            .flat_map(|command| command.get_arguments().filter_map(|argument| argument.get_long()))
            .map(|long| format!("--{long}"))
            .collect();
        let parts: Vec<&str> = catalogue::patterns()
            .iter()
            .map(|pattern| pattern.id)
            .chain(catalogue::all().map(|target| target.id))
            .chain(placement::ALL.iter().map(|placement| placement.name))
            .collect();
        let axes: Vec<&str> = catalogue::all()
            .flat_map(|target| target.patterns.iter().flat_map(|pattern| target.axes_in(pattern)))
            .chain(axis::COMMON.iter().copied())
            .map(|axis| axis.name)
            .collect();
        for (kind, old, new) in RENAMED {
            let is_in_use = |word: &str| match kind {
                Kind::Command => commands.contains(&word),
                Kind::Option => options.iter().any(|option| option == word),
                Kind::CasePart => word.contains('=') || parts.contains(&word),
                Kind::Axis => axes.contains(&word),
                Kind::Value => false,
            };
            assert!(!is_in_use(old) || old.contains('='), "`{old}` is still in use");
            assert!(is_in_use(new) || *kind == Kind::Value, "`{new}` does not exist");
        }
    }
}
