//! Other people's buses as mechanisms of the laboratory, so that they are measured in the same run as ours.
//!
//! Each stands behind a feature of its own that is off by default. A program calls [`add`] first thing, before it looks at
//! its arguments: the peers that it starts are the same program.

#[cfg(feature = "iceoryx2")]
mod iceoryx2;

/// Adds what this crate was built with to the laboratory's list, and takes away what dead programs left behind.
///
/// # Panics
/// When called twice.
pub fn add() {
    #[cfg(feature = "iceoryx2")]
    {
        weighbridge_lab::subject::add_families(&[iceoryx2::PAIRS, iceoryx2::FAN_OUT]);
    }
}

/// Takes away what dead programs left behind. For the coordinator, before it begins.
pub fn sweep() {
    #[cfg(feature = "iceoryx2")]
    iceoryx2::sweep();
}
