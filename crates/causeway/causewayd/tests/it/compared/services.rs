//! Service files: which names they provide, which program is started, and with which arguments.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Marshal};

use super::{answer, both, both_with};
use crate::support::*;

/// `Exec=` of a file that is right otherwise. `PROG` is a program that notes its arguments.
const COMMANDS: &[&str] = &[
    "PROG",
    "PROG é\\sx",
    "PROG # comment",
    "PROG e\\ f",
    "PROG 'open",
    "PROG \"open",
    "PROG a#b",
    "PROG #",
    "PROG a ",
    "PROG\ta\tb",
    "PROG  a",
    "",
    " ",
    "'' a",
    "prog a",
    "sh -c 'exit 4'",
    "./prog",
    "/nonexistent/x",
    "/tmp",
    "PROG \\\\",
    "PROG a\\\\",
    "PROG \\\\\\\\ x",
    "PROG \"a\\\\\"b\"",
    "PROG \"a\\\\\\\\\"",
    "PROG \"a\\tb\"",
    "PROG a\\nb",
    "PROG a#c\\nb",
    "PROG \"a\\\\nb\"",
    "PROG 'a\\nb'",
    "PROG a\\\\\\nb",
    "PROG 'it'\\\\''s'",
    "PROG ''",
    "PROG a\"\"b",
    "PROG $HOME `x` $(x) ~ * > f",
    "PROG a;b&&c",
    "PROG\\sa",
    "PROG \\x41",
    "PROG a\\",
    "PROG \u{7}",
    "\tPROG",
    "PROG a\u{c} b",
    "PROG a\\r b",
    "PROG \u{a0} b",
    "PROG a\u{2003}b",
    "'PROG' a",
    "\"PROG\" a",
    "PROG a=b",
    "PROG [x]",
    "PROG \"\\\\$x \\\\` \\\\a\"",
    "PROG \\\\#x",
    "PROG '#x'",
    "PROG %u %%",
    "-PROG",
    "@PROG",
    "PROG a\\\\ b",
    "PROG a\\n\\nb",
    "PROG \\n",
    "PROG a\\nExec=PROG b",
];

/// Whole files. `NAME` is a name that no other file provides.
const FILES: &[&str] = &[
    "[D-BUS Service]\nName=NAME\nExec=PROG one\nExec=PROG two\n",
    "[D-BUS Service]\nExec=PROG\nName=NAME\nName=com.example.Second\n",
    "[D-BUS Service]\r\nName=NAME\r\nExec=PROG x\r\n",
    "[D-BUS Service]\rName=NAME\rExec=PROG x\r",
    "[D-BUS Service] \nName=NAME\nExec=PROG",
    " [D-BUS Service]\nName=NAME\nExec=PROG",
    "\n[D-BUS Service]\nName=NAME\nExec=PROG",
    "Name=NAME\n[D-BUS Service]\nExec=PROG",
    "Name=NAME\nExec=PROG",
    "[Other]\nName=NAME\nExec=PROG",
    "[Other]\nName=com.example.Other\n[D-BUS Service]\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\n[Other]\nExec=PROG\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[D-BUS Service]\nName=com.example.Second\nExec=PROG 2\n",
    "[D-BUS Service]\nName=NAME\n[D-BUS Service]\nExec=PROG",
    "[D-BUS Service]\n[Other]\n[D-BUS Service]\nName=NAME\nExec=PROG",
    "[D-Bus Service]\nName=NAME\nExec=PROG",
    "[D-BUS Service]x\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nExec=PROG\ngarbage\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n  garbage=1\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n  # comment\n",
    "[D-BUS Service]\n# comment = \\q\n\n \t\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nExec =PROG a\n",
    "[D-BUS Service]\nName=NAME\nExec\t=PROG a\n",
    "[D-BUS Service]\nName=NAME\nExec=\tPROG a\n",
    "[D-BUS Service]\nName=NAME\nExec = PROG\n",
    "[D-BUS Service]\nName= NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\n",
    "[D-BUS Service]\nExec=PROG\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nUser=root\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nUser=nobody\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nUser=\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nUser=no such user\n",
    "[D-BUS Service]\nName=NAME\nSystemdService=a.service\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nSystemdService=a.service\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nSystemdService=\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nX_Y=1\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nX-Y=1\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nX=\\q\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nX=a\\\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[Other]\nX=\\q\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nExec[de]=PROG de\n",
    "[D-BUS Service]\nName=NAME\nExec[de]=PROG de\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n=5\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[]\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[a[b]\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[é]\nA=1\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n[Other\n",
    "\u{feff}[D-BUS Service]\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nExec=PROG\0",
    "\0[D-BUS Service]\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nX=\0\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nExec=PROG\n#\0\n",
    "",
    "\n",
    "# comment\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG a\\\nb\n",
    "[D-BUS Service]\nName=NAME\nExec=PROG\nNAME=com.example.Other\n",
    "[d-bus service]\n[D-BUS Service]\nName=NAME\nExec=PROG",
    "[D-BUS Service]\nName=NAME\nExec=PROG last line without an end",
];

/// `Name=` that is no name of a service. dbus-daemon lists it and starts the program, which cannot own such a name.
const INVALID_NAMES: &[&str] = &["com.example.Blank ", "com.example.Tab\t", "word", ":1.5", "com..example"];

