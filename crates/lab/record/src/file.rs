//! A record on disk: one JSON object a line, valid after every line.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use crate::{Header, Line, SCHEMA};

/// Appends lines to a file. Each line is one `write`, so a reader never sees half of one unless the disk fills,
/// and then [`Writer::write`] takes the half back.
#[derive(Debug)]
pub struct Writer {
    file: File,
    good_bytes: u64,
}

impl Writer {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// That of opening the file: it exists, the folder is missing, no permission.
    pub fn create(path: &Path) -> io::Result<Writer> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(Writer { file, good_bytes: 0 })
    }

    /// Appends one line.
    ///
    /// # Errors
    /// That of writing. What was written before stays valid: half a line is cut off again.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).expect("a line is plain data");
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            // The cut is best effort: if even that fails, a reader still skips the half line.
            let _ = self.file.set_len(self.good_bytes);
            let _ = self.file.seek(SeekFrom::Start(self.good_bytes));
            return Err(error);
        }
        self.good_bytes += text.len() as u64;
        Ok(())
    }
}

/// A line that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub why: String,
}

const NO_HEADER: &str = "a record begins with a header line";
const ANOTHER: &str = "another record begins here, and is left out with all that follows; give each record a file of its own, and name both files";
const CUT: &str = "ends in the middle";
const NEWER: &str = "written with schema ";

impl Problem {
    fn newer(line: usize, schema: u32) -> Problem {
        let why = format!(
            "{NEWER}{schema}, and this weighbridge reads schemas up to {SCHEMA}; read it with the version that wrote it, or a newer one"
        );
        Problem { line, why }
    }

    /// Was the record written by a newer program, so that nothing from there on can be read?
    pub fn is_newer(&self) -> bool {
        self.why.starts_with(NEWER)
    }

    /// Does the line end in the middle?
    pub fn is_cut(&self) -> bool {
        self.why == CUT
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// Everything valid in a record, and everything that was not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The valid lines, in order.
    pub lines: Vec<Line>,
    /// The lines that are not valid, each with the reason.
    pub problems: Vec<Problem>,
}

impl Reading {
    /// The header, where there is one.
    pub fn header(&self) -> Option<&Header> {
        self.lines
            .iter()
            .find_map(|line| if let Line::Header(header) = line { Some(&**header) } else { None })
    }
}

/// Reads a record, keeping what is valid of it.
///
/// # Errors
/// Only that of reading itself; bad content is a [`Problem`], not an error.
pub fn read(input: impl BufRead) -> io::Result<Reading> {
    let mut reading = Reading::default();
    for (index, text) in input.split(b'\n').enumerate() {
        let text = text?;
        if text.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let has_header = reading.header().is_some();
        let mut problem = |why| reading.problems.push(Problem { line: index + 1, why });
        if let Some(schema) = schema_of_header(&text).filter(|schema| *schema > SCHEMA) {
            reading.problems.push(Problem::newer(index + 1, schema));
            return Ok(reading);
        }
        match serde_json::from_slice::<Line>(&text) {
            // Figures of one session under the machine of another are those of none.
            Ok(Line::Header(_)) if has_header => {
                problem(ANOTHER.into());
                return Ok(reading);
            }
            Ok(line) => reading.lines.push(line),
            Err(error) if error.is_eof() => problem(CUT.into()),
            Err(error) => problem(format!("not a line of a record: {}", without_position(&error))),
        }
    }
    let starts_well = matches!(reading.lines.first(), Some(Line::Header(_)));
    if !starts_well && reading.problems.is_empty() {
        reading.problems.push(Problem { line: 1, why: NO_HEADER.into() });
    }
    Ok(reading)
}

/// The schema of a header, also of one that is too new to be understood as a whole; nothing for any other line.
fn schema_of_header(text: &[u8]) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct Version {
        kind: String,
        schema: u32,
    }
    const KIND: &[u8] = b"\"header\"";
    // Lines of runs are long, and only a header is parsed twice.
    text.windows(KIND.len()).take(64).find(|part| *part == KIND)?;
    let version: Version = serde_json::from_slice(text).ok()?;
    (version.kind == "header").then_some(version.schema)
}

