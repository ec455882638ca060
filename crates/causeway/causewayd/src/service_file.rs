//! `.service` files: which program provides which name.
//!
//! Reading them may wait for a disk or a network: the loop leaves it to a thread, and looks names up in what that has found.
//!
//! Source: D-Bus Specification, section "Message Bus Starting Services (Activation)".

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use causeway_dbus_wire::wire::names;

use crate::{config, text_file, users};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `Exec`: program and arguments, as [`words`] splits them.
    pub exec: String,
    /// `User`: as which user it is to run on the bus of the system, with the number that this had when the file was read.
    pub user: Option<(String, Option<u32>)>,
    /// `SystemdService`: the unit that provides the name where systemd starts services.
    pub unit: Option<String>,
}

/// The longest file; the others are no file of a service.
const BYTES_MAX: u64 = 128 << 10;

/// What tells one state of a file or folder from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    inode: u64,
    bytes: u64,
}

/// A change this soon before or after reading may have left the same [`Stamp`]: the clock of FAT counts two seconds, others milliseconds.
const COARSEST_CLOCK: Duration = Duration::from_secs(2);

/// How long nobody looks for further files after a look for a name without one that has found nothing new: clients ask as often as they
/// like, and each look asks for every file.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A file or folder as it was found; no stamp if it was not there.
#[derive(Debug)]
struct Seen {
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// All services of some folders. Of two with the same name, that of the earlier folder counts.
#[derive(Debug)]
pub struct Services {
    folders: Vec<Seen>,
    files: Vec<Seen>,
    read_at: SystemTime,
    /// Something could not be read that may be there the next time, such as for lack of descriptors.
    is_incomplete: bool,
    /// Until when a name without a file has none.
    quiet_until: Option<Instant>,
    /// Each with the index of its file.
    by_name: BTreeMap<String, (Service, usize)>,
    /// Files that are not a service, each with the reason.
    pub warnings: Vec<String>,
}

impl Services {
    /// Those of these folders, of which nothing was read yet.
    pub fn unread(folders: &[PathBuf]) -> Services {
        Services {
            folders: folders.iter().map(|folder| Seen { path: folder.clone(), stamp: None }).collect(),
            files: Vec::new(),
            read_at: SystemTime::now(),
            is_incomplete: true,
            quiet_until: None,
            by_name: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Reads all files of these folders; those that do not exist have none.
    pub fn read(folders: &[PathBuf]) -> Services {
        let mut services = Services::unread(folders);
        services.is_incomplete = false;
        services.folders.iter_mut().for_each(|folder| folder.stamp = stamp(&folder.path));
        for folder in folders {
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) => {
                    services.is_incomplete |= may_pass(&error);
                    continue;
                }
            };
            let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|end| end == "service"));
            files.sort();
            // Programs write there while the bus runs: dbus-daemon wants a file's name to say whose it is.
            let is_strict = config::transient_service_dir().as_deref() == Some(folder);
            files.into_iter().for_each(|file| services.add(file, is_strict));
        }
        services
    }

    fn add(&mut self, file: PathBuf, is_strict: bool) {
        // Before its text is read: a later change shows.
        let seen = Seen::now(file);
        let text =
            text_file::read(&seen.path, BYTES_MAX).inspect_err(|error| self.is_incomplete |= may_pass(error));
        match text.map_err(|error| error.to_string()).and_then(|text| parse(&text)) {
            Ok((name, _)) if is_strict && !seen.path.ends_with(format!("{name}.service")) => {
                let why = format!("a file for the name {name} must be called {name}.service in this folder");
                self.warnings.push(format!("{}: {why}", seen.path.display()));
            }
            Ok((name, service)) => {
                self.by_name.entry(name).or_insert((service, self.files.len()));
            }
            Err(why) => self.warnings.push(format!("{}: {why}", seen.path.display())),
        }
        self.files.push(seen);
    }

    /// Sees to it that these names can be looked up; without any, all can. Returns the warnings that are new.
    #[must_use]
    pub fn look_up(&mut self, names: &[String]) -> Vec<String> {
        if names.iter().any(String::is_empty) || names.is_empty() {
            return self.refresh();
        }
        names.iter().flat_map(|name| self.refresh_for(name)).collect()
    }

    /// Does surely no file provide this name? It is not asked for again so soon after a look that has found none.
    pub fn is_known_to_lack(&self, name: &str, now: Instant) -> bool {
        !self.by_name.contains_key(name) && self.quiet_until.is_some_and(|until| now < until)
    }

    /// Reads all files again if the answer about this name may have changed: a folder, the file that has it, or, if none has, any file.
    /// Returns the warnings that are new. A file that has just come may be missed for 100 ms after a look that has found nothing new.
    #[must_use]
    pub fn refresh_for(&mut self, name: &str) -> Vec<String> {
        if let Some((_, file)) = self.by_name.get(name) {
            return if self.are_as_read(&self.files[*file..=*file]) { Vec::new() } else { self.read_again() };
        }
        let now = Instant::now();
        if self.is_known_to_lack(name, now) {
            return Vec::new();
        }
        let warnings = self.refresh();
        if !self.by_name.contains_key(name) {
            self.quiet_until = Some(now + BETWEEN_LOOKS);
        }
        warnings
    }

    /// Reads all files again if one of them or a folder has changed. Returns the warnings that are new.
    #[must_use]
    pub fn refresh(&mut self) -> Vec<String> {
        if self.are_as_read(&self.files) { Vec::new() } else { self.read_again() }
    }

    /// Are all folders and these files as they were when they were read?
    fn are_as_read(&self, files: &[Seen]) -> bool {
        !self.is_incomplete && self.folders.iter().chain(files).all(|seen| seen.is_unchanged(self.read_at))
    }

    fn read_again(&mut self) -> Vec<String> {
        let folders: Vec<PathBuf> = self.folders.iter().map(|folder| folder.path.clone()).collect();
        let before = std::mem::replace(self, Services::read(&folders));
        self.warnings.iter().filter(|warning| !before.warnings.contains(warning)).cloned().collect()
    }

    pub fn get(&self, name: &str) -> Option<&Service> {
        self.by_name.get(name).map(|(service, _)| service)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

impl Seen {
    fn now(path: PathBuf) -> Seen {
        Seen { stamp: stamp(&path), path }
    }

    /// Is it surely as it was, when it was read at this time?
    fn is_unchanged(&self, read_at: SystemTime) -> bool {
        let is_too_new = |stamp: Stamp| {
            let age = read_at.duration_since(stamp.modified).unwrap_or_else(|ahead| ahead.duration());
            age < COARSEST_CLOCK
        };
        stamp(&self.path) == self.stamp && !self.stamp.is_some_and(is_too_new)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: data.modified().ok()?, inode: data.ino(), bytes: data.len() })
}

