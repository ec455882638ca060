//! Elements of a configuration that are accepted, and those that are refused, as dbus-daemon does where it is installed.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causewayd::config_file;

use crate::support::*;

/// Elements, and words of the sentence with which they are refused.
const ELEMENTS: &[(&str, Option<&str>)] = &[
    ("<limit name='auth_timeout'>1</limit>", None),
    ("<limit name='reply_timeout'>1</limit>", None),
    ("<limit name='max_names_per_connection'>0</limit>", None),
    ("<limit name='auth_timeout'>-1</limit>", Some("auth_timeout is -1")),
    ("<limit name='service_start_timeout'>-1</limit>", Some("service_start_timeout is -1")),
    ("<limit name='pending_fd_timeout'>-1</limit>", Some("pending_fd_timeout is -1")),
    ("<limit name='max_message_size'>-1</limit>", Some("max_message_size is -1")),
    ("<limit name='max_incoming_unix_fds'>-1</limit>", Some("max_incoming_unix_fds is -1")),
    ("<limit name='max_match_rules_per_connection'>-5</limit>", Some("max_match_rules_per_connection is -5")),
    ("<limit name='auth_timeout'>soon</limit>", Some("invalid number")),
    ("<limit>1</limit>", Some("has no name")),
    ("<policy context='mandatory'><deny user='*'/></policy>", None),
    ("<policy user='root'><allow own='a.B'/><deny user='no such user'/></policy>", None),
    ("<policy user='no such user'><allow own='a.B'/></policy>", None),
    ("<policy group='root'><allow own_prefix='a.B'/></policy>", None),
    ("<policy user='root'><allow/></policy>", Some("matches nothing")),
    // Who may connect is decided before a connection has rules of its own.
    ("<policy user='root'><deny user='*'/></policy>", Some("applies to all users")),
    ("<policy user='root'><deny group='*'/></policy>", Some("applies to all users")),
    ("<policy user='root'><allow user='root'/></policy>", Some("applies to all users")),
    ("<policy group='root'><deny user='root'/></policy>", Some("<policy group=…>")),
    ("<policy group='root'><deny group='root'/></policy>", Some("<policy group=…>")),
    ("<policy context='other'><allow own='a.B'/></policy>", Some("default or mandatory, not `other`")),
    ("<policy context='default' user='root'><allow own='a.B'/></policy>", Some("a <policy> has one of")),
    ("<policy ><allow own='a.B'/></policy>", Some("a <policy> has one of")),
    (
        "<policy context='default' color='a'><allow own='a.B'/></policy>",
        Some("unknown attribute color of <policy>"),
    ),
];

/// Rules of a policy for all, and words of the sentence with which they are refused.
const RULES: &[(&str, Option<&str>)] = &[
    ("<allow eavesdrop='true'/>", None),
    ("<allow own='a.B' log='true'/>", None),
    ("<deny user='*' log='true'/>", None),
    ("<deny group='no such group'/>", None),
    ("<allow send_destination='*' send_broadcast='true'/>", None),
    ("<allow send_destination_prefix='a' send_broadcast='true'/>", None),
    ("<allow send_destination='a.B' send_broadcast='false'/>", None),
    ("<allow send_interface='a.B' send_member='M'/>", None),
    ("<allow send_path='/a' send_member='M' max_fds='0'/>", None),
    ("<allow send_error='a.E' send_path='/a'/>", None),
    ("<allow receive_type='*' receive_requested_reply='true'/>", None),
    // A rule of no condition would be one about everything.
    ("<allow/>", Some("matches nothing")),
    ("<deny/>", Some("matches nothing")),
    ("<deny log='true'/>", Some("matches nothing")),
    ("<allow max_fds='2'/>", Some("matches nothing")),
    ("<allow own='*' own_prefix='a'/>", Some("one of own and own_prefix")),
    ("<allow own='a.B' eavesdrop='true'/>", Some("one of send_")),
    ("<allow own='a.B' max_fds='1'/>", Some("one of send_")),
    ("<allow own='a.B' send_type='signal'/>", Some("one of send_")),
    ("<allow user='*' group='*'/>", Some("one of user and group")),
    ("<allow user='*' max_fds='1'/>", Some("one of send_")),
    ("<allow send_interface='a.B' receive_sender='a.C'/>", Some("one of send_")),
    ("<allow send_destination='a.B' send_destination_prefix='a'/>", Some("one of send_destination")),
    ("<allow send_destination='a.B' send_broadcast='true'/>", Some("both a broadcast and for a.B")),
    ("<allow send_member='M'/>", Some("send_member needs")),
    ("<allow receive_member='*'/>", Some("receive_member needs")),
    ("<allow send_interface='a.B' send_error='a.E'/>", Some("an error has no member")),
    ("<allow receive_path='/a' receive_member='M' receive_error='a.E'/>", Some("an error has no member")),
    ("<allow send_type='nonsense'/>", Some("unknown message type `nonsense`")),
    ("<allow send_broadcast='*'/>", Some("true or false")),
    ("<allow eavesdrop='maybe'/>", Some("true or false")),
    ("<allow own='a.B' color='a'/>", Some("unknown attribute color")),
    ("<allow user='*' color='a'/>", Some("unknown attribute color")),
    ("<allow send_sender='a'/>", Some("unknown attribute send_sender")),
    ("<allow receive_destination='a'/>", Some("unknown attribute receive_destination")),
    ("<allow receive_broadcast='true'/>", Some("unknown attribute receive_broadcast")),
    ("<permit own='*'/>", Some("unknown policy rule <permit>")),
    ("all", Some("unexpected text `all` in <policy>")),
    ("<allow own='*'>all</allow>", Some("unexpected text `all` in <allow>")),
    ("<allow own='*'><deny own='a.B'/></allow>", Some("unexpected element <deny>")),
];

