//! Mechanisms of others from shared objects: `weighbridge run --target ./libmine.so 'roundtrip/mine/*'`.
//!
//! The contract is `own/weighbridge-target.h` beside the sources of this crate. A mechanism of a shared object is a mechanism like those
//! that are compiled in: patterns, checks, counters and suites follow from its entry in the catalogue. The coordinator never runs its
//! code: `child` looks at it and calls its `create`, and the ends are in peers. This keeps mistakes apart, not malice: its
//! processes are those of the user.
//!
//! The way of a file: [`load`] has it described and adds it · [`register_for_peer`] adds the same in a peer, from what
//! the coordinator has put into its environment, without loading it · `attach` loads it, if it is still the same file.

mod abi;
mod child;
mod described;
mod fan_in;
mod fan_out;
mod leftover;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use weighbridge_harness::axis::Peers;
use weighbridge_harness::contract::CounterCheck;
use weighbridge_harness::{catalogue, pattern};
use weighbridge_probe::counters;
use weighbridge_record::PerOp;

use crate::many::no_faults;
use crate::place::{self, Place};
use crate::prelude::*;
use child::{Object, Of};
use described::Description;
use leftover::Leftover;

pub use child::{ARGUMENT, main};

/// The variable in which a peer finds its target.
const VARIABLE: &str = "WEIGHBRIDGE_TARGET";
/// What places are for.
const WHAT: &str = "own";

/// A mechanism, and where it is from.
#[derive(Debug, Serialize, Deserialize)]
struct Mine {
    object: Object,
    description: Description,
}

static LOADED: Mutex<Vec<&'static Mine>> = Mutex::new(Vec::new());

/// Adds the mechanisms of these shared objects to the catalogue, after having them described. To be called before
/// anything is looked up there. The error is one sentence that names the file.
pub fn load(paths: &[PathBuf]) -> Result<(), String> {
    paths.iter().try_for_each(|path| add(path))
}

fn add(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let object = Object::of(path).map_err(|error| format!("--target {shown}: it cannot be read: {error}"))?;
    let found = child::describe(&object).map_err(|error| format!("--target {shown}: {error}"))?;
    for description in found {
        if catalogue::is_taken(&description.name) {
            return Err(format!(
                "--target {shown}: its mechanism {0} has the name of another one; `weighbridge list {0}` says of which",
                description.name
            ));
        }
        enter(Mine { object: object.clone(), description });
    }
    Ok(())
}

/// In a peer: adds the target of its case, if that is one of a shared object.
pub fn register_for_peer() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    // What is no target is none of ours; the peer says that it does not know the case.
    if let Ok(mine) = serde_json::from_str::<Mine>(&text) {
        enter(mine);
    }
}

fn enter(mine: Mine) {
    let text: &'static str = serde_json::to_string(&mine).expect("it is plain data").leak();
    let mine: &'static Mine = Box::leak(Box::new(mine));
    let environment: &'static [_] = Box::leak(Box::new([(VARIABLE, text)]));
    let target = Target {
        id: &mine.description.name,
        about: &mine.description.about,
        caps: mine.description.caps(),
        waits: mine.description.waits().leak(),
        environment,
        ..pattern::target::<Own>()
    };
    let Target { id, about, caps, waits, environment, .. } = target;
    let as_it_says =
        |of: Target| Target { id, about, caps, waits, environment, counter_check: check_counters, ..of };
    let fans = [
        mine.description.does_fan_out().then_some(fan_out::TARGET),
        mine.description.does_fan_in().then_some(fan_in::TARGET),
    ];
    let targets: Vec<Target> =
        [target].into_iter().chain(fans.into_iter().flatten().map(as_it_says)).collect();
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).push(mine);
    let family = Family { cleanup: || place::cleanup(WHAT), ..Family::of(targets.leak()) };
    catalogue::add(Box::leak(Box::new([family])));
}

