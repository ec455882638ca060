//! An end of a mechanism that notes when its messages begin, are written, are waited for and are read.

use std::io;

use crate::contract::{Endpoint, Facts};
use crate::marks::Numbered;

pub(super) struct Marked<'a, E> {
    end: &'a mut E,
    marks: Numbered<'a>,
}

impl<'a, E> Marked<'a, E> {
    pub(super) fn new(end: &'a mut E, marks: Numbered<'a>) -> Marked<'a, E> {
        Marked { end, marks }
    }
}

pub(super) struct Writing<'b, 'a, T> {
    tx: T,
    marks: &'b mut Numbered<'a>,
}

impl<T: AsMut<[u8]>> AsMut<[u8]> for Writing<'_, '_, T> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.tx.as_mut()
    }
}

impl<'a, E: Endpoint> Endpoint for Marked<'a, E> {
    type Tx<'b>
        = Writing<'b, 'a, E::Tx<'b>>
    where
        Self: 'b;
    type Rx<'b>
        = E::Rx<'b>
    where
        Self: 'b;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Self::Tx<'_>> {
        self.marks.write_begins();
        Ok(Writing { tx: self.end.loan(len)?, marks: &mut self.marks })
    }

    #[inline]
    fn commit(tx: Self::Tx<'_>) -> io::Result<()> {
        E::commit(tx.tx)?;
        tx.marks.written();
        Ok(())
    }

    #[inline]
    fn send_from(&mut self, message: &[u8]) -> io::Result<()> {
        self.marks.write_begins();
        self.end.send_from(message)?;
        self.marks.written();
        Ok(())
    }

    #[inline]
    fn take(&mut self, len: usize) -> io::Result<Self::Rx<'_>> {
        self.marks.wait_begins();
        let rx = self.end.take(len)?;
        self.marks.read();
        Ok(rx)
    }

    #[inline]
    fn position(&mut self) -> u64 {
        self.end.position()
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.end.prefault()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.end.settle()
    }

    fn facts(&self) -> io::Result<Facts> {
        self.end.facts()
    }
}
