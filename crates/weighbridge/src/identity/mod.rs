//! Which machine this is among others, by what an unprivileged process can read; and who started the session.
//!
//! `/etc/machine-id` is confidential and never leaves the machine: a keyed hash of it does (machine-id(5)).

mod class;
pub mod control_group;

use std::fs;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weighbridge_record::{Identity, Machine, Provenance, digest};

use crate::labels;

/// What names of machines are hashed for, so that another program's hash of the same id is another one. Chosen once, at random.
const APPLICATION: [u8; 16] =
    [0x5e, 0x1b, 0x0c, 0x63, 0x9a, 0x2f, 0x4d, 0x77, 0x8c, 0x41, 0xd2, 0x60, 0xb3, 0x95, 0x1e, 0xf8];
/// Digits of the name of a machine.
const DIGITS: usize = 16;

/// The files of the system below a root, which is another one in tests.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    fn of_system() -> Files {
        Files { root: "/".into() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file, where it has any.
    fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn dmi(&self, name: &str) -> Option<String> {
        self.text(&format!("sys/class/dmi/id/{name}"))
    }
}

/// The identity of this machine, which is described so.
pub fn of(machine: &Machine) -> Identity {
    let labels = labels::all();
    let found = identity(&Files::of_system(), machine, labels.get(labels::MACHINE).cloned());
    Identity { instance_type: labels.get(labels::INSTANCE_TYPE).cloned().or(found.instance_type), ..found }
}

/// The identity of a guest: it has the name of the machine that emulates it, and the class of all guests of this shape. Counts of instructions
/// do not depend on the machine.
pub fn of_guest(shape: &str, emulator: Option<String>) -> Identity {
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine = Machine { hostname, ..Machine::default() };
    let (name, from) = name(&Files::of_system(), &machine, labels::all().get(labels::MACHINE).cloned());
    let class = format!("guest {shape} {}", emulator.as_deref().unwrap_or_default());
    let hw_class = digest::short(class.as_bytes());
    Identity { machine: name, machine_from: from.into(), hw_class, emulator, ..Identity::default() }
}

fn identity(files: &Files, machine: &Machine, label: Option<String>) -> Identity {
    let (name, from) = name(files, machine, label);
    let cpu = class::Cpu::read(files);
    let vendor = files.dmi("sys_vendor");
    let product = files.dmi("product_name");
    let bios = [files.dmi("bios_vendor"), files.dmi("bios_version")];
    let bios: Vec<String> = bios.into_iter().flatten().collect();
    Identity {
        machine: name,
        machine_from: from.into(),
        hw_class: class::hash(files, machine, &cpu),
        booted: booted(files),
        // The one cloud whose product is the type. Google's is "Google Compute Engine" and Azure's "Virtual Machine" whatever the type is; there
        // only a label says it.
        instance_type: product.clone().filter(|_| vendor.as_deref() == Some("Amazon EC2")),
        cpu_vendor: cpu.vendor,
        cpu_family: cpu.family,
        cpu_model_number: cpu.model,
        cpu_stepping: cpu.stepping,
        dmi_vendor: vendor,
        dmi_product: product,
        dmi_board: files.dmi("board_name"),
        dmi_bios: (!bios.is_empty()).then(|| bios.join(" ")),
        cgroup_cpu_max: control_group::cpu_max(files),
        cgroup_memory_max: control_group::memory_max(files),
        kernel_build_id: fs::read(files.path("sys/kernel/notes")).ok().and_then(|notes| build_id(&notes)),
        emulator: None,
    }
}

/// The name of the machine, and what it was taken from.
fn name(files: &Files, machine: &Machine, label: Option<String>) -> (String, &'static str) {
    if let Some(label) = label {
        return (label, "label");
    }
    let id = files.text("etc/machine-id").and_then(|id| bytes(&id));
    if let Some(id) = id {
        return (hashed(&id, &[]), "machine-id");
    }
    // A serial number is readable for root alone; Amazon has the id of the instance in the tag.
    let serial = ["product_uuid", "product_serial", "board_asset_tag"].iter().find_map(|of| files.dmi(of));
    match serial.filter(|of| of.len() >= 8 && of.chars().any(|c| c.is_ascii_digit())) {
        Some(serial) => (hashed(serial.as_bytes(), b"dmi"), "dmi"),
        None => (machine.hostname.clone(), "hostname"),
    }
}

