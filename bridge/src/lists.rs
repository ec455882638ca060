//! What may cross: lists of names, empty by default.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Names of groups and of the bus that may cross in one direction.
///
/// `com.example.*` stands for all names that begin so, `*` for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Reads a list: names with commas between them.
    pub fn parse(text: &str) -> Result<Names, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let parse = |name: &str| match name.strip_suffix('*').unwrap_or(name) {
            stem if stem.contains('*') => Err(format!("{name}: a * stands at the end of a name only")),
            _ => Ok(name.to_owned()),
        };
        Ok(Names(names.map(parse).collect::<Result<_, _>>()?))
    }

    /// All names of several lists.
    pub fn of(lists: &[Names]) -> Names {
        Names(lists.iter().flat_map(|list| list.0.iter().cloned()).collect())
    }

    /// Whether a name is in the list.
    pub fn contain(&self, name: &str) -> bool {
        let is_it = |of: &String| match of.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => of == name,
        };
        self.0.iter().any(is_it)
    }

    /// Whether nothing is in the list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names that stand for themselves alone.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).filter(|name| !name.ends_with('*'))
    }
}

/// Topics of a group that may cross; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics(Option<BTreeSet<u32>>);

impl Topics {
    /// Whether a topic is among them.
    pub fn contain(&self, topic: u32) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.contains(&topic))
    }
}

/// A group as it is named on the command line: `PATH`, or `PATH:1,5-9` for these topics alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// Its socket.
    pub path: PathBuf,
    /// Its name in keys and lists: that of the socket's file, without an ending `.sock`.
    pub name: String,
    /// The topics that cross, in both directions.
    pub topics: Topics,
}

/// Topics that one list may name.
const TOPICS_MAX: u32 = 65_536;

impl GroupPlace {
    /// Reads one.
    pub fn parse(text: &str) -> Result<GroupPlace, String> {
        let (path, topics) = match text.rsplit_once(':') {
            Some((path, topics)) if topics.starts_with(|c: char| c.is_ascii_digit()) => (path, Some(topics)),
            _ => (text, None),
        };
        let topics =
            topics.map(|text| text.split(',').map(range).collect::<Result<Vec<_>, _>>()).transpose()?;
        let topics = Topics(topics.map(|ranges| ranges.into_iter().flatten().collect()));
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let name = name.map(|name| name.strip_suffix(".sock").unwrap_or(name));
        match name {
            None | Some("") => Err(format!("{text}: write the path of a group's socket")),
            Some("bus") => Err(format!(
                "{text}: a group with the name bus would have the keys of the bus; serve it at another path"
            )),
            Some(name) => Ok(GroupPlace { path: path.into(), name: name.to_owned(), topics }),
        }
    }
}

fn range(text: &str) -> Result<std::ops::RangeInclusive<u32>, String> {
    let wrong =
        || format!("{text}: write a topic, such as 7, or topics, such as 1-5, of at most {TOPICS_MAX}");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first > last || last - first >= TOPICS_MAX { Err(wrong()) } else { Ok(first..=last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_names_that_it_says_and_an_empty_one_has_none() {
        let names = Names::parse("prices, com.example.*").unwrap();
        let found = ["prices", "prices2", "com.example.Clock", "com.example", "com.other"]
            .map(|name| names.contain(name));
        assert_eq!(found, [true, false, true, false, false]);
        assert!(
            Names::default().is_empty()
                && !Names::default().contain("")
                && Names::parse("").unwrap().is_empty()
        );
        assert!(Names::parse("*").unwrap().contain("anything"));
        assert!(Names::parse("a*b").unwrap_err().contains("at the end"));
        assert_eq!(names.exact().collect::<Vec<_>>(), ["prices"]);
    }

    #[test]
    fn a_group_is_a_path_with_or_without_topics() {
        let all = GroupPlace::parse("/run/prices.sock").unwrap();
        assert_eq!((all.name.as_str(), all.topics.contain(u32::MAX)), ("prices", true));
        let some = GroupPlace::parse("/run/a:b/prices:1,5-7").unwrap();
        assert_eq!((some.path.to_str().unwrap(), some.name.as_str()), ("/run/a:b/prices", "prices"));
        assert_eq!(
            [0, 1, 2, 5, 7, 8].map(|topic| some.topics.contain(topic)),
            [false, true, false, true, true, false]
        );
        assert_eq!(
            GroupPlace::parse("/run/a:b").unwrap().name,
            "a:b",
            "a colon that no list of topics follows is a part of the path"
        );
        for wrong in ["/run/prices:7-1", "/run/prices:1,x", "/", "", "/run/bus", "/run/p:0-4294967295"] {
            assert!(GroupPlace::parse(wrong).is_err(), "{wrong}");
        }
    }
}
