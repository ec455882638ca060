//! A group ends with its last publisher, once no further one can join: in whatever order its parts are dropped, and for
//! subscribers of every kind.

use crate::common::{LONG, eventually, served, small};
use causeway::{
    AsyncSubscriber, Error, Group, GroupOptions, Policy, Publisher, Received, SubscribeOptions, Subscriber,
    TryRecvError, Waited,
};
use tokio::runtime::Runtime;

/// What is dropped one after the other.
enum Part {
    Group(#[expect(dead_code, reason = "it is there to be dropped")] Group),
    Publisher(Box<Publisher>),
}

/// A group and its subscribers. Those of the group's own process keep its server alive.
struct Scene {
    parts: Vec<Part>,
    joined: Group,
    subscribers: Vec<Subscriber>,
    awaiting: AsyncSubscriber,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(options: GroupOptions, locals: usize, remotes: usize) -> Scene {
        let (dir, socket, group) = served(options.remote_publishers(remotes as u32));
        let joined = Group::join(&socket).unwrap();
        let mut publishers: Vec<Publisher> = (0..remotes).map(|_| joined.publisher().unwrap()).collect();
        publishers.extend((0..locals).map(|_| group.publisher().unwrap()));
        let options = || SubscribeOptions::new(Policy::Reliable).timeout(LONG);
        let subscribers = vec![group.subscribe(options()).unwrap(), joined.subscribe(options()).unwrap()];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let awaiting = {
            let _inside = runtime.enter();
            AsyncSubscriber::new(group.subscribe(options()).unwrap()).unwrap()
        };
        let mut parts = vec![Part::Group(group)];
        parts.extend(publishers.into_iter().map(Box::new).map(Part::Publisher));
        Scene { parts, joined, subscribers, awaiting, runtime, _dir: dir }
    }

    /// Every publisher that is left publishes, and every subscriber receives it: the group has not ended.
    fn goes_on(&mut self) {
        let publishers = self.parts.iter().filter(|part| matches!(part, Part::Publisher(_))).count();
        eventually("a dropped publisher is still listed", || {
            self.joined.report().unwrap().publishers.len() == publishers
        });
        for part in &mut self.parts {
            let Part::Publisher(publisher) = part else { continue };
            publisher.try_publish(b"on").unwrap();
            for subscriber in &mut self.subscribers {
                assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
                assert!(matches!(subscriber.try_recv().unwrap(), Received::Message(_)));
            }
            let received = self.runtime.block_on(self.awaiting.recv()).unwrap();
            assert!(matches!(received, Received::Message(_)));
        }
        for subscriber in self.subscribers.iter_mut().chain([self.awaiting.get_mut()]) {
            assert!(matches!(subscriber.try_recv(), Err(TryRecvError::Empty)));
        }
    }

    /// Every subscriber waits while `last` is dropped, and is told.
    fn ends_with(mut self, last: Part, case: &str) {
        let ended = |gone: Result<(), Error>| {
            assert!(matches!(gone, Err(Error::Disconnected)), "{case}: {gone:?}");
        };
        std::thread::scope(|scope| {
            for mut subscriber in self.subscribers {
                scope.spawn(move || ended(subscriber.wait(Some(LONG)).map(drop)));
            }
            scope.spawn(|| {
                let gone = self.runtime.block_on(async {
                    tokio::time::timeout(LONG, self.awaiting.recv()).await.map(|got| got.map(drop))
                });
                ended(gone.unwrap_or(Ok(())));
            });
            drop(last);
        });
    }
}

#[test]
fn a_group_ends_when_no_publisher_is_left_and_none_can_join_in_whatever_order_they_were_dropped() {
    let cases =
        [(false, 0, 0), (false, 1, 0), (false, 0, 1), (true, 0, 0), (true, 2, 0), (true, 1, 1), (true, 0, 2)];
    for (is_several, locals, remotes) in cases {
        let options = if is_several { small().several_publishers() } else { small() };
        // Up to three parts: six orders.
        for order in 0..6 {
            let case = format!("{options:?}, {locals} here, {remotes} elsewhere, order {order}");
            let mut scene = Scene::new(options.clone(), locals, remotes);
            let has_publishers = locals + remotes > 0;
            let mut order = order;
            loop {
                let next = order % scene.parts.len();
                order /= scene.parts.len();
                let part = scene.parts.remove(next);
                let publishes = scene.parts.iter().any(|part| matches!(part, Part::Publisher(_)));
                let is_group_left = scene.parts.iter().any(|part| matches!(part, Part::Group(_)));
                // A publisher of this process may come to a group of several that awaits none from elsewhere.
                let may_come = is_group_left && is_several && remotes == 0;
                if !publishes && !may_come && (has_publishers || !is_group_left) {
                    scene.ends_with(part, &case);
                    break;
                }
                drop(part);
                scene.goes_on();
            }
        }
    }
}
