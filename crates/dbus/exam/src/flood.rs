//! Many messages at once: broadcasts of several senders to several receivers, and calls that wait for no reply.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::Body;

use crate::client::{Client, Message, PATIENCE, broadcast, call, refusal};
use crate::perturb::{Disturbed, Mode, join_cpu};
use crate::property::Bus;

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub senders: usize,
    pub receivers: usize,
    /// The last receiver is a monitor.
    pub has_monitor: bool,
    /// Every second one of either is connected by a socket, also on a bus of native members, and of receivers the last of each kind stop for
    /// moments.
    pub is_mixed: bool,
    pub messages: u32,
}

/// A message as a receiver got it: what its body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arrival {
    pub sender: u32,
    pub number: u32,
    /// The bus named the connection that sent it.
    pub has_true_sender: bool,
}

impl Arrival {
    /// Its sender, and its number among those of that.
    pub fn id(&self) -> (u32, u32) {
        (self.sender, self.number)
    }
}

/// What all receivers got, each in its order.
#[derive(Debug)]
pub struct Arrivals {
    pub mode: Mode,
    pub by_receiver: Vec<Vec<Arrival>>,
}

const STEP: Duration = Duration::from_millis(20);
/// How long a receiver stops: far shorter than what a bus takes for the end of it.
const STOP: Duration = Duration::from_millis(30);
/// After so many messages it stops again.
const STOPS_EVERY: usize = 300;

impl Flood {
    /// In every mode that the bus allows.
    pub fn run(&self, bus: &Bus<'_>) -> Result<Vec<Arrivals>, Error> {
        Mode::of(bus).iter().map(|mode| self.once(bus, *mode)).collect()
    }

    pub fn words(&self, runs: &[Arrivals]) -> String {
        let modes: Vec<&str> = runs.iter().map(|run| run.mode.words()).collect();
        format!(
            "{} senders × {} receivers × {} broadcasts, each: {}",
            self.senders,
            self.receivers,
            self.messages,
            modes.join(", ")
        )
    }

    /// Where some receiver got less than half of what was sent: an order of so little says nothing.
    pub fn too_few(&self, runs: &[Arrivals]) -> Option<String> {
        let sent = self.senders * self.messages as usize;
        runs.iter().find_map(|run| {
            let (least, receiver) =
                run.by_receiver.iter().enumerate().map(|(at, arrived)| (arrived.len(), at)).min()?;
            let words = run.mode.words();
            (least * 2 < sent)
                .then(|| format!("receiver {receiver} got {least} of {sent} broadcasts ({words})"))
        })
    }

    fn once(&self, bus: &Bus<'_>, mode: Mode) -> Result<Arrivals, Error> {
        let open = |at: usize| {
            if self.is_mixed && at % 2 == 1 { Client::by_socket(bus) } else { Client::open(bus) }
        };
        let senders: Vec<Client> = (0..self.senders).map(open).collect::<Result<_, _>>()?;
        let names: Vec<String> = senders.iter().map(Client::name).collect();
        let of: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut receivers = Vec::new();
        for at in 0..self.receivers {
            let is_monitor = self.has_monitor && at + 1 == self.receivers;
            let mut client = open(at)?;
            client.listen_to(if is_monitor { &[] } else { &of })?;
            if is_monitor && refusal(client.become_monitor())?.is_some() {
                return Err(Error::Authentication("the bus makes no connection a monitor".into()));
            }
            receivers.push((client, is_monitor, self.is_mixed && at + 2 >= self.receivers));
        }
        let disturbed = Disturbed::begin(bus, mode);
        let sending = AtomicUsize::new(senders.len());
        let by_receiver = thread::scope(|scope| {
            let (sending, names) = (&sending, &names);
            let receive = |(client, is_monitor, stops)| {
                scope.spawn(move || {
                    join_cpu(mode);
                    self.receive(client, [is_monitor, stops], names, sending, bus.quiet)
                })
            };
            let send = |(client, index)| {
                scope.spawn(move || {
                    join_cpu(mode);
                    let client = self.send(client, index, mode);
                    // PAIR flood-sent: Acquire in `receive`.
                    sending.fetch_sub(1, Ordering::Release);
                    client
                })
            };
            let receiving: Vec<_> = receivers.into_iter().map(receive).collect();
            let senders: Vec<_> = senders.into_iter().zip(0..).map(send).collect();
            disturbed.stop_and_continue();
            // Senders stay connected until everything was received.
            let sent: Vec<_> = senders.into_iter().map(joined).collect();
            let received = receiving.into_iter().map(joined).collect::<Result<Vec<_>, _>>();
            sent.into_iter().collect::<Result<Vec<_>, _>>()?;
            received
        })?;
        Ok(Arrivals { mode, by_receiver })
    }

