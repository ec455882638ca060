//! Linux as safe types: descriptors, memory, futexes, clocks, placement, counters.
