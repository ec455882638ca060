//! What is recorded of a bus.

use std::io::PipeWriter;

use causeway_bus::wire::{Body, Header};
use causeway_bus::{AuthorityOptions, Connection};
use causeway_testkit::Running;
use rustix::process::Signal;

use crate::support::{contents, end, eventually, recorder, temp_dir, verified};

/// A bus in this process, which ends with what is returned.
fn serve(path: &std::path::Path) -> PipeWriter {
    let (end, stop) = std::io::pipe().unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        causewayd::serve_alone(&path, AuthorityOptions::default(), &end.into(), || ready.send(()).unwrap())
            .unwrap();
    });
    is_ready.recv().unwrap();
    stop
}

#[test]
fn messages_of_a_bus_are_recorded_as_they_passed_with_the_time_at_which_they_were_sent() {
    let folder = temp_dir("recorder");
    let (native, file) = (folder.path().join("native"), folder.path().join("a.mcap"));
    let stop = serve(&native);
    let (native_text, file) = (native.to_str().unwrap(), file.to_str().unwrap());
    let running = Running::start(&mut recorder(&[native_text, "-o", file]));
    eventually("no file", || std::fs::metadata(file).is_ok_and(|is| is.len() > 0));
    let mut bus = Connection::open(&native).unwrap();
    for number in 0..50u32 {
        bus.emit("/", "com.example.Clock", "Ticked", Body::default().u32(number)).unwrap();
    }
    // One that is too long for an outbox: a monitor sees its header.
    bus.emit("/", "com.example.Clock", "Said", Body::default().text(&"x".repeat(200_000))).unwrap();
    drop(bus);
    eventually("the end of the member is not recorded", || {
        contents(file).messages.iter().any(|message| message.topic.ends_with("/Said"))
    });
    running.signal(Signal::TERM).unwrap();
    let (code, said) = end(running);
    assert!(code == 0 && said.contains("of 1 only the header"), "{code}: {said}");

    let found = contents(file);
    let ticks: Vec<_> =
        found.messages.iter().filter(|message| message.topic == "/signal/com.example.Clock/Ticked").collect();
    assert_eq!(ticks.len(), 50);
    let mut last_ns = 0;
    for (number, tick) in ticks.iter().enumerate() {
        let header = Header::parse(&tick.data).unwrap();
        assert_eq!(
            (header.member, header.serial, tick.encoding.as_str()),
            (Some("Ticked"), tick.sequence, "dbus")
        );
        assert_eq!(tick.data[header.header_bytes..], (number as u32).to_ne_bytes());
        assert!(tick.publish_ns >= last_ns && tick.publish_ns <= tick.log_ns + 1_000_000, "{tick:?}");
        last_ns = tick.publish_ns;
    }
    assert!(found.metadata.iter().any(|of| of.name == "causeway.clock"), "{:?}", found.metadata);
    let positions: Vec<u64> = found.frames.iter().map(|frame| frame.0).collect();
    assert!(positions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{positions:?}");
    let (code, counts) = verified(&[file]);
    assert_eq!((code, &counts.unwrap()["header_only"]), (0, &1.into()));
    // It is not published in a group, where its calls make no sense.
    let again = folder.path().join("again");
    let output = recorder(&["replay", file, again.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));

    // The end of the bus is that of a recording.
    let second = folder.path().join("b.mcap");
    let running = Running::start(&mut recorder(&[native_text, "-o", second.to_str().unwrap()]));
    eventually("no file", || std::fs::metadata(&second).is_ok_and(|is| is.len() > 0));
    drop(stop);
    let (code, said) = end(running);
    assert!(code == 0 && contents(&second).is_whole, "{code}: {said}");
}
