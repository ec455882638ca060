//! The emulator: where it is, and the machine that it is asked for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::kernel::Kernel;

/// The program that emulates an x86-64.
pub const NAME: &str = "qemu-system-x86_64";

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// Emulation in which time is the number of executed instructions: 1 ns each.
    Icount,
    /// Emulation with the host's clock.
    Tcg,
    /// The host's CPU.
    Kvm,
}

impl Accel {
    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Icount => "icount",
            Accel::Tcg => "tcg",
            Accel::Kvm => "kvm",
        }
    }
}

/// A machine to boot.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel.
    pub kernel: Kernel,
    /// What is added to its command line.
    pub append: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// What runs its instructions.
    pub accel: Accel,
    /// What counts them by function, where that is wanted; see [`plugin::find`](crate::plugin::find).
    pub plugin: Option<PathBuf>,
}

/// The emulator, found as a shell finds it.
///
/// # Errors
/// There is none, with the package that has it.
pub fn find() -> Result<PathBuf, Error> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(NAME)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::new(format!("{NAME} is not installed; `apt-get install qemu-system-x86` brings it"))
    })
}

/// The emulator and its version, in its own words: counts of instructions agree only where it is the same.
pub fn version(qemu: &Path) -> Option<String> {
    // A script in its place may do anything with the question.
    let mut magic = [0; 4];
    File::open(qemu).ok()?.read_exact(&mut magic).ok()?;
    if magic != *b"\x7fELF" {
        return None;
    }
    let output = Command::new(qemu).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, version) = text.lines().next()?.split_once(" version ")?;
    Some(format!("QEMU {version}"))
}

/// Descriptors of the emulator: the two serial ports, to which it writes, and the initramfs.
pub const CONSOLE_FD: i32 = 3;
/// See [`CONSOLE_FD`].
pub const ANSWER_FD: i32 = 4;
/// See [`CONSOLE_FD`].
pub const IMAGE_FD: i32 = 5;
/// The file for what the plugin counts, where there is one.
pub const COUNTS_FD: i32 = 6;

impl Machine {
    /// The kernel's whole command line. A kernel that panics restarts at once, which ends the emulator.
    pub fn command_line(&self) -> String {
        let mut line = String::from("console=ttyS0 loglevel=4 panic=-1");
        if self.plugin.is_some() {
            // Every process has its programs at the same addresses, so that those of one tell those of all.
            line += " norandmaps";
        }
        if self.append.is_empty() { line } else { format!("{line} {}", self.append) }
    }

    /// The arguments of the emulator: no disk, no network, no screen, two serial ports.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"].map(String::from).into();
        let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        add("-accel", if self.accel == Accel::Kvm { "kvm" } else { "tcg" }.into());
        match self.accel {
            Accel::Kvm => add("-cpu", "host".into()),
            Accel::Tcg => {}
            // An instruction is 2⁰ ns; an idle guest's clock moves on to its next timer at once.
            Accel::Icount => add("-icount", "shift=0,sleep=off".into()),
        }
        add("-smp", self.cpus.to_string());
        add("-m", self.memory_mib.to_string());
        for (id, fd) in [("console", CONSOLE_FD), ("answer", ANSWER_FD)] {
            add("-chardev", format!("file,id={id},path=/proc/self/fd/{fd}"));
            add("-serial", format!("chardev:{id}"));
        }
        if let Some(plugin) = &self.plugin {
            // A comma in a value is written twice.
            let plugin = plugin.display().to_string().replace(',', ",,");
            add("-plugin", format!("file={plugin},out=/proc/self/fd/{COUNTS_FD}"));
        }
        add("-kernel", self.kernel.image.display().to_string());
        add("-initrd", format!("/proc/self/fd/{IMAGE_FD}"));
        add("-append", self.command_line());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_only_where_that_is_asked_for() {
        let kernel = Kernel { image: "/boot/k".into(), ..Kernel::default() };
        let (append, plugin) = (String::from("quiet"), None);
        let machine = Machine { kernel, append, cpus: 2, memory_mib: 64, accel: Accel::Tcg, plugin };
        let machine = |accel| Machine { accel, ..machine.clone() };
        let of = |accel| machine(accel).arguments().join(" ");
        assert!(of(Accel::Icount).contains("-accel tcg -icount shift=0,sleep=off -smp 2 -m 64"));
        assert!(!of(Accel::Tcg).contains("icount") && of(Accel::Kvm).contains("-accel kvm -cpu host"));
        assert!(of(Accel::Tcg).ends_with("-append console=ttyS0 loglevel=4 panic=-1 quiet"));
        let with = Machine { plugin: Some("/a,b.so".into()), ..machine(Accel::Icount) };
        let with = with.arguments().join(" ");
        assert!(with.contains("-plugin file=/a,,b.so,out=/proc/self/fd/6 -kernel"), "{with}");
        assert!(with.ends_with("panic=-1 norandmaps quiet"), "{with}");
    }
}
