//! Reading the configuration again. A thread reads it; who asks meanwhile gets what is read after that.

use std::rc::Rc;

use causeway_dbus_wire::wire::Body;
use rustc_hash::FxHashMap;

use super::{Action, Bus};
use crate::activation::Waiting;
use crate::config::Config;
use crate::error;
use crate::log::log;
use crate::member::MemberId;
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

impl Reload {
    /// A member is gone, and waits no longer. Returns what it sent.
    pub fn remove(&mut self, member: MemberId) -> Vec<Waiting> {
        let all = [&mut self.waiting, &mut self.next].into_iter();
        all.flat_map(|waiting| waiting.extract_if(.., |one| one.sender == Some(member))).collect()
    }
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
        self.act(Action::Reload);
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
        for waiting in std::mem::take(&mut self.reloading.waiting) {
            self.waits_no_more(&waiting);
            match (&outcome, waiting.sender) {
                (Ok(()), _) => self.answer(&waiting, Body::default()),
                (Err(why), Some(sender)) => {
                    self.refuse(sender, &waiting.message.header(), error::FAILED, why);
                }
                (Err(_), None) => {}
            }
        }
        self.reloading.is_running = false;
        if std::mem::take(&mut self.reloading.is_wanted) {
            self.reloading.waiting = std::mem::take(&mut self.reloading.next);
            self.reload(None);
        }
        self.settle();
    }

    /// From now on the bus works with these settings; members keep what they have.
    fn reconfigure(&mut self, config: Config) {
        self.quota.set_limits(config.limits.per_member);
        self.config = config;
        self.policy_changes += 1;
        // Of a user with the same groups all connections have the same rules.
        let mut of_user = FxHashMap::default();
        for member in self.members.values_mut() {
            let identity = &member.identity;
            let (uid, groups) = (identity.credentials.uid, identity.all_groups());
            let rules = of_user.entry((uid, groups.to_vec()));
            let rules = rules.or_insert_with(|| self.config.policy.rules_for(uid, groups));
            member.rules = Rc::clone(rules);
        }
    }
}
