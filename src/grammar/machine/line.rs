//! A line of dmesg, syslog or the journal: its host, its time, and the kernel's text.

use super::message::find_machine_message;
use super::wall_time::WallTime;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLine<'a> {
    /// The host, if the line names it.
    pub host: Option<&'a [u8]>,
    /// When it was printed.
    pub clock: KernelClock,
    /// The text.
    pub text: &'a [u8],
    /// The writer's name is in the line; the kernel's is `kernel`.
    pub writer: Option<&'a [u8]>,
}

/// A time of one of two clocks, which cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClock {
    /// Seconds since the host booted.
    Boot(u64),
    /// The host's clock.
    Wall(WallTime),
    /// The line has no time.
    None,
}

impl KernelLine<'_> {
    /// True for a line that nothing but the kernel writes.
    pub fn is_surely_kernel(&self) -> bool {
        match self.writer {
            Some(writer) => writer == b"kernel",
            None => begins_as_kernel(self.text) || find_machine_message(self.text).is_some(),
        }
    }

    /// True for a line of another program, which syslog has beside the kernel's. The fabric manager reports on NVSwitches.
    pub fn is_of_other_program(&self) -> bool {
        self.writer
            .is_some_and(|writer| writer != b"kernel" && writer != b"nv-fabricmanager")
    }
}

/// Beginnings of the kernel's texts.
const KERNEL_WORDS: &str = "Linux version |Command line: |BIOS-e820: |ACPI: |NVRM: |nvidia|mlx5_core |amdgpu |pci 0000:|pcieport |EDAC |mce: |\
    systemd[1]: |usb |EXT4-fs |XFS (|audit: |IPv6: |docker0: |device veth|cgroup: |nfs: |NFS: |Lustre: |LustreError: |\
    perf: interrupt|Call Trace:|CPU: |Hardware name: |Code: |Out of memory: ";

fn begins_as_kernel(text: &[u8]) -> bool {
    KERNEL_WORDS
        .split('|')
        .any(|word| text.starts_with(word.as_bytes()))
}

/// Reads a line; `None` for one of another form. A message without a time counts if the table has it.
pub fn parse_kernel_line(line: &[u8]) -> Option<KernelLine<'_>> {
    let line = strip_priority(line.trim_ascii());
    if let Some((clock, text)) = parse_bracket(line) {
        return Some(KernelLine {
            host: None,
            clock,
            text: strip_caller(text),
            writer: None,
        });
    }
    // The journal may be copied without its times and the host.
    if let Some(text) = line.strip_prefix(b"kernel: ") {
        let (clock, text) = parse_bracket(text).unwrap_or((KernelClock::None, text));
        return Some(KernelLine {
            host: None,
            clock,
            text: strip_caller(text),
            writer: Some(&line[..b"kernel".len()]),
        });
    }
    let Some((time, rest)) = WallTime::parse_prefix(line) else {
        let is = begins_as_kernel(line) && find_machine_message(line).is_some();
        return is.then_some(KernelLine {
            host: None,
            clock: KernelClock::None,
            text: line,
            writer: None,
        });
    };
    let rest = rest.strip_prefix(b" ")?;
    let clock = KernelClock::Wall(time);
    // dmesg alone has a comma in its times.
    if line.get(19) == Some(&b',') {
        return Some(KernelLine {
            host: None,
            clock,
            text: strip_caller(rest),
            writer: None,
        });
    }
    let (host, rest) = split_word(rest)?;
    let (writer, text) = split_word(rest)?;
    let writer = writer.strip_suffix(b":")?;
    let name = &writer[..memchr::memchr(b'[', writer).unwrap_or(writer.len())];
    let text = parse_bracket(text).map_or(text, |(_, text)| text);
    let is_plain = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_graphic);
    (is_plain(host) && is_plain(name)).then_some(KernelLine {
        host: Some(host),
        clock,
        text: strip_caller(text),
        writer: Some(name),
    })
}

fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// Strips `<3>`, or `kern  :err   : ` of `dmesg -x`.
fn strip_priority(line: &[u8]) -> &[u8] {
    if let Some(rest) = line.strip_prefix(b"<") {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        return match rest.get(digits) {
            Some(b'>') if (1..=3).contains(&digits) => &rest[digits + 1..],
            _ => line,
        };
    }
    match line {
        [
            b'k',
            b'e',
            b'r',
            b'n',
            b' ',
            b' ',
            b':',
            _,
            _,
            _,
            _,
            _,
            _,
            b':',
            b' ',
            rest @ ..,
        ] => rest,
        _ => line,
    }
}

