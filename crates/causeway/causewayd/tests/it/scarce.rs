//! A bus that lacks something: descriptors, space in the order log, places, the right to long messages, or a descriptor that is closed at once.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Body, Builder};
use causeway_bus::{AuthorityOptions, Connection as Member, NameReply, Payload, name};
use causeway_os::limits::set_nofile_of;
use causewayd::Config;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::*;

const NAME: &str = "com.example.Name";

fn set_limit(bus: &Broker, limit: Rlimit) -> Rlimit {
    prlimit(Some(Pid::from_child(&bus.child.0)), Resource::Nofile, limit).unwrap()
}

/// Lets causewayd open `more` descriptors beyond those that it has. Returns what it may have otherwise.
fn leave_descriptors(bus: &Broker, more: u64) -> Rlimit {
    let open = std::fs::read_dir(format!("/proc/{}/fd", bus.child.pid())).unwrap();
    let open: Vec<u64> =
        open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let first_free = (0..).find(|number| !open.contains(number)).unwrap();
    set_limit(bus, Rlimit { current: Some(first_free + more), ..getrlimit(Resource::Nofile) })
}

#[test]
fn members_meet_while_the_bus_has_no_descriptors_left() {
    let bus = Broker::native();
    let (mut one, mut two) = (bus.member(), bus.member());
    let before = leave_descriptors(&bus, 0);
    // The bus reads from a member that has sent nothing before, and the two ask for each other's outbox.
    assert_eq!(one.request_name(NAME, 0).unwrap(), NameReply::PrimaryOwner);
    exchange(&mut two, &mut one);
    // A doorbell has no place, or no place for its copy.
    for more in [0, 1] {
        leave_descriptors(&bus, more);
        let error = one.use_descriptor().unwrap_err();
        assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{more}: {error}");
        exchange(&mut two, &mut one);
    }
    set_limit(&bus, before);
    one.use_descriptor().unwrap();
    exchange(&mut two, &mut one);
    exchange(&mut one, &mut two);
}

#[test]
fn members_join_once_there_are_descriptors_again_and_clients_go_on_meanwhile() {
    let bus = Broker::native();
    let (mut client, path) = (bus.client(), bus.path());
    let before = leave_descriptors(&bus, 0);
    let joining =
        std::thread::spawn(move || Member::open(path).map(|mut member| member.request_name(NAME, 0)));
    (0..200).for_each(|_| sync(&mut client));
    set_limit(&bus, before);
    joining.join().unwrap().unwrap().unwrap();
}

/// Both sides learn it: the member has no authority any more, and the bus has no such member.
#[test]
fn a_member_that_gave_up_on_a_stopped_bus_is_gone_when_the_bus_continues() {
    let bus = Broker::native();
    let (mut one, mut watcher) = (bus.member(), bus.member());
    watcher.add_match("member='NameOwnerChanged'").unwrap();
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let payload = Payload::default().descriptor(file);
    let sent =
        bus.stopped(|| one.call_without_reply(watcher.unique_name(), PATH, INTERFACE, "Take", payload));
    assert!(sent.unwrap_err().to_string().contains("does not answer"));
    let name = one.unique_name().to_owned();
    while texts(signal_of(&mut watcher, DRIVER).bytes()) != [&name, &name, ""] {}
    drop(one);
}

/// The log is full of what a member has not read, and the member leaves.
#[test]
fn clients_are_read_again_when_the_last_reader_of_a_full_log_has_gone() {
    // More than the log and all buffers of a socket hold.
    const SIGNALS: u64 = 20_000;
    let bus = Bus::start_small();
    let (member, mut client) = (bus.member(), bus.client());
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let filling = Builder::signal(PATH, INTERFACE, "Fill").body(Body::default().blob(&[0; 200]));
            for _ in 0..SIGNALS {
                client.send(&filling).unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
            sync(&mut client);
        });
        let mut before = 0;
        eventually("the client still sends", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = sent.load(Ordering::Relaxed);
            std::mem::replace(&mut before, now) == now && now > 0
        });
        assert!(sent.load(Ordering::Relaxed) < SIGNALS, "the log is never full");
        drop(member);
        eventually("the client is not read", || sender.is_finished());
    });
}

