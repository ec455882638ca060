//! Mechanisms, patterns, and the processes that measure them.