/// The mechanism of a case.
fn mine(params: &CaseParams) -> &'static Mine {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = loaded.iter().copied();
    let found = all.find(|mine| mine.description.name == params.id.mechanism);
    found.expect("a case is resolved with the target that was entered with it")
}

impl Mine {
    /// Says of an error which file it is about.
    fn error(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.object.path.display()))
    }

    fn of(&self, params: &CaseParams, place: Place, ends: usize) -> Of {
        Of {
            name: self.description.name.clone(),
            end_count: ends as u32,
            payload_bytes: params.payload_bytes,
            wait: params.wait.name().into(),
            pattern: params.id.pattern.clone(),
            folder: place.root().to_string_lossy().into_owned(),
            prefix: place.prefix(),
        }
    }
}

/// Any of them; which one, the case says.
struct Own;

impl Mechanism for Own {
    const ID: &'static str = "own";
    const ABOUT: &'static str = "a mechanism of a shared object";
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = &[];
    const COUNTER_CHECK: Option<CounterCheck> = Some(check_counters);
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = OwnEnd;

    fn caps(params: &CaseParams) -> Caps {
        mine(params).description.caps()
    }

    /// Its header has no words for what a choice may demand, so that nothing is claimed of it.
    fn properties(_params: &CaseParams) -> Properties {
        Properties::default()
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fits_peers(params)?;
        let Description { name, to_itself_bytes, .. } = &mine(params).description;
        if params.id.pattern != "self" {
            return Ok(());
        }
        let says = match *to_itself_bytes {
            0 => "that one thread cannot have both of its ends".into(),
            most if params.payload_bytes > most => {
                format!("that {most} bytes are the most that one thread can send itself")
            }
            _ => return Ok(()),
        };
        Err(Unsupported(format!("{name} says of itself {says}")))
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let ends: Result<[EndResources; 2], _> = create(params, 2)?.try_into();
        Ok(ends.unwrap_or_else(|ends| panic!("of two ends there are {}", ends.len())))
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<OwnEnd> {
        attach(resources, params)
    }
}

/// Threads of a library cannot be told apart from those of the other ends where all are in one process.
fn fits_peers(params: &CaseParams) -> Result<(), Unsupported> {
    let description = &mine(params).description;
    if description.has_threads() && params.choice::<Peers>() == Peers::Thread {
        return Err(Unsupported(format!(
            "{} has threads of its own, which are counted by process; leave out peers=thread",
            description.name
        )));
    }
    Ok(())
}

/// What each of so many ends gets: the words are its place, how many ends there are and which of them this is, the number of bytes, and
/// the bytes.
fn create(params: &CaseParams, count: usize) -> io::Result<Vec<EndResources>> {
    let mine = mine(params);
    let (place, guard) = Place::create(WHAT)?;
    // Dropped before the guard: what goes on makes no more files.
    let guard = (Leftover::of(place.prefix()), guard);
    let made =
        child::create(&mine.object, mine.of(params, place, count)).map_err(|error| mine.error(&error))?;
    let of_end = |(number, (fds, bytes)): (usize, (Vec<OwnedFd>, Vec<u8>))| {
        let packed = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let words = [count, number, bytes.len()].map(|number| number as u64);
        let words = place.words().into_iter().chain(words).chain(packed).collect();
        let environment = vec![(leftover::VARIABLE.into(), place.prefix())];
        EndResources { words, environment, ..EndResources::of(fds) }
    };
    let mut ends: Vec<EndResources> = made.into_iter().enumerate().map(of_end).collect();
    ends[0].guard = Some(Box::new(guard));
    Ok(ends)
}

/// An end of what [`create`] made.
fn attach(resources: EndResources, params: &CaseParams) -> io::Result<OwnEnd> {
    let mine = mine(params);
    let EndResources { fds, words, .. } = resources;
    let (place, rest) = words.split_at(2);
    let ([count, number, len], packed) = rest.split_first_chunk().expect("`create` has put it there");
    let bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).take(*len as usize).collect();
    let of = mine.of(params, Place::of(WHAT, place), *count as usize);
    if mine.description.has_threads() {
        counters::count_whole_process();
    }
    let attached = mine.object.load().and_then(|loaded| {
        loaded.attach(&of.name, of.case()?, *number as u32, child::resources(fds, &bytes))
    });
    let end = attached.map_err(|error| mine.error(&error))?;
    Ok(OwnEnd { end, mine, most_bytes: params.payload_bytes, position: None, has_moved: false })
}

