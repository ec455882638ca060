//! Fuzzing of the C functions of groups and calls: the input is a text with a call on each line, a name and up to three numbers.
//!
//! # Safety
//! Every pointer is null or good for what the header says, and handles are used until they are freed.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};

use causeway_c::call::*;
use causeway_c::error::*;
use causeway_c::group::*;
use causeway_c::large::*;
use causeway_c::publisher::*;
use causeway_c::subscriber::*;
use causeway_testkit::{eventually_seen, fuzz, temp_dir};

/// Errors that are defects of the library, or of this test.
const DEFECTS: [c_int; 4] = [CW_E_PANIC, CW_E_POISONED, CW_E_UNKNOWN, CW_E_FORKED];
/// The longest message.
const BYTES_MAX: usize = 1 << 18;
const LIMITED: u32 = 4;
/// No call here waits longer.
const TIMES_NS: [i64; 4] = [0, 1, 1_000, 1_000_000];

const WORDS: &[&str] = &[
    "group_create",
    "group_serve_at",
    "group_join",
    "group_invite",
    "group_resize",
    "group_upgrade",
    "group_disconnect",
    "group_disconnect_publisher",
    "group_evict",
    "group_server",
    "group_free",
    "pub_new",
    "pub_publish",
    "pub_loan",
    "pub_commit",
    "pub_abandon",
    "pub_wait",
    "pub_facts",
    "pub_free",
    "sub_new",
    "sub_next",
    "sub_recv",
    "sub_wait",
    "sub_spin",
    "sub_spin_at_most",
    "sub_fd",
    "sub_prepare",
    "sub_disarm",
    "sub_view",
    "view_copy",
    "view_finish",
    "sub_facts",
    "sub_free",
    "large_pub_new",
    "large_pub_loan",
    "large_pub_commit",
    "large_pub_abandon",
    "large_pub_free",
    "large_sub_new",
    "large_sub_recv",
    "large_sub_prepare",
    "large_sub_free",
    "payload_data",
    "payload_copy",
    "payload_free",
    "call_serve",
    "server_clients",
    "server_free",
    "client_connect",
    "client_call",
    "client_begin",
    "client_wait",
    "client_poll",
    "client_cancel",
    "client_free",
    " 0",
    " 1",
    " 64",
    " 4096",
    "\n",
];

/// Structures of a caller of a later version have more bytes.
#[repr(C)]
struct Longer<T>(T, u64);

struct Handles {
    groups: [*mut cw_group; 2],
    publishers: [*mut cw_pub; 2],
    subscribers: [*mut cw_sub; 2],
    large_publisher: *mut cw_large_pub,
    large_subscriber: *mut cw_large_sub,
    payloads: [*mut cw_payload; 2],
    server: *mut cw_server,
    client: *mut cw_client,
    /// Where loans are written, and how long they are.
    loans: [(*mut c_void, usize); 3],
    path: CString,
    calls_path: CString,
    begun: u64,
}

/// Runs a function that writes an error. Its number is that of the error, which says what happened.
fn checked(call: impl FnOnce(*mut *mut cw_error) -> c_int) -> c_int {
    let mut error = null_mut();
    let code = call(&mut error);
    assert!(!DEFECTS.contains(&code), "{code}: {}", text_of(error));
    assert_eq!(code <= CW_E_NULL, !error.is_null(), "code {code}");
    if !error.is_null() {
        // SAFETY: it was written, and is freed once.
        assert_eq!(unsafe { cw_error_code(error) }, code);
        assert!(!text_of(error).is_empty(), "code {code}");
        // SAFETY: as above.
        unsafe { cw_error_free(error) };
    }
    code
}

fn text_of(error: *const cw_error) -> String {
    if error.is_null() {
        return String::new();
    }
    // SAFETY: the text lives as long as the error.
    unsafe { std::ffi::CStr::from_ptr(cw_error_text(error)) }.to_str().unwrap().to_owned()
}

/// The content of each message of this length.
fn payload(bytes: usize) -> Vec<u8> {
    vec![bytes as u8; bytes]
}

