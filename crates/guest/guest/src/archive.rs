//! An initramfs: a cpio archive of the format "newc" that the kernel unpacks before it starts `/init`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use cpio::newc::{Builder, ModeFileType, trailer};

/// The file types of `stat`, and the mode bits that this archive uses.
const FOLDER: u32 = 0o755;
const PROGRAM: u32 = 0o755;

/// An archive in the making. Folders of a path are made as they are needed.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds an empty folder; a path begins with no slash.
    ///
    /// # Errors
    /// A path that is too long for the format.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        self.parents(path)?;
        self.folders.insert(path.to_owned());
        self.entry(Builder::new(path).mode(FOLDER).set_mode_file_type(ModeFileType::Directory), &[])
    }

    /// Adds a file that anybody may read and execute.
    ///
    /// # Errors
    /// A file of 4 GiB or more, which the format cannot hold.
    pub fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.parents(path)?;
        self.entry(Builder::new(path).mode(PROGRAM).set_mode_file_type(ModeFileType::Regular), content)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.parents(path)?;
        self.entry(
            Builder::new(path).mode(0o777).set_mode_file_type(ModeFileType::Symlink),
            target.as_bytes(),
        )
    }

    /// Adds a character device.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.parents(path)?;
        let device = Builder::new(path).mode(0o600).set_mode_file_type(ModeFileType::Char);
        self.entry(device.rdev_major(major).rdev_minor(minor), &[])
    }

    /// The whole archive with its trailer.
    ///
    /// # Errors
    /// None is known: it is written to memory.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        trailer(self.bytes)
    }

    fn parents(&mut self, path: &str) -> io::Result<()> {
        match path.rsplit_once('/') {
            Some((parent, _)) => self.folder(parent),
            None => Ok(()),
        }
    }

    fn entry(&mut self, entry: Builder, content: &[u8]) -> io::Result<()> {
        let too_large =
            || io::Error::new(io::ErrorKind::FileTooLarge, "an initramfs holds files below 4 GiB");
        let size = u32::try_from(content.len()).map_err(|_| too_large())?;
        self.entries += 1;
        // Entries of one number would be taken for names of one file.
        let mut writer = entry.ino(self.entries).write(&mut self.bytes, size);
        writer.write_all(content)?;
        writer.finish().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;

    #[test]
    fn an_archive_has_every_entry_once_with_its_folders_before_it() {
        let mut archive = Archive::default();
        archive.file("lib/x86/libc.so", b"elf").unwrap();
        archive.file("lib/x86/libm.so", &[7; 5]).unwrap();
        archive.link("init", "/lib/x86/libc.so").unwrap();
        archive.folder("lib").unwrap();
        archive.device("dev/console", 5, 1).unwrap();
        let bytes = archive.finish().unwrap();
        assert!(bytes.starts_with(b"070701"), "the kernel reads newc only");
        let (mut rest, mut found) = (&bytes[..], Vec::new());
        loop {
            let reader = Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let entry = reader.entry();
            found.push((entry.name().to_owned(), entry.mode(), entry.ino(), entry.rdev_major()));
            let mut content = Vec::new();
            rest = reader.to_writer(&mut content).unwrap();
            if found.last().unwrap().0.ends_with("libm.so") {
                assert_eq!(content, [7; 5]);
            }
        }
        let entry = |name: &str, mode, ino, major| (name.to_owned(), mode, ino, major);
        assert_eq!(
            found,
            [
                entry("lib", 0o040_755, 1, 0),
                entry("lib/x86", 0o040_755, 2, 0),
                entry("lib/x86/libc.so", 0o100_755, 3, 0),
                entry("lib/x86/libm.so", 0o100_755, 4, 0),
                entry("init", 0o120_777, 5, 0),
                entry("dev", 0o040_755, 6, 0),
                entry("dev/console", 0o020_600, 7, 5),
            ]
        );
    }
}
