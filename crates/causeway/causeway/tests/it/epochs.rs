//! Publishers that join at any time, and logs that are resized: every message comes once, in one order, or is counted as lost.
//!
//! `CAUSEWAY_EPOCHS_SEED` repeats a run, `CAUSEWAY_EPOCHS_PUBLISHERS` sets how many processes publish in the random ones.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{
    LONG, Peer, Rng, Role, addresses, asleep, eventually, fill, join, kinds, next, nothing, resized, served,
    setting, small, spawn_until_blocked, taken, tally, trio,
};
use causeway::{
    Error, Group, GroupOptions, Policy, PoolOptions, Received, RecvTimeoutError, Refusal, SubscribeOptions,
    Subscriber, Trust, TryPublishError, TryRecvError, Waited,
};

/// Publishes `count` messages of varying length that say who published them and how many before.
fn publish_some(socket: &Path, count: u64) {
    publish_some_to(&join(socket), count);
}

pub fn publish_some_to(group: &Group, count: u64) {
    let mut publisher = group.publisher().unwrap();
    for number in 0..count {
        let published = publisher.publish_timeout(&numbered(number), LONG);
        let _ = published.unwrap_or_else(|error| panic!("message {number}: {error}"));
    }
}

/// The number of this process in the low half, and when it was asked for first in the high half: numbers of processes are used again.
fn own_id() -> u64 {
    static OWN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *OWN.get_or_init(|| u64::from(std::process::id()) | (causeway_os::clock::monotonic_ns() >> 10) << 32)
}

/// A message of this process, of a length that its number decides.
pub fn numbered(number: u64) -> Vec<u8> {
    let own = own_id();
    let mut payload = vec![own as u8; (16 + (number * 37 + own % 300) % 300) as usize];
    payload[..8].copy_from_slice(&own.to_le_bytes());
    payload[8..16].copy_from_slice(&number.to_le_bytes());
    payload
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[("publish-some", publish_some)];

/// What a subscriber has seen.
#[derive(Default)]
pub struct Seen {
    order: DefaultHasher,
    /// Messages of each process, by its number.
    pub of: BTreeMap<u64, u64>,
    /// The number that is expected next in each publisher's slot.
    next_sequence: BTreeMap<u8, u32>,
    position: Option<u64>,
    pub received: u64,
    lost: u64,
    /// It began in the middle: the first message of each process has any number.
    is_late: bool,
}

impl Seen {
    /// Of a subscriber that begins in the middle.
    pub fn late() -> Seen {
        Seen { is_late: true, ..Seen::default() }
    }

    /// Takes one thing that was received. With `all`, nothing may be missing.
    pub fn take(&mut self, received: Received<causeway::Message<'_>>, all: bool) {
        let message = match received {
            Received::Message(message) => message,
            Received::Lost { messages, .. } => {
                assert!(!all, "{messages} messages were lost");
                self.lost += messages;
                return;
            }
            Received::Demoted => return assert!(!all, "demoted"),
        };
        assert!(self.position.is_none_or(|before| before < message.position.0), "positions do not grow");
        self.position = Some(message.position.0);
        self.received += 1;
        let word = |at: usize| u64::from_le_bytes(message.bytes[at..at + 8].try_into().unwrap());
        let (own, number) = (word(0), word(8));
        let (first, first_in_slot) = if self.is_late { (number, message.sequence) } else { (0, 0) };
        let expected = self.of.entry(own).or_insert(first);
        let sequence = self.next_sequence.entry(message.publisher).or_insert(first_in_slot);
        if all {
            assert_eq!((number, message.sequence), (*expected, *sequence), "of process {own}");
        } else {
            assert!(number >= *expected && message.sequence >= *sequence, "of process {own}");
        }
        (*expected, *sequence) = (number + 1, message.sequence + 1);
        assert!(message.bytes[16..].iter().all(|byte| *byte == own as u8), "torn");
        (message.position, message.publisher, message.sequence, message.bytes).hash(&mut self.order);
    }
}

/// How a subscriber of the random tests receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sleeping,
    OnDescriptor,
    Polling,
    Lossy,
}

