//! What qemu calls: the installation, each translation, each execution of a block, each call and return of the kernel.
//!
//! # Safety
//! qemu calls these functions as its interface says, with blocks and instructions that exist during the call. What is handed to qemu as data of a
//! callback is a number and never used as an address.
#![allow(unsafe_code, reason = "qemu finds functions by name and hands over pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::counts::{Block, Counts, is_kernel};
use crate::decode::{Kind, kind};
use crate::qemu::{self, Id, Instruction, TranslatedBlock};

/// Version of the interface, which qemu reads before it installs the plugin.
// SAFETY: qemu asks for this name, and no other object has it.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

struct State {
    counts: Counts,
    /// The call or return that is being executed, until its access to the stack is seen. qemu 7.2 also reports accesses of later instructions as if
    /// they were those of a call or return that ended its block.
    executes: Option<Kind>,
    /// The file for the counts; taken when they are written.
    out: Option<File>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Has a window ever begun? Until then, which is the whole boot, executions cost no lock.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called once, when qemu loads the plugin. Its only argument is `out=FILE`, a file that exists.
///
/// # Safety
/// `argv` has `argc` strings.
// SAFETY: qemu asks for this name, and no other function has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let argument = |index: usize| {
        // SAFETY: there are `argc` pointers, each to a string that ends with a zero.
        unsafe { CStr::from_ptr(*argv.add(index)) }.to_string_lossy().into_owned()
    };
    let arguments: Vec<String> = (0..usize::try_from(argc).unwrap_or(0)).map(argument).collect();
    let [argument] = &arguments[..] else { return refuse("takes one argument, out=FILE") };
    let Some(path) = argument.strip_prefix("out=") else { return refuse("takes one argument, out=FILE") };
    let out = match File::options().write(true).open(path) {
        Ok(out) => out,
        Err(error) => return refuse(&format!("cannot write to `{path}`: {error}")),
    };
    *state() = Some(State { counts: Counts::default(), executes: None, out: Some(out) });
    // SAFETY: `id` is that of this plugin, and the function stays loaded.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    0
}

/// Says why, and ends qemu.
fn refuse(why: &str) -> c_int {
    say(why);
    1
}

/// Writes where qemu writes its own messages. One that cannot be written is lost.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "weighbridge-guest-plugin {what}");
}

/// A number as the data of a callback.
fn data(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

extern "C" fn translated(_id: Id, block: *mut TranslatedBlock) {
    // SAFETY: the block exists during this call.
    let (address, count) =
        unsafe { (qemu::qemu_plugin_tb_vaddr(block), qemu::qemu_plugin_tb_n_insns(block)) };
    let number = match &mut *state() {
        Some(state) => state.counts.number(Block { address, instructions: count as u32 }),
        None => return,
    };
    // SAFETY: the block exists during this call, and the function stays loaded.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(
            block,
            executed,
            qemu::NO_REGISTERS,
            data(u64::from(number)),
        );
    }
    for index in 0..count {
        // SAFETY: the block exists during this call and has more than `index` instructions.
        let instruction = unsafe { qemu::qemu_plugin_tb_get_insn(block, index) };
        watch(instruction);
    }
}

/// Asks to be called where this instruction is executed, if it is one of those that count.
fn watch(instruction: *mut Instruction) {
    // SAFETY: the instruction belongs to a block that exists during the call from `translated`; its bytes are as many as qemu says.
    let (bytes, address) = unsafe {
        let start = qemu::qemu_plugin_insn_data(instruction).cast::<u8>();
        let bytes = std::slice::from_raw_parts(start, qemu::qemu_plugin_insn_size(instruction));
        (bytes, qemu::qemu_plugin_insn_vaddr(instruction))
    };
    // What is called where it is executed, and where it accesses the stack, with the address of a call.
    let (executed, accessed): (qemu::Executed, Option<(qemu::Accessed, u64)>) = match kind(bytes) {
        Kind::Call if is_kernel(address) => (calls, Some((called, address))),
        Kind::Return if is_kernel(address) => (returns, Some((returned, 0))),
        Kind::WindowBegins => (window_begins, None),
        Kind::WindowEnds => (window_ends, None),
        Kind::Finish => (finished, None),
        Kind::Call | Kind::Return | Kind::Other => return,
    };
    let (flags, both) = (qemu::NO_REGISTERS, qemu::READ_AND_WRITE);
    // SAFETY: as above, and the functions stay loaded.
    unsafe {
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, flags, data(0));
        if let Some((accessed, of)) = accessed {
            qemu::qemu_plugin_register_vcpu_mem_cb(instruction, accessed, flags, both, data(of));
        }
    }
}

/// Does this to the state, once a window has begun.
fn with_state(what: impl FnOnce(&mut State)) {
    if IS_STARTED.load(Ordering::Relaxed)
        && let Some(state) = &mut *state()
    {
        what(state);
    }
}

extern "C" fn calls(_vcpu: c_uint, _data: *mut c_void) {
    with_state(|state| state.executes = Some(Kind::Call));
}

extern "C" fn returns(_vcpu: c_uint, _data: *mut c_void) {
    with_state(|state| state.executes = Some(Kind::Return));
}

fn is_store(info: u32) -> bool {
    // SAFETY: `info` is what qemu has handed over.
    unsafe { qemu::qemu_plugin_mem_is_store(info) }
}

extern "C" fn executed(_vcpu: c_uint, data: *mut c_void) {
    with_state(|state| state.counts.execute(data.addr() as u32));
}

extern "C" fn called(_vcpu: c_uint, info: u32, at: u64, data: *mut c_void) {
    with_state(|state| {
        // A call through memory reads its target first.
        if state.executes == Some(Kind::Call) && is_store(info) {
            state.executes = None;
            state.counts.call(data.addr() as u64, at);
        }
    });
}

extern "C" fn returned(_vcpu: c_uint, info: u32, at: u64, _data: *mut c_void) {
    with_state(|state| {
        if state.executes == Some(Kind::Return) && !is_store(info) {
            state.executes = None;
            state.counts.ret(at);
        }
    });
}

extern "C" fn window_begins(_vcpu: c_uint, _data: *mut c_void) {
    // Relaxed: the thread that emulates the guest's CPU is the only one that reads it and writes it.
    IS_STARTED.store(true, Ordering::Relaxed);
    with_state(|state| state.counts.begin());
}

extern "C" fn window_ends(_vcpu: c_uint, _data: *mut c_void) {
    with_state(|state| state.counts.end());
}

extern "C" fn finished(_vcpu: c_uint, _data: *mut c_void) {
    let mut state = state();
    let Some(State { counts, out, .. }) = &mut *state else { return };
    let Some(out) = out.take() else { return };
    let mut out = BufWriter::new(out);
    if let Err(error) = counts.write(&mut out).and_then(|()| out.flush()) {
        say(&format!("cannot write what it counted: {error}"));
    }
}
