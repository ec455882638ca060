//! What of qemu is called: the part of its plugin interface, version 1, that this plugin uses. qemu resolves the names when it loads the
//! plugin.
//!
//! # Safety
//! The declarations must agree with those of qemu (`include/qemu/qemu-plugin.h` of its sources).
#![allow(unsafe_code, reason = "functions of qemu are declared here")]

use std::ffi::{c_int, c_uint, c_void};

/// A block that is being translated. It exists during the callback that gets it.
#[repr(C)]
pub struct TranslatedBlock {
    _opaque: [u8; 0],
}

/// One of its instructions.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// The number by which qemu knows the plugin.
pub type Id = u64;

/// A callback for each access to memory, reading or writing. Callbacks for one of them are mixed up in qemu 7.2.
pub const READ_AND_WRITE: c_int = 3;
/// A callback that reads and writes no registers of the guest.
pub const NO_REGISTERS: c_int = 0;

pub type Translated = extern "C" fn(id: Id, block: *mut TranslatedBlock);
pub type Executed = extern "C" fn(vcpu: c_uint, data: *mut c_void);
pub type Accessed = extern "C" fn(vcpu: c_uint, info: u32, address: u64, data: *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: Translated);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslatedBlock,
        callback: Executed,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: Executed,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: Accessed,
        flags: c_int,
        access: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_tb_n_insns(block: *const TranslatedBlock) -> usize;
    pub fn qemu_plugin_tb_vaddr(block: *const TranslatedBlock) -> u64;
    pub fn qemu_plugin_tb_get_insn(block: *const TranslatedBlock, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
}
