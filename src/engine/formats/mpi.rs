//! The MPI message logger's lines: `[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4
//! bytes=128 comm=0x5598e4b98480` (arstgr's `mpi_msg_logger.c`, a wrapper of PMPI).
//!
//! All ranks write into one file by default, and overwrite each other's bytes there. A line is damaged if
//! another begins inside it, even if it looks whole.

use super::lines::{RecordFormat, RecordText};
use super::whole_number::parse_decimal;
use super::{InputFormat, Provides};
use crate::error::Result;
use crate::grammar::token::{dec_u32, dec_u64, hex_u64};
use crate::output::table::{Lacks, Row, Timing};
use memchr::memmem;

/// The format.
pub(super) const FORMAT: InputFormat = InputFormat {
    name: "mpi",
    what: "an MPI message log",
    tells: Provides::CALLS.and(Provides::STARTS).and(Provides::MPI),
    probe: |head| {
        let is = |line: &[u8]| {
            split_line_start(line).is_some() && memmem::find(line, b"world_rank=").is_some()
        };
        head.probe_recorder(is(head.first_line()) && head.most_lines(is))
    },
};

/// The reader of its lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct MpiFormat;

impl RecordFormat for MpiFormat {
    type Scratch = ();

    fn read_header(_: &[u8], _: &str) -> Result<MpiFormat> {
        Ok(MpiFormat)
    }

    fn read_record(
        &self,
        (): &mut (),
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        let Some(text) = record.bytes.strip_suffix(b"\n") else {
            return Err("the rest of the line");
        };
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let (before, last) = text.split_at(find_last_start(text).ok_or("[seconds] MPI_")?);
        let calls = parse_calls(last)?;
        let timing = Timing {
            start_ns: calls.start_ns,
            clock: b"mpi_wtime",
            quality: b"the time before the call",
            ..Timing::default()
        };
        for call in calls.rows.into_iter().flatten() {
            take(&Row {
                timing: Some(&timing),
                ..call
            });
        }
        match before.trim_ascii().is_empty() {
            true => Ok(()),
            false => Err("a whole line before another begins"),
        }
    }
}

/// Splits a line that begins here into its seconds and the text after `] `.
fn split_line_start(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(b"[")?;
    let stamp = rest
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b'.')
        .count();
    let (stamp, rest) = rest.split_at_checked(stamp)?;
    let rest = rest.strip_prefix(b"] ")?;
    (!stamp.is_empty() && rest.starts_with(b"MPI_")).then_some((stamp, rest))
}

/// Returns the start of the last logger line inside this line.
fn find_last_start(line: &[u8]) -> Option<usize> {
    memchr::memrchr_iter(b'[', line)
        .find(|&at| split_line_start(line.get(at..).unwrap_or_default()).is_some())
}

/// The start and the calls of a line.
#[derive(Debug, Default)]
struct MpiLine<'l> {
    start_ns: Option<u64>,
    rows: [Option<Row<'l>>; 2],
}

/// Reads the calls of a whole line: none, one, or two for MPI_Sendrecv.
fn parse_calls(line: &[u8]) -> Result<MpiLine<'_>, Lacks> {
    let (stamp, rest) = split_line_start(line).ok_or("[seconds] MPI_")?;
    let start_ns = Some(parse_seconds_ns(stamp).ok_or("seconds")?);
    let mut fields = MpiFields { rest };
    let mut rows = [None, None];
    let name = fields.take_word(b": ")?;
    if let b"MPI_Init" | b"MPI_Init_thread" | b"MPI_Finalize" = name {
        fields.take_integer(b"world_rank=")?;
        if name == b"MPI_Init_thread" {
            fields.take_integer(b" required=")?;
            fields.take_integer(b" provided=")?;
        }
        fields.expect_end()?;
        return Ok(MpiLine { start_ns, rows });
    }
    // Before MPI_Init it is -1.
    let global_rank = u32::try_from(fields.take_integer(b"world_rank=")?).ok();
    let rank = fields.take_rank(b" comm_rank=")?;
    let row = |op: &'static str, rank, bytes, comm| Row {
        op: op.as_bytes(),
        rank: Some(rank),
        global_rank,
        only_bytes: Some(bytes),
        comm,
        calls: 1,
        src: FORMAT.name.as_bytes(),
        ..Row::default()
    };
    match name {
        b"MPI_Send" | b"MPI_Recv" => {
            let (op, peer): (_, &[u8]) = match name {
                b"MPI_Send" => ("Send", b" -> dest="),
                _ => ("Recv", b" <- source="),
            };
            let peer = fields.take_integer(peer)?;
            fields.take_integer(b" tag=")?;
            let bytes = fields.take_number(b" bytes=")?;
            rows[0] = Some(Row {
                root: known_peer(peer),
                ..row(op, rank, bytes, fields.take_comm()?)
            });
        }
        b"MPI_Sendrecv" => {
            let to = fields.take_integer(b" send-> dest=")?;
            fields.take_integer(b" tag=")?;
            let sent = fields.take_number(b" send_bytes=")?;
            let from = fields.take_integer(b" ; recv<- source=")?;
            fields.take_integer(b" tag=")?;
            let received = fields.take_number(b" recv_bytes=")?;
            let comm = fields.take_comm()?;
            let with = |op, peer, bytes| {
                Some(Row {
                    root: known_peer(peer),
                    ..row(op, rank, bytes, comm)
                })
            };
            rows = [with("Send", to, sent), with("Recv", from, received)];
        }
        _ => {
            let nranks = fields.take_rank(b" comm_size=")?;
            let (op, root, bytes) = parse_collective(name, &mut fields)?;
            rows[0] = Some(Row {
                nranks: Some(nranks),
                root: root.and_then(known_peer),
                ..row(op, rank, bytes, fields.take_comm()?)
            });
        }
    }
    fields.expect_end()?;
    Ok(MpiLine { start_ns, rows })
}