/// As systemd makes ids that are of one application (`sd_id128_get_machine_app_specific`): the secret is the key.
fn hashed(key: &[u8], what: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(&APPLICATION);
    mac.update(what);
    let mut name = digest::hex(&mac.finalize().into_bytes());
    name.truncate(DIGITS);
    name
}

/// The sixteen bytes of a machine id; nothing of one that is not set yet (`uninitialized`).
fn bytes(id: &str) -> Option<Vec<u8>> {
    let is_id = id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pairs = is_id.then(|| id.as_bytes().chunks(2))?;
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// When the kernel was booted, by the clock that there is.
fn booted(files: &Files) -> Option<String> {
    let stat = files.text("proc/stat")?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(jiff::Timestamp::from_second(seconds).ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The build id among the notes of a kernel: ELF notes, each with the lengths of name and content, a type, and both padded to four bytes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const OF_BUILD: u32 = 3;
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name_len, len, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let content_at = 12 + name_len.next_multiple_of(4);
        let (name, content) = (notes.get(12..12 + name_len)?, notes.get(content_at..content_at + len)?);
        if kind == OF_BUILD && name == b"GNU\0" {
            return Some(digest::hex(content));
        }
        notes = notes.get(content_at + len.next_multiple_of(4)..)?;
    }
}

/// Who started this session, by the variables of known schedulers.
pub fn provenance() -> Provenance {
    started_by(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn started_by(variable: impl Fn(&str) -> Option<String>) -> Provenance {
    let campaign = labels::all().get(labels::CAMPAIGN).cloned();
    let of = |scheduler: &str, job_id: Option<String>, restarts: Option<String>| Provenance {
        campaign: campaign.clone(),
        scheduler: Some(scheduler.into()),
        job_id,
        restarts: restarts.and_then(|count| count.parse().ok()),
        ..Provenance::default()
    };
    if let Some(job) = variable("SLURM_JOB_ID") {
        let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
        let job = array.map_or(job, |(array, task)| format!("{array}_{task}"));
        return of("slurm", Some(job), variable("SLURM_RESTART_COUNT"));
    }
    if variable("KUBERNETES_SERVICE_HOST").is_some() {
        // The name of a pod of an Indexed Job is that of the job with the index.
        return of("kubernetes", variable("HOSTNAME"), None);
    }
    match variable("PARALLEL_SEQ") {
        Some(sequence) => of("parallel", Some(sequence), None),
        None => Provenance { campaign, ..Provenance::default() },
    }
}

/// Says whether the clock of the machine can be right, for who keeps records by their day: a sentence where it cannot.
pub fn clock_is_wrong(now: &str, booted: Option<&str>) -> Option<String> {
    /// No earlier than this was there a program that writes records of this form.
    const WRITTEN: &str = "2026-01-01";
    /// Both are whole seconds, and a clock may be set while the machine runs.
    const TOLERATED_S: i64 = 60;
    let way_out = "the record is kept under that day; set the clock (`timedatectl`), and measure again";
    if now < WRITTEN {
        return Some(format!(
            "the clock of this machine says {now}, before this program was written: {way_out}"
        ));
    }
    let seconds = |text: &str| Some(text.parse::<jiff::Timestamp>().ok()?.as_second());
    let booted = booted.filter(|booted| seconds(booted) > seconds(now).map(|now| now + TOLERATED_S))?;
    Some(format!("the clock of this machine says {now}, before it was booted ({booted}): {way_out}"))
}

/// A part of a file name: what does not fit into one becomes a dash.
pub fn in_file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(64).collect();
    name.trim_start_matches('.').to_owned()
}

/// Is the machine known by something that containers and clones share, or change?
pub fn is_weak(identity: &Identity) -> bool {
    let is_container =
        [Path::new("/.dockerenv"), Path::new("/run/.containerenv")].iter().any(|of| of.exists())
            || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    match identity.machine_from.as_str() {
        "hostname" => true,
        "machine-id" => is_container,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
