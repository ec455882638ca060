//! Strings as numbers: traffic repeats the same few thousand names.

use std::collections::HashMap;
use std::sync::Arc;

/// A string that was seen. The empty string is number 0 and stands for absence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sym(pub u32);

impl Sym {
    pub const NONE: Sym = Sym(0);
}

#[derive(Debug)]
pub(crate) struct Symbols {
    numbers: HashMap<Arc<str>, Sym>,
    texts: Vec<Arc<str>>,
}

impl Default for Symbols {
    fn default() -> Symbols {
        let mut symbols = Symbols { numbers: HashMap::new(), texts: Vec::new() };
        assert_eq!(symbols.add(""), Sym::NONE);
        symbols
    }
}

impl Symbols {
    pub fn add(&mut self, text: &str) -> Sym {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let sym = Sym(u32::try_from(self.texts.len()).expect("memory ends before four billion strings"));
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, sym);
        sym
    }

    pub fn add_optional(&mut self, text: Option<&str>) -> Sym {
        text.map_or(Sym::NONE, |text| self.add(text))
    }

    /// The number of a string that was seen before.
    pub fn get(&self, text: &str) -> Option<Sym> {
        self.numbers.get(text).copied()
    }

    pub fn text(&self, sym: Sym) -> &str {
        &self.texts[sym.0 as usize]
    }
}