/// The operation of a collective, its root and its bytes.
fn parse_collective(
    name: &[u8],
    fields: &mut MpiFields<'_>,
) -> Result<(&'static str, Option<i64>, u64), Lacks> {
    Ok(match name {
        b"MPI_Bcast" => (
            "Broadcast",
            Some(fields.take_integer(b" root=")?),
            fields.take_number(b" bytes=")?,
        ),
        b"MPI_Reduce" => (
            "Reduce",
            Some(fields.take_integer(b" root=")?),
            fields.take_number(b" bytes=")?,
        ),
        b"MPI_Allreduce" => ("AllReduce", None, fields.take_number(b" bytes=")?),
        b"MPI_Allgather" => {
            let sent = fields.take_number(b" send_bytes=")?;
            fields.take_number(b" recv_bytes=")?;
            ("AllGather", None, sent)
        }
        _ => return Err("a call that the logger knows"),
    })
}

/// A rank, and not any or none (MPI_ANY_SOURCE, MPI_PROC_NULL).
fn known_peer(peer: i64) -> Option<i64> {
    (peer >= 0).then_some(peer)
}

/// Seconds with six decimals in ns.
fn parse_seconds_ns(stamp: &[u8]) -> Option<u64> {
    let at = stamp.len().checked_sub(7)?;
    let (seconds, micros) = (stamp.get(..at)?, stamp.get(at..)?.strip_prefix(b".")?);
    let ns = parse_decimal(seconds)?.checked_mul(1_000_000_000)?;
    ns.checked_add(parse_decimal(micros)? * 1000)
}

/// The rest of a line.
struct MpiFields<'l> {
    rest: &'l [u8],
}

