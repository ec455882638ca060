//! The formats, one file each.

mod akbench;
mod criterion;
mod fio;
mod go;
mod google_benchmark;
mod hyperfine;
mod iperf3;
mod kernel_bench;
mod lmbench;
mod perf_bench;
mod ping_pong;
mod sockperf;

use crate::import::entry::{Input, Problem};
use crate::import::found::Found;
use crate::import::json::{self, Document};

/// A format of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The tool as it is named in a case's id.
    pub tool: &'static str,
    /// What is read of it, and how the tool writes that.
    pub about: &'static str,
    /// The rules by which units are converted, each a sentence; the report shows them.
    pub rules: &'static [&'static str],
    /// How JSON of it is read, where the tool writes any.
    json: Option<Json>,
    /// How text of it is read, where the tool writes any.
    text: Option<Text>,
}

/// How JSON of a tool is read.
#[derive(Clone, Copy, Debug)]
struct Json {
    /// Fields that each of its documents has: all of one of these lists.
    fields: &'static [&'static [&'static str]],
    read: fn(&[&Document<'_>], &mut Found),
}

/// How text of a tool is read.
#[derive(Clone, Copy, Debug)]
struct Text {
    /// A line by which a text of the tool is known, as an example.
    example: &'static str,
    /// Is it such a line?
    is_line: fn(&str) -> bool,
    /// A word that other text about the tool has, too: where it stands, the file may be meant for this format.
    hint: &'static str,
    read: fn(&str, &mut Found),
}

/// All of them. The first that knows a file reads it.
pub const FORMATS: [Format; 12] = [
    google_benchmark::FORMAT,
    hyperfine::FORMAT,
    fio::FORMAT,
    iperf3::FORMAT,
    criterion::FORMAT,
    perf_bench::FORMAT,
    sockperf::FORMAT,
    akbench::FORMAT,
    go::FORMAT,
    lmbench::FORMAT,
    kernel_bench::FORMAT,
    ping_pong::FORMAT,
];

/// Reads the output of whichever tool it is.
///
/// # Errors
/// No tool's output; the problem says why, the nearest format first.
pub fn read(input: Input<'_>) -> Result<Found, Problem> {
    if input.text.trim().is_empty() {
        return Err(Problem::of_file("is empty"));
    }
    let (documents, outside) = json::documents(input.text);
    let formats: Vec<Option<Format>> = documents.iter().map(format_of).collect();
    let is_known = |text: &Text| input.text.lines().any(|line| (text.is_line)(line));
    let of_text = || FORMATS.into_iter().find(|format| format.text.as_ref().is_some_and(is_known));
    let of_json = formats.iter().flatten().next().copied();
    let Some(format) = of_json.or_else(of_text) else { return Err(refusal(input.text, &documents)) };
    let mut found = Found::new(format.tool, input.path);
    let strangers = if let Some(json) = format.json.filter(|_| of_json.is_some()) {
        let is_own = |(_, of): &(&Document<'_>, &Option<Format>)| of.is_some_and(|of| of.tool == format.tool);
        let (own, others): (Vec<_>, Vec<_>) = documents.iter().zip(&formats).partition(is_own);
        (json.read)(&own.into_iter().map(|(document, _)| document).collect::<Vec<_>>(), &mut found);
        for (document, other) in others {
            match other {
                Some(other) => found.problem(document.line, elsewhere(other, &format)),
                None if document.is_cut => found.problem(document.line, "a JSON document ends in the middle"),
                // A message of something else.
                None => {}
            }
        }
        outside
    } else if let Some(text) = format.text {
        (text.read)(input.text, &mut found);
        (1..).zip(input.text.lines()).filter(|(_, line)| !(text.is_line)(line)).collect()
    } else {
        outside
    };
    for (other, text) in FORMATS.iter().filter_map(|other| Some((other, other.text?))) {
        if let Some((line, _)) = strangers.iter().find(|(_, line)| (text.is_line)(line)) {
            found.problem(*line, elsewhere(other, &format));
        }
    }
    Ok(found)
}

fn elsewhere(other: &Format, format: &Format) -> String {
    format!("output of {} in a file of {}; put it into a file of its own", other.tool, format.tool)
}

/// The format of a document: the one whose fields it has. Of one that is cut short the most likely.
fn format_of(document: &Document<'_>) -> Option<Format> {
    let share = |format: &Format| nearest(format.json?, document).map(|(share, _)| share);
    let shares = FORMATS.into_iter().filter_map(|format| Some((share(&format)?, format)));
    if document.is_cut {
        let likely = shares.filter(|(share, _)| *share > 0.0);
        return likely
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, format)| format);
    }
    shares.into_iter().find(|(share, _)| *share == 1.0).map(|(_, format)| format)
}

/// The share of a format's fields that a document has, and those that it lacks; of the list that comes nearest.
fn nearest(json: Json, document: &Document<'_>) -> Option<(f64, Vec<&'static str>)> {
    let missing = |fields: &&[&'static str]| {
        let missing: Vec<_> =
            fields.iter().filter(|field| !document.fields.contains(field)).copied().collect();
        (1.0 - missing.len() as f64 / fields.len() as f64, missing)
    };
    json.fields.iter().map(missing).reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// Why each format does not know a file, the nearest first.
fn refusal(text: &str, documents: &[Document<'_>]) -> Problem {
    let quoted =
        |fields: &[&str]| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    let lower = text.to_lowercase();
    let reason = |format: Format| {
        let near = format.json.map(|json| documents.first().and_then(|document| nearest(json, document)));
        let of_json = near.clone().map(|near| match near {
            Some((_, missing)) => format!("no field {} in its JSON", quoted(&missing)),
            None => "no JSON".to_owned(),
        });
        let of_text = format.text.map(|text| format!("no line like `{}`", text.example));
        let is_hinted = format.text.is_some_and(|text| lower.contains(text.hint));
        let share = near.flatten().map_or(0.0, |(share, _)| share).max(if is_hinted { 0.5 } else { 0.0 });
        let why: Vec<String> = of_json.into_iter().chain(of_text).collect();
        (share, format!("\n  {}: {}", format.tool, why.join(", and ")))
    };
    let mut reasons = FORMATS.map(reason);
    reasons.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let reasons = reasons.map(|(_, reason)| reason).concat();
    let has = match documents.first() {
        Some(document) if document.is_cut => "a JSON document that ends in the middle".to_owned(),
        Some(document) => {
            format!("JSON with the fields {}", quoted(&document.fields[..document.fields.len().min(8)]))
        }
        None => "text".into(),
    };
    Problem::of_file(format!(
        "is not the output of a tool that can be imported: it is {has}. What it lacks for each tool, the nearest first:{reasons}\n  Let the tool \
         write its file as `weighbridge import --help` says, or remove what the tool did not write"
    ))
}

/// Reads documents one by one, each as a session of its own; one that cannot be read does not keep the others from it.
fn each(
    documents: &[&Document<'_>],
    found: &mut Found,
    read: impl Fn(&Document<'_>, &mut Found) -> Result<(), Problem>,
) {
    for (number, document) in documents.iter().enumerate() {
        let path = found.path.clone();
        found.session(&path, number, "");
        if let Err(problem) = read(document, found) {
            found.entries += 1;
            found.problems.push(problem);
        }
    }
}
