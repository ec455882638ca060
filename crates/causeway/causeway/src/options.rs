//! What the creator of a group decides, and what each subscriber asks for.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

pub(crate) use causeway_os::process::is_own_user;
use causeway_os::socket::Credentials;

use crate::log::word::GRANULE_BYTES;
use crate::log::{Kind, Start};
use crate::trust::Trust;

/// What happens when a subscriber falls behind.
///
/// | policy | loses messages | its lag, in bytes of log | how long it delays a publisher |
/// |---|---|---|---|
/// | [`Reliable`](Policy::Reliable) | never | up to the capacity | until it reads or leaves |
/// | [`DemoteAfter`](Policy::DemoteAfter) | after it was demoted | up to the capacity | the deadline in all, less 0.1 ms for each message that it reads |
/// | [`DisconnectAfter`](Policy::DisconnectAfter) | when it is disconnected | up to the capacity | the same |
/// | [`Lossy`](Policy::Lossy) | when it is overtaken | up to the capacity | never |
/// | [`LagAtMost`](Policy::LagAtMost) | when it lags more | bounded | never |
///
/// A deadline is one on how long a publisher was kept waiting by this subscriber, and no step of its own renews it: what counts is the time in
/// which it kept the log full, less 0.1 ms for each message and 1 ns for each byte of log that it has passed since, and not the time in which
/// the publisher itself was stopped. A publisher that polls ([`Publisher::try_publish`](crate::Publisher::try_publish)) has waited from one try
/// to the next, 5 ms at most. It is kept in milliseconds, rounded up. A deadline does not bound the lag; [`Policy::LagAtMost`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Publishers wait for it, or find the log full. It loses nothing.
    Reliable,
    /// As reliable, until it has kept a publisher waiting this long. Then it is demoted to lossy, and told:
    /// [`Received::Demoted`](crate::Received::Demoted).
    DemoteAfter(Duration),
    /// As reliable, until it has kept a publisher waiting this long. Then it is disconnected: as soon as it finds
    /// no intact message or waits, every call fails with [`Error::MissedDeadline`](crate::Error::MissedDeadline).
    DisconnectAfter(Duration),
    /// Publishers never wait for it. Messages that it loses are counted and reported.
    Lossy,
    /// Publishers never wait for it, and before each receive it skips what is older than this many bytes of log: it is
    /// never further behind than that, give or take 4 KiB. Messages that it skips are counted and reported as lost. Headers
    /// count too: a message of up to 32 bytes takes 64 bytes of log.
    LagAtMost(u64),
}

