//! Which services there are, as files say. Threads read them: what is to be known waits for that, under the names that
//! it is about.

use std::collections::VecDeque;
use std::path::PathBuf;

use causeway_dbus_wire::wire::Body;

use super::waiters::Outcome;
use super::work::TOLD;
use super::{Action, Bus, DRIVER};
use crate::activation::{ALL_NAMES, ALREADY_RUNNING, Phase, Waiting};
use crate::log::log;
use crate::service_file::Services;

/// Names that a thread looks up at once.
const NAMES_MAX: usize = 1024;

/// Files of services that are read, and the names for which they are.
#[derive(Debug)]
pub struct LookUp {
    services: Services,
    names: Vec<String>,
    warnings: Vec<String>,
    /// Of which configuration.
    generation: u64,
}

impl LookUp {
    /// Reads what may have changed. It may wait.
    pub fn done(mut self) -> LookUp {
        self.warnings = self.services.look_up(&self.names);
        self
    }
}

/// What is known of services, and what is asked.
#[derive(Debug)]
pub struct Known {
    /// Nothing while a thread looks names up in it.
    services: Option<Services>,
    /// Names that were looked up, and whose answers are due.
    found: VecDeque<String>,
    /// How often other folders were set.
    generation: u64,
}

impl Known {
    /// Nothing yet of these folders.
    pub fn unread(folders: &[PathBuf]) -> Known {
        let services = Some(Services::unread(folders));
        Known { services, found: VecDeque::new(), generation: 0 }
    }

    /// From now on these are the services; what a thread still reads of others does not count. Returns the names to be
    /// looked up in these.
    pub fn replace(&mut self, services: Services) -> VecDeque<String> {
        self.generation += 1;
        self.services = Some(services);
        std::mem::take(&mut self.found)
    }

    /// Are answers due?
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }
}

impl Bus {
    /// Has the files read for the first time, for what is wrong with them.
    pub(crate) fn read_services(&mut self) {
        if let Some(services) = self.known.services.take() {
            let generation = self.known.generation;
            let look_up = LookUp { services, names: Vec::new(), warnings: Vec::new(), generation };
            self.push_action(Action::LookUp(look_up));
        }
    }

    /// Has a name looked up for what waits for it, or all.
    pub(super) fn ask_for(&mut self, name: &str, waiting: Waiting) {
        let limit = self.config.limits.service_start;
        self.starts.begin(name, Phase::LookedUp, self.now, limit, waiting);
        self.look_up();
    }

    /// Does no file provide this name, as far as that need not be looked up?
    pub(super) fn is_known_to_lack(&self, name: &str) -> bool {
        self.known.services.as_ref().is_some_and(|services| services.is_known_to_lack(name, self.now))
    }

    /// Has names looked up that are asked for, if no thread does so now.
    fn look_up(&mut self) {
        // Answers come first: they are from the services as they were found for them.
        if self.known.services.is_none() || self.known.has_found() {
            return;
        }
        let names = self.starts.take_asked(NAMES_MAX);
        if !names.is_empty()
            && let Some(services) = self.known.services.take()
        {
            let generation = self.known.generation;
            self.push_action(Action::LookUp(LookUp { services, names, warnings: Vec::new(), generation }));
        }
    }

    /// Files have been read.
    pub fn looked_up(&mut self, LookUp { services, names, warnings, generation }: LookUp) {
        if generation == self.known.generation {
            self.known.services = Some(services);
            self.known.found.extend(names);
            warnings.iter().for_each(|warning| log(warning));
        } else {
            self.starts.ask_again(names);
        }
        self.answer_lookups();
        self.settle();
    }

    /// Answers who waits for names that were looked up, as far as the steps of this turn go.
    pub(super) fn answer_lookups(&mut self) {
        while let Some(name) = self.known.found.pop_front() {
            // What waited for it may have ended meanwhile.
            if self.starts.phase(&name) == Some(&Phase::LookedUp) {
                self.answer_lookup(&name);
            }
            if !self.step(TOLD) {
                break;
            }
        }
        self.look_up();
    }

    fn answer_lookup(&mut self, name: &str) {
        let services = self.known.services.as_ref().expect("answers come before the next look");
        if name == ALL_NAMES {
            let names: Vec<&str> = std::iter::once(DRIVER).chain(services.names()).collect();
            return self.answer_all(name, Body::default().texts(&names));
        }
        let service = services.get(name).cloned();
        match service {
            // Only a name that a file provides is a service's, even if a connection owns it.
            Some(_) if self.resolve(name).is_some() => {
                self.answer_all(name, Body::default().u32(ALREADY_RUNNING));
            }
            Some(service) => {
                let denied = self.starts.take_denied(name);
                self.tell_waiting(denied, Outcome::Denied);
                if self.starts.is_wanted(name) {
                    self.begin_start(name, service);
                } else {
                    drop(self.starts.end(name));
                }
            }
            None => self.refuse_unprovided(name),
        }
    }

    /// Answers the calls that wait under a name.
    fn answer_all(&mut self, name: &str, body: Body) {
        let waiting = self.starts.end(name);
        self.tell_waiting(waiting, Outcome::Answer(body));
    }

    /// No file provides this name: what waits for it fails.
    fn refuse_unprovided(&mut self, name: &str) {
        let waiting = self.starts.end(name);
        self.tell_waiting(waiting, Outcome::NoService(name.into()));
    }

    /// A call asks for all names that files provide programs for now.
    pub(crate) fn list_services(&mut self, waiting: Waiting) {
        if let Err(waiting) = self.starts.join(ALL_NAMES, waiting) {
            self.ask_for(ALL_NAMES, waiting);
        }
    }
}