/// Before, they were read to an end that never came.
#[test]
fn a_configuration_that_is_no_file_or_has_no_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [fifo, long] = ["fifo", "long"].map(|name| folder.path().join(name));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    for (file, words) in [
        (fifo.as_path(), "it is not a regular file"),
        (Path::new("/dev/zero"), "it is not a regular file"),
        (&long, "it has more than 4194304 bytes"),
    ] {
        let why = config_file::read(file).unwrap_err().to_string();
        assert!(why.contains(words), "{}: {why}", file.display());
    }
}

/// Files of an `<includedir>` that are left out, with words of the warning. dbus-daemon starts with each of them, too.
const FILES: &[(&str, &str)] = &[
    ("", "the file is empty"),
    (" \n", "the file is empty"),
    ("a line of text", "invalid XML"),
    ("[D-BUS Service]\nName=a.B\n", "invalid XML"),
    ("<busconfig>", ":1: invalid XML"),
    ("<busconfig>\n<fork>\n</busconfig>", ":3: invalid XML"),
    ("<busconfig></busconfig><busconfig></busconfig>", "invalid XML"),
    ("<busconfig><type a='1' a='2'>session</type></busconfig>", "invalid XML"),
    ("<busconfig><type>&none;</type></busconfig>", "invalid XML"),
    ("<?xml version='1.0'?><node><interface name='a.B'/></node>", ":1: the root element is <node>"),
    ("<node name='/'/>", "the root element is <node>"),
    ("<BUSCONFIG/>", "the root element is <BUSCONFIG>"),
    ("<busconfig lang='en'/>", "unknown attribute lang of <busconfig>"),
    ("<busconfig xmlns='urn:a'/>", "XML namespace"),
    ("<busconfig xml:lang='en'/>", "XML namespace"),
    ("<busconfig xmlns:a='urn:a'><a:fork/></busconfig>", "XML namespace"),
    ("<busconfig>text</busconfig>", "unexpected text `text` in <busconfig>"),
    ("<busconfig>\n\n<color>red</color></busconfig>", ":3: unknown element <color>"),
    ("<busconfig><include>none.conf</include></busconfig>", "No such file"),
    ("<busconfig><include ignore_missing='true'>none.conf</include></busconfig>", "yes or no, not `true`"),
    ("<busconfig><include if_selinux_enabled='1'>none.conf</include></busconfig>", "yes or no, not `1`"),
    ("<busconfig><include>again.conf</include></busconfig>", "it includes itself"),
    ("<busconfig><user>no such user<b/></user></busconfig>", "unexpected element <b> in <user>"),
];

