//! Any bytes are refused as rules of a user, or listed as rules that make the same user.
#![no_main]

use halite_server::listed_rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|rules: &[u8]| {
    if let Some(listed) = listed_rules(rules) {
        assert_eq!(listed_rules(&listed).as_ref(), Some(&listed));
    }
});