/// Receives until the end of the group.
fn receive_all(mut subscriber: Subscriber, way: Way) -> Seen {
    let mut seen = Seen::default();
    subscriber.spin_at_most(Duration::ZERO);
    subscriber.sleep_on_descriptor(way == Way::OnDescriptor);
    loop {
        let received = match way {
            Way::Sleeping | Way::OnDescriptor => subscriber.recv_timeout(LONG),
            Way::Polling | Way::Lossy => match subscriber.try_recv() {
                Ok(received) => Ok(received),
                Err(TryRecvError::Empty) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Failed(error)) => panic!("{way:?}: {error}"),
            },
        };
        match received {
            Ok(received) => seen.take(received, way != Way::Lossy),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(error) => panic!("{way:?} after {} messages: {error}", seen.received),
        }
        if way == Way::Lossy && seen.received.is_multiple_of(16) {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    assert_eq!(subscriber.lost_messages(), seen.lost);
    seen
}

const WAYS: [Way; 4] = [Way::Sleeping, Way::OnDescriptor, Way::Polling, Way::Lossy];

/// Subscribes in all ways while `act` runs with the group, which ends after it. Returns what each has seen: the same.
pub fn all_see_the_same(options: GroupOptions, act: impl FnOnce(&Group, &Path)) -> Seen {
    let (_dir, socket, group) = served(options);
    std::thread::scope(|scope| {
        let subscribers = WAYS.map(|way| {
            let policy = if way == Way::Lossy { Policy::Lossy } else { Policy::Reliable };
            let subscriber = group.subscribe(SubscribeOptions::new(policy).from_oldest()).unwrap();
            scope.spawn(move || receive_all(subscriber, way))
        });
        act(&group, &socket);
        drop(group);
        let [first, others @ ..] = subscribers.map(|subscriber| subscriber.join().unwrap());
        for (way, other) in WAYS[1..].iter().zip(&others) {
            assert_eq!(other.received + other.lost, first.received, "{way:?}");
            if *way != Way::Lossy {
                assert_eq!(other.order.finish(), first.order.finish(), "{way:?} saw another order");
            }
        }
        first
    })
}

pub fn seeded() -> Rng {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = setting("CAUSEWAY_EPOCHS_SEED", now.as_nanos() as u64 | 1);
    eprintln!("CAUSEWAY_EPOCHS_SEED={seed}");
    Rng::with_seed(seed)
}

pub fn late() -> GroupOptions {
    small().late_publishers()
}

pub struct OnDrop<'a>(pub &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Publishes in a thread of its own, as a process with number 0, until what this returns is dropped.
pub fn publish_beside<'scope, 'a>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    group: &Group,
    is_over: &'a AtomicBool,
) -> OnDrop<'a>
where
    'a: 'scope,
{
    let mut beside = group.publisher().unwrap();
    scope.spawn(move || {
        for count in (0u64..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
            let payload = [[0; 8], count.to_le_bytes()].concat();
            beside.publish_timeout(&payload, LONG).unwrap();
            if count.is_multiple_of(64) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    OnDrop(is_over)
}

/// Processes join at random moments, a thread publishes beside them, and the log is resized all the time.
fn join_and_resize_at_random(trust: Trust) {
    const MESSAGES: u64 = 300;
    let publishers = setting("CAUSEWAY_EPOCHS_PUBLISHERS", 10);
    let mut random = seeded();
    let is_over = AtomicBool::new(false);
    let seen = all_see_the_same(late().trust(trust), |group, socket| {
        std::thread::scope(|scope| {
            // Whatever goes wrong here, the thread beside ends.
            let _over = publish_beside(scope, group, &is_over);
            let mut peers: Vec<Peer> = Vec::new();
            while peers.len() < publishers as usize || peers.iter_mut().any(|peer| !peer.has_ended()) {
                if peers.len() < publishers as usize && random.u64(..).is_multiple_of(4) {
                    peers.push(Peer::start("publish-some", socket, MESSAGES));
                }
                resized(group, 4096 << random.u64(..5));
                std::thread::sleep(Duration::from_micros(random.u64(..20_000)));
            }
            peers.iter_mut().for_each(Peer::succeed);
        });
    });
    let of_peers: Vec<_> = seen.of.iter().filter(|(process, _)| **process != 0).collect();
    assert_eq!(of_peers.len() as u64, publishers);
    assert!(of_peers.iter().all(|(_, count)| **count == MESSAGES), "{of_peers:?}");
}

#[test]
fn processes_of_one_user_join_and_logs_change_their_size_and_every_message_comes_once_in_one_order() {
    join_and_resize_at_random(Trust::SameUser);
}

#[test]
fn strangers_that_join_and_logs_that_change_their_size_keep_every_message_and_one_order() {
    join_and_resize_at_random(Trust::Strangers);
}

/// Each publisher is killed while others join and the log is resized: some in the middle of a roll.
#[test]
fn publishers_killed_in_the_middle_of_a_roll_stop_nobody() {
    let publishers = setting("CAUSEWAY_EPOCHS_PUBLISHERS", 16);
    let mut random = seeded();
    all_see_the_same(late(), |group, socket| {
        let mut peers: Vec<Peer> = Vec::new();
        for _ in 0..publishers {
            peers.push(Peer::start("publish-some", socket, u64::MAX));
            if peers.len() == 4 {
                let mut victim = peers.remove(random.usize(..4));
                std::thread::scope(|scope| {
                    scope.spawn(|| resized(group, 4096 << random.u64(..3)));
                    std::thread::sleep(Duration::from_micros(u64::from(std::process::id()) % 200));
                    victim.kill();
                });
                victim.wait();
            }
            std::thread::sleep(Duration::from_micros(random.u64(..8000)));
        }
        eventually("no publisher is left that joined last", || {
            !group.report().unwrap().publishers.is_empty()
        });
        drop(peers);
        eventually("dead publishers are not removed", || group.report().unwrap().publishers.is_empty());
    });
}

/// A stopped process can neither map the next log nor answer: the roll goes on without it, and it comes after when it goes on.
#[test]
fn a_stopped_publisher_delays_a_join_for_a_second_at_most_and_joins_the_others_when_it_goes_on() {
    const MESSAGES: u64 = 40_000;
    let seen = all_see_the_same(late(), |group, socket| {
        let mut stopped = Peer::start("publish-some", socket, MESSAGES);
        eventually("the first does not publish", || group.report().unwrap().messages > 10);
        stopped.stop();
        // Not between its claim and its commit, where it would delay subscribers: that is another test's.
        let before = group.report().unwrap().messages;
        let mut other = Peer::start("publish-some", socket, 1);
        other.succeed();
        group.resize(64 << 10).unwrap();
        eventually("the other's message does not come", || group.report().unwrap().messages > before);
        stopped.resume();
        stopped.succeed();
    });
    assert_eq!(seen.received, MESSAGES + 1);
}

/// A log of one publisher rolls with its publisher's own messages.
#[test]
fn the_one_publisher_of_a_group_goes_on_in_a_log_of_another_size() {
    let group = Group::create("one", small()).unwrap();
    group.resize(8192).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    assert_eq!(publisher.payload_bytes_max(), 2048);
    for round in 0..200u64 {
        publisher.try_publish(&round.to_le_bytes()).unwrap();
        group.resize(4096 << (round % 4)).unwrap();
        publisher.try_publish(&vec![7; 1024 << (round % 4)]).unwrap();
        for length in [8, 1024 << (round % 4)] {
            let message = taken(&mut subscriber);
            assert_eq!((message.bytes.len(), message.lost_before), (length, Some(0)));
        }
    }
    assert_eq!(group.report().unwrap().messages, 400);
    drop((group, publisher));
    assert!(matches!(subscriber.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected)));
}

#[test]
fn a_publisher_that_waits_for_space_finds_it_in_a_larger_log() {
    for options in kinds() {
        let (group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        fill(&mut publisher, b"full");
        std::thread::scope(|scope| {
            let waiting = spawn_until_blocked(scope, || publisher.publish_timeout(b"behind", LONG).unwrap());
            group.resize(8192).unwrap();
            waiting.join().unwrap();
        });
        let (count, lost) = tally(&mut subscriber);
        assert!(count >= 4096 / 64 && lost == 0, "{count} messages with the last");
    }
}

/// A subscriber that sleeps on any kind of word or descriptor while the log ends gets the first message of the next one.
#[test]
fn subscribers_that_sleep_through_a_roll_are_woken_in_the_next_log() {
    let all =
        [Trust::SameUser, Trust::Strangers].into_iter().flat_map(|trust| [(trust, false), (trust, true)]);
    for (trust, on_descriptor) in all {
        let (group, mut publisher, mut subscriber) =
            trio(small().several_publishers().trust(trust), Policy::Reliable);
        subscriber.spin_at_most(Duration::ZERO);
        subscriber.sleep_on_descriptor(on_descriptor);
        for round in 0..50u32 {
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| subscriber.wait(Some(LONG)).unwrap());
                eventually("it falls asleep", || asleep(&group) == 1);
                group.resize(4096 << (round % 2)).unwrap();
                eventually("it falls asleep again", || asleep(&group) == 1);
                publisher.try_publish(&round.to_le_bytes()).unwrap();
                assert_eq!(sleeper.join().unwrap(), Waited::Ready, "{trust:?}");
            });
            assert_eq!(taken(&mut subscriber).bytes, round.to_le_bytes());
        }
        // An event loop that is armed before the log ends.
        assert!(subscriber.arm().unwrap() && !subscriber.has_next_log());
        group.resize(4096).unwrap();
        assert_eq!(causeway_os::process::poll(&[subscriber.as_fd()], Some(LONG)).unwrap(), [true]);
        assert!(subscriber.has_next_log());
        assert!(subscriber.arm().unwrap() && !subscriber.has_next_log(), "there is nothing yet");
        publisher.try_publish(b"in the loop").unwrap();
        assert_eq!(causeway_os::process::poll(&[subscriber.as_fd()], Some(LONG)).unwrap(), [true]);
        taken(&mut subscriber);
    }
}

