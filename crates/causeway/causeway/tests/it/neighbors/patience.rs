//! A subscriber that does not read: how long publishers wait for it is the creator's decision.

use std::path::Path;
use std::time::{Duration, Instant};

use causeway::{
    Access, Error, Group, GroupOptions, Policy, Publisher, Received, RecvTimeoutError, Refusal,
    TryPublishError, TryRecvError,
};

use super::{STRANGER, as_user, public_group, until_all_have_left};
use crate::common::wire::{Joined, connect};
use crate::common::{LONG, eventually_seen, fill, kinds, served, small, tally, trio};

const RELIABLE: [u32; 2] = [0, 0];
const DEMOTE_AFTER_50_MS: [u32; 2] = [1, 50];
const LOSSY: [u32; 2] = [3, 0];
const TOO_PATIENT: u8 = 9;

/// Subscribes by hand and reads nothing. The reason of the refusal if there is one.
fn subscribe(path: &Path, policy: [u32; 2]) -> Result<Joined, u8> {
    Joined::with_policy(connect(path), policy)
}

fn publish_more_than_fits(publisher: &mut Publisher) {
    for number in 0..200u32 {
        publisher
            .publish_timeout(&number.to_le_bytes(), LONG)
            .unwrap_or_else(|error| panic!("stuck at message {number}: {error}"));
    }
}

/// Before, a stranger chose its policy itself, and one that was reliable and did not read stopped all publishers for ever.
#[test]
fn a_stranger_cannot_make_publishers_wait_for_ever() {
    let (_dir, path, group) = public_group(small().subscribers(Access::AnyUser));
    let mut publisher = group.publisher().unwrap();
    let Some(refused) = as_user(STRANGER, || subscribe(&path, RELIABLE)) else { return };
    assert_eq!(refused.map(drop), Err(TOO_PATIENT));
    let granted = as_user(STRANGER, || subscribe(&path, DEMOTE_AFTER_50_MS)).unwrap();
    publish_more_than_fits(&mut publisher);
    // Once late, it is not waited for again, neither beside its late subscriber nor after that has left.
    let again = || as_user(STRANGER, || subscribe(&path, DEMOTE_AFTER_50_MS)).unwrap().map(drop);
    assert_eq!(again(), Err(TOO_PATIENT));
    drop(granted);
    until_all_have_left(&group);
    assert_eq!(again(), Err(TOO_PATIENT));
    let _lossy = as_user(STRANGER, || subscribe(&path, LOSSY).unwrap()).unwrap();
    publish_more_than_fits(&mut publisher);
    // Another user is not held responsible.
    as_user(STRANGER + 1, || subscribe(&path, DEMOTE_AFTER_50_MS).unwrap()).unwrap();
}

/// Before, there was no bound at all.
#[test]
fn a_bound_for_all_holds_for_the_own_user_too_but_not_in_the_creating_process() {
    let most = Policy::DisconnectAfter(Duration::from_millis(200));
    let (_dir, path, group) = served(GroupOptions::new().most_patient(most));
    let joined = Group::join(&path).unwrap();
    for policy in [Policy::Reliable, Policy::DemoteAfter(Duration::from_millis(201))] {
        let refused = joined.subscribe(policy).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::TooPatient)), "{policy}: {refused}");
    }
    for policy in [most, Policy::DemoteAfter(Duration::from_millis(200)), Policy::Lossy] {
        joined.subscribe(policy).unwrap();
    }
    group.subscribe(Policy::Reliable).unwrap();
}

