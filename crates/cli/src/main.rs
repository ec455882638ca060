//! Weighs what it costs to move messages, wake-ups and memory between Linux processes.

fn main() {}
