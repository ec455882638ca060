//! Axes: the settings of a case beyond pattern, mechanism, payload and placement.
//!
//! An axis is declared once, by the harness (below), by a pattern or by a mechanism, and with that it exists in case
//! ids, on the command line, in `list` and in the record.

/// A setting with its default and the values it takes.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Name in a case id.
    pub name: &'static str,
    /// Value when the id does not name it.
    pub default: &'static str,
    /// What may stand there.
    pub values: Values,
    /// One line for people.
    pub about: &'static str,
}

/// What an axis may be set to.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A number of bytes, or `default` for what the kernel gives.
    Bytes,
    /// A whole number of at least 1, or `default`.
    Count,
    /// A whole number of at least this.
    AtLeast(u64),
    /// A whole number of at least 1, or `max` for as many as there can be.
    CountOrMax,
    /// A whole number for every role, or one for each, separated by colons.
    Nices,
    /// `other`, `batch`, `idle`, `fifo-N` or `rr-N` for every role, or one for each, separated by colons.
    Policies,
    /// `none`, or what is put into each operation and how many times, as in `calls-4`.
    Doses,
}

/// What an axis is set to where the target or the kernel decides.
pub const DEFAULT: &str = "default";
/// What an axis of numbers is set to where there shall be as many as there can be.
pub const MAX: &str = "max";

/// An axis whose values are words, as an enum: what reads the axis can neither misspell nor forget one of them. Declared with
/// `choice!`.
pub trait Choice: Copy + Eq + 'static {
    /// The axis.
    const AXIS: Axis;

    /// The value that a word stands for.
    fn parse(name: &str) -> Option<Self>;
}

/// Declares an enum with a name for each value: `NAMES`, `name` and `parse` derive from it.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $vis:vis enum $type:ident { $($(#[$of:meta])* $value:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $type {
            $($(#[$of])* $value,)+
        }

        impl $type {
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }

            /// The value of this name.
            pub fn parse(name: &str) -> Option<$type> {
                match name {
                    $($name => Some($type::$value),)+
                    _ => None,
                }
            }
        }
    };
}

