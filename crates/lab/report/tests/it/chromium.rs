//! The page in a real browser: charts drawn, console silent, no sideways scrolling, light and dark; what keys and pointers do.
//!
//! Without a Chromium on PATH these tests are skipped.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::watchdog::extend_limit;
use causeway_testkit::{Cause, PATIENCE as DEADLINE, find_program, skipped};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use weighbridge_record::{CaseId, Line, Reading, Timeline};
use weighbridge_report::{Report, html};

use crate::{common, explain};

/// The widths of a laptop and of a phone.
const WIDTHS: [u32; 2] = [1300, 400];

/// Runs before anything else in the page and collects what goes wrong.
const LISTEN: &str = include_str!("listen.html");

/// Runs after everything else and tells the page around it what is to be seen.
const LOOK: &str = include_str!("look.html");

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Dark = 0,
    Light = 1,
}

fn chromium() -> Option<PathBuf> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program);
    if found.is_none() {
        skipped(Cause::Missing("chromium"), "");
    }
    found
}

/// A browser and all its processes, ended when this goes.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Nothing is left to end when all went well.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// What the page tells on a laptop and on a phone, once that is checked.
fn look(program: &Path, reading: Reading, scheme: Scheme) -> [Value; 2] {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&Report::from_reading(reading));
    let page = page.replacen("<head>\n", &format!("<head>\n{LISTEN}"), 1);
    let page = page.replacen("</body>\n</html>", &format!("{LOOK}</body>\n</html>"), 1);
    fs::write(folder.path().join("report.html"), page).unwrap();
    let frames: String = WIDTHS
        .iter()
        .map(|width| {
            format!("<iframe src=\"report.html\" style=\"width:{width}px;height:900px;border:0\"></iframe>")
        })
        .collect();
    // The frames answer in any order; their width tells them apart.
    let around = format!(
        "<!doctype html><body>{frames}<script>const all = []; addEventListener('message', (event) => {{\
         all.push(event.data);\
         if (all.length === {}) document.body.textContent = JSON.stringify(all); }});</script></body>",
        WIDTHS.len()
    );
    fs::write(folder.path().join("around.html"), around).unwrap();
    let dom = run(program, folder.path(), scheme);
    let json = dom.split("<body>").nth(1).and_then(|rest| rest.split("</body>").next()).unwrap_or_default();
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let all: Vec<Value> = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {dom:.2000}"));
    let told =
        WIDTHS.map(|width| all.iter().find(|one| one["inner"] == width).expect("each width answers").clone());
    told.iter().for_each(|told| check(told, scheme));
    told
}

fn run(program: &Path, folder: &Path, scheme: Scheme) -> String {
    let output = folder.join("dom.html");
    let mut command = Command::new(program);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-breakpad", "--window-size=1800,1000", "--virtual-time-budget=30000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", scheme as i32))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("around.html").display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&output).unwrap())
        .stderr(fs::File::create(folder.join("log")).unwrap())
        .process_group(0);
    finish(&mut command);
    fs::read_to_string(output).unwrap()
}

