//! Requests for files of payloads that are published by reference.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::connections::{Answer, Role};
use super::payload_files::Reader;
use super::places::Share;
use super::state::State;
use super::subscribers::is_waited_for;
use crate::error::Refusal;
use crate::log::Memory;
use crate::request::PoolKind;
use crate::trust::Trust;
use crate::wire::{FINGERPRINT_OF_LARGE_PAYLOADS, Message, Op};

impl State {
    /// Makes a connection that of a pool, if it may publish.
    pub fn open_pool(&mut self, token: u64, kind: Option<PoolKind>, files: u32) -> Answer {
        self.connections.get(token)?.check(&self.options.publishers)?;
        if self.options.fingerprint != FINGERPRINT_OF_LARGE_PAYLOADS {
            return Err(Refusal::OtherType);
        }
        let is_sealed = match kind.ok_or(Refusal::NotUnderstood)? {
            PoolKind::Reused => false,
            PoolKind::Sealed => true,
            PoolKind::ByTrust => self.options.effective_trust() == Trust::Strangers,
        };
        self.drop_ended_pools();
        let number = self.files.open_pool(is_sealed, files)?;
        self.connections.set_role(token, Role::Pool { number });
        self.connections.send(token, Message::new(Op::Granted, &[number, u32::from(is_sealed)]));
        Ok(())
    }

    pub fn allocate_payload_file(&mut self, token: u64, number: u32, bytes: u64) -> Answer {
        let (index, fd) = self.files.allocate(number, bytes)?;
        let connection = self.connections.get(token)?;
        let granted = Message::new(Op::Granted, &[index]);
        connection.send(granted, &[fd.as_fd()]).map_err(|_| {
            self.files.forget(number, index);
            Refusal::Exhausted
        })
    }

    pub fn send_payload_file(&mut self, token: u64, slot: usize, pool: u32, index: u32) -> Answer {
        let connection = self.connections.get(token)?;
        let subscriber = self.subscribers.present.get(slot).ok_or(Refusal::NotUnderstood)?;
        let is_waited_for = is_waited_for(subscriber, self.logs.present.tail());
        let is_bounded = !is_waited_for || matches!(connection.share, Some(Share::User(_)));
        connection.limit_unread();
        let fd = self.files.fetch(pool, index, Reader { token, is_bounded })?;
        // One that asks and does not read goes without.
        let _ = connection.send(Message::new(Op::Granted, &[pool, index]), &[fd.as_fd()]);
        self.drop_ended_pools();
        Ok(())
    }

    /// The publisher of a pool has left. Every reference that it published lies less than a capacity beyond a boundary that is known.
    pub fn end_pool(&mut self, number: u32) {
        let known = self.logs.present.tail().hint.load(Ordering::Acquire);
        self.files.end_pool(number, known.saturating_add(self.logs.present.capacity_bytes()));
        self.drop_ended_pools();
    }

    fn drop_ended_pools(&mut self) {
        let lowest = self.subscribers.lowest_cursor(self.logs.present.tail());
        self.files.drop_ended(lowest.unwrap_or(u64::MAX));
    }
}
