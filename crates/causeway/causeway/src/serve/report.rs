//! A report on a group: its publishers and subscribers, how far behind each subscriber is, and what it has lost.

use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_os::socket::Liveness;

use crate::error::{Error, Result};
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::word::PUBLISHERS_MAX;
use crate::options::Policy;
use crate::request::Request;
use crate::wire::{ANSWER_TIME, Message, Op, answer, ask, from_halves, halves};

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
    /// Format of the log: see [`GroupOptions::format`](crate::GroupOptions::format).
    pub format: u32,
    /// How many logs the group has had before this one.
    pub epoch: u64,
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
    /// How the server notices its end.
    pub liveness: Liveness,
    /// The subscriber for which it waits at this moment, and how long ago that one began to keep it waiting. The publisher states it itself.
    pub waits_for: Option<(u32, Duration)>,
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
    /// How the server notices its end.
    pub liveness: Liveness,
    /// What happens when it falls behind.
    pub policy: Policy,
    /// Whether it sleeps, on the futex or on its descriptor.
    pub asleep: bool,
    /// Whether it missed its deadline, so that publishers no longer wait for it.
    pub demoted: bool,
    /// Bytes of log that it has not read yet and that are still there.
    pub lag_bytes: u64,
    /// Messages received.
    pub received: u64,
    /// Messages lost.
    pub lost_messages: u64,
}

/// The number of the row of the subscriber in slot 0; that of a publisher is its slot.
const FIRST_SUBSCRIBER_ROW: u32 = PUBLISHERS_MAX as u32;
/// The numbers of rows end here.
const ROW_NUMBERS: u32 = FIRST_SUBSCRIBER_ROW + SUBSCRIBERS_MAX as u32;
/// Rows in one answer, without that of the group.
const ROWS_PER_ANSWER: usize = 64;

impl Report {
    /// The answer to a request for the rows from number `from` on: the words of the group, some rows, and an end with the
    /// number from which to request the next, 0 after the last. So few that they fit the smallest buffer of a socket.
    pub(super) fn to_messages(&self, from: u32) -> Vec<Message> {
        let [capacity, position, messages, epoch] =
            [self.capacity_bytes, self.position, self.messages, self.epoch].map(halves);
        let group = [[0, 0], capacity, position, messages, [self.format, 0], epoch].concat();
        let publisher_row = |publisher: &PublisherReport| {
            let slot = u32::from(publisher.slot);
            let (subscriber, since) = publisher.waits_for.map_or((0, 0), |(one, since)| {
                (one + 1, u32::try_from(since.as_millis()).unwrap_or(u32::MAX))
            });
            (
                slot,
                Message::new(
                    Op::Row,
                    &[
                        1,
                        slot,
                        publisher.pid,
                        publisher.uid,
                        subscriber,
                        since,
                        liveness_word(publisher.liveness),
                    ],
                ),
            )
        };
        let subscriber_row = |subscriber: &SubscriberReport| {
            let [kind, deadline] = subscriber.policy.to_words();
            let [lag, received, lost] =
                [subscriber.lag_bytes, subscriber.received, subscriber.lost_messages].map(halves);
            let SubscriberReport { slot, pid, uid, liveness, asleep, demoted, .. } = *subscriber;
            let bits = u32::from(asleep) | u32::from(demoted) << 1 | liveness_word(liveness) << 2;
            let first = [2, slot, pid, uid, kind, deadline, bits];
            let row = Message::new(Op::Row, &[&first[..], &lag, &received, &lost].concat());
            (FIRST_SUBSCRIBER_ROW + slot, row)
        };
        let (publishers, subscribers) = (self.publishers.iter(), self.subscribers.iter());
        let mut rows = publishers.map(publisher_row).chain(subscribers.map(subscriber_row));
        let mut rows = rows.by_ref().skip_while(|(number, _)| *number < from);
        let mut answer = vec![Message::new(Op::Row, &group)];
        answer.extend(rows.by_ref().take(ROWS_PER_ANSWER).map(|(_, row)| row));
        let next = rows.next().map_or(0, |(number, _)| number);
        answer.push(Message::new(Op::End, &[next]));
        answer
    }

