//! Patterns that have no sizes, or only one: a dot with its interval for each mechanism.

use crate::html::axis::plain_axis;
use crate::html::chart;
use crate::html::section::over_size;
use crate::html::{Page, Section};
use crate::matrix::Matrix;
use crate::units::size;

pub const SECTION: Section = Section { id: "single", title: "One figure per mechanism", body };

fn body(page: &Page<'_>) -> Option<String> {
    let without = page.matrices.iter().filter(|matrix| !matrix.has_sizes());
    let charts: String = without.map(|matrix| chart(page, matrix)).collect();
    let about = "<p class=\"about\">Patterns without a payload, or measured at one size. The bar through a dot is the \
                 95 % interval; the best median stands at the top.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}

fn chart(page: &Page<'_>, matrix: &Matrix<'_>) -> String {
    let mut lines =
        over_size::lines(page, matrix, |case, summary| over_size::median_point(matrix, case, summary));
    // The axis begins at the bottom, so the worst comes first.
    let value = |line: &chart::Line| line.points.first().map_or(0.0, |point| point.y);
    lines.sort_by(|a, b| match matrix.higher_is_better {
        true => value(a).total_cmp(&value(b)),
        false => value(b).total_cmp(&value(a)),
    });
    let better = if matrix.higher_is_better { "higher is better" } else { "lower is better" };
    let payload = match matrix.sizes.first() {
        None | Some(0) => String::new(),
        Some(bytes) => format!(", payload {}", size(*bytes)),
    };
    let title = format!("{}{payload}, {better}", over_size::title(matrix));
    let names = plain_axis("").auto_range(true).dtick(1.0);
    let (values, lines) = over_size::value_axis(matrix.unit, &matrix.scale, lines);
    chart::dots(&title, values, names, &lines) + &over_size::table(matrix)
}
