//! The door to the wire's shapes for the fuzz targets. Absent from every normal build. Not here: the shapes (wire).

use serde_json::Value;

use super::wire;
use crate::ids::DeviceId;

/// Reads a value as each of the replies; a page that is read has something for each of its events.
pub(crate) fn replies(value: &Value) {
    let own = DeviceId::parse("dev").expect("a word is an id");
    if let Ok(page) = wire::page(value, &own) {
        assert_eq!(Some(page.events.len()), value["events"].as_array().map(Vec::len));
    }
    if let Ok(requests) = wire::open_requests(value, &own) {
        assert_eq!(Some(requests.len()), value.as_array().map(Vec::len));
    }
    let _ = wire::claim(value);
    let _ = wire::posted(value);
    let _ = wire::beat(value);
}
