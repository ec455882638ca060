//! Sizes, times, shares and lists as people type them.
//!
//! Every parser returns a sentence that says what the text is not, and how it is written.

use causeway_waiting::{duration, size};
use clap::ValueEnum;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Payload sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// Numbers of CPUs, in the order of preference; all where there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<u32>);

/// An axis and the values that it is to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisValues {
    pub axis: String,
    pub values: Vec<String>,
}

/// Where a page goes, if anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    None,
    File(PathBuf),
}

/// Bytes in a second, such as `25.6G`: K, M and G are powers of 1000 as in the names of modules, KiB, MiB and GiB of 1024.
pub fn rate(text: &str) -> Result<f64, String> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => f64::from(1 << 20),
        "GiB" => f64::from(1 << 30),
        _ => f64::NAN,
    };
    match number.parse::<f64>().map(|number| number * factor) {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err(format!("`{text}` is not a number of bytes in a second; write it as 25.6G or 23.8GiB")),
    }
}

/// A list such as `0,64,4K,1M..4M`; a range doubles from its first size and ends at its last.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => sizes.push(size(part)?),
            Some((first, last)) => {
                let (first, last) = (size(first)?, size(last)?);
                if first == 0 || first > last {
                    return Err(format!("`{part}` is not a range; it doubles from 1 or more, as in 1..4M"));
                }
                let doubled = |size: &u64| size.checked_mul(2).filter(|next| *next <= last);
                sizes.extend(std::iter::successors(Some(first), doubled));
            }
        }
    }
    Ok(Sizes(without_repeats(sizes)))
}

/// A list such as `2,0-1`; empty as a variable of the environment that is not set, which is the same to a shell.
pub fn cpus(text: &str) -> Result<Cpus, String> {
    if text.is_empty() {
        return Ok(Cpus(Vec::new()));
    }
    // More than any Linux has; a longer range is a slip, not a wish.
    const MOST: u32 = 8192;
    let no = || format!("`{text}` is not a list of CPUs; write it as 2,0-1");
    let number = |text: &str| text.parse::<u32>().ok().filter(|cpu| *cpu < MOST).ok_or_else(no);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => cpus.push(number(part)?),
            Some((first, last)) => {
                let range = number(first)?..=number(last)?;
                if range.is_empty() {
                    return Err(no());
                }
                cpus.extend(range);
            }
        }
    }
    Ok(Cpus(without_repeats(cpus)))
}

/// `AXIS=V1,V2`.
pub fn axis_values(text: &str) -> Result<AxisValues, String> {
    let no = || format!("`{text}` sets no axis; write NAME=VALUE or NAME=VALUE,VALUE, as in touch=none,all");
    let (axis, values) = text.split_once('=').ok_or_else(no)?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if axis.is_empty() || values.iter().any(|value| value.is_empty() || value.contains(['/', '='])) {
        return Err(no());
    }
    Ok(AxisValues { axis: axis.into(), values: without_repeats(values) })
}

/// A share: `2%` or `0.02`.
pub fn precision(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    match share {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        Ok(_) => Err(format!("`{text}` is not between 0 and 100 %; write 2% or 0.02 for ± 2 %")),
        Err(_) => Err(format!("`{text}` is not a share; write 2% or 0.02 for ± 2 %")),
    }
}

/// A share of one CPU, which all processes of a case may exceed together: `10%`, `1.5`.
pub fn cpu_share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent.trim_end(), 100.0));
    match number.parse::<f64>() {
        Ok(share) if share > 0.0 && share.is_finite() => Ok(share / scale),
        _ => Err(format!("`{text}` is not a share of a CPU; write 10% or 0.1")),
    }
}

/// How many in a second: `20000`, `20k`, `1.5M`.
pub fn per_second(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate * factor),
        _ => Err(format!("`{text}` is not a number in a second; write 20000 or 20k")),
    }
}

/// One size: `500`, `4K`.
pub fn size(text: &str) -> Result<u64, String> {
    size::parse(text, None)
}

/// One of these sizes.
pub fn size_within(sizes: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let bytes = size::parse_within(text, None, u64::from(*sizes.start())..=u64::from(*sizes.end()))?;
        Ok(bytes as u32)
    }
}

/// Memory of a machine in MiB, which a number alone counts.
pub fn memory_mib(text: &str) -> Result<u32, String> {
    let bytes = size::parse_within(text, Some("M"), 64 << 20..=64 << 30)?;
    Ok(bytes.div_ceil(1 << 20) as u32)
}

/// A number of sets from one to another: `12..40`, or one number.
pub fn units(text: &str) -> Result<RangeInclusive<usize>, String> {
    let form = "write the fewest and the most sets of a case, 1 to 1000, as in 12..40";
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if 1 <= least && least <= most && most <= 1000 => Ok(least..=most),
        _ => Err(format!("`{text}` is not a number of sets; {form}")),
    }
}

/// A part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

/// `2/8`.
pub fn shard(text: &str) -> Result<Shard, String> {
    const MOST: u32 = 100_000;
    let parts = text.split_once('/').and_then(|(of, all)| Some((of.parse().ok()?, all.parse().ok()?)));
    match parts {
        Some((index, count)) if 1 <= index && index <= count && count <= MOST => Ok(Shard { index, count }),
        _ => Err(format!("`{text}` is not a part of a plan; write which of how many, from 1, as in 2/8")),
    }
}

