//! What a capture with a time line keeps in memory: the latest messages of a running bus, and whose they are.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Header, names};
use weighbridge_analysis::timeline::{Mark, Point, Role};
use weighbridge_harness::marks::threads_of;

/// The messages that are kept at most: a few megabytes.
const MOST: usize = 50_000;
/// How long a message is shown at its sender and at its receiver: a monitor knows one time of it.
const SHOWN_NS: u64 = 1_000;

/// The role of the bus itself.
pub const BROKER: &str = "broker";
/// The role that messages go to whose receivers the bus works out by rules.
pub const MONITOR: &str = "weighbridge";

/// A message as the monitor got it, between two roles.
#[derive(Debug)]
struct Message {
    at_ns: u64,
    from: String,
    to: String,
    title: String,
}

/// The process of a connection, as it was when the driver told it: it may be gone when a time line is written.
#[derive(Debug)]
struct Process {
    pid: u32,
    program: String,
    threads: Vec<u32>,
}

impl Process {
    fn of(pid: u32) -> Process {
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Process { pid, program: program.trim_end().to_owned(), threads: threads_of(pid) }
    }

    /// Those that there were, and those that there are.
    fn all_threads(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.threads.iter().copied().chain(threads_of(self.pid)).collect();
        all.into_iter().collect()
    }
}

/// The latest messages, and what the driver said of names and processes.
#[derive(Debug, Default)]
pub struct Traffic {
    messages: VecDeque<Message>,
    owners: HashMap<String, String>,
    processes: HashMap<String, Process>,
    /// The member and the argument of the latest question to the driver.
    asked: Option<(String, String)>,
}

impl Traffic {
    /// Keeps a message that was seen at this time.
    pub fn see(&mut self, at_ns: u64, bytes: &[u8]) {
        let Ok(header) = Header::parse(bytes) else { return };
        if let (Some(DRIVER), Some("NameOwnerChanged")) = (header.sender, header.member) {
            let mut texts = Args::of(bytes).map_while(Result::ok);
            if let (Some(Arg::Text(name)), _, Some(Arg::Text(owner))) =
                (texts.next(), texts.next(), texts.next())
            {
                self.owners.insert(name.to_owned(), owner.to_owned());
            }
        }
        if self.messages.len() == MOST {
            self.messages.pop_front();
        }
        // By the owners of this moment.
        let from = self.role_of(header.sender.unwrap_or_default()).to_owned();
        let to = header.destination.map_or(MONITOR, |name| self.role_of(name)).to_owned();
        self.messages.push_back(Message { at_ns, from, to, title: header.title() });
    }

    /// Learns from a question to the driver and the answer to it, which follow each other.
    pub fn learn(&mut self, bytes: &[u8]) {
        let Ok(header) = Header::parse(bytes) else { return };
        let first = Args::of(bytes).map_while(Result::ok).next();
        match (header.member, self.asked.take(), first) {
            (Some(member), _, Some(Arg::Text(name))) => {
                self.asked = Some((member.to_owned(), name.to_owned()));
            }
            (None, Some((_, name)), Some(Arg::U32(pid))) => _ = self.processes.insert(name, Process::of(pid)),
            (None, Some((_, name)), Some(Arg::Text(owner))) => _ = self.owners.insert(name, owner.to_owned()),
            _ => {}
        }
    }

    /// The process of the bus, where it told it.
    pub fn broker(&self) -> Option<u32> {
        self.processes.get(DRIVER).map(|process| process.pid)
    }

