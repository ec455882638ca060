//! What those see that watch the bus: D-Bus monitors among the clients, and monitors that read the order log.

use std::os::fd::AsFd;

use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{Monitor, Payload};

use crate::support::*;

#[test]
fn a_dbus_monitor_sees_long_messages_between_members_whole_and_their_descriptors() {
    const BYTES: usize = 3 << 20;
    let bus = Broker::native();
    let mut monitor = bus.client();
    monitor.keep_descriptors();
    let (mut one, mut two) = (bus.member(), bus.member());
    monitor.become_monitor().unwrap();
    // From here on members know that they are watched.
    ask_bus(&mut one);
    for round in 0..10 {
        let (pipe, bytes) = (Pipe::new(), vec![round; BYTES]);
        let payload = Payload::from(Body::default().blob(&bytes)).descriptor(pipe.write.try_clone().unwrap());
        let serial = one.start_call(two.unique_name(), PATH, INTERFACE, "Ask", payload).unwrap();
        let asked = call(&mut two);
        two.emit(PATH, INTERFACE, "Unwanted", Body::default()).unwrap();
        write_into(asked.take_descriptors(), "receiver ");
        two.reply(&asked, Body::default().blob(&bytes[..100_000])).unwrap();
        let reply = one.finish_call(serial, PATIENCE).unwrap();
        let body = |message: &[u8]| message[header(message).header_bytes..].to_vec();
        let seen = wait_for_member(&mut monitor, "Ask");
        assert!(body(&seen) == asked.body(), "round {round}");
        write_into(monitor.take_descriptors(), "monitor");
        assert_eq!(header(&wait_for(&mut monitor, |_| true)).member, Some("Unwanted"), "round {round}");
        let seen = wait_for_reply(&mut monitor, serial);
        assert!(body(&seen) == reply.body(), "round {round}");
        // Its end: no process keeps a copy.
        assert_eq!(pipe.text(), "receiver monitor");
    }
}

/// A descriptor for a member that ends without reading is closed in the end, also while somebody watches.
#[test]
fn what_is_for_a_member_that_left_is_shown_to_a_dbus_monitor_and_closed() {
    let bus = Broker::native();
    let mut monitor = bus.client();
    monitor.keep_descriptors();
    let (mut one, two) = (bus.member(), bus.member());
    monitor.become_monitor().unwrap();
    ask_bus(&mut one);
    let pipe = Pipe::new();
    let payload = Payload::default().descriptor(pipe.write.try_clone().unwrap());
    one.call_without_reply(two.unique_name(), PATH, INTERFACE, "Take", payload).unwrap();
    drop(two);
    wait_for_member(&mut monitor, "Take");
    write_into(monitor.take_descriptors(), "monitor");
    assert_eq!(pipe.text(), "monitor");
}

/// Long or with a descriptor: each message between clients stands in the log, in its place.
#[test]
fn messages_between_clients_stand_in_the_log_whatever_belongs_to_them() {
    let bus = Broker::native();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    let rule = format!("interface='{INTERFACE}'").parse().unwrap();
    let mut monitor = Monitor::open(bus.path()).unwrap().filter(rule);
    let to = receiver.unique_name().to_owned();
    let call = |member: &'static str| {
        let call = Builder::call(PATH, member).interface(INTERFACE).destination(&to);
        call.flags(FLAG_NO_REPLY_EXPECTED)
    };
    let (long, pipe) = (vec![7; 3 << 20], Pipe::new());
    for round in 0..3 {
        sender.send(&call("Before")).unwrap();
        sender.send(&call("Long").body(Body::default().blob(&long))).unwrap();
        let with_descriptor = call("With").unix_fds(1).body(Body::default().descriptor_index(0));
        sender.send_with_fds(&with_descriptor, &[pipe.write.as_fd()]).unwrap();
        sender.send(&call("After")).unwrap();
        for member in ["Before", "Long", "With", "After"] {
            let seen = observed(&mut monitor);
            assert_eq!(seen.header().member, Some(member), "round {round}");
            assert_eq!(
                (seen.is_header_only(), seen.header().unix_fds),
                (member == "Long", (member == "With").into())
            );
            assert!(seen.header().message_bytes() > if member == "Long" { 3 << 20 } else { 0 });
            let got = client_signal(&mut receiver);
            let bytes = seen.header().message_bytes();
            assert_eq!((header(&got).member, got.len()), (Some(member), bytes));
        }
    }
}

/// Messages of members that the bus itself has read.
fn received_by_bus(monitor: &Monitor) -> u64 {
    monitor.members().into_iter().find(|(peer, ..)| peer.id == 1).unwrap().2.received
}

/// The last rule of a client went while no process read the log: the bus does not read signals of members for it.
#[test]
fn a_rule_that_went_while_no_process_read_the_log_does_not_make_the_bus_read_signals() {
    const SIGNALS: u64 = 50;
    let bus = Broker::native();
    let mut client = bus.client();
    let member = bus.member();
    client.add_match(RULE).unwrap();
    let name = member.unique_name().to_owned();
    drop(member);
    eventually("the member stays", || client.name_owner(&name).unwrap().is_none());
    client.ask_driver("RemoveMatch", text(RULE)).unwrap();
    let (mut member, monitor) = (bus.member(), Monitor::open(bus.path()).unwrap());
    let before = received_by_bus(&monitor);
    for _ in 0..SIGNALS {
        member.emit(PATH, INTERFACE, "Count", Body::default()).unwrap();
    }
    ask_bus(&mut member);
    let more = received_by_bus(&monitor) - before;
    assert!((1..SIGNALS).contains(&more), "{more} messages");
}

/// Each message between members would wake the bus for nothing.
#[test]
fn a_rule_for_messages_to_others_wakes_the_bus_only_where_the_policy_lets_its_client_have_some() {
    const EXCHANGES: u64 = 200;
    for (policy, is_seen) in
        [("<deny receive_type='error'/>", true), ("<deny receive_type='error' eavesdrop='true'/>", false)]
    {
        let folder = temp_dir("watching");
        let settings = format!("<policy context='mandatory'>{policy}</policy>");
        // Without the policy of the other tests, which lets everybody eavesdrop.
        let eavesdrops = if is_seen { " eavesdrop='true'" } else { "" };
        let text = format!(
            "<busconfig><listen>unix:tmpdir=/tmp</listen><policy context='default'><allow user='*'/><allow own='*'/>\
             <allow send_destination='*'/><allow receive_sender='*'{eavesdrops}/></policy>{settings}</busconfig>"
        );
        let file = folder.path().join("bus.conf");
        std::fs::write(&file, text).unwrap();
        let bus = Broker::native_with(&["--config-file", file.to_str().unwrap()]);
        let mut client = bus.client();
        let (mut one, mut two) = (bus.member(), bus.member());
        client.add_match("eavesdrop='true',member='Ask'").unwrap();
        let monitor = Monitor::open(bus.path()).unwrap();
        ask_bus(&mut one);
        let before = received_by_bus(&monitor);
        for _ in 0..EXCHANGES {
            exchange(&mut one, &mut two);
        }
        ask_bus(&mut one);
        let received = received_by_bus(&monitor) - before;
        // Two messages each, and what was asked at last.
        assert_eq!(received, if is_seen { EXCHANGES * 2 } else { 0 } + 1, "{policy}");
        if is_seen {
            wait_for_member(&mut client, "Ask");
        }
    }
}
