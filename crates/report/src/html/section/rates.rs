//! Bandwidth and other rates over payload size, one chart per pattern and placement.

use crate::html::section::over_size;
use crate::html::{Page, Section};

pub const SECTION: Section = Section { id: "rate", title: "Bandwidth and rates over size", body };

fn body(page: &Page<'_>) -> Option<String> {
    let rates = page.matrices.iter().filter(|matrix| matrix.has_sizes() && matrix.unit.ends_with("/s"));
    let charts: String = rates.map(|matrix| over_size::medians(page, matrix)).collect();
    let about = "<p class=\"about\">Higher is better. Both axes are logarithmic. Bytes are counted where they \
                 arrive.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}
