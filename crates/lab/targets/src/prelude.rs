//! What nearly every target names: the contract that it keeps, its case, the machine, the context of a role; descriptors, and
//! what system calls return.

pub(crate) use std::io;
pub(crate) use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

pub(crate) use weighbridge_harness::axis::{Axis, Choice, Values, choice};
pub(crate) use weighbridge_harness::buffer::Buffer;
pub(crate) use weighbridge_harness::contract::{
    Caps, EndResources, Endpoint, Facts, Family, Figures, InSuites, Mechanism, PatternInfo, Prepared, Side,
    Target, Unit, Unsupported, attach_at_once, carries_nothing,
};
pub(crate) use weighbridge_harness::ctx::{Balance, Batch, Ctx, Follower, Leader, Tally};
pub(crate) use weighbridge_harness::host::Host;
pub(crate) use weighbridge_harness::params::{CaseParams, Touch, Wait};
pub(crate) use weighbridge_harness::shared::Step;
pub(crate) use weighbridge_harness::{counter_check, touch};
pub(crate) use weighbridge_record::{Across, Properties, Property};

pub(crate) use crate::properties::{self, SHARED_MEMORY};