/// A time that is more than none: `90s`, `2m`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text, None)?;
    if time.is_zero() { Err(format!("`{text}` is not more than zero; {}", duration::FORM)) } else { Ok(time) }
}

/// A file name, or `none`.
pub fn page(text: &str) -> Result<Page, String> {
    match text {
        "none" => Ok(Page::None),
        "" => Err("the name of the page is empty; write `none` for no page".into()),
        file => Ok(Page::File(file.into())),
    }
}

fn without_repeats<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Has a word anything that a glob expands?
pub fn has_wildcards(word: &str) -> bool {
    word.contains(['*', '?', '[', '{'])
}

/// A path as a shell takes it back.
pub fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// A time for people, such as `1m 30s`.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match time.as_millis() {
        millis @ ..1000 => format!("{millis} ms"),
        _ if seconds < 120 => format!("{} s", time.as_secs_f64().round()),
        _ if seconds < 2 * 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Bytes for people: `4 KiB` where that is exact.
pub fn spoken_size(bytes: u64) -> String {
    match bytes {
        0 => "0 B".into(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Formats at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// A line per case
    Csv,
    /// One document with everything but the samples
    Json,
}

/// Formats of an explanation, an examination or a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// One document with everything
    Json,
}

/// Formats of what can be a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// One document with everything
    Json,
    /// One page with pictures, which works offline
    Html,
}

impl From<DocumentFormat> for PageFormat {
    fn from(format: DocumentFormat) -> PageFormat {
        match format {
            DocumentFormat::Table => PageFormat::Table,
            DocumentFormat::Markdown => PageFormat::Markdown,
            DocumentFormat::Json => PageFormat::Json,
        }
    }
}

/// Formats of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Tables, as wide as the terminal
    Table,
    /// Markdown with tables
    Markdown,
    /// One document: cases with their verdicts, the control, the resolution, the margin
    Json,
    /// JUnit's XML, in which a regression is a failed test
    Junit,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How refusals read is in tests/it/mistakes.rs.
    #[test]
    fn what_people_type_is_read_in_each_of_its_forms() {
        let sizes = |text| super::sizes(text).unwrap().0;
        assert_eq!(sizes("0,1,64,4K,64KiB,1M"), [0, 1, 64, 4096, 65536, 1 << 20]);
        assert_eq!(sizes("1..8,8,3..20"), [1, 2, 4, 8, 3, 6, 12], "ranges double");
        assert_eq!(cpus("3,0-2").unwrap().0, [3, 0, 1, 2], "in the order of preference");
        assert!(cpus("").unwrap().0.is_empty(), "WEIGHBRIDGE_CPUS= is the same as none");
        assert_eq!([precision("2%"), precision("0.5 %"), precision("0.02")], [Ok(0.02), Ok(0.005), Ok(0.02)]);
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!((units("12..40"), units("8")), (Ok(12..=40), Ok(8..=8)));
        let set = axis_values("touch=none,all,none").unwrap();
        assert_eq!((set.axis.as_str(), set.values), ("touch", vec!["none".to_owned(), "all".to_owned()]));
    }

    #[test]
    fn what_has_no_meaning_is_refused_with_how_to_write_it() {
        fn check<T>(read: fn(&str) -> Result<T, String>, form: &str, texts: &[&str]) {
            for text in texts {
                assert!(read(text).err().is_some_and(|why| why.contains(form)), "{text:?}");
            }
        }
        check(sizes, "write bytes as", &["", "K", "4Q", "4KB", "-1", "1,,2", "1.5K", "64 K"]);
        check(sizes, "doubles", &["0..4", "4..1"]);
        check(sizes, "more than any memory", &["18446744073709551615K"]);
        check(cpus, "write it as", &[",", "a", "2-0", "0-4000000000", "1,", "-1"]);
        check(precision, "2% or 0.02", &["2", "0", "-1%", "100%", "NaN", "inf", "two"]);
        check(duration, "as in 500ms", &["", "90", "0s", "-1s", "soon", "1s ago"]);
        check(
            axis_values,
            "NAME=VALUE",
            &["touch", "=all", "touch=", "touch=a,,b", "touch=a=b", "touch=a/b"],
        );
        check(units, "number of sets", &["0..4", "9..8", "12..1001"]);
        check(shard, "as in 2/8", &["", "2", "0/4", "5/4", "1/0", "-1/2", "1/2/3"]);
    }

    #[test]
    fn paths_times_and_sizes_are_said_in_the_form_that_suits_them() {
        let quoted = |path: &str| super::quoted(Path::new(path));
        assert_eq!(
            ["a/b-1.jsonl", "my record", "it's"].map(quoted),
            ["a/b-1.jsonl", "'my record'", r"'it'\''s'"]
        );
        let times = [94, 41_600, 150_000, 21_600_000].map(|ms| spoken(Duration::from_millis(ms)));
        assert_eq!(times, ["94 ms", "42 s", "2 min 30 s", "6 h 0 min"]);
        assert_eq!([4096, 1, 3 << 30].map(spoken_size), ["4 KiB", "1 B", "3 GiB"]);
    }
}