/// Reads `[  123.456789] `, `[Fri Nov 27 20:56:54 2026] `, or `[  +0.000844] `, the time since the line before, of `dmesg -H`.
fn parse_bracket(line: &[u8]) -> Option<(KernelClock, &[u8])> {
    let inner = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &inner[..inner.len().min(40)])?;
    let (stamp, rest) = (inner[..end].trim_ascii(), &inner[end + 1..]);
    let rest = rest
        .strip_prefix(b" ")
        .or_else(|| rest.starts_with(b"[").then_some(rest))?;
    let clock = match memchr::memchr(b'.', stamp) {
        Some(point) if stamp.starts_with(b"+") && point > 1 => KernelClock::None,
        Some(point) => {
            let (seconds, fraction) = (&stamp[..point], &stamp[point + 1..]);
            let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            if !is_number(fraction) || !is_number(seconds) {
                return None;
            }
            KernelClock::Boot(std::str::from_utf8(seconds).ok()?.parse().ok()?)
        }
        None => match WallTime::parse_prefix(stamp)? {
            (time, []) if stamp[0].is_ascii_alphabetic() => KernelClock::Wall(time),
            _ => return None,
        },
    };
    Some((clock, rest))
}

/// Strips `[ T81] ` and `[   C3] `, the thread or CPU of the writer.
fn strip_caller(text: &[u8]) -> &[u8] {
    let caller = text.strip_prefix(b"[").and_then(|inner| {
        let end = memchr::memchr(b']', &inner[..inner.len().min(12)])?;
        let [b'T' | b'C', digits @ ..] = inner[..end].trim_ascii() else {
            return None;
        };
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| inner[end + 1..].trim_ascii_start())
    });
    caller.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_its_text_and_host() {
        let text = "NVRM: Xid (PCI:0000:dc:00): 79, pid=81, GPU has fallen off the bus.";
        for (begin, host) in [
            ("[  123.456789] ", None),
            ("[123.4] ", None),
            ("<3>[  123.456789] ", None),
            ("<4>[  123.456789][   T81] ", None),
            ("kern  :err   : [  123.456789] ", None),
            ("[Fri Nov 27 20:56:54 2026] ", None),
            ("2026-11-27T20:56:54,123456+00:00 ", None),
            ("", None),
            ("[  +0.000844] ", None),
            ("kernel: ", None),
            ("kernel: [  123.456789] ", None),
            ("Nov 27 20:56:54 n1 kernel: ", Some("n1")),
            ("Nov  7 20:56:54 n1 kernel: [  123.456789] ", Some("n1")),
            ("<4>Nov 27 20:56:54 n1 kernel: ", Some("n1")),
            ("2026-11-27T20:56:54+0000 n1.x kernel: ", Some("n1.x")),
            (
                "2026-11-27T20:56:54.123456+00:00 n1 kernel: [  123.456789] ",
                Some("n1"),
            ),
        ] {
            let line = format!("{begin}{text}\n");
            let read = parse_kernel_line(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(read.text, text.as_bytes(), "{line}");
            assert_eq!(read.host, host.map(str::as_bytes), "{line}");
            assert!(read.is_surely_kernel(), "{line}");
        }
        let other = parse_kernel_line(b"Nov 27 20:56:54 n1 sshd[81]: Accepted publickey").unwrap();
        assert!(other.is_of_other_program() && !other.is_surely_kernel());
        let fabric = parse_kernel_line(
            b"Mar 03 18:39:57 n1 nv-fabricmanager[81]: detected NVSwitch fatal error 20034",
        );
        assert!(!fabric.unwrap().is_of_other_program());
        let fabric = parse_kernel_line(
            b"[Feb 25 2026 13:59:45] [INFO] [tid 81] multicast group 0 is freed.",
        );
        assert!(matches!(fabric.unwrap().clock, KernelClock::Wall(_)));
        for none in [
            "",
            "[0] x",
            "[rank0]: x",
            "[2026-11-27 20:56:54] n1:81:81 [0] NCCL INFO x",
            "[2026-11-27 20:56:54,123] [INFO] x",
            "2026-11-27 20:56:54 INFO step 1",
            "Nov 27 20:56:54 n1",
            "hello",
        ] {
            assert_eq!(parse_kernel_line(none.as_bytes()), None, "{none}");
        }
        let mpi = parse_kernel_line(b"[0.000492] MPI_Init: world_rank=0").unwrap();
        assert!(!mpi.is_surely_kernel());
    }
}
