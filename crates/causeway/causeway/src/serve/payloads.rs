//! Requests for files of payloads that are published by reference.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::net::sockopt;

use super::payload_files::Reader;
use super::places::Share;
use super::state::{Answer, NOTICES_BYTES, Role, State};
use crate::error::Refusal;
use crate::log::Memory;
use crate::log::wait::WaitingSubscriber;
use crate::trust::Trust;
use crate::wire::{FINGERPRINT_OF_LARGE_PAYLOADS, Message, Op};

impl State {
    /// Makes a connection that of a pool, if it may publish.
    pub(super) fn open_pool(&mut self, token: u64, [kind, files]: [u32; 2]) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        if !connection.local && !self.options.publishers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        if self.options.fingerprint != FINGERPRINT_OF_LARGE_PAYLOADS {
            return Err(Refusal::OtherType);
        }
        let is_sealed = match kind {
            0 | 1 => kind == 1,
            2 => self.options.effective_trust() == Trust::Strangers,
            _ => return Err(Refusal::NotUnderstood),
        };
        self.drop_ended_pools();
        let number = self.files.open_pool(is_sealed, files)?;
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Pool { number };
        }
        self.send_to(token, Message::new(Op::Granted, &[number, u32::from(is_sealed)]));
        Ok(())
    }

    pub(super) fn allocate_payload_file(&mut self, token: u64, number: u32, bytes: u64) -> Answer {
        let (index, fd) = self.files.allocate(number, bytes)?;
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let granted = Message::new(Op::Granted, &[index]);
        granted.send(&connection.socket, &[fd.as_fd()]).map_err(|_| {
            self.files.forget(number, index);
            Refusal::Exhausted
        })
    }

    pub(super) fn send_payload_file(&mut self, token: u64, slot: usize, [number, index]: [u32; 2]) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let subscriber =
            self.subscribers.iter().find(|one| one.slot == slot).ok_or(Refusal::NotUnderstood)?;
        let demoted = self.log.tail().demoted[slot].load(Ordering::Relaxed) == subscriber.generation;
        let is_waited_for = subscriber.policy.holds_space() && !demoted;
        let is_bounded = !is_waited_for || matches!(connection.share, Some(Share::User(_)));
        // What it does not read takes descriptors of this user: no more than a few.
        let _ = sockopt::set_socket_send_buffer_size(&connection.socket, NOTICES_BYTES);
        let fd = self.files.fetch(number, index, Reader { token, is_bounded })?;
        // One that asks and does not read goes without.
        let _ = Message::new(Op::Granted, &[number, index]).send(&connection.socket, &[fd.as_fd()]);
        self.drop_ended_pools();
        Ok(())
    }

    /// The publisher of a pool has left. Every reference that it published lies less than a capacity beyond a boundary that is known.
    pub(super) fn end_pool(&mut self, number: u32) {
        let known = self.log.tail().hint.load(Ordering::Acquire);
        self.files.end_pool(number, known.saturating_add(self.log.capacity_bytes()));
        self.drop_ended_pools();
    }

    fn drop_ended_pools(&mut self) {
        let demoted = &self.log.tail().demoted;
        let waited_for = self.subscribers.iter().filter(|one| {
            one.policy.holds_space() && demoted[one.slot].load(Ordering::Relaxed) != one.generation
        });
        let lowest = waited_for.map(|one| one.words().cursor.load(Ordering::Acquire)).min();
        self.files.drop_ended(lowest.unwrap_or(u64::MAX));
    }
}
