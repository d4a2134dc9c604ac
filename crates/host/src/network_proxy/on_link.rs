//! Addresses on a link of this machine, by its routes: they are of a local network, also where they are public ones, as
//! IPv6 addresses in a home are.

use std::net::IpAddr;

/// A route of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    network: IpAddr,
    prefix_length: u8,
    interface: String,
    is_direct: bool,
}

impl Route {
    /// Returns whether it leads to a local network. A default route may need no gateway, either.
    fn is_local(&self) -> bool {
        let shortest = if self.network.is_ipv6() { 32 } else { 8 };
        self.is_direct && self.prefix_length >= shortest
    }
}

/// Returns whether the system reaches an address without a gateway. Behind a tunnel lies no local network.
#[cfg(target_os = "linux")]
pub(super) fn is_on_link(address: IpAddr) -> bool {
    let routes = match address {
        IpAddr::V4(_) => read_table("/proc/net/route", parse_v4),
        IpAddr::V6(_) => read_table("/proc/net/ipv6_route", parse_v6),
    };
    find_route(&routes, address)
        .is_some_and(|route| route.is_local() && !is_tunnel(&route.interface))
}

/// Returns false: the routes of this system are not read.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_on_link(_: IpAddr) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn read_table(path: &str, parse: impl Fn(&str) -> Option<Route>) -> Vec<Route> {
    let table = std::fs::read_to_string(path).unwrap_or_default();
    table.lines().filter_map(parse).collect()
}

/// Returns whether an interface has one other end, as those of VPNs have.
#[cfg(target_os = "linux")]
fn is_tunnel(interface: &str) -> bool {
    const POINT_TO_POINT: u32 = 0x10;
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/flags"));
    let flags = text
        .ok()
        .and_then(|text| u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok());
    flags.is_some_and(|flags| flags & POINT_TO_POINT != 0)
}

/// Returns the most specific route to an address.
fn find_route(routes: &[Route], address: IpAddr) -> Option<&Route> {
    let holds = |route: &&Route| match (route.network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let distance = network.to_bits() ^ address.to_bits();
            distance.leading_zeros() >= u32::from(route.prefix_length)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let distance = network.to_bits() ^ address.to_bits();
            distance.leading_zeros() >= u32::from(route.prefix_length)
        }
        _ => false,
    };
    routes
        .iter()
        .filter(holds)
        .max_by_key(|route| route.prefix_length)
}

/// The flags of a route that is used: it is up, it has a gateway, it rejects.
const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECTS: u32 = 0x200;

fn is_direct(flags: u32) -> Option<bool> {
    (flags & UP != 0 && flags & REJECTS == 0).then_some(flags & GATEWAY == 0)
}

/// Reads a line of `/proc/net/route`. Addresses are in the byte order of the processor.
fn parse_v4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, network, _, flags, _, _, _, mask, ..] = fields.as_slice() else {
        return None;
    };
    let address = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::to_ne_bytes);
    let mask = u32::from_be_bytes(address(mask)?);
    Some(Route {
        network: IpAddr::from(address(network)?),
        prefix_length: u8::try_from(mask.leading_ones()).ok()?,
        interface: (*interface).to_owned(),
        is_direct: is_direct(u32::from_str_radix(flags, 16).ok()?)?,
    })
}

/// Reads a line of `/proc/net/ipv6_route`.
fn parse_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [network, length, _, _, _, _, _, _, flags, interface] = fields.as_slice() else {
        return None;
    };
    Some(Route {
        network: IpAddr::from(u128::from_str_radix(network, 16).ok()?.to_be_bytes()),
        prefix_length: u8::from_str_radix(length, 16).ok()?,
        interface: (*interface).to_owned(),
        is_direct: is_direct(u32::from_str_radix(flags, 16).ok()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables as the kernel wrote them on a little-endian machine, of networks made for this.
    const V4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t017100CB\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t007100CB\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
eth0\t807100CB\t017100CB\t0003\t0\t0\t100\tC0FFFFFF\t0\t0\t0
wg0\t00000020\t00000000\t0001\t0\t0\t0\t000000E0\t0\t0\t0
";
    const V6: &str = "\
26000077000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 26000077000000000000000000000001 00000400 00000001 00000000 00000003     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
26000077000000000000000000000002 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000002 00000000 80200001     eth0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn what_a_route_reaches_without_a_gateway_is_on_the_link() {
        let mut routes: Vec<Route> = V4.lines().filter_map(parse_v4).collect();
        routes.extend(V6.lines().filter_map(parse_v6));
        assert_eq!(routes.len(), 7, "{routes:?}");
        for (address, interface, is_local) in [
            ("203.0.113.9", "eth0", true),
            ("203.0.113.130", "eth0", false),
            ("8.8.8.8", "eth0", false),
            // A network as large as this one is the internet.
            ("32.0.0.1", "wg0", false),
            ("2600:77::1", "eth0", true),
            ("2600:77:0:0:ffff::9", "eth0", true),
            ("2600:77:0:1::1", "eth0", false),
            ("2606:4700::1111", "eth0", false),
        ] {
            let route = find_route(&routes, address.parse().expect("an address"));
            let found = route.map(|route| (route.interface.as_str(), route.is_local()));
            assert_eq!(found, Some((interface, is_local)), "{address}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_routes_of_this_machine_are_read() {
        let public = "192.0.2.77".parse().expect("an address");
        let routes = read_table("/proc/net/route", parse_v4);
        let is_near = |route: &&Route| route.is_local() && !is_tunnel(&route.interface);
        let expected = find_route(&routes, public).filter(is_near);
        assert_eq!(is_on_link(public), expected.is_some());
        let own = routes.iter().find(is_near);
        if let Some(own) = own {
            assert!(is_on_link(own.network), "{own:?}");
        }
    }
}
