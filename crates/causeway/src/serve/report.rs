//! A report on a group: its publishers and subscribers, how far behind each subscriber is, and what it has lost.

use std::sync::atomic::Ordering;

use super::state::{Role, State};
use crate::error::{Error, Result};
use crate::log::mapped::MappedLog;
use crate::log::wait::WaitingSubscriber;
use crate::log::{Memory, server};
use crate::options::Policy;
use crate::wire::{Message, Op};

/// The state of a group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Size of the log, in bytes.
    pub capacity_bytes: u64,
    /// Position of the next message: bytes of log since the group began.
    pub position: u64,
    /// Messages published since the group began.
    pub messages: u64,
    /// The publishers.
    pub publishers: Vec<PublisherReport>,
    /// The subscribers.
    pub subscribers: Vec<SubscriberReport>,
}

/// A publisher in a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherReport {
    /// Its number: [`Publisher::id`](crate::Publisher::id).
    pub slot: u8,
    /// Its process, as the server sees it; 0 if that is in another PID namespace.
    pub pid: u32,
    /// Its user, as the server sees it.
    pub uid: u32,
}

/// A subscriber in a [`Report`]. It states itself what it received and lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriberReport {
    /// Its number: [`Subscriber::id`](crate::Subscriber::id).
    pub slot: u32,
    /// Its process, as the server sees it; 0 if that is in another PID namespace.
    pub pid: u32,
    /// Its user, as the server sees it.
    pub uid: u32,
    /// What happens when it falls behind.
    pub policy: Policy,
    /// Whether it sleeps, on the futex or on its descriptor.
    pub asleep: bool,
    /// Bytes of log that it has not read yet.
    pub lag_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Messages lost.
    pub lost_messages: u64,
}

impl Report {
    pub(super) fn of(state: &State, log: &MappedLog) -> Result<Report> {
        let (position, messages) = server::end_of(log, log.kind())?;
        let mut report =
            Report { capacity_bytes: log.capacity_bytes(), position, messages, ..Report::default() };
        for connection in state.connections.values() {
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            match connection.role {
                Role::Publisher { slot, .. } => report.publishers.push(PublisherReport { slot, pid, uid }),
                Role::Subscriber { slot } => {
                    let Some(subscriber) =
                        state.subscribers.iter().find(|subscriber| subscriber.slot == slot)
                    else {
                        continue;
                    };
                    if !subscriber.placed {
                        continue;
                    }
                    let words = subscriber.words();
                    report.subscribers.push(SubscriberReport {
                        slot: slot as u32,
                        pid,
                        uid,
                        policy: subscriber.policy,
                        asleep: words.arm.load(Ordering::Relaxed) & 3 != 0,
                        lag_bytes: report.position.saturating_sub(words.cursor.load(Ordering::Relaxed)),
                        received: words.received.load(Ordering::Relaxed),
                        lost_messages: words.lost_messages.load(Ordering::Relaxed),
                    });
                }
                Role::Client | Role::Waiting | Role::Joining { .. } | Role::Pool { .. } => {}
            }
        }
        Ok(report)
    }

    pub(super) fn to_messages(&self) -> Vec<Message> {
        let split = |value: u64| [value as u32, (value >> 32) as u32];
        let [capacity, position, messages] = [self.capacity_bytes, self.position, self.messages].map(split);
        let group = [[0, 0], capacity, position, messages].concat();
        let mut rows = vec![Message::new(Op::Row, &group)];
        for publisher in &self.publishers {
            rows.push(Message::new(Op::Row, &[1, u32::from(publisher.slot), publisher.pid, publisher.uid]));
        }
        for subscriber in &self.subscribers {
            let [kind, deadline] = subscriber.policy.to_words();
            let [lag, received, lost] =
                [subscriber.lag_bytes, subscriber.received, subscriber.lost_messages].map(split);
            let first = [
                2,
                subscriber.slot,
                subscriber.pid,
                subscriber.uid,
                kind,
                deadline,
                u32::from(subscriber.asleep),
            ];
            rows.push(Message::new(Op::Row, &[&first[..], &lag, &received, &lost].concat()));
        }
        rows.push(Message::new(Op::End, &[]));
        rows
    }

    /// Adds one row of a report.
    pub(crate) fn add_row(&mut self, row: Message) -> Result<()> {
        let words = row.words;
        let join = |at: usize| u64::from(words[at]) | (u64::from(words[at + 1]) << 32);
        match words[0] {
            0 => (self.capacity_bytes, self.position, self.messages) = (join(2), join(4), join(6)),
            1 => self.publishers.push(PublisherReport { slot: words[1] as u8, pid: words[2], uid: words[3] }),
            2 => self.subscribers.push(SubscriberReport {
                slot: words[1],
                pid: words[2],
                uid: words[3],
                policy: Policy::from_words([words[4], words[5]])
                    .ok_or_else(|| Error::invalid("answer", "a subscriber with an unknown policy"))?,
                asleep: words[6] != 0,
                lag_bytes: join(7),
                received: join(9),
                lost_messages: join(11),
            }),
            other => return Err(Error::invalid("answer", format!("a row of unknown kind {other}"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_wire() {
        let report = Report {
            capacity_bytes: 1 << 30,
            position: 1 << 40,
            messages: 77,
            publishers: vec![PublisherReport { slot: 3, pid: 10, uid: 11 }],
            subscribers: vec![SubscriberReport {
                slot: 255,
                pid: 12,
                uid: 13,
                policy: Policy::DemoteAfter(std::time::Duration::from_millis(20)),
                asleep: true,
                lag_bytes: 1 << 33,
                received: u64::MAX,
                lost_messages: 5,
            }],
        };
        let mut back = Report::default();
        let rows = report.to_messages();
        for row in &rows[..rows.len() - 1] {
            back.add_row(*row).unwrap();
        }
        assert_eq!(back, report);
        assert_eq!(rows.last().unwrap().op, Op::End);
    }
}
