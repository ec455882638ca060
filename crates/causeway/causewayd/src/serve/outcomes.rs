//! What threads have read and started, and programs that have ended.

use rustix::event::epoll::{self, EventFlags};

use super::{Server, Token};
use crate::blocking::Outcome;
use crate::bus::Ended;
use crate::children::Started;

impl Server {
    pub(super) fn take_outcomes(&mut self) {
        for outcome in self.blocking.take() {
            match outcome {
                Outcome::LookedUp(look_up) => self.bus.looked_up(look_up),
                Outcome::Configured(read) => self.bus.reloaded(*read),
                Outcome::Launched(number, launched) => self.take_launched(number, launched),
            }
            self.run_actions();
        }
    }

    fn take_launched(&mut self, number: u64, launched: Result<Started, String>) {
        // The time of its start may be over.
        if !self.children.settle_launch(number) {
            return launched.into_iter().for_each(|started| self.blocking.end(started));
        }
        if let Err(why) = launched.and_then(|started| self.watch(number, started)) {
            self.bus.service_ended(number, &Ended::NotStarted(why));
        }
    }

    /// Looks after a program that was started until it ends.
    fn watch(&mut self, number: u64, started: Started) -> Result<(), String> {
        let pidfd = self.children.add(number, started);
        let added = epoll::add(&self.epoll, pidfd, Token::Child(number).data(), EventFlags::IN);
        added.map_err(|error| {
            self.children.abandon(number).into_iter().for_each(|started| self.blocking.end(started));
            error.to_string()
        })
    }

    pub(super) fn reap(&mut self, number: u64) {
        if let Some(ended) = self.children.reap(number) {
            self.bus.service_ended(number, &ended);
            self.run_actions();
        }
    }
}
