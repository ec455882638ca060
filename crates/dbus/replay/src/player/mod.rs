//! Plays a plan on a bus: all connections in one process and one poll loop.

mod message;
mod native;
mod notes;
mod receive;
mod setup;
mod stall;

use std::time::{Duration, Instant};

use causeway_bus::client::{Bus, Error as ClientError};
use causeway_dbus_wire::wire::Builder;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::Error;
use crate::end::{End, Settled, open};
use crate::plan::{Action, Plan, Wait};
use crate::usage::Usage;
use native::Natives;
use notes::Notes;

pub use notes::Note;

/// How often the player looks around while it waits.
const LOOK: Duration = Duration::from_millis(200);
/// A connection with so many bytes to be written sends no more for now.
const MOST_BACKLOG_BYTES: usize = 256 << 10;

/// When messages are sent, as far as causes allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as they were recorded.
    Times(f64),
    /// As soon as possible.
    Max,
}

/// How a plan is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// When messages are sent.
    pub speed: Speed,
    /// The time without progress after which broadcasts and answers that brokers may rightly not deliver are waited for no longer.
    pub give_up: Duration,
    /// The time without progress after which the replay fails.
    pub stall: Duration,
    /// The process of the broker, where it is known; else the bus is asked.
    pub pid: Option<u32>,
    /// Of all connections, those that are native members where the bus has some, from 0 to 1.
    pub native_share: f64,
    /// Whether it is noted when each message was sent and arrived.
    pub is_watched: bool,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// From the first message to the last arrival, in ns.
    pub wall_ns: u64,
    /// What the broker used meanwhile, where it can be read.
    pub usage: Option<Usage>,
    /// Messages that were sent, Hello among them.
    pub sent: u64,
    /// Messages that arrived, of the driver and of others.
    pub received: u64,
    /// Of these, messages of the driver.
    pub of_driver: u64,
    /// Broadcasts that arrived where the rules of the capture want them.
    pub broadcast_deliveries: u64,
    /// Broadcasts that did not, and answers to futile calls that did not come; each wait for them is in the time.
    pub lost: u64,
    /// Messages that arrived at a connection which did not receive them by the capture: above all a broadcast that nobody wants
    /// and a new rule that overtakes it, since nothing tells when such a broadcast has passed.
    pub unplanned: u64,
    /// Messages of programs that are no part of the replay.
    pub foreign: u64,
    /// Messages that this bus refused to deliver.
    pub refused: u64,
    /// Calls of the driver that this bus answered with an error, and that of the capture did not.
    pub denied: u64,
    /// The first refusal of either kind; there is one if and only if one of them was counted.
    pub first_refusal: Option<String>,
    /// Messages that were not sent because what they answer was refused.
    pub dropped: u64,
    /// Calls at the end that say when the bus has dispatched everything; they are not counted above.
    pub closing_calls: u64,
    /// When each message was sent and arrived, where that was wanted.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

impl Run {
    /// Messages that this bus did not carry or carry out: those that it refused or denied, and those that were not sent for it.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused + self.denied + self.dropped
    }
}

/// Sends all messages of a plan to the bus at an address.
///
/// # Errors
/// No bus answers, it closes a connection, a name belongs to another program, or nothing moves for the time allowed.
pub fn play(plan: &Plan, address: &str, options: &Options) -> Result<Run, Error> {
    let mut player = Player::new(plan, address, options);
    let pid = player.look_around()?;
    player.set_up()?;
    let before = pid.and_then(Usage::of);
    player.start = Instant::now();
    player.moved = player.start;
    player.perform()?;
    player.close()?;
    let wall = player.moved.duration_since(player.start);
    let after = before.and_then(|before| Some(Usage::of(pid?)?.since(before)));
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    Ok(Run { wall_ns, usage: after, notes: player.notes.all, ..player.run })
}

struct Player<'p> {
    plan: &'p Plan,
    address: &'p str,
    options: &'p Options,
    ends: Vec<End>,
    /// Connections by their names on this bus.
    by_unique: FxHashMap<String, usize>,
    /// Connections by their names in the capture.
    by_captured: FxHashMap<&'p str, usize>,
    taken: Vec<bool>,
    dropped: Vec<bool>,
    /// Of [`Wait::Steps`], [`Wait::Rules`], [`Wait::Broadcasts`]: how many hold from the front.
    steps: usize,
    rules: usize,
    broadcasts: usize,
    start: Instant,
    moved: Instant,
    run: Run,
    notes: Notes,
    natives: Natives,
}

