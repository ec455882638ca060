//! What a bisection says.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Culprit, Found, change};
use crate::guest_args::Bisect;
use crate::output;
use crate::repository::{Repository, short};
use crate::values::TextOrJson;

pub fn rendered(args: &Bisect, repository: &Repository, found: &Found) -> String {
    match args.format {
        TextOrJson::Text => text(args, repository, found),
        TextOrJson::Json => output::json(&document(args, repository, found)),
    }
}

fn percent(share: f64) -> String {
    format!("{:+.2} %", share * 100.0).replace('-', "−")
}

fn text(args: &Bisect, repository: &Repository, found: &Found) -> String {
    let mut out = String::new();
    let ends = found.ends.each_ref().map(|end| end.count);
    let unit = &found.ends[0].unit;
    let named = |commit: &str| format!("{} {}", short(commit), repository.subject(commit));
    match &found.culprit {
        Culprit::None => {
            let _ = writeln!(
                out,
                "no commit: the ends do not differ by more than --margin, {:.2} %",
                args.margin * 100.0
            );
        }
        Culprit::OneOf(commits) => {
            let _ =
                writeln!(out, "one of {} commits, all but the last of which were skipped:", commits.len());
            commits.iter().for_each(|commit| _ = writeln!(out, "  {}", named(commit)));
        }
        Culprit::One { commit, parent, counts, functions } => {
            let own = counts.each_ref().map(|of| of.count);
            let _ = writeln!(out, "first bad commit: {}", named(commit));
            let _ = writeln!(
                out,
                "  {}: {:.1} → {:.1} {unit} ({}), against its parent {}",
                args.case,
                own[0],
                own[1],
                percent(change(own)),
                short(parent)
            );
            match functions {
                Err(why) => _ = writeln!(out, "  by function: not known, {why}"),
                Ok(changes) if changes.is_empty() => out.push_str("  by function: none changed\n"),
                Ok(changes) => changes.iter().for_each(|of| {
                    let difference = format!("{:+.1}", of.difference()).replace('-', "−");
                    let _ = writeln!(out, "  {difference:>10}  {}", of.function);
                }),
            }
            if !found.is_sure(args.margin) {
                let share = found.share().unwrap_or(0.0) * 100.0;
                let _ = writeln!(
                    out,
                    "  this is {share:.0} % of the difference of the ends: no single commit explains it; bisect again from this commit and up to its parent"
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "\nends: {:.1} → {:.1} {unit} ({}), {} commits apart; {} boots",
        ends[0],
        ends[1],
        percent(change(ends)),
        found.commits,
        found.boots
    );
    for skipped in &found.skipped {
        let _ = writeln!(out, "skipped: {}: {}", named(&skipped.commit), skipped.why);
    }
    out
}

fn document(args: &Bisect, repository: &Repository, found: &Found) -> Value {
    let counts = |of: &[super::Count; 2]| json!(of.each_ref().map(|count| count.count));
    let mut document = json!({
        "case": args.case,
        "unit": found.ends[0].unit,
        "ends": counts(&found.ends),
        "commits": found.commits,
        "boots": found.boots,
        "sure": found.is_sure(args.margin),
        "skipped": found.skipped.iter().map(|of| json!({ "commit": of.commit, "why": of.why })).collect::<Vec<_>>(),
    });
    match &found.culprit {
        Culprit::None => document["first_bad"] = Value::Null,
        Culprit::OneOf(commits) => document["one_of"] = json!(commits),
        Culprit::One { commit, parent, counts: own, functions } => {
            document["first_bad"] = json!(commit);
            document["subject"] = json!(repository.subject(commit));
            document["parent"] = json!(parent);
            document["counts"] = counts(own);
            document["share"] = json!(found.share());
            match functions {
                Err(why) => document["functions_missing"] = json!(why),
                Ok(changes) => {
                    let change = |of: &super::Change| json!({ "function": of.function, "instructions": of.instructions, "difference": of.difference() });
                    document["functions"] = changes.iter().map(change).collect();
                }
            }
        }
    }
    document
}
