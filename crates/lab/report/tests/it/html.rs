//! The page as text: one file, everything inside, nothing foreign taken as markup.

use serde_json::Value;
use weighbridge_record::Reading;
use weighbridge_report::{Report, html};

use crate::common;

const SECTIONS: [&str; 17] = [
    "answers",
    "machine",
    "findings",
    "figures-1",
    "figures-2",
    "figures-3",
    "figures-4",
    "figures-5",
    "figures-6",
    "figures-7",
    "legend",
    "scaling",
    "cases",
    "anomalies",
    "regimes",
    "stopped",
    "skipped",
];

fn whole() -> String {
    html(&Report::from_reading(common::whole()))
}

fn page_of(reading: Reading) -> String {
    html(&Report::from_reading(reading))
}

#[test]
fn a_page_with_charts_has_their_script_once_and_another_page_has_none() {
    let drawing = "Draws each chart from the description beside its box";
    assert_eq!(whole().matches(drawing).count(), 1);
    let nothing = page_of(Reading { lines: vec![common::header()], problems: Vec::new() });
    assert!(!nothing.contains(drawing) && !nothing.contains("class=\"plot\""));
}

/// The suite `quick` has 116 cases in six charts of lines of some 20 mechanisms; this has 138 in six of up to three.
#[test]
fn a_page_of_some_hundred_cases_has_less_than_half_a_megabyte() {
    for (reading, most) in [(common::whole(), 500_000), (common::large(138), 500_000)] {
        let page = page_of(reading);
        assert!(page.len() < most, "{} bytes", page.len());
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let page = whole();
    for loads in
        [" src=", "<link", "@import", "url(", "http://", "https://", "fetch(", "import(", "XMLHttpRequest"]
    {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn every_section_is_there_once_and_can_be_reached() {
    let page = whole();
    for id in SECTIONS {
        assert_eq!(page.matches(&format!("<section id=\"{id}\">")).count(), 1, "{id}");
        assert_eq!(page.matches(&format!("href=\"#{id}\"")).count(), 1, "{id}");
    }
    assert_eq!(page.matches("<section ").count(), SECTIONS.len());
}

#[test]
fn a_section_without_content_is_left_out() {
    let page = page_of(common::interrupted());
    for id in ["findings", "scaling", "skipped"] {
        assert!(!page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("<section id=\"figures-1\">"));
}

#[test]
fn a_record_of_signals_streams_and_receivers_has_their_sections() {
    let page = page_of(common::patterns());
    for id in ["figures-1", "scaling", "series"] {
        assert_eq!(page.matches(&format!("<section id=\"{id}\">")).count(), 1, "{id}");
    }
    for title in ["Fan-in not pinned, payload 1 B, over streams", "Contention on two CPUs, over roles"] {
        assert!(page.contains(&format!("<figcaption>{title}</figcaption>")), "{title}");
    }
    assert!(!page.contains("over wait"), "an axis that is not a number is not drawn over");
    // The default number of streams is not in the id; the case line has it.
    assert!(page.contains("\"streams: 2000\""), "what is shown beside the pointer");
    assert!(page.contains("pipe streams=10 1 B fan-in free: run 4 of 7"), "the run in the middle is shown");
}

#[test]
fn elements_are_closed_in_the_order_in_which_they_were_opened() {
    for reading in
        [common::whole(), common::interrupted(), common::truncated(), common::hostile(), common::patterns()]
    {
        let page = page_of(reading);
        assert_eq!(unbalanced(&page), None);
    }
}

/// The first element that is closed out of turn or never.
fn unbalanced(page: &str) -> Option<String> {
    const VOID: [&str; 4] = ["meta", "br", "input", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("an element ends");
        let inside = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name: String =
            inside.chars().take_while(|c| c.is_ascii_alphanumeric() || "/!".contains(*c)).collect();
        match name.strip_prefix('/') {
            Some(closed) if open.last().is_some_and(|last| last == closed) => {
                open.pop();
            }
            Some(closed) => return Some(format!("</{closed}> while {open:?} are open")),
            None if VOID.contains(&name.as_str()) => {}
            None => {
                // What stands inside a script or a style is not markup.
                if name == "script" || name == "style" {
                    rest = &rest[rest.find(&format!("</{name}>")).expect("its end")..];
                }
                open.push(name);
            }
        }
    }
    open.pop()
}

#[test]
fn foreign_text_is_shown_and_never_obeyed() {
    let page = page_of(common::hostile());
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let charts: Vec<&str> = page.split("<script type=\"application/json\">").skip(1).collect();
    assert!(charts.iter().any(|chart| chart.contains("\\u003cimg src=x")), "the charts name the mechanism");
    for chart in charts {
        let (json, _) = chart.split_once("</script>").expect("its end");
        assert!(!json.contains('<'), "nothing in a description can end it: {json:.200}");
    }
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn findings_say_which_order_is_sure_and_list_every_contestant() {
    let page = whole();
    assert!(page.contains("surely in this order: ring-futex, then pipe and unix-stream, then tcp"));
    assert!(page.contains("expected to be wrong by chance: 0.1."));
    assert!(page.contains("times the cost of ring-futex"));
    assert!(
        page.contains("mq-posix and pipe were compared in 3 pairs only"),
        "a pair without runs is listed by itself"
    );
}

#[test]
fn two_records_name_their_lines() {
    let readings = [("before".to_string(), common::whole()), ("after".to_string(), common::whole())];
    let page = html(&Report::from_readings(readings));
    assert!(page.contains("\"name\":\"pipe [before]\"") && page.contains("\"name\":\"pipe [after]\""));
}

#[test]
fn a_large_record_has_a_chart_per_placement_and_a_row_per_case() {
    let page = page_of(common::large(500));
    // Time, switches and CPU time at two placements.
    assert_eq!(page.matches("class=\"plot\"").count(), 6);
    let table = &page[page.find("id=\"sortable\"").unwrap()..];
    let table = &table[..table.find("</table>").unwrap()];
    assert_eq!(table.matches("<tr>").count(), 501);
}

/// What a chart says of a point, from its description.
fn said(page: &str) -> Vec<String> {
    let descriptions = page.split("<script type=\"application/json\">").skip(1).map(|rest| {
        let (json, _) = rest.split_once("</script>").expect("its end");
        serde_json::from_str::<Value>(json).expect("a description")
    });
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().expect("a list").iter();
        all.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    descriptions
        .flat_map(|chart| {
            let list = |name: &str| chart[name].as_array().cloned().unwrap_or_default();
            let points =
                list("lines").into_iter().flat_map(|line| line["points"].as_array().cloned().unwrap());
            let pieces = list("bars").into_iter().flat_map(|bar| bar["pieces"].as_array().cloned().unwrap());
            let of_points = points.flat_map(|point| texts(&point[3])).collect::<Vec<_>>();
            let of_pieces = pieces.flat_map(|piece| texts(&piece[2])).collect::<Vec<_>>();
            let of_strips =
                list("strips").iter().flat_map(|strip| texts(&strip["texts"])).collect::<Vec<_>>();
            [of_points, of_pieces, of_strips].concat()
        })
        .collect()
}

#[test]
fn without_scripts_what_charts_without_a_table_say_is_in_one() {
    let page = page_of(common::patterns());
    let (tables, _) = page.split_once("<script>\n").expect("scripts come last");
    let without: String = tables
        .split("<noscript>")
        .skip(1)
        .map(|rest| rest.split_once("</noscript>").expect("its end").0)
        .collect();
    assert!(without.contains("streams: 2000, "), "{without:.2000}");
    let alone = tables.split("<figure class=\"chart\">").skip(1).filter(|rest| {
        let (_, after) = rest.split_once("</figure>").expect("its end");
        after.trim_start().starts_with("<noscript>") || after.contains("</p>\n<noscript>")
    });
    let says: Vec<String> = alone.flat_map(said).collect();
    assert!(says.len() > 100, "{}", says.len());
    for text in says {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        assert!(without.contains(&escaped), "{text}");
    }
}
