//! The limits of the control group of this process: the tightest of it and of those above it.

use super::Files;

/// Quota and period in microseconds, as `cpu.max` has them.
pub fn cpu_max(files: &Files) -> Option<String> {
    let share = |text: &String| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    let all = of_groups(files, "cpu.max");
    let limited = all.iter().filter_map(|text| Some((share(text)?, text)));
    limited.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, text)| text.clone()).or(all.into_iter().next())
}

/// Bytes, or `max`.
pub fn memory_max(files: &Files) -> Option<String> {
    let all = of_groups(files, "memory.max");
    let limited = all.iter().filter_map(|text| text.parse::<u64>().ok()).min();
    limited.map(|bytes| bytes.to_string()).or(all.into_iter().next())
}

/// CPUs' worth of time that the group may use, where that is limited.
pub fn cpus(max: &str) -> Option<f64> {
    let (quota, period) = max.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// What a file of the group, and of each above it, says; the own one first. The root of all groups has none.
fn of_groups(files: &Files, name: &str) -> Vec<String> {
    let own = files.text("proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut found = Vec::new();
    loop {
        found.extend(files.text(&format!("sys/fs/cgroup/{}/{name}", parts.join("/"))));
        if parts.pop().is_none() {
            return found;
        }
    }
}
