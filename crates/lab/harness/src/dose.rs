//! A dose: work whose price is measured alone, put into each operation of a case, so many times in each role. What the case costs
//! more is the price of that work in the case.
//!
//! Any mechanism takes it, because the loop around it does: the leading role before it sends a request, the other between the request
//! and its reply, where the peer waits for it. What a dose did is checked after the timed part where only the role itself can know it (copies,
//! cache lines); system calls are counted by a tracer.

use std::hint;
use std::io;
use std::os::unix::process::parent_id;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use causeway_os::futex;

use crate::axis::{DOSE, DoseKind, parse_dose};
use crate::buffer::Buffer;
use crate::ctx::advance_virtual_time;
use crate::params::CaseParams;
use crate::shared::Shared;

/// What one of a dose takes in virtual time, which knows no work.
pub(crate) const VIRTUAL_NS: u64 = 100;

/// Neighbors are not written one after the other, or the processor would fetch the next line by itself.
const LINE_STEP: u64 = 29;

/// What one role does.
pub(crate) struct Dose<'a> {
    kind: DoseKind,
    count: u64,
    role: usize,
    shared: &'a Shared,
    is_virtual: bool,
    buffers: [Buffer; 2],
    len: usize,
    /// Operations so far.
    ops: u64,
    /// Cache lines that did not hold what the other role must have written last, and copies that did not arrive.
    wrong: u64,
    /// On which no thread sleeps.
    nobody: AtomicU32,
}

/// What stands in each operation beside its messages. A loop is compiled for each kind, so that one without a dose has no trace of it.
pub(crate) trait InEachOperation {
    /// In both roles: what stands between the message that a role received and the one that it sends.
    fn before_sending(&mut self) -> io::Result<()>;

    /// In a role that follows: what its peer waits for before it sends.
    fn before_receiving(&mut self) -> io::Result<()>;

    /// Was everything done? After the timed part.
    fn check(&self) -> io::Result<()>;
}

/// No dose.
pub(crate) struct Nothing;

impl InEachOperation for Nothing {
    #[inline(always)]
    fn before_sending(&mut self) -> io::Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn before_receiving(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The dose of a case; `None` where it has none.
pub(crate) fn of(params: &CaseParams) -> Option<(DoseKind, u64)> {
    params.axes.get(DOSE.name).and_then(|value| parse_dose(value))
}

/// Refuses what one role cannot do where the other does nothing.
pub(crate) fn fits_one_role(params: &CaseParams) -> io::Result<()> {
    match of(params) {
        Some((kind @ (DoseKind::Lines | DoseKind::Handoffs), _)) => Err(io::Error::other(format!(
            "a dose of {} takes two roles, and the second of {} does nothing",
            kind.name(),
            params.id.mechanism
        ))),
        _ => Ok(()),
    }
}

impl<'a> Dose<'a> {
    pub(crate) fn new(
        params: &CaseParams,
        shared: &'a Shared,
        role: usize,
        is_virtual: bool,
    ) -> io::Result<Option<Dose<'a>>> {
        let Some((kind, count)) = of(params) else { return Ok(None) };
        let len = if kind == DoseKind::Copies { params.payload_bytes } else { 0 };
        if kind == DoseKind::Copies && len == 0 {
            return Err(io::Error::other(
                "an empty payload cannot be copied; give the case one, or another dose",
            ));
        }
        let mut buffers = [Buffer::new(len.max(1))?, Buffer::new(len.max(1))?];
        for buffer in &mut buffers {
            buffer.prefault()?;
        }
        let nobody = AtomicU32::new(0);
        Ok(Some(Dose { kind, count, role, shared, is_virtual, buffers, len, ops: 0, wrong: 0, nobody }))
    }

    fn copy(&mut self) {
        let [from, to] = &mut self.buffers;
        // Another byte each time: what is already as it shall be proves nothing.
        from.bytes_mut()[0] = self.ops as u8;
        for _ in 0..self.count {
            to.bytes_mut()[..self.len].copy_from_slice(&hint::black_box(&*from).bytes()[..self.len]);
            hint::black_box(&mut *to);
        }
        self.wrong += u64::from(to.bytes()[0] != self.ops as u8);
    }

    /// Each line counts the writes of both roles, who take turns.
    fn write_lines(&mut self) {
        let expected = 2 * self.ops + self.role as u64;
        for index in 0..self.count {
            // Relaxed: no other memory is ordered by it.
            let before = self.shared.dose_line(index * LINE_STEP).fetch_add(1, Relaxed);
            self.wrong += u64::from(before != expected);
        }
    }
}

impl InEachOperation for Dose<'_> {
    #[inline]
    fn before_sending(&mut self) -> io::Result<()> {
        match self.kind {
            DoseKind::Calls => (0..self.count).for_each(|_| _ = hint::black_box(parent_id())),
            DoseKind::Copies => self.copy(),
            DoseKind::Wakes => {
                for _ in 0..self.count {
                    hint::black_box(futex::wake(&self.nobody, 1)?);
                }
            }
            DoseKind::Lines => self.write_lines(),
            DoseKind::Handoffs if self.role == 0 => {
                for _ in 0..self.count {
                    self.ops += 1;
                    self.shared.hand_over(1, self.ops as u32)?;
                    self.shared.await_handed_over(0, self.ops as u32)?;
                }
                return Ok(());
            }
            DoseKind::Handoffs => return Ok(()),
        }
        if self.is_virtual {
            advance_virtual_time(self.count * VIRTUAL_NS);
        }
        self.ops += 1;
        Ok(())
    }

