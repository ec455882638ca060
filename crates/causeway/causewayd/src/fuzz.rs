//! Fuzzing of the files that administrators and packages write: configurations with policies, and files of services.

use std::fs;
use std::path::Path;

use causeway_dbus_wire::wire::{Builder, Header, names};
use causeway_testkit::{fuzz, temp_dir};

use crate::config::Config;
use crate::config_file;
use crate::policy::Passing;
use crate::service_file::{Service, parse, words as words_of_exec};

const CONFIGURATION: &[&str] = &[
    "<busconfig>",
    "</busconfig>",
    "<policy context=\"default\">",
    "<policy context=\"mandatory\">",
    "<policy user='root'>",
    "<policy group='0'>",
    "</policy>",
    "<allow ",
    "<deny ",
    "/>",
    "own='*'",
    "own_prefix='a.B'",
    "user='*'",
    "group='0'",
    "send_destination='a.B'",
    "send_destination_prefix='a'",
    "send_interface='a.B'",
    "send_member='M'",
    "send_path='/'",
    "send_error='a.B'",
    "send_type='signal'",
    "send_broadcast='true'",
    "send_requested_reply='false'",
    "receive_sender='*'",
    "receive_type='method_call'",
    "eavesdrop='true'",
    "max_fds='1'",
    "min_fds='1'",
    "log='true'",
    "<limit name='reply_timeout'>",
    "</limit>",
    "<include>more.conf</include>",
    "<include ignore_missing='yes'>",
    "<includedir>.</includedir>",
    "<listen>unix:path=/a</listen>",
    "<!DOCTYPE busconfig [<!ENTITY a '&b;'>]>",
    "<!ENTITY b '&a;&a;'>",
    "&a;",
    "&#0;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
];

/// Rules after which nothing is allowed.
const CLOSED: &str = "<policy context='mandatory'><deny own='*'/><deny user='*'/><deny send_destination='*'/>\
    <deny receive_sender='*'/><deny send_requested_reply='true'/><deny receive_requested_reply='true'/></policy>";
const CLOSED_RULES: usize = 6;

fn read(folder: &Path, text: &[u8]) -> Result<Config, String> {
    let file = folder.join("bus.conf");
    fs::write(&file, text).unwrap();
    config_file::read(&file).map_err(|bad| bad.to_string())
}

/// What members of this policy may do: own a name, connect, send each message, receive it.
fn rights(config: &Config) -> Vec<bool> {
    let rules = config.policy.rules_for(0, &[0, 7]);
    let mut rights = vec![rules.may_own("a.B"), config.policy.may_connect(0, &[0], 1), rules.may_eavesdrop()];
    let messages = [
        Builder::call("/", "M").interface("a.B").destination("a.B"),
        Builder::call("/", "M").destination("a.B").unix_fds(1),
        Builder::signal("/", "a.B", "M"),
        Builder::reply(1).destination("a.B"),
        Builder::error(1, "a.B.E").destination("a.B"),
    ];
    for message in messages {
        let message = message.build(1).unwrap();
        let header = Header::parse(&message).unwrap();
        for (is_requested_reply, is_eavesdropped) in [(false, false), (true, false), (false, true)] {
            let passing = Passing { header: &header, is_requested_reply, is_eavesdropped };
            rights.push(rules.may_send(passing, &|pattern| pattern.has("a.B")));
            rights.push(rules.may_receive(passing, &|pattern| pattern.has("a.B.C")));
        }
    }
    rights
}

#[test]
fn policy_is_understood_or_refused_and_its_last_rules_decide() {
    let folder = temp_dir("policy");
    fs::write(folder.path().join("more.conf"), "<busconfig><type>session</type></busconfig>").unwrap();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/policy");
    fuzz::run(corpus, CONFIGURATION, |input| {
        let config = match read(folder.path(), input) {
            Ok(config) => config,
            Err(why) => {
                let (file, reason) = why.split_once(": ").unwrap();
                assert!(file.contains(".conf") && !reason.is_empty(), "{why}");
                assert!(why.len() < 1000 + input.len(), "{} bytes of reason", why.len());
                return Err(reason.split('`').next().map(|reason| reason.replace(char::is_numeric, "")));
            }
        };
        let rights = rights(&config);
        assert!(config.warnings.iter().map(String::len).sum::<usize>() < 1000 + 300 * input.len());
        // The same file with rules at its end that deny everything. The end may stand in a comment.
        let text = str::from_utf8(input).unwrap();
        if let Some((start, end)) = text.rsplit_once("</busconfig>") {
            let closed = read(folder.path(), format!("{start}{CLOSED}</busconfig>{end}").as_bytes());
            let rules = config.policy.mandatory.len() + CLOSED_RULES;
            if let Some(closed) = closed.ok().filter(|closed| closed.policy.mandatory.len() == rules) {
                let rights = self::rights(&closed);
                // Whether anybody eavesdrops is asked beforehand, of all rules together.
                assert!(!rights.iter().enumerate().any(|(at, right)| *right && at != 2), "{rights:?}");
            }
        }
        Ok((rights, config.warnings.len().min(3), config.limits.reply.is_some()))
    });
}

/// The value in the form in which a key file has it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace(' ', r"\s")
        .replace('\t', r"\t")
        .replace('\n', r"\n")
        .replace('\r', r"\r")
}

/// The text of a service file with this content.
fn file_of(name: &str, Service { exec, user, unit }: &Service) -> String {
    let mut text = format!("[D-BUS Service]\nName={name}\nExec={}\n", escaped(exec));
    if let Some((user, _)) = user {
        text.push_str(&format!("User={}\n", escaped(user)));
    }
    if let Some(unit) = unit {
        text.push_str(&format!("SystemdService={}\n", escaped(unit)));
    }
    text
}

#[test]
fn service_file_is_understood_or_refused_and_says_the_same_when_rewritten() {
    let words = [
        "[D-BUS Service]\n",
        "Name=",
        "Exec=",
        "User=",
        "SystemdService=",
        "a.B\n",
        "'",
        "\"",
        "\\",
        "\\$",
        " = ",
        "\n",
        "\r",
        "[",
        "#",
        "\u{2003}",
        "root",
    ];
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/service");
    fuzz::run(corpus, &words, |input| -> Result<_, ()> {
        let text = str::from_utf8(input).map_err(drop)?;
        match parse(text) {
            Ok((name, service)) => {
                assert!(names::is_well_known(&name), "{name}");
                let rewritten = file_of(&name, &service);
                assert_eq!(parse(&rewritten), Ok((name, service.clone())), "{rewritten}");
                let words = words_of_exec(&service.exec).map(|words| words.len());
                Ok((None, words, service.user.is_some(), service.unit.is_some()))
            }
            Err(why) => {
                assert!(!why.is_empty() && why.len() < 100 + input.len(), "{why}");
                Ok((why.split('`').next().map(String::from), None, false, false))
            }
        }
    });
}
