//! Which kernel is booted: its image, its release, its modules and its configuration.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::{console, debian};

/// A kernel that qemu can boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// As it was named.
    pub name: String,
    /// The bzImage.
    pub image: PathBuf,
    /// What the image says of itself: release, builder, number and time of the build.
    pub version: String,
    /// The folder `lib/modules/RELEASE` that belongs to it, where it was found.
    pub modules: Option<PathBuf>,
    /// The file with its configuration, where it was found; it may be compressed.
    pub config: Option<PathBuf>,
    /// The same kernel as an ELF file with symbols, where it was found.
    pub vmlinux: Option<PathBuf>,
}

/// How a kernel is named on the command line.
pub const FORMS: &str =
    "a kernel is a bzImage, a folder (a build tree or an unpacked package), deb:PACKAGE, or host";

impl Kernel {
    /// Finds the kernel that `name` means: a bzImage; a folder that is a build tree or an unpacked package; `deb:` and a package
    /// file or the name of a package whose file is in the current folder or in apt's cache, which is unpacked below `cache`;
    /// or `host`, the kernel that runs here.
    ///
    /// # Errors
    /// There is none, or it is not a kernel for this architecture; the sentence says what to do.
    pub fn find(name: &str, cache: &Path) -> Result<Kernel, Error> {
        if let Some(package) = name.strip_prefix("deb:") {
            return Kernel::in_folder(name, &debian::unpacked(package, cache)?);
        }
        if name == "host" {
            return Kernel::of_host();
        }
        let path = Path::new(name);
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Kernel::in_folder(name, path),
            Ok(_) => Kernel::of_image(name, path),
            Err(error) => Err(Error::new(format!("cannot read the kernel `{name}`: {error}; {FORMS}"))),
        }
    }

    /// The release, as `uname -r` says it.
    pub fn release(&self) -> &str {
        self.version.split_whitespace().next().unwrap_or_default()
    }

    /// The folder in which the kernel was built, where the image lies in it.
    pub fn build_tree(&self) -> Option<PathBuf> {
        let tree = self.image.ancestors().nth(4)?;
        self.image.ends_with("arch/x86/boot/bzImage").then(|| tree.to_owned())
    }

    fn of_host() -> Result<Kernel, Error> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let image = PathBuf::from(format!("/boot/vmlinuz-{release}"));
        if !image.exists() {
            return Err(Error::new(format!(
                "the kernel that runs here, {release}, has no image `{}`, as in containers and some virtual machines; name another: a bzImage, a folder or deb:PACKAGE",
                image.display()
            )));
        }
        let mut kernel = Kernel::of_image("host", &image)?;
        if kernel.config.is_none() {
            // The kernel that runs may know its own (CONFIG_IKCONFIG_PROC).
            kernel.config = Some(PathBuf::from("/proc/config.gz")).filter(|file| file.is_file());
        }
        Ok(kernel)
    }

    fn in_folder(name: &str, folder: &Path) -> Result<Kernel, Error> {
        let built = folder.join("arch/x86/boot/bzImage");
        let mut images = vec![built, folder.join("bzImage"), folder.join("vmlinuz")];
        images.extend(vmlinuz(&folder.join("boot")));
        images.extend(vmlinuz(folder));
        match images.into_iter().find(|image| image.is_file()) {
            Some(image) => Kernel::of_image(name, &image),
            None => Err(Error::new(format!(
                "there is no kernel in `{}`: neither arch/x86/boot/bzImage, as a build makes it, nor boot/vmlinuz-*, as a \
                 package has it",
                folder.display()
            ))),
        }
    }

    fn of_image(name: &str, image: &Path) -> Result<Kernel, Error> {
        let cannot = |why: String| Error::new(format!("`{}` cannot be booted: {why}", image.display()));
        let failed = |error: std::io::Error| cannot(error.to_string());
        let version = version(&mut File::open(image).map_err(failed)?).map_err(cannot)?;
        let image = fs::canonicalize(image).map_err(failed)?;
        let mut kernel = Kernel { name: name.into(), image, version, ..Kernel::default() };
        let release = kernel.release().to_owned();
        let above: Vec<&Path> = kernel.image.ancestors().skip(1).take(5).collect();
        let files = |names: &[String], is_it: fn(&Path) -> bool| {
            let all = above.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
            all.into_iter().find(|path| is_it(path))
        };
        let modules = files(&[format!("lib/modules/{release}")], Path::is_dir);
        let config = [format!("config-{release}"), format!("boot/config-{release}"), ".config".into()];
        // A build tree has it at its top, packages of symbols below usr/lib/debug, some distributions beside the image.
        let vmlinux = [
            "vmlinux".into(),
            format!("vmlinux-{release}"),
            format!("usr/lib/debug/boot/vmlinux-{release}"),
            format!("usr/lib/debug/lib/modules/{release}/vmlinux"),
        ];
        let [config, vmlinux] = [files(&config, Path::is_file), files(&vmlinux, Path::is_file)];
        (kernel.modules, kernel.config, kernel.vmlinux) = (modules, config, vmlinux);
        Ok(kernel)
    }
}

