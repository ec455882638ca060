//! Messages as programs see them.

use std::cell::Cell;
use std::fmt;
use std::os::fd::OwnedFd;

use causeway_dbus_wire::wire::{
    Arg, Args, Decode, Endian, Header, Layout, Numbers, Unreadable, Value, arguments, values,
};

use crate::authority::name_of;
use crate::content::FileDescriptors;
use crate::error::Result;
use crate::port::Received;
use crate::shared::header::BusHeader;

/// A message that was received. Its header was checked; its body is checked when it is read.
#[derive(Clone, PartialEq, Eq)]
pub struct Message(Option<Box<Checked>>);

/// It is moved from hand to hand until the program has it, and it is not small: it is read to where it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Checked {
    received: Received,
    layout: Layout,
}

thread_local! {
    /// The memory of the message that this thread has dropped last, its bytes included if they are not long.
    static SPARE: Cell<Option<Box<Checked>>> = const { Cell::new(None) };
}

impl Drop for Message {
    #[inline]
    fn drop(&mut self) {
        let Some(mut checked) = self.0.take() else { return };
        // Its content ends here; only the place for the next message stays.
        checked.received.bytes.clear();
        checked.received.descriptors = FileDescriptors::default();
        // At the end of a thread there is no place for it any more.
        let _ = SPARE.try_with(|spare| spare.set(Some(checked)));
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Message").field(self.checked()).finish()
    }
}

impl Message {
    /// A message of this sender; `None` if its header breaks the D-Bus specification or names another sender.
    pub(crate) fn of(received: Received) -> Option<Message> {
        let layout = layout_of(&received)?;
        let numbers = layout.numbers(&received.bytes);
        agrees(&received, &layout, &numbers).then(|| Message(Some(Box::new(Checked { received, layout }))))
    }

    /// A message that is to be read, into [`Message::place`], and then checked with [`Message::check`]. Nobody may see
    /// it before.
    #[inline]
    pub(super) fn unread() -> Message {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        Message(Some(spare.unwrap_or_default()))
    }

    /// Where it is read to, and completed.
    #[inline]
    pub(super) fn place(&mut self) -> &mut Received {
        &mut self.checked_mut().received
    }

    /// Checks its header, as [`Message::of`]; one that is like one that was checked before is not parsed again. Returns
    /// where such headers are remembered.
    #[inline]
    pub(super) fn check(&mut self, known: &mut HeaderCache) -> Option<CacheIndex> {
        let Checked { received, layout } = self.checked_mut();
        let place = known.place_of(&received.header);
        let numbers = known.layout(place, received, layout)?;
        // Descriptors come under a token. A monitor shows messages between clients without theirs.
        let is_possible = received.header.token != 0 || layout.unix_fds() == 0;
        (is_possible && agrees(received, layout, &numbers)).then_some(place)
    }

    #[inline]
    fn checked_mut(&mut self) -> &mut Checked {
        match &mut self.0 {
            Some(checked) => checked,
            None => unreachable!("only drop takes it"),
        }
    }

    #[inline]
    fn checked(&self) -> &Checked {
        match &self.0 {
            Some(checked) => checked,
            None => unreachable!("only drop takes it"),
        }
    }

    #[inline]
    fn received(&self) -> &Received {
        &self.checked().received
    }

