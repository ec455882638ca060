//! From what was typed to a machine, and from a machine to the lines that it measured.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use weighbridge_guest::boot::{Ended, Limits, boot, kvm_is_offered};
use weighbridge_guest::config;
use weighbridge_guest::counted::in_instructions;
use weighbridge_guest::functions::by_function;
use weighbridge_guest::job::{self, Job, Module};
use weighbridge_guest::kernel::Kernel;
use weighbridge_guest::qemu::{self, Accel, Machine};
use weighbridge_guest::symbols::Symbols;
use weighbridge_guest::{Error, modules, plugin, program};
use weighbridge_record::Line;

use crate::commands::measuring::now;
use crate::{Failure, args, guest_args, identity, labels, output, store};

/// A kernel with its command line, and everything that its machine is given.
#[derive(Debug)]
pub struct Guest<'a> {
    pub kernel: Kernel,
    /// What is added to its command line.
    pub append: String,
    /// The rest of the machine.
    pub args: &'a guest_args::Machine,
    /// The modules that are loaded, in this order.
    pub modules: Vec<PathBuf>,
    qemu: PathBuf,
    /// What counts instructions by function, where that is wanted.
    plugin: Option<PathBuf>,
}

/// What the user should know of a machine before it is booted.
pub fn warn_of(args: &guest_args::Machine) {
    if args.cpus > 1 && args.accel.contains(&Accel::Icount) {
        output::warn(&format!(
            "with counted instructions {} CPUs take turns in one thread of the emulator, and kernels have been seen to bring up no second one \
             within minutes; --cpus 1 counts, and --accel tcg runs several CPUs by the clock of the host",
            args.cpus
        ));
    }
}

/// What ran the instructions of the guests of this process.
static RAN: OnceLock<Accel> = OnceLock::new();

/// Makes lines of what a guest wrote.
pub type Read = fn(&[u8]) -> Result<Vec<Line>, Error>;

/// What a boot gave.
#[derive(Debug)]
pub struct Measured {
    pub lines: Vec<Line>,
    /// What ran its instructions.
    pub accel: Accel,
    /// From the start until our program ran in the guest, and to the record; in seconds.
    pub seconds: [f64; 2],
}

impl<'a> Guest<'a> {
    /// Looks everything up that a boot needs, so that what is missing is said before the first one.
    pub fn new(kernel: &str, append: &str, args: &'a guest_args::Machine) -> Result<Guest<'a>, Failure> {
        let found = || -> Result<Guest<'a>, Error> {
            let qemu = qemu::find()?;
            let packages = store::cache_folder().map_err(Error::new)?.join("kernels");
            let kernel = Kernel::find(kernel, &packages)?;
            let mut guest =
                Guest { kernel, append: append.into(), args, qemu, modules: Vec::new(), plugin: None };
            args.module.iter().try_for_each(|path| guest.add_modules_at(path)).map(|()| guest)
        };
        found().map_err(|error| super::failure(&error))
    }

    /// From now on boots count instructions by function: the record has a line of them behind those of its one case.
    pub fn count_functions(&mut self) -> Result<(), Error> {
        if self.args.cpus != 1 || *self.args.accel != [Accel::Icount] {
            return Err(Error::new(
                "instructions are counted by function on one CPU and with --accel icount, which are the defaults",
            ));
        }
        self.plugin = Some(plugin::find()?);
        Ok(())
    }

    /// Gives the guest a module file, or those of a folder: built for its kernel, each with a name of its own.
    pub fn add_modules_at(&mut self, path: &Path) -> Result<(), Error> {
        for module in modules::at(path)? {
            let release = self.kernel.release();
            if let Some(built) = modules::built_for(&module).filter(|built| built != release) {
                return Err(Error::new(format!(
                    "the module `{}` was built for {built}, and the kernel is {release}; build it against the headers of that kernel",
                    module.display()
                )));
            }
            let in_guest = job::module_path(&module);
            if let Some(other) = self.modules.iter().find(|other| job::module_path(other) == in_guest) {
                let (one, other) = (other.display(), module.display());
                return Err(Error::new(format!(
                    "`{one}` and `{other}` have one name, and a guest has a place for one of them"
                )));
            }
            self.modules.push(module);
        }
        Ok(())
    }

