//! What participants send: kinds and sizes of a recorded trace.

/// What a participant does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the bus something.
    Ask,
    /// Call another participant, with a body of so many bytes.
    Call(usize),
    /// Emit a signal with a body of so many bytes.
    Signal(usize),
}

/// What the file `CAUSEWAY_DAY_STEPS` says, or the proportions of a desktop session (`docs/figures/dbus-session.txt`): of ten messages that
/// programs send of themselves, five ask the bus, three call each other, two are signals. A line of the file is `ask`, `call BYTES` or
/// `signal BYTES`.
pub fn steps() -> Vec<Step> {
    use Step::{Ask, Call, Signal};
    let Ok(path) = std::env::var("CAUSEWAY_DAY_STEPS") else {
        return vec![Ask, Call(80), Signal(120), Ask, Call(600), Ask, Ask, Signal(40), Call(12_000), Ask];
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let steps: Vec<Step> = text
        .lines()
        .map(|line| match line.split_once(' ').map(|(word, bytes)| (word, bytes.parse().unwrap())) {
            Some(("call", bytes)) => Call(bytes),
            Some(("signal", bytes)) => Signal(bytes),
            None if line == "ask" => Ask,
            _ => panic!("{path}: {line:?} is not a step"),
        })
        .collect();
    assert!(!steps.is_empty(), "no steps in {path}");
    steps
}
