//! Data that is neither a log nor a table or trace of calls: a JSON document, a CSV table. Any line of
//! text in it makes it a log, since collectors of logs write JSON and CSV too.

use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use memchr::memmem;
use serde::de::IgnoredAny;

/// A JSON document. An object on one line may be a trainer's output.
pub(super) const JSON: InputFormat = InputFormat {
    name: "",
    what: "a JSON file without calls",
    tells: Provides::NOTHING,
    probe: |head| {
        let text = head.bytes.trim_ascii();
        let is_document = match text.first() {
            Some(b'[') => true,
            // A configuration may be printed before the lines of a log.
            Some(b'{') => head.is_whole() && text.contains(&b'\n'),
            _ => false,
        };
        let is_data = || is_json(text, head.is_whole()) && !json_strings(text).any(is_log_text);
        ProbeAnswer::perhaps_or_no(is_document && is_data())
    },
};

/// Records of NCCL Inspector that another tool has put on several lines each.
pub(super) const SPREAD_INSPECTOR_RECORDS: InputFormat = InputFormat {
    name: "",
    what: "a dump of NCCL Inspector with records over several lines (jq -c . puts each on one line, as Inspector \
           writes them)",
    tells: Provides::NOTHING,
    probe: |head| {
        let key: &[u8] = b"\"inspector_output_format_version\"";
        let has = |text: &[u8]| memmem::find(head.bytes, text).is_some();
        // A key at the beginning of a line, also where the records are in a text.
        let begins = |line: &[u8]| line.trim_ascii_start().starts_with(key);
        let is_spread = has(key) && head.lines().any(begins);
        ProbeAnswer::perhaps_or_no(is_spread && !has(b" NCCL INFO "))
    },
};

/// A trace of rocprofiler: one JSON object, or a CSV table of kernels.
pub(super) const ROCPROFILER: InputFormat = InputFormat {
    name: "",
    what: "a record of rocprofiler, which no program here reads (traces of torch.profiler are read)",
    tells: Provides::NOTHING,
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let first: Vec<u8> = text
            .iter()
            .take(64)
            .filter(|b| !b.is_ascii_whitespace())
            .copied()
            .collect();
        let is_json = first.starts_with(b"{\"rocprofiler-sdk-tool\"");
        let line = head.first_line();
        let is_stats = line.starts_with(b"\"Name\",\"Calls\",\"TotalDurationNs\",");
        let is_trace = line.starts_with(b"\"Kind\",\"Agent_Id\",");
        ProbeAnswer::yes_or_no(is_json || is_stats || is_trace)
    },
};

/// The calls that torchcomms writes (its ClogHook, version 1).
pub(super) const TORCHCOMMS: InputFormat = InputFormat {
    name: "",
    what: "a log of torchcomms' calls, which no program here reads",
    tells: Provides::NOTHING,
    probe: |head| {
        let line = head.first_line();
        ProbeAnswer::yes_or_no(
            line.starts_with(b"V|") && memmem::find(line, b"|base_timestamp=").is_some(),
        )
    },
};

/// A CSV table.
pub(super) const CSV: InputFormat = InputFormat {
    name: "",
    what: "a CSV file without the columns of calls",
    tells: Provides::NOTHING,
    probe: |head| {
        let line = head.first_line();
        ProbeAnswer::perhaps_or_no(line.contains(&b',') && is_header(line) && is_table(head))
    },
};

/// Returns true for a JSON document, or its beginning.
fn is_json(text: &[u8], is_whole: bool) -> bool {
    match serde_json::from_slice::<IgnoredAny>(text) {
        Ok(_) => true,
        Err(e) => e.is_eof() && !is_whole,
    }
}

/// The strings of a JSON document.
fn json_strings(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = memchr::memchr(b'"', rest)? + 1;
        let mut to = from;
        while let Some(at) = memchr::memchr2(b'"', b'\\', &rest[to.min(rest.len())..]) {
            to += at;
            if rest[to] == b'"' {
                break;
            }
            to += 2;
        }
        let string = rest.get(from..to).unwrap_or_default();
        rest = rest.get(to + 1..).unwrap_or_default();
        Some(string)
    })
}

/// Returns true for a possible line of a log: NCCL's own, several words, or line ends.
fn is_log_text(string: &[u8]) -> bool {
    let blanks = memchr::memchr_iter(b' ', string).count();
    blanks > 2
        || [&b"\\n"[..], b"\n", b"NCCL"]
            .iter()
            .any(|word| memmem::find(string, word).is_some())
}

/// Returns true for a line of column names.
fn is_header(line: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        let name = name.trim_ascii();
        let is_byte = |b: &u8| b.is_ascii_alphanumeric() || b"_ .()%/-".contains(b);
        name.first().is_some_and(u8::is_ascii_alphabetic) && name.iter().all(is_byte)
    };
    let mut names = line.split(|&b| b == b',');
    names.clone().count() > 2 && names.all(is_name)
}

