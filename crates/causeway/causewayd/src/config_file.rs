//! Reads configuration files of dbus-daemon.
//!
//! What this bus does not do is put into [`Config::warnings`] where going on without it is safe, and refused where it would let
//! somebody do more than the file says. Source: dbus-daemon(1), "CONFIGURATION FILE".

use std::fmt;
use std::path::{Path, PathBuf};

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

/// Why a configuration cannot be used: which file, and what is wrong.
#[derive(Debug)]
pub struct BadConfig {
    file: PathBuf,
    why: String,
}

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
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
    let bad = |why: String| BadConfig { file: file.into(), why };
    if depth > DEPTH_MAX {
        return Err(bad("it includes itself".into()));
    }
    let text = text_file::read(file, BYTES_MAX).map_err(|error| bad(error.to_string()))?;
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| bad(error.to_string()))?;
    let root = document.root_element();
    if !root.has_tag_name("busconfig") {
        return Err(bad(format!("its element is <{}>, not <busconfig>", root.tag_name().name())));
    }
    for node in root.children().filter(Node::is_element) {
        element(config, node, file, depth).map_err(|why| match why {
            Why::Here(why) => bad(why),
            Why::There(other) => other,
        })?;
    }
    Ok(())
}

enum Why {
    Here(String),
    There(BadConfig),
}

impl From<String> for Why {
    fn from(why: String) -> Why {
        Why::Here(why)
    }
}

fn element(config: &mut Config, node: Node<'_, '_>, file: &Path, depth: usize) -> Result<(), Why> {
    let text = node.text().unwrap_or("").trim();
    let folder = || file.parent().unwrap_or(Path::new("."));
    let name = node.tag_name().name();
    match name {
        "type" => config.bus_type = Some(text.into()),
        "listen" => config.listen.push(text.into()),
        "fork" => config.fork = true,
        "pidfile" => config.pid_file = Some(text.into()),
        "servicedir" => config.service_dirs.push(folder().join(text)),
        "standard_session_servicedirs" => config.service_dirs.extend(session_service_dirs()),
        "standard_system_servicedirs" => {
            config.service_dirs.extend(SYSTEM_SERVICE_DIRS.iter().map(PathBuf::from));
        }
        "auth" if text == "EXTERNAL" => {}
        "auth" => config
            .warnings
            .push(format!("the mechanism {text} is not supported; clients authenticate with EXTERNAL")),
        "include" => {
            let other = folder().join(text);
            let may_be_missing = node.attribute("ignore_missing") == Some("yes");
            let depends_on_selinux = node.attribute("if_selinux_enabled") == Some("yes");
            let is_left_out = depends_on_selinux || (may_be_missing && !other.exists());
            if !is_left_out {
                read_into(config, &other, depth + 1).map_err(Why::There)?;
            }
        }
        "includedir" => {
            // A folder that does not exist includes nothing.
            let Ok(entries) = std::fs::read_dir(folder().join(text)) else { return Ok(()) };
            let files = entries.filter_map(Result::ok).map(|entry| entry.path());
            let mut files: Vec<PathBuf> =
                files.filter(|file| file.extension().is_some_and(|end| end == "conf")).collect();
            files.sort();
            for other in files {
                read_into(config, &other, depth + 1).map_err(Why::There)?;
            }
        }
        "limit" => {
            let limit = node.attribute("name").ok_or_else(|| "a <limit> has no name".to_owned())?;
            let value =
                text.parse().map_err(|_| format!("invalid number in the limit {limit}: `{text}`"))?;
            if !config.limits.set(limit, value)? {
                config.warnings.push(format!("unknown limit {limit} ignored"));
            }
        }
        "policy" => policy_file::add(config, node)?,
        "user" => config.user = user(text)?,
        // The bus does not change its file mode mask.
        "keep_umask" => {}
        "syslog" => config.syslog = true,
        "servicehelper" => config.warnings.push(
            "<servicehelper> is not supported: services are started as the user of this bus, and those of other users are not started".into(),
        ),
        "allow_anonymous" => {
            return Err(Why::Here("anonymous clients are not supported; remove <allow_anonymous>".into()));
        }
        "selinux" | "apparmor" => {
            config.warnings.push(format!("<{name}> is not supported"));
        }
        other => return Err(Why::Here(format!("unknown configuration element <{other}>"))),
    }
    Ok(())
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
            ("<policy at_console='true'><allow own='*'/></policy>", "at_console is not supported"),
        ] {
            let said = config(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
