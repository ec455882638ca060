//! A library in C through the functions of `clients/client.h`, from a shared object that is loaded while the program runs.
//!
//! # Safety
//! A file of the right name with the right number of its interface (`client_abi`) is taken to be what `clients/build.sh` makes of
//! the sources next to it: functions with the types declared here, pointers that are valid until the next call, texts that end in
//! a zero. It is never unloaded, because a library's threads may run in it as long as the process does.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

use libloading::Library;

use super::{Connected, Role};

/// The number of the interface, which `clients/client.h` has too.
const ABI: c_uint = 1;

/// A connection in C, of which nothing is known.
#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

/// The functions of `clients/client.h`.
struct Functions {
    version: unsafe extern "C" fn() -> *const c_char,
    open: unsafe extern "C" fn(*const c_char, c_int, *const c_char, *mut c_int) -> *mut Opaque,
    name: unsafe extern "C" fn(*const Opaque) -> *const c_char,
    send: unsafe extern "C" fn(*mut Opaque, *const u8, usize) -> c_int,
    receive: unsafe extern "C" fn(*mut Opaque, *mut *const u8, *mut usize) -> c_int,
    ask: unsafe extern "C" fn(*mut Opaque, *const c_char, *const c_char) -> c_int,
    error: unsafe extern "C" fn(*const Opaque) -> *const c_char,
    close: unsafe extern "C" fn(*mut Opaque),
}

/// Why a shared object is of no use.
enum Unusable {
    Unloadable(libloading::Error),
    /// It has the interface of this number.
    OtherAbi(c_uint),
}

impl From<libloading::Error> for Unusable {
    fn from(error: libloading::Error) -> Unusable {
        Unusable::Unloadable(error)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Unloadable(error) => write!(f, "it cannot be loaded: {error}"),
            Unusable::OtherAbi(abi) => write!(f, "its interface has the number {abi} in place of {ABI}"),
        }
    }
}

impl Functions {
    fn load(object: &Path) -> Result<Functions, Unusable> {
        // SAFETY: loading runs what the libraries run when they are loaded, which is theirs to keep sound; see the top of this file.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(object)? }));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of `client.h`; see the top of this file.
                *unsafe { library.get(concat!($name, "\0").as_bytes())? }
            };
        }
        let abi: unsafe extern "C" fn() -> c_uint = function!("client_abi");
        // SAFETY: the one function whose type never changes.
        let abi = unsafe { abi() };
        if abi != ABI {
            return Err(Unusable::OtherAbi(abi));
        }
        Ok(Functions {
            version: function!("client_version"),
            open: function!("client_open"),
            name: function!("client_name"),
            send: function!("client_send"),
            receive: function!("client_receive"),
            ask: function!("client_ask"),
            error: function!("client_error"),
            close: function!("client_close"),
        })
    }
}

pub struct Loaded {
    functions: Functions,
    client: NonNull<Opaque>,
}

impl Loaded {
    pub fn connect(object: &Path, address: &str, role: Role, partner: &str) -> io::Result<Loaded> {
        let functions = Functions::load(object).map_err(|why| {
            io::Error::other(format!(
                "{} is of no use ({why}); build it anew with crates/dbus/bench/clients/build.sh",
                object.display()
            ))
        })?;
        let (address, partner) = (CString::new(address)?, CString::new(partner)?);
        let mut result = 0;
        // SAFETY: texts that end in a zero, and a place for the result.
        let client =
            unsafe { (functions.open)(address.as_ptr(), role as c_int, partner.as_ptr(), &mut result) };
        let client = NonNull::new(client).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let loaded = Loaded { functions, client };
        loaded.check(result)?;
        Ok(loaded)
    }

    /// What a function of the library has returned.
    #[inline]
    fn check(&self, result: c_int) -> io::Result<()> {
        match result {
            0 => Ok(()),
            _ => Err(self.failure(result)),
        }
    }

    #[cold]
    fn failure(&self, result: c_int) -> io::Error {
        const CLOSED: c_int = 2;
        // SAFETY: the client is there, and its error is a text that ends in a zero and stays until the next call.
        let words = unsafe { CStr::from_ptr((self.functions.error)(self.client.as_ptr())) }.to_string_lossy();
        match (result, &words[..]) {
            // Not as a partner that is gone: nothing else has failed before.
            (CLOSED, "") => {
                io::Error::new(io::ErrorKind::ConnectionAborted, "the broker closed the connection")
            }
            (CLOSED, words) => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                format!("the broker closed the connection: {words}"),
            ),
            (_, words) => io::Error::other(words.to_owned()),
        }
    }
}

impl Connected for Loaded {
    fn unique_name(&self) -> io::Result<String> {
        // SAFETY: the client is there; the name belongs to it and ends in a zero.
        let name = unsafe {
            let name = (self.functions.name)(self.client.as_ptr());
            (!name.is_null()).then(|| CStr::from_ptr(name))
        };
        let name = name.ok_or_else(|| io::Error::other("the library has no name on the bus"))?;
        Ok(name.to_string_lossy().into_owned())
    }

    fn version(&self) -> String {
        // SAFETY: a text that ends in a zero and stays as long as the library.
        unsafe { CStr::from_ptr((self.functions.version)()) }.to_string_lossy().into_owned()
    }

    #[inline]
    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        // SAFETY: the client is there, and the bytes are those of the slice.
        let result = unsafe { (self.functions.send)(self.client.as_ptr(), payload.as_ptr(), payload.len()) };
        self.check(result)
    }

    #[inline]
    fn receive(&mut self) -> io::Result<&[u8]> {
        let (mut bytes, mut len) = (ptr::null(), 0);
        // SAFETY: the client is there, and so are the two places.
        let result = unsafe { (self.functions.receive)(self.client.as_ptr(), &mut bytes, &mut len) };
        self.check(result)?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: so many bytes lie there until the next call, which needs this connection mutably.
        Ok(unsafe { std::slice::from_raw_parts(bytes, len) })
    }

    #[inline]
    fn ask(&mut self, method: &CStr, argument: Option<&CStr>) -> io::Result<()> {
        let argument = argument.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the client is there; texts that end in a zero, the second one or none.
        let result = unsafe { (self.functions.ask)(self.client.as_ptr(), method.as_ptr(), argument) };
        self.check(result)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the client is there, and nothing uses it any more.
        unsafe { (self.functions.close)(self.client.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use causeway_testkit::has_program;

    use super::*;

    fn refusal(object: &Path) -> String {
        match Loaded::connect(object, "unix:path=/", Role::Caller, "") {
            Ok(_) => panic!("it was loaded"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_the_way_out() {
        let words = refusal(Path::new("/proc/self/maps"));
        assert!(words.contains("/proc/self/maps") && words.contains("build.sh"), "{words}");
    }

    #[test]
    fn a_library_of_another_interface_is_refused_with_both_numbers() {
        if !has_program("cc") {
            return;
        }
        let folder = std::env::temp_dir().join(format!("weighbridge-abi-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (source, object) = (folder.join("other.c"), folder.join("other.so"));
        std::fs::write(&source, "unsigned client_abi(void) { return 4711; }\n").unwrap();
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&object, &source]).status();
        let words = built.is_ok_and(|built| built.success()).then(|| refusal(&object));
        std::fs::remove_dir_all(&folder).unwrap();
        let words = words.expect("cc makes a shared object");
        let numbers = format!("the number 4711 in place of {ABI}");
        assert!(words.contains(&numbers) && words.contains("build.sh"), "{words}");
    }
}
