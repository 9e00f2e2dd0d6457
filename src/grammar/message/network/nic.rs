//! The network devices that NCCL found, in one line.
//!
//! ```text
//! NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:1/IB/SHARP [RO]; OOB eth0:10.10.48.28<0>
//! NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB ...         merged NICs, 2.23-2.25
//! NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>                                       none
//! NET/Socket : Using [0]eth0:10.0.20.2<0> [1]veth9:fe80::c078:68ff%veth9<0>
//! Bootstrap: Using eth0:10.0.0.1<0>                                               ` :` before 2.24
//! NET : Using interface eth0:10.0.0.1<0>                                          one a line, up to 2.3
//! ```
//!
//! From `ncclIbInitDevices` in `src/transport/net_ib/init.cc`, `src/transport/net_socket.cc` and
//! `src/bootstrap.cc`. 2.30 prints a rail and a plane after the port, `:1:0:2/RoCE`.

use crate::token::{PResult, dec_u32, fail, until, whole, word};
use memchr::{memchr, memmem, memrchr};

/// A list of network devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicList<'a> {
    /// The part of NCCL that lists them: `IB`, `Socket`, `Bootstrap`, a plugin; `NET` in 2.3.
    pub by: &'a [u8],
    list: &'a [u8],
    /// PCI relaxed ordering is on (`[RO]`).
    pub relaxed_ordering: bool,
    /// The interface for control messages (out of band).
    pub oob: Option<Nic<'a>>,
    /// The line was cut: there may be more.
    pub cut: bool,
}

/// One network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nic<'a> {
    /// Its number, which connections name; none where the line has none.
    pub index: Option<u32>,
    /// Its number among the NICs merged to `index`.
    pub part: Option<u32>,
    /// Its name, `mlx5_0` or `eth0`.
    pub name: &'a [u8],
    /// What it is.
    pub kind: NicKind<'a>,
}

/// What a network device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicKind<'a> {
    /// A port of a NIC that speaks InfiniBand's verbs.
    Port {
        /// The port, from 1.
        port: u32,
        /// `IB` or `RoCE`, as printed.
        link: &'a [u8],
        /// It reduces in the switches (`/SHARP`).
        sharp: bool,
    },
    /// An interface of the operating system.
    Interface {
        /// Its address.
        address: &'a [u8],
        /// The address is one of IPv6.
        ipv6: bool,
    },
}

impl<'a> NicList<'a> {
    /// The devices in the line's order.
    pub fn iter(&self) -> NicIter<'a> {
        NicIter {
            rest: self.list.trim_ascii(),
            merged: None,
        }
    }
}

/// The devices of a list, see [`NicList::iter`].
#[derive(Debug, Clone)]
pub struct NicIter<'a> {
    rest: &'a [u8],
    /// The number of the merged NICs in hand.
    merged: Option<u32>,
}

impl<'a> Iterator for NicIter<'a> {
    type Item = Nic<'a>;

    fn next(&mut self) -> Option<Nic<'a>> {
        // `[2]={` opens merged NICs, `}` closes them.
        if let Ok((inner, index)) = nic_number(self.rest)
            && let Some(inner) = inner.strip_prefix(b"={")
        {
            self.merged = Some(index);
            self.rest = inner;
        }
        let (after, mut nic) = nic_item(self.rest).ok()?;
        if self.merged.is_some() {
            (nic.index, nic.part) = (self.merged, nic.index);
        }
        let closed = after.strip_prefix(b"}");
        self.merged = self.merged.filter(|_| closed.is_none());
        let after = closed.unwrap_or(after);
        self.rest = after.strip_prefix(b",").unwrap_or(after).trim_ascii_start();
        Some(nic)
    }
}

