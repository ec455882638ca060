//! `weighbridge report`: whole records, broken ones, and files that never were one.

use std::path::Path;

use crate::{Said, files, folder, measured, said, shown, text, weighbridge};

fn measure(folder: &Path, name: &str) {
    let cases = "roundtrip/mock/1/free roundtrip/mock/64/free --set latency-ns=1000,3000";
    shown(folder, &format!("run {cases} --quiet --html none --out {name}"));
}

const FIGURES: &str = "...
■ roundtrip at free, µs/roundtrip
  payload       mock             mock
                      latency-ns=3000
──────────────────────────────────────
  1 B      *1.00 ±0%         3.00 ±0%
  64 B     *1.00 ±0%         3.00 ±0%
...
";

#[test]
fn a_record_is_shown_as_the_run_showed_it() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    said(folder.path(), "report r.jsonl").with(0).shows(FIGURES).says("");
    let record = std::fs::read(folder.path().join("r.jsonl")).unwrap();
    Said::by(weighbridge(folder.path()).args(["report", "-"]).stdin(record)).with(0).shows(FIGURES);
}

#[test]
fn a_record_cut_in_the_middle_is_shown_as_far_as_it_goes() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let whole = text(folder.path().join("r.jsonl"));
    let runs_end = whole.rfind("{\"kind\":\"run\"").unwrap();
    std::fs::write(folder.path().join("cut.jsonl"), &whole[..runs_end + 100]).unwrap();
    let number = whole[..runs_end].lines().count() + 1;
    let by_report = "...
Warning: The record holds no summary for 4 cases; computed for this report from the runs that it
         holds.
...
■ roundtrip at free, µs/roundtrip
...
";
    let said = said(folder.path(), "report cut.jsonl").with(0).shows(by_report);
    said.says(format!("warning: `cut.jsonl`, line {number}: ends in the middle\n"));
}

#[test]
fn foreign_lines_in_a_record_are_named_and_left_out() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let mut lines: Vec<String> = text(folder.path().join("r.jsonl")).lines().map(str::to_owned).collect();
    lines.insert(1, "# a remark".into());
    std::fs::write(folder.path().join("mixed.jsonl"), lines.join("\n")).unwrap();
    let said = said(folder.path(), "report mixed.jsonl").with(0).shows(FIGURES);
    said.says("warning: `mixed.jsonl`, line 2: not a line of a record: [..]\n");
}

#[test]
fn what_is_no_record_is_refused_in_one_sentence_with_a_way_out() {
    const WAY_OUT: &str = "a record is the .jsonl file that `weighbridge run` writes";
    let folder = folder();
    let folder = folder.path();
    for (name, text, why) in [
        ("kdbus.txt", &*"# size time\n1 32580\n".repeat(1000), format!("is not a record; {WAY_OUT}")),
        ("other.jsonl", "{\"bytes\":1}\n{\"kind\":\"other\"}\n", format!("is not a record; {WAY_OUT}")),
        ("empty", "", format!("is empty; {WAY_OUT}")),
        ("other.html", "<!doctype html>\n", "is not a record; the record of that page is `other.jsonl`".into()),
        (
            "cut",
            "{\"kind\":\"head",
            format!("ends in the middle of its only line, so nothing can be shown; {WAY_OUT}"),
        ),
        (
            "newer",
            "{\"kind\":\"header\",\"schema\":99,\"gone\":1}\n{\"kind\":\"new\"}\n",
            "was written with schema 99, and this weighbridge reads schemas up to 2; read it with the version that wrote it, or \
             a newer one"
                .into(),
        ),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        said(folder, &format!("report {name}")).with(3).shows("").says(format!("error: `{name}` {why}\n"));
    }
    std::fs::create_dir(folder.join("sub")).unwrap();
    let is_folder = "error: `sub` is a folder; name the records in it, as in sub/*.jsonl\n";
    said(folder, "report sub").with(3).shows("").says(is_folder);
    said(folder, "report missing")
        .with(3)
        .says("error: cannot read `missing`: No such file or directory (os error 2)\n");
    let nonsense = weighbridge(folder).args(["report", "-"]).stdin("nonsense\n".repeat(1000));
    Said::by(nonsense).with(3).shows("").says(format!("error: standard input is not a record; {WAY_OUT}\n"));
}

