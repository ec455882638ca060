//! `weighbridge guest doctor`: what guests need, and what of it is missing here.

use std::path::Path;
use std::process::Command;

use weighbridge_guest::boot::kvm_is_offered;
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::{plugin, qemu};

use crate::{Exit, Failure, output};

/// One thing that guests need: what it is, and whether it is there or what brings it.
struct Need {
    what: &'static str,
    found: Result<String, String>,
    /// Can nothing be done without it?
    is_needed: bool,
}

/// Lists it; the exit code is 2 where no guest can be booted.
pub fn doctor() -> Result<Exit, Failure> {
    let needs = needs();
    for Need { what, found, is_needed } in &needs {
        let (sign, text) = match found {
            Ok(found) => ("ok", found),
            Err(why) if *is_needed => ("missing", why),
            Err(why) => ("without", why),
        };
        output::print(format!("{sign:<8} {what:<16} {text}\n"))?;
    }
    let is_ready = needs.iter().all(|need| need.found.is_ok() || !need.is_needed);
    Ok(if is_ready { Exit::Fine } else { Exit::Failed })
}

fn needs() -> Vec<Need> {
    let need = |what, is_needed, found| Need { what, found, is_needed };
    let emulated = match std::env::consts::ARCH {
        "x86_64" => Ok("this program is one for x86-64, the machine that is emulated".into()),
        other => Err(format!("this program is for {other}, and only x86-64 is emulated")),
    };
    let kernel = Kernel::find("host", Path::new("/")).map(|kernel| {
        let modules = if kernel.modules.is_some() { "with its modules" } else { "without its modules" };
        format!("{} {modules}", kernel.image.display())
    });
    let why =
        |error: weighbridge_guest::Error| format!("{error}; `apt-get download` brings a kernel's package");
    let plugin = plugin::find()
        .map(|plugin| format!("counts by function: {}", plugin.display()))
        .map_err(|error| error.to_string());
    let dpkg = starts("dpkg-deb", "dpkg").map(|version| format!("for deb:PACKAGE: {version}"));
    let headers = format!("/lib/modules/{}/build", rustix::system::uname().release().to_string_lossy());
    let headers = Some(headers.clone()).filter(|folder| Path::new(folder).is_dir()).ok_or_else(|| {
        format!(
            "no {headers}; to build a module for a kernel, install its headers (linux-headers-amd64) and make and gcc"
        )
    });
    let kvm = kvm_is_offered().map(|()| "/dev/kvm can be opened; --accel auto tries whether it works".into());
    vec![
        need("architecture", true, emulated),
        need("emulator", true, emulator()),
        need("plugin", false, plugin),
        need("host's kernel", false, kernel.map_err(why)),
        need("dpkg-deb", false, dpkg),
        need("kernel headers", false, headers),
        need("KVM", false, kvm),
    ]
}

fn emulator() -> Result<String, String> {
    let path = qemu::find().map_err(|error| error.to_string())?;
    starts(&path.display().to_string(), "qemu-system-x86")
}

/// The first line of what a program says of its version.
fn starts(program: &str, package: &str) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output().map_err(|error| {
        format!("{program} cannot be started: {error}; `apt-get install {package}` brings it")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
