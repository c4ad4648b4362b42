//! Any text is a topology, or is refused with a reason; a topology comes back from its text and from its JSON.
#![no_main]

use halite_vdev::Topology;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let json = serde_json::from_str(text).ok();
    let read =
        [text.parse::<Topology>().ok(), json.and_then(|json| Topology::from_json(&json).ok())];
    for topology in read.into_iter().flatten() {
        let again: Topology = topology.to_string().parse().expect("its text is one");
        assert_eq!(again, topology);
        assert_eq!(Topology::from_json(&topology.to_json()).expect("its JSON is one"), topology);
    }
});