    fn send(&self, mut client: Client, index: u32, mode: Mode) -> Result<Client, Error> {
        for number in 0..self.messages {
            client.send(&broadcast("Flood").body(Body::default().u32(index).u32(number)))?;
            mode.pause();
        }
        client.barrier()?;
        Ok(client)
    }

    /// Reads until all have come, or nothing comes any more although the bus has dealt with all.
    fn receive(
        &self,
        mut client: Client,
        [is_monitor, stops]: [bool; 2],
        names: &[String],
        sending: &AtomicUsize,
        quiet: Duration,
    ) -> Result<Vec<Arrival>, Error> {
        let expected = self.senders * self.messages as usize;
        let mut arrived = Vec::with_capacity(expected);
        let mut last = Instant::now();
        let mut has_asked = false;
        let mut stops_at = if stops { 0 } else { expected };
        loop {
            if arrived.len() >= stops_at && arrived.len() < expected {
                std::thread::sleep(STOP);
                stops_at += STOPS_EVERY;
            }
            match client.next(STEP)? {
                // A monitor sees what others send, who may be examined on the same bus.
                Some(message) if is_monitor && !names.iter().any(|name| message.is_of(name)) => {}
                Some(message) if message.is_ours() => {
                    let (Some(sender), Some(number)) = (message.number(0), message.number(1)) else {
                        continue;
                    };
                    let name = names.get(sender as usize).map(String::as_str);
                    let has_true_sender = name.is_some() && name == message.header().sender;
                    arrived.push(Arrival { sender, number, has_true_sender });
                    last = Instant::now();
                }
                Some(_) => {}
                None => {
                    // PAIR flood-sent: Release in `once`.
                    let all_sent = sending.load(Ordering::Acquire) == 0;
                    if all_sent && !has_asked {
                        // A monitor may not speak; its quiet time begins here too.
                        if !is_monitor {
                            client.barrier()?;
                        }
                        (has_asked, last) = (true, Instant::now());
                    } else if all_sent && (arrived.len() >= expected || last.elapsed() > quiet) {
                        return Ok(arrived);
                    }
                }
            }
        }
    }
}

/// The first connection calls the second so many times without waiting, which answers in a thread of its own: `answer` is handed the
/// callee, the number of the call and its serial. Returns the serials of the calls, and what came of the callee in its order.
pub fn pipeline(
    [caller, callee]: &mut [Client; 2],
    calls: u32,
    mode: Mode,
    answer: impl Fn(&mut Client, u32, u32) -> Result<(), Error> + Send,
) -> Result<(Vec<u32>, Vec<Message>), Error> {
    let name = callee.name();
    let (mut serials, mut came) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            join_cpu(mode);
            for number in 0..calls {
                let Some(called) = callee.wait_for(PATIENCE, Message::is_call)? else { break };
                answer(callee, number, called.header().serial)?;
            }
            callee.barrier()
        });
        for _ in 0..calls {
            serials.push(caller.send(&call(&name, "Pipelined"))?);
            mode.pause();
            // A caller that reads nothing meanwhile is one that stalls.
            while let Some(message) = caller.next(Duration::ZERO)? {
                came.push(message);
            }
        }
        while !serving.is_finished() {
            came.extend(caller.next(Duration::from_millis(5))?);
        }
        joined(serving)
    })?;
    came.extend(caller.collect()?);
    came.retain(|message| message.header().sender == Some(&name));
    Ok((serials, came))
}

/// What a thread of an experiment returned.
pub fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