#[test]
fn the_place_of_a_member_that_left_is_free_again_when_no_process_reads_the_log() {
    let bus = Bus::start_with(AuthorityOptions { members: 2, ..AuthorityOptions::default() });
    for _ in 0..10 {
        assert_eq!(bus.member().request_name(NAME, 0).unwrap(), NameReply::PrimaryOwner);
    }
}

fn short_messages() -> Config {
    let mut config = Config::session();
    (config.limits.message_bytes, config.limits.message_descriptors) = (100_000, 2);
    config
}

/// The limits of the configuration hold for what members send to clients, and not for what they send to each other.
#[test]
fn members_send_to_clients_what_clients_may_send() {
    let bus = Bus::configured(short_messages, AuthorityOptions::default());
    let (mut member, mut other, mut client) = (bus.member(), bus.member(), bus.client());
    let payload = |bytes: usize, count: u32| {
        let files = (0..count).map(|_| file("x")).collect();
        Payload::new(Body::default().blob(&vec![0; bytes]), files)
    };
    for (bytes, count, fits) in [(200_000, 0, false), (10, 3, false), (90_000, 2, true)] {
        let (to_client, to_other) = (client.unique_name(), other.unique_name().to_owned());
        let serial = member.start_call(to_client, PATH, INTERFACE, "Ask", payload(bytes, count)).unwrap();
        if fits {
            wait_for_member(&mut client, "Ask");
        } else {
            let error = member.finish_call(serial, PATIENCE).unwrap_err();
            assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{bytes} {count}: {error}");
        }
        member.call_without_reply(&to_other, PATH, INTERFACE, "Take", payload(bytes, count)).unwrap();
        assert_eq!(call(&mut other).header().unix_fds, count);
    }
    // A reply ends the call of a client with an error.
    let serial = client.send(&Builder::call(PATH, "Ask").destination(member.unique_name())).unwrap();
    let asked = call(&mut member);
    member.reply(&asked, payload(200_000, 0)).unwrap();
    assert_eq!(header(&wait_for_reply(&mut client, serial)).error_name, Some(name::LIMITS_EXCEEDED));
}

#[test]
fn a_descriptor_that_lingers_and_no_member_takes_does_not_stop_the_bus() {
    let bus = Broker::native();
    let (mut sender, receiver, mut witness) = (bus.member(), bus.member(), bus.member());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (socket, _peer) = lingering(&listener);
    let payload = Payload::default().descriptor(socket.into());
    // Afterwards only the bus has it.
    sender.call_without_reply(receiver.unique_name(), PATH, INTERFACE, "Take", payload).unwrap();
    let name = receiver.unique_name().to_owned();
    drop(receiver);
    eventually("the receiver stays", || !witness.list_names().contains(&name));
    (0..10).for_each(|_| ask_bus(&mut witness));
}

/// As many as many systems allow a program that nobody has given more.
const FEW_FILES: u64 = 1024;

/// A call that brings so many descriptors.
fn send_files(client: &mut Client, to: &str, member: &str, count: usize) -> u32 {
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let call = Builder::call(PATH, member).destination(to).unix_fds(count as u32);
    client.send_with_fds(&call, &vec![file.as_fd(); count]).unwrap()
}

/// The name of the error that answers a call, or `None` for a reply.
fn error_for(client: &mut Client, serial: u32) -> Option<String> {
    let answer = wait_for_reply(client, serial);
    header(&answer).error_name.map(str::to_owned)
}

