//! Tells public addresses from those that only a rule of the owner's opens: of this machine, of a local network, and
//! those with a meaning of their own. A local network is what the address says, or what this machine reaches without a
//! gateway.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use super::on_link::is_on_link;

/// The kind of an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedAddress {
    /// An address of this machine, its loopback included.
    ThisMachine,
    /// An address of a local network, by itself or by the routes of this machine.
    LocalNetwork,
    /// An address with a meaning of its own, such as multicast.
    Reserved,
}

impl fmt::Display for GuardedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ThisMachine => "an address of this machine",
            Self::LocalNetwork => "an address of a local network",
            Self::Reserved => "a reserved address",
        })
    }
}

/// Returns the kind of an address that is not public; `None` for a public one.
pub fn guarded_kind(address: IpAddr) -> Option<GuardedAddress> {
    let kind = match address.to_canonical() {
        IpAddr::V4(address) => guarded_v4(address),
        IpAddr::V6(address) => guarded_v6(address),
    };
    // Only an address of this machine can be bound.
    let is_own = || {
        let bound = UdpSocket::bind((address, 0));
        bound.is_ok().then_some(GuardedAddress::ThisMachine)
    };
    let is_near = || is_on_link(address.to_canonical()).then_some(GuardedAddress::LocalNetwork);
    kind.or_else(is_own).or_else(is_near)
}

fn guarded_v4(address: Ipv4Addr) -> Option<GuardedAddress> {
    let kind = match address.octets() {
        [0 | 127, ..] => GuardedAddress::ThisMachine,
        [10, ..] | [192, 168, ..] | [169, 254, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => {
            GuardedAddress::LocalNetwork
        }
        [192, 0, 0, _] | [192, 88, 99, _] | [224..=255, ..] => GuardedAddress::Reserved,
        // Also those for documentation and benchmarks, which lead nowhere by themselves: the resolvers of some VPNs and
        // of closed networks give them in the place of public ones.
        _ => return None,
    };
    Some(kind)
}

fn guarded_v6(address: Ipv6Addr) -> Option<GuardedAddress> {
    let kind = match address.segments() {
        // NAT64: the IPv4 address stands in the last two.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let bits = u32::from(high) << 16 | u32::from(low);
            return guarded_v4(Ipv4Addr::from_bits(bits));
        }
        [0, 0, 0, 0, 0, 0, 0, _] => GuardedAddress::ThisMachine,
        [0xfc00..=0xfdff | 0xfe80..=0xfeff, ..] => GuardedAddress::LocalNetwork,
        // 2002 and 2001:0 hold IPv4 addresses to which a gateway of the network passes packets on.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002 | 0x3fff, ..] => GuardedAddress::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        _ => GuardedAddress::Reserved,
    };
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_told_apart_in_every_spelling() {
        use GuardedAddress::{LocalNetwork, Reserved, ThisMachine};
        for (text, expected) in [
            ("127.0.0.1", Some(ThisMachine)),
            ("127.255.0.9", Some(ThisMachine)),
            ("0.0.0.0", Some(ThisMachine)),
            ("::1", Some(ThisMachine)),
            ("::", Some(ThisMachine)),
            ("::ffff:127.0.0.1", Some(ThisMachine)),
            ("::ffff:10.0.0.1", Some(LocalNetwork)),
            ("10.0.0.1", Some(LocalNetwork)),
            ("172.31.0.1", Some(LocalNetwork)),
            ("192.168.1.1", Some(LocalNetwork)),
            ("169.254.169.254", Some(LocalNetwork)),
            ("100.64.0.1", Some(LocalNetwork)),
            ("fd00::1", Some(LocalNetwork)),
            ("fe80::1", Some(LocalNetwork)),
            ("64:ff9b::a00:1", Some(LocalNetwork)),
            ("64:ff9b::7f00:1", Some(ThisMachine)),
            ("2002:7f00:1::", Some(Reserved)),
            ("2001::1", Some(Reserved)),
            ("ff02::1", Some(Reserved)),
            ("224.0.0.1", Some(Reserved)),
            ("255.255.255.255", Some(Reserved)),
            ("64:ff9b::808:808", None),
            ("8.8.8.8", None),
            ("172.32.0.1", None),
            ("198.18.0.7", None),
            ("203.0.113.80", None),
            ("2606:4700::1111", None),
        ] {
            let address = text.parse().expect("an address");
            assert_eq!(guarded_kind(address), expected, "{text}");
        }
    }
}
