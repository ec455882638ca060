//! Who is blamed for a full log.
//!
//! The subscriber furthest behind was demoted once the log had been full for its deadline, whatever kept it full: the
//! unfinished message of a publisher (all subscribers had read everything), or a slower subscriber that left just before
//! (its time was charged to the next, within 40 µs of joining), or a large message that found no space among small ones.

use std::time::{Duration, Instant};

use causeway::{Group, Policy, Subscriber, TryPublishError};

use crate::common::{drain, eventually, fill, small, trio};

const DEADLINE: Duration = Duration::from_millis(20);
/// Several times the deadline: long enough for the innocent to be blamed.
const LONGER: Duration = Duration::from_millis(100);

fn is_demoted(subscriber: &mut Subscriber) -> bool {
    subscriber.health().unwrap().demoted
}

#[test]
fn a_subscriber_is_not_blamed_for_the_unfinished_message_of_a_publisher() {
    let group = Group::create("loan", small().several_publishers()).unwrap();
    let (mut holder, mut publisher) = (group.publisher().unwrap(), group.publisher().unwrap());
    let mut innocent = group.subscribe(Policy::DemoteAfter(DEADLINE)).unwrap();
    let loan = holder.try_loan(8).unwrap();
    fill(&mut publisher, b"x");
    drain(&mut innocent);
    let start = Instant::now();
    while start.elapsed() < LONGER {
        assert!(matches!(publisher.try_publish(b"y"), Err(TryPublishError::Full)));
    }
    assert!(!is_demoted(&mut innocent), "it has read everything that is complete");
    loan.commit().unwrap();
    drain(&mut innocent);
    publisher.try_publish(b"z").unwrap();
}

#[test]
fn a_subscriber_is_not_charged_for_the_time_of_the_one_before_it() {
    let (group, mut publisher, mut slow) = trio(small(), Policy::Reliable);
    fill(&mut publisher, b"x");
    let start = Instant::now();
    while start.elapsed() < LONGER {
        assert!(matches!(publisher.try_publish(b"y"), Err(TryPublishError::Full)));
    }
    // Hours are longer than any test: it is demoted only if the time of the other one counts as some of its own.
    let mut newcomer = group.subscribe(Policy::DemoteAfter(Duration::from_secs(3600))).unwrap();
    let mut strict = group.subscribe(Policy::DemoteAfter(DEADLINE)).unwrap();
    drain(&mut slow);
    let before = Instant::now();
    while publisher.try_publish(b"z").is_ok() {}
    let since = before.elapsed();
    // The log is full again, and the two that have not read are the slowest now.
    assert!(since >= DEADLINE || !is_demoted(&mut strict), "demoted {since:?} after it was first waited for");
    assert!(!is_demoted(&mut newcomer));
    drain(&mut slow);
    drain(&mut newcomer);
    eventually("a subscriber that never reads is not demoted", || {
        drain(&mut slow);
        drain(&mut newcomer);
        let _ = publisher.try_publish(b"z").is_ok();
        is_demoted(&mut strict)
    });
}

#[test]
fn a_subscriber_that_reads_on_is_not_blamed_when_a_large_message_starves() {
    let group = Group::create("starved", small().several_publishers()).unwrap();
    let (mut publisher, mut others) = (group.publisher().unwrap(), group.publisher().unwrap());
    let mut reader = group.subscribe(Policy::DemoteAfter(DEADLINE)).unwrap();
    fill(&mut others, b"small");
    let (start, mut longest_stop) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < LONGER {
        let stop = Instant::now();
        // What the reader frees goes to small messages, so that the large one never fits.
        assert!(matches!(publisher.try_publish(&[0; 1024]), Err(TryPublishError::Full)));
        assert!(reader.try_recv().is_ok(), "it was overtaken");
        // Until the log is full, which it never is once the reader was demoted: because this thread had to stop for that long.
        while others.try_publish(b"small").is_ok() && !is_demoted(&mut reader) {}
        longest_stop = longest_stop.max(stop.elapsed());
        if is_demoted(&mut reader) {
            break;
        }
    }
    assert!(longest_stop >= DEADLINE || !is_demoted(&mut reader), "its longest stop was {longest_stop:?}");
}
