//! What polling costs, in virtual time.

use std::time::Duration;

use causeway_waiting::polling::{Polling, Step};

use crate::machine::{LONGEST, Scene, Way, run};

const MESSAGES: u64 = 400;

fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for readers in [1, 2, 4, 8, 16] {
        for spread_over_both in [false, true] {
            for rate in [0, 1_000, 5_000] {
                let interval_ns = if rate == 0 { 0 } else { 1_000_000_000 / rate };
                scenes.push(Scene { readers, spread_over_both, interval_ns, hog: false });
            }
        }
    }
    scenes
}

#[test]
fn adapting_is_as_fast_as_the_better_of_sleeping_and_polling() {
    for scene in scenes() {
        let [block, spin, adapt] = [Way::Block, Way::Spin, Way::Adapt].map(|way| run(scene, way, MESSAGES));
        let better = block.message_ns.min(spin.message_ns);
        assert!(adapt.message_ns <= 1.05 * better, "{scene:?}: {adapt:?}, {block:?}, {spin:?}");
    }
}

#[test]
fn where_messages_are_rare_readers_hardly_poll() {
    for scene in scenes().into_iter().filter(|scene| scene.interval_ns > 2 * 150_000) {
        let [block, adapt] = [Way::Block, Way::Adapt].map(|way| run(scene, way, MESSAGES));
        assert!(adapt.reader_cpu_ns <= 1.05 * block.reader_cpu_ns, "{scene:?}: {adapt:?}, {block:?}");
    }
}

#[test]
fn one_reader_with_a_cpu_to_itself_polls() {
    let scene = Scene { readers: 1, spread_over_both: false, interval_ns: 0, hog: false };
    let [block, adapt] = [Way::Block, Way::Adapt].map(|way| run(scene, way, MESSAGES));
    assert!(adapt.message_ns < 0.7 * block.message_ns, "{adapt:?}, {block:?}");
}

/// Who gives up the CPU to a thread that never waits gets it back after a slice.
#[test]
fn beside_a_thread_that_works_readers_sleep() {
    let scene = Scene { readers: 2, spread_over_both: false, interval_ns: 100_000_000, hog: true };
    let [block, adapt] = [Way::Block, Way::Adapt].map(|way| run(scene, way, 300));
    assert!(adapt.message_ns <= 1.05 * block.message_ns, "{adapt:?}, {block:?}");
}

/// What a poll asks for, where each pause between two looks takes as long as `takes` says.
fn steps(polling: &mut Polling, now_ns: &mut u64, takes: impl Fn(Step) -> u64) -> Vec<Step> {
    let (mut poll, mut steps) = (polling.begin(*now_ns, u64::MAX), Vec::new());
    loop {
        let step = polling.step(&mut poll, *now_ns);
        steps.push(step);
        if step == Step::Sleep {
            return steps;
        }
        *now_ns += takes(step);
    }
}

/// Out of the moments in which all try again.
const QUIET_NS: u64 = 1 << 20;

fn takes(yield_ns: u64) -> impl Fn(Step) -> u64 {
    move |step| if step == Step::Yield { yield_ns } else { 1_000 }
}

#[test]
fn alone_it_gives_up_the_cpu_a_few_times_and_with_others_before_each_look() {
    let (mut polling, mut now_ns) = (Polling::up_to(LONGEST), QUIET_NS);
    let yields = |steps: &[Step]| steps.iter().filter(|step| **step == Step::Yield).count();
    let alone = steps(&mut polling, &mut now_ns, takes(170));
    assert!((1..=6).contains(&yields(&alone)) && alone.len() > 40, "{alone:?}");
    let shared = steps(&mut polling, &mut now_ns, takes(1_100));
    let looks = shared.iter().filter(|step| matches!(step, Step::Look(_))).count();
    assert!(looks <= 2, "until it has given up the CPU once: {shared:?}");
    assert!(yields(&steps(&mut polling, &mut now_ns, takes(1_100))) > 40, "it remembers");
    assert!(yields(&steps(&mut polling, &mut now_ns, takes(170))) <= 7, "and learns that it is alone");
}

