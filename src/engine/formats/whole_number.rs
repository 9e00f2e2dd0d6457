//! Fields that are one whole number.

use crate::grammar::token::{dec_u64, hex_u64};

/// Reads a decimal number: `4194304`.
#[inline]
pub(super) fn parse_decimal(text: &[u8]) -> Option<u64> {
    match dec_u64(text) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

/// Reads a hexadecimal number: `0x00007fa571b00504`.
#[inline]
pub(super) fn parse_address(text: &[u8]) -> Option<u64> {
    match hex_u64(text.strip_prefix(b"0x")?) {
        Ok((b"", n)) => Some(n),
        _ => None,
    }
}

/// Reads a pointer as `%p` prints it: `0x7f00`, or `(nil)` for 0.
pub(super) fn parse_pointer(text: &[u8]) -> Option<u64> {
    parse_address(text).or((text == b"(nil)").then_some(0))
}
