//! What a message carries: bytes, which were copied or are mapped, and descriptors.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use causeway_dbus_wire::wire::Body;
use causeway_os::lock::lock;

use crate::shared::body::SealedBody;

/// Arguments and descriptors of a message to be sent. A [`Body`] becomes one without descriptors.
///
/// An argument of type `h` is the index of its descriptor: see [`Payload::descriptor`].
#[derive(Debug, Default)]
pub struct Payload {
    pub(crate) body: Body,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Payload {
    /// These arguments, among them indices of these descriptors.
    pub fn new(body: Body, descriptors: Vec<OwnedFd>) -> Payload {
        Payload { body, descriptors }
    }

    /// Arguments and descriptors, for [`Connection::send_message_with_descriptors`](crate::Connection::send_message_with_descriptors).
    pub fn into_parts(self) -> (Body, Vec<OwnedFd>) {
        (self.body, self.descriptors)
    }

    /// Appends an argument of type `h` with its descriptor.
    pub fn descriptor(mut self, descriptor: OwnedFd) -> Payload {
        self.body = self.body.descriptor_index(self.descriptors.len() as u32);
        self.descriptors.push(descriptor);
        self
    }
}

impl From<Body> for Payload {
    fn from(body: Body) -> Payload {
        Payload { body, descriptors: Vec::new() }
    }
}

/// The bytes of a message. Those of a long one are mapped, and its clones share them.
#[derive(Clone, Debug)]
pub struct Bytes(Storage);

/// More bytes than a message of usual length has are given back to the allocator.
const BYTES_KEPT: usize = 4096;

#[derive(Clone, Debug)]
enum Storage {
    Copied(Vec<u8>),
    Mapped(Arc<SealedBody>),
}

impl Bytes {
    /// Do they lie in a file of their own, so that they were not copied?
    pub fn are_mapped(&self) -> bool {
        matches!(self.0, Storage::Mapped(_))
    }

    /// Where bytes are to be copied to.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.are_mapped() {
            *self = Bytes::default();
        }
        match &mut self.0 {
            Storage::Copied(bytes) => bytes,
            Storage::Mapped(_) => unreachable!("they were replaced"),
        }
    }

    /// Ends them; memory for a message of usual length is kept for the next one.
    #[inline]
    pub(crate) fn clear(&mut self) {
        match &mut self.0 {
            Storage::Copied(bytes) if bytes.capacity() <= BYTES_KEPT => bytes.clear(),
            _ => *self = Bytes::default(),
        }
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(Storage::Copied(Vec::new()))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Storage::Copied(bytes))
    }
}

impl From<SealedBody> for Bytes {
    fn from(body: SealedBody) -> Bytes {
        Bytes(Storage::Mapped(Arc::new(body)))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Copied(bytes) => bytes,
            Storage::Mapped(body) => body,
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

/// The file descriptors that came with a message. All clones of this value have the same ones: the first that takes them has them all,
/// and after that there are none. Those that nobody has taken are closed with the last clone.
#[derive(Clone, Debug, Default)]
pub struct FileDescriptors(Option<Arc<Mutex<Vec<OwnedFd>>>>);

impl FileDescriptors {
    /// Takes all; empty where there are none any more.
    pub fn take(&self) -> Vec<OwnedFd> {
        self.0.as_ref().map_or_else(Vec::new, |shared| std::mem::take(&mut *lock(shared)))
    }

    /// How many have not been taken.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |shared| lock(shared).len())
    }
}

impl From<Vec<OwnedFd>> for FileDescriptors {
    fn from(descriptors: Vec<OwnedFd>) -> FileDescriptors {
        FileDescriptors((!descriptors.is_empty()).then(|| Arc::new(Mutex::new(descriptors))))
    }
}

/// Equal are those of one message, taken or not.
impl PartialEq for FileDescriptors {
    fn eq(&self, other: &FileDescriptors) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl Eq for FileDescriptors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_taken_once_whoever_asks() {
        let (one, two) = rustix::pipe::pipe().unwrap();
        let descriptors = FileDescriptors::from(vec![one, two]);
        let clone = descriptors.clone();
        assert_eq!((clone.count(), clone == descriptors), (2, true));
        assert_eq!(clone.take().len(), 2);
        assert_eq!((descriptors.count(), descriptors.take().len()), (0, 0));
        assert_eq!(FileDescriptors::from(Vec::new()), FileDescriptors::default());
    }

    #[test]
    fn the_memory_of_a_message_serves_the_next_one_unless_it_is_long() {
        let kept = |mut bytes: Bytes| {
            bytes.clear();
            bytes.buffer().capacity()
        };
        let copied = |capacity| kept(Bytes::from(Vec::with_capacity(capacity)));
        assert_eq!((copied(100), copied(BYTES_KEPT + 1)), (100, 0));
        let body = SealedBody::open(&crate::shared::body::write(&[7; 5000]).unwrap(), 5000).unwrap();
        assert_eq!(kept(Bytes::from(body)), 0);
    }

    #[test]
    fn mapped_and_copied_bytes_are_equal_when_they_are_the_same() {
        let body = SealedBody::open(&crate::shared::body::write(&[7; 5000]).unwrap(), 5000).unwrap();
        let (mapped, copied) = (Bytes::from(body), Bytes::from(vec![7; 5000]));
        assert_eq!(mapped, copied);
        assert_eq!((mapped.clone().are_mapped(), copied.are_mapped()), (true, false));
    }
}