/// Before, only publishers could be thrown out.
#[test]
fn a_disconnected_subscriber_is_told_and_holds_nobody_up() {
    for remote in [false, true] {
        let group = Group::create("disconnected", small().remote_publishers(u32::from(remote))).unwrap();
        let joined = Group::join_socket(group.invite().unwrap()).unwrap();
        let mut publisher = if remote { &joined } else { &group }.publisher().unwrap();
        let mut stalled = group.subscribe(Policy::Reliable).unwrap();
        fill(&mut publisher, b"unread");
        assert!(!group.disconnect(stalled.id() + 1).unwrap());
        assert!(group.disconnect(stalled.id()).unwrap());
        assert!(!group.disconnect(stalled.id()).unwrap());
        publish_more_than_fits(&mut publisher);
        let told = loop {
            if let Err(error) = stalled.recv_timeout(LONG) {
                break error;
            }
        };
        assert!(matches!(told, RecvTimeoutError::Disconnected), "{told}");
        assert!(matches!(joined.disconnect(0), Err(Error::Invalid { .. })));
    }
}

/// A reader that takes a message now and then, for a publisher that has more to say: a step renewed its deadline, and it set the pace for ever.
#[test]
fn a_step_does_not_renew_a_deadline() {
    const DEADLINE: Duration = Duration::from_millis(100);
    for options in kinds() {
        for policy in [Policy::DemoteAfter(DEADLINE), Policy::DisconnectAfter(DEADLINE)] {
            let (group, mut publisher, mut slow) = trio(options.clone(), policy);
            fill(&mut publisher, b"x");
            let begin = Instant::now();
            let told = loop {
                match slow.try_recv() {
                    Ok(Received::Message(_)) => {}
                    told => break format!("{told:?}"),
                }
                assert!(begin.elapsed() < LONG, "{policy}: publishers still wait");
                for _ in 0..5 {
                    let _ = publisher.publish_timeout(b"x", Duration::from_millis(1)).is_ok();
                }
            };
            let demoted = group.report().unwrap().subscribers.iter().any(|one| one.demoted);
            match policy {
                Policy::DemoteAfter(_) => assert!(demoted && told.contains("Demoted"), "{told}"),
                _ => assert!(told.contains("missed its deadline"), "{told}"),
            }
        }
    }
}

/// Before, the pause of a publisher that was stopped together with its reader counted, and the reader was out when both went on.
#[test]
fn the_time_in_which_a_publisher_was_stopped_itself_does_not_count() {
    for options in kinds() {
        let (_group, mut publisher, mut reader) =
            trio(options, Policy::DemoteAfter(Duration::from_millis(50)));
        fill(&mut publisher, b"x");
        // Neither does anything meanwhile.
        std::thread::sleep(Duration::from_millis(200));
        assert!(matches!(publisher.try_publish(b"y"), Err(TryPublishError::Full)));
        assert!(!reader.health().unwrap().demoted);
        assert!(tally(&mut reader).0 > 0);
    }
}

/// Before, a report named nobody, and showed a lag larger than the log.
#[test]
fn a_report_names_who_is_waited_for_and_who_is_demoted_and_a_subscriber_is_told_once() {
    for options in kinds() {
        let (group, mut publisher, mut slow) = trio(options, Policy::DemoteAfter(Duration::from_millis(100)));
        fill(&mut publisher, b"x");
        let report = group.report().unwrap();
        let waits = report.publishers[0].waits_for.expect("it does not wait");
        assert!(waits.0 == slow.id() && !report.subscribers[0].demoted, "{report:?}");
        let full = eventually_seen("demoted", || publisher.publish_timeout(b"x", LONG), Result::is_ok);
        full.unwrap();
        publish_more_than_fits(&mut publisher);
        let report = group.report().unwrap();
        let subscriber = report.subscribers[0];
        assert!(subscriber.demoted && subscriber.lag_bytes <= report.capacity_bytes, "{report:?}");
        assert_eq!(report.publishers[0].waits_for, None);
        let mut told = 0;
        loop {
            match slow.try_recv() {
                Ok(Received::Demoted) => told += 1,
                Ok(Received::Lost { .. }) => assert_eq!(told, 1, "a loss came first"),
                Ok(Received::Message(_)) => {}
                Err(TryRecvError::Empty) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(told, 1);
    }
}