/// Senders fill what a bus may open with descriptors for a service that never comes. Others are told what they cannot have; nobody is
/// disconnected, and small messages pass.
#[test]
fn senders_that_use_up_descriptors_cost_no_client_its_connection() {
    let folder = temp_dir("scarce");
    write_service(folder.path(), "com.example.Slow", "/bin/sleep 600", "");
    let limits =
        "<limit name='service_start_timeout'>600000</limit><limit name='max_outgoing_unix_fds'>4096</limit>";
    let mut command = causewayd(&["--config-file", &with_services(&folder, limits)]);
    set_nofile_of(&mut command, Rlimit { current: Some(FEW_FILES), maximum: Some(FEW_FILES) });
    let bus = Broker::spawn(&mut command);
    let [mut uninvolved, mut receiver] = [bus.client(), bus.client()];
    let mut senders = [(); 2].map(|()| bus.client());
    for sender in &mut senders {
        // The first wait for the service, and the others are refused.
        let serials: Vec<u32> = (0..64).map(|_| send_files(sender, "com.example.Slow", "Wait", 16)).collect();
        let last = *serials.last().unwrap();
        assert_eq!(error_for(sender, last).as_deref(), Some(name::LIMITS_EXCEEDED));
    }
    // One for which somebody waits comes through, and its descriptors with it.
    receiver.keep_descriptors();
    let to = receiver.unique_name().to_owned();
    for _ in 0..20 {
        let serial = send_files(&mut uninvolved, &to, "Take", 16);
        let call = wait_for_member(&mut receiver, "Take");
        assert_eq!(receiver.take_descriptors().len(), 16);
        answer(&mut receiver, &call, Body::default());
        assert_eq!(error_for(&mut uninvolved, serial), None);
    }
    // A large one is refused, and so is a reply with many descriptors: the caller is told.
    let serial = send_files(&mut uninvolved, &to, "Take", 253);
    assert_eq!(error_for(&mut uninvolved, serial).as_deref(), Some(name::LIMITS_EXCEEDED));
    let asked = uninvolved.send(&Builder::call(PATH, "Ask").destination(&to)).unwrap();
    let call = wait_for_member(&mut receiver, "Ask");
    let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let reply = Builder::reply(header(&call).serial).destination(uninvolved.unique_name()).unix_fds(253);
    receiver.send_with_fds(&reply, &vec![file.as_fd(); 253]).unwrap();
    assert_eq!(error_for(&mut uninvolved, asked).as_deref(), Some(name::LIMITS_EXCEEDED));
    senders.iter_mut().chain([&mut uninvolved, &mut receiver]).for_each(sync);
    // With the senders goes what they hold.
    drop(senders);
    eventually("the descriptors stay", || {
        let serial = send_files(&mut uninvolved, &to, "Take", 100);
        let is_passed = bus_takes(&mut uninvolved, &mut receiver, serial);
        assert!(bus.descriptors() < FEW_FILES as usize);
        is_passed
    });
}

/// Does a call arrive? Otherwise its sender gets an error.
fn bus_takes(sender: &mut Client, receiver: &mut Client, serial: u32) -> bool {
    // The bus has read the call, and the receiver has what the bus passed on.
    sync(sender);
    sync(receiver);
    while let Some(message) = receiver.receive(std::time::Duration::ZERO).unwrap() {
        if header(&message).member == Some("Take") {
            receiver.take_descriptors();
            return true;
        }
    }
    assert_eq!(error_for(sender, serial).as_deref(), Some(name::LIMITS_EXCEEDED));
    false
}

/// Many clients that hold as much as they may, each in another way, beside one that does not.
#[test]
fn many_that_hold_descriptors_cost_no_client_its_connection() {
    let folder = temp_dir("scarce");
    write_service(folder.path(), "com.example.Slow", "/bin/sleep 600", "");
    let limits = "<limit name='service_start_timeout'>600000</limit>";
    let mut command = causewayd(&["--config-file", &with_services(&folder, limits)]);
    set_nofile_of(&mut command, Rlimit { current: Some(FEW_FILES), maximum: Some(FEW_FILES) });
    let bus = Broker::spawn(&mut command);
    let [mut uninvolved, mut receiver] = [bus.client(), bus.client()];
    let to = receiver.unique_name().to_owned();
    let mut halves = Vec::new();
    let mut holders: Vec<Client> = (0..40).map(|_| bus.client()).collect();
    for holder in &mut holders {
        for _ in 0..8 {
            send_files(holder, "com.example.Slow", "Wait", 8);
        }
        sync(holder);
        // The rest of this message never comes.
        let file: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let call = Builder::call(PATH, "Half").destination(&to).unix_fds(8).build(9999).unwrap();
        let (stream, _, _) = std::mem::replace(holder, bus.client()).into_parts().unwrap();
        causeway_os::socket::send_with_fds(&stream, &call[..20], &[file.as_fd(); 8]).unwrap();
        halves.push(stream);
    }
    receiver.keep_descriptors();
    for _ in 0..20 {
        let serial = send_files(&mut uninvolved, &to, "Take", 16);
        bus_takes(&mut uninvolved, &mut receiver, serial);
        // It may be refused, and nobody is disconnected.
        sync(&mut uninvolved);
        sync(&mut receiver);
    }
    holders.iter_mut().for_each(sync);
}