impl Policy {
    pub(crate) fn to_words(self) -> [u32; 2] {
        // Rounded up: a deadline below a millisecond must not become none at all.
        let millis =
            |deadline: Duration| u32::try_from(deadline.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        match self {
            Policy::Reliable => [0, 0],
            Policy::DemoteAfter(deadline) => [1, millis(deadline)],
            Policy::DisconnectAfter(deadline) => [2, millis(deadline)],
            Policy::Lossy => [3, 0],
            Policy::LagAtMost(bytes) => [4, u32::try_from(bytes.div_ceil(GRANULE_BYTES)).unwrap_or(u32::MAX)],
        }
    }

    pub(crate) fn from_words(words: [u32; 2]) -> Option<Policy> {
        let deadline = Duration::from_millis(u64::from(words[1]));
        match words[0] {
            0 => Some(Policy::Reliable),
            1 => Some(Policy::DemoteAfter(deadline)),
            2 => Some(Policy::DisconnectAfter(deadline)),
            3 => Some(Policy::Lossy),
            4 => Some(Policy::LagAtMost(u64::from(words[1]) * GRANULE_BYTES)),
            _ => None,
        }
    }

    /// Whether publishers wait for such a subscriber at all.
    pub(crate) fn holds_space(self) -> bool {
        !matches!(self, Policy::Lossy | Policy::LagAtMost(_))
    }

    /// The longest time that publishers wait for such a subscriber without a pause.
    pub(crate) fn patience(self) -> Duration {
        if self.holds_space() { self.deadline().unwrap_or(Duration::MAX) } else { Duration::ZERO }
    }

    /// How long publishers wait for such a subscriber, if that is limited.
    pub(crate) fn deadline(self) -> Option<Duration> {
        match self {
            Policy::DemoteAfter(deadline) | Policy::DisconnectAfter(deadline) => Some(deadline),
            Policy::Reliable | Policy::Lossy | Policy::LagAtMost(_) => None,
        }
    }

    /// How far such a subscriber may be behind, if it skips what is older.
    pub(crate) fn lag_bytes_max(self) -> Option<u64> {
        match self {
            Policy::LagAtMost(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Reliable => f.write_str("reliable"),
            Policy::DemoteAfter(deadline) => write!(f, "demote after {deadline:?}"),
            Policy::DisconnectAfter(deadline) => write!(f, "disconnect after {deadline:?}"),
            Policy::Lossy => f.write_str("lossy"),
            Policy::LagAtMost(bytes) => write!(f, "lag at most {bytes} bytes"),
        }
    }
}

/// Which users may join a group. The kernel reports the user of a peer (SO_PEERCRED), so a peer cannot pretend to be another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The user of the process that created the group, and root.
    #[default]
    SameUser,
    /// The users with these numbers, and root.
    Users(BTreeSet<u32>),
    /// Every user that can connect to the socket.
    AnyUser,
}

impl Access {
    pub(crate) fn admits(&self, peer: Credentials) -> bool {
        match self {
            _ if peer.uid == 0 => true,
            Access::SameUser => is_own_user(peer.uid),
            Access::Users(users) => users.contains(&peer.uid),
            Access::AnyUser => true,
        }
    }
}

/// The properties of a new group.
///
/// ```
/// use causeway::{Access, GroupOptions};
/// let options = GroupOptions::new().capacity_bytes(1 << 20).several_publishers().subscribers(Access::AnyUser);
/// ```
#[derive(Clone, Debug)]
pub struct GroupOptions {
    pub(crate) capacity_bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) remote_publishers: u32,
    pub(crate) late_publishers: bool,
    /// The format of its logs, if all members have it; `None` for whatever will do.
    pub(crate) format: Option<u32>,
    pub(crate) publishers: Access,
    pub(crate) subscribers: Access,
    pub(crate) trust: Option<Trust>,
    pub(crate) most_patient: Policy,
    pub(crate) most_patient_for_others: Policy,
    /// Messages in a second, of each publisher of another process; 0 for no limit.
    pub(crate) publisher_rate_max: u64,
    /// The type of the messages; 0 for bytes of any length.
    pub(crate) fingerprint: u64,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions::new()
    }
}

impl GroupOptions {
    /// One publisher, in the creating process; a log of 256 KiB; for processes of the same user.
    pub fn new() -> GroupOptions {
        GroupOptions {
            capacity_bytes: 256 << 10,
            kind: Kind::Single,
            remote_publishers: 0,
            late_publishers: false,
            format: None,
            publishers: Access::SameUser,
            subscribers: Access::SameUser,
            trust: None,
            most_patient: Policy::Reliable,
            most_patient_for_others: Policy::DemoteAfter(Duration::from_secs(1)),
            publisher_rate_max: 0,
            fingerprint: 0,
        }
    }

    /// Whether a user other than the creator's may join in any way.
    pub(crate) fn admits_other_users(&self) -> bool {
        self.publishers != Access::SameUser || self.subscribers != Access::SameUser
    }

    /// Sets the size of the log in bytes: a power of two from 4 KiB to 1 GiB. The longest payload is a quarter of it. A log
    /// that fits the second-level cache (256 KiB to 1 MiB) is fastest.
    pub fn capacity_bytes(mut self, bytes: u64) -> GroupOptions {
        self.capacity_bytes = bytes;
        self
    }

    /// Allows up to 64 publishers, all in the creating process. They must trust each other.
    pub fn several_publishers(mut self) -> GroupOptions {
        self.kind = Kind::Shared;
        self
    }

    /// Sets the number of publishers in other processes. Subscribers can join once exactly this many publishers have joined:
    /// then the log is sealed, and no further process can gain write access.
    pub fn remote_publishers(mut self, count: u32) -> GroupOptions {
        self.remote_publishers = count;
        if count > 1 {
            self.kind = Kind::Shared;
        }
        self
    }

