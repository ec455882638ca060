//! Reads configuration files of dbus-daemon.
//!
//! A file that dbus-daemon refuses is refused, with the same consequence: the bus does not start, except for a file of an `<includedir>`,
//! which is left out as a whole with a warning. Features that this bus lacks become [`Config::warnings`] where going on without them is safe.
//! Source: dbus-daemon(1), "CONFIGURATION FILE", and the comparison with the program in `tests/it/configuration.rs`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use causeway_dbus_wire::number::leading_integer;
use roxmltree::{Document, Node, ParsingOptions};

use crate::config::{Config, session_service_dirs};
use crate::policy_file;
use crate::text_file;
use crate::users::Account;

/// Files that include each other this deep include themselves.
const DEPTH_MAX: usize = 32;
/// The longest file; all of a distribution together are far shorter.
const BYTES_MAX: u64 = 4 << 20;
const SYSTEM_SERVICE_DIRS: &[&str] = &[
    "/usr/local/share/dbus-1/system-services",
    "/usr/share/dbus-1/system-services",
    "/lib/dbus-1/system-services",
];

/// The content that an element may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Nothing,
    Text,
    Elements,
}

/// The elements of `<busconfig>`, with their attributes and content. dbus-daemon refuses a file that has others.
const ELEMENTS: &[(&str, &str, Content)] = &[
    ("allow_anonymous", "", Content::Nothing),
    ("apparmor", "mode", Content::Nothing),
    ("auth", "", Content::Text),
    ("fork", "", Content::Nothing),
    ("include", "ignore_missing if_selinux_enabled selinux_root_relative", Content::Text),
    ("includedir", "", Content::Text),
    ("keep_umask", "", Content::Nothing),
    ("limit", "name", Content::Text),
    ("listen", "", Content::Text),
    ("pidfile", "", Content::Text),
    ("policy", "context user group at_console", Content::Elements),
    ("selinux", "", Content::Elements),
    ("servicedir", "", Content::Text),
    ("servicehelper", "", Content::Text),
    ("standard_session_servicedirs", "", Content::Nothing),
    ("standard_system_servicedirs", "", Content::Nothing),
    ("syslog", "", Content::Nothing),
    ("type", "", Content::Text),
    ("user", "", Content::Text),
];

/// Why a configuration cannot be used: which file and line, and the reason.
#[derive(Debug)]
pub struct BadConfig {
    file: PathBuf,
    line: Option<u32>,
    why: String,
    /// Does the file not exist?
    is_missing: bool,
}

impl BadConfig {
    fn unreadable(file: &Path, error: &io::Error) -> BadConfig {
        let is_missing = error.kind() == ErrorKind::NotFound;
        BadConfig { file: file.into(), line: None, why: error.to_string(), is_missing }
    }

    fn at(file: &Path, line: u32, why: impl Into<String>) -> BadConfig {
        BadConfig { file: file.into(), line: Some(line), why: why.into(), is_missing: false }
    }
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.why)
    }
}

impl std::error::Error for BadConfig {}

/// Reads a file and all that it includes.
///
/// # Errors
/// A file cannot be read, is not a configuration, or asks for something that cannot be left out safely.
pub fn read(file: &Path) -> Result<Config, BadConfig> {
    let mut config = Config::default();
    read_into(&mut config, file, 0)?;
    Ok(config)
}

fn read_into(config: &mut Config, file: &Path, depth: usize) -> Result<(), BadConfig> {
    let text = text_file::read(file, BYTES_MAX).map_err(|error| BadConfig::unreadable(file, &error))?;
    if text.trim().is_empty() {
        return Err(BadConfig::at(file, 1, "the file is empty"));
    }
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options)
        .map_err(|error| BadConfig::at(file, error.pos().row, format!("invalid XML: {error}")))?;
    let root = document.root_element();
    let bad = |node: Node<'_, '_>, why: String| BadConfig::at(file, line(node), why);
    if !root.has_tag_name("busconfig") {
        let why = format!("the root element is <{}>, not <busconfig>", root.tag_name().name());
        return Err(bad(root, why));
    }
    check_form(root, "", Content::Elements).map_err(|why| bad(root, why))?;
    for node in root.children().filter(Node::is_element) {
        let name = node.tag_name().name();
        let Some((_, attributes, content)) = ELEMENTS.iter().find(|(known, ..)| *known == name) else {
            return Err(bad(node, format!("unknown element <{name}>")));
        };
        check_form(node, attributes, *content).map_err(|why| bad(node, why))?;
        match name {
            "include" => include(config, node, file, depth)?,
            "includedir" => include_folder(config, node, file, depth)?,
            "policy" => policy_file::add(config, node, file).map_err(|(node, why)| bad(node, why))?,
            _ => set(config, node, file).map_err(|why| bad(node, why))?,
        }
    }
    Ok(())
}

