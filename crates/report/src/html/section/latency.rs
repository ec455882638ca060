//! Times over payload size, one chart per pattern and placement.

use crate::html::section::over_size;
use crate::html::{Page, Section};

pub const SECTION: Section = Section { id: "time", title: "Time over size", body };

fn body(page: &Page<'_>) -> Option<String> {
    let times = page.matrices.iter().filter(|matrix| matrix.has_sizes() && !matrix.unit.ends_with("/s"));
    let charts: String = times.map(|matrix| over_size::medians(page, matrix)).collect();
    let about = "<p class=\"about\">Lower is better. Both axes are logarithmic. The band around a line is the 95 % \
                 interval of its medians.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}