impl<'p> Player<'p> {
    fn new(plan: &'p Plan, address: &'p str, options: &'p Options) -> Player<'p> {
        let by_captured = plan.connections.iter().enumerate();
        Player {
            plan,
            address,
            options,
            ends: plan.inboxes.iter().map(|inbox| End::new(inbox.len())).collect(),
            by_unique: FxHashMap::default(),
            by_captured: by_captured.map(|(id, connection)| (connection.name.as_str(), id)).collect(),
            taken: vec![false; plan.steps.len()],
            dropped: vec![false; plan.steps.len()],
            steps: 0,
            rules: 0,
            broadcasts: 0,
            start: Instant::now(),
            moved: Instant::now(),
            run: Run::default(),
            notes: Notes::new(options.is_watched),
            natives: Natives::new(plan),
        }
    }

    fn failed(&self, connection: usize, source: ClientError) -> Error {
        Error::Connection {
            name: Some(self.plan.connections[connection].name.clone()),
            taken: self.steps_taken(),
            planned: self.plan.steps.len() as u64,
            source,
        }
    }

    fn steps_taken(&self) -> u64 {
        self.ends.iter().map(|end| end.taken as u64).sum()
    }

    /// Until every step is taken and everything that was to arrive has arrived.
    fn perform(&mut self) -> Result<(), Error> {
        loop {
            while self.advance()? {}
            let is_done = self.steps == self.plan.steps.len()
                && self.ends.iter().all(|end| end.prefix == end.inbox.len());
            if is_done {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Takes the steps that can be taken; true if there were some.
    fn advance(&mut self) -> Result<bool, Error> {
        let mut has_moved = false;
        for connection in 0..self.ends.len() {
            while let Some(&step) = self.plan.queues[connection].get(self.ends[connection].taken) {
                if !self.is_due(step) || !self.is_free(step) || !self.take(step)? {
                    break;
                }
                self.ends[connection].taken += 1;
                self.taken[step] = true;
                self.moved = Instant::now();
                has_moved = true;
                self.open_gates();
            }
            self.ends[connection].flush().map_err(|error| self.failed(connection, error))?;
        }
        Ok(has_moved)
    }

    /// When a step may be taken, after the start.
    fn due(&self, step: usize) -> Duration {
        match self.options.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(times) => Duration::from_nanos((self.plan.steps[step].due_ns as f64 / times) as u64),
        }
    }

    fn is_due(&self, step: usize) -> bool {
        self.options.speed == Speed::Max || self.start.elapsed() >= self.due(step)
    }

    fn is_free(&self, step: usize) -> bool {
        self.plan.steps[step].waits.iter().all(|wait| self.holds(*wait))
    }

    fn holds(&self, wait: Wait) -> bool {
        match wait {
            Wait::Inbox(connection, items) => self.ends[connection].prefix >= items,
            Wait::Steps(count) => self.steps >= count,
            Wait::Rules(count) => self.rules >= count,
            Wait::Broadcasts(count) => self.broadcasts >= count,
        }
    }

    fn is_settled(&self, (connection, place): (usize, usize)) -> bool {
        self.ends[connection].inbox[place] != Settled::Open
    }

    fn open_gates(&mut self) {
        while self.taken.get(self.steps) == Some(&true) {
            self.steps += 1;
        }
        while self.plan.rule_changes.get(self.rules).is_some_and(|change| self.is_settled(*change)) {
            self.rules += 1;
        }
        while let Some(&step) = self.plan.broadcasts.get(self.broadcasts) {
            let deliveries = &self.plan.steps[step].deliveries;
            if !self.taken[step] || !deliveries.iter().all(|delivery| self.is_settled(*delivery)) {
                break;
            }
            self.broadcasts += 1;
        }
    }

    /// False if its connection has too much to write.
    fn take(&mut self, id: usize) -> Result<bool, Error> {
        let step = &self.plan.steps[id];
        let from = step.from;
        match step.action {
            Action::Connect => self.connect(from)?,
            Action::Leave if self.ends[from].backlog() > 0 => return Ok(false),
            Action::Leave => {
                let is_native = self.ends[from].is_native();
                self.ends[from].leave().map_err(|error| self.failed(from, error))?;
                if is_native {
                    self.natives.leaving.push(from);
                }
            }
            Action::Send { .. } if self.dropped[id] => {
                self.run.dropped += 1;
                step.deliveries.iter().for_each(|delivery| self.settle(*delivery, Settled::Lost));
                if let Some(reply) = step.reply {
                    self.settle((from, reply), Settled::Lost);
                }
            }
            Action::Send { .. } if self.ends[from].backlog() > MOST_BACKLOG_BYTES => return Ok(false),
            Action::Send { .. } if self.ends[from].is_native() && self.natives.must_read() => {
                return Ok(false);
            }
            Action::Send { flags, to, answers } => {
                self.notes.begin();
                let message = self.message(step, flags, to, answers);
                self.natives.count(&self.ends[from], message.len());
                self.ends[from].post(id, &message).map_err(|error| self.failed(from, error))?;
                self.notes.end(from, step.number, true);
                self.run.sent += 1;
            }
        }
        Ok(true)
    }

    /// Opens the connection that stands for one of the capture.
    fn connect(&mut self, id: usize) -> Result<(), Error> {
        let connection = self.join(id)?;
        self.run.sent += 1;
        self.notes.begin();
        self.adopt(id, connection)?;
        self.read_messages(id)
    }

    /// Connects for one of the capture: natively, if its bus has native members and this connection is of their share.
    fn join(&self, id: usize) -> Result<Bus, Error> {
        // Evenly over all connections: with a half every second one.
        let natives_until = |count: usize| (count as f64 * self.options.native_share) as usize;
        let may_be_native = natives_until(id + 1) > natives_until(id);
        open(self.address, may_be_native.then_some(self.natives.outbox_bytes))
            .map_err(|error| self.failed(id, error))
    }

    fn adopt(&mut self, id: usize, connection: Bus) -> Result<(), Error> {
        self.ends[id].begin(connection).map_err(|error| self.failed(id, error))?;
        self.by_unique.insert(self.ends[id].unique.clone(), id);
        self.settle((id, 0), Settled::Arrived);
        Ok(())
    }

    fn settle(&mut self, (connection, place): (usize, usize), how: Settled) {
        if self.ends[connection].settle(place, how) {
            self.moved = Instant::now();
            self.open_gates();
        }
    }

    /// Waits for the sockets, for the time of the next message, or for the end of patience.
    fn wait(&mut self) -> Result<(), Error> {
        let next = self.next_due().filter(|left| !left.is_zero());
        let idle = self.moved.elapsed();
        if idle >= self.options.give_up && self.give_up_soft() {
            return Ok(());
        }
        let is_waiting_for_time = next.is_some() && self.nothing_awaited();
        if !is_waiting_for_time && idle >= self.options.stall {
            return Err(self.stalled());
        }
        let left = self.options.give_up.saturating_sub(idle);
        let patience = if left.is_zero() { LOOK } else { left.min(LOOK) };
        self.poll(next.map_or(patience, |next| next.min(patience)))
    }

    /// The time until the first step that waits for nothing else may be taken.
    fn next_due(&self) -> Option<Duration> {
        let elapsed = self.start.elapsed();
        let heads = self.ends.iter().zip(&self.plan.queues).filter_map(|(end, queue)| queue.get(end.taken));
        heads.filter(|step| self.is_free(**step)).map(|step| self.due(*step).saturating_sub(elapsed)).min()
    }

    /// Asks the driver something on each connection whose last message nobody has answered or received: then the bus has
    /// dispatched everything.
    fn close(&mut self) -> Result<(), Error> {
        for id in 0..self.ends.len() {
            let last = self.plan.queues[id].last().map(|step| &self.plan.steps[*step]);
            let is_known = last.is_none_or(|step| !step.deliveries.is_empty() || step.reply.is_some());
            if is_known || self.ends[id].fd().is_none() {
                continue;
            }
            let serial = self.ends[id].next_serial();
            let call = Builder::of_driver("GetId").build(serial).expect("a short message");
            self.ends[id].post(usize::MAX, &call).map_err(|error| self.failed(id, error))?;
            self.ends[id].closing = Some(serial);
            self.run.closing_calls += 1;
            self.ends[id].flush().map_err(|error| self.failed(id, error))?;
        }
        while self.ends.iter().any(|end| end.closing.is_some()) {
            if self.moved.elapsed() >= self.options.stall {
                return Err(self.stalled());
            }
            self.poll(LOOK)?;
        }
        Ok(())
    }
}
