//! The traffic of a command with a host, in words.

use punie_core::host_traffic::HostTraffic;
use punie_text::output::number_format::{format_count, format_size};

/// Describes the traffic with one host in a line.
pub fn describe_traffic(traffic: &HostTraffic) -> String {
    let refused = match traffic.refused {
        0 => String::new(),
        count => format!(", {} refused", format_count(count, "connection")),
    };
    if traffic.connections == 0 {
        return format!("{}{}", traffic.host, refused.replacen(',', ":", 1));
    }
    format!(
        "{}: sent {}, received {}{refused}",
        traffic.host,
        format_size(traffic.sent_bytes),
        format_size(traffic.received_bytes)
    )
}
