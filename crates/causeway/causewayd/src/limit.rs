//! A limit that was reached, in the same sentence for all of them: whose it is, how much there is, and what to change.

use std::fmt;

/// What somebody may not have. Displayed, it is the text of the error and of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// What to raise for more.
    pub lever: Lever,
    /// Who has so much: a connection, a user or the bus.
    pub whose: String,
    /// What is counted.
    pub what: &'static str,
    pub has: u64,
    /// How much more was wanted; nothing where `has` is too much already.
    pub more: u64,
    /// How much there may be now.
    pub most: u64,
    /// Where others hold too much for the limit itself: the user, what all its connections have, and what they may have.
    pub of_user: Option<(u32, u64, u64)>,
}

/// What to raise where a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lever {
    /// The `<limit>` of this name.
    Limit(&'static str),
    /// How many files the process of the bus may open.
    OpenFiles,
}

impl Lever {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Lever::Limit(name) => name,
            Lever::OpenFiles => "RLIMIT_NOFILE",
        }
    }
}

/// As the end of a sentence.
impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lever::Limit(name) => write!(
                f,
                "raise <limit name=\"{name}\"> in the configuration file of the bus (--config-file)"
            ),
            Lever::OpenFiles => f.write_str(
                "raise the limit of open files of the bus (LimitNOFILE= of its systemd unit, or ulimit -n)",
            ),
        }
    }
}

impl Reached {
    /// Has it been reached by its holder alone, or do others hold what it could have?
    pub fn is_own(&self) -> bool {
        self.of_user.is_none()
    }

    /// By one message, which has so much.
    pub fn by_message(name: &'static str, what: &'static str, has: u64, most: u64) -> Reached {
        let lever = Lever::Limit(name);
        Reached { lever, whose: "the message".into(), what, has, more: 0, most, of_user: None }
    }

    /// By one more, where there are so many.
    pub fn by_one(name: &'static str, whose: String, what: &'static str, has: usize, most: usize) -> Reached {
        let lever = Lever::Limit(name);
        Reached { lever, whose, what, has: has as u64, more: 1, most: most as u64, of_user: None }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reached { lever, whose, what, has, more, most, of_user } = self;
        write!(f, "{whose} has {has} {what}")?;
        if *more > 0 {
            write!(f, " and wants {more} more")?;
        }
        write!(f, ", of at most {most}")?;
        if let Some((uid, held, budget)) = of_user {
            write!(f, " while all connections of user {uid} have {held} of {budget}")?;
        }
        write!(f, "; to allow more, {lever}")
    }
}