#[test]
fn records_that_can_be_read_are_shown_beside_one_that_cannot() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let said = said(folder.path(), "report r.jsonl missing").with(3);
    said.shows("...\n■ roundtrip at free, µs/roundtrip\n...\n").says("error: cannot read `missing`: [..]\n");
}

#[test]
fn cases_are_compared_with_one_of_them_or_with_another_record() {
    let folder = folder();
    measured(folder.path(), "roundtrip/mock/1/free roundtrip/mock/1/free/latency-ns=3000 --runs 6");
    let baseline =
        |of: &str| said(folder.path(), &format!("report r.jsonl --format markdown --baseline {of}"));
    baseline("roundtrip/mock/1/free").with(0).shows(
        "...
## Compared with roundtrip/mock/1/free
...
| roundtrip/mock/1/free/latency-ns=3000 | 3.00 µs/roundtrip | 1.00 µs/roundtrip | +2.00 µs/roundtrip | 3.00 | 3.00 to 3.00 | 6 |
...
",
    );
    baseline("r.jsonl").with(0).shows(
        "...
## Compared with the same cases of r.jsonl

This comparison is not interleaved: [..]
...
| roundtrip/mock/1/free | 1.00 µs/roundtrip | 1.00 µs/roundtrip | [..] | 1.00 | 1.00 to 1.00 | none |
...
",
    );
    baseline("roundtrip/pipe/1/free").with(2).says(
        "error: no figure of `roundtrip/pipe/1/free` is in the record; `weighbridge report RECORD` shows which cases are\n",
    );
    baseline("before.jsonl").with(2).says(
        "error: --baseline takes a case or a record, and there is no file of that name: `before.jsonl` is not a case id: [..]\n",
    );
}

#[test]
fn a_record_of_another_machine_is_compared_only_where_that_is_asked_for() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let record = text(folder.path().join("r.jsonl"));
    let at = record.find("\"hostname\":\"").expect("a record names its host") + "\"hostname\":\"".len();
    let end = at + record[at..].find('"').expect("the name has an end");
    let foreign = format!("{}elsewhere{}", &record[..at], &record[end..]);
    std::fs::write(folder.path().join("there.jsonl"), foreign).unwrap();
    let report = "report r.jsonl --format markdown --baseline there.jsonl";
    said(folder.path(), report).with(3).shows("").says(
        "error: `there.jsonl` is of another machine (hostname: [..] and elsewhere), so a ratio would be one of machines; \
         --across-machines compares them nevertheless\n",
    );
    let compared = said(folder.path(), &format!("{report} --across-machines")).with(0);
    compared.shows("...\n| roundtrip/mock/1/free | [..] | hostname: [..] and elsewhere |\n...\n");
}

#[test]
fn a_report_goes_to_a_file_that_does_not_exist_yet() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let to_page = "report r.jsonl --format html --out page.html";
    said(folder.path(), to_page).with(0).shows("").says("");
    assert!(text(folder.path().join("page.html")).contains("</html>"));
    let exists =
        "error: `page.html` exists already; give another name with --out, or replace it with --force\n";
    said(folder.path(), to_page).with(2).says(exists);
    std::fs::write(folder.path().join("page.html"), "old").unwrap();
    said(folder.path(), &format!("{to_page} --force")).with(0).shows("").says("");
    assert!(text(folder.path().join("page.html")).contains("</html>"));
    assert_eq!(files(folder.path()), ["page.html", "r.jsonl"]);
    // Only files give way.
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    said(folder.path(), "report r.jsonl --out folder --force").with(2);
}

#[test]
fn a_record_is_replaced_by_another_only_by_force_and_stays_where_nothing_is_measured() {
    let folder = folder();
    measure(folder.path(), "r.jsonl");
    let before = text(folder.path().join("r.jsonl"));
    let again = "run roundtrip/mock/1/free --runs 1 --html none --quiet --no-system-calls --out r.jsonl";
    said(folder.path(), again).with(2);
    said(folder.path(), "run roundtrip/pipe/0/free --out r.jsonl --force").with(2);
    assert_eq!(text(folder.path().join("r.jsonl")), before);
    said(folder.path(), &format!("{again} --force")).with(0);
    assert_ne!(text(folder.path().join("r.jsonl")), before);
}
