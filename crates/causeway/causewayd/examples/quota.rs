//! What is left for others when receivers do not read: three ways to limit what waits. `docs/decisions/quota.md` says what came of it.
//!
//! Greedy connections of one user fill up one after the other, in units of a hundredth of the limit of a connection; then one that reads gets
//! a message. Nothing is measured: this is arithmetic, and the same everywhere.
#![allow(clippy::print_stdout, reason = "this is a command")]

use causeway_bus::Share;

/// What one connection may hold, and all of a user.
const LIMIT: u64 = 100;
const BUDGET: u64 = 4 * LIMIT;

/// What a connection that holds `own` may have, while its user holds `user`.
type Rule = fn(own: u64, user: u64) -> u64;

fn main() {
    let rules: [(&str, Rule); 4] = [
        ("a limit for each connection (dbus-daemon)", |_, _| LIMIT),
        // Of one user alone: half of the budget, for a user that is not there yet keeps the other half.
        ("an account for each user (dbus-broker)", |own, user| own + (BUDGET / 2).saturating_sub(user)),
        ("a third for each sending user (kdbus)", |own, user| own + (BUDGET / 3).saturating_sub(user)),
        ("a limit, and half of what is left (causewayd)", |own, user| {
            Share { limit: LIMIT, budget: BUDGET }.most(own, user)
        }),
    ];
    println!("| rule | greedy | each holds | all hold, of {BUDGET} | one that reads may have |");
    println!("|---|---|---|---|---|");
    for (name, rule) in rules {
        for greedy in [1, 5, 20] {
            let mut held = vec![0; greedy];
            for at in 0..greedy {
                while held[at] < rule(held[at], held.iter().sum()) {
                    held[at] += 1;
                }
            }
            let all: u64 = held.iter().sum();
            let shown: Vec<String> = held.iter().take(5).map(u64::to_string).collect();
            let more = if greedy > 5 { ", …" } else { "" };
            println!("| {name} | {greedy} | {}{more} | {all} | {} |", shown.join(", "), rule(0, all));
        }
    }
}
