//! Publishing what was recorded of a group.

use std::time::{Duration, Instant};

use causeway::{Error, Group, GroupOptions, Publisher};

use crate::args::{ReplayArguments, Speed};
use crate::failure::{Failure, Outcome};
use crate::read::{Item, Recording};

/// The log of a new group, if the recording does not say how large that was.
const CAPACITY_BYTES: u64 = 1 << 20;
/// The log of a new group for payloads that were by reference, which it then carries itself.
const LARGE_CAPACITY_BYTES: u64 = 64 << 20;

/// Publishes the messages of a file in its order.
pub fn replay(arguments: &ReplayArguments) -> Result<Outcome, Failure> {
    let mut replay = Replay { arguments, group: None, publisher: None, begin: None, messages: 0, lost: 0 };
    let is_whole = Recording::open(&arguments.file)?.for_each(|item| replay.item(item))?;
    if !is_whole {
        eprintln!(
            "causeway-record: the end of the recording is cut off; it was replayed up to its last whole chunk"
        );
    }
    replay.linger();
    eprintln!(
        "causeway-record: {} messages replayed, {} were lost when it was recorded",
        replay.messages, replay.lost
    );
    Ok(Outcome::of(!is_whole || replay.lost > 0))
}

struct Replay<'a> {
    arguments: &'a ReplayArguments,
    group: Option<Group>,
    publisher: Option<Publisher>,
    /// When the first message was published, and its time in the file.
    begin: Option<(Instant, u64)>,
    messages: u64,
    lost: u64,
}

impl Replay<'_> {
    fn item(&mut self, item: Item<'_>) -> Result<(), Failure> {
        match item {
            Item::About(about) => {
                let is_bus = about.get("source").map(String::as_str) == Some("bus");
                if is_bus {
                    return Err(Failure::Usage(format!(
                        "{} is a recording of a bus, whose calls make no sense without the callers; only groups are replayed",
                        self.arguments.file.display()
                    )));
                }
                let capacity = about.get("capacity_bytes").and_then(|bytes| bytes.parse().ok());
                let capacity = capacity.filter(|bytes| *bytes > 0).unwrap_or(CAPACITY_BYTES);
                // Payloads by reference were recorded themselves, and are longer than the log was.
                let by_reference = about.get("payloads").is_some_and(|is| is == "by reference");
                self.open(if by_reference { LARGE_CAPACITY_BYTES.max(capacity) } else { capacity })
            }
            Item::Message { channel, log_ns, data, .. } => {
                let topic = channel.metadata.get("topic").and_then(|topic| topic.parse().ok()).unwrap_or(0);
                self.wait_until_due(log_ns);
                let publisher = self.publisher.as_mut().ok_or_else(|| {
                    let why = "it does not say of what it is a recording; only those of causeway-record are replayed";
                    Failure::on(&self.arguments.file, why)
                })?;
                let _ = publisher.publish_with_topic(topic, data)?;
                self.messages += 1;
                Ok(())
            }
            Item::Lost { messages, .. } => {
                self.lost += messages;
                Ok(())
            }
            Item::Frames(_) | Item::End => Ok(()),
        }
    }

    fn open(&mut self, capacity_bytes: u64) -> Result<(), Failure> {
        let path = &self.arguments.socket;
        let group = if self.arguments.into {
            Group::join(path)?
        } else {
            let group = Group::create(
                &path.display().to_string(),
                GroupOptions::new().capacity_bytes(capacity_bytes),
            )?;
            group.serve_at(path)?;
            eprintln!("serving {}", path.display());
            group
        };
        let mut publisher = group.publisher()?;
        // Without a limit of time: who asks for it may interrupt it.
        let _ = publisher.wait_for_subscribers(self.arguments.wait_for_subscribers, None)?;
        (self.group, self.publisher) = (Some(group), Some(publisher));
        Ok(())
    }

    /// Keeps the distance in time from the first message.
    fn wait_until_due(&mut self, log_ns: u64) {
        let Speed::Times(times) = self.arguments.speed else { return };
        let (begin, first_ns) = *self.begin.get_or_insert_with(|| (Instant::now(), log_ns));
        let after = Duration::from_nanos(log_ns.saturating_sub(first_ns)).as_secs_f64() / times;
        let due = Duration::try_from_secs_f64(after).ok().and_then(|after| begin.checked_add(after));
        if let Some(left) = due.and_then(|due| due.checked_duration_since(Instant::now())) {
            std::thread::sleep(left);
        }
    }

    /// A group ends with its creator: subscribers that are there read on until they have everything.
    fn linger(&mut self) {
        let Some(group) = self.group.as_ref().filter(|_| !self.arguments.into) else { return };
        let end = Instant::now() + self.arguments.linger;
        let is_behind =
            || -> Result<bool, Error> { Ok(group.report()?.subscribers.iter().any(|one| one.lag_bytes > 0)) };
        while Instant::now() < end && is_behind().unwrap_or(false) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
