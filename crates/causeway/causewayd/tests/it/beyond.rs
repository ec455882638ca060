//! Clients for which the directory has no place: members reach them, and they reach members.

use std::os::fd::AsFd;

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Body, Builder};
use causeway_bus::{AuthorityOptions, Connection as Member, ConnectionOptions, name};

use crate::support::*;

const NAME: &str = "com.example.Beyond";

/// A bus whose directory shows one client, that client, and one beyond it.
fn beyond() -> (Bus, Client, Client) {
    let options = AuthorityOptions { clients: 1, ..AuthorityOptions::default() };
    let bus = Bus::start_with(options);
    let (shown, unlisted) = (bus.client(), bus.client());
    (bus, shown, unlisted)
}

fn is_shown(member: &Member, client: &Client) -> bool {
    member.list_names().contains(&client.unique_name().to_owned())
}

#[test]
fn signals_of_members_reach_clients_beyond_the_directory() {
    let (bus, shown, mut unlisted) = beyond();
    let mut member = bus.member();
    assert!(is_shown(&member, &shown) && !is_shown(&member, &unlisted));
    for round in 0..3 {
        unlisted.add_match(RULE).unwrap();
        for number in 0..20 {
            let body = format!("{round} {number}");
            member.emit(PATH, INTERFACE, "Count", text(&body)).unwrap();
            // Each alone: causewayd sleeps before the next.
            assert_eq!(texts(&client_signal(&mut unlisted)), [body]);
        }
        unlisted.ask_driver("RemoveMatch", text(RULE)).unwrap();
        // After the last rule has gone, and with a rule that was there before the member.
        unlisted.add_match(RULE).unwrap();
        member = bus.member();
        member.emit(PATH, INTERFACE, "Count", text("late")).unwrap();
        assert_eq!(texts(&client_signal(&mut unlisted)), ["late"]);
        unlisted.ask_driver("RemoveMatch", text(RULE)).unwrap();
    }
}

#[test]
fn members_call_clients_beyond_the_directory_by_both_kinds_of_names() {
    let (bus, _shown, mut unlisted) = beyond();
    let quick = ConnectionOptions { auto_start: false, ..ConnectionOptions::default() };
    let (mut member, own) = (bus.member(), unlisted.unique_name().to_owned());
    assert_eq!(unlisted.request_name(NAME, 0).unwrap(), 1);
    assert_eq!(member.name_owner(NAME), Some(own.clone()));
    for destination in [&own, NAME] {
        let serial = member.start_call(destination, PATH, INTERFACE, "Ask", text("question")).unwrap();
        let asked = wait_for_member(&mut unlisted, "Ask");
        answer(&mut unlisted, &asked, text("answer"));
        assert_eq!(member.finish_call(serial, PATIENCE).unwrap().text(), Some("answer"), "{destination}");
    }
    // The other way round, and a member that starts no services.
    let mut member = Member::open_with(bus.path(), quick).unwrap();
    let asked = Builder::call(PATH, "Ask").destination(member.unique_name());
    let serial = unlisted.send(&asked).unwrap();
    let got = call(&mut member);
    member.reply(&got, text("answer")).unwrap();
    assert_eq!(texts(&wait_for_reply(&mut unlisted, serial)), ["answer"]);
    let serial = member.start_call(&own, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    wait_for_member(&mut unlisted, "Ask");
    drop(unlisted);
    let error = member.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    // One that has gone is unknown, as long as the directory is not the whole truth and afterwards.
    eventually("the client stays", || {
        let error = member.call(&own, PATH, INTERFACE, "Ask", Body::default()).unwrap_err();
        error.name() == Some(name::SERVICE_UNKNOWN)
    });
}

/// A rule of a member for signals of a name follows the name to a client beyond the directory.
#[test]
fn a_rule_for_the_owner_of_a_name_matches_a_client_beyond_the_directory() {
    let (bus, _shown, mut unlisted) = beyond();
    assert_eq!(unlisted.request_name(NAME, 0).unwrap(), 1);
    let mut member = bus.member();
    member.add_match(&format!("type='signal',sender='{NAME}'")).unwrap();
    unlisted.send(&Builder::signal(PATH, INTERFACE, "Tick").body(text("tick"))).unwrap();
    assert_eq!(signal_of(&mut member, INTERFACE).text(), Some("tick"));
}

/// Calls `CALLEE`, and can take no descriptor when the reply comes.
#[test]
fn role() {
    let Ok(callee) = std::env::var("CALLEE") else { return };
    let mut member = Member::session().unwrap();
    // From here on it knows the bus itself.
    member.request_name("com.example.Caller", 0).unwrap();
    let serial = member.start_call(&callee, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    limit_descriptors(Some(1));
    let error = member.finish_call(serial, PATIENCE).unwrap_err();
    assert_eq!(error.name(), Some(name::LIMITS_EXCEEDED), "{error}");
}

/// The reply of a client to which the bus has passed a call on has descriptors, which the caller cannot take.
#[test]
fn a_call_that_was_passed_on_ends_when_its_reply_cannot_be_had() {
    let (bus, _shown, mut unlisted) = beyond();
    let own = unlisted.unique_name().to_owned();
    let mut caller = Running::start(role_of(module_path!(), "caller", &bus.path()).env("CALLEE", &own));
    let got = wait_for_member(&mut unlisted, "Ask");
    let asked = header(&got);
    let reply = Builder::reply(asked.serial).destination(asked.sender.unwrap()).unix_fds(1);
    let pipe = Pipe::new();
    unlisted.send_with_fds(&reply.body(Body::default().descriptor_index(0)), &[pipe.write.as_fd()]).unwrap();
    assert!(caller.wait().success());
}
