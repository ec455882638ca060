//! A roll waits for subscribers that join.
//!
//! A subscriber is given the present log, maps it, and says that it is ready. A log that ends in between was not kept for it: it would have
//! to try again. One of an older release would make that likely by itself, as the group changes its format when it leaves and again when it
//! is back, each time with a roll that may end its next attempt, too. So a log does not end while somebody joins who was given it; after the
//! time that publishers have to map the next log, it does in any case. Who is not ready by then makes no later roll wait: the log that it
//! was given is not the present one any more.

use super::state::State;

impl State {
    /// Whether the next log waits for subscribers that were given the present one and are not ready.
    pub fn is_roll_held(&self) -> bool {
        let present = self.logs.present.epoch();
        self.logs.next.as_ref().is_some_and(|next| !next.is_overdue)
            && self.subscribers.joining.values().any(|(subscriber, _)| subscriber.epoch == present)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use causeway_os::socket::seqpacket_pair;
    use rustix::event::epoll::{self, CreateFlags};

    use super::*;
    use crate::error::Refusal;
    use crate::log::pages::SubscriberPage;
    use crate::options::{GroupOptions, Policy};
    use crate::serve::connections::{Answer, Origin};

    /// A server whose log subscribers have.
    fn sealed(options: GroupOptions) -> State {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        State::new("held", options.capacity_bytes(4096), epoll).unwrap()
    }

    fn connected(state: &mut State) -> (u64, OwnedFd) {
        let (near, far) = seqpacket_pair().unwrap();
        (state.connect(near, Origin::Local).unwrap(), far)
    }

    /// A subscriber that was given the present log.
    fn joining(state: &mut State) -> (u64, OwnedFd) {
        let (token, far) = connected(state);
        assert_eq!(state.grant_subscriber(token, Policy::Reliable), Ok(true));
        (token, far)
    }

    fn say_ready(state: &mut State, token: u64) -> Answer {
        let (subscriber, page) = &state.subscribers.joining[&token];
        let slot = subscriber.slot;
        SubscriberPage::open_own(page).unwrap();
        state.register(token, slot)
    }

    fn begin_roll(state: &mut State) {
        state.want_log(4096).unwrap();
        let made = state.take_wanted_log().expect("a log is wanted")();
        state.add_log(made).unwrap();
    }

    /// Before, each of them was refused, and so was the next attempt of an older subscriber that its return had made the group roll for.
    #[test]
    fn a_log_does_not_end_before_all_that_were_given_it_are_ready_or_gone() {
        let mut state = sealed(GroupOptions::new().late_publishers());
        let [(first, _a), (second, _b), (gone, _c)] = std::array::from_fn(|_| joining(&mut state));
        begin_roll(&mut state);
        assert!(state.roll_deadline().is_some());
        assert_eq!(say_ready(&mut state, first), Ok(()));
        state.disconnect(gone);
        assert_eq!(state.logs.present.epoch(), 0, "one is not ready");
        assert_eq!(say_ready(&mut state, second), Ok(()));
        assert_eq!((state.logs.present.epoch(), state.roll_deadline()), (1, None));
        // One that is refused is waited for no more, either: its page is not sealed.
        let (refused, _d) = joining(&mut state);
        begin_roll(&mut state);
        let slot = state.subscribers.joining[&refused].0.slot;
        assert_eq!(state.register(refused, slot), Err(Refusal::NotUnderstood));
        assert_eq!(state.logs.present.epoch(), 2);
        let (left, _e) = joining(&mut state);
        begin_roll(&mut state);
        assert_eq!(state.logs.present.epoch(), 2);
        state.disconnect(left);
        assert_eq!(state.logs.present.epoch(), 3);
    }

    #[test]
    fn a_subscriber_that_is_never_ready_makes_one_roll_wait_for_a_limited_time_and_no_other() {
        for options in [GroupOptions::new().late_publishers(), GroupOptions::new()] {
            let mut state = sealed(options);
            let (stopped, _far) = joining(&mut state);
            begin_roll(&mut state);
            state.end_late_rolls();
            assert_eq!(state.logs.present.epoch(), 0, "its time is not over");
            state.logs.next.as_mut().unwrap().deadline = Instant::now();
            state.end_late_rolls();
            assert_eq!(state.logs.present.epoch(), 1);
            begin_roll(&mut state);
            assert_eq!(state.logs.present.epoch(), 2, "it makes no other roll wait");
            assert_eq!(say_ready(&mut state, stopped), Err(Refusal::TooLate));
            // It comes again, as `Group::subscribe` does.
            state.grant_subscriber(stopped, Policy::Reliable).unwrap();
            assert_eq!(say_ready(&mut state, stopped), Ok(()));
        }
    }

    /// Its publisher ends the log when it finds the announcement.
    #[test]
    fn the_one_publisher_of_a_group_is_told_of_the_next_log_when_all_that_join_are_ready() {
        let mut state = sealed(GroupOptions::new());
        let (publisher, _far) = connected(&mut state);
        state.grant_publisher(publisher).unwrap();
        let announced = |state: &State| state.pages.status.words().epoch.load(Ordering::Relaxed);
        let (token, _a) = joining(&mut state);
        begin_roll(&mut state);
        assert!(announced(&state) == 0 && state.roll_deadline().is_some());
        assert_eq!(say_ready(&mut state, token), Ok(()));
        assert!(announced(&state) == 1 && state.roll_deadline().is_none());
        assert_eq!(state.logs.present.epoch(), 0, "it ends with the next message");
        // The next log is exchanged for another one, and one that joins now is waited for until its time is over.
        let (_stopped, _b) = joining(&mut state);
        begin_roll(&mut state);
        state.logs.next.as_mut().unwrap().deadline = Instant::now();
        state.end_late_rolls();
        assert!(announced(&state) == 1 && state.roll_deadline().is_none());
    }
}
