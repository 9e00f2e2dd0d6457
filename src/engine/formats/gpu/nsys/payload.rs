//! What NCCL gives NVTX with a call, as binary data: which communicator, how many bytes, root or peer. The
//! export says by tables where each is; without `--include-blobs=true` it has no data.

use super::export::Export;
use super::text::Facts;
use crate::error::Result;
use rustc_hash::FxHashMap;

/// A field that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Field {
    Comm,
    Bytes,
    Nranks,
    Rank,
    Device,
    /// The root or the peer.
    Root,
    Redop,
}

impl Field {
    /// The field of that name (`src/include/nvtx_payload_schemas.h`, 2.19 to 2.30).
    fn of(name: &[u8]) -> Option<Field> {
        Some(match name {
            b"NCCL communicator ID" => Field::Comm,
            b"Message size [bytes]" => Field::Bytes,
            b"No. of ranks" => Field::Nranks,
            b"Rank" => Field::Rank,
            b"CUDA device" => Field::Device,
            b"Root" | b"Peer rank" => Field::Root,
            b"Reduction operation" => Field::Redop,
            _ => return None,
        })
    }
}

/// Where the fields of each schema are.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    /// By domain, schema and field. `None` where processes differ in it.
    offsets: FxHashMap<(u64, u64, Field), Option<usize>>,
}

/// Where a record's own header ends: domain, schema, size and offset, each of 8 bytes.
const HEADER: usize = 32;

impl Schemas {
    /// Those of an export.
    pub(super) fn of(export: &Export) -> Result<Schemas> {
        let mut schemas = Schemas::default();
        let columns = ["domainId", "schemaId", "name", "offset"];
        export.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", &columns, &mut |fields| {
            let field = fields.bytes(2).and_then(Field::of);
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

    /// Adds what the binary data of a range tells; whether it could be read.
    pub(super) fn read(&self, data: &[u8], facts: &mut Facts) -> bool {
        let word = |at: usize| eight(data, at);
        let (Some(domain), Some(schema), Some(size), Some(from)) =
            (word(0), word(8), word(16), word(24))
        else {
            return false;
        };
        let (Ok(from), Ok(size)) = (usize::try_from(from), usize::try_from(size)) else {
            return false;
        };
        let payload = from.checked_add(size).and_then(|to| data.get(from..to));
        let Some(payload) = payload.filter(|_| from >= HEADER) else {
            return false;
        };
        let at = |field| {
            self.offsets
                .get(&(domain, schema, field))
                .copied()
                .flatten()
        };
        let whole = |field| at(field).and_then(|at| eight(payload, at));
        let small = |field| at(field).and_then(|at| four(payload, at));
        facts.comm = whole(Field::Comm).or(facts.comm);
        facts.bytes = whole(Field::Bytes).or(facts.bytes);
        facts.nranks = small(Field::Nranks).or(facts.nranks);
        facts.rank = small(Field::Rank).or(facts.rank);
        facts.device = small(Field::Device).or(facts.device);
        facts.root = small(Field::Root).or(facts.root);
        facts.redop = small(Field::Redop).or(facts.redop);
        true
    }
}

fn eight(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn four(data: &[u8], at: usize) -> Option<i64> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_schema_says() {
        let mut schemas = Schemas::default();
        for (field, at) in [(Field::Comm, 0), (Field::Bytes, 8), (Field::Root, 16)] {
            schemas.offsets.insert((1, 9, field), Some(at));
        }
        let words: [u64; 7] = [1, 9, 24, 32, 0xb9, 49_152, 0xc4_0000_0001];
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut facts = Facts::default();
        assert!(schemas.read(&data, &mut facts));
        let expected = Facts {
            comm: Some(0xb9),
            bytes: Some(49_152),
            // The four bytes behind it are padding.
            root: Some(1),
            ..Facts::default()
        };
        assert_eq!(facts, expected);
        for cut in 0..data.len() {
            assert!(!schemas.read(&data[..cut], &mut Facts::default()), "{cut}");
        }
        let far = [1, 9, u64::MAX, 32_u64].map(u64::to_le_bytes).concat();
        assert!(!schemas.read(&far, &mut Facts::default()));
    }
}