/// Reads a list of devices. `cut` is true if the line's end is missing: then the last one is too, and
/// the text after the list is unknown.
pub(crate) fn parse_nics(body: &[u8], cut: bool) -> Option<NicList<'_>> {
    let (list, by) = label(body).ok()?;
    let none = NicList {
        by,
        list,
        relaxed_ordering: false,
        oob: None,
        cut,
    };
    if cut {
        let end = memmem::rfind(list, b" [")?;
        let nics = NicList {
            list: &list[..end],
            ..none
        };
        return nics.iter().next().map(|_| nics);
    }
    let nics = match memmem::find(list, b"; OOB ") {
        Some(at) => {
            let oob = Some(whole(nic_item(&list[at + b"; OOB ".len()..]))?);
            let list = list[..at].trim_ascii_end();
            let unordered = list.strip_suffix(b"[RO]");
            let list = unordered.unwrap_or(list).trim_ascii();
            NicList {
                list,
                relaxed_ordering: unordered.is_some(),
                oob,
                ..none
            }
        }
        // A list of ports ends in the interface: without it the line was cut.
        None if none
            .iter()
            .any(|nic| matches!(nic.kind, NicKind::Port { .. })) =>
        {
            return parse_nics(body, true);
        }
        None => none,
    };
    let mut items = nics.iter();
    let some = items.by_ref().count() > 0;
    (items.rest.is_empty() && (some || nics.oob.is_some())).then_some(nics)
}

/// `NET/IB : Using `, `Bootstrap: Using `, `NET : Using interface `.
fn label(input: &[u8]) -> PResult<'_, &[u8]> {
    // A line for each interface, up to 2.3 (`src/include/socket.h`).
    if let Some(i) = input.strip_prefix(b"NET : Using interface ") {
        return Ok((i, b"Socket"));
    }
    let (i, by) = match input.strip_prefix(b"NET/") {
        Some(i) => until(":", "who lists them")(i)?,
        None => {
            let (i, _) = word("Bootstrap", "NET or Bootstrap")(input)?;
            let i = i.strip_prefix(b" ").unwrap_or(i);
            let (i, _) = word(":", "a colon")(i)?;
            (i, &input[..b"Bootstrap".len()])
        }
    };
    let (i, _) = word(" Using", "Using")(i)?;
    if !i.starts_with(b" ") || memchr(b' ', by.trim_ascii()).is_some() {
        return fail(i, "a device");
    }
    Ok((i, by.trim_ascii()))
}

/// `[3]`.
fn nic_number(input: &[u8]) -> PResult<'_, u32> {
    let (i, _) = word("[", "a device's number")(input)?;
    let (i, index) = dec_u32(i)?;
    let (i, _) = word("]", "the end of a device's number")(i)?;
    Ok((i, index))
}

/// `[0]mlx5_2:1/RoCE`, `[0] mlx5_2:1/RoCE`, `[0]eth0:10.0.0.1<0>`, `eth0:10.0.0.1<0>`.
fn nic_item(input: &[u8]) -> PResult<'_, Nic<'_>> {
    let (i, index) = match nic_number(input) {
        Ok((i, index)) => (i.strip_prefix(b" ").unwrap_or(i), Some(index)),
        Err(_) => (input, None),
    };
    let end = i
        .iter()
        .position(|b| matches!(b, b' ' | b',' | b'}'))
        .unwrap_or(i.len());
    let (text, rest) = i.split_at(end);
    let Some(colon) = memchr(b':', text).filter(|&at| at > 0) else {
        return fail(i, "a device");
    };
    let (name, what) = (&text[..colon], &text[colon + 1..]);
    match parse_interface(what).or_else(|| parse_port(what)) {
        Some(kind) => Ok((
            rest,
            Nic {
                index,
                part: None,
                name,
                kind,
            },
        )),
        None => fail(i, "a port or an address"),
    }
}

/// `10.0.0.1<0>`; the number is the socket's port, which is 0 before it listens.
fn parse_interface(text: &[u8]) -> Option<NicKind<'_>> {
    let open = memrchr(b'<', text)?;
    whole(dec_u32(text[open + 1..].strip_suffix(b">")?))?;
    let address = &text[..open];
    let ipv6 = memchr(b':', address).is_some();
    (!address.is_empty()).then_some(NicKind::Interface { address, ipv6 })
}

