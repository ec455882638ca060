//! Files to packets.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weighbridge_dbus_traffic::capture::{Format, NotACapture, Packet, Problems, Reader};

use crate::commands::report::name_of;
use crate::{Failure, output};

/// A file that is read, and what of it could not be used.
#[derive(Debug, Serialize)]
pub struct Source {
    /// Its path; `-` for standard input.
    pub file: String,
    /// Its format.
    pub format: &'static str,
    /// Places where damage was skipped.
    pub damaged_places: u64,
    /// Bytes, or lines, that were skipped there.
    pub skipped: u64,
    /// Does it end inside a packet?
    pub ends_early: bool,
    /// Bytes of that packet, which were not used.
    pub bytes_left: u64,
    /// Packets of other link types.
    pub foreign_packets: u64,
}

/// Captures that are open.
pub struct Captures {
    readers: Vec<(PathBuf, Reader<Box<dyn Read>>)>,
}

impl Captures {
    /// Opens files, all of which must be captures.
    pub fn open(paths: &[PathBuf]) -> Result<Captures, Failure> {
        let mut readers = Vec::new();
        let mut seen = HashSet::new();
        for path in paths {
            let name = name_of(path);
            // Its messages twice are traffic that never was.
            let identity = std::fs::metadata(path)
                .map(|of| (of.dev(), of.ino()))
                .ok()
                .filter(|_| path != Path::new("-"));
            if !seen.insert(identity.ok_or(path)) {
                return Err(Failure::mistake(format!("{name} is named twice; name each capture once")));
            }
            let source: Box<dyn Read> = if path == Path::new("-") {
                Box::new(io::stdin())
            } else {
                let opened = File::open(path);
                Box::new(opened.map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?)
            };
            let reader = Reader::new(source).map_err(|error| Failure::new(format!("{name} {error}")))?;
            readers.push((path.clone(), reader));
        }
        Ok(Captures { readers })
    }

    /// Do all of them tell the sizes of messages?
    pub fn have_sizes(&self) -> bool {
        self.readers.iter().all(|(_, reader)| !reader.format().is_text())
    }

    /// Gives every packet to `take`; what could not be used is said on standard error and returned.
    pub fn read(self, mut take: impl FnMut(&Packet<'_>) -> io::Result<()>) -> Result<Vec<Source>, Failure> {
        let mut sources = Vec::new();
        for (path, mut reader) in self.readers {
            let name = name_of(&path);
            let mut is_empty = true;
            let cut = |error: &io::Error| output::warn(&format!("{name} cannot be read to its end: {error}"));
            while let Some(packet) = reader.next_packet().inspect_err(cut).ok().flatten() {
                is_empty = false;
                take(&packet).map_err(|error| Failure::new(format!("cannot write: {error}")))?;
            }
            let problems = reader.problems();
            if let Some(link_type) = problems.foreign_type.filter(|_| is_empty) {
                return Err(Failure::new(format!("{name} {}", NotACapture::LinkType(link_type))));
            }
            warn(&name, reader.format(), problems);
            sources.push(Source {
                file: path.display().to_string(),
                format: reader.format().word(),
                damaged_places: problems.damaged,
                skipped: problems.skipped,
                ends_early: problems.ends_early,
                bytes_left: problems.left,
                foreign_packets: problems.foreign,
            });
        }
        Ok(sources)
    }
}

fn warn(name: &str, format: Format, problems: Problems) {
    let unit = if format.is_text() { "lines" } else { "bytes" };
    if problems.damaged > 0 {
        let (places, skipped) = (problems.damaged, problems.skipped);
        output::warn(&format!("{name} is damaged: {skipped} {unit} were skipped in {places} places"));
    }
    if problems.ends_early {
        let left = problems.left;
        output::warn(&format!(
            "{name} ends inside a packet, whose {left} bytes were not used; what comes before was"
        ));
    }
    if let foreign @ 1.. = problems.foreign {
        output::warn(&format!("{name} has {foreign} packets that are not D-Bus messages; they were skipped"));
    }
}
