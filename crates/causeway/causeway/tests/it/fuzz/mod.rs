//! Fuzzing of the bytes that other processes write into sockets and shared memory.

mod control;
mod memory;
