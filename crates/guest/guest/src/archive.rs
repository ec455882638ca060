//! An initramfs: a cpio archive of the format "newc" that the kernel unpacks before it starts `/init`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use cpio::newc::{Builder, ModeFileType, trailer};

/// An archive in the making. Folders of a path are made as they are needed; a path begins with no slash.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        if path.is_empty() || self.folders.contains(path) {
            return Ok(());
        }
        self.entry(Builder::new(path).mode(0o755).set_mode_file_type(ModeFileType::Directory), path, &[])?;
        self.folders.insert(path.to_owned());
        Ok(())
    }

    /// One that anybody may read and execute; of 4 GiB or more it is an error.
    pub fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(Builder::new(path).mode(0o755).set_mode_file_type(ModeFileType::Regular), path, content)
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let link = Builder::new(path).mode(0o777).set_mode_file_type(ModeFileType::Symlink);
        self.entry(link, path, target.as_bytes())
    }

    /// A character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        let device = Builder::new(path).mode(0o600).set_mode_file_type(ModeFileType::Char);
        self.entry(device.rdev_major(major).rdev_minor(minor), path, &[])
    }

    /// The whole archive with its trailer.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        trailer(self.bytes)
    }

    /// Adds an entry behind the folder that it is in.
    fn entry(&mut self, entry: Builder, path: &str, content: &[u8]) -> io::Result<()> {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        let too_large =
            |_| io::Error::new(io::ErrorKind::FileTooLarge, "an initramfs holds files below 4 GiB");
        let size = u32::try_from(content.len()).map_err(too_large)?;
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
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            let (name, numbers) = (entry.name().to_owned(), (entry.mode(), entry.ino(), entry.rdev_major()));
            let mut content = Vec::new();
            rest = reader.to_writer(&mut content).unwrap();
            assert!(!name.ends_with("libm.so") || content == [7; 5]);
            found.push((name, numbers));
        }
        let expected = [
            ("lib", (0o040_755, 1, 0)),
            ("lib/x86", (0o040_755, 2, 0)),
            ("lib/x86/libc.so", (0o100_755, 3, 0)),
            ("lib/x86/libm.so", (0o100_755, 4, 0)),
            ("init", (0o120_777, 5, 0)),
            ("dev", (0o040_755, 6, 0)),
            ("dev/console", (0o020_600, 7, 5)),
        ];
        assert_eq!(found, expected.map(|(name, numbers)| (name.to_owned(), numbers)));
    }
}