    /// Its header.
    pub fn header(&self) -> Header<'_> {
        self.checked().layout.header(&self.received().bytes)
    }

    /// The interface of its [`header`](Message::header), of which the rest is not looked at: the short way to tell
    /// messages apart.
    #[inline]
    pub fn interface(&self) -> Option<&str> {
        self.checked().layout.interface(&self.received().bytes)
    }

    /// The method or signal, in the same way.
    #[inline]
    pub fn member(&self) -> Option<&str> {
        self.checked().layout.member(&self.received().bytes)
    }

    /// Its arguments, marshalled.
    pub fn body(&self) -> &[u8] {
        &self.received().bytes[self.checked().layout.header_bytes()..]
    }

    /// The byte order of its arguments.
    pub fn endian(&self) -> Endian {
        self.header().endian
    }

    /// Its arguments, whose types must be these: a tuple of as many, or one. What is read as `&str` or `&[u8]` is not
    /// copied.
    ///
    /// ```no_run
    /// # fn read(message: &causeway_bus::Message) -> Result<(), causeway_bus::Error> {
    /// use std::collections::HashMap;
    ///
    /// use causeway_bus::wire::Value;
    ///
    /// let (celsius, place) = message.args::<(f64, String)>()?;
    /// let settings: HashMap<&str, Value<'_>> = message.args()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Arguments`](crate::Error::Arguments), which says which types were expected and found, or what of the message breaks the specification.
    pub fn args<'a, T: Decode<'a>>(&'a self) -> Result<T> {
        Ok(arguments(&self.header(), self.body())?)
    }

    /// Its arguments as a tree of values, whatever their types are.
    pub fn values(&self) -> Result<Vec<Value<'_>>> {
        Ok(values(&self.header(), self.body()).map_err(Unreadable::from)?)
    }

    /// Its arguments as match rules see them: strings, object paths and unsigned numbers; up to the first that is not
    /// valid.
    pub fn rule_args(&self) -> Vec<Arg<'_>> {
        let header = self.header();
        Args::new(&header, &self.received().bytes[header.header_bytes..]).map_while(|arg| arg.ok()).collect()
    }

    /// Its first argument, if that is a string.
    pub fn text(&self) -> Option<&str> {
        Args::new(&self.header(), self.body()).first_text()
    }

    /// Takes the descriptors that came with it, in the order in which arguments of type `h` count them. Clones of the
    /// message share them: they are taken once. Those that are not taken are closed with the message.
    pub fn take_descriptors(&self) -> Vec<OwnedFd> {
        self.received().descriptors.take()
    }

    /// Are its arguments out of reach? Only a [`Monitor`](crate::Monitor) gets such messages: those that are too long
    /// for an outbox.
    /// [`Message::body`] is empty then, and nothing can be read; [`Header::message_bytes`] says how long it is.
    pub fn is_header_only(&self) -> bool {
        self.received().is_header_only()
    }

    /// All its bytes. Those of a message that was too long for an outbox lie where its sender has put them: they are
    /// mapped, not copied.
    pub fn bytes(&self) -> &[u8] {
        &self.received().bytes
    }

    /// Its position in the one order of the bus.
    pub fn position(&self) -> u64 {
        self.received().position
    }

    /// The slot of the member whose outbox carried it: its sender's own, or 0, the authority's, which carries what clients send.
    pub fn slot(&self) -> u16 {
        self.received().slot
    }

    /// When it was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn sent_ns(&self) -> u64 {
        self.received().header.sent_ns
    }

    /// What precedes it in the outbox of its sender; it agrees with the header, which is longer to read.
    pub(crate) fn bus_header(&self) -> &BusHeader {
        &self.received().header
    }

    /// The slot whose outbox carried it, the sender's own or the authority's, and the number of the sender.
    pub(super) fn sender_slot_and_id(&self) -> (u16, u64) {
        (self.received().slot, self.received().header.sender)
    }

    /// Number of the sender.
    pub(crate) fn sender_id(&self) -> u64 {
        self.received().header.sender
    }
}

/// The reply to a call.
pub type Reply = Message;

/// A call that this connection is to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call(pub(crate) Message);

impl std::ops::Deref for Call {
    type Target = Message;
    fn deref(&self) -> &Message {
        &self.0
    }
}

impl AsRef<Message> for Call {
    fn as_ref(&self) -> &Message {
        &self.0
    }
}

impl AsRef<Message> for Message {
    fn as_ref(&self) -> &Message {
        self
    }
}

/// What a connection receives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incoming {
    /// A call. Answer it with [`Connection::reply`](crate::Connection::reply) or
    /// [`reply_error`](crate::Connection::reply_error).
    Call(Call),
    /// A signal that a rule of this connection matches, or that is for this connection alone.
    Signal(Message),
    /// The reply, or the error, to a call that was sent with
    /// [`Connection::send_message`](crate::Connection::send_message).
    Reply(Message),
    /// The authority is gone. Messages still pass between members that know each other; names change no more. Comes
    /// once.
    AuthorityGone,
}