/// The images of a folder as packages name them, the greatest name first.
fn vmlinuz(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_image = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("vmlinuz-");
    let mut images: Vec<PathBuf> = entries.filter(is_image).map(|entry| entry.path()).collect();
    images.sort_by(|a, b| b.cmp(a));
    images
}

/// What a bzImage says of itself. The header and its offsets are those of the x86 boot protocol
/// (`Documentation/arch/x86/boot.rst` of the kernel): magic `HdrS` at 0x202, a pointer to the version at 0x20e, relative to 0x200.
///
/// # Errors
/// Why it is none, as the end of a sentence.
pub fn version(image: &mut (impl Read + Seek)) -> Result<String, String> {
    let mut head = [0; 0x250];
    let failed = |error: std::io::Error| error.to_string();
    let read = read_up_to(image, &mut head).map_err(failed)?;
    let head = &head[..read];
    if head.starts_with(b"\x7fELF") {
        return Err("it is an ELF file, such as vmlinux; take the bzImage of the same build".into());
    }
    if head.get(56..60) == Some(b"ARMd") {
        return Err("it is a kernel for arm64, and the machine is an x86-64".into());
    }
    if head.get(0x202..0x206) != Some(b"HdrS") {
        return Err("it is not a bzImage for x86".into());
    }
    let pointer = u16::from_le_bytes([head[0x20e], head[0x20f]]);
    if pointer == 0 {
        return Ok(String::new());
    }
    let mut text = [0; 256];
    image.seek(SeekFrom::Start(u64::from(pointer) + 0x200)).map_err(failed)?;
    let read = read_up_to(image, &mut text).map_err(failed)?;
    let text = text[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(console::printable(&String::from_utf8_lossy(text)))
}

fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match from.read(&mut into[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn image(version: &str) -> Vec<u8> {
        let mut image = vec![0; 0x800];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x300_u16.to_le_bytes());
        image[0x500..0x500 + version.len()].copy_from_slice(version.as_bytes());
        image
    }

    #[test]
    fn a_bz_image_tells_its_version_and_other_files_what_they_are() {
        let of = |bytes: Vec<u8>| version(&mut Cursor::new(bytes));
        assert_eq!(of(image("6.1.0 (a@b) #1 SMP")).unwrap(), "6.1.0 (a@b) #1 SMP");
        assert!(of(b"\x7fELF and so on".to_vec()).unwrap_err().contains("bzImage of the same build"));
        assert!(of(b"short".to_vec()).unwrap_err().contains("not a bzImage"));
        let mut arm = vec![0; 0x400];
        arm[56..60].copy_from_slice(b"ARMd");
        assert!(of(arm).unwrap_err().contains("arm64"));
    }

    #[test]
    fn a_folder_is_a_build_tree_or_an_unpacked_package() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let name = folder.path().display().to_string();
        let why = Kernel::find(&name, folder.path()).unwrap_err().to_string();
        assert!(why.contains("no kernel in") && why.contains("boot/vmlinuz-*"), "{why}");
        fs::create_dir_all(at("boot")).unwrap();
        fs::create_dir_all(at("lib/modules/6.1.0")).unwrap();
        fs::write(at("boot/vmlinuz-6.1.0"), image("6.1.0 (a@b)")).unwrap();
        fs::write(at("boot/config-6.1.0"), "CONFIG_X=y\n").unwrap();
        let package = Kernel::find(&name, folder.path()).unwrap();
        assert_eq!(package.release(), "6.1.0");
        assert!(package.modules.unwrap().ends_with("lib/modules/6.1.0"));
        assert!(package.config.unwrap().ends_with("boot/config-6.1.0"));
        assert_eq!(package.vmlinux, None);
        fs::create_dir_all(at("arch/x86/boot")).unwrap();
        fs::write(at("arch/x86/boot/bzImage"), image("6.2.0-rc1 (a@b)")).unwrap();
        fs::write(at(".config"), "CONFIG_X=y\n").unwrap();
        fs::write(at("vmlinux"), "").unwrap();
        let tree = Kernel::find(&name, folder.path()).unwrap();
        assert_eq!((tree.release(), &tree.modules), ("6.2.0-rc1", &None));
        assert!(tree.config.unwrap().ends_with(".config"));
        assert!(tree.vmlinux.unwrap().ends_with("vmlinux"));
    }

    #[test]
    fn what_is_no_kernel_is_refused_with_the_forms() {
        let why = Kernel::find("/nothing/here", Path::new("/nothing")).unwrap_err().to_string();
        assert!(why.contains("No such file") && why.contains("deb:PACKAGE"), "{why}");
    }
}
