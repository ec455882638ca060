//! What a choice may demand of mechanisms of one kind; a mechanism says it of itself in its own file.

use weighbridge_harness::params::CaseParams;
use weighbridge_record::{Across, Properties, Property};

/// What has no property: shared memory that both ends map and may write, without a word about who has died. Ends in containers are passed
/// its descriptor.
pub const SHARED_MEMORY: Properties = Properties::of(&[], Across::PassedDescriptors);

/// Through a descriptor of the kernel that holds a copy of what is on its way, sleeps in poll, and says when its other end is gone.
pub const fn of_kernel(across: Across) -> Properties {
    Properties::of(
        &[Property::OtherUsers, Property::Pollable, Property::SurvivesKill, Property::WithoutSharedMemory],
        across,
    )
}

/// Of a pattern over many streams whose mechanism is named as that of a pair: a reader that looks at its streams in turn polls none.
pub(crate) fn of_streams(params: &CaseParams) -> Properties {
    let across = match params.id.mechanism.as_str() {
        "tcp" => Across::Network,
        "unix-stream" => Across::SharedPath,
        _ => Across::PassedDescriptors,
    };
    let polls = params.axes.get("wait").is_none_or(|wait| wait != "none");
    of_kernel(across).with(Property::Pollable, polls)
}