/// The line of its file in which an element begins.
pub(crate) fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// The text of an element, without the comments in it and the white space around it.
fn text(node: Node<'_, '_>) -> String {
    let texts = node.children().filter(Node::is_text).filter_map(|text| text.text());
    texts.collect::<String>().trim().to_owned()
}

/// Checks that an element has only these attributes, which are separated by spaces, and this content.
pub(crate) fn check_form(node: Node<'_, '_>, attributes: &str, content: Content) -> Result<(), String> {
    let element = node.tag_name().name();
    // dbus-daemon knows no namespaces: `xmlns` is an unknown attribute to it.
    let is_declared = node.namespaces().any(|namespace| namespace.uri() != roxmltree::NS_XML_URI);
    if is_declared || node.attributes().any(|attribute| attribute.namespace().is_some()) {
        return Err(format!("<{element}> has an XML namespace, and a configuration has none"));
    }
    let mut names = node.attributes().map(|attribute| attribute.name());
    if let Some(other) = names.find(|name| !attributes.split(' ').any(|known| known == *name)) {
        return Err(format!("unknown attribute {other} of <{element}>"));
    }
    let text = text(node);
    if content == Content::Text && text.is_empty() {
        return Err(format!("<{element}> is empty"));
    }
    if content != Content::Text && !text.is_empty() {
        return Err(format!("unexpected text `{text}` in <{element}>"));
    }
    match node.first_element_child() {
        Some(child) if content != Content::Elements => {
            Err(format!("unexpected element <{}> in <{element}>", child.tag_name().name()))
        }
        _ => Ok(()),
    }
}

/// Reads the file that an `<include>` names. Files that do not exist are left out if they may be missing, and so is a file that names such
/// a file.
fn include(config: &mut Config, node: Node<'_, '_>, file: &Path, depth: usize) -> Result<(), BadConfig> {
    let is_yes = |name: &str| match node.attribute(name) {
        Some("yes") => Ok(true),
        Some("no") | None => Ok(false),
        Some(other) => {
            Err(BadConfig::at(file, line(node), format!("{name} must be yes or no, not `{other}`")))
        }
    };
    let may_be_missing = is_yes("ignore_missing")?;
    let is_of_selinux = is_yes("selinux_root_relative")?;
    if is_yes("if_selinux_enabled")? {
        return Ok(());
    }
    if is_of_selinux {
        let why =
            "selinux_root_relative is not supported: add if_selinux_enabled=\"yes\", or write the whole path";
        return Err(BadConfig::at(file, line(node), why));
    }
    let other = folder_of(file).join(text(node));
    match read_included(config, &other, depth) {
        Err(bad) if may_be_missing && bad.is_missing => {
            if bad.file != other {
                config.warnings.push(format!("{}: file ignored: {bad}", other.display()));
            }
            Ok(())
        }
        read => read,
    }
}

/// Reads the files `*.conf` of the folder that an `<includedir>` names, in the order of their names. A file that cannot be used is left out
/// with a warning: one package must not keep all others from the bus.
fn include_folder(
    config: &mut Config,
    node: Node<'_, '_>,
    file: &Path,
    depth: usize,
) -> Result<(), BadConfig> {
    let folder = folder_of(file).join(text(node));
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let why = format!("cannot read the folder {}: {error}", folder.display());
            return Err(BadConfig::at(file, line(node), why));
        }
    };
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.as_os_str().as_encoded_bytes().ends_with(b".conf")).collect();
    files.sort();
    for other in files {
        if let Err(bad) = read_included(config, &other, depth) {
            let which = if bad.file == other { String::new() } else { format!("{}: ", other.display()) };
            config.warnings.push(format!("{which}file ignored: {bad}"));
        }
    }
    Ok(())
}

