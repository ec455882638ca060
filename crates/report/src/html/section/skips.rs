//! Cases without a figure, and why.

use crate::html::section::remarks::block;
use crate::html::{Page, Section};
use crate::notes::{Kind, remarks};

pub const SECTION: Section = Section { id: "skips", title: "Skipped, and why", body };

fn body(page: &Page<'_>) -> Option<String> {
    let all = remarks(page.report, &page.matrices);
    let all: String = all.iter().filter(|remarks| remarks.kind == Kind::NoFigure).map(block).collect();
    (!all.is_empty()).then_some(all)
}
