//! A picture of cells: in the page with its script, and nowhere else.

use weighbridge_report::{Block, CellMap, Document, Drawing, Section, Style};

#[test]
fn a_picture_of_cells_is_in_the_page_with_its_script_and_takes_little_room() {
    let rows: Vec<String> = (0..2000).map(|row| format!("machine <{row}>")).collect();
    let map = CellMap { rows, columns: vec!["a".into(), "b".into()], cells: vec![-3; 4000], step: 0.01, full: 15 };
    let chart = Block::chart("Machines & cases", "How to read it", Drawing::Map(map), None);
    let page = |blocks| Document { sections: vec![Section::of("Picture", [], blocks)], ..Document::default() };
    let with = page(vec![chart.clone()]).html();
    assert!(with.contains("<canvas") && with.contains("figure.map") && with.contains("Machines &amp; cases"));
    assert!(!with.contains("machine <0>"), "names are escaped");
    let without = page(vec![Block::Paragraph("none".into())]).html();
    assert!(!without.contains("figure.map"));
    let room = with.len() - without.len();
    assert!(room < 2000 * 30 + 4000 * 4 / 3 + 8000, "{room} bytes");
    // A terminal has no pictures, and says what it is about.
    assert!(!page(vec![chart]).text(Style::default()).contains("canvas"));
}
