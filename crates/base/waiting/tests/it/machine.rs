//! Two CPUs in virtual time, a sender and its readers: what a way to wait costs, the same each time.
//!
//! The sender publishes a message, sleeps until all readers have it, and publishes the next one at once or when it is due. A thread keeps its
//! CPU until it sleeps, gives it up, or has used its slice while others wait. A CPU with nothing to do halts, and takes long to wake up.

use std::collections::VecDeque;
use std::time::Duration;

use causeway_waiting::polling::{Poll, Polling, Step};

/// So many looks are one step: they take 35 ns each.
const LOOKS_AT_ONCE: u32 = 4;
const LOOK_NS: u64 = 140;
const SYSTEM_CALL_NS: u64 = 170;
const SWITCH_NS: u64 = 450;
const WAKE_ONE_NS: u64 = 1_000;
const HALTED_NS: u64 = 45_000;
const TAKE_NS: u64 = 300;
const SLICE_NS: u64 = 3_000_000;
/// What polling takes at most.
pub const LONGEST: Duration = Duration::from_micros(50);
/// Messages before anything counts: what is learned at the beginning is not what it costs.
const FIRST_MESSAGES: u64 = 100;

/// How readers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They sleep at once.
    Block,
    /// They poll for the longest time, whatever comes of it, and keep the CPU.
    Spin,
    /// As [`Polling`] says.
    Adapt,
}

/// Where and when.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub readers: usize,
    /// Readers run on the CPU of the sender in turn with the other one; else all on the other one.
    pub spread_over_both: bool,
    /// From one message to the next; 0 for the next one at once.
    pub interval_ns: u64,
    /// A thread that never waits runs beside the readers.
    pub hog: bool,
}

/// What it cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From the moment when a message was due until the last reader had it, the mean.
    pub message_ns: f64,
    /// CPU time of readers for each message of theirs.
    pub reader_cpu_ns: f64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Asleep,
    /// Waits for the next message; it has not looked yet.
    Begin,
    /// Looks so many times more.
    Polling(Poll, u32),
    /// Runs for ever.
    Works,
    /// The sender: publishes.
    Publish,
}

struct Thread {
    cpu: usize,
    state: State,
    polling: Polling,
    way: Way,
    taken: u64,
    wait_since_ns: u64,
    has_slept: bool,
    cpu_ns: u64,
}

#[derive(Default)]
struct Cpu {
    now_ns: u64,
    queue: VecDeque<usize>,
    ran_ns: u64,
    /// Who ran last.
    last: usize,
}

struct Machine {
    scene: Scene,
    threads: Vec<Thread>,
    cpus: [Cpu; 2],
    published: u64,
    acknowledged: u64,
    due_ns: u64,
    total_ns: u64,
    /// The sender sleeps until then, if it does not sleep until it is woken.
    timer_ns: Option<u64>,
}

const SENDER: usize = 0;

/// Lets so many messages pass.
pub fn run(scene: Scene, way: Way, messages: u64) -> Cost {
    let thread = |cpu, state, way| Thread {
        cpu,
        state,
        polling: Polling::up_to(LONGEST),
        way,
        taken: 0,
        wait_since_ns: 0,
        has_slept: false,
        cpu_ns: 0,
    };
    let mut threads = vec![thread(0, State::Publish, Way::Block)];
    threads.extend((1..=scene.readers).map(|number| {
        // The first one shares no CPU with the sender.
        let cpu = if scene.spread_over_both { number % 2 } else { 1 };
        thread(cpu, State::Begin, way)
    }));
    threads.extend(scene.hog.then(|| thread(1, State::Works, way)));
    let mut cpus = [Cpu::default(), Cpu::default()];
    for (number, thread) in threads.iter().enumerate() {
        cpus[thread.cpu].queue.push_back(number);
    }
    let machine = Machine {
        scene,
        threads,
        cpus,
        published: 0,
        acknowledged: 0,
        due_ns: 0,
        total_ns: 0,
        timer_ns: None,
    };
    machine.run(messages)
}

impl Machine {
    fn run(mut self, messages: u64) -> Cost {
        let mut cpu_before_ns = None;
        loop {
            let done = self.published
                - u64::from(self.acknowledged > 0 || matches!(self.threads[SENDER].state, State::Asleep));
            if done >= FIRST_MESSAGES && cpu_before_ns.is_none() {
                (cpu_before_ns, self.total_ns) = (Some(self.reader_cpu_ns()), 0);
            }
            if self.published > FIRST_MESSAGES + messages {
                let spent_ns = self.reader_cpu_ns() - cpu_before_ns.unwrap_or(0);
                let each = messages as f64;
                return Cost {
                    message_ns: self.total_ns as f64 / each,
                    reader_cpu_ns: spent_ns as f64 / (each * self.scene.readers as f64),
                };
            }
            // The CPU that is behind goes on, so that no thread sees what has not happened yet.
            let busy = (0..2).filter(|cpu| !self.cpus[*cpu].queue.is_empty());
            let next = busy.min_by_key(|cpu| self.cpus[*cpu].now_ns);
            let at_ns = next.map_or(u64::MAX, |cpu| self.cpus[cpu].now_ns);
            match self.timer_ns {
                Some(timer_ns) if timer_ns <= at_ns => {
                    self.timer_ns = None;
                    self.wake(SENDER, timer_ns);
                }
                _ => self.step(next.expect("somebody runs, or the timer does")),
            }
        }
    }

    fn reader_cpu_ns(&self) -> u64 {
        self.threads[1..=self.scene.readers].iter().map(|thread| thread.cpu_ns).sum()
    }

