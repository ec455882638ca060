//! A report on a group: who publishes, who receives, how far behind each is and what it lost.

use std::sync::atomic::Ordering;

use super::state::{Role, State};
use crate::error::{Error, Result};
use crate::log::mapped::MappedLog;
use crate::log::sleep::Sleepy;
use crate::log::{Memory, Reader};
use crate::options::Policy;
use crate::wire::{Message, Op};

/// A group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Size of its log.
    pub capacity_bytes: u64,
    /// Where the next message will lie: bytes of log since the group began.
    pub position: u64,
    /// Messages published since the group began.
    pub messages: u64,
    /// Those who publish.
    pub publishers: Vec<PublisherReport>,
    /// Those who receive.
    pub receivers: Vec<ReceiverReport>,
}

/// A publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherReport {
    /// Its slot.
    pub slot: u8,
    /// Its process, as the server sees it; 0 if it is in another PID namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// A receiver. What it received and lost it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverReport {
    /// Its slot.
    pub slot: u32,
    /// Its process, as the server sees it; 0 if it is in another PID namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// What becomes of it when it falls behind.
    pub policy: Policy,
    /// Whether it sleeps.
    pub asleep: bool,
    /// Bytes of log it has not read yet.
    pub lag_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Messages lost.
    pub lost_messages: u64,
}

impl Report {
    pub(super) fn of(state: &State, log: &MappedLog) -> Result<Report> {
        let mut end = Reader::join(log)?;
        end.skip_to_end()?;
        let mut report = Report {
            capacity_bytes: log.capacity_bytes(),
            position: end.position(),
            messages: end.messages_before(),
            ..Report::default()
        };
        for connection in state.connections.values() {
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            match connection.role {
                Role::Publisher { slot, .. } => report.publishers.push(PublisherReport { slot, pid, uid }),
                Role::Receiver { slot } => {
                    let Some(member) = state.members.iter().find(|member| member.slot == slot) else {
                        continue;
                    };
                    let words = member.words();
                    report.receivers.push(ReceiverReport {
                        slot: slot as u32,
                        pid,
                        uid,
                        policy: member.policy,
                        asleep: words.arm.load(Ordering::Relaxed) & 3 != 0,
                        lag_bytes: report.position.saturating_sub(words.cursor.load(Ordering::Relaxed)),
                        received: words.received.load(Ordering::Relaxed),
                        lost_messages: words.lost_messages.load(Ordering::Relaxed),
                    });
                }
                Role::Visitor => {}
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
        for receiver in &self.receivers {
            let [kind, deadline] = receiver.policy.to_words();
            let [lag, received, lost] =
                [receiver.lag_bytes, receiver.received, receiver.lost_messages].map(split);
            let first =
                [2, receiver.slot, receiver.pid, receiver.uid, kind, deadline, u32::from(receiver.asleep)];
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
            2 => self.receivers.push(ReceiverReport {
                slot: words[1],
                pid: words[2],
                uid: words[3],
                policy: Policy::from_words([words[4], words[5]])
                    .ok_or_else(|| Error::invalid("answer", "a receiver with an unknown policy"))?,
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
            receivers: vec![ReceiverReport {
                slot: 255,
                pid: 12,
                uid: 13,
                policy: Policy::Deadline(std::time::Duration::from_millis(20)),
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
