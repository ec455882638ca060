//! Reading the configuration again. A thread reads it; who asks meanwhile gets what is read after that.

use causeway_dbus_wire::wire::Body;

use super::waiters::Outcome;
use super::{Action, Bus};
use crate::activation::Waiting;
use crate::config::Config;
use crate::error;
use crate::log::log;
use crate::service_file::Services;

/// Who waits for the configuration to be read.
#[derive(Debug, Default)]
pub struct Reload {
    is_running: bool,
    /// What is being read is what they asked for.
    waiting: Vec<Waiting>,
    /// It may have changed since that was begun: it is read once more.
    is_wanted: bool,
    next: Vec<Waiting>,
}

impl Bus {
    /// Has the configuration read again, for a call or a signal.
    pub fn reload(&mut self, asked: Option<Waiting>) {
        if self.reloading.is_running {
            self.reloading.is_wanted = true;
            return self.reloading.next.extend(asked);
        }
        self.reloading.waiting.extend(asked);
        self.reloading.is_running = true;
        self.push_action(Action::Reload);
    }

    /// The configuration was read: it holds from now on. Where it cannot be used, the one before does, and the sentence is logged, too.
    pub fn reloaded(&mut self, read: Result<(Config, Services), String>) {
        let outcome = read.map(|(config, services)| {
            services.warnings.iter().for_each(|warning| log(warning));
            let names = self.known.replace(services);
            self.starts.ask_again(names);
            self.reconfigure(config);
            self.log_warnings();
            self.answer_lookups();
        });
        let outcome = outcome.map_err(|why| format!("the configuration was not reloaded: {why}"));
        if let Err(why) = &outcome {
            log(why);
        }
        let waiting = std::mem::take(&mut self.reloading.waiting);
        let outcome = match outcome {
            Ok(()) => Outcome::Answer(Body::default()),
            Err(why) => Outcome::Refusal(error::FAILED.into(), why.into()),
        };
        self.tell_waiting(waiting, outcome);
        self.reloading.is_running = false;
        if std::mem::take(&mut self.reloading.is_wanted) {
            self.reloading.waiting = std::mem::take(&mut self.reloading.next);
            self.reload(None);
        }
        self.settle();
    }

    /// From now on the bus works with these settings; members keep what they have.
    fn reconfigure(&mut self, mut config: Config) {
        self.room.fit(&mut config.limits);
        self.quota.set_limits(config.limits.per_member);
        self.config = config;
        self.policy_changes += 1;
        self.rules_of.renew(&self.config.policy);
    }
}
