//! Color, dash and symbol of each mechanism: the same in every chart of a page.

use std::collections::HashMap;

use plotly::common::{DashType, MarkerSymbol};

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
    /// The look of a line that is no mechanism of its own; neighbors differ.
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

    /// Its dash: solid for the first seven, and so on.
    pub fn dash(self) -> DashType {
        [DashType::Solid, DashType::Dash, DashType::Dot, DashType::DashDot][self.index / COLORS.len() % 4]
            .clone()
    }

    /// Its symbol; neighbors differ.
    pub fn symbol(self) -> MarkerSymbol {
        use MarkerSymbol::{Circle, Cross, Diamond, Pentagon, Square, Star, TriangleDown, TriangleUp, X};
        [Circle, Square, Diamond, TriangleUp, X, Cross, TriangleDown, Star, Pentagon][self.index % 9].clone()
    }
}

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
            let dash = serde_json::to_string(&look.dash()).unwrap();
            (look.color(1.0), dash, serde_json::to_string(&look.symbol()).unwrap())
        };
        let all: std::collections::HashSet<_> = (0..50).map(look).collect();
        assert_eq!(all.len(), 50);
    }
}