/// `1/RoCE`, `1/IB/SHARP`, `1:0:2/RoCE`.
fn parse_port(text: &[u8]) -> Option<NicKind<'_>> {
    let slash = memchr(b'/', text)?;
    let number = &text[..memchr(b':', &text[..slash]).unwrap_or(slash)];
    let port = whole(dec_u32(number))?;
    let link = &text[slash + 1..];
    let (link, sharp) = match link.strip_suffix(b"/SHARP") {
        Some(link) => (link, true),
        None => (link, false),
    };
    matches!(link, b"IB" | b"RoCE").then_some(NicKind::Port { port, link, sharp })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> (NicList<'static>, Vec<Nic<'static>>) {
        let nics = parse_nics(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"));
        (nics, nics.iter().collect())
    }

    #[test]
    fn old_versions_print_a_line_for_each_interface() {
        let (nics, list) = of("NET : Using interface eth0:10.0.0.1<0>");
        assert_eq!((nics.by, list.len()), (&b"Socket"[..], 1));
        assert_eq!((list[0].index, list[0].name), (None, &b"eth0"[..]));
        assert_eq!(parse_nics(b"NET : Using interface eth0", false), None);
    }

    #[test]
    fn cards_have_ports_and_links() {
        let (nics, list) =
            of("NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_ib3:2/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>");
        assert_eq!((nics.by, nics.relaxed_ordering), (&b"IB"[..], true));
        let kind = NicKind::Port {
            port: 2,
            link: b"IB",
            sharp: true,
        };
        assert_eq!(
            (list.len(), list[1].name, list[1].kind),
            (2, &b"mlx5_ib3"[..], kind)
        );
        assert_eq!(nics.oob.unwrap().name, b"eth0");
        let (nics, list) = of("NET/IB : Using [0]hfi1_2:1/IB ; OOB ib0:10.0.0.1<0>");
        assert_eq!((nics.relaxed_ordering, list.len()), (false, 1));
        let (_, list) = of("NET/IB : Using [0]mlx5_2:1:0:2/RoCE [RO]; OOB ib0:10.0.0.1<0>");
        assert_eq!(
            list[0].kind,
            NicKind::Port {
                port: 1,
                link: b"RoCE",
                sharp: false
            }
        );
        assert_eq!(of("NET/IB : Using [RO]; OOB lo:127.0.0.1<0>").1, []);
    }

    #[test]
    fn merged_cards_keep_both_numbers() {
        let (_, list) = of(
            "NET/IB : Using [0]={[0] a:1/RoCE, [1] b:1/RoCE} [1]={[2] c:1/IB} \
                            [RO]; OOB eth0:10.0.0.1<0>",
        );
        let numbers: Vec<_> = list.iter().map(|n| (n.index, n.part)).collect();
        let expected = [(Some(0), Some(0)), (Some(0), Some(1)), (Some(1), Some(2))];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn interfaces_have_addresses() {
        let (nics, list) = of("NET/Socket : Using [0]eth0:10.0.0.1<0> [1]v9:fe80::c0%v9<0>");
        assert_eq!(nics.by, b"Socket");
        assert_eq!(
            list[1].kind,
            NicKind::Interface {
                address: b"fe80::c0%v9",
                ipv6: true
            }
        );
        for line in [
            "Bootstrap : Using eth0:10.0.0.1<0>",
            "Bootstrap: Using eth0:10.0.0.1<0>",
        ] {
            let (nics, list) = of(line);
            assert_eq!(
                (nics.by, list[0].name, list[0].index),
                (&b"Bootstrap"[..], &b"eth0"[..], None)
            );
        }
    }

    #[test]
    fn of_a_cut_line_only_whole_devices_are_given() {
        let line = b"NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:12/RoCE [2]x:1/IB [RO]; OOB e:1<0>";
        let all: Vec<_> = parse_nics(line, false).unwrap().iter().collect();
        for cut in 0..line.len() {
            if let Some(nics) = parse_nics(&line[..cut], true) {
                let got: Vec<_> = nics.iter().collect();
                assert!(nics.cut && all.starts_with(&got), "{cut} {got:?}");
            }
        }
        let shows = parse_nics(b"NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5", false).unwrap();
        assert_eq!((shows.cut, shows.iter().count()), (true, 1));
        assert_eq!(parse_nics(b"NET/OFI Using x", false), None);
        let old = parse_nics(b"NET : Using interface lo:127.0.0.1<0>", false).unwrap();
        assert_eq!(
            (old.by, old.iter().next().unwrap().name),
            (&b"Socket"[..], &b"lo"[..])
        );
    }
}
