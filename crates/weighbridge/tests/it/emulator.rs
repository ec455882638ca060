//! A script in the place of the emulator, and a file in the place of a kernel: how `guest` ends, without a boot.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_testkit::{Running, eventually, eventually_some};
use weighbridge_guest::port::{self, Answer};

use crate::{PROGRAM, has_ended, said, script, text};

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
        let does = format!("echo $$ > \"$(dirname \"$0\")/pid\"\n{does}");
        script(&folder.join("qemu-system-x86_64"), &does);
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

    /// It answers with the record of a run of the mock, which this makes in the folder above.
    pub fn answers_with_a_record(&self) {
        let folder = self.folder.parent().unwrap();
        said(folder, "run roundtrip/mock/1/free --out m.jsonl --html none --quiet --alone").with(0);
        self.answers(&std::fs::read(folder.join("m.jsonl")).unwrap());
    }

    /// It answers with these results.
    pub fn answers(&self, results: &[u8]) {
        let mut bytes = port::up().into_bytes();
        bytes.extend(port::write(&Answer::Record(results.to_vec())));
        std::fs::write(self.folder.join("answer"), bytes).unwrap();
    }

    /// Starts `guest run` with these further words, in the folder above.
    pub fn boots(&self, words: &str) -> Running {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.folder.parent().unwrap()).env("PATH", &self.path);
        command.args(["guest", "run", "--kernel", &self.kernel, "roundtrip/mock/1/free"]);
        command.args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Running::start(&mut command)
    }

    /// What such a guest run says on standard error, and how it ends.
    pub fn says(&self, words: &str) -> (String, Option<i32>) {
        let mut running = self.boots(words);
        let said = std::io::read_to_string(running.0.stderr.take().unwrap()).unwrap();
        (said, running.wait().code())
    }

    /// Its process, once it runs.
    pub fn pid(&self) -> u32 {
        eventually_some("a guest that runs", || text(self.folder.join("pid")).trim().parse().ok())
    }

    pub fn is_gone(&self) {
        let pid = self.pid();
        eventually("the end of the guest", || has_ended(pid));
    }
}