/// May it be read the next time, although nothing has changed?
fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotADirectory, NotFound, PermissionDenied};
    !matches!(error.kind(), InvalidData | NotADirectory | NotFound | PermissionDenied)
}

const GROUP: &str = "D-BUS Service";

/// Name and program of one file. What dbus-daemon takes for a mistake is a mistake, in other groups, too.
pub(crate) fn parse(text: &str) -> Result<(String, Service), String> {
    if let Some(at) = text.find('\0') {
        let line = text[..at].matches('\n').count() + 1;
        return Err(format!("line {line}: a zero byte"));
    }
    let (mut group, mut is_first) = (None, true);
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for (number, line) in (1..).zip(lines(text)) {
        let at = |why: &str| format!("line {number}: {why}");
        if line.starts_with('[') {
            is_first &= group != Some(GROUP);
            group = Some(group_name(line).ok_or_else(|| at("invalid group, write [NAME]"))?);
        } else if line.starts_with('#') || is_blank(line) {
        } else if group.is_none() {
            return Err(at("a key stands before the group [D-BUS Service]"));
        } else if let Some((key, value)) = entry(line).map_err(at)?
            && is_first
            && group == Some(GROUP)
        {
            // Of several, the first counts.
            values.entry(key).or_insert(value);
        }
    }
    let name = values.remove("Name").ok_or("it has no Name= in a group [D-BUS Service]")?;
    if !names::is_well_known(&name) {
        return Err(format!("invalid service name `{name}`"));
    }
    let exec = values.remove("Exec");
    let exec = exec.ok_or("it has no Exec= in the group [D-BUS Service], which must be there even if systemd starts the service")?;
    let unit = values.remove("SystemdService").filter(|unit| !unit.is_empty());
    let user = values.remove("User").map(|user| {
        let uid = users::uid(&user);
        (user, uid)
    });
    Ok((name, Service { exec, user, unit }))
}

/// Lines that end with CR, LF or both.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

fn is_blank(line: &str) -> bool {
    line.chars().all(|letter| matches!(letter, ' ' | '\t' | '\x0c'))
}

