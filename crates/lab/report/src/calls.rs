//! System calls per operation in words.

use std::collections::BTreeSet;

use weighbridge_record::SystemCalls;

use crate::units::count;

/// Calls that are fewer than this for each operation are those of a beginning or an end.
const LEAST: f64 = 0.01;
/// Most calls that are named of a role, and most roles that differ.
const MOST: usize = 4;

/// Which calls each role makes for an operation: `client: read 1, write 1; server: read 1, write 1`.
pub fn by_role(calls: &SystemCalls) -> String {
    let of_role = |role: &weighbridge_record::RoleCalls| {
        let mut calls: Vec<(&String, &f64)> =
            role.calls.iter().filter(|(_, times)| **times >= LEAST).collect();
        calls.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let named = calls.iter().take(MOST).map(|(name, times)| format!("{name} {}", count(**times)));
        let more = calls.len().checked_sub(MOST).filter(|more| *more > 0).map(|more| format!("{more} more"));
        let named: Vec<String> = named.chain(more).collect();
        (!named.is_empty()).then(|| format!("{}: {}", role.role, named.join(", ")))
    };
    // Receivers of a fan-out are many and alike.
    let mut said: Vec<(String, usize)> = Vec::new();
    for role in calls.roles.iter().filter_map(of_role) {
        match said.iter_mut().find(|(known, _)| *known == role) {
            Some((_, times)) => *times += 1,
            None => said.push((role, 1)),
        }
    }
    let more = said.len().checked_sub(MOST).filter(|more| *more > 0).map(|more| format!("{more} more"));
    let words = said.into_iter().take(MOST).map(|(role, times)| match times {
        1 => role,
        times => format!("{times} × {role}"),
    });
    words.chain(more).collect::<Vec<_>>().join("; ")
}

/// Calls of a role that one side makes more often than the other, a line each.
pub fn changed(a: &SystemCalls, b: &SystemCalls) -> Vec<String> {
    let mut lines = Vec::new();
    for (of_a, of_b) in a.roles.iter().zip(&b.roles) {
        let names: BTreeSet<&String> = of_a.calls.keys().chain(of_b.calls.keys()).collect();
        for name in names {
            let [a, b] = [of_a, of_b].map(|of| of.calls.get(name).copied().unwrap_or(0.0));
            if (a - b).abs() > (0.02 * a.max(b)).max(LEAST) {
                lines.push(format!("{name} of the {} per operation: {} → {}", of_a.role, count(a), count(b)));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::RoleCalls;

    fn calls(roles: &[(&str, &[(&str, f64)])]) -> SystemCalls {
        let role = |(role, calls): &(&str, &[(&str, f64)])| RoleCalls {
            role: (*role).into(),
            ops: 100,
            calls: calls.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect(),
        };
        SystemCalls { per_op: 4.0, roles: roles.iter().map(role).collect() }
    }

    #[test]
    fn roles_that_call_the_same_are_said_once_and_strays_are_left_out() {
        let receiver: (&str, &[(&str, f64)]) = ("receiver", &[("recvmsg", 1.0)]);
        let of = calls(&[("sender", &[("close", 0.001), ("sendto", 2.0)]), receiver, receiver]);
        assert_eq!(by_role(&of), "sender: sendto 2; 2 × receiver: recvmsg 1");
        assert_eq!(by_role(&calls(&[("client", &[])])), "");
        let busy: &[(&str, f64)] = &[("a", 1.0), ("b", 2.0), ("c", 1.0), ("d", 1.0), ("e", 0.5), ("f", 0.5)];
        assert_eq!(by_role(&calls(&[("server", busy)])), "server: b 2, a 1, c 1, d 1, 2 more");
    }

    #[test]
    fn a_call_that_one_side_alone_makes_is_a_change() {
        let a = calls(&[("client", &[("read", 1.0), ("write", 1.0)])]);
        let b = calls(&[("client", &[("epoll_wait", 1.0), ("read", 1.01), ("write", 1.0)])]);
        assert_eq!(changed(&a, &b), ["epoll_wait of the client per operation: 0 → 1"]);
    }
}
