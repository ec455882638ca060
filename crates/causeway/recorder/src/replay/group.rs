//! Publishing what was recorded of a group.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway::{Error, Group, GroupOptions, Publisher};
use mcap::records::Channel;

use super::played::Played;
use crate::args::ReplayArguments;
use crate::failure::Failure;

/// The log of a new group, if the recording does not say how large that was.
const CAPACITY_BYTES: u64 = 1 << 20;
/// The log of a new group for payloads that were by reference, which it then carries itself.
const LARGE_CAPACITY_BYTES: u64 = 64 << 20;

pub struct Replay<'a> {
    arguments: &'a ReplayArguments,
    group: Group,
    publisher: Publisher,
    messages: u64,
}

impl Replay<'_> {
    /// Makes a group, or joins the one that is there.
    pub fn begin<'a>(
        arguments: &'a ReplayArguments,
        about: &BTreeMap<String, String>,
    ) -> Result<Replay<'a>, Failure> {
        let path = &arguments.socket;
        let group = if arguments.into {
            Group::join(path)?
        } else {
            let options = GroupOptions::new().capacity_bytes(capacity_bytes(about));
            let group = Group::create(&path.display().to_string(), options)?;
            group.serve_at(path)?;
            eprintln!("serving {}", path.display());
            group
        };
        let mut publisher = group.publisher()?;
        // Without a limit of time: who asks for it may interrupt it.
        let _ = publisher.wait_for_subscribers(arguments.wait_for_subscribers, None)?;
        Ok(Replay { arguments, group, publisher, messages: 0 })
    }

    pub fn play(&mut self, channel: &Channel, data: &[u8]) -> Result<(), Failure> {
        let topic = channel.metadata.get("topic").and_then(|topic| topic.parse().ok()).unwrap_or(0);
        let _ = self.publisher.publish_with_topic(topic, data)?;
        self.messages += 1;
        Ok(())
    }

    /// A group ends with its creator: subscribers that are there read on until they have everything.
    pub fn end(self) -> Played {
        if !self.arguments.into {
            let end = Instant::now() + self.arguments.linger;
            let is_behind = || -> Result<bool, Error> {
                Ok(self.group.report()?.subscribers.iter().any(|one| one.lag_bytes > 0))
            };
            while Instant::now() < end && is_behind().unwrap_or(false) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Played::of(self.messages)
    }
}

/// How large the log of a new group is.
fn capacity_bytes(about: &BTreeMap<String, String>) -> u64 {
    let recorded = about.get("capacity_bytes").and_then(|bytes| bytes.parse().ok());
    let capacity = recorded.filter(|bytes| *bytes > 0).unwrap_or(CAPACITY_BYTES);
    // Payloads by reference were recorded themselves, and are longer than the log was.
    let by_reference = about.get("payloads").is_some_and(|is| is == "by reference");
    if by_reference { LARGE_CAPACITY_BYTES.max(capacity) } else { capacity }
}