    /// Its CPU goes on at this moment at the earliest; one that halted, later.
    fn wake(&mut self, thread: usize, at_ns: u64) {
        let cpu = &mut self.cpus[self.threads[thread].cpu];
        if cpu.queue.is_empty() {
            cpu.now_ns = cpu.now_ns.max(at_ns + HALTED_NS);
        }
        cpu.queue.push_back(thread);
        let state = if thread == SENDER { State::Publish } else { State::Begin };
        self.threads[thread].state = state;
    }

    fn spend(&mut self, cpu: usize, thread: usize, ns: u64) {
        self.cpus[cpu].now_ns += ns;
        self.cpus[cpu].ran_ns += ns;
        self.threads[thread].cpu_ns += ns;
    }

    /// The first thread of a CPU does one thing.
    fn step(&mut self, cpu: usize) {
        let number = self.cpus[cpu].queue[0];
        if self.cpus[cpu].last != number {
            self.cpus[cpu].now_ns += SWITCH_NS;
            (self.cpus[cpu].last, self.cpus[cpu].ran_ns) = (number, 0);
        }
        match self.threads[number].state {
            State::Publish => self.publish(cpu),
            State::Works => self.spend(cpu, number, 10_000),
            State::Begin => self.begin(cpu, number),
            State::Polling(poll, looks) => self.look(cpu, number, poll, looks),
            State::Asleep => unreachable!("who sleeps is in no queue"),
        }
        let Cpu { queue, ran_ns, .. } = &mut self.cpus[cpu];
        if *ran_ns >= SLICE_NS && queue.len() > 1 && queue[0] == number {
            queue.rotate_left(1);
            *ran_ns = 0;
        }
    }

    fn publish(&mut self, cpu: usize) {
        let now_ns = self.cpus[cpu].now_ns;
        if now_ns < self.due_ns {
            self.timer_ns = Some(self.due_ns);
            return self.sleep(cpu, SENDER);
        }
        if self.scene.interval_ns == 0 {
            self.due_ns = now_ns;
        }
        self.published += 1;
        self.spend(cpu, SENDER, TAKE_NS);
        let sleeping: Vec<usize> = (1..=self.scene.readers)
            .filter(|reader| matches!(self.threads[*reader].state, State::Asleep))
            .collect();
        if !sleeping.is_empty() {
            self.spend(cpu, SENDER, WAKE_ONE_NS);
        }
        let at_ns = self.cpus[cpu].now_ns;
        sleeping.into_iter().for_each(|reader| self.wake(reader, at_ns));
        self.sleep(cpu, SENDER);
    }

    fn sleep(&mut self, cpu: usize, thread: usize) {
        self.spend(cpu, thread, SYSTEM_CALL_NS);
        self.cpus[cpu].queue.pop_front();
        self.threads[thread].state = State::Asleep;
    }

    fn take(&mut self, cpu: usize, number: usize) {
        self.spend(cpu, number, TAKE_NS);
        let now_ns = self.cpus[cpu].now_ns;
        let thread = &mut self.threads[number];
        thread.taken += 1;
        if thread.has_slept {
            thread.polling.slept(now_ns - thread.wait_since_ns);
        }
        (thread.has_slept, thread.wait_since_ns, thread.state) = (false, now_ns, State::Begin);
        self.acknowledged += 1;
        if self.acknowledged == self.scene.readers as u64 {
            self.acknowledged = 0;
            self.total_ns += now_ns - self.due_ns;
            self.due_ns += self.scene.interval_ns;
            self.spend(cpu, number, WAKE_ONE_NS);
            let at_ns = self.cpus[cpu].now_ns;
            self.wake(SENDER, at_ns);
        }
    }

    fn begin(&mut self, cpu: usize, number: usize) {
        if self.threads[number].taken < self.published {
            return self.take(cpu, number);
        }
        let now_ns = self.cpus[cpu].now_ns;
        let shares_cpu_with_sender = cpu == self.threads[SENDER].cpu;
        let thread = &mut self.threads[number];
        if thread.has_slept
            || thread.way == Way::Block
            || (thread.way == Way::Adapt && shares_cpu_with_sender)
        {
            return self.fall_asleep(cpu, number);
        }
        thread.state = match thread.way {
            Way::Adapt => State::Polling(thread.polling.begin(now_ns, u64::MAX), 0),
            _ => State::Polling(
                Polling::up_to(LONGEST).begin(now_ns, u64::MAX),
                (LONGEST.as_nanos() as u64 / LOOK_NS) as u32,
            ),
        };
    }

    fn look(&mut self, cpu: usize, number: usize, mut poll: Poll, looks: u32) {
        if looks > 0 {
            self.spend(cpu, number, LOOK_NS);
            if self.threads[number].taken < self.published {
                self.threads[number].polling.found();
                return self.take(cpu, number);
            }
            self.threads[number].state = State::Polling(poll, looks - 1);
            return;
        }
        let now_ns = self.cpus[cpu].now_ns;
        let thread = &mut self.threads[number];
        let step =
            if thread.way == Way::Adapt { thread.polling.step(&mut poll, now_ns) } else { Step::Sleep };
        match step {
            Step::Look(looks) => thread.state = State::Polling(poll, looks / LOOKS_AT_ONCE),
            Step::Yield => {
                thread.state = State::Polling(poll, 1);
                self.spend(cpu, number, SYSTEM_CALL_NS);
                self.cpus[cpu].queue.rotate_left(1);
            }
            Step::Sleep => self.fall_asleep(cpu, number),
        }
    }

    /// Sleeps unless a message has come meanwhile.
    fn fall_asleep(&mut self, cpu: usize, number: usize) {
        let thread = &mut self.threads[number];
        if thread.taken < self.published {
            thread.state = State::Begin;
            return self.spend(cpu, number, SYSTEM_CALL_NS);
        }
        thread.has_slept = true;
        self.sleep(cpu, number);
    }
}
