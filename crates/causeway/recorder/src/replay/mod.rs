//! What was recorded is published or sent again.

mod bus;
mod cast;
mod group;
mod played;
mod served;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcap::records::Channel;

use crate::args::{ReplayArguments, Speed};
use crate::failure::{Failure, Outcome};
use crate::read::{End, Item, Recording};
use played::Played;

/// Publishes or sends the messages of a file in its order.
pub fn replay(arguments: &ReplayArguments) -> Result<Outcome, Failure> {
    let (mut player, mut pace, mut lost) = (None, Pace { speed: arguments.speed, begin: None }, 0);
    let end = Recording::open(&arguments.file)?.for_each(|item| {
        match item {
            Item::About(about) => player = Some(Player::of(arguments, &about)?),
            Item::Message { channel, log_ns, data, .. } => {
                let player = player.as_mut().ok_or_else(|| {
                    let why = "it does not say of what it is a recording; only those of causeway-record are replayed";
                    Failure::on(&arguments.file, why)
                })?;
                while let Some(left) = pace.left(log_ns) {
                    player.rest(left)?;
                }
                player.play(channel, data)?;
            }
            Item::Lost { messages, .. } => lost += messages,
            Item::Frames { .. } => {}
        }
        Ok(())
    })?;
    let is_whole = end == End::Whole;
    if !is_whole {
        eprintln!(
            "causeway-record: the end of the recording is cut off; it was replayed up to its last whole chunk"
        );
    }
    let Played { said, is_complete } = player.map_or_else(|| Ok(Played::of(0)), Player::end)?;
    eprintln!("causeway-record: {said}, {lost} were lost when it was recorded");
    Ok(Outcome::of(!is_whole || !is_complete || lost > 0))
}

enum Player<'a> {
    Group(Box<group::Replay<'a>>),
    Bus(Box<bus::Replay>),
}

impl Player<'_> {
    fn of<'a>(
        arguments: &'a ReplayArguments,
        about: &BTreeMap<String, String>,
    ) -> Result<Player<'a>, Failure> {
        let is_bus = about.get("source").is_some_and(|source| source == "bus");
        Ok(if is_bus {
            Player::Bus(Box::new(bus::Replay::begin(arguments)?))
        } else {
            Player::Group(Box::new(group::Replay::begin(arguments, about)?))
        })
    }

    fn play(&mut self, channel: &Channel, data: &[u8]) -> Result<(), Failure> {
        match self {
            Player::Group(group) => group.play(channel, data),
            Player::Bus(bus) => bus.play(data),
        }
    }

    /// Waits for so long, or for a part of that.
    fn rest(&mut self, left: Duration) -> Result<(), Failure> {
        match self {
            Player::Group(_) => std::thread::sleep(left),
            Player::Bus(bus) => bus.rest(left)?,
        }
        Ok(())
    }

    fn end(self) -> Result<Played, Failure> {
        match self {
            Player::Group(group) => Ok(group.end()),
            Player::Bus(bus) => bus.end(),
        }
    }
}

/// Keeps the distance in time from the first message.
struct Pace {
    speed: Speed,
    /// When the first message was replayed, and its time in the file.
    begin: Option<(Instant, u64)>,
}

impl Pace {
    /// How long it is until a message of this time is due; `None` once it is.
    fn left(&mut self, log_ns: u64) -> Option<Duration> {
        let Speed::Times(times) = self.speed else { return None };
        let (begin, first_ns) = *self.begin.get_or_insert_with(|| (Instant::now(), log_ns));
        let after = Duration::from_nanos(log_ns.saturating_sub(first_ns)).as_secs_f64() / times;
        let due = Duration::try_from_secs_f64(after).ok().and_then(|after| begin.checked_add(after))?;
        due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}
