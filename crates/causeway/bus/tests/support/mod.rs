//! A bus for a test: causewayd in a thread of the test.
#![allow(dead_code, reason = "each test uses a part")]

pub mod raw;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bus::{
    AuthorityOptions, Connection, ConnectionOptions, Error, Incoming, Message, Monitor, Statistics,
};
use causewayd::children::Children;
use causewayd::config::Config;
use causewayd::listen;
use causewayd::serve::Server;
use rustix::process::Resource;

/// Long enough for any machine; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(60);
pub const PATH: &str = "/com/example";
pub const INTERFACE: &str = "com.example.Test";

/// A bus that ends with the test.
pub struct Bus {
    dir: tempfile::TempDir,
    stop: OwnedFd,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Bus {
    pub fn start() -> Bus {
        Bus::start_with(AuthorityOptions::default())
    }

    /// A bus whose order log is short, so that it is full all the time.
    pub fn start_small() -> Bus {
        Bus::start_with(AuthorityOptions {
            order_entries: 32,
            laggard_deadline: LONG,
            ..AuthorityOptions::default()
        })
    }

    pub fn start_with(options: AuthorityOptions) -> Bus {
        Bus::serve(|path, stop, ready| causewayd::serve_alone(path, options, stop, ready))
    }

    /// A bus with a socket for D-Bus clients beside the native one, at [`Bus::address`].
    pub fn start_with_clients() -> Bus {
        Bus::serve(|path, stop, ready| {
            let (guid, limit) = (listen::new_guid(), rustix::process::getrlimit(Resource::Nofile));
            let listener = listen::Listener::open(&address_beside(path), &guid)?;
            let load = Box::new(|| Ok(Config::session()));
            let bus = causewayd::bus::Bus::new(Config::session(), load, guid, listener.address.clone());
            let mut server = Server::new(bus, vec![listener], Children::new(limit))?;
            let place = listen::NativePlace { path: path.to_owned(), socket: None };
            server.serve_natively(place, AuthorityOptions::default())?;
            server.stop_with(stop)?;
            ready();
            server.run()
        })
    }

    fn serve(serve: impl FnOnce(&Path, &OwnedFd, &dyn Fn()) -> Result<(), String> + Send + 'static) -> Bus {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus");
        let (stop, theirs) = rustix::pipe::pipe().unwrap();
        let (is_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || serve(&path, &stop, &|| is_ready.send(()).unwrap()));
        ready.recv().expect("the bus comes up");
        Bus { dir, stop: theirs, thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("bus")
    }

    /// Where D-Bus clients connect to a bus that has them.
    pub fn address(&self) -> String {
        address_beside(&self.path())
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Waits until members can join and use the bus, after it was broken.
    pub fn is_new_again(&self) {
        eventually("no new bus comes up", || {
            Connection::open(self.path()).is_ok_and(|mut member| member.add_match("member='New'").is_ok())
        });
    }

    /// A member that waits for laggards as long as it takes, with an outbox of 4 KiB.
    pub fn connect_small(&self) -> Connection {
        let options = ConnectionOptions {
            outbox_bytes: 4096,
            laggard_deadline: Some(LONG),
            ..ConnectionOptions::default()
        };
        Connection::open_with(self.path(), options).unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        rustix::io::write(&self.stop, b"x").ok();
        if let Some(thread) = self.thread.take() {
            // A test that has failed already must not abort.
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok_and(|result| result.is_ok()), "the bus failed");
        }
    }
}

fn address_beside(path: &Path) -> String {
    format!("unix:path={}.dbus", path.display())
}

/// A file that holds a text, with a name that [`open_texts`] finds.
pub fn file(text: &str) -> OwnedFd {
    let fd = causeway_os::memory::memfd("text", 0).unwrap();
    rustix::io::pwrite(&fd, text.as_bytes(), 0).unwrap();
    fd
}

/// One test at a time: those that count descriptors of this process.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many files of [`file`] a process has open.
pub fn open_texts(process: u32) -> usize {
    let is_text = |path: PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("memfd:text"))
    };
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    open.filter(|entry| is_text(entry.as_ref().unwrap().path())).count()
}

/// Serves a bus in a process of its own.
pub fn serve_until_killed(socket: &Path) {
    let (stop, _open) = rustix::pipe::pipe().unwrap();
    causewayd::serve_alone(socket, AuthorityOptions::default(), &stop, || ()).unwrap();
}

/// Stops a process, and waits until all its threads stand.
pub fn stop(pid: i32) {
    use nix::sys::signal::{Signal, kill};

    kill(nix::unistd::Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    eventually("the process does not stop", || {
        let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.all(|task| {
            std::fs::read_to_string(task.unwrap().path().join("status"))
                .is_ok_and(|text| text.contains("State:\tT"))
        })
    });
}

/// Calls `done` until it returns true; fails with `what` after [`LONG`].
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The next signal.
pub fn signal(connection: &mut Connection) -> Message {
    loop {
        match connection.next(Some(LONG)).unwrap() {
            Some(Incoming::Signal(message)) => return message,
            Some(_) => {}
            None => panic!("no signal came"),
        }
    }
}

/// Answers calls in a thread until the bus ends or `Quit` is called: `Echo` with its text, `Fail` with an error.
pub fn echo(path: &Path, name: &'static str) -> JoinHandle<()> {
    let mut service = Connection::open(path).unwrap();
    service.request_name(name, 0).unwrap();
    std::thread::spawn(move || {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let result = service.serve(&stop, |call| match call.header().member {
            Some("Echo") => Ok(causeway_bus::wire::Body::default().text(call.text().unwrap_or_default())),
            Some("Quit") => {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                Ok(causeway_bus::wire::Body::default())
            }
            _ => Err(("com.example.Error.Fail".into(), "as you wish".into())),
        });
        assert!(matches!(result, Ok(()) | Err(Error::AuthorityGone)), "{result:?}");
    })
}

/// Statistics of the member with a unique name.
pub fn statistics_of(monitor: &Monitor, unique: &str) -> Statistics {
    let found = monitor.members().into_iter().find(|(peer, ..)| format!(":1.{}", peer.id) == unique);
    found.unwrap_or_else(|| panic!("{unique} is not there")).2
}
