//! Color, dash and symbol of each mechanism: the same in every chart of a page.

use std::collections::HashMap;

use crate::matrix::{Column, Matrix};

/// Seven colors that people with any kind of color vision can tell apart, after Okabe and Ito; their yellow and
/// black are left out, since one is lost on white and the other on black.
const COLORS: [(u8, u8, u8); 7] = [
    (0, 130, 200),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (140, 140, 140),
];

/// How one line is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    index: usize,
}

impl Look {
    /// The look of a line that is not a mechanism of its own; neighbors differ.
    pub fn nth(index: usize) -> Look {
        Look { index }
    }

    /// Its color with an opacity from 0 to 1.
    pub fn color(self, opacity: f64) -> String {
        let (red, green, blue) = COLORS[self.index % COLORS.len()];
        format!("rgba({red},{green},{blue},{opacity})")
    }

    /// Its color as `#0082c8`.
    pub fn hex(self) -> String {
        let (red, green, blue) = COLORS[self.index % COLORS.len()];
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    /// Its dash as lengths of strokes and gaps, solid for the first seven, and so on.
    pub fn dash(self) -> &'static str {
        ["", "7 4", "2 3", "7 3 2 3"][self.index / COLORS.len() % 4]
    }

    /// Its symbol as a path around the point; neighbors differ.
    pub fn symbol(self) -> &'static str {
        SYMBOLS[self.index % SYMBOLS.len()]
    }
}

/// Circle, square, diamond, triangle, ×, +, triangle upside down, star and pentagon: eight pixels wide, of relative steps.
const SYMBOLS: [&str; 9] = [
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "m-3-3h6v6h-6z",
    "m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z",
    "m0-4l4 7h-8z",
    "m-4-2.5l1.5-1.5 2.5 2.5 2.5-2.5 1.5 1.5-2.5 2.5 2.5 2.5-1.5 1.5-2.5-2.5-2.5 2.5-1.5-1.5 2.5-2.5z",
    "m-1-4h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
    "m0 4l4-7h-8z",
    "m0-4.5l1.1 3h3.2l-2.5 2 .9 3-2.7-1.8-2.7 1.8 .9-3-2.5-2h3.2z",
    "m0-4l3.8 2.8-1.5 4.5h-4.6l-1.5-4.5z",
];

/// The looks of all mechanisms of a page.
#[derive(Debug, Default)]
pub struct Looks {
    looks: HashMap<(usize, String), Look>,
}

impl Looks {
    /// Gives each mechanism its look, those with default axes first, so that they get the plain ones.
    pub fn new(matrices: &[Matrix<'_>]) -> Looks {
        let mut looks = HashMap::new();
        for defaults in [true, false] {
            let columns = matrices.iter().flat_map(|matrix| &matrix.columns);
            for column in columns.filter(|column| column.is_default == defaults) {
                let index = looks.len();
                looks.entry((column.source, column.name.clone())).or_insert(Look { index });
            }
        }
        Looks { looks }
    }

    /// The look of a mechanism.
    pub fn of(&self, column: &Column) -> Look {
        self.looks.get(&(column.source, column.name.clone())).copied().unwrap_or(Look { index: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_the_first_fifty_look_alike() {
        let look = |index| {
            let look = Look { index };
            (look.hex(), look.dash(), look.symbol())
        };
        let all: std::collections::HashSet<_> = (0..50).map(look).collect();
        assert_eq!(all.len(), 50);
    }
}