impl<'l> MpiFields<'l> {
    /// Takes the bytes before `end`, and `end`.
    fn take_word(&mut self, end: &[u8]) -> Result<&'l [u8], Lacks> {
        let at = memmem::find(self.rest, end).ok_or("the name of a call")?;
        let word = &self.rest[..at];
        self.rest = &self.rest[at + end.len()..];
        Ok(word)
    }

    fn expect_key(&mut self, key: &[u8]) -> Result<(), Lacks> {
        self.rest = self.rest.strip_prefix(key).ok_or("the next field")?;
        Ok(())
    }

    fn take_number(&mut self, key: &[u8]) -> Result<u64, Lacks> {
        self.expect_key(key)?;
        let (rest, number) = dec_u64(self.rest).map_err(|_| "a number")?;
        self.rest = rest;
        Ok(number)
    }

    fn take_rank(&mut self, key: &[u8]) -> Result<u32, Lacks> {
        self.expect_key(key)?;
        let (rest, number) = dec_u32(self.rest).map_err(|_| "a rank")?;
        self.rest = rest;
        Ok(number)
    }

    fn take_integer(&mut self, key: &[u8]) -> Result<i64, Lacks> {
        self.expect_key(key)?;
        let (negative, rest) = match self.rest.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, self.rest),
        };
        let (rest, number) = dec_u32(rest).map_err(|_| "a number")?;
        self.rest = rest;
        let number = i64::from(number);
        Ok(if negative { -number } else { number })
    }

    /// The communicator: an address of Open MPI, a handle of MPICH, or nothing (`(nil)`).
    fn take_comm(&mut self) -> Result<Option<u64>, Lacks> {
        self.expect_key(b" comm=")?;
        if let Some(rest) = self.rest.strip_prefix(b"(nil)") {
            self.rest = rest;
            return Ok(None);
        }
        self.expect_key(b"0x")?;
        let (rest, comm) = hex_u64(self.rest).map_err(|_| "an address")?;
        self.rest = rest;
        Ok(Some(comm))
    }

    fn expect_end(&self) -> Result<(), Lacks> {
        match self.rest {
            b"" => Ok(()),
            _ => Err("the end of the line"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{InputHead, ProbeAnswer};
    use proptest::prelude::*;

    /// Returns the calls of a line as text, and the part that it lacks.
    fn read(line: &str) -> (Vec<String>, Option<Lacks>) {
        let mut all = Vec::new();
        let mut take = |row: &Row<'_>| {
            let op = String::from_utf8_lossy(row.op).into_owned();
            let (bytes, start) = (row.only_bytes.unwrap(), row.times().start_ns.unwrap());
            let rank = row.rank.unwrap();
            all.push(format!(
                "{start} {op} {rank}/{:?} {:?} {bytes} {:?}",
                row.nranks, row.root, row.comm
            ));
        };
        let lacks = MpiFormat
            .read_record(
                &mut (),
                RecordText::from_bytes(format!("{line}\n").as_bytes()),
                &mut take,
            )
            .err();
        (all, lacks)
    }

    #[test]
    fn all_forms_are_read() {
        let one = |line: &str| {
            let (mut all, lacks) = read(line);
            assert_eq!((all.len(), lacks), (1, None), "{line}");
            all.remove(0)
        };
        for line in [
            "[0.000000] MPI_Init: world_rank=0",
            "[0.000000] MPI_Init_thread: world_rank=0 required=3 provided=3",
            "[0.010307] MPI_Finalize: world_rank=12",
        ] {
            assert_eq!(read(line), (vec![], None));
        }
        assert_eq!(
            one(
                "[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4 bytes=128 comm=0x5598"
            ),
            "492000 AllReduce 0/Some(4) None 128 Some(21912)"
        );
        assert_eq!(
            one(
                "[1.000608] MPI_Bcast: world_rank=0 comm_rank=0 comm_size=2 root=1 bytes=64 comm=0x44000000"
            ),
            "1000608000 Broadcast 0/Some(2) Some(1) 64 Some(1140850688)"
        );
        assert_eq!(
            one(
                "[0.000793] MPI_Reduce: world_rank=0 comm_rank=0 comm_size=4 root=0 bytes=128 comm=(nil)"
            ),
            "793000 Reduce 0/Some(4) Some(0) 128 None"
        );
        assert_eq!(
            one(
                "[0.000614] MPI_Allgather: world_rank=0 comm_rank=3 comm_size=4 send_bytes=64 recv_bytes=65 comm=0x1"
            ),
            "614000 AllGather 3/Some(4) None 64 Some(1)"
        );
        assert_eq!(
            one("[0.000949] MPI_Send: world_rank=0 comm_rank=0 -> dest=1 tag=7 bytes=16 comm=0x1"),
            "949000 Send 0/None Some(1) 16 Some(1)"
        );
        assert_eq!(
            one(
                "[0.000693] MPI_Recv: world_rank=1 comm_rank=1 <- source=-2 tag=-1 bytes=16 comm=0x1"
            ),
            "693000 Recv 1/None None 16 Some(1)"
        );
        let (both, lacks) = read(
            "[0.000953] MPI_Sendrecv: world_rank=0 comm_rank=0 send-> dest=1 tag=3 send_bytes=64 ; \
             recv<- source=3 tag=3 recv_bytes=32 comm=0x1",
        );
        let rows = [
            "953000 Send 0/None Some(1) 64 Some(1)",
            "953000 Recv 0/None Some(3) 32 Some(1)",
        ];
        assert_eq!((both, lacks), (rows.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn a_line_that_another_begins_in_is_cut_and_the_other_is_whole() {
        let (rows, lacks) = read(
            "[0[0.000764] MPI_Sendrecv: world_rank=1 comm_rank=1[0.001783] MPI_Allreduce: world_rank=2 \
             comm_rank=2 comm_size=4 bytes=8192 comm=0x56",
        );
        assert_eq!(rows, ["1783000 AllReduce 2/Some(4) None 8192 Some(86)"]);
        assert!(lacks.is_some());
        // It looks whole, but its address may go on.
        let (rows, lacks) = read(
            "[0.1] MPI_Send: world_rank=0 comm_rank=0 -> dest=1 tag=7 bytes=16 comm=0x55[0.000001] \
             MPI_Finalize: world_rank=0",
        );
        assert_eq!((rows.len(), lacks.is_some()), (0, true));
        for line in [
            "ank=1",
            "[0.000764] MPI_Sendrecv: world_rank=1 comm_rank=1",
            "[0.5] MPI_Barrier: x",
        ] {
            let (rows, lacks) = read(line);
            assert_eq!((rows.len(), lacks.is_some()), (0, true), "{line}");
        }
    }

    #[test]
    fn a_log_is_known_by_most_of_its_lines() {
        let is = |text: &str| {
            (FORMAT.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes
        };
        let mpi = "[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4 bytes=128\n";
        assert!(is(&mpi.repeat(3)) && is(&format!("{mpi}[0[0.000764] MPI_Sendre\n{mpi}{mpi}")));
        assert!(!is(&format!("{mpi}hello\nworld\n")) && !is("[0] MPI_Init failed\n"));
    }

    proptest! {
        /// Any bytes changed: no call has numbers that the line does not have.
        #[test]
        fn a_changed_line_is_read_calmly(at in 0..100_usize, byte: u8) {
            let line = "[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4 bytes=128 comm=0x5598\n";
            let mut bytes = line.as_bytes().to_vec();
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            let mut calls = 0;
            let _ = MpiFormat.read_record(&mut (), RecordText::from_bytes(&bytes), &mut |_| calls += 1);
            prop_assert!(calls <= 1);
        }
    }
}
