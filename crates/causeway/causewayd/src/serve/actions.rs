//! What the bus has decided is done, outside of it.

use super::{KEPT_ACTIONS, Server};
use crate::bus::Action;

impl Server {
    /// Does what the bus has left to be done.
    pub(super) fn run_actions(&mut self) {
        loop {
            let mut actions = self.bus.take_actions(std::mem::take(&mut self.emptied));
            if actions.is_empty() {
                self.emptied = actions;
                return;
            }
            if self.is_read_natively() {
                self.enqueue(actions);
                self.run_queue();
            } else {
                actions.drain(..).for_each(|action| self.do_now(action));
                self.emptied = actions;
                self.emptied.shrink_to(KEPT_ACTIONS);
            }
        }
    }

    pub(super) fn do_now(&mut self, action: Action) {
        match action {
            Action::Deliver(id, message) => self.clients.deliver(id, message, self.now),
            Action::Append { .. } => {}
            Action::UpdateDirectory(update) => self.update_directory(&update),
            Action::Disconnect(id, end, who) => {
                self.log_eviction(id, &who, &end);
                self.remove_client(id);
                self.evict(id, &end.to_string());
            }
            Action::Report(call) => self.report(call),
            Action::LookUp(look_up) => self.blocking.look_up(look_up),
            Action::Reload => self.blocking.configure(self.bus.load()),
            Action::Start { number, command, environment } => {
                let launcher = self.children.begin(number);
                self.blocking.launch(number, command, environment, launcher);
            }
            Action::Kill(number) => self.children.kill(number),
        }
    }
}