/// # Safety
/// `data` is good for so many bytes.
unsafe fn check_payload(data: *const c_void, bytes: u64) {
    // An empty message may have no address.
    let data = if bytes == 0 {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes as usize) }
    };
    assert!(
        data.iter().all(|byte| *byte == bytes as u8),
        "a message of {bytes} bytes has others than it was sent with"
    );
}

unsafe extern "C-unwind" fn echo(
    _user: *mut c_void,
    request: *const cw_request,
    responder: *mut cw_responder,
) {
    // SAFETY: the library's request and responder.
    unsafe {
        let cw_request { data, bytes, .. } = *request;
        cw_reply(responder, data, bytes as usize, null(), 0, null_mut());
        cw_responder_free(responder);
    }
}

impl Handles {
    fn new(folder: &std::path::Path) -> Handles {
        let path = |name: &str| CString::new(folder.join(name).to_str().unwrap()).unwrap();
        Handles {
            groups: [null_mut(); 2],
            publishers: [null_mut(); 2],
            subscribers: [null_mut(); 2],
            large_publisher: null_mut(),
            large_subscriber: null_mut(),
            payloads: [null_mut(); 2],
            server: null_mut(),
            client: null_mut(),
            loans: [(null_mut(), 0); 3],
            path: path("group"),
            calls_path: path("calls"),
            begun: 0,
        }
    }

    fn write_loan(&mut self, loan: usize) {
        let (data, bytes) = std::mem::replace(&mut self.loans[loan], (null_mut(), 0));
        if !data.is_null() {
            // SAFETY: the loan is open, and has so many bytes.
            unsafe { data.cast::<u8>().copy_from_nonoverlapping(payload(bytes).as_ptr(), bytes) };
        }
    }

    fn options_of_subscriber([policy, value, flags]: [u64; 3]) -> cw_sub_options {
        cw_sub_options {
            policy: policy as u32,
            flags: flags as u32 | LIMITED,
            policy_value: value,
            timeout_ns: 1_000,
            topics: null(),
            topic_count: 0,
        }
    }

