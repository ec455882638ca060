//! A program with the libraries that it needs, as the first process of a guest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::elf::{FileHeader64, PT_INTERP, PT_LOAD};
use object::endian::LittleEndian;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::archive::Archive;
use crate::error::Error;
use crate::job::{self, Job};

/// Where the program is in the guest.
const PROGRAM: &str = "weighbridge";
/// Comes along where it stands beside the program, which starts it for cases of the bus.
const BROKER: &str = "causewayd";

/// The initramfs in which `program` finds `job` when it is started as `/init`, with the modules of the job.
///
/// # Errors
/// The program is none for x86-64 Linux, or one of its libraries, or a module, cannot be read.
pub fn image(program: &Path, job: &Job, modules: &[PathBuf]) -> Result<Vec<u8>, Error> {
    // The loader, which is asked for the libraries, would take this path for its own.
    let own = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let program = if program == Path::new("/proc/self/exe") { &own } else { program };
    let cannot = |why: String| Error::new(format!("cannot put `{}` into a guest: {why}", program.display()));
    let (stripped, mut files) = with_libraries(program).map_err(cannot)?;
    let path = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let broker = path.with_file_name(BROKER);
    let broker = broker
        .is_file()
        .then(|| with_libraries(&broker))
        .transpose()
        .map_err(|why| Error::new(format!("cannot put `{}` into a guest: {why}", broker.display())))?;
    let broker = broker.map(|(stripped, libraries)| {
        files.extend(libraries);
        stripped
    });
    files.sort();
    files.dedup();
    let pack = || -> io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        for folder in ["dev", "proc", "sys", "tmp", "run"] {
            archive.folder(folder)?;
        }
        // Before the kernel mounts anything, the first process gets its standard output from here.
        archive.device("dev/console", 5, 1)?;
        archive.file(PROGRAM, &stripped)?;
        if let Some(stripped) = &broker {
            archive.file(BROKER, stripped)?;
        }
        archive.link("init", &format!("/{PROGRAM}"))?;
        for file in &files {
            archive.file(below_root(file), &fs::read(file)?)?;
        }
        for module in modules {
            archive.file(below_root(Path::new(&job::module_path(module))), &fs::read(module)?)?;
        }
        archive.file(below_root(Path::new(job::PATH)), &serde_json::to_vec(job)?)?;
        archive.finish()
    };
    pack().map_err(|error| cannot(error.to_string()))
}

/// A program without its symbols, its libraries and its loader.
fn with_libraries(program: &Path) -> Result<(Vec<u8>, Vec<PathBuf>), String> {
    let elf = fs::read(program).map_err(|error| error.to_string())?;
    let parsed = Parsed::of(&elf)?;
    let loader = parsed.interpreter.as_deref();
    let mut files = loader.map_or(Ok(Vec::new()), |loader| libraries(loader, program))?;
    files.extend(parsed.interpreter);
    Ok((parsed.stripped, files))
}

fn below_root(path: &Path) -> &str {
    path.to_str().unwrap_or_default().trim_start_matches('/')
}

/// What an ELF program says of itself, and its bytes without what is only for debuggers.
struct Parsed {
    stripped: Vec<u8>,
    interpreter: Option<PathBuf>,
}

impl Parsed {
    fn of(elf: &[u8]) -> Result<Parsed, String> {
        let other = |_| "it is not a program for x86-64 Linux".to_owned();
        let header = FileHeader64::<LittleEndian>::parse(elf).map_err(other)?;
        let endian = header.endian().map_err(other)?;
        if header.e_machine(endian) != object::elf::EM_X86_64 {
            return Err("it is not a program for x86-64, the only machine that is emulated".into());
        }
        let segments = header.program_headers(endian, elf).map_err(other)?;
        let loaded = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
        let ends = loaded.map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)));
        let last = ends.max().unwrap_or(0);
        let mut stripped = elf.get(..last as usize).ok_or("it ends in the middle")?.to_vec();
        // Sections are for linkers and debuggers. Without them a file ends with its last segment, and the header must say so:
        // e_shoff, and e_shentsize to e_shstrndx, at their offsets in the 64-bit header of the System V ABI.
        stripped[0x28..0x30].fill(0);
        stripped[0x3a..0x40].fill(0);
        let interpreter = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP);
        let interpreter = interpreter
            .and_then(|segment| segment.data(endian, elf).ok())
            .and_then(|text| text.split(|byte| *byte == 0).next())
            .map(|path| PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        Ok(Parsed { stripped, interpreter })
    }
}

/// The shared libraries of a program, as its own loader finds them.
fn libraries(loader: &Path, program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("its loader `{}` cannot be started: {error}", loader.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("its loader says: {}", said.trim()));
    }
    listed(&String::from_utf8_lossy(&output.stdout))
}

/// `name => path (address)` or `path (address)`, a line each.
fn listed(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or_default();
        if path == "not found" {
            return Err(format!("a library is missing here: {line}"));
        }
        // The page that the kernel maps has a name without a slash.
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_the_loader_lists() {
        let text = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<String> =
            listed(text).unwrap().iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(listed("\tlibx.so => not found\n").unwrap_err().contains("libx.so => not found"));
    }

    #[test]
    fn a_program_without_its_sections_still_runs() {
        let own = std::env::current_exe().unwrap();
        let elf = fs::read(&own).unwrap();
        if cfg!(not(target_arch = "x86_64")) {
            assert!(Parsed::of(&elf).is_err());
            return;
        }
        let parsed = Parsed::of(&elf).unwrap();
        assert!(parsed.stripped.len() < elf.len(), "a test program has symbols");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::write(&copy, &parsed.stripped).unwrap();
        fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // The libraries too are those of the original.
        if let Some(loader) = &parsed.interpreter {
            let found = libraries(loader, &own).unwrap();
            assert_eq!(libraries(loader, &copy).unwrap(), found);
            assert!(found.iter().any(|path| path.to_string_lossy().contains("libc.")), "{found:?}");
            let image = image(Path::new("/proc/self/exe"), &Job::default(), &[]).unwrap();
            let name = found[0].to_string_lossy();
            let name = name.trim_start_matches('/').as_bytes();
            assert!(image.windows(name.len()).any(|bytes| bytes == name), "{found:?}");
        }
        // A broker beside it comes along.
        let has_broker = |program: &Path| {
            let image = image(program, &Job::default(), &[]).unwrap();
            image.windows(BROKER.len() + 1).any(|bytes| bytes == format!("{BROKER}\0").as_bytes())
        };
        assert!(!has_broker(&copy));
        fs::copy(&copy, folder.path().join(BROKER)).unwrap();
        assert!(has_broker(&copy));
        let output = Command::new(&copy).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("a_program_without_its_sections"));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(Parsed::of(b"#!/bin/sh\n").is_err());
        let why = image(Path::new("/nothing/here"), &Job::default(), &[]).unwrap_err().to_string();
        assert!(why.starts_with("cannot put `/nothing/here` into a guest: "), "{why}");
    }
}
