//! What is said of a figure that should be near another one, by its interval.

/// A case whose unexplained share is surely larger than this is not explained, and a price that is surely off by more is not confirmed.
pub const MOST_UNEXPLAINED: f64 = 0.15;
/// A case that surely costs no more than this share beyond the mechanism to itself has nothing to be explained.
const NEXT_TO_NOTHING: f64 = 0.05;

/// Of the unexplained share of what a case costs beyond the mechanism to itself. `beyond` is the interval of that over the cost, where it
/// is known.
pub(crate) fn of_case(beyond: Option<[f64; 2]>, unexplained: Option<[f64; 2]>) -> &'static str {
    match (beyond, unexplained) {
        (Some([low, high]), _) if low >= -NEXT_TO_NOTHING && high <= NEXT_TO_NOTHING => "self alone",
        (_, Some(ends)) => within(ends, ["explained", "not explained", "not settled"]),
        _ => "not settled",
    }
}

/// Of a price in the case over the same price alone.
pub(crate) fn of_price(ratio: Option<[f64; 2]>) -> &'static str {
    let words = ["confirmed", "not confirmed", "not settled"];
    ratio.map_or(words[2], |[low, high]| within([low - 1.0, high - 1.0], words))
}

/// Surely within the limits, surely beyond, or neither.
fn within([low, high]: [f64; 2], [inside, outside, neither]: [&'static str; 3]) -> &'static str {
    if low > MOST_UNEXPLAINED || high < -MOST_UNEXPLAINED {
        outside
    } else if low >= -MOST_UNEXPLAINED && high <= MOST_UNEXPLAINED {
        inside
    } else {
        neither
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_surely_inside_is_told_from_what_is_surely_outside_and_from_what_is_open() {
        for (beyond, unexplained, verdict) in [
            ([0.5, 0.6], Some([-0.1, 0.1]), "explained"),
            ([0.5, 0.6], Some([0.2, 0.3]), "not explained"),
            ([0.5, 0.6], Some([-0.3, -0.2]), "not explained"),
            ([0.5, 0.6], Some([0.1, 0.2]), "not settled"),
            ([0.5, 0.6], None, "not settled"),
            ([-0.04, 0.04], Some([-90.0, 90.0]), "self alone"),
            ([-0.04, 0.06], Some([-90.0, 90.0]), "not settled"),
        ] {
            assert_eq!(of_case(Some(beyond), unexplained), verdict, "{beyond:?} {unexplained:?}");
        }
        let of = |low, high| of_price(Some([low, high]));
        assert_eq!([of(0.9, 1.1), of(1.2, 1.3), of(1.1, 1.2)], ["confirmed", "not confirmed", "not settled"]);
    }
}
