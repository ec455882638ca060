//! Sockets of a service manager: the bus takes descriptor 3, says when it serves, and leaves the socket's file alone.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::Body;
use causeway_os::process::{Child, Exit, Spawn, Stderr};

use crate::support::*;

/// causewayd with descriptors 3, 4, …, started as systemd does: the variables name the process that they are for.
fn start(fds: Vec<OwnedFd>, said: &str, args: &str, stderr: Stderr) -> Child {
    let script = format!("{said} exec \"$0\" --address systemd: --nofork {args}");
    let spawn = Spawn::new("/bin/sh").arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_causewayd"));
    let spawn = fds.into_iter().fold(spawn, Spawn::fd).stderr(stderr).dies_with_parent();
    Child::spawn(spawn).unwrap()
}

/// A socket as `ListenSequentialPacket=` makes it.
fn packets(path: &Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    socket
}

#[test]
fn it_serves_on_the_sockets_of_a_socket_unit() {
    let folder = temp_dir("systemd");
    let path = |name: &str| folder.path().join(name);
    let mut sockets: Vec<OwnedFd> = vec![UnixListener::bind(path("one")).unwrap().into()];
    sockets.push(packets(&path("native")));
    sockets.push(UnixListener::bind(path("two")).unwrap().into());
    let manager = UnixDatagram::bind(path("manager")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    // A client that connects before the bus is there waits for it, as with every socket unit.
    let (early, native) = (at(&path("one")), path("native"));
    let early = std::thread::spawn(move || Client::open(&early).unwrap().unique_name().to_owned());
    // So does a native member.
    let member = std::thread::spawn(move || causeway_bus::Connection::open(native).unwrap().bus_id());
    let said = format!("NOTIFY_SOCKET='{}' LISTEN_PID=$$ LISTEN_FDS=3", path("manager").display());
    let mut bus = start(sockets, &said, "", Stderr::Inherit);
    let mut ready = [0; 64];
    let bytes = manager.recv(&mut ready).unwrap();
    assert_eq!(&ready[..bytes], b"READY=1\n");
    let name = early.join().unwrap();
    let mut client = Client::open(&at(&path("two"))).unwrap();
    let guid = client.ask_driver("GetId", Body::default()).unwrap();
    assert_eq!(texts(&guid), [member.join().unwrap()]);
    assert_ne!(client.unique_name(), name);
    bus.kill(15).unwrap();
    assert_eq!(bus.wait(Some(PATIENCE)).unwrap(), Some(Exit::Code(0)));
    // The manager listens on, and removes the files when it wants to.
    assert!(path("one").exists() && path("two").exists() && path("native").exists());
}

#[test]
fn what_is_no_socket_of_a_unit_is_said_in_a_sentence() {
    let said_of = |fds: Vec<OwnedFd>, said: &str| {
        let (read, write) = std::io::pipe().unwrap();
        let mut bus = start(fds, said, "", Stderr::Fd(write.into()));
        let complaint = std::io::read_to_string(read).unwrap();
        assert_eq!(bus.wait(Some(PATIENCE)).unwrap(), Some(Exit::Code(3)), "{complaint}");
        complaint
    };
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let (connected, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let folder = temp_dir("systemd");
    let [one, two] = ["one", "two"].map(|name| packets(&folder.path().join(name)));
    for (fds, said, words) in [
        (vec![], "", "systemd passed 0"),
        // They are for another process.
        (vec![null()], "LISTEN_PID=1 LISTEN_FDS=1", "systemd passed 0"),
        (vec![null()], "LISTEN_PID=$$ LISTEN_FDS=1000", "1 to 32 sockets"),
        (vec![null()], "LISTEN_PID=$$ LISTEN_FDS=1", "not a listening Unix stream socket"),
        (vec![connected.into()], "LISTEN_PID=$$ LISTEN_FDS=1", "not a listening"),
        (vec![], "LISTEN_PID=$$ LISTEN_FDS=1", "descriptor 3"),
        (vec![one.try_clone().unwrap()], "LISTEN_PID=$$ LISTEN_FDS=1", "no socket for D-Bus clients"),
        (vec![one, two], "LISTEN_PID=$$ LISTEN_FDS=2", "the second socket for native members"),
    ] {
        let complaint = said_of(fds, said);
        assert!(complaint.contains(words), "{said}: {complaint}");
    }
}

/// A unit whose program is not installed cannot be verified: its copy names the one that was built.
#[test]
fn units_are_what_systemd_expects() {
    if !has_program("systemd-analyze") {
        return;
    }
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dist/systemd/user");
    let folder = temp_dir("systemd");
    let mut copies = Vec::new();
    for name in ["causewayd.socket", "causewayd.service"] {
        let text = std::fs::read_to_string(units.join(name)).unwrap();
        let copy = folder.path().join(name);
        std::fs::write(&copy, text.replace("/usr/bin/causewayd", env!("CARGO_BIN_EXE_causewayd"))).unwrap();
        copies.push(copy);
    }
    let verified = Command::new("timeout")
        .args(["60", "systemd-analyze", "--user", "verify", "--man=no"])
        .args(&copies)
        .env("XDG_RUNTIME_DIR", folder.path())
        .output();
    let output = verified.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let of_ours: Vec<&str> = complaint.lines().filter(|line| line.contains("causewayd")).collect();
    assert!(of_ours.is_empty(), "{complaint}");
    assert!(output.status.success(), "{complaint}");
}

/// What the units start is understood.
#[test]
fn the_command_of_the_unit_serves() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dist/systemd/user");
    for name in ["causewayd.service", "dbus.service.d/causewayd.conf"] {
        let text = std::fs::read_to_string(units.join(name)).unwrap();
        let command =
            text.lines().filter_map(|line| line.strip_prefix("ExecStart=")).rfind(|line| !line.is_empty());
        let args =
            command.unwrap().strip_prefix("/usr/bin/causewayd ").unwrap().replace("%t", "$XDG_RUNTIME_DIR");
        let args = args.replace("--address=systemd:", "").replace("--nofork", "");
        let folder = temp_dir("systemd");
        let path = folder.path().join("bus");
        // systemd makes this folder for the socket.
        std::fs::create_dir(folder.path().join("causewayd")).unwrap();
        let socket = UnixListener::bind(&path).unwrap().into();
        let said =
            format!("export XDG_RUNTIME_DIR='{}'; LISTEN_PID=$$ LISTEN_FDS=1", folder.path().display());
        let mut bus = start(vec![socket], &said, &args, Stderr::Inherit);
        sync(&mut Client::open(&at(&path)).unwrap());
        bus.kill(15).unwrap();
        assert_eq!(bus.wait(Some(PATIENCE)).unwrap(), Some(Exit::Code(0)), "{name}");
    }
}