/// The kind of a line, whatever else it says; nothing of what is not a line.
pub fn kind(text: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        kind: Cow<'a, str>,
    }
    // As a writer of ours has it, without a look at the rest of a long line.
    if let Some(rest) = text.strip_prefix(b"{\"kind\":\"") {
        let name = rest.split(|byte| *byte == b'"').next()?;
        if !name.contains(&b'\\') {
            return std::str::from_utf8(name).ok().map(Cow::Borrowed);
        }
    }
    Some(serde_json::from_slice::<Kind<'_>>(text).ok()?.kind)
}

/// The parser counts lines within the one line it was given, which would only confuse.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    // It may quote the file, and is one line.
    let shown =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    text.chars().map(shown).collect()
}

/// [`read`] from a file.
///
/// # Errors
/// That of opening or reading the file.
pub fn read_file(path: &Path) -> io::Result<Reading> {
    read(BufReader::new(File::open(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseId, Skipped};

    fn skipped() -> Line {
        Line::Skipped(Skipped {
            case: CaseId::new("stream", "mq-posix", 65536, "same-cpu"),
            step: "fit".into(),
            why: "fs.mqueue.msgsize_max is 8192".into(),
        })
    }

    #[test]
    fn what_is_whole_is_kept_and_what_is_not_is_named_with_its_line() {
        let whole = serde_json::to_string(&skipped()).unwrap();
        let cut = format!("{whole}\n{}", &whole[..whole.len() / 2]);
        for (text, lines, told) in [
            (whole.as_str(), 1, &["line 1: a record begins with a header line"][..]),
            (&cut, 1, &["line 2: ends in the middle"]),
            ("# kdbus\n1 32580\n", 0, &["line 1: not a line of a record", "line 2: not a line of a record"]),
        ] {
            let reading = read(text.as_bytes()).unwrap();
            assert_eq!((reading.lines, reading.problems.len()), (vec![skipped(); lines], told.len()));
            for (problem, told) in reading.problems.iter().zip(told) {
                assert!(problem.to_string().starts_with(told), "{problem}");
            }
        }
    }

    #[test]
    fn a_second_record_in_one_file_is_left_out_and_named() {
        let header = |seed| {
            serde_json::to_string(&Line::Header(Box::new(Header { seed, ..Header::default() }))).unwrap()
        };
        let whole = serde_json::to_string(&skipped()).unwrap();
        let both = format!("{}\n{whole}\n{}\n{whole}\n{whole}\n", header(1), header(2));
        let reading = read(both.as_bytes()).unwrap();
        assert_eq!((reading.lines.len(), reading.header().unwrap().seed), (2, 1));
        assert_eq!(reading.problems.len(), 1, "{:?}", reading.problems);
        assert!(reading.problems[0].to_string().starts_with("line 3: another record begins here"));
    }

    #[test]
    fn a_newer_record_is_known_by_its_schema_however_its_header_has_changed() {
        let newer =
            format!("{{\"kind\":\"header\",\"schema\":{},\"else\":[]}}\n{{\"kind\":\"new\"}}\n", SCHEMA + 1);
        let reading = read(newer.as_bytes()).unwrap();
        assert!(reading.lines.is_empty());
        assert!(matches!(&reading.problems[..], [problem] if problem.is_newer()), "{:?}", reading.problems);
        let same = format!("{{\"kind\":\"header\",\"schema\":{SCHEMA},\"else\":[]}}\n");
        let reading = read(same.as_bytes()).unwrap();
        assert!(matches!(&reading.problems[..], [problem] if !problem.is_newer()), "{:?}", reading.problems);
    }

    /// `/dev/full` takes nothing: the error must come up, and not as a panic.
    #[test]
    fn a_full_disk_is_an_error() {
        let Ok(file) = File::options().write(true).open("/dev/full") else {
            return causeway_testkit::skipped(causeway_testkit::Cause::Missing("/dev/full"), "");
        };
        let mut writer = Writer { file, good_bytes: 0 };
        assert_eq!(writer.write(&skipped()).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
