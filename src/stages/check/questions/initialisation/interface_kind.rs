//! What an interface is, by its name and address.

use std::net::IpAddr;

/// Why an interface cannot, or usually cannot, carry traffic between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InterfaceFault {
    /// `lo`, 127.0.0.1: it reaches its own host only.
    Loopback,
    /// A bridge of containers or virtual machines, with one address on many hosts.
    Bridge,
    /// A tunnel.
    Tunnel,
    /// fe80::, 169.254.0.0: an address that is valid on one link only.
    LinkLocal,
}

/// Bridges and the host's ends of containers' links: Docker, libvirt, LXC, Podman, Kubernetes' CNI, VMware,
/// VirtualBox.
const BRIDGE_NAMES: [&[u8]; 14] = [
    b"docker",
    b"br-",
    b"virbr",
    b"lxcbr",
    b"lxdbr",
    b"podman",
    b"cni",
    b"cali",
    b"flannel",
    b"kube-",
    b"vmnet",
    b"vboxnet",
    b"dummy",
    b"nodelocaldns",
];

/// Linux' names of tunnels (`ip tunnel`, VPNs).
const TUNNEL_NAMES: [&[u8]; 8] = [
    b"tunl", b"tun", b"tap", b"ip6tnl", b"sit", b"gre", b"ip_vti", b"wg",
];

impl InterfaceFault {
    /// Returns the fault of an interface; the address may be empty if it is unknown.
    pub(super) fn of_interface(name: &[u8], address: &[u8]) -> Option<InterfaceFault> {
        let is_named = |names: &[&[u8]]| names.iter().any(|begin| name.starts_with(begin));
        // `%eth0` names the interface of the address.
        let address = address.split(|&b| b == b'%').next().unwrap_or_default();
        let link = [&b"fe80:"[..], b"FE80:", b"169.254."];
        if name == b"lo" || address.starts_with(b"127.") || address == b"::1" {
            Some(InterfaceFault::Loopback)
        } else if is_named(&BRIDGE_NAMES) {
            Some(InterfaceFault::Bridge)
        } else if is_named(&TUNNEL_NAMES) {
            Some(InterfaceFault::Tunnel)
        } else if link.iter().any(|begin| address.starts_with(begin)) {
            Some(InterfaceFault::LinkLocal)
        } else {
            // `veth0` is a container's own link; on a host, its end has no address but a link-local one.
            None
        }
    }

    /// Returns what it is, in a sentence.
    pub(super) fn describe_fault(self) -> &'static str {
        match self {
            InterfaceFault::Loopback => "reaches its own host only",
            InterfaceFault::Bridge => "is a bridge of containers or virtual machines",
            InterfaceFault::Tunnel => "is a tunnel",
            InterfaceFault::LinkLocal => "has an address that is valid on one link only",
        }
    }
}

/// A range of addresses that no subnet reaches beyond: those for private networks (RFC 1918, RFC 6598), all others
/// of version 4, and version 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressRange {
    /// 10.0.0.0/8.
    Ten,
    /// 172.16.0.0/12.
    OneSevenTwo,
    /// 192.168.0.0/16.
    OneNineTwo,
    /// 100.64.0.0/10.
    Carrier,
    /// Any other address of version 4.
    Public,
    /// Version 6.
    Six,
}

impl AddressRange {
    /// Returns the range of an address as printed, `None` if it is none.
    pub(super) fn of_address(address: &[u8]) -> Option<AddressRange> {
        let text = std::str::from_utf8(address).ok()?;
        let text = text.split('%').next().unwrap_or_default();
        let IpAddr::V4(address) = text.parse().ok()? else {
            return Some(AddressRange::Six);
        };
        Some(match address.octets() {
            [10, ..] => AddressRange::Ten,
            [172, 16..=31, ..] => AddressRange::OneSevenTwo,
            [192, 168, ..] => AddressRange::OneNineTwo,
            [100, 64..=127, ..] => AddressRange::Carrier,
            _ => AddressRange::Public,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::AddressRange;
    use super::InterfaceFault::{self, *};

    #[test]
    fn an_address_is_of_one_range() {
        for (address, expected) in [
            ("10.1.2.3", Some(AddressRange::Ten)),
            ("172.31.0.137", Some(AddressRange::OneSevenTwo)),
            ("172.32.0.1", Some(AddressRange::Public)),
            ("192.168.1.2", Some(AddressRange::OneNineTwo)),
            ("100.64.0.1", Some(AddressRange::Carrier)),
            ("2a02:6b8::1%eth0", Some(AddressRange::Six)),
            ("eth0", None),
            ("", None),
        ] {
            assert_eq!(
                AddressRange::of_address(address.as_bytes()),
                expected,
                "{address}"
            );
        }
    }

    #[test]
    fn names_and_addresses_tell_what_an_interface_is() {
        for (name, address, expected) in [
            ("docker0", "172.17.0.1", Some(Bridge)),
            ("br-66f6c8282949", "172.18.0.1", Some(Bridge)),
            ("virbr0", "", Some(Bridge)),
            ("lo", "127.0.0.1", Some(Loopback)),
            ("ip6tnl0", "fe80::e866:19ff:fe1e:a688%ip6tnl0", Some(Tunnel)),
            (
                "veth75fa783",
                "fe80::14ad:64ff:fe64:b31e%veth75fa783",
                Some(LinkLocal),
            ),
            ("veth0", "2a02:6b8:fc1d:3606:0:4457:edef:600a", None),
            ("eno1", "169.254.3.1", Some(LinkLocal)),
            ("bond0", "10.0.0.1", None),
            ("ib0", "192.168.1.1", None),
            ("br0", "10.0.0.1", None),
        ] {
            let of = InterfaceFault::of_interface(name.as_bytes(), address.as_bytes());
            assert_eq!(of, expected, "{name} {address}");
        }
    }
}
