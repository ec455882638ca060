//! A subscriber that does not read: how long publishers wait for it is the creator's decision.

use std::path::Path;
use std::time::Duration;

use causeway::{Access, Error, Group, GroupOptions, Policy, Publisher, RecvTimeoutError, Refusal};

use super::{STRANGER, as_user, public_group, until_all_have_left};
use crate::common::wire::{Joined, connect};
use crate::common::{LONG, fill, served, small};

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