/// Open descriptors of logs with this name, and bytes of addresses of them.
fn open_and_mapped(name: &str) -> (usize, u64) {
    let name = format!("causeway:{name}");
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    (links.filter(|to| to.to_string_lossy().contains(&name)).count(), addresses(&name))
}

#[test]
fn many_rolls_leave_no_log_behind_and_a_subscriber_that_slept_through_them_is_told_what_it_lost() {
    let group = Group::create("many-rolls", small().several_publishers()).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut reliable = group.subscribe(Policy::Reliable).unwrap();
    let mut asleep = group.subscribe(Policy::Lossy).unwrap();
    let before = open_and_mapped("many-rolls");
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    const ROLLS: u32 = 500;
    for round in 0..ROLLS {
        for _ in 0..3 {
            publisher.try_publish(&round.to_le_bytes()).unwrap();
            taken(&mut reliable);
        }
        group.resize(4096).unwrap();
        nothing(&mut reliable);
    }
    publisher.try_publish(b"last").unwrap();
    taken(&mut reliable);
    let after = open_and_mapped("many-rolls");
    // The one that sleeps keeps the log that it has.
    assert!(after.0 <= before.0 + 1, "{after:?} descriptors and bytes after {before:?}");
    assert!(after.1 <= before.1 * 2, "{after:?} descriptors and bytes after {before:?}");
    // The three of its log, and the last.
    assert_eq!(tally(&mut asleep), (3 + 1, u64::from(ROLLS - 1) * 3));
    assert_eq!(group.report().unwrap().messages, u64::from(ROLLS) * 3 + 1);
    assert_eq!(open_and_mapped("many-rolls"), before);
}

