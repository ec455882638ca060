//! A subscriber in an event loop together with other descriptors: here a timer.
//!
//! `cargo run -p causeway --example epoll_loop`
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway::{Group, GroupOptions, Policy, Received};
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
    // Edge-triggered works as well; arming takes back what rang before either way.
    epoll::add(&epoll, subscriber.as_fd(), EventData::new_u64(BUS), EventFlags::IN)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;

    std::thread::spawn(move || {
        for number in 0..5 {
            std::thread::sleep(Duration::from_millis(13));
            let _ = publisher.publish(format!("event {number}").as_bytes());
        }
    });

    let (mut ticks, mut events) = (0, 0);
    while events < 5 {
        // Take what is there, then arm, then sleep: in this order nothing is missed.
        while events < 5
            && let Received::Message(message) = subscriber.receive()?
        {
            println!("{}", String::from_utf8_lossy(message.bytes));
            events += 1;
        }
        if events == 5 || !subscriber.arm()? {
            continue;
        }
        let mut ready = Vec::with_capacity(4);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut ready), None)?;
        if ready.iter().any(|event| event.data.u64() == TIMER) {
            rustix::io::read(&timer, &mut [0; 8])?;
            ticks += 1;
        }
    }
    println!("{ticks} ticks of the timer meanwhile");
    Ok(())
}