    /// A role for the bus, one for this program, and one for each connection that sent or got a message, with the names of the messages.
    /// What was kept is gone afterwards.
    pub fn take(&mut self) -> (Vec<Role>, BTreeMap<u64, String>) {
        let mut marks: BTreeMap<(usize, String), Vec<Mark>> = BTreeMap::new();
        let (mut names, mut ends_ns) = (BTreeMap::new(), 0);
        for (number, of) in (1..).zip(std::mem::take(&mut self.messages)) {
            // One after another, also those that were read together.
            let reads_ns = of.at_ns.max(ends_ns + 2);
            let begins_ns = reads_ns.saturating_sub(2 * SHOWN_NS).max(ends_ns);
            let written_ns = begins_ns.midpoint(reads_ns);
            ends_ns = reads_ns;
            for (role, points, at) in [
                (of.from, [Point::WriteBegins, Point::Written], [begins_ns, written_ns]),
                (of.to, [Point::WaitBegins, Point::Read], [written_ns, reads_ns]),
            ] {
                // By length first, so that :1.2 stands before :1.10.
                let marks = marks.entry((role.len(), role)).or_default();
                let mark = |(at_ns, point)| Mark { at_ns, point, number: Some(number) };
                marks.extend(at.into_iter().zip(points).map(mark));
            }
            names.insert(number, of.title);
        }
        let mut of = |name: &str| marks.remove(&(name.len(), name.to_owned())).unwrap_or_default();
        let (of_broker, of_monitor) = (of(BROKER), of(MONITOR));
        let us = std::process::id();
        let of_broker_threads = self.processes.get(DRIVER).map(Process::all_threads).unwrap_or_default();
        let mut roles =
            vec![role(MONITOR, threads_of(us), of_monitor), role(BROKER, of_broker_threads, of_broker)];
        let mut known: Vec<u32> = [Some(us), self.broker()].into_iter().flatten().collect();
        for ((_, name), marks) in marks {
            let Some(process) = self.processes.get(&name) else {
                roles.push(role(&name, Vec::new(), marks));
                continue;
            };
            // A thread is one role's, that of the first connection of its process.
            let is_first = !known.contains(&process.pid);
            known.push(process.pid);
            let threads = if is_first { process.all_threads() } else { Vec::new() };
            roles.push(role(format!("{name} {}", process.program).trim_end(), threads, marks));
        }
        (roles, names)
    }

    /// The connection behind a name, or the bus.
    fn role_of<'n>(&'n self, name: &'n str) -> &'n str {
        match name {
            DRIVER | "" => BROKER,
            name if names::is_unique(name) => name,
            name => {
                self.owners.get(name).map(String::as_str).filter(|owner| !owner.is_empty()).unwrap_or(name)
            }
        }
    }
}

fn role(name: &str, threads: Vec<u32>, marks: Vec<Mark>) -> Role {
    Role { name: name.into(), kind: name.into(), threads, marks }
}

#[cfg(test)]
mod tests {
    use causeway_dbus_wire::wire::{Body, Builder};
    use weighbridge_analysis::timeline::Subject;

    use super::*;

    fn driver<'m>(message: Builder<'m>) -> Vec<u8> {
        message.sender(DRIVER).build(7).unwrap()
    }

    #[test]
    fn messages_go_between_the_owners_of_names_and_those_without_a_destination_to_the_monitor() {
        let mut traffic = Traffic::default();
        for (member, name, answer) in [
            ("GetNameOwner", "org.example.Garden", Body::default().text(":1.2")),
            ("GetConnectionUnixProcessID", DRIVER, Body::default().u32(u32::MAX)),
        ] {
            traffic.learn(&Builder::of_driver(member).body(Body::default().text(name)).build(1).unwrap());
            traffic.learn(&driver(Builder::reply(1).body(answer)));
        }
        assert_eq!(traffic.broker(), Some(u32::MAX));
        let call = Builder::call("/", "Water").destination("org.example.Garden").sender(":1.10");
        let signal = Builder::signal("/", "org.example.Garden", "Wet").sender(":1.2");
        let left = Body::default().text("org.example.Garden").text(":1.2").text("");
        let left = Builder::signal("/", DRIVER, "NameOwnerChanged").sender(DRIVER).body(left);
        let hello = Builder::of_driver("Hello").sender(":1.10");
        for (at_ns, message) in [(50_000, call), (50_000, signal), (90_000, hello), (95_000, left)] {
            traffic.see(at_ns, &message.build(3).unwrap());
        }
        let (roles, message_names) = traffic.take();
        let names: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, [MONITOR, BROKER, ":1.2", ":1.10"], "the owner at the time of the call");
        assert_eq!(message_names[&1], "method_call Water");
        let subject = Subject { roles, ..Subject::default() };
        let messages = subject.messages(0, 100_000);
        let ends: Vec<(usize, usize)> = messages.iter().map(|of| (of.from, of.to)).collect();
        assert_eq!(ends, [(3, 2), (2, 0), (3, 1), (1, 0)]);
        assert!(messages.windows(2).all(|pair| pair[0].read_ns <= pair[1].begins_ns), "{messages:?}");
        assert!(traffic.take().1.is_empty(), "what was written is kept no longer");
    }

    #[test]
    fn the_latest_messages_are_kept() {
        let mut traffic = Traffic::default();
        let signal = Builder::signal("/", "org.example.Garden", "Wet").sender(":1.2").build(3).unwrap();
        (0..=MOST as u64).for_each(|at_ns| traffic.see(at_ns * 10_000, &signal));
        let (roles, names) = traffic.take();
        assert_eq!(names.len(), MOST);
        assert_eq!(roles[2].marks[1].at_ns, 9_000, "the one at zero is gone: {:?}", &roles[2].marks[..2]);
    }
}
