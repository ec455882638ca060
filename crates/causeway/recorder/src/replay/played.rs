//! The end of a replay.

/// What became of the messages of a file.
pub struct Played {
    pub said: String,
    pub is_complete: bool,
}

impl Played {
    /// All of so many.
    pub fn of(messages: u64) -> Played {
        Played { said: format!("{messages} messages replayed"), is_complete: true }
    }
}
