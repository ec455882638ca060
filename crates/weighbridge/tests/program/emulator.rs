//! A script in the place of the emulator, and a file in the place of a kernel: how `guest` ends, without a boot.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weighbridge_guest::port::{self, Answer};

use crate::{PROGRAM, wait_for};

/// The script. Its descriptors are those of the emulator: 3 is the console, 4 the answering port.
pub struct Emulator {
    folder: PathBuf,
    /// The kernel, as `--kernel` takes it.
    pub kernel: String,
    /// Folders of programs, that of the script first.
    pub path: OsString,
}

impl Emulator {
    /// One that does this, in a folder of its own below `folder`.
    pub fn that(folder: &Path, does: &str) -> Emulator {
        let folder = folder.join("emulator");
        std::fs::create_dir(&folder).unwrap();
        let script = folder.join("qemu-system-x86_64");
        std::fs::write(&script, format!("#!/bin/sh\necho $$ > \"$(dirname \"$0\")/pid\"\n{does}\n")).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        // The magic of a bzImage, which has no version.
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        let kernel = folder.join("bzImage");
        std::fs::write(&kernel, image).unwrap();
        let mut path = folder.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Emulator { kernel: kernel.display().to_string(), path, folder }
    }

    /// The file `answer` beside the script holds what a guest sends with this record.
    pub fn answers(&self, record: &[u8]) {
        let mut bytes = port::up().into_bytes();
        bytes.extend(port::write(&Answer::Record(record.to_vec())));
        std::fs::write(self.folder.join("answer"), bytes).unwrap();
    }

    /// Starts `guest run` with these further arguments, in the folder above.
    pub fn boots(&self, args: &[&str]) -> Child {
        Command::new(PROGRAM)
            .current_dir(self.folder.parent().unwrap())
            .args(["guest", "run", "--kernel", &self.kernel, "roundtrip/mock/1/free"])
            .args(args)
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Its process, once it runs.
    pub fn pid(&self) -> u32 {
        wait_for("a guest that runs", || {
            std::fs::read_to_string(self.folder.join("pid")).ok()?.trim().parse().ok()
        })
    }

    /// Nothing runs any more.
    pub fn is_gone(&self) {
        let stat = format!("/proc/{}/stat", self.pid());
        wait_for("the end of the guest", || match std::fs::read_to_string(&stat) {
            // A zombie waits for a parent that reaps it.
            Ok(stat) => stat.rsplit_once(')').filter(|(_, rest)| rest.trim().starts_with('Z')).map(|_| ()),
            Err(_) => Some(()),
        });
    }
}