/// Returns true if all records have as many fields as the header, and no field is a text.
fn is_table(head: &InputHead<'_>) -> bool {
    let whole = match head.is_whole() {
        true => head.bytes,
        // The last record is cut.
        false => &head.bytes[..memchr::memrchr(b'\n', head.bytes).unwrap_or(0)],
    };
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(whole);
    let mut records = 0;
    for record in rows.byte_records() {
        match record {
            Ok(record) if !record.iter().any(is_log_text) => records += 1,
            _ => return false,
        }
    }
    records > 1 || head.is_open()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::format::HeadEnd;

    fn is(format: &InputFormat, text: &str) -> bool {
        (format.probe)(&InputHead::from_bytes(text.as_bytes())) != ProbeAnswer::No
    }

    #[test]
    fn records_that_no_program_reads_are_named() {
        for text in [
            "{\"rocprofiler-sdk-tool\":[{\"metadata\":{}}]}",
            "{\n    \"rocprofiler-sdk-tool\": [\n        {",
            "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"\n\"f\",1,2,2,100\n",
            "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\"\n",
        ] {
            assert!(is(&ROCPROFILER, text), "{text}");
        }
        assert!(!is(&ROCPROFILER, "{\"a\": \"rocprofiler-sdk-tool\"}"));
        assert!(is(
            &TORCHCOMMS,
            "V|1|base_timestamp=1714234567.890\nnew_comm|comm=world|rank=0\n"
        ));
        assert!(!is(&TORCHCOMMS, "V|1|\n"));
        let version = "\"inspector_output_format_version\": \"v4.0\",\n";
        assert!(is(
            &SPREAD_INSPECTOR_RECORDS,
            &format!("# notes\n```json\n{{\n  {version}")
        ));
        assert!(!is(
            &SPREAD_INSPECTOR_RECORDS,
            &format!("h:1:2 [0] NCCL INFO x\n  {version}")
        ));
    }

    #[test]
    fn a_document_without_text_is_data() {
        assert!(is(&JSON, "{\n  \"ranks\": 8,\n  \"name\": \"a\\\"b\"\n}\n"));
        assert!(is(&JSON, "[[\"AllReduce\", 1024, 0.5]]"));
        // What a trainer or a collector of logs writes.
        assert!(!is(
            &JSON,
            "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 2.4}\n"
        ));
        assert!(!is(&JSON, "{\"step\": 1, \"loss\": 2.5}"));
        assert!(!is(&JSON, "{\n  \"batch\": 8\n}\nstep 1\n"));
        assert!(!is(&JSON, "[{\"msg\": \"h:1:2 [0] NCCL INFO\"}]"));
        assert!(!is(&JSON, "[{\"msg\": \"loading the model now\"}]"));
        assert!(!is(&JSON, "[\n\"a\\n\"\n]") && !is(&JSON, "[1/2] step\n") && !is(&JSON, ""));
        // The beginning of a document that is longer than a head.
        let long = format!("[{}", "[1, \"a\"],".repeat(9));
        let head = |bytes: &[u8]| {
            (JSON.probe)(&InputHead {
                end: HeadEnd::Cut,
                ..InputHead::from_bytes(bytes)
            })
        };
        assert_eq!(head(long.as_bytes()), ProbeAnswer::Perhaps);
        assert_eq!(head(b"{\n \"batch\": 8,"), ProbeAnswer::No);
    }

    #[test]
    fn records_of_inspector_over_several_lines_are_known() {
        let record =
            r#"{"header":{"id":"0x1"},"metadata":{"inspector_output_format_version":"v4.0"}}"#;
        let spread = record.replace('{', "{\n ").replace('}', "\n}");
        assert!(is(&SPREAD_INSPECTOR_RECORDS, &spread));
        assert!(!is(&SPREAD_INSPECTOR_RECORDS, record));
    }

    #[test]
    fn a_table_of_names_and_values_is_data() {
        assert!(is(&CSV, "rank,pid,ev,count\n0,570,mark,0\n1,571,mark,0\n"));
        assert!(!is(&CSV, "rank,pid,ev,count\n"));
        assert!(!is(&CSV, "time,host,message\n1,a,h:1:2 [0] NCCL INFO x\n"));
        assert!(!is(&CSV, "time,host,message\n1,a,loading the model now\n"));
        assert!(!is(
            &CSV,
            "Epoch 1, step 2, loss 3\nEpoch 1, step 3, loss 3, saved\n"
        ));
        assert!(!is(&CSV, "a, b, c\nplain text\n"));
    }
}
