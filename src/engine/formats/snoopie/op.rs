//! Kind and width of an instruction, by its name. The log's `mem_range` is the constant 4 for loads and
//! stores of any width.

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// From the owner of the memory to the reader.
    Load,
    /// From the writer to the owner.
    Store,
    /// A change in the owner's memory, sent to it; the value that ATOM returns is as wide and not counted.
    Atomic,
    /// A copy that the host began, from one device to another.
    Copy,
}

impl AccessKind {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Atomic => "atomic",
            AccessKind::Copy => "copy",
        }
    }

    /// Returns the source and the target of the data. In the row of a copy `running` is the source and
    /// `owner` the target.
    pub fn source_and_target<T>(self, running: T, owner: T) -> (T, T) {
        match self {
            AccessKind::Load => (owner, running),
            AccessKind::Store | AccessKind::Atomic | AccessKind::Copy => (running, owner),
        }
    }
}

/// Returns the kind of an instruction and its width in bytes; a copy has no width. `None` if the
/// instruction is unknown.
pub fn parse_instruction(name: &[u8]) -> Option<(AccessKind, Option<u64>)> {
    let mut parts = name.split(|&b| b == b'.');
    let first = parts.next()?;
    let kind = match first {
        b"LD" | b"LDG" | b"LDGSTS" => AccessKind::Load,
        b"ST" | b"STG" => AccessKind::Store,
        b"ATOM" | b"ATOMG" | b"RED" | b"REDG" => AccessKind::Atomic,
        _ if name.starts_with(b"cuMemcpy") => return Some((AccessKind::Copy, None)),
        _ => return None,
    };
    // Without a suffix an access is 32 bits wide. A number that no suffix is known by may be a width.
    let suffix = parts.find_map(parse_width);
    Some((kind, suffix.unwrap_or(Some(4))))
}

/// The width that a suffix names; `None` for a suffix that names none.
fn parse_width(suffix: &[u8]) -> Option<Option<u64>> {
    let bytes = match suffix {
        b"U8" | b"S8" | b"8" => 1,
        b"U16" | b"S16" | b"16" | b"F16" | b"BF16" => 2,
        b"32" | b"U32" | b"S32" | b"F32" | b"F16x2" | b"BF16x2" | b"BF16_V2" => 4,
        b"64" | b"U64" | b"S64" | b"F64" => 8,
        b"128" => 16,
        b"256" => 32,
        _ => {
            let is_number = !suffix.is_empty() && suffix.iter().all(u8::is_ascii_digit);
            return is_number.then_some(None);
        }
    };
    Some(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_width_and_direction() {
        let of = |name: &str| parse_instruction(name.as_bytes());
        assert_eq!(of("STG.E"), Some((AccessKind::Store, Some(4))));
        assert_eq!(of("LDG.E.128.SYS"), Some((AccessKind::Load, Some(16))));
        assert_eq!(of("ST.E.U8"), Some((AccessKind::Store, Some(1))));
        assert_eq!(of("LD.E.U16"), Some((AccessKind::Load, Some(2))));
        assert_eq!(of("LDG.E.64.CONSTANT"), Some((AccessKind::Load, Some(8))));
        assert_eq!(of("RED.E.ADD.F64.RN"), Some((AccessKind::Atomic, Some(8))));
        assert_eq!(
            of("ATOM.E.ADD.F16x2.RN"),
            Some((AccessKind::Atomic, Some(4)))
        );
        assert_eq!(of("cuMemcpyDtoDAsync_v2"), Some((AccessKind::Copy, None)));
        assert_eq!(of("LDG.E.ENL2.256"), Some((AccessKind::Load, Some(32))));
        assert_eq!(of("LDG.E.512"), Some((AccessKind::Load, None)));
        assert_eq!((of("BAR.SYNC"), of("LDS.U.128")), (None, None));
        // A load moves the owner's bytes to the device that runs it.
        assert_eq!(
            (
                AccessKind::Load.source_and_target(1, 0),
                AccessKind::Store.source_and_target(1, 0)
            ),
            ((0, 1), (1, 0))
        );
    }
}
