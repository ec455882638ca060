//! Subscribers that are about to sleep while others wake them, die, or end the log.

use loom::sync::Arc;
use loom::thread;

use super::log::atomic::{AtomicU32, Ordering, fence};
use super::log::ends::Ends;
use super::log::layout::SubscriberWords;
use super::log::wait::{self, Notes, WaitTarget, Waiter, WaitingSubscriber};
use super::log::{Claimed, Kind, Label, Memory, Writer, server};
use super::{Shared, Sleeping, TARGETS, model, publish, receive, receive_on, spawn};

/// A subscriber that uses a slot after another one, which left armed with the very word that its successor arms first.
#[test]
fn the_successor_of_a_subscriber_that_left_armed_is_woken() {
    model(2, || {
        let shared = Shared::new(256, true, 0);
        let generation = Arc::new(AtomicU32::new(0));
        let successor = {
            let generation = Arc::clone(&generation);
            spawn(&shared, move |shared| {
                generation.store(1, Ordering::SeqCst);
                let mut first = Waiter::new();
                let _ =
                    first.arm(&shared.memory.tail().wake_seq, &shared.subscribers[0], WaitTarget::OwnFutex);
                // Both have a page of their own; publishers know them by slot and generation.
                generation.store(2, Ordering::SeqCst);
                receive(shared, 1, 2)
            })
        };
        let (mut writer, mut known) = (Writer::new(&shared.memory, Kind::Single, 0), Vec::new());
        for value in 0..2u64 {
            let Claimed::At(claim) = shared.claim(&mut writer) else { unreachable!() };
            shared.memory.write_payload(claim.position, &value.to_le_bytes());
            writer.commit(claim, Label::default()).unwrap();
            let present = generation.load(Ordering::Acquire) as usize;
            if present > 0 && known.first().is_none_or(|one: &Sleeping<'_>| one.slot != present - 1) {
                known = vec![Sleeping { slot: present - 1, shared: &shared, notes: Notes::default() }];
            }
            wait::wake_waiters(&shared.memory.tail().wake_seq, &mut known, None, |_| shared.wake_shared());
        }
        assert_eq!(successor.join().unwrap(), [(0, 0), (64, 1)]);
    });
}

/// A subscriber in an event loop.
#[test]
fn one_that_waits_for_its_doorbell_is_rung() {
    model(3, || {
        let shared = Shared::new(256, true, 1);
        let subscriber = spawn(&shared, |shared| {
            let mut count = 0;
            receive_on(shared, 0, WaitTarget::Doorbell, |_| {
                count += 1;
                count < 2
            });
        });
        let mut writer = Writer::new(&shared.memory, Kind::Single, 0);
        (0..2).for_each(|value| publish(&shared, &mut writer, value, 1));
        subscriber.join().unwrap();
    });
}

/// A publisher is killed anywhere between its commit and the end of the wake-up: the server, which sees its death, wakes all.
#[test]
fn a_publisher_that_dies_before_or_during_its_wake_up_leaves_nobody_asleep() {
    #[derive(Clone, Copy, PartialEq)]
    enum Dies {
        BeforeItWakes,
        BetweenWordAndWake,
        AfterTheFirst,
    }
    /// The subscribers as a publisher sees them that dies: its system calls do nothing from then on.
    struct Mortal<'a>(Sleeping<'a>, bool);
    impl WaitingSubscriber for Mortal<'_> {
        fn words(&self) -> &SubscriberWords {
            self.0.words()
        }
        fn ring_doorbell(&mut self) -> bool {
            !self.1 || self.0.ring_doorbell()
        }
        fn wake_own_futex(&mut self) -> bool {
            !self.1 || self.0.wake_own_futex()
        }
        fn notes(&mut self) -> &mut Notes {
            self.0.notes()
        }
    }
    for dies in [Dies::BeforeItWakes, Dies::BetweenWordAndWake, Dies::AfterTheFirst] {
        for target in [WaitTarget::OwnFutex, WaitTarget::Doorbell] {
            model(2, move || {
                let shared = Shared::new(256, false, 2);
                let publisher = spawn(&shared, move |shared| {
                    let mut writer = Writer::new(&shared.memory, Kind::Shared, 0);
                    let Claimed::At(claim) = shared.claim(&mut writer) else { unreachable!() };
                    writer.commit(claim, Label::default()).unwrap();
                    if dies != Dies::BeforeItWakes {
                        let mortal = |slot| {
                            let sleeping = Sleeping { slot, shared, notes: Notes::default() };
                            Mortal(sleeping, dies == Dies::AfterTheFirst)
                        };
                        let wake_seq = &shared.memory.tail().wake_seq;
                        wait::wake_waiters(wake_seq, &mut [mortal(0), mortal(1)], None, |_| true);
                    }
                });
                let subscriber =
                    spawn(&shared, move |shared| receive_on(shared, 1, target, |message| message.is_none()));
                let server = spawn(&shared, |shared| {
                    publisher.join().unwrap();
                    assert!(!server::settle(&shared.memory, 0).unwrap(), "it has committed");
                    fence(Ordering::SeqCst);
                    shared.wake(&shared.memory.tail().wake_seq, 2);
                });
                receive_on(&shared, 0, WaitTarget::SharedFutex, |message| message.is_none());
                subscriber.join().unwrap();
                server.join().unwrap();
            });
        }
    }
}

/// The server ends a log while subscribers are about to sleep in it: each finds the end, or is woken for it.
#[test]
fn nobody_sleeps_through_the_end_of_a_log() {
    model(3, || {
        let logs = Arc::new((Shared::new(256, false, 2), Shared::new(256, false, 2)));
        let until_end = |shared: &Shared, slot| receive_on(shared, slot, TARGETS[slot], |it| it.is_some());
        let subscriber = spawn(&logs, move |logs| until_end(&logs.0, 1));
        let server = spawn(&logs, |logs| {
            let end = server::end_log(&logs.0.memory).unwrap();
            server::begin(&logs.1.memory, Kind::Shared, Some(&logs.0.memory), end);
            fence(Ordering::SeqCst);
            // With the word of the log that has ended, where they sleep.
            logs.0.wake(&logs.0.memory.tail().wake_seq, 2);
        });
        until_end(&logs.0, 0);
        subscriber.join().unwrap();
        server.join().unwrap();
    });
}

/// The thread that sees that all publishers are dead has no word that the kernel compares: it wakes a subscriber until that is awake.
#[test]
fn nobody_sleeps_through_the_death_of_all_publishers() {
    model(3, || {
        let shared = Arc::new((Shared::new(256, true, 1), Ends::default()));
        let watcher = spawn(&shared, |(shared, ends)| {
            ends.learn(1);
            while ends.must_wake() {
                shared.kernel.wake(1);
                thread::yield_now();
            }
        });
        let (log, ends) = &*shared;
        let (tail, mine) = (log.memory.tail(), &log.subscribers[0]);
        let mut sleeper = Waiter::new();
        loop {
            let seen = ends.known();
            ends.announce(seen);
            let armed = sleeper.arm(&tail.wake_seq, mine, WaitTarget::SharedFutex);
            if ends.known() != 0 {
                ends.awake();
                break;
            }
            let still = || tail.wake_seq.load(Ordering::Acquire) == armed.wake_seq;
            ends.sleep(seen, || log.kernel.wait(still, 0));
            sleeper.disarm(mine);
        }
        watcher.join().unwrap();
    });
}