/// Runs a browser to its end.
fn finish(command: &mut Command) {
    // A test looks several times.
    extend_limit(DEADLINE);
    let mut browser = Browser(command.spawn().unwrap());
    let start = Instant::now();
    while browser.0.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < DEADLINE, "Chromium did not finish within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check(told: &Value, scheme: Scheme) {
    let width = &told["inner"];
    assert_eq!(told["wrong"], serde_json::json!([]), "console at {width}");
    assert_eq!(told["dark"], scheme == Scheme::Dark, "the browser obeys the scheme asked for");
    assert!(
        told["scroll"].as_u64() <= told["inner"].as_u64(),
        "sideways scrolling at {width}: {}",
        told["scroll"]
    );
    let printed: Vec<u64> = told["printed"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert!(printed[0] > 0 && printed[1] == 0 && printed[2] == printed[0], "closed folds: {printed:?}");
    let resized = &told["resized"];
    assert!(resized[0].as_u64() > Some(300) && resized[1].as_u64() <= Some(300), "{resized}");
    let charts = told["charts"].as_array().unwrap();
    assert!(!charts.is_empty());
    let none = serde_json::json!([]);
    for (index, chart) in charts.iter().enumerate() {
        let about = format!("chart {index} at {width}: {chart}");
        let has = |what: &str| chart[what].as_u64().unwrap();
        assert!(has("ticks") > 1, "{about}");
        assert!(chart["width"].as_f64().unwrap() <= chart["room"].as_f64().unwrap() + 0.5, "{about}");
        assert_eq!(chart["outside"], none, "texts beyond the drawing: {about}");
        assert_eq!(chart["overlapping"], none, "texts on one another: {about}");
        assert_eq!(chart["covered"], false, "the legend covers the chart: {about}");
        assert!(chart["name"].as_str().unwrap().starts_with("Chart: "), "{about}");
        match chart["kind"].as_str().unwrap() {
            "lines" => assert!(
                has("drawn") > 0 && has("drawn") == has("wanted") && has("drawn") == has("pressed"),
                "{about}"
            ),
            "dots" => assert!(
                has("dots") > 0 && has("dots") == chart["names"].as_array().unwrap().len() as u64,
                "{about}"
            ),
            "bars" => assert!(has("pieces") > 0, "{about}"),
            _ => assert!(has("drawn") > 0, "{about}"),
        }
    }
}

fn check_table(told: &Value) {
    for (press, order) in told["sorted"].as_array().unwrap().iter().zip(["ascending", "descending"]) {
        assert_eq!(press["order"], order);
        let values: Vec<f64> =
            press["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let is_sorted = match order {
            "ascending" => values.is_sorted(),
            _ => values.is_sorted_by(|a, b| a >= b),
        };
        assert!(is_sorted && values.first() != values.last(), "{order}: {values:?}");
    }
    let medians = &told["medians"];
    let medians = medians["units"].as_array().unwrap().iter().zip(medians["values"].as_array().unwrap());
    let medians: Vec<(&str, f64)> =
        medians.map(|(unit, value)| (unit.as_str().unwrap(), value.as_f64().unwrap())).collect();
    assert!(medians.is_sorted() && medians[0].0 != medians[medians.len() - 1].0, "by unit: {medians:?}");
    let shown = told["shown"].as_array().unwrap();
    assert!(!shown.is_empty() && shown.iter().all(|name| name == "unix-stream"), "{shown:?}");
}

#[test]
fn a_whole_record_is_readable_on_a_laptop_and_a_phone_in_light_and_dark() {
    let Some(program) = chromium() else { return };
    let mut colors = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let [laptop, _] = look(&program, common::whole(), scheme);
        check_table(&laptop);
        let charts = laptop["charts"].as_array().unwrap();
        assert_eq!(charts.len(), 16, "4 medians, 3 single, 1 scaling, 8 per operation");
        assert_eq!(charts[0]["bands"], 9, "each mechanism has a band");
        colors.push([&laptop["background"], &charts[0]["text"], &charts[0]["grid"]].map(Value::clone));
    }
    let [light, dark] = &colors[..] else { unreachable!() };
    assert!(light.iter().zip(dark).all(|(light, dark)| light != dark), "{light:?} {dark:?}");
}

/// Wider than a phone.
const LONG_NAME: &str = "a-mechanism-with-a-name-that-is-as-long-as-those-of-suites-of-other-tools";

/// A record with more mechanisms than are shown at first: those with other settings, which are much slower. And two explanations.
fn crowded() -> Reading {
    let mut reading = common::whole();
    for depth in 1..=10 {
        for bytes in [1, 4096] {
            let id = CaseId::new("roundtrip", "pipe", bytes, "same-cpu").with("depth", &depth.to_string());
            reading.lines.push(Line::Case(common::case(&id, "ns/roundtrip")));
            let summary = common::summary(&id, "ns/roundtrip", 4e6 * f64::from(depth) + bytes as f64);
            reading.lines.push(Line::Summary(summary));
        }
    }
    let explained = [("pipe", 100.0), (LONG_NAME, -300.0)].map(|(name, rest)| explain::explained(name, rest));
    reading.lines.extend(explained.map(|of| Line::Explanation(Box::new(of))));
    reading
}

