//! An object together with what is borrowed from it: C has both in one handle.
//!
//! # Safety
//! The owner lies in a box of its own, behind a raw pointer, and nobody reaches it while something is lent: `owner`
//! fails, and what is lent is dropped first.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::error::{CW_E_STATE, Failure};

/// An owner `O` that may have lent `L`, which borrows from it.
#[derive(Debug)]
pub struct Lent<O: 'static, L> {
    lent: Option<L>,
    owner: NonNull<O>,
}

impl<O, L> Lent<O, L> {
    pub fn new(owner: O) -> Lent<O, L> {
        Lent { lent: None, owner: NonNull::from(Box::leak(Box::new(owner))) }
    }

    /// The owner, if nothing is lent.
    #[inline(always)]
    pub fn owner(&mut self) -> Result<&mut O, Failure> {
        if self.lent.is_some() {
            return Err(Failure::new(CW_E_STATE, "a loan or a view is open on this handle; end it first"));
        }
        // SAFETY: it lives as long as this, and nothing borrows from it.
        Ok(unsafe { self.owner.as_mut() })
    }

    /// Lends, if nothing is lent.
    #[inline(always)]
    pub fn lend<E>(&mut self, lend: impl FnOnce(&'static mut O) -> Result<L, E>) -> Result<&mut L, Failure>
    where
        Failure: From<E>,
    {
        let owner: *mut O = self.owner()?;
        // SAFETY: the borrow ends with `lent`, before the owner is used again or dropped.
        let lent = lend(unsafe { &mut *owner })?;
        Ok(self.lent.insert(lent))
    }

    /// What is lent.
    #[inline(always)]
    pub fn lent(&mut self) -> Result<&mut L, Failure> {
        self.lent.as_mut().ok_or_else(none)
    }

    /// Takes what is lent back.
    #[inline(always)]
    pub fn take(&mut self) -> Result<L, Failure> {
        self.lent.take().ok_or_else(none)
    }
}

#[cold]
fn none() -> Failure {
    Failure::new(CW_E_STATE, "no loan or view is open on this handle; begin one first")
}

impl<O, L> Drop for Lent<O, L> {
    fn drop(&mut self) {
        self.lent = None;
        // SAFETY: `new` made the box, and nothing borrows from it any more.
        drop(unsafe { Box::from_raw(self.owner.as_ptr()) });
    }
}
