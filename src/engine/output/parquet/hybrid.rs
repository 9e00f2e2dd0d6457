//! Small numbers in few bits, as Parquet has them: runs of one number, and blocks of eight packed ones.
//!
//! Source: "Run Length Encoding / Bit-Packing Hybrid" of the format's description of encodings.

use super::limits::NUMBERS_PER_BLOCK;

/// The bits that a number up to `largest` needs.
pub(super) fn bits_of(largest: u32) -> u32 {
    u32::BITS - largest.leading_zeros()
}

/// Appends numbers of `bits` bits each.
pub(super) fn push_numbers<N>(numbers: &[N], bits: u32, out: &mut Vec<u8>)
where
    N: Copy + PartialEq + Into<u32>,
{
    // Packed blocks are whole, but for the last: a run begins where a block would.
    let (mut at, mut packed_from) = (0, 0);
    while let Some(&first) = numbers.get(at) {
        let run = run_length(&numbers[at..], first);
        if run >= NUMBERS_PER_BLOCK {
            push_packed(&numbers[packed_from..at], bits, out);
            push_run(first.into(), run, bits, out);
            at += run;
            packed_from = at;
        } else {
            at = numbers.len().min(at + NUMBERS_PER_BLOCK);
        }
    }
    push_packed(&numbers[packed_from..], bits, out);
}

#[inline]
fn run_length<N: Copy + PartialEq>(numbers: &[N], first: N) -> usize {
    let others = numbers.iter().position(|&number| number != first);
    others.unwrap_or(numbers.len())
}

/// Appends one number, `times` times.
pub(super) fn push_run(number: u32, times: usize, bits: u32, out: &mut Vec<u8>) {
    if times > 0 {
        push_varint((times as u64) << 1, out);
        out.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
    }
}

fn push_packed<N: Copy + Into<u32>>(numbers: &[N], bits: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let blocks = numbers.len().div_ceil(NUMBERS_PER_BLOCK);
    push_varint((blocks as u64) << 1 | 1, out);
    let (mut open, mut filled) = (0_u64, 0);
    let missing = blocks * NUMBERS_PER_BLOCK - numbers.len();
    let numbers = numbers.iter().map(|number| (*number).into());
    for number in numbers.chain(std::iter::repeat_n(0, missing)) {
        open |= u64::from(number) << filled;
        filled += bits;
        if filled >= u32::BITS {
            out.extend_from_slice(&(open as u32).to_le_bytes());
            open >>= u32::BITS;
            filled -= u32::BITS;
        }
    }
    // A block is whole bytes.
    out.extend_from_slice(&open.to_le_bytes()[..(filled / 8) as usize]);
}

fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads numbers back, bit by bit.
    fn read_numbers(mut bytes: &[u8], bits: u32, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let mut header = 0_usize;
            let length = bytes.iter().position(|b| b & 0x80 == 0).unwrap() + 1;
            for (at, byte) in bytes[..length].iter().enumerate() {
                header |= usize::from(byte & 0x7f) << (7 * at);
            }
            bytes = &bytes[length..];
            let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
            let number =
                |from: usize| (0..bits as usize).fold(0, |n, at| n | bit(bytes, from + at) << at);
            let used = if header & 1 == 0 {
                numbers.extend(std::iter::repeat_n(number(0), header >> 1));
                bits.div_ceil(8) as usize
            } else {
                let groups = header >> 1;
                numbers.extend((0..groups * 8).map(|at| number(at * bits as usize)));
                groups * bits as usize
            };
            bytes = &bytes[used..];
        }
        assert!(bytes.is_empty());
        numbers.truncate(count);
        numbers
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(
            runs in proptest::collection::vec((any::<u32>(), 1..30_usize), 0..40),
            bits in 1..=32_u32,
        ) {
            let of = |(number, times): &(u32, usize)| {
                std::iter::repeat_n(number >> (32 - bits), times % 20 + times / 20)
            };
            let numbers: Vec<u32> = runs.iter().flat_map(of).collect();
            let mut out = Vec::new();
            push_numbers(&numbers, bits, &mut out);
            prop_assert_eq!(read_numbers(&out, bits, numbers.len()), numbers);
        }
    }

    #[test]
    fn bits_are_those_of_the_largest() {
        assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(bits_of), [0, 1, 2, 2, 3, 32]);
    }
}
