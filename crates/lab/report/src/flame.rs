//! A flame graph as data: boxes of functions above those that call them, as wide as their samples.

use std::collections::BTreeMap;

use weighbridge_record::Profile;

/// All boxes, from the left to the right and from the bottom upwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// The boxes.
    pub boxes: Vec<FlameBox>,
    /// Samples of all of them.
    pub samples: u64,
    /// What the widths count: `samples`.
    pub unit: &'static str,
    /// Rows.
    pub rows: usize,
}

/// A function, below it its caller; in the lowest row a role.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameBox {
    /// The role or the function.
    pub name: String,
    /// A function of the kernel?
    pub in_kernel: bool,
    /// Its row, from 0 at the bottom.
    pub row: usize,
    /// Where it begins, as a share of the width.
    pub left: f64,
    /// Its share of the width.
    pub width: f64,
    /// Its samples, with those of what it calls.
    pub samples: u64,
}

/// A function and what it calls, by name.
#[derive(Debug, Default)]
struct Node {
    samples: u64,
    calls: BTreeMap<String, Node>,
}

impl Flame {
    /// From stacks as a record has them: names with `;` between them, the outermost first, and their samples.
    pub fn of(folded: &[(String, u64)], unit: &'static str) -> Flame {
        let mut root = Node::default();
        for (stack, samples) in folded {
            root.samples += samples;
            let mut node = &mut root;
            for name in stack.split(';') {
                node = node.calls.entry(name.to_owned()).or_default();
                node.samples += samples;
            }
        }
        let mut flame = Flame { samples: root.samples, unit, ..Flame::default() };
        flame.place(&root, 0, 0);
        flame.rows = flame.boxes.iter().map(|of| of.row + 1).max().unwrap_or(0);
        flame
    }

    fn place(&mut self, caller: &Node, row: usize, mut left: u64) {
        let share = |samples: u64| samples as f64 / self.samples.max(1) as f64;
        let mut places = Vec::new();
        for (name, node) in &caller.calls {
            if share(node.samples) >= Profile::LEAST_SHARE {
                let kernel = name.strip_suffix(Profile::IN_KERNEL);
                places.push((
                    node,
                    left,
                    FlameBox {
                        name: kernel.unwrap_or(name).to_owned(),
                        in_kernel: kernel.is_some(),
                        row,
                        left: share(left),
                        width: share(node.samples),
                        samples: node.samples,
                    },
                ));
            }
            left += node.samples;
        }
        for (node, left, of) in places {
            self.boxes.push(of);
            self.place(node, row + 1, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_as_wide_as_its_samples_and_stands_on_its_caller() {
        let folded = [
            ("client;main;read_[k]".to_owned(), 60),
            ("client;main;write_[k]".to_owned(), 20),
            ("server;main".to_owned(), 20),
        ];
        let flame = Flame::of(&folded, "samples");
        assert_eq!((flame.samples, flame.rows), (100, 3));
        let find = |name: &str| flame.boxes.iter().filter(|of| of.name == name).collect::<Vec<_>>();
        assert_eq!((find("client")[0].left, find("client")[0].width, find("client")[0].row), (0.0, 0.8, 0));
        assert_eq!((find("write")[0].left, find("write")[0].width, find("write")[0].row), (0.6, 0.2, 2));
        assert!(find("write")[0].in_kernel && !find("main")[0].in_kernel);
        assert_eq!(find("main").len(), 2, "one for each role");
        assert_eq!((find("main")[1].left, find("main")[1].row), (0.8, 1));
    }

    #[test]
    fn what_is_too_narrow_is_left_out_with_all_that_stands_on_it() {
        let folded = [("client;a;b".to_owned(), 1), ("client;c".to_owned(), 999)];
        let names: Vec<String> = Flame::of(&folded, "samples").boxes.into_iter().map(|of| of.name).collect();
        assert_eq!(names, ["client", "c"]);
    }
}