fn write(folder: &Path, number: usize, text: &[u8]) {
    std::fs::write(folder.join(format!("file{number:03}.service")), text).unwrap();
}

fn start(client: &mut Client, name: &str) -> String {
    let mut out = Marshal::default();
    out.text(name);
    out.u32(0);
    answer(client, "StartServiceByName", out.into_body("su"))
}

/// The names that files provide, and what becomes of each start with the arguments of the program.
fn outcomes(client: &mut Client, folder: &Path, names: &[String]) -> (BTreeSet<String>, Vec<String>) {
    let listed = texts(&client.ask_driver("ListActivatableNames", Body::default()).unwrap());
    let note = folder.join("arguments");
    let outcome = |name: &String| {
        std::fs::remove_file(&note).ok();
        let answer = start(client, name);
        format!("{answer} {:?}", std::fs::read_to_string(&note).ok())
    };
    (listed.into_iter().collect(), names.iter().map(outcome).collect())
}

#[test]
fn service_files_are_read_as_by_dbus_daemon() {
    let folder = temp_dir("services");
    let program = folder.path().join("prog");
    let note = folder.path().join("arguments");
    let script = format!("#!/bin/sh\nprintf '%s|' \"$#\" \"$@\" > {}\nexit 3\n", note.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let commands = COMMANDS.iter().map(|exec| format!("[D-BUS Service]\nName=NAME\nExec={exec}\n"));
    let comment = |bytes| format!("[D-BUS Service]\nName=NAME\nExec=PROG\n#{}\n", "x".repeat(bytes));
    let files: Vec<String> = commands
        .chain(FILES.iter().map(|file| (*file).to_owned()))
        .chain([comment(70_000), comment(140_000)])
        .collect();
    let names: Vec<String> = (0..files.len()).map(|number| format!("com.example.Number{number}")).collect();
    for (number, (text, name)) in files.iter().zip(&names).enumerate() {
        let text = text.replace("NAME", name).replace("PROG", program.to_str().unwrap());
        write(folder.path(), number, text.as_bytes());
    }
    write(folder.path(), 900, b"[D-BUS Service]\nName=com.example.Latin\nExec=/bin/false \xff\n");
    let file = with_services(&folder, "");
    let Some(brokers) = both(file.as_ref(), folder.path()) else { return };
    let [ours, theirs] = brokers.map(|broker| outcomes(&mut broker.client(), folder.path(), &names));
    assert_eq!(ours.0, theirs.0);
    let wrong: Vec<String> = (files.iter().zip(ours.1.iter().zip(&theirs.1)))
        .filter(|(_, (ours, theirs))| ours != theirs)
        .map(|(file, (ours, theirs))| format!("{file:?}: causewayd {ours}, dbus-daemon {theirs}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The cases do differ.
    let started = ours.1.iter().filter(|outcome| outcome.starts_with("Spawn.ChildExited")).count();
    assert!(started > 40 && ours.1.iter().any(|outcome| outcome.starts_with("InvalidArgs")), "{:?}", ours.1);
}

#[test]
fn file_for_an_invalid_name_provides_none() {
    let folder = temp_dir("services");
    for (number, name) in INVALID_NAMES.iter().enumerate() {
        write(folder.path(), number, format!("[D-BUS Service]\nName={name}\nExec=/bin/false\n").as_bytes());
    }
    let Some(brokers) = both(with_services(&folder, "").as_ref(), folder.path()) else { return };
    let [ours, theirs] = brokers.map(|broker| -> Vec<String> {
        let mut client = broker.client();
        INVALID_NAMES.iter().map(|name| start(&mut client, name)).collect()
    });
    assert_eq!(ours, vec!["ServiceUnknown"; INVALID_NAMES.len()]);
    assert_eq!(theirs, vec!["Spawn.ChildExited"; INVALID_NAMES.len()]);
}

/// Programs write files there while the session runs. A name that is not that of the file is a mistake in this folder alone.
#[test]
fn transient_service_file_is_named_after_its_service() {
    let (folder, runtime) = (temp_dir("services"), temp_dir("runtime"));
    let transient = runtime.path().join("dbus-1/services");
    std::fs::create_dir_all(&transient).unwrap();
    for place in [folder.path(), &transient] {
        let name = if place == transient { "com.example.Transient" } else { "com.example.Ordinary" };
        write(place, 0, format!("[D-BUS Service]\nName={name}\nExec=/bin/false\n").as_bytes());
    }
    let right = "[D-BUS Service]\nName=com.example.Right\nExec=/bin/false\n";
    std::fs::write(transient.join("com.example.Right.service"), right).unwrap();
    let settings = "<standard_session_servicedirs/>";
    let file = with_services(&folder, settings);
    let Some(brokers) = both_with(file.as_ref(), folder.path(), &[("XDG_RUNTIME_DIR", runtime.path())])
    else {
        return;
    };
    let names = ["Transient", "Ordinary", "Right"].map(|name| format!("com.example.{name}"));
    let answers = brokers.map(|broker| names.each_ref().map(|name| start(&mut broker.client(), name)));
    assert_eq!(answers[0], ["ServiceUnknown", "Spawn.ChildExited", "Spawn.ChildExited"]);
    assert_eq!(answers[0], answers[1]);
}
