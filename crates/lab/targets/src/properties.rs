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

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, BorrowedFd};

    use causeway_testkit::{Cause, skipped};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use weighbridge_harness::catalogue;
    use weighbridge_harness::contract::{Caps, Prepared, Target};
    use weighbridge_harness::host::Host;
    use weighbridge_harness::params::Wait;
    use weighbridge_record::CaseId;

    use super::*;
    use crate::{fan_out, mechanism, signal};

    /// The case of a target with its defaults, where it can run here.
    fn case(host: &Host, target: &Target, wait: Option<Wait>) -> Option<Prepared> {
        crate::register();
        let payload = u64::from(target.caps.has(Caps::PAYLOAD)) * 8;
        let mut id = CaseId::new(target.patterns[0].id, target.id, payload, "two-cpus");
        if target.patterns[0].id == "fan-out" {
            id = id.with("receivers", "2");
        }
        if let Some(wait) = wait {
            id = id.with("wait", wait.name());
        }
        let prepared = catalogue::prepare(&id, host);
        if let Err(refusal) = &prepared {
            let why = refusal.to_string();
            let known = [
                ("needs two CPUs", Cause::Hardware("two CPUs")),
                ("needs to pin threads", Cause::Rights("pinning")),
                ("io_uring is not available", Cause::Kernel("io_uring")),
                ("multicast does not work", Cause::Kernel("multicast on loopback")),
                ("CAP_NET_ADMIN", Cause::Rights("root")),
            ];
            let lacking = known.into_iter().find(|(words, _)| why.contains(words));
            let (_, cause) =
                lacking.unwrap_or_else(|| panic!("{id} is refused for an unknown reason: {why}"));
            skipped(cause, format!("{id}: {why}"));
        }
        prepared.ok()
    }

    fn all() -> impl Iterator<Item = &'static Target> {
        let all = [mechanism::ALL, signal::ALL, fan_out::ALL].into_iter().flatten();
        all.filter(|target| !target.caps.has(Caps::HARNESS))
    }

    /// What happens on a descriptor that matters to who waits for a message.
    fn event(fd: BorrowedFd<'_>, wait_s: i64) -> PollFlags {
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN | PollFlags::RDHUP)];
        poll(&mut polled, Some(&Timespec { tv_sec: wait_s, tv_nsec: 0 })).unwrap();
        polled[0].revents()
    }

    /// Conformance lets every mechanism wait in each way that it offers; so a claim that it can be polled is one that is tried there.
    #[test]
    fn who_is_called_pollable_offers_to_wait_in_poll_or_epoll_and_nobody_else_does() {
        let host = Host::look().unwrap();
        for target in all().filter(|target| target.patterns[0].id != "fan-out") {
            let polls = [Wait::Epoll, Wait::Poll].into_iter().find(|wait| target.waits.contains(wait));
            for wait in [None].into_iter().chain(target.waits.iter().copied().map(Some)) {
                let Some(case) = case(&host, target, wait) else { continue };
                let own = target.properties_of(&case.params).unwrap();
                let says = own.has(Property::Pollable);
                let (is_offered, spins) =
                    (polls.is_some(), matches!(case.params.wait, Wait::Spin | Wait::SpinBlock));
                assert!(!says || (is_offered && !spins), "{}: {own:?}", case.params.id);
                let is_poll = matches!(case.params.wait, Wait::Epoll | Wait::Poll);
                assert!(says || !is_poll, "{}: {own:?}", case.params.id);
            }
        }
    }

    /// A receiver of many has only one way to wait where it blocks in a socket or a pipe: its descriptor is polled here.
    #[test]
    fn a_receiver_that_is_called_pollable_has_a_descriptor_that_is_silent_until_something_comes() {
        let host = Host::look().unwrap();
        let mut tried = 0;
        for target in fan_out::ALL.iter().filter(|target| target.waits == [Wait::Block]) {
            let Some(case) = case(&host, target, None) else { continue };
            if !target.properties_of(&case.params).is_some_and(|own| own.has(Property::Pollable)) {
                continue;
            }
            let resources = (target.create)(&host, &case.params).unwrap();
            // The last is the end of the mechanism, after what the pattern shares. A file can be polled, too, and is always ready.
            let end = resources[1].fds.last().unwrap();
            assert_eq!(event(end.as_fd(), 0), PollFlags::empty(), "{}", case.params.id);
            tried += 1;
        }
        assert!(tried >= 3, "{tried}");
    }

    /// The kernel closes the descriptors of who is killed: where the others are to learn of that by the mechanism itself, theirs say so.
    #[test]
    fn who_is_called_to_survive_a_kill_is_told_by_its_descriptor_and_the_others_are_not() {
        let host = Host::look().unwrap();
        let mut told = Vec::new();
        for target in all() {
            let Some(case) = case(&host, target, None) else { continue };
            let own = target.properties_of(&case.params).unwrap();
            // Through memory others tell, a server or nobody; what a dead sender of this one had not been asked for is lost.
            let is_of_kernel = own.has(Property::WithoutSharedMemory) && own.has(Property::Pollable);
            if !is_of_kernel || target.id == "process-vm" {
                continue;
            }
            let mut resources = (target.create)(&host, &case.params).unwrap();
            let is_to_many = target.patterns[0].id == "fan-out";
            let left = if is_to_many { resources.swap_remove(1) } else { resources.remove(0) };
            drop(resources);
            let end = if is_to_many { left.fds.last() } else { left.fds.first() }.unwrap();
            let says = own.has(Property::SurvivesKill);
            let is_told = !event(end.as_fd(), if says { 20 } else { 0 }).is_empty();
            assert_eq!(is_told, says, "{}: {own:?}", case.params.id);
            told.push((target.id, says));
        }
        assert!(told.contains(&("pipe", true)) && told.contains(&("unix-dgram", false)), "{told:?}");
    }
}