/// Declares an axis and the enum of its values, which is its [`Choice`](crate::axis::Choice): the enum, then name, default and text of
/// the axis.
#[macro_export]
macro_rules! choice {
    (
        $(#[$doc:meta])* $vis:vis enum $type:ident { $($values:tt)+ }
        axis $axis:literal, default $default:ident: $about:literal
    ) => {
        $crate::words! { $(#[$doc])* $vis enum $type { $($values)+ } }

        impl $crate::axis::Choice for $type {
            const AXIS: $crate::axis::Axis = $crate::axis::Axis {
                name: $axis,
                default: $type::$default.name(),
                values: $crate::axis::Values::OneOf($type::NAMES),
                about: $about,
            };

            fn parse(name: &str) -> Option<$type> {
                $type::parse(name)
            }
        }
    };
}

pub use crate::{choice, words};

impl Axis {
    /// Is `value` one that this axis takes? Otherwise a sentence that names the axis, what it takes, and the refused value.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let number = value.parse::<u64>();
        let least = |least: u64| number.as_ref().is_ok_and(|number| *number >= least);
        let each = |takes: fn(&str) -> bool| value.split(':').all(takes);
        let (is_taken, takes): (bool, String) = match self.values {
            Values::OneOf(words) => (words.contains(&value), words.join(", ")),
            Values::Bytes => (value == DEFAULT || least(1), "a number of bytes".into()),
            Values::Count => (value == DEFAULT || least(1), "a whole number of at least 1".into()),
            Values::AtLeast(lowest) => (least(lowest), format!("a whole number of at least {lowest}")),
            Values::CountOrMax => {
                (value == MAX || least(1), format!("a whole number of at least 1, or {MAX}"))
            }
            Values::Nices => (
                each(|nice| nice.parse().is_ok_and(|nice: i32| (-20..=19).contains(&nice))),
                "nice values from -20 to 19, one or one for each role, as in 0:10".into(),
            ),
            Values::Policies => (
                each(|policy| parse_policy(policy).is_some()),
                "other, batch, idle, fifo-1…99 or rr-1…99, one or one for each role, as in other:fifo-10"
                    .into(),
            ),
            Values::Doses => (
                value == NO_DOSE || parse_dose(value).is_some(),
                format!(
                    "{NO_DOSE}, or one of {} and how many of it, from 1 to {MOST_OF_DOSE} ({MOST_LINES} lines), as in calls-4",
                    DoseKind::NAMES.join(", ")
                ),
            ),
        };
        if is_taken { Ok(()) } else { Err(format!("axis {} takes {takes}, not `{value}`", self.name)) }
    }
}

/// A scheduling policy as an axis spells it.
pub fn parse_policy(text: &str) -> Option<causeway_os::sched::Policy> {
    use causeway_os::sched::Policy;
    let priority = |text: &str| text.parse::<u8>().ok().filter(|priority| (1..=99).contains(priority));
    match text {
        "other" => Some(Policy::Other),
        "batch" => Some(Policy::Batch),
        "idle" => Some(Policy::Idle),
        _ => match text.split_once('-')? {
            ("fifo", rest) => priority(rest).map(Policy::Fifo),
            ("rr", rest) => priority(rest).map(Policy::RoundRobin),
            _ => None,
        },
    }
}

/// A dose as an axis spells it: what, and how many of it each role does in each operation.
pub fn parse_dose(text: &str) -> Option<(DoseKind, u64)> {
    let (kind, count) = text.split_once('-')?;
    let kind = DoseKind::parse(kind)?;
    let most = if kind == DoseKind::Lines { MOST_LINES } else { MOST_OF_DOSE };
    count.parse().ok().filter(|count| (1..=most).contains(count)).map(|count| (kind, count))
}

/// The value of a role on an axis that is set for all roles or for each: the last one given holds for the rest.
pub fn of_role(value: &str, role: usize) -> &str {
    value.split(':').nth(role).or_else(|| value.split(':').next_back()).unwrap_or(value)
}

words! {
    /// How an end waits for its peer.
    pub enum Wait {
        /// In the receiving call itself.
        Block = "block",
        /// `poll` before each read, as a main loop does.
        Poll = "poll",
        /// `epoll_wait` before each read.
        Epoll = "epoll",
        /// A read submitted to io_uring, and waited for there.
        Uring = "uring",
        /// Without ever giving up the CPU.
        Spin = "spin",
        /// Spinning for a while, then blocking.
        SpinBlock = "spin-block",
        /// Giving up the CPU between two tests, but never sleeping.
        Yield = "yield",
    }
}

/// How a peer waits; a mechanism says which of these it offers, and which is its default.
pub const WAIT: Axis = Axis {
    name: "wait",
    default: DEFAULT,
    values: Values::OneOf(&WAIT_VALUES),
    about: "how an end waits: in the call itself, in poll or epoll before each read, through io_uring, spinning, or giving up the CPU between tests",
};

/// `default`, then every way to wait.
const WAIT_VALUES: [&str; Wait::NAMES.len() + 1] = {
    let mut values = [DEFAULT; Wait::NAMES.len() + 1];
    let (_, named) = values.split_at_mut(1);
    named.copy_from_slice(Wait::NAMES);
    values
};

choice! {
    /// How much of a payload is touched.
    pub enum Touch {
        /// The receiver reads no byte of a payload, and the sender writes none.
        None = "none",
        /// The first word.
        First = "first",
        /// A word of every cache line.
        Lines = "lines",
        /// Every byte.
        All = "all",
        /// Every byte is written, and none is read.
        Write = "write",
    }
    axis "touch", default All: "what sender and receiver touch: nothing, the first word, a word of every cache line, or every \
        byte; write: the sender writes every byte and the receiver reads none"
}

/// [`Touch`] for receivers that add up single bytes.
pub const TOUCH_BYTES: Axis = Axis {
    values: Values::OneOf(&[Touch::None.name(), Touch::All.name()]),
    about: "whether payloads are written and read; receivers add up single bytes, so there is no more to choose",
    ..Touch::AXIS
};

choice! {
    /// What runs the roles.
    pub enum Peers {
        /// A process for each.
        Process = "process",
        /// One process with a thread for each.
        Thread = "thread",
    }
    axis "peers", default Process: "a process for each role, or one process with a thread for each"
}

choice! {
    /// Was the memory that is written touched before?
    pub enum MemoryState {
        /// The memory was touched before.
        Warm = "warm",
        /// It was not, or was given back to the kernel since.
        Fresh = "fresh",
    }
    axis "memory", default Warm: "warm: the memory that is written was touched before; fresh: it is touched for the first \
        time, page by page, by each message or operation"
}

/// Nice values.
pub const NICE: Axis = Axis {
    name: "nice",
    default: "0",
    values: Values::Nices,
    about: "nice value, for all roles or each (0:10)",
};

/// Scheduling classes.
pub const SCHED: Axis = Axis {
    name: "sched",
    default: "other",
    values: Values::Policies,
    about: "scheduling class, for all roles or each (other:fifo-10)",
};

choice! {
    /// What is counted.
    pub enum Counters {
        /// What the kernel counts anyway.
        Usage = "usage",
        /// Cycles and instructions too.
        Events = "events",
    }
    axis "counters", default Usage: "usage: what the kernel counts anyway; events: cycles and instructions too, which slows \
        context switches"
}

choice! {
    /// What a measured CPU does while no role runs on it.
    pub enum Idle {
        /// What the kernel lets it do: it halts, or sleeps in whatever way it has.
        Halt = "halt",
        /// It runs a spinner of the lowest priority.
        Busy = "busy",
    }
    axis "idle", default Halt: "what a measured CPU does while no role runs on it: halt, as the kernel has it, or busy: it runs a \
        spinner of the policy SCHED_IDLE, so that no figure has the halt of a virtual CPU in it"
}

words! {
    /// What can be put into the operations of any case.
    pub enum DoseKind {
        /// Trivial system calls (getppid).
        Calls = "calls",
        /// Copies of the payload between two buffers of the role.
        Copies = "copies",
        /// Wake-ups of a futex on which no thread sleeps.
        Wakes = "wakes",
        /// Cache lines that the other role wrote last, written again.
        Lines = "lines",
        /// Real wake-ups: the leading role wakes the other by a futex and sleeps until that wakes it.
        Handoffs = "handoffs",
    }
}

/// Without a dose.
pub const NO_DOSE: &str = "none";
/// Most of a dose, in each role.
pub const MOST_OF_DOSE: u64 = 4096;
/// Most cache lines of a dose.
pub const MOST_LINES: u64 = 64;

/// What is put into each operation.
pub const DOSE: Axis = Axis {
    name: "dose",
    default: NO_DOSE,
    values: Values::Doses,
    about: "what each role does in each operation besides, so many times: trivial system calls (calls-4), copies of the payload (copies-2), \
            wake-ups of nobody (wakes-4), writes to cache lines that the other role wrote last (lines-8); or both together: waking each other \
            by a futex (handoffs-1)",
};

/// Name of the axis that says how many roles there are, in patterns where all of them do the same.
pub const ROLES: &str = "roles";

/// The axes that every case has.
pub const COMMON: &[Axis] = &[WAIT, Touch::AXIS, Peers::AXIS, NICE, SCHED, Idle::AXIS, Counters::AXIS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_an_axis_does_not_take_is_refused_with_what_it_takes() {
        let axis = |default, values| Axis { name: "own", default, values, about: "" };
        for (axis, taken, refused, takes) in [
            (WAIT, &["poll", DEFAULT][..], &["sleep"][..], "block, poll, epoll"),
            (NICE, &["0:-5", "19"], &["0:20", "-21"], "from -20 to 19"),
            (SCHED, &["other:fifo-10"], &["fifo-100", "fifo"], "rr-1…99"),
            (
                DOSE,
                &["none", "calls-4096", "lines-64"],
                &["calls", "calls-0", "lines-65", "sleeps-1"],
                "as in calls-4",
            ),
            (axis(DEFAULT, Values::Count), &["1", DEFAULT], &["0", "-1"], "at least 1"),
            (axis("7", Values::CountOrMax), &["1", MAX], &["0", DEFAULT], "or max"),
            (axis("7", Values::AtLeast(0)), &["0"], &[DEFAULT, "-1"], "at least 0"),
        ] {
            for value in taken {
                assert_eq!(axis.check(value), Ok(()), "{axis:?}");
            }
            for value in refused {
                let why = axis.check(value).unwrap_err();
                assert!(why.contains(takes) && why.contains(&format!("`{value}`")), "{why}");
            }
        }
    }

    #[test]
    fn a_choice_takes_the_names_of_its_values_and_no_other() {
        assert_eq!(
            Peers::NAMES.iter().map(|name| Peers::parse(name).unwrap().name()).collect::<Vec<_>>(),
            Peers::NAMES
        );
        assert_eq!((Peers::parse("threads"), Peers::AXIS.default), (None, "process"));
    }

    #[test]
    fn the_last_value_given_holds_for_the_remaining_roles() {
        assert_eq!(["0", "10", "10"], [0, 1, 5].map(|role| of_role("0:10", role)));
        assert_eq!(of_role("-5", 3), "-5");
    }
}