#[test]
fn a_subscriber_that_must_lose_nothing_keeps_eight_logs_and_no_more() {
    let (group, mut publisher, mut subscriber) = trio(small().several_publishers(), Policy::Reliable);
    let mut published = 0u32;
    loop {
        publisher.try_publish(&published.to_le_bytes()).unwrap();
        published += 1;
        if !resized(&group, 4096) {
            break;
        }
        assert!(published < 20, "no end of logs");
    }
    for expected in 0..published {
        let message = taken(&mut subscriber);
        assert_eq!((&message.bytes[..], message.lost_before), (&expected.to_le_bytes()[..], Some(0)));
    }
    group.resize(8192).unwrap();
    publisher.try_publish(&[1; 2000]).unwrap();
    taken(&mut subscriber);
}

/// One that does not read would otherwise keep late publishers out for as long as it likes.
#[test]
fn a_subscriber_with_a_deadline_keeps_logs_no_longer_than_that() {
    let (group, mut publisher, mut late) =
        trio(small().several_publishers(), Policy::DemoteAfter(Duration::from_millis(20)));
    const ROLLS: u64 = 20;
    for round in 0..ROLLS {
        publisher.try_publish(&round.to_le_bytes()).unwrap();
        eventually("no log begins any more", || resized(&group, 4096));
    }
    let (received, lost) = tally(&mut late);
    assert_eq!(received + lost, ROLLS);
    assert!(received > 0 && lost > 0 && late.health().unwrap().demoted, "{received} received, {lost} lost");
}

