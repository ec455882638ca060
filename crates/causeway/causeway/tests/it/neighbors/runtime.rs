//! Tasks of one runtime: a group that is busy or full does not take it from the others.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use causeway::{AsyncPublisher, AsyncSubscriber, Group, Policy};

use super::ends;
use crate::common::{drain, fill, small, trio};

/// Before, a task that always found a message never let go of its thread: a timeout around it had no effect.
#[test]
fn a_task_that_always_finds_a_message_lets_others_run() {
    let (_group, mut publisher, subscriber) = trio(small(), Policy::Lossy);
    static DONE: AtomicBool = AtomicBool::new(false);
    let publishing = std::thread::spawn(move || {
        while !DONE.load(Ordering::Relaxed) {
            publisher.try_publish(b"one more").unwrap();
        }
    });
    ends("the timeout has no effect", move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut subscriber = AsyncSubscriber::new(subscriber).unwrap();
            let receiving = async {
                loop {
                    let _ = subscriber.recv().await.unwrap();
                }
            };
            let timeout = tokio::time::timeout(Duration::from_millis(50), receiving).await;
            assert!(timeout.is_err());
        });
    });
    DONE.store(true, Ordering::Relaxed);
    publishing.join().unwrap();
}

/// Before, each publisher that waited for space held a blocking thread of the runtime.
#[test]
fn any_number_of_publishers_that_wait_for_space_take_one_thread() {
    const PUBLISHERS: usize = 32;
    let group = Group::create("full", small().several_publishers()).unwrap();
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    fill(&mut group.publisher().unwrap(), b"unread");
    let publishers: Vec<_> =
        (0..PUBLISHERS).map(|_| AsyncPublisher::new(group.publisher().unwrap())).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = publishers
            .into_iter()
            .map(|mut publisher| tokio::spawn(async move { publisher.publish(b"late").await.map(drop) }))
            .collect();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(runtime_threads(), 0, "blocking threads of the runtime");
        }
        for mut task in tasks {
            loop {
                drain(&mut subscriber);
                tokio::select! {
                    published = &mut task => break published.unwrap().unwrap(),
                    () = tokio::time::sleep(Duration::from_millis(1)) => {}
                }
            }
        }
    });
}

/// Blocking threads of the runtimes of this process.
fn runtime_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("tokio")).count()
}

/// Before, the wait of a publish that was cancelled went on, and the next publish waited for its end though there was space.
#[test]
fn a_cancelled_publish_does_not_delay_the_next_one() {
    let group = Group::create("cancelled", small()).unwrap();
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    let mut publisher = AsyncPublisher::new(group.publisher().unwrap());
    fill(publisher.get_mut(), b"unread");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(publisher.publish(b"cancelled")).as_mut().poll(&mut context).is_pending());
    drain(&mut subscriber);
    let Poll::Ready(published) = pin!(publisher.publish(b"next")).as_mut().poll(&mut context) else {
        panic!("it waits though there is space")
    };
    published.unwrap();
    assert_eq!(subscriber.recv().unwrap().message().unwrap().bytes, b"next");
}