    /// Gives the guest a module of its own kernel, with what that needs; nothing where it is built in.
    pub fn add_module(&mut self, name: &str) -> Result<(), Error> {
        for path in modules::by_name(&self.kernel, &[name])? {
            if !self.modules.contains(&path) {
                self.modules.push(path);
            }
        }
        Ok(())
    }

    /// Boots once, and runs `command` of this program in the guest; `read` makes lines of what it wrote. Nothing where the user has
    /// had enough.
    pub fn boot(
        &self,
        command: &[String],
        read: Read,
        stop: BorrowedFd<'_>,
    ) -> Result<Option<Measured>, Failure> {
        let module = |path: &PathBuf| Module { path: job::module_path(path), ..Module::default() };
        let modules = self.modules.iter().map(module).collect();
        let job = Job { modules, command: command.to_vec(), functions: self.plugin.is_some() };
        let image = self.image(&job).map_err(|error| super::failure(&error))?;
        let choices = self.args.accel;
        // What failed once would fail again, and takes its time to.
        let known = RAN.get().filter(|accel| choices.contains(accel));
        let mut choices = known.map_or(choices, std::slice::from_ref).iter().copied().peekable();
        loop {
            let accel = choices.next().expect("there is always a choice");
            let measured = self.boot_with(accel, &image, read, stop);
            // A guest that was up, and then failed, would fail the same way elsewhere; but to try costs little.
            match (measured, choices.peek()) {
                (Ok(measured), _) => {
                    let _ = RAN.set(accel);
                    return Ok(measured);
                }
                (Err(why), None) => return Err(super::failure(&why)),
                (Err(why), Some(next)) => {
                    let (name, next) = (accel.name(), next.name());
                    output::warn(&format!("{name} does not work here ({why}); trying {next}"));
                }
            }
        }
    }

    /// The initramfs, which is made once for boots that differ in the kernel alone.
    fn image(&self, job: &Job) -> Result<Rc<Vec<u8>>, Error> {
        thread_local! {
            static LAST: RefCell<Option<(String, Rc<Vec<u8>>)>> = const { RefCell::new(None) };
        }
        let key = format!("{job:?} {:?}", self.modules);
        let known = LAST
            .with_borrow(|last| last.as_ref().filter(|(of, _)| *of == key).map(|(_, image)| image.clone()));
        if let Some(image) = known.filter(|_| self.modules.is_empty()) {
            return Ok(image);
        }
        let image = Rc::new(program::image(Path::new(super::super::THIS_PROGRAM), job, &self.modules)?);
        LAST.set(Some((key, image.clone())));
        Ok(image)
    }

    fn boot_with(
        &self,
        accel: Accel,
        image: &[u8],
        read: Read,
        stop: BorrowedFd<'_>,
    ) -> Result<Option<Measured>, Error> {
        if accel == Accel::Kvm {
            kvm_is_offered().map_err(Error::new)?;
        }
        let machine = Machine {
            kernel: self.kernel.clone(),
            append: self.append.clone(),
            cpus: self.args.cpus,
            memory_mib: self.args.memory_mib,
            accel,
            plugin: self.plugin.clone(),
        };
        let limits = Limits::new(accel, self.args.timeout);
        let ended = boot(&self.qemu, &machine, image, limits, stop)?;
        let Ended::Record { bytes, up, answer, counts } = ended else { return Ok(None) };
        let (record, symbols) = match &self.plugin {
            Some(_) => Symbols::split(&bytes).map(|(record, symbols)| (record, Some(symbols)))?,
            None => (&bytes[..], None),
        };
        let mut lines = read(record)?;
        if accel == Accel::Icount {
            lines = in_instructions(lines);
        }
        if let Some(symbols) = symbols {
            let functions = by_function(&lines, &counts, &symbols)?;
            let end = lines.iter().position(|line| matches!(line, Line::End(_))).unwrap_or(lines.len());
            lines.insert(end, Line::Functions(Box::new(functions)));
        }
        let mut measured = Measured { lines, accel, seconds: [up, answer].map(|time| time.as_secs_f64()) };
        self.complete(&mut measured);
        Ok(Some(measured))
    }