impl Incoming {
    /// The message, if it is one.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message) => {
                Some(message)
            }
            Incoming::AuthorityGone => None,
        }
    }
}

/// Places for headers; a power of two.
const PLACES: usize = 64;
/// Longer headers are not remembered.
const LONGEST: usize = 1024;

/// The headers that were checked last, one in each place.
#[derive(Debug, Default)]
pub(super) struct HeaderCache(Vec<Option<Box<Known>>>);

/// Where a header is remembered, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheIndex(usize);

#[derive(Debug)]
struct Known {
    sender: u64,
    bytes: Vec<u8>,
    layout: Layout,
    /// What the rules of the connection say of signals with this header, by the number of their last change.
    wanted: Option<(u64, bool)>,
}

impl HeaderCache {
    #[inline]
    fn place_of(&self, of: &BusHeader) -> CacheIndex {
        let mixed = of.sender.wrapping_mul(31) + u64::from(of.kind) * 7 + u64::from(of.body_offset / 8);
        CacheIndex(mixed as usize % PLACES)
    }

    /// Finds the layout of the header of a message; returns its numbers, or `None` if the header breaks the D-Bus
    /// specification or names another sender.
    #[inline]
    fn layout(
        &mut self,
        CacheIndex(place): CacheIndex,
        received: &Received,
        layout: &mut Layout,
    ) -> Option<Numbers> {
        if let Some(Some(known)) = self.0.get(place)
            && known.sender == received.header.sender
            && let Some(numbers) = known.layout.numbers_like(&known.bytes, &received.bytes)
        {
            *layout = known.layout;
            return Some(numbers);
        }
        *layout = self.learn(place, received)?;
        Some(layout.numbers(&received.bytes))
    }

    #[cold]
    fn learn(&mut self, place: usize, received: &Received) -> Option<Layout> {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let layout = layout_of(received)?;
        self.0[place] = (layout.header_bytes() <= LONGEST).then(|| {
            let bytes = received.bytes[..layout.header_bytes()].to_vec();
            Box::new(Known { sender: received.header.sender, bytes, layout, wanted: None })
        });
        Some(layout)
    }

    /// What is remembered of the header that was looked up last at a place, as of this change of the rules.
    #[inline]
    pub fn wanted(&self, CacheIndex(place): CacheIndex, change: u64) -> Option<bool> {
        let known = self.0.get(place)?.as_ref()?;
        known.wanted.filter(|(of, _)| *of == change).map(|(_, wanted)| wanted)
    }

    /// Remembers it.
    pub fn set_wanted(&mut self, CacheIndex(place): CacheIndex, change: u64, wanted: bool) {
        if let Some(Some(known)) = self.0.get_mut(place) {
            known.wanted = Some((change, wanted));
        }
    }
}

/// Does what stands before the message agree with the numbers of its header, which was checked?
#[inline]
fn agrees(received: &Received, layout: &Layout, is: &Numbers) -> bool {
    let (header_bytes, bytes) = (layout.header_bytes(), received.bytes.len());
    let of = &received.header;
    header_bytes + is.body_bytes == of.message_bytes as usize
        && (bytes == header_bytes + is.body_bytes || received.is_header_only() && bytes == header_bytes)
        && (is.serial, is.kind.number(), is.flags) == (of.serial, of.kind, of.flags)
        && is.reply_serial.unwrap_or(0) == of.reply_serial
}

/// The layout of the header of a message whose like does not come again; `None` if the header breaks the D-Bus
/// specification or names another sender.
fn layout_of(received: &Received) -> Option<Layout> {
    let header = Header::parse(&received.bytes).ok()?;
    let sender = name_of(received.header.sender);
    (header.sender == Some(&sender)).then(|| Layout::of(&header, &received.bytes))
}
