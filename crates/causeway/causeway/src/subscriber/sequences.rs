//! From whom messages were lost.
//!
//! Each message has the number that its publisher gave it. What is missing between two of them is what a subscriber lost of
//! that publisher: the log itself only says how many messages were lost of all.

use crate::log::Frame;
use crate::log::word::PUBLISHERS_MAX;

/// No message of this publisher was seen, so that the number of its next one says nothing. Above every number.
const UNKNOWN: u64 = u64::MAX;

/// The number that is due next of each publisher.
#[derive(Debug)]
pub struct Sequences {
    due: [u64; PUBLISHERS_MAX],
    lost: [u64; PUBLISHERS_MAX],
    /// Whether this subscriber has lost messages that may have been of a publisher not seen before.
    any_lost: bool,
}

impl Default for Sequences {
    fn default() -> Sequences {
        Sequences { due: [UNKNOWN; PUBLISHERS_MAX], lost: [0; PUBLISHERS_MAX], any_lost: false }
    }
}

fn index_of(frame: &Frame) -> usize {
    usize::from(frame.publisher) % PUBLISHERS_MAX
}

impl Sequences {
    /// Takes note of a message that was received. Returns how many of its publisher were lost before it: see
    /// [`Message::lost_before`](crate::Message::lost_before).
    #[inline(always)]
    pub fn receive(&mut self, frame: &Frame) -> Option<u32> {
        let due =
            std::mem::replace(&mut self.due[index_of(frame)], u64::from(frame.sequence.wrapping_add(1)));
        if due == u64::from(frame.sequence) { Some(0) } else { self.receive_after_gap(frame, due) }
    }

    #[cold]
    fn receive_after_gap(&mut self, frame: &Frame, due: u64) -> Option<u32> {
        let lost = self.gap(frame, due);
        self.lost[index_of(frame)] += u64::from(lost.unwrap_or(0));
        lost
    }

    /// What [`Sequences::receive`] would return.
    pub fn lost_before(&self, frame: &Frame) -> Option<u32> {
        self.gap(frame, self.due[index_of(frame)])
    }

    fn gap(&self, frame: &Frame, due: u64) -> Option<u32> {
        match due {
            UNKNOWN => (!self.any_lost).then_some(0),
            // A number that goes back is none that a correct publisher gives.
            due => Some(frame.sequence.wrapping_sub(due as u32)).filter(|gap| *gap <= u32::MAX / 2),
        }
    }

    /// Takes note of a message that was passed over because of its topic. What was lost before it is told with the next
    /// message of its publisher that is received.
    pub fn skip(&mut self, frame: &Frame) {
        let due = &mut self.due[index_of(frame)];
        match *due {
            UNKNOWN if self.any_lost => {}
            UNKNOWN => *due = u64::from(frame.sequence.wrapping_add(1)),
            known => *due = u64::from((known as u32).wrapping_add(1)),
        }
    }

    /// Takes note of a message that counts as lost although its frame was there.
    pub fn lose(&mut self, frame: &Frame) {
        let due = &mut self.due[index_of(frame)];
        if *due == UNKNOWN && !self.any_lost {
            *due = u64::from(frame.sequence);
        }
        self.any_lost = true;
    }

    /// Takes note of a loss.
    pub fn note_loss(&mut self) {
        self.any_lost = true;
    }

    /// Messages of this publisher that were lost, as far as later ones of it have shown.
    pub fn lost_of(&self, publisher: u8) -> u64 {
        self.lost.get(usize::from(publisher)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(publisher: u8, sequence: u32) -> Frame {
        Frame { publisher, sequence, ..Frame::default() }
    }

    #[test]
    fn a_gap_in_the_numbers_of_a_publisher_is_what_it_lost() {
        let mut sequences = Sequences::default();
        // Nothing was lost yet: these joined late, and lack nothing.
        assert_eq!(sequences.receive(&frame(3, 1000)), Some(0));
        assert_eq!(sequences.receive(&frame(4, u32::MAX)), Some(0));
        sequences.note_loss();
        assert_eq!(sequences.lost_before(&frame(3, 1008)), Some(7));
        assert_eq!(sequences.receive(&frame(3, 1008)), Some(7));
        assert_eq!(sequences.receive(&frame(4, 2)), Some(2), "numbers wrap");
        assert_eq!(sequences.receive(&frame(4, 3)), Some(0));
        assert_eq!(sequences.receive(&frame(3, 1019)), Some(10));
        assert_eq!([3, 4, 5, 255].map(|publisher| sequences.lost_of(publisher)), [17, 2, 0, 0]);
    }

    #[test]
    fn of_a_publisher_first_seen_after_a_loss_nothing_is_claimed() {
        let mut sequences = Sequences::default();
        sequences.note_loss();
        assert_eq!(sequences.receive(&frame(0, 7)), None);
        assert_eq!(sequences.receive(&frame(0, 8)), Some(0));
        assert_eq!(sequences.receive(&frame(0, 5)), None, "a number that goes back");
        assert_eq!(sequences.receive(&frame(200, 6)), None, "no such publisher, and no panic");
    }

    #[test]
    fn a_message_whose_payload_is_gone_is_lost_before_the_next_of_its_publisher() {
        let mut sequences = Sequences::default();
        sequences.lose(&frame(1, 40));
        sequences.lose(&frame(1, 41));
        assert_eq!(sequences.receive(&frame(1, 42)), Some(2));
        sequences.lose(&frame(1, 43));
        sequences.lose(&frame(2, 7));
        assert_eq!(sequences.receive(&frame(1, 44)), Some(1));
        assert_eq!(sequences.receive(&frame(2, 8)), None, "others may have been lost before");
        assert_eq!(sequences.lost_of(1), 3);
    }

    #[test]
    fn messages_of_other_topics_are_not_lost() {
        let mut sequences = Sequences::default();
        sequences.skip(&frame(1, 0));
        sequences.skip(&frame(1, 1));
        assert_eq!(sequences.receive(&frame(1, 2)), Some(0));
        sequences.note_loss();
        // 3 and 4 were lost, 5 is of another topic.
        sequences.skip(&frame(1, 5));
        assert_eq!(sequences.receive(&frame(1, 6)), Some(2));
        sequences.skip(&frame(2, 9));
        assert_eq!(sequences.receive(&frame(2, 10)), None);
    }
}
