//! The AWK chain's lines: `op count datatype bytes`, as its second script prints.

use crate::error::Result;
use crate::formats::lines::{RecordFormat, RecordText};
use crate::formats::whole_number::parse_decimal;
use crate::formats::{InputFormat, ProbeAnswer, Provides};
use crate::grammar::token::is_name_byte;
use crate::grammar::values::Datatype;
use crate::output::table::{Lacks, Row};

/// The format.
pub(in crate::formats) const FORMAT: InputFormat = InputFormat {
    name: "chain",
    what: "the output of the AWK chain",
    tells: Provides::CALLS,
    probe: |head| ProbeAnswer::yes_or_no(parse_row(head.first_line()).is_some()),
};

/// The reader of its lines.
#[derive(Debug, Clone, Copy)]
pub(in crate::formats) struct ChainFormat;

impl RecordFormat for ChainFormat {
    type Scratch = ();

    fn read_header(_: &[u8], _: &str) -> Result<ChainFormat> {
        Ok(ChainFormat)
    }

    fn read_record(
        &self,
        (): &mut (),
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let row = parse_row(record.bytes).ok_or("op count datatype bytes")?;
        take(&row);
        Ok(())
    }
}

/// The call of a line.
fn parse_row(line: &[u8]) -> Option<Row<'_>> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    let (op, count, datatype, bytes) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let count = parse_decimal(count)?;
    parse_decimal(bytes)?;
    let datatype = Datatype::from_name(datatype)?;
    if words.next().is_some() || !op.iter().all(|&b| is_name_byte(b)) {
        return None;
    }
    Some(Row {
        op,
        count: Some(count),
        datatype: Some(datatype),
        calls: 1,
        ..Row::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::InputHead;

    #[test]
    fn four_fields_are_a_call_and_nothing_else_is() {
        let is = |line: &str| {
            (FORMAT.probe)(&InputHead::from_bytes(line.as_bytes())) == ProbeAnswer::Yes
        };
        assert!(is("AllGather 8388608 bf16 16777216\n"));
        assert!(!is("AllGather 8388608 bf16\n"));
        assert!(!is("AllGather 8388608 bf16 16777216 more\n"));
        assert!(!is("step 8 of 16\n"));
    }
}