/// Files of an `<includedir>` that both brokers take as they are.
const GOOD_FILES: &[&str] = &[
    "<busconfig/>",
    "\u{feff}<busconfig/>",
    "<?xml version='1.0' encoding='UTF-8'?>\r\n<!-- é --><busconfig>\r\n<fork/>\r\n</busconfig>\r\n",
    "<!DOCTYPE busconfig [<!ENTITY kind 'session'>]><busconfig><type>&kind;</type></busconfig>",
    "<busconfig><type>ses<!-- -->sion</type><type><![CDATA[session]]></type></busconfig>",
    "<busconfig><includedir>none.d</includedir></busconfig>",
    "<busconfig><include ignore_missing='yes'>none.conf</include></busconfig>",
    "<busconfig><include if_selinux_enabled='yes' selinux_root_relative='yes'>none.conf</include></busconfig>",
    "<busconfig><standard_session_servicedirs/><standard_system_servicedirs/></busconfig>",
    "<busconfig><limit name='max_connections_per_user'> 0x40</limit></busconfig>",
    "<busconfig><limit name='max_connections_per_user'>64 of them</limit></busconfig>",
    "<busconfig><policy context='default'><!-- empty --></policy></busconfig>",
    "<busconfig><policy at_console='true'/><policy at_console='false'/></busconfig>",
    "<busconfig><selinux><associate own='a.B' context='c'/></selinux><apparmor mode='disabled'/></busconfig>",
    "<busconfig><servicehelper>/none</servicehelper><allow_anonymous/><auth>EXTERNAL</auth></busconfig>",
    "<busconfig><keep_umask/><syslog/><servicedir>none</servicedir><pidfile>none</pidfile></busconfig>",
];

/// Elements for which the brokers differ on purpose: does causewayd start, does dbus-daemon?
const DIFFERENT: &[(&str, bool, bool)] = &[
    // A file that is written for another version can be used.
    ("<limit name='max_color'>1</limit>", true, false),
    ("<limit name='reply_timeout'>-1</limit>", true, false),
    // Texts that an editor has put on lines of their own.
    ("<listen> unix:tmpdir=/tmp </listen>", true, false),
    // Without an address, an empty text and a fault are the same.
    ("<type> </type>", false, true),
];

#[derive(Clone, Copy)]
enum Program {
    Causewayd,
    Daemon,
}

