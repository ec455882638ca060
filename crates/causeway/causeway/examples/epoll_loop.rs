//! A subscriber in an event loop together with other descriptors: here a timer.
//!
//! `cargo run -p causeway-ipc --example epoll_loop`
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway::{Group, GroupOptions, Policy, Received, TryRecvError};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

const BUS: u64 = 1;
const TIMER: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let group = Group::create("events", GroupOptions::new())?;
    let mut publisher = group.publisher()?;
    let mut subscriber = group.subscribe(Policy::Reliable)?;

    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let every = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let setting = Itimerspec { it_interval: every, it_value: every };
    rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;

    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    // Edge-triggered works as well: `arm` drains the descriptor either way.
    epoll::add(&epoll, subscriber.as_fd(), EventData::new_u64(BUS), EventFlags::IN)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;

    let publishing = std::thread::spawn(move || {
        for number in 0..5 {
            std::thread::sleep(Duration::from_millis(13));
            publisher.publish(format!("event {number}").as_bytes())?;
        }
        Ok::<_, causeway::Error>(())
    });

    let (mut ticks, mut events) = (0, 0);
    // Receive what is there, then arm, then sleep: in this order nothing is missed.
    loop {
        match subscriber.try_recv() {
            Ok(Received::Message(message)) => {
                println!("{}", String::from_utf8_lossy(message.bytes));
                events += 1;
                continue;
            }
            Ok(Received::Lost { .. } | Received::Demoted) => {
                unreachable!("a reliable subscriber loses nothing")
            }
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
            Err(error) => return Err(error.into()),
        }
        match subscriber.arm() {
            Ok(true) => {}
            Ok(false) => continue,
            Err(causeway::Error::Disconnected) => break,
            Err(error) => return Err(error.into()),
        }
        let mut ready = Vec::with_capacity(4);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), None)?;
        if ready.iter().any(|event| event.data.u64() == TIMER) {
            rustix::io::read(&timer, &mut [0; 8])?;
            ticks += 1;
        }
    }
    publishing.join().expect("the publisher does not panic")?;
    println!("{events} events, {ticks} ticks of the timer meanwhile");
    Ok(())
}