    /// Allows publishers in other processes to join at any time, also after subscribers, up to 64 together with those of the creating
    /// process, until the creator drops its [`Group`](crate::Group). They must trust each other. Subscribers need not wait for them.
    ///
    /// Each of them begins a new log, because no process can gain write access to one that subscribers read: the others go on in the
    /// new log by themselves, and no message is lost or repeated. Each publisher of another process has a thread and a descriptor more for that.
    pub fn late_publishers(mut self) -> GroupOptions {
        self.late_publishers = true;
        self.kind = Kind::Shared;
        self
    }

    /// Sets the format of the group's logs: the highest that it uses ([`FORMATS`](crate::FORMATS) are those of this release). Without it a
    /// group begins with the format of the release before this one, and changes it for a member that needs another one. A member of
    /// another release is admitted with a log of a format that it has, if another log can begin ([`Group::resize`](crate::Group::resize)
    /// says when), and refused with [`Error::OtherFormat`](crate::Error::OtherFormat) otherwise; when the last such member has left, a log
    /// of this format begins. In a group of one publisher that is when it publishes next.
    pub fn format(mut self, level: u32) -> GroupOptions {
        self.format = Some(level);
        self
    }

    /// Limits each publisher of another process to so many messages a second, and implies [`GroupOptions::late_publishers`]. What a
    /// second allows may come at once. Nothing keeps a publisher from publishing more: the server looks ten times a second and when it
    /// leaves, and disconnects who has published too much ([`Group::disconnect_publisher`](crate::Group::disconnect_publisher)); all
    /// others go on. Its process cannot join as a publisher until time has made up for that, if the process is still the same one, came by
    /// the path of the group, and is in this PID namespace. [`Group::over_rate`](crate::Group::over_rate) tells of each.
    ///
    /// The server counts what the publisher's library counts: a limit for programs that say too much, and not for one that breaks the
    /// protocol or starts a new process for each burst.
    pub fn publisher_rate_max(self, messages_per_s: u64) -> GroupOptions {
        GroupOptions { publisher_rate_max: messages_per_s, ..self.late_publishers() }
    }

    /// Sets which users may publish from other processes. [`Access::SameUser`] by default.
    pub fn publishers(mut self, access: Access) -> GroupOptions {
        self.publishers = access;
        self
    }

    /// Sets how far the subscribers trust each other: [`Trust::SameUser`] by default if the rules for publishers and
    /// subscribers admit the same user only, [`Trust::Strangers`] otherwise.
    pub fn trust(mut self, trust: Trust) -> GroupOptions {
        self.trust = Some(trust);
        self
    }

    /// What [`GroupOptions::trust`] set, or what follows from the rules.
    pub(crate) fn effective_trust(&self) -> Trust {
        self.trust.unwrap_or(if self.admits_other_users() { Trust::Strangers } else { Trust::SameUser })
    }

    /// Sets which users may subscribe. [`Access::SameUser`] by default.
    pub fn subscribers(mut self, access: Access) -> GroupOptions {
        self.subscribers = access;
        self
    }

    /// Sets the policy for which publishers wait longest, of those that a subscriber in another process may ask for: one that
    /// asks for more patience is refused. [`Policy::Reliable`] by default: any policy. Users other than the creator's are bound
    /// by [`GroupOptions::most_patient_for_others`] as well. Subscribers of the creating process are not bound.
    pub fn most_patient(mut self, policy: Policy) -> GroupOptions {
        self.most_patient = policy;
        self
    }

    /// As [`GroupOptions::most_patient`], for users other than the creator's and root.
    /// [`Policy::DemoteAfter`] one second by default: one of them that does not read delays publishers for a second. After that,
    /// this user gets [`Policy::Lossy`] only, until a minute after its late subscribers have left.
    pub fn most_patient_for_others(mut self, policy: Policy) -> GroupOptions {
        self.most_patient_for_others = policy;
        self
    }
}

/// A publisher that has published more than [`GroupOptions::publisher_rate_max`] allows: see [`Group::over_rate`](crate::Group::over_rate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverRate {
    /// Its number: [`Publisher::id`](crate::Publisher::id).
    pub publisher: u8,
    /// Its process, as the server sees it; 0 if that is in another PID namespace.
    pub pid: u32,
    /// Its user, as the server sees it.
    pub uid: u32,
    /// Messages beyond what it may have published.
    pub excess: u64,
    /// Whether it is there, and is disconnected; otherwise it had left.
    pub is_there: bool,
}

