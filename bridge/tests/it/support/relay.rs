//! A path on which bytes are late, stand still, or are cut off: a relay between bridges and a router. No kernel lacks it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use rustix::thread::move_into_link_name_space;

/// What is on its way in one direction: so many pieces at most.
const PIECES: usize = 256;
const PIECE_BYTES: usize = 16 << 10;
const LOOK: Duration = Duration::from_millis(5);

/// What the threads of a relay share.
struct Path {
    delay_us: AtomicU64,
    is_held: AtomicBool,
    is_cut: AtomicBool,
    is_over: AtomicBool,
    ends: Mutex<Vec<TcpStream>>,
}

/// It ends when it is dropped.
pub struct Relay {
    path: Arc<Path>,
    pub port: u16,
}

impl Relay {
    /// Listens on loopback, and passes on to `to` what comes; in the network namespace of that name, if there is one.
    pub fn start(to: SocketAddr, delay: Duration, namespace: Option<&str>) -> Relay {
        let path = Arc::new(Path {
            delay_us: AtomicU64::new(delay.as_micros() as u64),
            is_held: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ends: Mutex::default(),
        });
        let namespace = namespace.map(|name| File::open(format!("/run/netns/{name}")).unwrap());
        let (told, port) = channel();
        let shared = Arc::clone(&path);
        std::thread::spawn(move || {
            // A socket stays where it was made.
            namespace.iter().for_each(|of| move_into_link_name_space(of.as_fd(), None).unwrap());
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            told.send(listener.local_addr().unwrap().port()).unwrap();
            while !shared.is_over.load(Ordering::Relaxed) {
                if poll(&[listener.as_fd()], Some(LOOK)).unwrap()[0] {
                    shared.connect(listener.accept().unwrap().0, to);
                }
            }
        });
        Relay { path, port: port.recv().unwrap() }
    }

    /// How late bytes are from now on, in each direction.
    pub fn delay(&self, by: Duration) {
        self.path.delay_us.store(by.as_micros() as u64, Ordering::Relaxed);
    }

    /// Whether all bytes stand still.
    pub fn hold(&self, is_held: bool) {
        self.path.is_held.store(is_held, Ordering::Relaxed);
    }

    /// Whether there is no path: then all connections have ended, with what was on its way.
    pub fn cut(&self, is_cut: bool) {
        self.path.is_cut.store(is_cut, Ordering::Relaxed);
        if is_cut {
            self.path.end_all();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.path.is_over.store(true, Ordering::Relaxed);
        self.path.end_all();
    }
}

impl Path {
    fn end_all(&self) {
        self.ends.lock().unwrap().drain(..).for_each(|end| _ = end.shutdown(Shutdown::Both));
    }

    fn connect(self: &Arc<Self>, near: TcpStream, to: SocketAddr) {
        let Ok(far) = TcpStream::connect_timeout(&to, Duration::from_secs(1)) else { return };
        let mut ends = self.ends.lock().unwrap();
        if self.is_cut.load(Ordering::Relaxed) {
            return;
        }
        ends.extend([&near, &far].map(|end| end.try_clone().unwrap()));
        for (from, to) in [(&near, &far), (&far, &near)] {
            to.set_nodelay(true).unwrap();
            let (mut from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (pass_on, late) = sync_channel(PIECES);
            let path = Arc::clone(self);
            std::thread::spawn(move || path.write(&late, to));
            std::thread::spawn(move || {
                let mut piece = vec![0; PIECE_BYTES];
                while let Ok(length @ 1..) = from.read(&mut piece) {
                    if pass_on.send((Instant::now(), piece[..length].to_vec())).is_err() {
                        return;
                    }
                }
            });
        }
    }

    fn write(&self, late: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
        for (came, piece) in late {
            let delay = Duration::from_micros(self.delay_us.load(Ordering::Relaxed));
            std::thread::sleep((came + delay).saturating_duration_since(Instant::now()));
            while self.is_held.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}