    /// Requests all rows from the server at the other end of `socket`.
    pub(crate) fn request(socket: &OwnedFd) -> Result<Report> {
        let (mut report, mut from) = (Report::default(), 0);
        loop {
            let (mut row, _) = ask(socket, Request::Report { from })?;
            while row.op == Op::Row {
                report.add_row(row)?;
                (row, _) = answer(socket, Some(ANSWER_TIME))?;
            }
            match (row.op, row.words[0]) {
                (Op::End, 0) => return Ok(report),
                (Op::End, next) if (from + 1..ROW_NUMBERS).contains(&next) => from = next,
                (other, next) => {
                    let why = format!("{other:?} {next} in a report from {from}");
                    return Err(Error::invalid("answer", why));
                }
            }
        }
    }

    /// Adds one row of a report.
    fn add_row(&mut self, row: Message) -> Result<()> {
        let words = row.words;
        let join = |at: usize| from_halves([words[at], words[at + 1]]);
        match words[0] {
            0 => {
                (self.capacity_bytes, self.position, self.messages) = (join(2), join(4), join(6));
                (self.format, self.epoch) = (words[8], join(10));
            }
            1 => self.publishers.push(PublisherReport {
                slot: words[1] as u8,
                pid: words[2],
                uid: words[3],
                liveness: liveness_of(words[6]),
                waits_for: words[4].checked_sub(1).map(|one| (one, Duration::from_millis(words[5].into()))),
            }),
            2 => self.subscribers.push(SubscriberReport {
                slot: words[1],
                pid: words[2],
                uid: words[3],
                liveness: liveness_of(words[6] >> 2),
                policy: Policy::from_words([words[4], words[5]])
                    .ok_or_else(|| Error::invalid("answer", "a subscriber with an unknown policy"))?,
                asleep: words[6] & 1 != 0,
                demoted: words[6] & 2 != 0,
                lag_bytes: join(7),
                received: join(9),
                lost_messages: join(11),
            }),
            other => return Err(Error::invalid("answer", format!("a row of unknown kind {other}"))),
        }
        Ok(())
    }
}

fn liveness_word(liveness: Liveness) -> u32 {
    match liveness {
        Liveness::Unknown => 0,
        Liveness::PeerPidfd => 1,
        Liveness::Pidfd => 2,
        Liveness::Socket => 3,
    }
}

/// Of two bits; others may mean something else one day.
fn liveness_of(word: u32) -> Liveness {
    [Liveness::Unknown, Liveness::PeerPidfd, Liveness::Pidfd, Liveness::Socket][word as usize & 3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_wire() {
        let subscriber = |slot| SubscriberReport {
            slot,
            pid: 12,
            uid: 13,
            liveness: if slot % 3 == 0 { Liveness::Pidfd } else { Liveness::Socket },
            policy: Policy::DemoteAfter(std::time::Duration::from_millis(20)),
            asleep: true,
            demoted: slot % 2 == 0,
            lag_bytes: 1 << 33,
            received: u64::MAX,
            lost_messages: 5,
        };
        let report = Report {
            capacity_bytes: 1 << 30,
            position: 1 << 40,
            messages: 77,
            format: 2,
            epoch: 3 << 32,
            publishers: vec![PublisherReport {
                slot: 3,
                pid: 10,
                uid: 11,
                liveness: Liveness::PeerPidfd,
                waits_for: Some((4, Duration::from_millis(5))),
            }],
            subscribers: (0..1024).filter(|slot| slot % 7 != 0).map(subscriber).collect(),
        };
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        let back = std::thread::scope(|scope| {
            let requested = scope.spawn(|| Report::request(&near));
            let mut next = 0;
            loop {
                let (request, _) = answer(&far, Some(ANSWER_TIME)).unwrap();
                assert_eq!((request.op, request.words[0]), (Op::Stat, next));
                let messages = report.to_messages(next);
                assert!(messages.len() <= ROWS_PER_ANSWER + 2, "{} messages", messages.len());
                messages.iter().for_each(|message| message.send(&far, &[]).unwrap());
                next = messages.last().unwrap().words[0];
                if next == 0 {
                    break requested.join().unwrap().unwrap();
                }
            }
        });
        assert_eq!(back, report);
    }

    #[test]
    fn a_server_that_never_ends_a_report_is_refused() {
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        for next in [7, 7] {
            Message::new(Op::End, &[next]).send(&far, &[]).unwrap();
        }
        let refused = Report::request(&near).unwrap_err().to_string();
        assert!(refused.contains("in a report from 7"), "{refused}");
    }
}
