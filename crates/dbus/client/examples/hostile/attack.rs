//! The hostile clients. Each does its worst in steps, so many in a second.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use causeway_bus::client::{Address, Bus};
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_os::sched;

/// What a hostile client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Connects, stays without a word, and leaves some time later.
    Connections,
    /// Sends a large message piece by piece, over many connections, and never its end.
    HalfMessages,
    /// Sends 253 descriptors with a signal that nobody wants.
    Descriptors,
    /// Sends a TCP socket that lingers, and leaves its closing to the broker.
    Lingering,
    /// Sends signals to a client that does not read.
    BlackHole,
    /// Sends many small messages at once.
    Burst,
    /// Sends a signal to many that want it.
    Broadcast,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

impl Attack {
    /// Each with its name, and the steps that it takes in a second.
    pub const ALL: [(Attack, &str, u32); 7] = [
        (Attack::Connections, "connections", 300),
        (Attack::HalfMessages, "half-messages", 300),
        (Attack::Descriptors, "descriptors", 30),
        (Attack::Lingering, "lingering", 30),
        (Attack::BlackHole, "black-hole", 300),
        (Attack::Burst, "burst", 10),
        (Attack::Broadcast, "broadcast", 10),
    ];
}

/// Plays the client of this name until standard input ends: a `g` there lets it go on, an `s` lets it rest.
pub fn run(name: &str, address: &str, cpu: &str) -> Outcome {
    let known = Attack::ALL.into_iter().find(|(_, known, _)| *known == name);
    let (attack, _, rate) = known.ok_or("there is no such attack")?;
    sched::pin(&[cpu.parse()?])?;
    let mut client = Client::start(attack, address)?;
    let (stdin, mut is_going) = (std::io::stdin(), false);
    let every = Duration::from_secs(1) / rate;
    let mut next = Instant::now();
    loop {
        let patience = is_going.then(|| next.saturating_duration_since(Instant::now()));
        if causeway_os::process::poll(&[stdin.as_fd()], patience)?[0] {
            let mut order = [0];
            match stdin.lock().read(&mut order)? {
                0 => return Ok(()),
                _ => is_going = order == *b"g",
            }
            next = Instant::now();
        } else {
            // A broker that ends its connection has it come back.
            if client.step().is_err() {
                client = Client::start(attack, address)?;
            }
            next += every;
        }
    }
}

/// A hostile client and what it needs.
struct Client {
    attack: Attack,
    address: String,
    /// Where its messages go out.
    sender: Bus,
    /// Connections on which nothing or half a message was sent, the oldest first.
    silent: VecDeque<UnixStream>,
    /// Those that want its signals.
    subscribers: Vec<Bus>,
    /// Peers of sockets that linger, which do not read.
    peers: VecDeque<TcpStream>,
}

/// Connections that are open at once.
const CONNECTIONS: usize = 50;
/// Those that get one signal.
const SUBSCRIBERS: usize = 100;
const BURST: u32 = 300;
/// As long as a socket lingers: its peer goes before.
const LINGER: Duration = Duration::from_secs(1);

impl Client {
    fn start(attack: Attack, address: &str) -> Outcome<Client> {
        let sender = Bus::open(address)?;
        let subscribers = match attack {
            Attack::BlackHole => 1,
            Attack::Broadcast => SUBSCRIBERS,
            _ => 0,
        };
        let subscribe = |_| -> Outcome<Bus> {
            let mut subscriber = Bus::open(address)?;
            subscriber.add_match("interface='a.Hostile'")?;
            Ok(subscriber)
        };
        let subscribers = (0..subscribers).map(subscribe).collect::<Outcome<Vec<Bus>>>()?;
        let (silent, peers) = (VecDeque::new(), VecDeque::new());
        Ok(Client { attack, address: address.into(), sender, silent, subscribers, peers })
    }

    fn step(&mut self) -> Outcome {
        let signal = Builder::signal("/", "a.Hostile", "S");
        match self.attack {
            Attack::Connections => {
                let address =
                    Address::list(&self.address)?.into_iter().next().ok_or("there is no address")?;
                self.silent.push_back(address.connect()?);
                self.silent.drain(..self.silent.len().saturating_sub(CONNECTIONS));
            }
            Attack::HalfMessages => self.send_piece()?,
            Attack::Descriptors => {
                let (_read, write) = std::io::pipe()?;
                let fds = vec![write.as_fd(); causeway_os::socket::FDS_MAX];
                self.sender.send_with_fds(&signal.unix_fds(fds.len().try_into()?), &fds)?;
            }
            Attack::Lingering => {
                let socket = self.lingering()?;
                self.sender.send_with_fds(&signal.unix_fds(1), &[socket.as_fd()])?;
            }
            Attack::BlackHole => {
                self.sender.send(&signal.body(Body::default().blob(&[7; 16_384])))?;
            }
            Attack::Burst => {
                let call = Builder::of_driver("GetId").flags(FLAG_NO_REPLY_EXPECTED);
                let all: Result<Vec<_>, _> = (10..10 + BURST).map(|serial| call.build(serial)).collect();
                self.sender.send_bytes(&all?.concat())?;
            }
            Attack::Broadcast => {
                self.sender.send(&signal)?;
                for subscriber in &mut self.subscribers {
                    while subscriber.receive(Duration::ZERO)?.is_some() {}
                }
            }
        }
        Ok(())
    }

    /// The next piece of a message of 1 MiB, on one connection after another.
    fn send_piece(&mut self) -> Outcome {
        let mut stream = if self.silent.len() < CONNECTIONS {
            let (mut stream, ..) = Bus::open(&self.address)?.into_parts()?;
            let mut start =
                Builder::signal("/", "a.Hostile", "S").body(Body::default().blob(&[])).build(2)?;
            start[4..8].copy_from_slice(&(1_u32 << 20).to_ne_bytes());
            stream.write_all(&start)?;
            stream
        } else {
            self.silent.pop_front().ok_or("there are connections")?
        };
        stream.write_all(&[0; 100])?;
        self.silent.push_back(stream);
        Ok(())
    }

    /// A socket with bytes that its peer does not read.
    fn lingering(&mut self) -> Outcome<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut socket = TcpStream::connect(listener.local_addr()?)?;
        self.peers.push_back(listener.accept()?.0);
        self.peers.drain(..self.peers.len().saturating_sub(CONNECTIONS));
        rustix::net::sockopt::set_socket_linger(&socket, Some(LINGER))?;
        socket.set_nonblocking(true)?;
        while socket.write(&[0; 65_536]).is_ok() {}
        Ok(socket)
    }
}
