//! The entry point of the fuzz targets to the reply parsers; compiled for fuzzing and tests only. A unit test
//! replays the seeds.
//! Not here: the parsers (`wire`).

use serde_json::Value;

use super::wire;
use punie_core::ids::DeviceId;

/// Parses a text as each kind of reply. A parsed page has one entry for each of its events.
///
/// # Panics
/// Where an event is lost.
pub fn replies(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let value = &value;
    let own = DeviceId::parse("dev").expect("a word is an id");
    if let Ok(page) = wire::parse_page(value, &own) {
        assert_eq!(
            Some(page.events.len()),
            value["events"].as_array().map(Vec::len)
        );
    }
    if let Ok(requests) = wire::parse_open_requests(value, &own) {
        assert_eq!(Some(requests.len()), value.as_array().map(Vec::len));
    }
    let _ = wire::parse_claim(value);
    let _ = wire::parse_post_outcome(value);
    let _ = wire::parse_heartbeat(value);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests read the seeds")]

    #[test]
    fn every_seed_keeps_the_laws() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/wire");
        let seeds = std::fs::read_dir(corpus).expect("a folder of seeds");
        let replayed = seeds.map(|seed| {
            super::replies(&std::fs::read(seed.expect("a seed").path()).expect("it can be read"));
        });
        assert!(replayed.count() >= 3);
    }
}
