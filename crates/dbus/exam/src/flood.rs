//! Several senders broadcast at once to several receivers: what each receiver got, in its order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::Body;

use crate::client::{Client, broadcast};
use crate::perturb::{Disturbed, Mode, join_cpu};
use crate::property::Bus;

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub senders: usize,
    pub receivers: usize,
    /// The last receiver is a monitor.
    pub has_monitor: bool,
    /// Messages of each sender.
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

/// What all receivers got.
#[derive(Debug)]
pub struct Arrivals {
    pub mode: Mode,
    pub by_receiver: Vec<Vec<Arrival>>,
}

const STEP: Duration = Duration::from_millis(20);

impl Flood {
    /// In every mode that the bus allows.
    pub fn run(&self, bus: &Bus<'_>) -> Result<Vec<Arrivals>, Error> {
        Mode::of(bus).iter().map(|mode| self.once(bus, *mode)).collect()
    }

    /// Words for evidence.
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

    fn once(&self, bus: &Bus<'_>, mode: Mode) -> Result<Arrivals, Error> {
        let senders: Vec<Client> = (0..self.senders).map(|_| Client::open(bus)).collect::<Result<_, _>>()?;
        let names: Vec<String> = senders.iter().map(Client::name).collect();
        let of: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut receivers = Vec::new();
        for at in 0..self.receivers {
            let is_monitor = self.has_monitor && at + 1 == self.receivers;
            let mut client = Client::listening(bus, if is_monitor { &[] } else { &of })?;
            if is_monitor && !client.become_monitor()? {
                return Err(Error::Authentication("the bus makes no connection a monitor".into()));
            }
            receivers.push((client, is_monitor));
        }
        let disturbed = Disturbed::begin(bus, mode);
        let sending = AtomicUsize::new(senders.len());
        let by_receiver = thread::scope(|scope| {
            let (sending, names) = (&sending, &names);
            let receiving: Vec<_> = receivers
                .into_iter()
                .map(|(client, is_monitor)| {
                    scope.spawn(move || {
                        join_cpu(mode);
                        self.receive(client, is_monitor, names, sending, bus.quiet)
                    })
                })
                .collect();
            let senders: Vec<_> = senders
                .into_iter()
                .enumerate()
                .map(|(index, client)| {
                    scope.spawn(move || {
                        join_cpu(mode);
                        let client = self.send(client, index, mode);
                        // PAIR flood-sent: Acquire in `receive`.
                        sending.fetch_sub(1, Ordering::Release);
                        client
                    })
                })
                .collect();
            if let Some(disturbed) = &disturbed {
                disturbed.stop_and_continue();
            }
            // Senders stay connected until everything was received.
            let sent: Vec<_> = senders.into_iter().map(joined).collect();
            let received = receiving.into_iter().map(joined).collect::<Result<Vec<_>, _>>();
            sent.into_iter().collect::<Result<Vec<_>, _>>()?;
            received
        })?;
        Ok(Arrivals { mode, by_receiver })
    }

    fn send(&self, mut client: Client, index: usize, mode: Mode) -> Result<Client, Error> {
        let index = u32::try_from(index).expect("few senders");
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
        is_monitor: bool,
        names: &[String],
        sending: &AtomicUsize,
        quiet: Duration,
    ) -> Result<Vec<Arrival>, Error> {
        let expected = self.senders * self.messages as usize;
        let mut arrived = Vec::with_capacity(expected);
        let mut last = Instant::now();
        let mut has_asked = false;
        loop {
            match client.next(STEP)? {
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

/// What a thread of an experiment returned.
pub fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