/// The properties of a new subscriber.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    pub(crate) policy: Policy,
    pub(crate) start: Start,
    pub(crate) timeout: Option<Duration>,
    pub(crate) topics: Option<BTreeSet<u32>>,
    pub(crate) keep: bool,
    /// The type that its messages must have; 0 for any.
    pub(crate) fingerprint: u64,
}

impl SubscribeOptions {
    /// A subscriber with this policy, which receives the next message first.
    pub fn new(policy: Policy) -> SubscribeOptions {
        SubscribeOptions {
            policy,
            start: Start::Next,
            timeout: None,
            topics: None,
            keep: false,
            fingerprint: 0,
        }
    }

    /// Makes the subscriber receive the oldest message first that is still in the log.
    pub fn from_oldest(mut self) -> SubscribeOptions {
        self.start = Start::Oldest;
        self
    }

    /// Makes the subscriber receive messages with these topics only, and wakes it for no others. All topics by default.
    ///
    /// While it sleeps, messages of other topics cost publishers no system call, but one for each half of the log, so that it
    /// frees their space. Topics share 32 bits of a filter: one that shares its bit with a wanted topic wakes the subscriber, which
    /// skips the message. A [`Received::Lost`](crate::Received::Lost) counts messages of all topics.
    pub fn topics(mut self, topics: impl IntoIterator<Item = u32>) -> SubscribeOptions {
        self.topics = Some(topics.into_iter().collect());
        self
    }

    /// Keeps what is received in the log until [`Subscriber::release`](crate::Subscriber::release), so that it can be read again
    /// ([`Subscriber::read_again`](crate::Subscriber::read_again)): publishers wait for what is kept as for what is not read, as long
    /// as the policy says. For a program that passes messages on and may have to do so again. Messages that are read in place are not kept.
    pub fn keep_received(mut self) -> SubscribeOptions {
        self.keep = true;
        self
    }

    /// Limits the wait of [`Group::subscribe`](crate::Group::subscribe) for
    /// [`remote_publishers`](GroupOptions::remote_publishers). Without a limit it waits until all of them have joined.
    pub fn timeout(mut self, timeout: Duration) -> SubscribeOptions {
        self.timeout = Some(timeout);
        self
    }
}

impl From<Policy> for SubscribeOptions {
    fn from(policy: Policy) -> SubscribeOptions {
        SubscribeOptions::new(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_wire_and_says_how_long_publishers_wait() {
        let ms = Duration::from_millis;
        for (policy, patience) in [
            (Policy::Reliable, Duration::MAX),
            (Policy::DemoteAfter(ms(5)), ms(5)),
            (Policy::DisconnectAfter(ms(7)), ms(7)),
            (Policy::Lossy, Duration::ZERO),
            (Policy::LagAtMost(4096), Duration::ZERO),
        ] {
            assert_eq!(Policy::from_words(policy.to_words()), Some(policy));
            assert_eq!(policy.patience(), patience, "{policy}");
        }
        assert_eq!(Policy::from_words([9, 0]), None);
    }

    #[test]
    fn a_deadline_is_rounded_up_to_milliseconds() {
        for (micros, millis) in [(0, 0), (1, 1), (900, 1), (1000, 1), (1001, 2)] {
            assert_eq!(Policy::DemoteAfter(Duration::from_micros(micros)).to_words(), [1, millis]);
        }
    }

    #[test]
    fn an_access_rule_admits_the_users_that_it_names_and_root() {
        let own = rustix::process::geteuid().as_raw();
        let (same, named) = (Access::SameUser, Access::Users([7].into()));
        for (rule, uid, admits) in [
            (&same, own, true),
            (&same, 0, true),
            (&same, own + 1, false),
            (&named, 7, true),
            (&named, 0, true),
            (&named, 8, false),
            (&Access::AnyUser, 8, true),
        ] {
            assert_eq!(rule.admits(Credentials { pid: 1, uid, gid: 1 }), admits, "{rule:?}: user {uid}");
        }
    }
}
