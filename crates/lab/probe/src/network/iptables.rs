//! A rule of the table `raw` of iptables, by the socket options that replace a table as a whole.
//!
//! Source of the layout: `include/uapi/linux/netfilter_ipv4/ip_tables.h` and `netfilter/x_tables.h` of the kernel. A table is a list
//! of entries of variable length: the rule, the policy of each hook, and one that must not be reached.
//!
//! # Safety
//!
//! `getsockopt` and `setsockopt` are given buffers of the length that they are told, initialized, which live across the call. The one pointer
//! within them is to an array of as many counters as the kernel is told to write.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::{BENCHMARKS, Form, Verdict, padded};
use causeway_os::{Context, Result};

const GET_INFO: libc::c_int = 64;
const REPLACE: libc::c_int = 64;
const HOOKS: usize = 5;
const PREROUTING: usize = 0;
const OUTPUT: usize = 3;

const NAME_BYTES: usize = 32;
/// `struct ipt_getinfo`: name, valid hooks, entries and underflows of the hooks, number of entries, size.
const INFO_BYTES: usize = NAME_BYTES + 4 + 2 * 4 * HOOKS + 4 + 4;
const INFO_ENTRIES_AT: usize = NAME_BYTES + 4 + 2 * 4 * HOOKS;
/// `struct ipt_entry`.
const ENTRY_BYTES: usize = 112;
/// `struct xt_standard_target`, and that of an entry that must not be reached, as multiples of 8.
const STANDARD_BYTES: usize = 40;
const ERROR_BYTES: usize = 64;
/// `struct xt_counters`.
const COUNTER_BYTES: usize = 16;

pub(super) fn set_rule(form: Form, name: &str, verdict: Verdict) -> Result<()> {
    let replace = || -> io::Result<()> {
        let socket =
            socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))?;
        let mut counters = vec![0_u8; COUNTER_BYTES * entries(socket.as_fd())?];
        let table = table(form, name, verdict, &mut counters);
        let length = libc::socklen_t::try_from(table.len()).expect("the table is short");
        // SAFETY: `table` is `length` initialized bytes; the counters that it points to are as many as it says, and live.
        let code = unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, REPLACE, table.as_ptr().cast(), length)
        };
        if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    replace().context("set", || format!("a rule of iptables (table raw) for the interface {name}"))
}

/// The number of entries that the table has: the kernel hands over a counter of each, and refuses another number.
fn entries(socket: impl AsFd) -> io::Result<usize> {
    let mut info = [0_u8; INFO_BYTES];
    info[..3].copy_from_slice(b"raw");
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: `info` is `length` initialized bytes, and both live across the call.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            GET_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    let count = info[INFO_ENTRIES_AT..].first_chunk::<4>().expect("a number of entries");
    Ok(u32::from_ne_bytes(*count) as usize)
}

/// `struct ipt_replace` with its entries.
fn table(form: Form, name: &str, verdict: Verdict, counters: &mut [u8]) -> Vec<u8> {
    let policy = || entry(None, &standard(Verdict::Accept));
    let rule = entry(Some((form, name)), &standard(verdict));
    let (before_output, policy_bytes) = (rule.len() + policy().len(), policy().len());
    let list = [rule, policy(), policy(), entry(None, &target(ERROR_BYTES, "ERROR", b"ERROR"))];
    let (count, size) = (list.len(), list.iter().map(Vec::len).sum::<usize>());
    // Where a hook begins, and where its policy is.
    let mut begins = [0_usize; HOOKS];
    let mut policies = [0_usize; HOOKS];
    (begins[PREROUTING], policies[PREROUTING]) = (0, before_output - policy_bytes);
    (begins[OUTPUT], policies[OUTPUT]) = (before_output, before_output);

    let mut bytes = vec![0; NAME_BYTES];
    bytes[..3].copy_from_slice(b"raw");
    let mut number = |value: usize| {
        bytes.extend(u32::try_from(value).expect("the table is short").to_ne_bytes());
    };
    number(1 << PREROUTING | 1 << OUTPUT);
    number(count);
    number(size);
    begins.into_iter().chain(policies).for_each(&mut number);
    number(counters.len() / COUNTER_BYTES);
    bytes.extend((counters.as_mut_ptr().expose_provenance()).to_ne_bytes());
    bytes.extend(list.concat());
    bytes
}

/// `struct ipt_entry` with its target: for packets of a form, or for everything.
fn entry(rule: Option<(Form, &str)>, target: &[u8]) -> Vec<u8> {
    let input = rule.filter(|(form, _)| *form == Form::Interface).map(|(_, name)| name);
    let is_to_benchmarks = rule.is_some_and(|(form, _)| form == Form::Destination);
    let (network, network_mask) = if is_to_benchmarks { BENCHMARKS } else { ([0; 4], [0; 4]) };
    // Source, destination and their masks; names of interfaces and their masks; protocol; flags.
    let mut bytes = [[0; 4], network, [0; 4], network_mask].concat();
    let name = input.map_or([0; 16], padded);
    // The zero at the end is compared too; behind it nothing is.
    let mask_bytes = input.map_or(0, |name| name.len().min(15) + 1);
    bytes.extend(name);
    bytes.extend([0; 16]);
    bytes.extend((0..16).map(|at| if at < mask_bytes { 0xff } else { 0 }));
    bytes.extend([0; 16]);
    let protocol = if input.is_some() { libc::IPPROTO_UDP as u16 } else { 0 };
    bytes.extend(protocol.to_ne_bytes());
    bytes.extend([0; 2]);
    // What the kernel knows of it; where its target and the next entry begin; where it was called from.
    bytes.extend([0; 4]);
    bytes.extend(u16::try_from(ENTRY_BYTES).expect("short").to_ne_bytes());
    bytes.extend(u16::try_from(ENTRY_BYTES + target.len()).expect("short").to_ne_bytes());
    bytes.extend([0; 4]);
    // Counters of packets and bytes.
    bytes.extend([0; COUNTER_BYTES]);
    debug_assert_eq!(bytes.len(), ENTRY_BYTES);
    bytes.extend(target);
    bytes
}

/// `struct xt_entry_target`: its size and name, and what follows.
fn target(size: usize, name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..2].copy_from_slice(&u16::try_from(size).expect("short").to_ne_bytes());
    bytes[2..2 + name.len()].copy_from_slice(name.as_bytes());
    bytes[32..32 + data.len()].copy_from_slice(data);
    bytes
}

/// The target without a name is a verdict: the negative of what the kernel's hooks return, less one.
fn standard(verdict: Verdict) -> Vec<u8> {
    let code: i32 = if verdict == Verdict::Drop { -1 } else { -2 };
    target(STANDARD_BYTES, "", &code.to_ne_bytes())
}
