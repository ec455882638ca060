//! Each broker that is installed starts, answers, and leaves nothing behind.

use causeway_bus::client::{Bus, native_path};
use causeway_dbus_wire::wire::Body;
use causeway_testkit::{Cause, eventually, skipped};
use weighbridge_dbus_client::brokers::{Broker, Error, Limits, Program, clean_up};

/// Does something listen at this address in the abstract namespace?
fn is_listening(address: &str) -> bool {
    let name = address.strip_prefix("unix:abstract=").unwrap().split(',').next().unwrap();
    std::fs::read_to_string("/proc/net/unix").unwrap().contains(&format!("@{name}"))
}

#[test]
fn installed_brokers_answer_and_leave_no_process_and_no_socket() {
    for program in Program::ALL {
        let broker = match Broker::start(program, &Limits::default()) {
            Err(Error::Missing(_)) => {
                skipped(Cause::Missing(program.name()), program.package());
                continue;
            }
            started => started.unwrap(),
        };
        if program.is_native() {
            native_members_join(broker);
            continue;
        }
        let mut one = Bus::connect(broker.address()).unwrap();
        let two = Bus::connect(broker.address()).unwrap();
        assert_ne!(one.unique_name(), two.unique_name(), "{program}");
        one.ask_driver("AddMatch", Body::default().text("type='signal'")).unwrap();
        assert!(one.ask_driver("NoSuchMethod", Body::default()).is_err(), "{program}");
        let address = broker.address().to_owned();
        assert!(!broker.has_ended() && is_listening(&address), "{address}");
        let process = format!("/proc/{}", broker.pid());
        assert!(std::fs::exists(&process).unwrap());
        drop(broker);
        assert!(!std::fs::exists(&process).unwrap(), "{program}");
        drop((one, two));
        eventually("its socket stays", || !is_listening(&address));
    }
}

fn native_members_join(broker: Broker) {
    let path = native_path(broker.address()).unwrap();
    let folder = path.parent().unwrap().to_owned();
    let (mut one, two) =
        (causeway_bus::Connection::open(&path).unwrap(), causeway_bus::Connection::open(&path).unwrap());
    assert_ne!(one.unique_name(), two.unique_name());
    one.add_match("type='signal'").unwrap();
    let process = format!("/proc/{}", broker.pid());
    assert!(!broker.has_ended() && std::fs::exists(&process).unwrap() && folder.exists());
    drop(broker);
    assert!(!std::fs::exists(&process).unwrap() && !folder.exists());
}

/// What a killed program leaves has the number of a process that is no more.
#[test]
fn the_socket_of_a_killed_program_is_removed_and_that_of_a_living_one_is_not() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let name = |pid: u32| std::env::temp_dir().join(format!("weighbridge-native-bus-{pid}-test"));
    let (dead, living) = (name(child.id()), name(std::process::id()));
    child.wait().unwrap();
    for folder in [&dead, &living] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("bus.lock"), "").unwrap();
    }
    clean_up();
    let left = (dead.exists(), living.exists());
    std::fs::remove_dir_all(&living).unwrap();
    assert_eq!(left, (false, true));
}
