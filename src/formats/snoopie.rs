//! The files of Snoopie, which records accesses to other GPUs' memory. They are recognised, not read
//! yet.

use super::{Format, Tells};
use memchr::memmem;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "snoopie",
    what: "a Snoopie log",
    tells: Tells::NOTHING,
    probe: |head| {
        // Rows may come before the header.
        let mut lines = head.lines().take(LOOK);
        head.other(
            lines.any(|line| HEADERS.iter().any(|header| line.starts_with(header)) || is_old(line)),
        )
    },
};

/// How many lines are looked at.
const LOOK: usize = 64;

/// How the headers of its tables begin.
const HEADERS: [&[u8]; 8] = [
    b"op_code, addr, thread_indx, ",
    b"code_line_index, dir_path, file, ",
    b"pc,func_name,file_name,line_no",
    b"offset,size,obj_id,dev_id",
    b"obj_id,var_name,call_stack",
    b"offset, size, device_id, var_name, ",
    b"site_id,file,code_linenum",
    b"context_id,call_stack",
];

/// True for a line of the version that wrote JSON lines.
fn is_old(line: &[u8]) -> bool {
    line.starts_with(b"{\"op\"") && memmem::find(line, b"\"running_device_id\"").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn each_table_is_known_by_its_header() {
        let is = |text: &str| (FORMAT.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let header = "op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum\n";
        assert!(is(header) && is(&format!("STG.E,0x7f,1024,1,0,125,1586\n{header}")));
        assert!(is("context_id,call_stack\n1,77<78\n"));
        assert!(is(
            "{\"op\": \"LDG\", \"addr\": \"0x7f\", \"running_device_id\": 0}\n"
        ));
        assert!(!is("op,count,datatype\n") && !is("{\"op\":\"Send\",\"count\":1}\n"));
    }
}