/// Starts a broker with a configuration: does it serve, and what did it write to standard error? Nothing if it is not installed.
fn start(program: Program, file: &Path) -> Option<(bool, String)> {
    let mut command = match program {
        Program::Causewayd => causewayd(&[]),
        Program::Daemon => Command::new("dbus-daemon"),
    };
    command.arg("--config-file").arg(file).args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"]);
    // A file, because a pipe that nobody reads could keep the broker waiting.
    let log = file.with_extension("log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
    let mut broker: Running = command.spawn().ok()?.into();
    let mut line = String::new();
    let stdout = broker.0.stdout.take().unwrap();
    assert!(causeway_os::process::poll(&[stdout.as_fd()], Some(PATIENCE)).unwrap()[0], "{command:?} hangs");
    BufReader::new(stdout).read_line(&mut line).unwrap();
    drop(broker);
    Some((!line.is_empty(), std::fs::read_to_string(log).unwrap()))
}

/// A folder with the configuration of a bus that includes the files of `more.d`.
struct Folder(TempDir);

impl Folder {
    fn new(elements: &str) -> Folder {
        let folder = temp_dir("configuration");
        std::fs::create_dir(folder.path().join("more.d")).unwrap();
        let text = format!(
            "<busconfig><listen>unix:tmpdir={}</listen><includedir>more.d</includedir>{elements}</busconfig>",
            folder.path().display()
        );
        std::fs::write(folder.path().join("bus.conf"), text).unwrap();
        Folder(folder)
    }

    /// One that includes this file.
    fn including(text: &str) -> Folder {
        let folder = Folder::new("");
        std::fs::write(folder.path("more.d/again.conf"), text).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts both brokers. Returns whether causewayd serves and its lines, and notes a difference.
    fn compare(&self, shown: &str, wrong: &mut Vec<String>) -> (bool, String) {
        let file = self.path("bus.conf");
        let (serves, log) = start(Program::Causewayd, &file).expect("it is built");
        if let Some((daemon_serves, daemon_log)) = start(Program::Daemon, &file)
            && serves != daemon_serves
        {
            wrong.push(format!(
                "{shown}\n  causewayd: {serves} {log}\n  dbus-daemon: {daemon_serves} {daemon_log}"
            ));
        }
        (serves, log)
    }
}

/// Fails with all that is wrong.
fn conclude(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    has_program("dbus-daemon");
}

/// All elements and rules of the tables, each with the words of its refusal.
fn elements() -> impl Iterator<Item = (String, Option<&'static str>)> {
    let rules =
        RULES.iter().map(|(rule, refused)| (format!("<policy context='default'>{rule}</policy>"), *refused));
    rules.chain(ELEMENTS.iter().map(|(element, refused)| ((*element).to_owned(), *refused)))
}

#[test]
fn configurations_that_dbus_daemon_refuses_are_refused() {
    let mut wrong = Vec::new();
    for (element, refused) in elements() {
        let (serves, log) = Folder::new(&element).compare(&element, &mut wrong);
        if serves != refused.is_none() || !log.contains(refused.unwrap_or_default()) {
            wrong.push(format!("{element}: {serves} {log}"));
        }
    }
    conclude(&wrong);
}

#[test]
fn included_folder_file_that_is_invalid_is_left_out() {
    let invalid = elements().filter_map(|(element, refused)| {
        Some((format!("<busconfig>\n<fork/>\n{element}</busconfig>"), refused?))
    });
    let mut wrong = Vec::new();
    for (file, words) in invalid.chain(FILES.iter().map(|(file, words)| ((*file).to_owned(), *words))) {
        let (serves, log) = Folder::including(&file).compare(&file, &mut wrong);
        let is_named = log.contains("/more.d/again.conf:") && log.contains("file ignored");
        if !serves || !is_named || !log.contains(words) {
            wrong.push(format!("{file}: {serves} {log}"));
        }
    }
    conclude(&wrong);
}

#[test]
fn included_folder_file_that_is_valid_counts() {
    let mut wrong = Vec::new();
    for file in GOOD_FILES {
        let (serves, log) = Folder::including(file).compare(file, &mut wrong);
        if !serves || log.contains("file ignored") {
            wrong.push(format!("{file}: {serves} {log}"));
        }
    }
    conclude(&wrong);
}

/// Entries of the folder that are no regular files, or cannot be read as text.
#[test]
fn included_folder_entry_that_is_no_text_is_left_out() {
    let mut wrong = Vec::new();
    let folder = Folder::new("");
    let entry = |name: &str| folder.path("more.d").join(name);
    std::os::unix::fs::symlink("/nonexistent/file", entry("dangling.conf")).unwrap();
    std::os::unix::fs::symlink("loop.conf", entry("loop.conf")).unwrap();
    std::fs::create_dir(entry("folder.conf")).unwrap();
    std::fs::write(entry("latin.conf"), b"<busconfig><!-- \xe9 --></busconfig>").unwrap();
    std::fs::write(entry("wide.conf"), b"\xff\xfe<\0b\0/\0>\0").unwrap();
    std::fs::write(entry("zero.conf"), b"<busconfig/>\0").unwrap();
    std::fs::write(entry("other.txt"), "not a configuration").unwrap();
    std::fs::write(entry("last.conf"), "<busconfig><color/></busconfig>").unwrap();
    let (serves, log) = folder.compare("entries", &mut wrong);
    assert!(serves, "{log}");
    for name in ["dangling", "loop", "folder", "latin", "wide", "zero", "last"] {
        assert!(log.contains(&format!("/{name}.conf:")), "{name}: {log}");
    }
    assert_eq!(log.matches("file ignored").count(), 7, "{log}");
    conclude(&wrong);
    // dbus-daemon would wait for the writer of a pipe for ever.
    rustix::fs::mkfifoat(rustix::fs::CWD, entry("pipe.conf"), rustix::fs::Mode::RUSR).unwrap();
    let (serves, log) = start(Program::Causewayd, &folder.path("bus.conf")).expect("it is built");
    assert!(serves && log.contains("/pipe.conf: it is not a regular file"), "{log}");
}

#[test]
fn included_folder_that_is_no_folder_is_refused() {
    let mut wrong = Vec::new();
    let folder = Folder::new("<includedir>bus.conf</includedir>");
    let (serves, log) = folder.compare("a file as folder", &mut wrong);
    assert!(!serves && log.contains("cannot read the folder"), "{log}");
    conclude(&wrong);
}

/// A file that may be missing, and names one that must not.
#[test]
fn file_that_includes_a_missing_file_may_be_missing() {
    let mut wrong = Vec::new();
    let folder = Folder::new("<include ignore_missing='yes'>more.conf</include>");
    std::fs::write(folder.path("more.conf"), "<busconfig><include>none.conf</include></busconfig>").unwrap();
    let (serves, log) = folder.compare("more.conf", &mut wrong);
    assert!(
        serves && log.contains("more.conf: file ignored: ") && log.contains("none.conf: No such"),
        "{log}"
    );
    conclude(&wrong);
}

#[test]
fn differences_from_dbus_daemon_are_those_of_the_table() {
    let mut wrong = Vec::new();
    for (element, ours, theirs) in DIFFERENT {
        let file = Folder::new(element);
        let serves = |program| start(program, &file.path("bus.conf"));
        let (serves_ours, log) = serves(Program::Causewayd).expect("it is built");
        if serves_ours != *ours {
            wrong.push(format!("causewayd: {element}: {log}"));
        }
        if let Some((serves_theirs, log)) = serves(Program::Daemon)
            && serves_theirs != *theirs
        {
            wrong.push(format!("dbus-daemon: {element}: {log}"));
        }
    }
    conclude(&wrong);
}
