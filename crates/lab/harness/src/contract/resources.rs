//! What the coordinator makes for one end of a case, and what the end says of itself afterwards.

use std::any::Any;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The two ends of a case. What each of them does is the pattern's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that speaks first.
    Near,
    /// The other one.
    Far,
}

/// What the coordinator gives to one end.
#[derive(Debug, Default)]
pub struct EndResources {
    /// Descriptors, in an order that the mechanism knows.
    pub fds: Vec<OwnedFd>,
    /// Plain numbers, likewise.
    pub words: Vec<u64>,
    /// Variables in the environment of the process that has this end.
    pub environment: Vec<(String, String)>,
    /// Stays in the coordinator, and is dropped when the peers are gone: what takes away a name that descriptors do
    /// not keep.
    pub guard: Option<Box<dyn Any + Send>>,
}

impl EndResources {
    /// Resources that are only descriptors.
    pub fn of(fds: impl IntoIterator<Item = OwnedFd>) -> EndResources {
        EndResources { fds: fds.into_iter().collect(), ..EndResources::default() }
    }

    /// Both ends in one role: the resources of this one, followed by those of the far one.
    pub(crate) fn with(self, far: EndResources) -> EndResources {
        let counts = [self.fds.len() as u64, self.words.len() as u64];
        EndResources {
            fds: self.fds.into_iter().chain(far.fds).collect(),
            words: counts.into_iter().chain(self.words).chain(far.words).collect(),
            environment: self.environment.into_iter().chain(far.environment).collect(),
            guard: Some(Box::new((self.guard, far.guard))),
        }
    }

    /// The two ends that [`with`](EndResources::with) put together.
    pub(crate) fn apart(mut self) -> [EndResources; 2] {
        let [fds, words] = [self.words[0], self.words[1]].map(|count| count as usize);
        let far_words = self.words.split_off(2 + words);
        let far = EndResources { fds: self.fds.split_off(fds), words: far_words, ..EndResources::default() };
        self.words.drain(..2);
        [self, far]
    }

    /// Of both ends in one role, the numbers of the near end.
    pub fn near_words(&self) -> &[u64] {
        &self.words[2..2 + self.words[1] as usize]
    }

    /// Takes the next descriptor.
    pub fn take_fd(&mut self) -> OwnedFd {
        assert!(!self.fds.is_empty(), "attach wants more descriptors than create made");
        self.fds.remove(0)
    }
}

/// Effective settings, read back from the kernel: name to value with unit in the name.
pub type Facts = BTreeMap<String, String>;

/// What was counted in a whole run: name with unit to value.
pub type Figures = BTreeMap<&'static str, f64>;