fn texts(of: &Value) -> Vec<&str> {
    of.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn names_of_a_legend_show_and_hide_lines_and_make_the_others_pale() {
    let Some(program) = chromium() else { return };
    for told in look(&program, crowded(), Scheme::Light) {
        let first = told["charts"].as_array().unwrap().iter().find(|chart| chart["kind"] == "lines").unwrap();
        assert_eq!(first["drawn"], 8, "{first}");
        assert_eq!(texts(&first["hidden"]).len(), 11, "{first}");
        let lines = &told["used"]["lines"];
        // The first name is that of the slowest, which is hidden: shown, hidden again, shown alone, and all.
        assert_eq!(lines["toggled"], serde_json::json!([8, 9, 8, 1, 19]), "{lines}");
        let highest = texts(&lines["highest"]);
        assert_eq!(
            (highest[0], highest[1], highest[2]),
            ("200 µs", "10 ms", "200 µs"),
            "room for it: {lines}"
        );
        assert_eq!(lines["pressed"], serde_json::json!(["true", "false", "true", "true"]), "{lines}");
        assert_eq!(
            lines["dimmed"],
            serde_json::json!([8, 8, 8]),
            "what is hidden makes nothing pale: {lines}"
        );
        let bars = &told["used"]["bars"];
        assert_eq!(bars["toggled"], serde_json::json!([8, 6, 8, 2, 8]), "{bars}");
    }
    let [laptop, _] = look(&program, common::whole(), Scheme::Light);
    let lines = &laptop["used"]["lines"];
    assert_eq!(lines["dimmed"], serde_json::json!([9, 1, 9]), "{lines}");
    assert_eq!(lines["toggled"], serde_json::json!([9, 8, 9, 1, 9]), "{lines}");
}

#[test]
fn arrow_keys_and_the_pointer_read_every_kind_of_chart() {
    let Some(program) = chromium() else { return };
    let mut reading = crowded();
    reading.lines.extend(common::patterns().lines.into_iter().skip(1));
    for told in look(&program, reading, Scheme::Dark) {
        for kind in ["lines", "dots", "bars", "strips"] {
            let used = &told["used"][kind];
            let heard = texts(&used["heard"]);
            assert!(heard.iter().all(|text| text.contains(", ")), "a name and figures: {kind} {used}");
            assert_ne!(heard[0], heard[1], "the next point: {kind} {used}");
            assert_ne!(heard[1], heard[2], "the next row: {kind} {used}");
            assert_eq!(heard[1], heard[3], "and back: {kind} {used}");
            let shown: Vec<String> =
                texts(&used["told"]).iter().map(|text| text.replace('\n', ", ")).collect();
            assert_eq!(shown, heard, "what is seen is what is heard: {kind}");
            assert_eq!((&used["isTaken"], &used["isInside"]), (&true.into(), &true.into()), "{kind} {used}");
            assert_eq!(
                used["hidden"],
                serde_json::json!([true, false, true]),
                "escape, over a point, away: {kind} {used}"
            );
            assert!(used["pointed"].as_str().is_some_and(|text| text.contains('\n')), "{kind} {used}");
        }
        let lines = texts(&told["used"]["lines"]["heard"]).concat();
        assert!(lines.contains("4 KiB on one CPU") && lines.contains("runs"), "{lines}");
    }
}

#[test]
fn signals_streams_and_receivers_have_their_charts() {
    let Some(program) = chromium() else { return };
    let [laptop, _] = look(&program, common::patterns(), Scheme::Dark);
    let charts = laptop["charts"].as_array().unwrap();
    let of = |kind: &str| charts.iter().filter(|chart| chart["kind"] == kind).collect::<Vec<_>>();
    assert_eq!(of("dots").len(), 5, "a chart of dots for each pattern");
    assert_eq!(of("lines").len(), 3, "streams, receivers and roles");
    assert_eq!(of("strips").len(), 12, "each fan-in and fan-out case");
    // The samples and three series; the levels of the step, and where the run changes.
    let steps: Vec<&u64> = vec![&0, &3];
    for chart in of("strips") {
        assert_eq!(chart["drawn"], 4, "{chart}");
        assert!(steps.iter().any(|count| chart["marks"] == **count), "{chart}");
    }
    assert_eq!(of("strips").iter().filter(|chart| chart["marks"] == 3).count(), 2);
}

/// Ten time lines of round trips, beside a few cases.
fn with_timelines() -> Reading {
    let mut reading = common::hostile();
    reading.lines.extend((1..=10).map(|number| {
        let timeline: Timeline = serde_json::from_str(include_str!("time-line.json")).unwrap();
        let subject = format!("roundtrip/pipe/{number}/same-cpu");
        Line::Timeline(Box::new(Timeline { subject, ..timeline }))
    }));
    reading
}

#[test]
fn time_lines_are_drawn_inside_of_their_pictures_in_light_and_dark() {
    let page = html(&Report::from_reading(with_timelines()));
    assert!(page.len() < 500_000, "{} bytes", page.len());
    let Some(program) = chromium() else { return };
    let mut colors = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let [laptop, phone] = look(&program, with_timelines(), scheme);
        for told in [&laptop, &phone] {
            let timelines = told["timelines"].as_array().unwrap();
            assert_eq!(timelines.len(), 10);
            for timeline in timelines {
                assert_eq!((&timeline["bars"], &timeline["arrows"]), (&10.into(), &2.into()), "{timeline}");
                assert_eq!(timeline["outside"], serde_json::json!([]), "{timeline}");
                assert!(timeline["width"].as_f64() > Some(800.0), "{timeline}");
            }
        }
        let first = &laptop["timelines"][0];
        assert!(first["width"].as_f64() <= first["room"].as_f64(), "{first}");
        colors.push(first["text"].clone());
    }
    assert_ne!(colors[0], colors[1]);
}

#[test]
fn foreign_text_is_drawn_as_text() {
    let Some(program) = chromium() else { return };
    let [laptop, _] = look(&program, common::hostile(), Scheme::Light);
    let charts = laptop["charts"].as_array().unwrap();
    let is_named = |chart: &Value| texts(&chart["legend"]).contains(&"<img src=x onerror=alert(1)>");
    assert!(charts.iter().any(is_named), "{charts:?}");
}