/// As for mechanisms of ours; but what switches where a library has threads of its own, nobody knows.
fn check_counters(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let description = &mine(&case.params).description;
    let maps = description.caps().has(Caps::MAPS);
    match &case.params.id.pattern[..] {
        "roundtrip" | "stream" | "self" if !description.has_threads() => {
            counter_check::of_messages(case, per_op)
        }
        "fan-out" if !description.has_threads() && !maps => crate::fan_out::counter_check(case, per_op),
        _ if maps => Vec::new(),
        _ => no_faults(case, per_op),
    }
}

/// One end, whatever is behind it.
struct OwnEnd {
    end: abi::End,
    mine: &'static Mine,
    most_bytes: usize,
    /// How far it had come when that was last asked for: of an end that receives, around its messages.
    position: Option<u64>,
    has_moved: bool,
}

/// Room for a message, and whose it is.
struct OwnRoom<'a> {
    room: abi::Room<'a>,
    mine: &'static Mine,
}

impl AsMut<[u8]> for OwnRoom<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.room.as_mut()
    }
}

impl OwnEnd {
    /// Its memory touched, before anything is timed.
    fn prefaulted(mut self) -> io::Result<OwnEnd> {
        self.prefault()?;
        Ok(self)
    }

    /// Sends a message that `write` writes where it will be sent from.
    #[inline]
    fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut room = self.loan(len)?;
        write(room.as_mut());
        OwnEnd::commit(room)
    }
}

impl Endpoint for OwnEnd {
    type Tx<'a> = OwnRoom<'a>;
    type Rx<'a> = abi::Taken<'a>;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<OwnRoom<'_>> {
        let mine = self.mine;
        let room = self.end.loan(len).map_err(|error| mine.error(&error))?;
        Ok(OwnRoom { room, mine })
    }

    #[inline]
    fn commit(tx: OwnRoom<'_>) -> io::Result<()> {
        tx.room.commit().map_err(|error| tx.mine.error(&error))
    }

    #[inline]
    fn take(&mut self, len: usize) -> io::Result<abi::Taken<'_>> {
        let taken = self.end.take(len).map_err(|error| self.mine.error(&error))?;
        let (received, most) = (taken.as_ref().len(), self.most_bytes.max(len));
        if received > most {
            return Err(self.mine.error(&io::Error::other(format!(
                "its function `take` gave a message of {received} bytes; the largest of this case has {most}"
            ))));
        }
        Ok(taken)
    }

    #[inline]
    fn position(&mut self) -> u64 {
        let position = self.end.position();
        self.has_moved |= self.position.replace(position).is_some_and(|before| before != position);
        position
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.end.prefault().map_err(|error| self.mine.error(&error))
    }

    fn settle(&mut self) -> io::Result<()> {
        self.end.settle().map_err(|error| self.mine.error(&error))?;
        match self.position.filter(|_| self.end.has_position() && !self.has_moved) {
            None => Ok(()),
            Some(still) => Err(self.mine.error(&io::Error::other(format!(
                "its function `position` says {still} before the first message and after the last"
            )))),
        }
    }

    /// Its own, and where it is from.
    fn facts(&self) -> io::Result<Facts> {
        let mut facts = self.end.facts().map_err(|error| self.mine.error(&error))?;
        let Mine { object, description } = self.mine;
        facts.insert("target_file".into(), object.path.display().to_string());
        facts.insert("target_fnv1a".into(), object.digest.clone());
        facts.insert("target_version".into(), description.measured_version.clone());
        Ok(facts)
    }
}