/// A message that is not finished stays in its log, before all messages of the next.
#[test]
fn a_loan_that_is_out_while_the_log_ends_is_published_before_what_comes_after() {
    let group = Group::create("loan", small().several_publishers()).unwrap();
    let mut publishers = [group.publisher().unwrap(), group.publisher().unwrap()];
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    let [first, second] = &mut publishers;
    let mut loan = first.try_loan(600).unwrap();
    loan.fill(1);
    group.resize(8192).unwrap();
    second.try_publish(b"behind").unwrap();
    nothing(&mut subscriber);
    loan.commit().unwrap();
    assert_eq!(taken(&mut subscriber).bytes, [1; 600]);
    assert_eq!(taken(&mut subscriber).bytes, b"behind");
    // One that is left unfinished by a publisher that ends is passed over.
    let loan = publishers[0].try_loan(600).unwrap();
    group.resize(4096).unwrap();
    std::mem::forget(loan);
    let [first, mut second] = publishers;
    second.try_publish(b"after").unwrap();
    drop(first);
    assert_eq!(next(&mut subscriber), b"after");
    assert_eq!(group.report().unwrap().messages, 3);
}

#[test]
fn payloads_by_reference_go_on_in_the_next_log() {
    let group = Group::create("large", small().large_payloads()).unwrap();
    let mut publisher = group.large_publisher(PoolOptions::new(10_000).files(2)).unwrap();
    let mut subscriber = group.large_subscribe(Policy::Reliable).unwrap();
    for round in 0..50u8 {
        let mut loan = publisher.loan(10_000).unwrap();
        loan.fill(round);
        loan.publish().unwrap();
        group.resize(4096 << (round % 2)).unwrap();
        let message = subscriber.recv().unwrap().message().unwrap();
        let mut bytes = vec![0; 10_000];
        message.payload.copy_to(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == round));
    }
}

#[test]
fn a_log_that_cannot_be_resized_says_why_and_stays() {
    let group = Group::create("stays", small().several_publishers()).unwrap();
    let mut publisher = group.publisher().unwrap();
    for capacity in [0, 5000, 1 << 31] {
        let refused = group.resize(capacity).unwrap_err().to_string();
        assert!(refused.contains("power of two"), "{refused}");
    }
    publisher.try_publish(b"x").unwrap();
    let joined = Group::join_socket(group.invite().unwrap()).unwrap();
    assert!(joined.resize(4096).unwrap_err().to_string().contains("creator"));
    // A message that is too long for the smaller log is refused, and only that.
    group.resize(8192).unwrap();
    publisher.try_publish(&[0; 2000]).unwrap();
    group.resize(4096).unwrap();
    publisher.try_publish(b"moved").unwrap();
    let refused = publisher.try_publish(&[0; 2000]);
    assert!(
        matches!(refused, Err(TryPublishError::Failed(Error::TooLong { limit_bytes: 1024, .. }))),
        "{refused:?}"
    );
    assert!(group.evict(publisher.id()).unwrap());
    assert!(matches!(group.resize(4096), Err(Error::Refused(Refusal::Ended))));
}

#[test]
fn without_permission_no_publisher_of_another_process_joins_after_a_subscriber() {
    let group = Group::create("fixed", small().several_publishers()).unwrap();
    let _subscriber = group.subscribe(Policy::Reliable).unwrap();
    let refused = Group::join_socket(group.invite().unwrap()).unwrap().publisher();
    assert!(matches!(refused, Err(Error::Refused(Refusal::PublishersFixed))));
    // And with it none does once the group was dropped.
    let group = Group::create("open", late()).unwrap();
    let invited = Group::join_socket(group.invite().unwrap()).unwrap();
    let mut late = invited.publisher().unwrap();
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    drop(group);
    assert!(matches!(invited.publisher(), Err(Error::Refused(Refusal::Ended))));
    late.try_publish(b"still").unwrap();
    assert_eq!(next(&mut subscriber), b"still");
    drop(late);
    assert!(matches!(subscriber.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected)));
}
