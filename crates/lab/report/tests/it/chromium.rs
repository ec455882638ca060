//! The page in a real browser: charts drawn, console silent, no sideways scrolling, light and dark.
//!
//! Without a Chromium on PATH these tests print that and pass.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use weighbridge_record::{Line, Reading, Timeline};
use weighbridge_report::{Report, html};

use crate::common;

/// The widths of a laptop and of a phone.
const WIDTHS: [u32; 2] = [1366, 390];
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs before anything else in the page and collects what goes wrong.
const LISTEN: &str = include_str!("listen.html");

/// Runs after everything else and tells the page around it what is to be seen.
const LOOK: &str = include_str!("look.html");

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Dark = 0,
    Light = 1,
}

#[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .find_map(|folder| names.iter().map(|name| folder.join(name)).find(|program| program.is_file()));
    if found.is_none() {
        eprintln!("skipped: no Chromium on PATH");
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
    let charts = told["charts"].as_array().unwrap();
    assert!(!charts.is_empty());
    for (index, chart) in charts.iter().enumerate() {
        let about = format!("chart {index} at {width}: {chart}");
        assert!(chart["svg"].as_u64() > Some(0), "{about}");
        assert!(chart["traces"].as_u64() > Some(0) && chart["traces"] == chart["wanted"], "{about}");
        assert!(chart["ticks"].as_u64() > Some(1), "{about}");
        assert_eq!(chart["names"], 0, "every dot has its name: {about}");
        assert!(chart["width"].as_f64().unwrap() <= chart["room"].as_f64().unwrap() + 0.5, "{about}");
        assert_ne!(chart["covered"], true, "the legend covers the chart: {about}");
        assert_eq!(chart["scrolls"], false, "the legend scrolls: {about}");
        assert_eq!(chart["text"], told["color"], "texts of a chart follow the scheme: {about}");
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
    let mut backgrounds = Vec::new();
    for scheme in [Scheme::Light, Scheme::Dark] {
        let [laptop, _] = look(&program, common::whole(), scheme);
        check_table(&laptop);
        let dimmed: Vec<u64> =
            laptop["dimmed"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect();
        assert_eq!(
            dimmed,
            [18, 2, 18],
            "a band and a line for each of nine mechanisms, one of them pointed at"
        );
        assert_eq!(
            laptop["charts"].as_array().unwrap().len(),
            16,
            "4 medians, 3 single, 1 scaling, 8 per operation"
        );
        backgrounds.push(laptop["background"].clone());
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
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
        assert_eq!(chart["traces"], 4, "{chart}");
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
    assert!(page.len() < 6 << 20, "{} bytes", page.len());
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
    let is_named = |chart: &Value| chart["legend"][0] == "<img src=x onerror=alert(1)>";
    assert!(charts.iter().any(is_named), "{charts:?}");
}
