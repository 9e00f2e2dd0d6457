//! The binary data that NCCL gives NVTX with a call: communicator, bytes, root or peer. Tables of the
//! export have their offsets; without `--include-blobs=true` it has no data.

use super::export::NsysExport;
use super::text::RangeFacts;
use crate::error::Result;
use rustc_hash::FxHashMap;

/// A field that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PayloadField {
    Comm,
    Bytes,
    Nranks,
    Rank,
    Device,
    /// The root or the peer.
    Root,
    Redop,
}

impl PayloadField {
    /// The field of that name (`src/include/nvtx_payload_schemas.h`, 2.19 to 2.30).
    fn from_name(name: &[u8]) -> Option<PayloadField> {
        Some(match name {
            b"NCCL communicator ID" => PayloadField::Comm,
            b"Message size [bytes]" => PayloadField::Bytes,
            b"No. of ranks" => PayloadField::Nranks,
            b"Rank" => PayloadField::Rank,
            b"CUDA device" => PayloadField::Device,
            b"Root" | b"Peer rank" => PayloadField::Root,
            b"Reduction operation" => PayloadField::Redop,
            _ => return None,
        })
    }
}

/// The offsets of each schema's fields.
#[derive(Debug, Default)]
pub(super) struct PayloadSchemas {
    /// By domain, schema and field. `None` if processes differ.
    offsets: FxHashMap<(u64, u64, PayloadField), Option<usize>>,
}

impl PayloadSchemas {
    /// Reads the schemas of an export.
    pub(super) fn from_export(export: &NsysExport) -> Result<PayloadSchemas> {
        let mut schemas = PayloadSchemas::default();
        let columns = ["domainId", "schemaId", "name", "offset"];
        export.for_each_row("NVTX_PAYLOAD_SCHEMA_ENTRIES", &columns, &mut |fields| {
            let field = fields.bytes(2).and_then(PayloadField::from_name);
            if let (Some(domain), Some(schema), Some(field)) =
                (fields.number(0), fields.number(1), field)
            {
                // The first of a schema has none.
                let offset = fields.number(3).unwrap_or(0);
                let offset = usize::try_from(offset).ok();
                let known = schemas
                    .offsets
                    .entry((domain, schema, field))
                    .or_insert(offset);
                if *known != offset {
                    *known = None;
                }
            }
            Ok(())
        })?;
        Ok(schemas)
    }

    /// Adds the facts of a range's binary data; returns false if it cannot be read.
    pub(super) fn read_payload(&self, data: &[u8], facts: &mut RangeFacts) -> bool {
        let word = |at: usize| read_u64(data, at);
        let (Some(domain), Some(schema), Some(size), Some(from)) =
            (word(0), word(8), word(16), word(24))
        else {
            return false;
        };
        let (Ok(from), Ok(size)) = (usize::try_from(from), usize::try_from(size)) else {
            return false;
        };
        let payload = from.checked_add(size).and_then(|to| data.get(from..to));
        let Some(payload) = payload.filter(|_| from >= size_of::<[u64; 4]>()) else {
            return false;
        };
        let at = |field| {
            self.offsets
                .get(&(domain, schema, field))
                .copied()
                .flatten()
        };
        let whole = |field| at(field).and_then(|at| read_u64(payload, at));
        let small = |field| at(field).and_then(|at| read_i32(payload, at));
        facts.comm = whole(PayloadField::Comm).or(facts.comm);
        facts.bytes = whole(PayloadField::Bytes).or(facts.bytes);
        facts.nranks = small(PayloadField::Nranks).or(facts.nranks);
        facts.rank = small(PayloadField::Rank).or(facts.rank);
        facts.device = small(PayloadField::Device).or(facts.device);
        facts.root = small(PayloadField::Root).or(facts.root);
        facts.redop = small(PayloadField::Redop).or(facts.redop);
        true
    }
}

fn read_u64(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn read_i32(data: &[u8], at: usize) -> Option<i64> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_schema_says() {
        let mut schemas = PayloadSchemas::default();
        for (field, at) in [
            (PayloadField::Comm, 0),
            (PayloadField::Bytes, 8),
            (PayloadField::Root, 16),
        ] {
            schemas.offsets.insert((1, 9, field), Some(at));
        }
        let words: [u64; 7] = [1, 9, 24, 32, 0xb9, 49_152, 0xc4_0000_0001];
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut facts = RangeFacts::default();
        assert!(schemas.read_payload(&data, &mut facts));
        let expected = RangeFacts {
            comm: Some(0xb9),
            bytes: Some(49_152),
            // Four bytes of padding follow.
            root: Some(1),
            ..RangeFacts::default()
        };
        assert_eq!(facts, expected);
        for cut in 0..data.len() {
            assert!(
                !schemas.read_payload(&data[..cut], &mut RangeFacts::default()),
                "{cut}"
            );
        }
        let far = [1, 9, u64::MAX, 32_u64].map(u64::to_le_bytes).concat();
        assert!(!schemas.read_payload(&far, &mut RangeFacts::default()));
    }
}