fn group_name(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.strip_suffix(']')?;
    let is_printable = |letter: u8| matches!(letter, b' '..=b'~') && !matches!(letter, b'[' | b']');
    (!name.is_empty() && name.bytes().all(is_printable)).then_some(name)
}

/// Key and value of a line; nothing for a value of another language.
fn entry(line: &str) -> Result<Option<(&str, String)>, &'static str> {
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let end = line.find(|letter| !is_key(letter)).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    if key.is_empty() {
        return Err("a line begins with a key, `#` or `[`");
    }
    if rest.starts_with('[') {
        return Ok(None);
    }
    let value = rest.trim_start_matches(' ').strip_prefix('=').ok_or("a key is followed by `=`")?;
    unescaped(value.trim_start_matches(' ')).map(|value| Some((key, value)))
}

/// A value without its escapes.
fn unescaped(text: &str) -> Result<String, &'static str> {
    let (mut value, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        value.push(match letter {
            '\\' => match letters.next() {
                Some('s') => ' ',
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('\\') => '\\',
                _ => {
                    return Err(
                        r"in a value, a backslash is written `\\`, and other escapes are \s, \t, \n and \r",
                    );
                }
            },
            other => other,
        });
    }
    Ok(value)
}

/// Words of an `Exec=`, or nothing where a quote, an escape or a comment has no end. They are split as by a shell without its substitutions,
/// but as dbus-daemon does it: a `#` begins a comment inside of a word, too, and the last word is there even if it is empty.
pub fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut letters = text.chars();
    let mut is_inside = false;
    while let Some(letter) = letters.next() {
        let was_inside = std::mem::replace(&mut is_inside, true);
        match letter {
            ' ' | '\t' | '\n' => {
                if was_inside || letter == '\n' {
                    words.push(std::mem::take(&mut word));
                }
                is_inside = false;
            }
            '#' => {
                is_inside = was_inside;
                // The end of the line does not end a word that the comment has interrupted.
                let mut letter = letters.next()?;
                while letter != '\n' {
                    let Some(next) = letters.next() else { break };
                    letter = next;
                }
            }
            '\'' => loop {
                match letters.next()? {
                    '\'' => break,
                    other => word.push(other),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => match letters.next()? {
                        escaped @ ('"' | '\\' | '$' | '`' | '\n') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    other => word.push(other),
                }
            },
            '\\' => match letters.next()? {
                '\n' => is_inside = was_inside,
                other => word.push(other),
            },
            other => word.push(other),
        }
    }
    words.push(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        let split = |text| words(text).map(|words| words.join("|"));
        assert_eq!(split(r#"/bin/a b 'c d' "e \"f" g\ h"#).as_deref(), Some(r#"/bin/a|b|c d|e "f|g h"#));
        assert_eq!(split(r#"a"b"'c' '' "#).as_deref(), Some("abc||"));
        assert_eq!(split(r#"a \' "\$x \y" #'c"#).as_deref(), Some(r#"a|'|$x \y|"#));
        assert_eq!(split("a#b\nc\n\nd ").as_deref(), Some("ac||d|"));
        assert_eq!(split("a\\\nb\u{a0}c").as_deref(), Some("ab\u{a0}c"));
        assert_eq!(["'open", "\"open\\\"", "open\\", "open #"].map(split), [const { None }; 4]);
    }

    fn write_service(path: &Path, name: &str, exec: &str) {
        std::fs::write(path, format!("[D-BUS Service]\nName={name}\nExec={exec}\n")).unwrap();
    }

    #[test]
    fn the_earlier_folder_counts_and_an_invalid_file_is_said() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let write = |folder: usize, file: &str, text: &str| {
            std::fs::write(folders[folder].path().join(file), text).unwrap();
        };
        let first = "# one\n[D-BUS Service]\nName=a.B\nExec=/bin/first 'x y'\nSystemdService=a.service\n";
        write(0, "a.service", &format!("{first}[Other]\nName=c.D\n"));
        write(1, "c.service", "[D-BUS Service]\nName=c.C\n");
        for (file, name) in [("a.service", "a.B"), ("b.service", "b"), ("d.txt", "d.D")] {
            write_service(&folders[1].path().join(file), name, "/bin/second");
        }
        let services = Services::read(&folders.each_ref().map(|folder| folder.path().into()));
        assert_eq!(services.names().collect::<Vec<_>>(), ["a.B"]);
        let found = services.get("a.B").unwrap();
        assert_eq!(found.exec, "/bin/first 'x y'");
        assert_eq!(found.unit.as_deref(), Some("a.service"));
        assert_eq!(services.warnings.len(), 2, "{:?}", services.warnings);
    }

    #[test]
    fn what_is_no_file_of_a_service_keeps_nobody_waiting_and_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe.service"), rustix::fs::Mode::RUSR).unwrap();
        std::fs::create_dir(path("folder.service")).unwrap();
        std::fs::write(path("long.service"), "#".repeat(BYTES_MAX as usize + 1)).unwrap();
        write_service(&path("a.service"), "a.B", "/bin/1");
        let mut services = Services::unread(&[folder.path().into()]);
        assert_eq!(services.look_up(&[]).len(), 3, "{:?}", services.warnings);
        assert!(services.names().eq(["a.B"]));
        assert!(services.look_up(&["a.C".into()]).is_empty());
        let now = Instant::now();
        assert!(services.is_known_to_lack("a.C", now) && !services.is_known_to_lack("a.B", now));
    }

    #[test]
    fn names_without_a_file_are_not_looked_for_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, exec| write_service(&folder.path().join(format!("{name}.service")), name, exec);
        write("a.B", "/bin/1");
        let mut services = Services::read(&[folder.path().into()]);
        assert!(services.refresh_for("a.C").is_empty());
        // As if no time passed.
        services.quiet_until = services.quiet_until.map(|until| until + Duration::from_secs(3600));
        write("a.C", "/bin/1");
        assert!(services.refresh_for("a.C").is_empty() && services.get("a.C").is_none());
        services.quiet_until = Some(Instant::now());
        assert!(services.refresh_for("a.C").is_empty() && services.get("a.C").is_some());
        // A name with a file is looked up at once.
        services.quiet_until = Some(Instant::now() + Duration::from_secs(3600));
        write("a.B", "/bin/2");
        assert!(services.refresh_for("a.B").is_empty());
        assert_eq!(services.get("a.B").unwrap().exec, "/bin/2");
    }

    /// Each change alone, long after and long before the files were read, so that only the stamps tell.
    #[test]
    fn a_file_that_is_edited_renamed_or_removed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a.service"), folder.path().join("b.service"));
        let age = |path: &Path, hours: u64| {
            let then = SystemTime::now() - Duration::from_secs(hours * 3600);
            std::fs::File::open(path).unwrap().set_modified(then).unwrap();
        };
        let write = |path: &Path, name: &str, exec: &str, hours: u64| {
            write_service(path, name, exec);
            age(path, hours);
            age(folder.path(), 9);
        };
        write(&file, "a.B", "/bin/1", 8);
        let mut services = Services::read(&[folder.path().into()]);
        let program = |services: &Services, name| services.get(name).map(|service| service.exec.clone());
        let looked_up = |services: &mut Services, name| {
            assert!(services.refresh_for(name).is_empty());
            program(services, name)
        };
        assert!(services.are_as_read(&services.files));
        // Edited in its place: neither its size nor the folder changes.
        write(&file, "a.B", "/bin/2", 7);
        assert_eq!(looked_up(&mut services, "a.B").as_deref(), Some("/bin/2"));
        // As a lookup finds it that no file answered, and as a list of all names does.
        write(&file, "a.C", "/bin/2", 6);
        assert_eq!(looked_up(&mut services, "a.C").as_deref(), Some("/bin/2"));
        write(&file, "a.D", "/bin/2", 5);
        assert!(services.refresh().is_empty() && services.names().eq(["a.D"]));
        std::fs::rename(&file, &other).unwrap();
        std::fs::write(&other, "").unwrap();
        age(folder.path(), 4);
        assert_eq!(services.refresh_for("a.D").len(), 1, "{:?}", services.warnings);
        assert_eq!(program(&services, "a.D"), None);
        std::fs::remove_file(&other).unwrap();
        assert!(services.refresh().is_empty() && services.warnings.is_empty());
        // What has just been written may be written once more before the clock of its file system goes on.
        write(&file, "a.B", "/bin/3", 0);
        assert_eq!(looked_up(&mut services, "a.B").as_deref(), Some("/bin/3"));
        let modified = file.metadata().unwrap().modified().unwrap();
        write(&file, "a.B", "/bin/4", 0);
        std::fs::File::open(&file).unwrap().set_modified(modified).unwrap();
        assert_eq!(looked_up(&mut services, "a.B").as_deref(), Some("/bin/4"));
    }
}
