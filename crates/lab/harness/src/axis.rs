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
    /// A whole number for every role, or one for each, separated by colons.
    Nices,
    /// `other`, `batch`, `idle`, `fifo-N` or `rr-N` for every role, or one for each, separated by colons.
    Policies,
}

/// What an axis is set to where the target or the kernel decides.
pub const DEFAULT: &str = "default";

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

            /// Its name in a case id.
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
    /// Is `value` one that this axis takes? Otherwise a sentence that says what it takes.
    ///
    /// # Errors
    /// A sentence that names the axis, what it takes, and the refused value.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let wants = |what: &str| Err(format!("axis {} takes {what}, not `{value}`", self.name));
        match self.values {
            Values::OneOf(words) if words.contains(&value) => Ok(()),
            Values::OneOf(words) => wants(&words.join(", ")),
            Values::Bytes | Values::Count if value == DEFAULT => Ok(()),
            Values::Bytes | Values::Count if value.parse::<u64>().is_ok_and(|n| n > 0) => Ok(()),
            Values::Bytes => wants("a number of bytes"),
            Values::Count => wants("a whole number of at least 1"),
            Values::AtLeast(least) if value.parse::<u64>().is_ok_and(|number| number >= least) => Ok(()),
            Values::AtLeast(least) => wants(&format!("a whole number of at least {least}")),
            Values::Nices
                if value.split(':').all(|n| n.parse::<i32>().is_ok_and(|n| (-20..=19).contains(&n))) =>
            {
                Ok(())
            }
            Values::Nices => wants("nice values from -20 to 19, one or one for each role, as in 0:10"),
            Values::Policies if value.split(':').all(|policy| parse_policy(policy).is_some()) => Ok(()),
            Values::Policies => wants(
                "other, batch, idle, fifo-1…99 or rr-1…99, one or one for each role, as in other:fifo-10",
            ),
        }
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

/// Name of the axis that says how many roles there are, in patterns where all of them do the same.
pub const ROLES: &str = "roles";

/// The axes that every case has.
pub const COMMON: &[Axis] = &[WAIT, Touch::AXIS, Peers::AXIS, NICE, SCHED, Idle::AXIS, Counters::AXIS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_an_axis_does_not_take_is_refused_with_what_it_takes() {
        assert_eq!(WAIT.check("poll"), Ok(()));
        let why = WAIT.check("sleep").unwrap_err();
        assert!(why.contains("block, poll, epoll") && why.contains("`sleep`"), "{why}");
        assert!(NICE.check("0:-5").is_ok() && NICE.check("0:20").is_err());
        assert!(SCHED.check("other:fifo-10").is_ok() && SCHED.check("fifo-100").is_err());
        let depth = Axis { name: "depth", default: "default", values: Values::Count, about: "" };
        assert!(depth.check("default").is_ok() && depth.check("0").is_err());
        let limit = Axis { name: "limit", default: "7", values: Values::AtLeast(0), about: "" };
        assert!(limit.check("0").is_ok() && limit.check("default").is_err() && limit.check("-1").is_err());
    }

    #[test]
    fn a_choice_takes_the_names_of_its_values_and_no_other() {
        let Values::OneOf(names) = Peers::AXIS.values else { panic!("words") };
        let peers: Vec<_> = names.iter().map(|name| Peers::parse(name)).collect();
        assert_eq!(peers, [Some(Peers::Process), Some(Peers::Thread)]);
        assert_eq!((Peers::parse("threads"), Peers::AXIS.default), (None, "process"));
        let Values::OneOf(waits) = WAIT.values else { panic!("words") };
        assert_eq!((waits[0], &waits[1..]), (DEFAULT, Wait::NAMES));
    }

    #[test]
    fn the_last_value_given_holds_for_the_remaining_roles() {
        assert_eq!((of_role("0:10", 0), of_role("0:10", 1), of_role("0:10", 5)), ("0", "10", "10"));
        assert_eq!(of_role("-5", 3), "-5");
    }
}
