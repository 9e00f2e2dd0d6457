//! The device and the process that a message names.

use crate::token::dec_u64;
use memchr::memmem;
use std::fmt;

/// The address of a device on the PCI bus, as NCCL's `busId` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress(pub u64);

impl fmt::Display for PciAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress(id) = self;
        write!(
            out,
            "{:04x}:{:02x}:{:02x}",
            id >> 20,
            id >> 12 & 0xff,
            id >> 4 & 0xff
        )
    }
}

/// Returns the last address in a text: `0000:dc:00.0`, `PCI:0000:dc:00`, `00000000:DC:00.0`. The first one is often the port
/// above it.
pub fn find_pci_address(text: &[u8]) -> Option<PciAddress> {
    memchr::memrchr_iter(b':', text).find_map(|at| {
        let hex = |from: usize, digits: usize| {
            let digits = text.get(from..from + digits)?;
            let digits = std::str::from_utf8(digits).ok()?;
            let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(digits, 16).ok())?
        };
        // The colon between bus and device.
        let bus_at = at.checked_sub(2)?;
        let domain_at = bus_at.checked_sub(5)?;
        let domain = hex(domain_at, 4).filter(|_| text[bus_at - 1] == b':')?;
        let function = match text.get(at + 3) {
            Some(b'.') => hex(at + 4, 1).unwrap_or(0),
            _ => 0,
        };
        let (bus, device) = (hex(bus_at, 2)?, hex(at + 1, 2)?);
        Some(PciAddress(
            domain << 20 | bus << 12 | device << 4 | function,
        ))
    })
}

/// The process that a message names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MessageProcess<'a> {
    pub(super) pid: Option<u64>,
    pub(super) name: Option<&'a [u8]>,
}

/// Finds `pid=81, name=python`, `task=python,pid=81`, `process 81 (python)`, `task python:81`, `python[81]:`.
pub(super) fn find_process(text: &[u8]) -> MessageProcess<'_> {
    let after = |word: &[u8]| memmem::find(text, word).map(|at| &text[at + word.len()..]);
    let number = |text: &[u8]| dec_u64(text).ok().map(|(_, pid)| pid);
    if let Some(pid) = after(b"pid=").and_then(number) {
        let name = after(b"name=").or_else(|| after(b",task="));
        let name = name.map(|name| &name[..memchr::memchr(b',', name).unwrap_or(name.len())]);
        return MessageProcess {
            pid: Some(pid),
            name,
        };
    }
    if let Some((rest, pid)) = after(b" process ").and_then(|text| dec_u64(text).ok()) {
        let name = rest.strip_prefix(b" (");
        let name = name.and_then(|name| Some(&name[..memchr::memchr(b')', name)?]));
        return MessageProcess {
            pid: Some(pid),
            name,
        };
    }
    let words = [&b"INFO: task "[..], b"Killing ", b"s! ["];
    let named = words.iter().find_map(|word| {
        let text = after(word)?;
        let end = text.iter().position(|b| b" ]".contains(b))?;
        let colon = memchr::memrchr(b':', &text[..end])?;
        Some((&text[..colon], number(&text[colon + 1..])?))
    });
    let bracketed = || {
        let open = memchr::memchr(b'[', text)?;
        let (rest, pid) = dec_u64(&text[open + 1..]).ok()?;
        let name = &text[..open];
        let from = memchr::memrchr(b' ', name).map_or(0, |at| at + 1);
        rest.starts_with(b"]").then_some((&name[from..], pid))
    };
    match named.or_else(bracketed) {
        Some((name, pid)) => MessageProcess {
            pid: Some(pid),
            name: Some(name),
        },
        None => MessageProcess::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_nccl() {
        let of = |text: &str| find_pci_address(text.as_bytes());
        for text in [
            "Xid (PCI:0000:dc:00): 79",
            "GPU 00000000:DC:00.0",
            "pcieport 0000:d7:00.0: AER: error received: 0000:dc:00.0",
        ] {
            assert_eq!(of(text), Some(PciAddress(0xdc000)), "{text}");
        }
        assert_eq!(of("0009:01:00.1").unwrap().0, 0x0090_1001);
        assert_eq!(PciAddress(0x9dc010).to_string(), "0009:dc:01");
        for none in [
            "",
            ":",
            "a:b",
            "12:34:56",
            "00:dc:00",
            ":0000:dc:0",
            "x000:dc:00.0",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
