//! Records that somebody has changed: they are read, judged and shown in every format, and nothing of it panics.

use std::panic::catch_unwind;

use serde_json::Value;
use weighbridge_record::laws;
use weighbridge_report::{Report, Style, csv, html, json, markdown, text};

const RECORDS: [&str; 3] = [
    include_str!("../../../record/tests/files/every-field.jsonl"),
    include_str!("../../../../weighbridge/tests/files/before-the-laws.jsonl"),
    include_str!("../../../record/tests/files/contests/one-cpu.jsonl"),
];
/// Of each record; each is one change of a number, a text or a line.
const CHANGES: usize = 100;

/// A sequence of numbers that is the same in every run: SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// All numbers, texts and lists below a value.
fn leaves<'a>(value: &'a mut Value, all: &mut Vec<&'a mut Value>) {
    let is_leaf = match &*value {
        Value::Array(values) => !(1..4).contains(&values.len()),
        other => other.is_number() || other.is_string(),
    };
    if is_leaf {
        return all.push(value);
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| leaves(field, all)),
        Value::Array(values) => values.iter_mut().for_each(|value| leaves(value, all)),
        _ => {}
    }
}

fn changed(leaf: &Value, other: &Value, random: &mut Random) -> Value {
    match leaf {
        Value::Number(number) if number.is_u64() => {
            let near = number.as_u64().unwrap_or_default();
            [0, 1, near + 1, near / 2, near.saturating_mul(1000), u64::from(u32::MAX), u64::MAX]
                [random.below(7)]
            .into()
        }
        Value::Number(number) => {
            let near = number.as_f64().unwrap_or_default();
            [0.0, -near, near * 1.5, near / 1000.0, 1e300, -1e300, 1e-300, f64::MAX][random.below(8)].into()
        }
        Value::Array(values) => {
            let half = values.len() / 2;
            Value::Array(match random.below(4) {
                0 => Vec::new(),
                1 => values[..half].to_vec(),
                2 => values.iter().chain(values).cloned().collect(),
                _ => values
                    .iter()
                    .cloned()
                    .enumerate()
                    .map(|(at, value)| if at == half { changed(&value, other, random) } else { value })
                    .collect(),
            })
        }
        _ if other.is_string() => other.clone(),
        _ => Value::from(["", "noop", "roundtrip/tcp/1/same-cpu"][random.below(3)]),
    }
}

fn edited(record: &str, random: &mut Random) -> (String, String) {
    let mut lines: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (at, with) = (random.below(lines.len()), random.below(lines.len()));
    let what = match random.below(8) {
        0 => format!("line {at} removed: {}", lines.remove(at)["kind"]),
        1 => {
            let again = lines[at].clone();
            lines.insert(with, again);
            format!("line {at} again at {with}")
        }
        2 => {
            lines.swap(at, with);
            format!("lines {at} and {with} swapped")
        }
        _ => {
            let donor = lines[with].clone();
            let mut of_donor = donor;
            let mut all = Vec::new();
            leaves(&mut of_donor, &mut all);
            let texts: Vec<Value> =
                all.into_iter().filter(|leaf| leaf.is_string()).map(|leaf| leaf.clone()).collect();
            let other = if texts.is_empty() { Value::Null } else { texts[random.below(texts.len())].clone() };
            let mut all = Vec::new();
            leaves(&mut lines[at], &mut all);
            let place = random.below(all.len());
            let new = changed(all[place], &other, random);
            let said = format!("line {at}, {} → {new}", all[place]);
            *all[place] = new;
            said
        }
    };
    (what, lines.iter().map(|line| format!("{line}\n")).collect())
}

#[test]
fn no_change_of_a_record_makes_reading_judging_or_showing_it_panic() {
    let mut random = Random(7);
    let mut panics = Vec::new();
    for (number, record) in RECORDS.iter().enumerate() {
        for _ in 0..CHANGES {
            let (what, record) = edited(record, &mut random);
            let shown = catch_unwind(|| {
                let mut reading = weighbridge_record::read(record.as_bytes()).expect("text can be read");
                laws::audit(&mut reading);
                let report = Report::from_readings(vec![(String::new(), reading)]);
                let shown = [
                    text(&report, Style::default()),
                    markdown(&report),
                    csv(&report),
                    json(&report),
                    html(&report),
                ];
                assert!(shown.iter().all(|shown| !shown.is_empty()));
            });
            if shown.is_err() {
                panics.push(format!("record {number}: {}", what.chars().take(300).collect::<String>()));
            }
        }
    }
    assert!(panics.is_empty(), "{}: {panics:#?}", panics.len());
}
