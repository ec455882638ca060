//! Who gets the broadcasts.

use super::facts::{BROAD, RecipientClass, Recipients as RecipientFacts, SignalRecipients};
use super::tally::{Tally, greatest};
use crate::bus::Coverage;
use crate::symbols::Sym;
use rustc_hash::FxHashMap;

#[derive(Debug, Default)]
pub(super) struct Recipients {
    broadcasts: u64,
    deliveries: u64,
    unwanted: u64,
    /// Messages for one connection, and copies for those that eavesdrop.
    single: u64,
    histogram: FxHashMap<u64, u64>,
    /// Without the names, which are the keys.
    signals: FxHashMap<(Sym, Sym), SignalRecipients>,
    pub woken: Tally<Sym>,
}

impl Recipients {
    pub fn broadcast(&mut self, interface: Sym, member: Sym, recipients: &[Sym], bytes: u64) {
        let count = recipients.len() as u64;
        self.broadcasts += 1;
        self.deliveries += count;
        self.unwanted += u64::from(count == 0);
        *self.histogram.entry(count).or_default() += 1;
        let signal = self.signals.entry((interface, member)).or_default();
        signal.signals += 1;
        signal.deliveries += count;
        signal.most_recipients = signal.most_recipients.max(count);
        signal.broad += u64::from(count > BROAD);
        *signal.unwanted.get_or_insert(0) += u64::from(count == 0);
        for recipient in recipients {
            self.woken.add(*recipient, bytes);
        }
    }

    /// A message for one connection, or for the driver, which is the bus itself.
    pub fn single(&mut self, is_for_driver: bool, eavesdroppers: usize) {
        self.single += u64::from(!is_for_driver) + eavesdroppers as u64;
    }

    pub fn finish(self, coverage: Coverage, messages: u64, name: impl Fn(Sym) -> String) -> RecipientFacts {
        let is_complete = coverage.is_complete();
        let classes = self.histogram.into_iter();
        let mut histogram: Vec<RecipientClass> =
            classes.map(|(recipients, signals)| RecipientClass { recipients, signals }).collect();
        histogram.sort_by_key(|class| class.recipients);
        let signals = self.signals.into_iter().map(|((interface, member), signal)| SignalRecipients {
            interface: name(interface),
            member: name(member),
            unwanted: signal.unwanted.filter(|_| is_complete),
            ..signal
        });
        let tie = |row: &SignalRecipients| {
            (std::cmp::Reverse(row.signals), row.interface.clone(), row.member.clone())
        };
        let signals: Vec<SignalRecipients> = signals.collect();
        let broad = signals.iter().filter(|row| row.most_recipients > BROAD).cloned();
        RecipientFacts {
            coverage,
            peak_recipients: histogram.last().map_or(0, |class| class.recipients),
            broadest: greatest(broad, |row| row.most_recipients, tie),
            broadcasts: self.broadcasts,
            deliveries: self.deliveries,
            histogram,
            signals: greatest(signals, |row| row.deliveries, tie),
            unwanted: is_complete.then_some(self.unwanted),
            woken: self.woken.rows(&name),
            wakeups_at_most: is_complete.then_some(messages + self.single + self.deliveries),
        }
    }
}
