//! `.service` files: which program provides which name.
//!
//! Source: D-Bus Specification, section "Message Bus Starting Services (Activation)".

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weighbridge_dbus::wire::names;

/// A program that provides a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Program and arguments, the first of which is not empty.
    pub command: Vec<String>,
}

/// All services of some folders. Of two with the same name, that of the earlier folder counts.
#[derive(Debug, Default)]
pub struct Services {
    folders: Vec<PathBuf>,
    read_at: Vec<Option<SystemTime>>,
    by_name: BTreeMap<String, Service>,
    /// Files that are no service, each with the reason.
    pub remarks: Vec<String>,
}

impl Services {
    /// Reads all files of these folders; those that do not exist have none.
    #[must_use]
    pub fn read(folders: &[PathBuf]) -> Services {
        let mut services = Services {
            folders: folders.to_vec(),
            read_at: folders.iter().map(|folder| changed_at(folder)).collect(),
            ..Services::default()
        };
        for folder in folders {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|end| end == "service"));
            files.sort();
            for file in files {
                let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
                match text.and_then(|text| parse(&text)) {
                    Ok((name, service)) => {
                        services.by_name.entry(name).or_insert(service);
                    }
                    Err(why) => services.remarks.push(format!("{}: {why}", file.display())),
                }
            }
        }
        services
    }

    /// Has a folder changed since?
    #[must_use]
    pub fn is_old(&self) -> bool {
        !self.folders.iter().map(|folder| changed_at(folder)).eq(self.read_at.iter().copied())
    }

    /// The program that provides a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Service> {
        self.by_name.get(name)
    }

    /// All names that programs provide.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

fn changed_at(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).and_then(|data| data.modified()).ok()
}

/// Name and program of one file.
fn parse(text: &str) -> Result<(String, Service), String> {
    let (mut is_ours, mut name, mut exec) = (false, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[') {
            is_ours = group == "D-BUS Service]";
        } else if let Some((key, value)) = line.split_once('=')
            && is_ours
            && !line.starts_with('#')
        {
            match key.trim_end() {
                "Name" => name = Some(value.trim_start()),
                "Exec" => exec = Some(value.trim_start()),
                _ => {}
            }
        }
    }
    let name = name.ok_or("it has no Name= in a group [D-BUS Service]")?;
    if !names::is_well_known(name) {
        return Err(format!("`{name}` is no name that a service can have"));
    }
    let exec = exec.ok_or("it has no Exec=; services are started in no other way")?;
    let command = words(exec).ok_or_else(|| format!("the quotes of `{exec}` do not match"))?;
    if command.first().is_none_or(String::is_empty) {
        return Err("its Exec= is empty".into());
    }
    Ok((name.into(), Service { command }))
}

/// Words as a shell splits them, without its substitutions: blanks, both kinds of quotes, backslashes.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut letters = text.chars();
    let mut is_inside = false;
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            is_inside = false;
            continue;
        }
        if !std::mem::replace(&mut is_inside, true) {
            words.push(String::new());
        }
        let word = words.last_mut().expect("a word has begun");
        match letter {
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
                        escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    other => word.push(other),
                }
            },
            '\\' => word.push(letters.next()?),
            other => word.push(other),
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        let split = |text| words(text).map(|words| words.join("|"));
        assert_eq!(split(r#"/bin/a b 'c d' "e \"f" g\ h"#).as_deref(), Some(r#"/bin/a|b|c d|e "f|g h"#));
        assert_eq!(split(r#"a"b"'c' '' "#).as_deref(), Some("abc|"));
        assert_eq!(split("'open"), None);
    }

    #[test]
    fn the_earlier_folder_counts_and_what_is_no_service_is_said() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let write = |folder: usize, file: &str, text: &str| {
            std::fs::write(folders[folder].path().join(file), text).unwrap();
        };
        write(0, "a.service", "# one\n[D-BUS Service]\nName=a.B\nExec=/bin/first 'x y'\n[Other]\nName=c.D\n");
        write(1, "a.service", "[D-BUS Service]\nName=a.B\nExec=/bin/second\n");
        write(1, "b.service", "[D-BUS Service]\nName=b\nExec=/bin/second\n");
        write(1, "c.service", "[D-BUS Service]\nName=c.C\n");
        write(1, "d.txt", "[D-BUS Service]\nName=d.D\nExec=/bin/d\n");
        let services = Services::read(&folders.each_ref().map(|folder| folder.path().into()));
        assert_eq!(services.names().collect::<Vec<_>>(), ["a.B"]);
        assert_eq!(services.get("a.B").unwrap().command, ["/bin/first", "x y"]);
        assert_eq!(services.remarks.len(), 2, "{:?}", services.remarks);
        assert!(!services.is_old());
    }
}