    /// The emulator and its version, which is asked for once.
    fn emulator(&self) -> Option<String> {
        static KNOWN: OnceLock<Option<String>> = OnceLock::new();
        KNOWN.get_or_init(|| qemu::version(&self.qemu)).clone()
    }

    /// What the guest cannot know of itself goes into the header of its record.
    fn complete(&self, measured: &mut Measured) {
        let boot_id = boot_id();
        took(&mut measured.lines, measured.seconds[1]);
        for line in &mut measured.lines {
            let Line::Header(header) = line else { continue };
            header.command = args::typed();
            header.started = now();
            let machine = &mut header.machine;
            machine.hostname = "guest".into();
            // What tests inside the kernel handed over says no more of its machine than the release.
            let ran_by = format!("emulated by {} ({})", qemu::NAME, measured.accel.name());
            for (text, known) in [
                (&mut machine.cpu_model, &ran_by[..]),
                (&mut machine.arch, "x86_64"),
                (&mut machine.virtualisation, &ran_by),
                (&mut machine.kernel_build, &self.kernel.version),
            ] {
                if text.is_empty() || text == "unknown" {
                    known.clone_into(text);
                }
            }
            // An emulated machine has no source of chance, so that the guest's own is the same in every boot.
            header.machine.boot_id = Some(boot_id.clone());
            let shape = format!("{} {} {}", measured.accel.name(), self.args.cpus, self.args.memory_mib);
            header.identity = Some(identity::of_guest(&shape, self.emulator()));
            header.labels = labels::all();
            header.provenance = identity::provenance();
            let settings = [
                ("guest.kernel", self.kernel.name.clone()),
                ("guest.append", self.append.clone()),
                ("guest.accel", measured.accel.name().into()),
                ("guest.cpus", self.args.cpus.to_string()),
                ("guest.memory-mib", self.args.memory_mib.to_string()),
            ];
            let facts = config::facts(&self.kernel);
            header.settings.extend(facts.into_iter().map(|(name, value)| (format!("guest.{name}"), value)));
            let typed = settings.into_iter().filter(|(_, value)| !value.is_empty());
            header.settings.extend(typed.map(|(name, value)| (name.to_owned(), value)));
        }
    }
}

/// A session takes as long as it does for the user: the clock of the guest may count instructions.
fn took(lines: &mut [Line], seconds: f64) {
    for line in lines {
        if let Line::End(end) = line {
            end.elapsed_s = seconds;
        }
    }
}

/// The lines of a record that the guest wrote.
pub fn record(bytes: &[u8]) -> Result<Vec<Line>, Error> {
    let reading = weighbridge_record::read(bytes)
        .map_err(|error| Error::new(format!("the record of the guest cannot be read: {error}")))?;
    match reading.problems.first() {
        Some(problem) => Err(Error::new(format!("the record of the guest is damaged: {problem}"))),
        None => Ok(reading.lines),
    }
}

fn boot_id() -> String {
    let mut bytes = [0; 16];
    // Without chance from the kernel the id is that of the process and the time, which suffices to tell boots apart.
    if rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()).is_err() {
        let nanos = jiff::Timestamp::now().as_nanosecond();
        bytes = (nanos ^ i128::from(std::process::id())).to_ne_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::End;

    use super::*;

    #[test]
    fn session_takes_the_time_of_the_user() {
        let mut lines = vec![Line::End(End { complete: true, elapsed_s: 38.8 })];
        took(&mut lines, 292.6);
        assert_eq!(lines, [Line::End(End { complete: true, elapsed_s: 292.6 })]);
    }
}
