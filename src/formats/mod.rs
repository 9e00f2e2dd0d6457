//! Inputs that yield calls, recognised by their content: the NCCL debug log, our own call table
//! (CSV or JSON lines), and the AWK chain's four-field lines.

pub mod account;
pub mod log;
pub mod rows;

use crate::output::table;

/// What an input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// NCCL's debug log, or any text: what is not NCCL's is counted.
    Log,
    /// The call table as CSV with a header.
    Csv,
    /// The call table as JSON lines.
    Jsonl,
    /// `op count datatype bytes`, as the AWK chain's second script prints.
    Chain,
}

/// Recognises an input by its first bytes.
pub fn recognise(head: &[u8]) -> Format {
    let Some(line) = head
        .split(|&b| b == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|l| !l.is_empty())
    else {
        return Format::Log;
    };
    if line.starts_with(b"{") && memchr::memmem::find(line, b"\"op\"").is_some() {
        return Format::Jsonl;
    }
    // No list of names is made of a log's line: there may be 10,000 logs.
    if line.contains(&b',') && is_header(line) {
        return Format::Csv;
    }
    if rows::chain_line(line).is_some() {
        Format::Chain
    } else {
        Format::Log
    }
}

/// True where most names of a line are columns of the call table.
fn is_header(line: &[u8]) -> bool {
    let is_column = |name: &&&[u8]| table::COLUMNS.iter().any(|c| c.as_bytes() == **name);
    let names: Vec<&[u8]> = line.split(|&b| b == b',').map(unquoted).collect();
    names.iter().filter(is_column).count() * 2 > names.len()
}

fn unquoted(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"\"")
        .and_then(|n| n.strip_suffix(b"\""))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_first_line() {
        let of = |text: &str| recognise(text.as_bytes());
        assert_eq!(of("step,op,count,datatype\n1,Send,1,int8\n"), Format::Csv);
        assert_eq!(of("\"op\",\"count\",\"datatype\"\n"), Format::Csv);
        assert_eq!(of("{\"step\":1,\"op\":\"Send\"}\n"), Format::Jsonl);
        assert_eq!(of("AllGather 8388608 bf16 16777216\n"), Format::Chain);
        assert_eq!(
            of("h:1:2 [0] NCCL INFO AllReduce: opCount 0\n"),
            Format::Log
        );
        assert_eq!(of(""), Format::Log);
        assert_eq!(of("\n\nhello, world\n"), Format::Log);
    }
}
