//! A wake filter misses no signal that a rule wants, and wakes few members in vain.

use causeway_bus::MatchRule;
use causeway_bus::shared::filter::{Filter, SignalKeys, says_yes};
use causeway_dbus_wire::wire::{Body, Builder, Header};

/// Members with rules for properties of objects, as desktop programs have them, and signals about as many other objects.
#[test]
fn a_filter_misses_nothing_and_wakes_few_in_vain() {
    const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
    // Rules, and the percentage of unwanted signals that pass, at most.
    for (number, most) in [(16, 0.0), (17, 0.1), (32, 1.0), (64, 3.0), (256, 12.0), (1024, 42.0)] {
        let rule = |object| {
            format!(
                "type='signal',interface='{PROPERTIES}',member='PropertiesChanged',path='/object/{object}'"
            )
        };
        let rules: Vec<MatchRule> = (0..number).map(|object| rule(object).parse().unwrap()).collect();
        let filter = Filter::new(&rules, |_| None);
        let (mut passed, mut unwanted) = (0.0, 0.0);
        for object in 0..20_000 {
            let path = format!("/object/{object}");
            let signal = Builder::signal(&path, PROPERTIES, "PropertiesChanged").sender(":1.9");
            let bytes = signal.body(Body::default().text("a.b")).build(1).unwrap();
            let header = Header::parse(&bytes).unwrap();
            let keys = SignalKeys::new(9, &header, &bytes[header.header_bytes..]);
            let says = says_yes(|index| filter.words()[index], &keys);
            if object < number {
                assert!(says, "{number} rules: the filter misses {path}");
            } else {
                unwanted += 1.0;
                passed += f64::from(u8::from(says));
            }
        }
        let percent = 100.0 * passed / unwanted;
        println!("{number} rules: {percent:.2} % of the unwanted signals pass");
        assert!(percent <= most, "{number} rules: {percent} % pass");
    }
}
