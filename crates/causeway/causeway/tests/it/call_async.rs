//! Calls from the tasks of a tokio program.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{LONG, Peer, place};
use causeway::call::{AsyncClient, CallError, Responder, ServeOptions};
use tokio::sync::{Barrier, mpsc};
use tokio::time::timeout;

fn connect(socket: &std::path::Path) -> AsyncClient {
    AsyncClient::new(crate::call::connect(socket)).unwrap()
}

/// Every call waits for all the others: all of them are in flight at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_tasks_call_at_once_and_each_gets_its_own_reply() {
    let (_dir, path) = place();
    let all = Arc::new(Barrier::new(64));
    let server = ServeOptions::new().serve_async(&path, move |request| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            request.responder.reply_async(request.bytes.repeat(2)).await.unwrap();
        }
    });
    let _server = server.unwrap();
    let client = Arc::new(connect(&path));
    for _ in 0..10 {
        let calls: Vec<_> = (0..64u32)
            .map(|n| {
                let client = Arc::clone(&client);
                tokio::spawn(async move { (n, client.call(&n.to_le_bytes()).await.unwrap().bytes) })
            })
            .collect();
        for call in calls {
            let (n, reply) = timeout(LONG, call).await.expect("no reply").unwrap();
            assert_eq!(reply, n.to_le_bytes().repeat(2));
        }
    }
}

/// More than both logs hold, on one thread: neither side may block it.
#[tokio::test(flavor = "current_thread")]
async fn a_flood_of_calls_in_one_thread_comes_through() {
    let (_dir, path) = place();
    let server = ServeOptions::new().capacity_bytes(4096).serve_async(&path, |request| async move {
        request.responder.reply_async(request.bytes).await.unwrap();
    });
    let _server = server.unwrap();
    let client = Arc::new(connect(&path));
    let calls: Vec<_> = (0..200u32)
        .map(|n| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.call(&[n as u8; 900]).await.unwrap().bytes == [n as u8; 900] })
        })
        .collect();
    for call in calls {
        assert!(timeout(LONG, call).await.expect("no reply").unwrap());
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_that_is_dropped_is_cancelled() {
    let (_dir, path) = place();
    let (sender, mut receiver) = mpsc::unbounded_channel::<Responder>();
    let server = ServeOptions::new().serve_async(&path, move |request| {
        let _ = sender.send(request.responder);
        async {}
    });
    let _server = server.unwrap();
    let client = connect(&path);
    assert!(timeout(Duration::from_millis(20), client.call(b"late")).await.is_err());
    let responder = timeout(LONG, receiver.recv()).await.unwrap().unwrap();
    let start = std::time::Instant::now();
    while !responder.is_cancelled() {
        assert!(start.elapsed() < LONG, "the cancellation does not arrive");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Without a reply the call is over all the same.
    let call = client.call(b"x");
    let (outcome, ()) = tokio::join!(call, async { drop(receiver.recv().await) });
    assert!(matches!(outcome, Err(CallError::NoReply)), "{outcome:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_is_killed_ends_the_calls_in_flight() {
    let (_dir, path) = place();
    let mut server = Peer::start("never-reply", &path, 0);
    let client = connect(&path);
    let (first, second) = (client.call(b"1"), client.call(b"2"));
    let kill = async {
        while !path.with_extension("called").exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
    };
    let all = async { tokio::join!(first, second, kill) };
    let (first, second, ()) = timeout(LONG, all).await.expect("the death goes unnoticed");
    for ended in [first, second, client.call(b"3").await] {
        assert!(matches!(ended, Err(CallError::ServerGone)), "{ended:?}");
    }
}