#[test]
fn the_time_of_others_does_not_count_up_to_three_times_the_longest() {
    let (mut polling, start_ns) = (Polling::up_to(LONGEST), QUIET_NS);
    let mut lasts = |yield_ns| {
        let mut now_ns = start_ns;
        let _ = steps(&mut polling, &mut now_ns, takes(yield_ns));
        now_ns - start_ns
    };
    assert!((50_000..52_000).contains(&lasts(170)));
    assert!((150_000..160_000).contains(&lasts(5_000)));
}

#[test]
fn a_pause_without_giving_up_the_cpu_shows_that_others_ran() {
    let (mut polling, mut now_ns) = (Polling::up_to(LONGEST), QUIET_NS);
    let mut poll = polling.begin(now_ns, u64::MAX);
    assert_eq!(polling.step(&mut poll, now_ns), Step::Look(32));
    now_ns += 30_000;
    assert_eq!(polling.step(&mut poll, now_ns), Step::Yield);
}

#[test]
fn after_somebody_has_kept_the_cpu_there_is_no_polling_for_a_multiple_of_that_time() {
    let (mut polling, mut now_ns) = (Polling::up_to(LONGEST), QUIET_NS);
    let taken = steps(&mut polling, &mut now_ns, takes(4_000_000));
    assert_eq!(taken.iter().filter(|step| **step == Step::Yield).count(), 1, "{taken:?}");
    let mut sleeps_at_once = |after_ns| steps(&mut polling, &mut (now_ns + after_ns), takes(170)).len() == 1;
    assert!(sleeps_at_once(0) && sleeps_at_once(250_000_000) && !sleeps_at_once(257_000_000));
}

#[test]
fn long_waits_end_the_polling_and_what_is_found_restores_it() {
    let (mut polling, mut now_ns) = (Polling::up_to(LONGEST), QUIET_NS);
    (0..20).for_each(|_| polling.slept(1_000_000_000));
    assert_eq!(steps(&mut polling, &mut now_ns, takes(170)), [Step::Sleep]);
    polling.found();
    assert!(steps(&mut polling, &mut now_ns, takes(170)).len() > 40);
}

fn polls(polling: &mut Polling, now_ns: u64) -> bool {
    steps(polling, &mut { now_ns }, takes(170)).len() > 1
}

#[test]
fn short_waits_are_tried_again_a_few_times_at_first_and_after_a_pause_and_else_seldom() {
    let mut polling = Polling::up_to(LONGEST);
    let mut tries = |before_ns: &[u64]| {
        before_ns.iter().for_each(|waited_ns| polling.slept(*waited_ns));
        let mut tried = |_: &u32| {
            polling.slept(60_000);
            steps(&mut polling, &mut { QUIET_NS }, takes(170)).len() > 40
        };
        (0..640).filter(|wait| tried(wait)).count()
    };
    // In 640 waits of 60 µs there are twelve times 64 × 50 µs, less what is over at the beginning or the end.
    assert!((15..=16).contains(&tries(&[])));
    assert!((11..=12).contains(&tries(&[])));
    assert!((15..=16).contains(&tries(&[1_000_000; 20])));
}

#[test]
fn all_try_again_in_the_same_moments() {
    let mut two = [LONGEST, LONGEST / 2].map(Polling::up_to);
    for _ in 0..20 {
        two.iter_mut().for_each(|polling| polling.slept(60_000));
    }
    let moments = |polling: &mut Polling| -> Vec<u64> {
        (0..10_000).filter(|tick| polls(polling, tick * 100_000)).collect()
    };
    let [first, second] = two.each_mut().map(moments);
    assert_eq!(first, second);
    assert!((100..=250).contains(&first.len()), "of a second {} tenths of a millisecond", first.len());
    two.iter_mut().for_each(|polling| polling.slept(1_000_000));
    assert!(two.iter_mut().all(|polling| moments(polling).is_empty()), "messages come too late for it");
}

#[test]
fn one_that_must_not_poll_sleeps_at_once() {
    let mut polling = Polling::up_to(Duration::ZERO);
    assert!(!polling.is_on());
    assert_eq!(steps(&mut polling, &mut { QUIET_NS }, takes(170)), [Step::Sleep]);
}
