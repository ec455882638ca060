//! A few operations as a picture for the record: those whose length is nearest to what is usual.

use weighbridge_record::{Picture, PictureArrow, PictureLane, PictureSpan};
use weighbridge_stats::order::median;

use crate::timeline::lanes::{Arrow, Lane, Of, What, lanes};
use crate::timeline::subject::{Operation, Subject};

/// Operations that are shown.
const SHOWN: usize = 3;
/// A picture with more than these is none that can be read, nor a small part of a page.
const MOST_SPANS: usize = 400;

/// The picture. Empty where there are no operations.
pub fn picture(subject: &Subject, operations: &[Operation]) -> Picture {
    let has_room =
        |picture: &Picture| picture.lanes.iter().map(|lane| lane.spans.len()).sum::<usize>() <= MOST_SPANS;
    let drawn = |(from_ns, to_ns): (u64, u64)| {
        // A little more, so that the last arrow has its end.
        let margin_ns = (to_ns - from_ns) / 50;
        let (from_ns, to_ns) = (from_ns.saturating_sub(margin_ns), to_ns + margin_ns);
        let (lanes, arrows) = lanes(subject, from_ns, to_ns);
        of(&lanes, &arrows, from_ns, to_ns)
    };
    let windows = (1..=SHOWN).rev().filter_map(|count| usual(operations, count));
    let picture = windows.map(drawn).find(has_room).unwrap_or_default();
    if picture.arrows.iter().any(|arrow| arrow.is_message) {
        return picture;
    }
    // Messages take longer than what is between them: one on its way shows both ends at work.
    usual_message(subject, operations).map(drawn).filter(has_room).unwrap_or(picture)
}

/// The time of a message whose way is as long as is usual.
fn usual_message(subject: &Subject, operations: &[Operation]) -> Option<(u64, u64)> {
    let (first, last) = (operations.first()?, operations.last()?);
    let mut ways: Vec<(u64, u64)> = subject
        .messages(first.begins_ns, last.ends_ns)
        .iter()
        .map(|message| (message.begins_ns, message.read_ns))
        .filter(|(_, read_ns)| *read_ns <= last.ends_ns)
        .collect();
    ways.sort_by_key(|(begins_ns, read_ns)| read_ns - begins_ns);
    ways.get(ways.len() / 2).copied()
}

/// So many operations that follow each other, together as long as is usual.
fn usual(operations: &[Operation], count: usize) -> Option<(u64, u64)> {
    let follow = |of: &&[Operation]| of.windows(2).all(|pair| pair[0].ends_ns == pair[1].begins_ns);
    let windows: Vec<(u64, u64)> =
        operations.windows(count).filter(follow).map(|of| (of[0].begins_ns, of[count - 1].ends_ns)).collect();
    let lengths: Vec<f64> = windows.iter().map(|(from_ns, to_ns)| (to_ns - from_ns) as f64).collect();
    let usual_ns = (!lengths.is_empty()).then(|| median(&lengths))?;
    let distance = |(from_ns, to_ns): &(u64, u64)| ((to_ns - from_ns) as f64 - usual_ns).abs();
    windows.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// Lanes and arrows with times from `from_ns` on. Wake-ups and CPUs with nothing in them are left out.
pub fn of(lanes: &[Lane], arrows: &[Arrow], from_ns: u64, to_ns: u64) -> Picture {
    let place = |ns: u64| ns.clamp(from_ns, to_ns) - from_ns;
    let lane = |lane: &Lane| PictureLane {
        lane: lane.name.clone(),
        spans: lane
            .spans
            .iter()
            .map(|span| PictureSpan {
                between_ns: [place(span.from_ns), place(span.to_ns)],
                what: span.what.word().into(),
                role: match (span.what, lane.of) {
                    (What::Run(role), _) => role.map(|role| role as u64),
                    (What::Write, Of::Role(role, _)) => Some(role as u64),
                    _ => None,
                },
                name: span.name.clone(),
            })
            .collect(),
    };
    let arrow = |arrow: &Arrow| PictureArrow {
        lanes: [arrow.from as u64, arrow.to as u64],
        between_ns: [place(arrow.from_ns), place(arrow.to_ns)],
        is_message: arrow.is_message,
        name: arrow.name.clone(),
    };
    Picture {
        length_ns: to_ns - from_ns,
        lanes: lanes.iter().map(lane).collect(),
        arrows: arrows.iter().map(arrow).collect(),
    }
}
