//! What an operation costs beside time, over payload size: context switches and CPU time.

use weighbridge_record::PerOp;

use crate::html::axis::{LogAxis, linear};
use crate::html::chart::{self, Point};
use crate::html::section::over_size;
use crate::html::{Page, Section};
use crate::matrix::Matrix;
use crate::units::{count, size, with_unit};
use crate::words::placement;

pub const SECTION: Section =
    Section { id: "per-op", title: "Context switches and CPU time per operation", body };

fn body(page: &Page<'_>) -> Option<String> {
    let over_size = page.matrices.iter().filter(|matrix| matrix.has_sizes());
    let charts: String = over_size.map(|matrix| switches(page, matrix) + &cpu(page, matrix)).collect();
    let about = "<p class=\"about\">An operation is one round trip, or one message of a stream. Counts are summed \
                 over all roles.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}

fn switches(page: &Page<'_>, matrix: &Matrix<'_>) -> String {
    let all = |per_op: &PerOp| per_op.voluntary_switches + per_op.involuntary_switches;
    let lines = over_size::lines(page, matrix, |case, summary| {
        let per_op = &summary.per_op;
        let hover = vec![
            format!("{} {}", size(case.id.payload_bytes), placement(matrix.placement)),
            format!("{} voluntary", count(per_op.voluntary_switches)),
            format!("{} involuntary", count(per_op.involuntary_switches)),
        ];
        Point { x: 0.0, y: all(per_op), interval: None, hover }
    });
    let title = format!("Context switches per operation: {}", over_size::title(matrix));
    let x = LogAxis::sizes(&matrix.sizes).axis();
    chart::lines(&title, x, linear("voluntary and involuntary"), &lines)
}

fn cpu(page: &Page<'_>, matrix: &Matrix<'_>) -> String {
    let mut lines = over_size::lines(page, matrix, |case, summary| {
        let cpu_ns = summary.per_op.cpu_ns;
        let hover = vec![
            format!("{} {}", size(case.id.payload_bytes), placement(matrix.placement)),
            format!("{} of CPU time", with_unit("ns", cpu_ns)),
        ];
        Point { x: 0.0, y: cpu_ns, interval: None, hover }
    });
    // CPU time is counted in ticks by some kernels, so zero is possible, and a logarithmic axis has no place for it.
    lines.iter_mut().for_each(|line| line.points.retain(|point| point.y > 0.0));
    let (low, high) = over_size::range(lines.iter().flat_map(|line| &line.points).map(|point| point.y));
    let title = format!("CPU time per operation: {}", over_size::title(matrix));
    let x = LogAxis::sizes(&matrix.sizes).axis();
    chart::lines(&title, x, LogAxis::values("ns/operation", low, high).axis(), &lines)
}
