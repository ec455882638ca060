//! Elements of a configuration that are accepted, and those that are refused, as dbus-daemon does where it is installed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use causewayd::config_file;

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
    ("<policy context='other'><allow own='a.B'/></policy>", Some("a <policy> has one of")),
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

/// Does dbus-daemon serve a bus with this configuration? Nothing if it is not installed.
fn daemon_accepts(file: &Path) -> Option<bool> {
    let mut command = Command::new("dbus-daemon");
    command.arg("--config-file").arg(file).args(["--nofork", "--nopidfile", "--print-address"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut daemon = command.spawn().ok()?;
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    Some(!line.is_empty())
}

#[test]
fn what_dbus_daemon_refuses_is_refused_with_a_sentence() {
    let folder = crate::support::temp_dir("configuration");
    let file = folder.path().join("bus.conf");
    let mut is_installed = true;
    let rules =
        RULES.iter().map(|(rule, refused)| (format!("<policy context='default'>{rule}</policy>"), *refused));
    let elements = ELEMENTS.iter().map(|(element, refused)| ((*element).to_owned(), *refused));
    for (shown, refused) in rules.chain(elements) {
        // dbus-daemon tells a configuration by its document type.
        let text = format!(
            "<!DOCTYPE busconfig PUBLIC '-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN' \
             'http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd'>\
             <busconfig><listen>unix:tmpdir={}</listen>{shown}</busconfig>",
            folder.path().display()
        );
        std::fs::write(&file, text).unwrap();
        match (config_file::read(&file), refused) {
            (Ok(_), None) => {}
            (Err(bad), Some(words)) => {
                assert!(bad.to_string().contains(words), "{shown}: {bad}");
            }
            (read, _) => panic!("{shown}: {:?}", read.map(|config| config.policy)),
        }
        if is_installed {
            match daemon_accepts(&file) {
                Some(accepts) => assert_eq!(accepts, refused.is_none(), "dbus-daemon: {shown}"),
                None => is_installed = false,
            }
        }
    }
    if !is_installed {
        println!("skipped: dbus-daemon is not installed, so that its answers cannot be compared");
    }
}
