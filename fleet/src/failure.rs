//! How a command ends.

use std::fmt;

use crate::secrets;

/// The exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done as asked.
    Fine = 0,
    /// A verdict against: costs went up by more than the margin.
    Outside = 1,
    /// It will not work the next time either: a mistake, a refusal, or a file that is broken. What could be done was done.
    Hopeless = 2,
    /// Nothing can be said.
    Undecided = 4,
    /// The store is away: try again. `EX_TEMPFAIL` of sysexits.h, which schedulers and mail know.
    Again = 75,
}

/// Why a command did not do what it was asked: one sentence, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    sentence: String,
    /// The exit code.
    pub exit: Exit,
}

impl Failure {
    /// With this sentence.
    pub fn new(exit: Exit, sentence: impl fmt::Display) -> Failure {
        Failure { sentence: secrets::hidden(&sentence.to_string()), exit }
    }

    /// It will not work the next time either.
    pub fn hopeless(sentence: impl fmt::Display) -> Failure {
        Failure::new(Exit::Hopeless, sentence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
