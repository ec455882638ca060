//! What every mechanism between two ends promises, in whichever crate it is.

use crate::runs::Promises;
use crate::{carrying, faults};

pub const PROMISES: Promises = &[
    ("carries_every_size_whole_and_in_order_or_names_the_limit", carrying::every_size),
    ("waits_in_every_way_that_it_offers", carrying::every_wait),
    ("one_role_sends_to_itself_without_a_wait_or_says_why_not", carrying::to_itself),
    ("works_between_threads_too", carrying::threads),
    ("carries_empty_replies_and_is_touched_as_the_case_says", carrying::directions_and_touches),
    ("takes_no_page_fault_for_a_message_unless_it_maps", carrying::no_faults_when_warm),
    ("fresh_memory_faults_and_warm_memory_does_not", carrying::fresh_memory_faults_and_warm_does_not),
    ("a_killed_peer_is_a_failure_with_its_step", faults::killed_while_it_exchanges),
    ("goes_on_when_a_stopped_peer_does", faults::stopped_for_a_while),
];
