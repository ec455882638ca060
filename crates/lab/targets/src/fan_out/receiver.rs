//! A receiver: every message in order, or the knowledge that it is lost.

use super::multicast::MulticastReceiver;
use super::paced::Dues;
use super::{VERIFIED, acks, burst, message};
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};

pub(super) fn drive(
    end: impl MulticastReceiver,
    caps: Caps,
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
    let touch = message::touch_of(caps, params.touch);
    let mut receiver =
        Receiver::new(end, counters, cx.role, caps.has(Caps::LOSSY), params.payload_bytes, touch);
    cx.set_step(Step::Verify);
    for _ in 0..VERIFIED {
        receiver.verify()?;
    }
    cx.note_step(receiver.next, VERIFIED);
    let burst = burst(params);
    cx.set_ops_each(burst);
    receiver.dues = Dues::new(cx, burst)?;
    let work = |batch: Batch| {
        let from = receiver.next;
        receiver.receive_until(VERIFIED + (batch.first + batch.ops) * burst)?;
        Ok(Tally { came_on: receiver.next - from, ..Tally::default() })
    };
    cx.follow(work, |_| None)?;
    if let Some(dues) = &receiver.dues {
        dues.tell(cx);
    }
    Ok(receiver.end.facts())
}

struct Receiver<'a, E> {
    end: E,
    counters: &'a SharedCounters,
    role: usize,
    is_lossy: bool,
    len: usize,
    touch: Touch,
    /// The first message that is neither received nor known to be lost.
    next: u64,
    /// A message of a later batch, which has come because those before it are lost.
    ahead: Option<u64>,
    lost: u64,
    /// At a rate.
    dues: Option<Dues>,
}

impl<'a, E: MulticastReceiver> Receiver<'a, E> {
    fn new(
        end: E,
        counters: &'a SharedCounters,
        role: usize,
        is_lossy: bool,
        len: usize,
        touch: Touch,
    ) -> Receiver<'a, E> {
        Receiver { end, counters, role, is_lossy, len, touch, next: 0, ahead: None, lost: 0, dues: None }
    }

    fn verify(&mut self) -> io::Result<()> {
        let message = loop {
            if let Some(message) = self.end.take()? {
                break message;
            }
        };
        message::check_all(message, self.len, self.next)?;
        self.account(self.next + 1, self.next + 1)
    }

    #[inline]
    fn receive_until(&mut self, end: u64) -> io::Result<()> {
        while self.next < end {
            let sequence = match self.ahead.take() {
                Some(sequence) => sequence,
                None => match self.receive()? {
                    Some(sequence) => sequence,
                    None => {
                        let lost_before = acks::timed_out_before(self.counters).min(end);
                        if lost_before > self.next {
                            self.lost += lost_before - self.next;
                            self.account(lost_before, end)?;
                        }
                        continue;
                    }
                },
            };
            if sequence >= end {
                self.ahead = Some(sequence);
                self.lost += end - self.next;
                self.account(end, end)?;
            } else if sequence >= self.next {
                self.lost += sequence - self.next;
                self.account(sequence + 1, end)?;
            }
            // What is left came after it had been counted as lost, and stays counted as that.
        }
        Ok(())
    }

    /// The sequence of a message that is as it was sent. `None` when nothing came for a while.
    #[inline]
    fn receive(&mut self) -> io::Result<Option<u64>> {
        let Some(message) = self.end.take()? else { return Ok(None) };
        let sequence = if self.is_lossy { message::sequence(message) } else { self.next };
        message::check(message, self.len, sequence, self.touch)?;
        if let Some(dues) = &mut self.dues {
            dues.arrived(sequence, self.counters);
        }
        Ok(Some(sequence))
    }

    /// Everything before `next` is received or lost. At the `end` of a batch the counts are published first, so that the
    /// sender finds them when it wakes.
    #[inline]
    fn account(&mut self, next: u64, end: u64) -> io::Result<()> {
        let count = next - self.next;
        self.next = next;
        if next == end {
            self.publish();
        }
        acks::acknowledge(self.counters, count)
    }

    fn publish(&mut self) {
        if let Some(dues) = &mut self.dues {
            dues.publish(self.role, self.counters);
        }
        self.counters.set_switches(self.role);
        self.counters.set(self.role, Counter::Lost, self.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out the messages with these numbers; `None` is a pause.
    struct Script(Vec<Option<u64>>, [u8; 8]);

    impl MulticastReceiver for Script {
        fn take(&mut self) -> io::Result<Option<&[u8]>> {
            let Some(sequence) = self.0.remove(0) else { return Ok(None) };
            message::write(&mut self.1, sequence, Touch::All);
            Ok(Some(&self.1))
        }
    }

    fn receiver<'a>(counters: &'a SharedCounters, script: &[Option<u64>]) -> Receiver<'a, Script> {
        Receiver::new(Script(script.to_vec(), [0; 8]), counters, 1, true, 8, Touch::All)
    }

    fn counters() -> SharedCounters {
        SharedCounters::open(SharedCounters::create(2).unwrap(), 2).unwrap()
    }

    #[test]
    fn gaps_are_losses_also_where_they_reach_into_the_next_batch() {
        let counters = counters();
        let mut receiver = receiver(&counters, &[Some(0), Some(3), Some(7), Some(8)]);
        receiver.receive_until(5).unwrap();
        assert_eq!((receiver.next, receiver.lost), (5, 3));
        receiver.receive_until(9).unwrap();
        assert_eq!((receiver.next, receiver.lost), (9, 5));
        assert_eq!(counters.get(1, Counter::Lost), 5);
    }

    #[test]
    fn the_end_of_a_batch_that_is_lost_is_learnt_from_the_sender() {
        let counters = counters();
        let mut acks = acks::Acks::new(&counters, 1, Some(std::time::Duration::from_millis(1)));
        acks.expect(3);
        assert!(!acks.wait(3).unwrap());
        let mut receiver = receiver(&counters, &[Some(0), None, Some(1), Some(3)]);
        receiver.receive_until(3).unwrap();
        assert_eq!((receiver.next, receiver.lost), (3, 2));
        // Message 1 comes late and is not counted twice.
        receiver.receive_until(4).unwrap();
        assert_eq!((receiver.next, receiver.lost), (4, 2));
    }

    #[test]
    fn a_message_that_is_not_the_next_one_is_damage_where_nothing_is_lost() {
        let counters = counters();
        let mut receiver = receiver(&counters, &[Some(0), Some(2)]);
        receiver.is_lossy = false;
        assert!(receiver.receive_until(2).unwrap_err().to_string().contains("message 1"));
    }
}
