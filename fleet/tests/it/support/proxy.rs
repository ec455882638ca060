//! Between a client and a server of objects: passes requests on, or does what goes wrong on the way.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Pass,
    /// The server never sees it, and the client gets this answer.
    Answer(u16),
    /// The server does it, and the client does not learn of it.
    LoseAnswer,
    /// The server gets half of it.
    LoseRequest,
    /// The process is killed before the server sees it.
    KillBefore,
    /// The process is killed after the server did it.
    KillAfter,
}

/// What decides, by the number of the request from 0.
type Decide = dyn Fn(usize) -> Fate + Send + Sync;

/// A proxy, for as long as its test runs.
pub struct Proxy {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    victim: Arc<Mutex<Option<u32>>>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // So that the thread that waits for a client sees it.
        drop(TcpStream::connect(self.address));
    }
}

impl Proxy {
    pub fn new(server: SocketAddr, decide: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy =
            Proxy { address, requests: Arc::default(), victim: Arc::default(), is_over: Arc::default() };
        let (requests, victim, is_over) =
            (proxy.requests.clone(), proxy.victim.clone(), proxy.is_over.clone());
        let decide: Arc<Decide> = Arc::new(decide);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (requests, victim, decide) = (requests.clone(), victim.clone(), decide.clone());
                thread::spawn(
                    move || while serve(&client, server, &requests, &victim, &*decide).is_some() {},
                );
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests that came.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whom the fates of killing are for.
    pub fn kills(&self, process: u32) {
        *self.victim.lock().unwrap() = Some(process);
    }
}

/// A message with its head and its body.
fn message(mut from: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if from.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes.clone()).ok()?;
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
        .unwrap_or(0);
    let at = bytes.len();
    bytes.resize(at + length, 0);
    from.read_exact(&mut bytes[at..]).ok()?;
    Some((head, bytes))
}

fn serve(
    mut client: &TcpStream,
    server: SocketAddr,
    requests: &AtomicUsize,
    victim: &Mutex<Option<u32>>,
    decide: &Decide,
) -> Option<()> {
    let (head, bytes) = message(client)?;
    let fate = decide(requests.fetch_add(1, Ordering::SeqCst));
    match fate {
        Fate::Answer(status) => {
            let text = format!("HTTP/1.1 {status} Injected\r\nContent-Length: 0\r\n\r\n");
            return client.write_all(text.as_bytes()).ok();
        }
        Fate::KillBefore => {
            kill(victim);
            return None;
        }
        Fate::LoseRequest => {
            let half = &bytes[..head.len() + (bytes.len() - head.len()) / 2];
            let _ = TcpStream::connect(server).and_then(|mut server| server.write_all(half));
            let _ = client.shutdown(Shutdown::Both);
            return None;
        }
        Fate::Pass | Fate::LoseAnswer | Fate::KillAfter => {}
    }
    let mut upstream = TcpStream::connect(server).ok()?;
    // The answer ends with the connection, whatever its head says of its length.
    let asked = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    upstream.write_all(asked.as_bytes()).and_then(|()| upstream.write_all(&bytes[head.len()..])).ok()?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).ok()?;
    match fate {
        Fate::KillAfter => kill(victim),
        Fate::LoseAnswer => drop(client.shutdown(Shutdown::Both)),
        _ => {
            client.write_all(&answer).ok()?;
            // As the answer said.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
    None
}

fn kill(victim: &Mutex<Option<u32>>) {
    if let Some(process) = victim.lock().unwrap().take() {
        let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }
}
