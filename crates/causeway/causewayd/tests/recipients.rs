//! The recipients that a model computes are those that get the messages.
#![allow(clippy::print_stderr, reason = "the model says there why it is skipped")]

mod common;
#[path = "../../../dbus/client/tests/recipients/model.rs"]
mod model;

#[test]
fn computed_recipients_are_those_that_get_the_messages() {
    let broker = common::Broker::start();
    model::compare(&broker.address);
}
