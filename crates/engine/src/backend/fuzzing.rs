//! The entry point of the fuzz targets to the reply parsers; absent from release builds.

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
