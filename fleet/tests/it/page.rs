//! The page of ten thousand machines: small enough, and drawn by a real browser.

use std::fs;
use std::process::Command;

use causeway_testkit::{Cause, find_program, skipped, temp_dir};
use weighbridge_fleet::analysis::{Options, analyze};
use weighbridge_fleet::report::{Format, report};

use crate::support::world::{Kind, World};

#[test]
fn a_page_of_ten_thousand_machines_is_below_two_megabytes_and_a_browser_draws_it() {
    let world =
        World::new(Kind::TwoBands, 10_000, 30, 1).with_facts(20, Some(0.015)).with_bad_hosts(10, 0.0583);
    let findings = analyze(&world.first_session(), &Options::default());
    let page = report(&findings, Format::Html, weighbridge_report::Style::default());
    assert!(page.len() <= 2 << 20, "{} bytes", page.len());
    // Words at the left, numbers with their thousands apart.
    for part in ["<td class=\"text\">measure again</td>", "<td>10,000</td>", ">10,000 machines of "] {
        assert!(page.contains(part), "no {part}");
    }
    let text = report(&findings, Format::Text, weighbridge_report::Style::default());
    assert!(text.lines().count() < 400, "{} lines", text.lines().count());
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program)
    else {
        return skipped(Cause::Missing("chromium"), "");
    };
    let folder = temp_dir("page");
    let listen = "<script>window.wrong = []; addEventListener('error', (event) => wrong.push(event.message));\
                  addEventListener('load', () => setTimeout(() => { document.documentElement.dataset.wrong = wrong.join(';'); }, 0));</script>";
    let path = folder.path().join("fleet.html");
    fs::write(&path, page.replacen("<head>\n", &format!("<head>\n{listen}"), 1)).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-breakpad",
            "--window-size=1300,1000",
        ])
        .args(["--virtual-time-budget=30000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(
        dom.contains("data-wrong=\"\""),
        "{:.300}",
        dom.split("data-wrong").nth(1).unwrap_or("no script ran")
    );
    let canvases = dom.matches("<canvas").count();
    assert_eq!((canvases, dom.matches("data-drawn=\"1\"").count()), (1, 1));
}
