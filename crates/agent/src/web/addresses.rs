//! Decides which IP addresses are public, and names the use of the others.
//!
//! Pure. Start at [`not_public`]. An address that contains an IPv4 address is judged by that too. An IPv6 address
//! outside the blocks of public unicast is never public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Non-public IPv4 blocks: network, prefix, use. The first match counts.
const V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(169, 254, 169, 254), 32, "a cloud metadata service"),
    (Ipv4Addr::new(100, 100, 100, 200), 32, "a cloud metadata service"),
    (Ipv4Addr::new(192, 0, 0, 192), 32, "a cloud metadata service"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "the host of a cloud virtual machine"),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an unspecified address"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "a carrier-grade NAT address"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "an address reserved for protocols"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "an address reserved for documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "an IPv6-to-IPv4 relay address"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address reserved for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "an address reserved for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "an address reserved for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "the broadcast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
];

/// Non-public IPv6 blocks.
const V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified address"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, "a cloud metadata service"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a private address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "a Teredo tunnel address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "an address reserved for protocols"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "an address reserved for documentation"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "an address reserved for documentation"),
];

/// The block of public IPv6 unicast addresses.
const V6_PUBLIC: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// NAT64 addresses: the IPv4 address is at the end.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// 6to4 addresses: the IPv4 address follows the first two bytes.
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);

/// Returns the use of an address that is not public.
pub(crate) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

/// The address that a connection reaches: IPv4-mapped IPv6 addresses become IPv4.
pub(crate) fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Whether an address is in a network.
pub(crate) fn is_within(address: IpAddr, network: IpAddr, prefix: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let shift = Ipv4Addr::BITS - prefix.min(Ipv4Addr::BITS);
            let bits = |address: Ipv4Addr| address.to_bits().checked_shr(shift).unwrap_or_default();
            bits(address) == bits(network)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let shift = Ipv6Addr::BITS - prefix.min(Ipv6Addr::BITS);
            let bits = |address: Ipv6Addr| address.to_bits().checked_shr(shift).unwrap_or_default();
            bits(address) == bits(network)
        }
        _ => false,
    }
}

fn v4(address: Ipv4Addr) -> Option<&'static str> {
    let block = V4.iter().find(|(network, prefix, _)| is_within(address.into(), (*network).into(), *prefix));
    block.map(|(_, _, what)| *what)
}

fn v6(address: Ipv6Addr) -> Option<&'static str> {
    let within = |(network, prefix): (Ipv6Addr, u32)| is_within(address.into(), network.into(), prefix);
    if let Some((_, _, what)) = V6.iter().find(|(network, prefix, _)| within((*network, *prefix))) {
        return Some(what);
    }
    if let Some(mapped) = address.to_ipv4_mapped() {
        return v4(mapped);
    }
    let [.., a, b, c, d] = address.octets();
    if within(NAT64) {
        return v4(Ipv4Addr::new(a, b, c, d));
    }
    if !within(V6_PUBLIC) {
        return Some("a reserved address");
    }
    if within(SIX_TO_FOUR) {
        let [_, _, a, b, c, d, ..] = address.octets();
        return v4(Ipv4Addr::new(a, b, c, d));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<&str>) {
        let parsed: IpAddr = address.parse().unwrap();
        assert_eq!(not_public(parsed), expected, "{address}");
    }

    #[test]
    fn non_public_addresses_have_a_use() {
        for (address, what) in [
            ("0.0.0.0", "an unspecified address"),
            ("0.1.2.3", "an unspecified address"),
            ("10.0.0.1", "a private address"),
            ("10.255.255.255", "a private address"),
            ("100.64.0.1", "a carrier-grade NAT address"),
            ("100.127.255.255", "a carrier-grade NAT address"),
            ("100.100.100.200", "a cloud metadata service"),
            ("127.0.0.1", "a loopback address"),
            ("127.255.255.254", "a loopback address"),
            ("168.63.129.16", "the host of a cloud virtual machine"),
            ("169.254.169.254", "a cloud metadata service"),
            ("169.254.0.1", "a link-local address"),
            ("172.16.0.1", "a private address"),
            ("172.31.255.255", "a private address"),
            ("192.0.0.192", "a cloud metadata service"),
            ("192.0.0.8", "an address reserved for protocols"),
            ("192.0.2.1", "an address reserved for documentation"),
            ("192.88.99.1", "an IPv6-to-IPv4 relay address"),
            ("192.168.1.1", "a private address"),
            ("198.18.0.1", "an address reserved for benchmarks"),
            ("198.19.255.255", "an address reserved for benchmarks"),
            ("198.51.100.7", "an address reserved for documentation"),
            ("203.0.113.7", "an address reserved for documentation"),
            ("224.0.0.1", "a multicast address"),
            ("239.255.255.255", "a multicast address"),
            ("240.0.0.1", "a reserved address"),
            ("255.255.255.255", "the broadcast address"),
            ("::", "an unspecified address"),
            ("::1", "a loopback address"),
            ("fd00:ec2::254", "a cloud metadata service"),
            ("fc00::1", "a private address"),
            ("fdff::1", "a private address"),
            ("fe80::1", "a link-local address"),
            ("febf::1", "a link-local address"),
            ("fec0::1", "a private address"),
            ("ff02::1", "a multicast address"),
            ("2001::1", "a Teredo tunnel address"),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "a Teredo tunnel address"),
            ("2001:20::1", "an address reserved for protocols"),
            ("2001:db8::1", "an address reserved for documentation"),
            ("3fff::1", "an address reserved for documentation"),
            ("100::1", "a reserved address"),
            ("4000::1", "a reserved address"),
            ("5f00::1", "a reserved address"),
            ("64:ff9b:1::a00:1", "a reserved address"),
            // IPv4 addresses inside IPv6 addresses.
            ("::ffff:127.0.0.1", "a loopback address"),
            ("::ffff:10.0.0.1", "a private address"),
            ("::ffff:169.254.169.254", "a cloud metadata service"),
            ("::127.0.0.1", "a reserved address"),
            ("::8.8.8.8", "a reserved address"),
            ("64:ff9b::10.0.0.1", "a private address"),
            ("64:ff9b::169.254.169.254", "a cloud metadata service"),
            ("2002:7f00:1::", "a loopback address"),
            ("2002:a9fe:a9fe::1", "a cloud metadata service"),
        ] {
            check(address, Some(what));
        }
    }

    #[test]
    fn public_addresses_have_none() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "2001:200::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            check(address, None);
        }
    }

    #[test]
    fn networks_have_prefixes_of_every_length() {
        let within = |address: &str, network: &str, prefix| {
            is_within(address.parse().unwrap(), network.parse().unwrap(), prefix)
        };
        assert!(within("10.9.8.7", "0.0.0.0", 0) && within("::1", "ff::", 0));
        assert!(within("10.9.8.7", "10.9.8.7", 32) && !within("10.9.8.6", "10.9.8.7", 32));
        assert!(within("fd00::1", "fd00::1", 128) && !within("fd00::2", "fd00::1", 128));
        assert!(!within("10.9.8.7", "::", 0) && !within("::1", "0.0.0.0", 0));
    }
}
