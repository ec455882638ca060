//! Units of other tools in those of the record: nanoseconds and bytes per second.

/// Nanoseconds in a unit of time; `None` for anything else.
pub fn ns_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nsec" | "nsecs" | "nanoseconds" => 1.0,
        "us" | "µs" | "μs" | "usec" | "usecs" | "microseconds" => 1e3,
        "ms" | "msec" | "msecs" | "milliseconds" => 1e6,
        "s" | "sec" | "secs" | "seconds" => 1e9,
        _ => return None,
    })
}

/// Bytes in a unit of memory with a binary prefix, as in `GiByte`, `MiB`.
pub fn binary_bytes(unit: &str) -> Option<f64> {
    let prefix = unit.strip_suffix("iByte").or_else(|| unit.strip_suffix("iB"));
    Some(match prefix {
        Some("K") => 1024.0,
        Some("M") => f64::from(1 << 20),
        Some("G") => f64::from(1 << 30),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_binary_only_where_it_says_so() {
        assert_eq!((binary_bytes("GiByte"), binary_bytes("MB")), (Some(1073741824.0), None));
        assert_eq!((ns_per("usecs"), ns_per("fortnights")), (Some(1e3), None));
    }
}