/// Reads a file as a whole or, if something in it is wrong, nothing of it.
fn read_included(config: &mut Config, file: &Path, depth: usize) -> Result<(), BadConfig> {
    if depth == DEPTH_MAX {
        let why = "it includes itself".to_owned();
        return Err(BadConfig { file: file.into(), line: None, why, is_missing: false });
    }
    let mut with_file = config.clone();
    read_into(&mut with_file, file, depth + 1)?;
    *config = with_file;
    Ok(())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Takes over the setting of an element of one line.
fn set(config: &mut Config, node: Node<'_, '_>, file: &Path) -> Result<(), String> {
    let text = text(node);
    let mut warn = |why: String| config.warnings.push(format!("{}:{}: {why}", file.display(), line(node)));
    match node.tag_name().name() {
        "type" => config.bus_type = Some(text),
        "listen" => config.listen.push(text),
        "fork" => config.fork = true,
        "pidfile" => config.pid_file = Some(text.into()),
        "servicedir" => config.service_dirs.push(folder_of(file).join(text)),
        "standard_session_servicedirs" => config.service_dirs.extend(session_service_dirs()),
        "standard_system_servicedirs" => {
            config.service_dirs.extend(SYSTEM_SERVICE_DIRS.iter().map(PathBuf::from));
        }
        "auth" if text == "EXTERNAL" => {}
        "auth" => warn(format!("the mechanism {text} is not supported; clients authenticate with EXTERNAL")),
        "limit" => {
            let limit = node.attribute("name").ok_or_else(|| "a <limit> has no name".to_owned())?;
            let (value, rest) =
                leading_integer(&text).ok_or_else(|| format!("invalid number in the limit {limit}: `{text}`"))?;
            if !rest.is_empty() {
                warn(format!("the limit {limit} is {value}; `{rest}` behind the number is ignored"));
            }
            if !config.limits.set(limit, value)? {
                config.warnings.push(format!("{}:{}: unknown limit {limit} ignored", file.display(), line(node)));
            }
        }
        "user" => config.user = user(&text)?,
        // The bus does not change its file mode mask.
        "keep_umask" => {}
        "syslog" => config.syslog = true,
        "servicehelper" => warn(
            "<servicehelper> is not supported: services are started as the user of this bus, and those of other users are not started".into(),
        ),
        "allow_anonymous" => {
            warn("<allow_anonymous> is not supported: clients without a user are not served".into());
        }
        name @ "apparmor" => match node.attribute("mode") {
            Some("required") => {
                return Err("AppArmor is not supported: remove mode=\"required\"".into());
            }
            None | Some("enabled" | "disabled") => warn(format!("<{name}> is not supported")),
            Some(mode) => return Err(format!("mode must be required, enabled or disabled, not `{mode}`")),
        },
        "selinux" => {
            for child in node.children().filter(Node::is_element) {
                check_association(child)?;
            }
            warn("<selinux> is not supported".into());
        }
        other => unreachable!("<{other}> is in the table"),
    }
    Ok(())
}

/// Checks a child of `<selinux>`, which has no effect.
fn check_association(node: Node<'_, '_>) -> Result<(), String> {
    if !node.has_tag_name("associate") {
        return Err(format!("unknown element <{}> in <selinux>", node.tag_name().name()));
    }
    check_form(node, "own context", Content::Nothing)?;
    match ["own", "context"].iter().find(|name| !node.has_attribute(**name)) {
        Some(missing) => Err(format!("<associate> has no {missing}")),
        None => Ok(()),
    }
}

/// Whom the bus becomes. Only root can become another user; one that is started by another user stays that, which has fewer rights.
fn user(user: &str) -> Result<Option<Account>, String> {
    let own = rustix::process::geteuid().as_raw();
    let account = Account::of(user);
    if own != 0 || account.as_ref().is_some_and(|account| account.uid == own) {
        return Ok(None);
    }
    account.map(Some).ok_or_else(|| format!("there is no user {user}; make one, or change <user>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bus.conf");
        std::fs::write(folder.path().join("more.conf"), "<busconfig><type>session</type></busconfig>")
            .unwrap();
        std::fs::write(&file, format!("<!DOCTYPE busconfig><busconfig>{text}</busconfig>")).unwrap();
        read(&file).map_err(|bad| bad.why)
    }

    /// Of one connection at once: at least a byte, at most a mebibyte.
    #[test]
    fn how_much_is_read_at_once_is_a_limit_of_the_configuration() {
        let read_bytes = |limit: &str| {
            let text = format!("<limit name='max_bytes_read_per_iteration'>{limit}</limit>");
            config(&text).map(|config| config.limits.read_bytes)
        };
        assert_eq!(config("").unwrap().limits.read_bytes, 64 << 10);
        assert_eq!(["2048", "0", "99999999"].map(|limit| read_bytes(limit).unwrap()), [2048, 1, 1 << 20]);
        assert!(read_bytes("-1").unwrap_err().contains("is -1; write a number that is not negative"));
    }

    #[test]
    fn elements_become_settings() {
        let config = config(
            "<include>more.conf</include><include ignore_missing='yes'>none.conf</include>\
             <listen>unix:tmpdir=/tmp</listen><limit name='max_message_size'>1000000000</limit>\
             <limit name='reply_timeout'>100</limit><auth>DBUS_COOKIE_SHA1</auth><servicedir>here</servicedir>",
        )
        .unwrap();
        assert_eq!(config.bus_type.as_deref(), Some("session"));
        assert_eq!(config.limits.message_bytes, 128 << 20);
        assert_eq!(config.limits.reply, Some(std::time::Duration::from_millis(100)));
        assert_eq!(self::config("<limit name='reply_timeout'>-1</limit>").unwrap().limits.reply, None);
        assert_eq!((config.listen.len(), config.service_dirs.len(), config.warnings.len()), (1, 1, 1));
    }

    #[test]
    fn what_cannot_be_left_out_is_refused_with_the_reason() {
        for (text, why) in [
            ("<include>none.conf</include>", "No such file"),
            ("<include>bus.conf</include>", "it includes itself"),
            ("<include>/dev/zero</include>", "it is not a regular file"),
            ("<include>.</include>", "it is not a regular file"),
            ("<apparmor mode='required'/>", "AppArmor is not supported"),
        ] {
            let said = config(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
