//! A rule of nftables, as a batch of messages.
//!
//! Source of the numbers: `include/uapi/linux/netfilter/nf_tables.h` and `nfnetlink.h` of the kernel. Numbers are in network byte order.
//! Table, chain and rule are made together or not at all.

use rustix::net::netlink::NETFILTER;

use super::netlink::{ACK, APPEND, CREATE, Message, request};
use super::{BENCHMARKS, Form, Verdict, padded};
use causeway_os::Result;

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const IPV4: u8 = 2;

const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const PREROUTING: u32 = 0;
const PRIORITY_RAW: i32 = -300;

const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;

const META_REGISTER: u16 = 1;
const META_KEY: u16 = 2;
const INPUT_NAME: u32 = 6;
const TRANSPORT: u32 = 16;
const PAYLOAD_REGISTER: u16 = 1;
const PAYLOAD_BASE: u16 = 2;
const PAYLOAD_OFFSET: u16 = 3;
const PAYLOAD_LENGTH: u16 = 4;
const NETWORK_HEADER: u32 = 1;
/// Of the address of the destination in the header of IPv4.
const DESTINATION_AT: u32 = 16;
const BITWISE_FROM: u16 = 1;
const BITWISE_TO: u16 = 2;
const BITWISE_LENGTH: u16 = 3;
const BITWISE_MASK: u16 = 4;
const BITWISE_XOR: u16 = 5;
const COMPARED_REGISTER: u16 = 1;
const COMPARISON: u16 = 2;
const COMPARED_DATA: u16 = 3;
const EQUAL: u32 = 0;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const IMMEDIATE_REGISTER: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
const REGISTER_1: u32 = 1;
const REGISTER_VERDICT: u32 = 0;

const TABLE: &str = "weighbridge";
const CHAIN: &str = "prerouting";

pub(super) fn set_rule(form: Form, name: &str, verdict: Verdict) -> Result<()> {
    let code = if verdict == Verdict::Drop { 0 } else { 1 };
    let table = message(NEW_TABLE, ACK | CREATE).with_text(TABLE_NAME, TABLE);
    let chain = message(NEW_CHAIN, ACK | CREATE)
        .with_text(CHAIN_TABLE, TABLE)
        .with_text(CHAIN_NAME, CHAIN)
        .with_nested(CHAIN_HOOK, &[], |hook| {
            hook.with_be32(HOOK_NUMBER, PREROUTING).with_be32(HOOK_PRIORITY, PRIORITY_RAW.cast_unsigned())
        })
        .with_text(CHAIN_TYPE, "filter");
    let rule = message(NEW_RULE, ACK | CREATE | APPEND)
        .with_text(RULE_TABLE, TABLE)
        .with_text(RULE_CHAIN, CHAIN)
        .with_nested(RULE_EXPRESSIONS, &[], |list| {
            let list = match form {
                Form::Interface => {
                    let list = equal(list, INPUT_NAME, &padded(name));
                    equal(list, TRANSPORT, &[libc::IPPROTO_UDP as u8])
                }
                Form::Destination => to_benchmarks(list),
            };
            let list = expression(list, "counter", |data| data);
            expression(list, "immediate", |data| {
                let data = data.with_be32(IMMEDIATE_REGISTER, REGISTER_VERDICT);
                data.with_nested(IMMEDIATE_DATA, &[], |data| {
                    data.with_nested(DATA_VERDICT, &[], |data| data.with_be32(VERDICT_CODE, code))
                })
            })
        });
    let batch = [batch(BATCH_BEGIN), table, chain, rule, batch(BATCH_END)];
    request(Some(NETFILTER), &batch, "set", || format!("a rule of nftables for the interface {name}"))
}

/// With `struct nfgenmsg`: family, version, resource.
fn message(kind: u16, flags: u16) -> Message {
    Message::new(kind, flags, &[IPV4, 0, 0, 0])
}

fn batch(kind: u16) -> Message {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    Message::new(kind, 0, &[0, 0, high, low])
}

fn expression(list: Message, name: &str, data: impl FnOnce(Message) -> Message) -> Message {
    list.with_nested(LIST_ELEMENT, &[], |element| {
        element.with_text(EXPRESSION_NAME, name).with_nested(EXPRESSION_DATA, &[], data)
    })
}

/// The rule goes on where this property of a packet is `value`.
fn equal(list: Message, key: u32, value: &[u8]) -> Message {
    let list =
        expression(list, "meta", |data| data.with_be32(META_KEY, key).with_be32(META_REGISTER, REGISTER_1));
    compared(list, value)
}

/// The rule goes on where the destination is one for benchmarks: loaded from the header of IPv4, masked, compared.
fn to_benchmarks(list: Message) -> Message {
    let (network, mask) = BENCHMARKS;
    let list = expression(list, "payload", |data| {
        let data = data.with_be32(PAYLOAD_REGISTER, REGISTER_1).with_be32(PAYLOAD_BASE, NETWORK_HEADER);
        data.with_be32(PAYLOAD_OFFSET, DESTINATION_AT).with_be32(PAYLOAD_LENGTH, 4)
    });
    let list = expression(list, "bitwise", |data| {
        let data = data.with_be32(BITWISE_FROM, REGISTER_1).with_be32(BITWISE_TO, REGISTER_1);
        let data = data.with_be32(BITWISE_LENGTH, 4);
        let data = data.with_nested(BITWISE_MASK, &[], |data| data.with(DATA_VALUE, &mask));
        data.with_nested(BITWISE_XOR, &[], |data| data.with(DATA_VALUE, &[0; 4]))
    });
    compared(list, &network)
}

/// The rule goes on where the register holds `value`.
fn compared(list: Message, value: &[u8]) -> Message {
    expression(list, "cmp", |data| {
        let data = data.with_be32(COMPARED_REGISTER, REGISTER_1).with_be32(COMPARISON, EQUAL);
        data.with_nested(COMPARED_DATA, &[], |data| data.with(DATA_VALUE, value))
    })
}