    #[inline]
    fn before_receiving(&mut self) -> io::Result<()> {
        if self.kind != DoseKind::Handoffs {
            return Ok(());
        }
        for _ in 0..self.count {
            self.ops += 1;
            self.shared.await_handed_over(1, self.ops as u32)?;
            self.shared.hand_over(0, self.ops as u32)?;
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        let Dose { kind, ops, wrong: wrong @ 1.., .. } = self else { return Ok(()) };
        let what = match kind {
            DoseKind::Lines => "cache lines did not hold what the other role must have written last",
            _ => "copies did not arrive",
        };
        Err(io::Error::other(format!("the dose of {ops} operations was not what it must be: {wrong} {what}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;

    fn dosed(value: &str) -> CaseParams {
        case(&format!("roundtrip/pipe/64/two-cpus/dose={value}"), &[0, 1]).params
    }

    #[test]
    fn lines_that_the_other_role_did_not_write_are_told() {
        let shared = Shared::create().unwrap();
        let params = dosed("lines-64");
        let role = |role| Dose::new(&params, &shared, role, false).unwrap().unwrap();
        let (mut leads, mut follows) = (role(0), role(1));
        for _ in 0..3 {
            leads.before_sending().unwrap();
            follows.before_sending().unwrap();
        }
        assert!(leads.check().is_ok() && follows.check().is_ok());
        leads.before_sending().unwrap();
        leads.before_sending().unwrap();
        let why = leads.check().unwrap_err().to_string();
        assert!(why.contains("64 cache lines did not hold"), "{why}");
    }

    #[test]
    fn copies_carry_what_is_new_in_each_operation_and_an_empty_payload_has_none() {
        let shared = Shared::create().unwrap();
        let params = dosed("copies-3");
        let mut dose = Dose::new(&params, &shared, 0, false).unwrap().unwrap();
        (0..300).for_each(|_| dose.before_sending().unwrap());
        assert!(dose.check().is_ok());
        assert_eq!((dose.ops, dose.buffers[1].bytes()[0]), (300, 299u32 as u8));
        dose.count = 0;
        dose.before_sending().unwrap();
        assert!(dose.check().unwrap_err().to_string().contains("copies did not arrive"));
        let empty = CaseParams { payload_bytes: 0, ..params };
        assert!(Dose::new(&empty, &shared, 0, false).is_err());
    }

    #[test]
    fn a_handoff_ends_where_both_roles_do_their_part() {
        let shared = Shared::create().unwrap();
        let params = dosed("handoffs-2");
        let role = |role| Dose::new(&params, &shared, role, false).unwrap().unwrap();
        let (mut leads, mut follows) = (role(0), role(1));
        std::thread::scope(|scope| {
            scope.spawn(move || (0..100).for_each(|_| follows.before_receiving().unwrap()));
            (0..100).for_each(|_| leads.before_sending().unwrap());
        });
        assert_eq!(leads.ops, 200);
    }

    #[test]
    fn one_role_alone_does_not_wait_for_the_other() {
        for (value, is_one) in [("calls-1", true), ("none", true), ("lines-1", false), ("handoffs-1", false)]
        {
            assert_eq!(fits_one_role(&dosed(value)).is_ok(), is_one, "{value}");
        }
    }
}