    /// Makes the call that a line describes; `None` for other lines.
    fn call(&mut self, line: &str) -> Option<c_int> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let numbers: [u64; 3] =
            std::array::from_fn(|_| words.next().and_then(|word| word.parse().ok()).unwrap_or(0));
        let [first, second, third] = numbers;
        let slot = (first % 2) as usize;
        let bytes = (second as usize).min(BYTES_MAX);
        let time = TIMES_NS[(third % 4) as usize];
        let Handles { large_publisher, large_subscriber, server, client, .. } = *self;
        let (group, publisher, subscriber, held) =
            (self.groups[slot], self.publishers[slot], self.subscribers[slot], self.payloads[slot]);
        let (mut word, mut number, mut size, mut data) = (0_u32, 0_u64, 0_usize, null_mut::<c_void>());
        let mut fd: c_int = -1;
        // SAFETY: see the text of this file.
        Some(unsafe {
            match name {
                "group_create" => {
                    cw_group_free(std::mem::replace(&mut self.groups[slot], null_mut()));
                    let mut options: Longer<cw_group_options> = std::mem::zeroed();
                    options.0.capacity_bytes = second.min(1 << 20);
                    options.0.flags = third as u32;
                    options.0.most_patient = (third >> 32) as u32;
                    let bytes = size_of::<cw_group_options>() + (first as usize / 2).min(8);
                    checked(|e| {
                        cw_group_create(
                            c"fuzz".as_ptr(),
                            &raw const options.0,
                            bytes,
                            &mut self.groups[slot],
                            e,
                        )
                    })
                }
                "group_serve_at" => checked(|e| cw_group_serve_at(group, self.path.as_ptr(), e)),
                "group_join" => {
                    cw_group_free(std::mem::replace(&mut self.groups[slot], null_mut()));
                    checked(|e| cw_group_join(self.path.as_ptr(), &mut self.groups[slot], e))
                }
                "group_invite" => {
                    let code = checked(|e| cw_group_invite(group, &mut fd, e));
                    if code == CW_OK {
                        let other = 1 - slot;
                        cw_group_free(std::mem::replace(&mut self.groups[other], null_mut()));
                        if checked(|e| cw_group_join_socket(fd, &mut self.groups[other], e)) != CW_OK {
                            drop(OwnedFd::from_raw_fd(fd));
                        }
                    }
                    code
                }
                "group_resize" => checked(|e| cw_group_resize(group, second.min(1 << 20), e)),
                "group_upgrade" => checked(|e| cw_group_upgrade(group, &mut word, e)),
                "group_disconnect" => checked(|e| cw_group_disconnect(group, second as u32, e)),
                "group_disconnect_publisher" => {
                    checked(|e| cw_group_disconnect_publisher(group, second as u32, e))
                }
                "group_evict" => checked(|e| cw_group_evict(group, second as u32, e)),
                "group_server" => {
                    let mut peer: Longer<cw_peer> = std::mem::zeroed();
                    let bytes = bytes.min(size_of::<Longer<cw_peer>>());
                    checked(|e| cw_group_server(group, &raw mut peer.0, bytes, e))
                }
                "group_free" => {
                    cw_group_free(std::mem::replace(&mut self.groups[slot], null_mut()));
                    CW_OK
                }
                "pub_new" => {
                    cw_pub_free(std::mem::replace(&mut self.publishers[slot], null_mut()));
                    self.loans[slot] = (null_mut(), 0);
                    checked(|e| cw_pub_new(self.groups[(second % 2) as usize], &mut self.publishers[slot], e))
                }
                "pub_publish" => {
                    let data = payload(bytes);
                    checked(|e| {
                        cw_pub_publish(publisher, word, data.as_ptr().cast(), bytes, time, &mut number, e)
                    })
                }
                "pub_loan" => {
                    let code = checked(|e| cw_pub_loan(publisher, bytes, time, &mut data, e));
                    if code == CW_OK {
                        self.loans[slot] = (data, bytes);
                    }
                    code
                }
                "pub_commit" => {
                    self.write_loan(slot);
                    checked(|e| cw_pub_commit(publisher, second as u32, null_mut(), e))
                }
                "pub_abandon" => {
                    self.loans[slot] = (null_mut(), 0);
                    checked(|e| cw_pub_abandon(publisher, e))
                }
                "pub_wait" => checked(|e| cw_pub_wait_for_subscribers(publisher, second as u32, time, e)),
                "pub_facts" => {
                    checked(|e| cw_pub_id(publisher, &mut word, e));
                    checked(|e| cw_pub_server_is_gone(publisher, &mut word, e));
                    checked(|e| cw_pub_payload_bytes_max(publisher, &mut size, e))
                }
                "pub_free" => {
                    self.loans[slot] = (null_mut(), 0);
                    cw_pub_free(std::mem::replace(&mut self.publishers[slot], null_mut()));
                    CW_OK
                }
                "sub_new" => {
                    cw_sub_free(std::mem::replace(&mut self.subscribers[slot], null_mut()));
                    let options = Handles::options_of_subscriber([second % 8, third, third >> 32]);
                    let bytes = size_of::<cw_sub_options>();
                    let group = self.groups[(first / 2 % 2) as usize];
                    checked(|e| cw_sub_new(group, &raw const options, bytes, &mut self.subscribers[slot], e))
                }
                "sub_next" | "sub_recv" | "sub_view" => {
                    let mut message: Longer<cw_message> = std::mem::zeroed();
                    let bytes = size_of::<cw_message>() + bytes.min(8);
                    let message = &raw mut message.0;
                    let code = checked(|e| match name {
                        "sub_next" => cw_sub_next(subscriber, message, bytes, e),
                        "sub_recv" => cw_sub_recv(subscriber, time, message, bytes, e),
                        _ => cw_sub_view(subscriber, message, bytes, e),
                    });
                    if code == CW_OK && name != "sub_view" {
                        check_payload((*message).data, (*message).bytes);
                    }
                    code
                }
                "sub_wait" => checked(|e| cw_sub_wait(subscriber, time, e)),
                "sub_spin" => checked(|e| cw_sub_spin(subscriber, time, e)),
                "sub_spin_at_most" => checked(|e| cw_sub_spin_at_most(subscriber, second.min(1_000), e)),
                "sub_fd" => checked(|e| cw_sub_fd(subscriber, &mut fd, e)),
                "sub_prepare" => checked(|e| cw_sub_prepare(subscriber, e)),
                "sub_disarm" => checked(|e| cw_sub_disarm(subscriber, e)),
                "view_copy" => {
                    let mut into = vec![0; bytes];
                    let code =
                        checked(|e| cw_view_copy(subscriber, into.as_mut_ptr().cast(), bytes, &mut size, e));
                    assert!(size <= bytes, "{size} bytes were copied into {bytes}");
                    code
                }
                "view_finish" => checked(|e| cw_view_finish(subscriber, e)),
                "sub_facts" => {
                    let mut health: Longer<cw_health> = std::mem::zeroed();
                    let bytes = bytes.min(size_of::<Longer<cw_health>>());
                    checked(|e| cw_sub_id(subscriber, &mut word, e));
                    checked(|e| cw_sub_lost(subscriber, &mut number, e));
                    checked(|e| cw_sub_health(subscriber, &raw mut health.0, bytes, e))
                }
                "sub_free" => {
                    cw_sub_free(std::mem::replace(&mut self.subscribers[slot], null_mut()));
                    CW_OK
                }
                "large_pub_new" => {
                    cw_large_pub_free(std::mem::replace(&mut self.large_publisher, null_mut()));
                    self.loans[2] = (null_mut(), 0);
                    let options = cw_pool_options {
                        payload_bytes_max: second.min(1 << 16),
                        files: third as u32,
                        kind: (first / 2) as u32,
                    };
                    let bytes = size_of::<cw_pool_options>();
                    checked(|e| {
                        cw_large_pub_new(group, &raw const options, bytes, &mut self.large_publisher, e)
                    })
                }
                "large_pub_loan" => {
                    let code = checked(|e| cw_large_pub_loan(large_publisher, bytes, time, &mut data, e));
                    if code == CW_OK {
                        self.loans[2] = (data, bytes);
                    }
                    code
                }
                "large_pub_commit" => {
                    let loan = self.loans[2];
                    self.write_loan(2);
                    let code = checked(|e| cw_large_pub_commit(large_publisher, time, null_mut(), e));
                    if [CW_FULL, CW_TIMED_OUT].contains(&code) {
                        self.loans[2] = loan;
                    }
                    code
                }
                "large_pub_abandon" => {
                    self.loans[2] = (null_mut(), 0);
                    checked(|e| cw_large_pub_abandon(large_publisher, e))
                }
                "large_pub_free" => {
                    self.loans[2] = (null_mut(), 0);
                    cw_large_pub_free(std::mem::replace(&mut self.large_publisher, null_mut()));
                    CW_OK
                }
                "large_sub_new" => {
                    cw_large_sub_free(std::mem::replace(&mut self.large_subscriber, null_mut()));
                    let options = Handles::options_of_subscriber([second % 8, third, 0]);
                    let bytes = size_of::<cw_sub_options>();
                    checked(|e| {
                        cw_large_sub_new(group, &raw const options, bytes, &mut self.large_subscriber, e)
                    })
                }
                "large_sub_recv" => {
                    cw_payload_free(std::mem::replace(&mut self.payloads[slot], null_mut()));
                    let mut message: cw_message = std::mem::zeroed();
                    let (message, bytes) = (&raw mut message, size_of::<cw_message>());
                    checked(|e| {
                        cw_large_sub_recv(large_subscriber, time, &mut self.payloads[slot], message, bytes, e)
                    })
                }
                "large_sub_prepare" => checked(|e| cw_large_sub_prepare(large_subscriber, e)),
                "large_sub_free" => {
                    cw_large_sub_free(std::mem::replace(&mut self.large_subscriber, null_mut()));
                    CW_OK
                }
                "payload_data" => {
                    let mut data = null();
                    let code = checked(|e| cw_payload_data(held, &mut data, &mut size, e));
                    if code == CW_OK {
                        check_payload(data, size as u64);
                    }
                    code
                }
                "payload_copy" => {
                    let mut into = vec![0; bytes];
                    let code =
                        checked(|e| cw_payload_copy(held, into.as_mut_ptr().cast(), bytes, &mut size, e));
                    assert!(size <= bytes, "{size} bytes were copied into {bytes}");
                    code
                }
                "payload_free" => {
                    cw_payload_free(std::mem::replace(&mut self.payloads[slot], null_mut()));
                    CW_OK
                }
                "call_serve" => {
                    cw_server_free(std::mem::replace(&mut self.server, null_mut()));
                    let mut options: cw_serve_options = std::mem::zeroed();
                    options.capacity_bytes = second.min(1 << 20);
                    options.flags = third as u32;
                    options.patience_ns = 1_000;
                    let bytes = size_of::<cw_serve_options>();
                    let path = self.calls_path.as_ptr();
                    checked(|e| {
                        cw_call_serve(
                            path,
                            &raw const options,
                            bytes,
                            Some(echo),
                            null_mut(),
                            &mut self.server,
                            e,
                        )
                    })
                }
                "server_clients" => checked(|e| cw_server_clients(server, &mut size, e)),
                "server_free" => {
                    cw_server_free(std::mem::replace(&mut self.server, null_mut()));
                    CW_OK
                }
                "client_connect" => {
                    cw_client_free(std::mem::replace(&mut self.client, null_mut()));
                    checked(|e| cw_client_connect(self.calls_path.as_ptr(), &mut self.client, e))
                }
                "client_call" | "client_wait" => {
                    let (mut reply, request) = (std::mem::zeroed::<cw_request>(), payload(bytes));
                    let (reply, reply_bytes) = (&raw mut reply, size_of::<cw_request>());
                    let code = checked(|e| match name {
                        "client_call" => cw_client_call(
                            client,
                            request.as_ptr().cast(),
                            bytes,
                            time,
                            reply,
                            reply_bytes,
                            e,
                        ),
                        _ => cw_client_wait(
                            client,
                            if first == 0 { self.begun } else { second },
                            reply,
                            reply_bytes,
                            e,
                        ),
                    });
                    if code == CW_OK {
                        check_payload((*reply).data, (*reply).bytes);
                    }
                    code
                }
                "client_begin" => {
                    let (request, fds) = (payload(bytes), [0_i32, -1, i32::MAX]);
                    let (fds, count) = (fds.as_ptr(), (first % 4) as usize);
                    checked(|e| {
                        cw_client_begin(
                            client,
                            request.as_ptr().cast(),
                            bytes,
                            fds,
                            count,
                            time,
                            &mut self.begun,
                            e,
                        )
                    })
                }
                "client_poll" => {
                    let mut calls = [0; 4];
                    checked(|e| cw_client_poll(client, calls.as_mut_ptr(), bytes.min(4), &mut size, e))
                }
                "client_cancel" => {
                    checked(|e| cw_client_cancel(client, if first == 0 { self.begun } else { second }, e))
                }
                "client_free" => {
                    cw_client_free(std::mem::replace(&mut self.client, null_mut()));
                    CW_OK
                }
                _ => return None,
            }
        })
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let Handles { groups, publishers, subscribers, payloads, .. } = self;
        // SAFETY: each is null or was never freed.
        unsafe {
            groups.iter().for_each(|group| cw_group_free(*group));
            publishers.iter().for_each(|publisher| cw_pub_free(*publisher));
            subscribers.iter().for_each(|subscriber| cw_sub_free(*subscriber));
            cw_large_pub_free(self.large_publisher);
            cw_large_sub_free(self.large_subscriber);
            payloads.iter().for_each(|payload| cw_payload_free(*payload));
            cw_client_free(self.client);
            cw_server_free(self.server);
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn sequence_of_calls_ends_each_with_a_documented_code_and_leaves_nothing() {
    let folder = temp_dir("sequences");
    // The first client starts a thread that watches the servers of all clients of the process, and stays.
    let mut handles = Handles::new(folder.path());
    for line in ["call_serve 0 0 0", "client_connect"] {
        assert_eq!(handles.call(line), Some(CW_OK), "{line}");
    }
    drop(handles);
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/calls"), WORDS, |input| {
        let before = descriptors();
        let mut handles = Handles::new(folder.path());
        let lines = str::from_utf8(input).unwrap_or_default().lines();
        let codes = lines.filter_map(|line| {
            handles.call(line).map(|code| (line.split(' ').next().map(String::from), code))
        });
        let codes: std::collections::BTreeSet<_> = codes.take(200).collect();
        drop(handles);
        eventually_seen("descriptors stay", descriptors, |count| *count <= before);
        codes
    });
}
