//! The call table as a trace in Chrome's format, which Perfetto opens: JSON lines become events. A
//! process of the trace is a process of the job on one clock: times of two clocks are not compared.
//! A call with a duration is a slice, one with only a start an instant. Slices of a track do not
//! overlap: overlapping calls get further tracks.

use super::limits::MAX_LANES;
use super::table::{JsonRow, Row};
use crate::grammar::trainer::parse_stamp_millis;
use rustc_hash::FxHashMap;
use serde_json::json;
use std::io::{self, Write};

/// Takes JSON lines of the call table, and writes events.
pub struct ChromeTrace<'w> {
    out: &'w mut (dyn Write + Send),
    /// The first bytes of an incomplete line.
    open: Vec<u8>,
    processes: FxHashMap<TraceProcess, u64>,
    tracks: FxHashMap<(u64, TraceTrack), TraceLanes>,
    has_begun: bool,
    /// Counts events that were written.
    events: u64,
    /// Counts calls without any time.
    untimed: u64,
}

/// A process of the job: host, process id or else rank and communicator's size, and the clock.
type TraceProcess = (
    Box<[u8]>,
    Option<u64>,
    Option<(u32, Option<u32>)>,
    Box<[u8]>,
);

/// The stream of calls, or else their communicator.
type TraceTrack = (Option<u64>, Option<String>);

/// The tracks of calls that overlap: the number of each, and the end of its last slice.
#[derive(Default)]
struct TraceLanes(Vec<(u64, u64)>);

impl<'w> ChromeTrace<'w> {
    /// Writes to `out`.
    pub fn new(out: &'w mut (dyn Write + Send)) -> ChromeTrace<'w> {
        ChromeTrace {
            out,
            open: Vec::new(),
            processes: FxHashMap::default(),
            tracks: FxHashMap::default(),
            has_begun: false,
            events: 0,
            untimed: 0,
        }
    }

    /// Ends the trace; how many calls have no time and are not in it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        let rest = std::mem::take(&mut self.open);
        self.write_line(&rest)?;
        let begin = self.take_opening();
        self.out.write_all(begin)?;
        self.out.write_all(b"\n]}\n")?;
        Ok(self.untimed)
    }

    /// Writes the beginning of the trace, unless it was written.
    fn take_opening(&mut self) -> &'static [u8] {
        match std::mem::replace(&mut self.has_begun, true) {
            true => b"",
            false => b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[",
        }
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let Ok(row) = serde_json::from_slice::<JsonRow<'_>>(line.trim_ascii()) else {
            return Ok(());
        };
        if let Ok((row, timing)) = row.row() {
            let timing = Some(&timing);
            self.write_row(&Row { timing, ..row })?;
        }
        Ok(())
    }

    fn write_row(&mut self, row: &Row<'_>) -> io::Result<()> {
        let times = row.times();
        let (start, clock) = match times.start_ns {
            Some(ns) => (ns, times.clock),
            None => match stamp_ns(row.time) {
                Some(ns) => (ns, &b"log"[..]),
                None => {
                    self.untimed += 1;
                    return Ok(());
                }
            },
        };
        let pid = self.process_number(row, clock)?;
        let tid = self.track_number(row, pid, start, times.dur_ns)?;
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let known = |value: &[u8]| (!value.is_empty()).then(|| text(value));
        let args = json!({
            "bytes": row.bytes().map(json_integer), "count": row.count, "datatype": row.datatype.map(|d| d.to_string()),
            "rank": row.rank, "nranks": row.nranks, "comm_id": row.comm_id.map(|id| id.to_string()),
            "seq": row.seq, "root": row.root, "step": row.step, "algo": known(times.algo),
            "proto": known(times.proto), "nchannels": times.nchannels, "src": known(row.src),
            "pg_name": known(times.pg_name),
            "pg_desc": known(times.pg_desc), "clock": text(clock), "quality": known(times.quality),
        });
        let args = match args {
            serde_json::Value::Object(map) => map.into_iter().filter(|(_, value)| !value.is_null()),
            _ => return Ok(()),
        };
        let args: serde_json::Map<String, serde_json::Value> = args.collect();
        let kind = match times.dur_ns {
            Some(ns) => format!("\"ph\":\"X\",\"dur\":{}", micros_text(ns)),
            None => "\"ph\":\"i\",\"s\":\"t\"".to_owned(),
        };
        self.write_event(&format!(
            "{{\"name\":{},\"cat\":\"nccl\",{kind},\"ts\":{},\"pid\":{pid},\"tid\":{tid},\"args\":{}}}",
            json!(text(row.op)),
            micros_text(start),
            serde_json::Value::Object(args),
        ))
    }

    /// Returns the number of the row's process; writes its name once.
    fn process_number(&mut self, row: &Row<'_>, clock: &[u8]) -> io::Result<u64> {
        let by_rank = match (row.host, row.pid) {
            (b"", None) => row.rank.map(|rank| (rank, row.nranks)),
            _ => None,
        };
        let key: TraceProcess = (row.host.into(), row.pid, by_rank, clock.into());
        let next = self.processes.len() as u64 + 1;
        if let Some(known) = self.processes.get(&key) {
            return Ok(*known);
        }
        self.processes.insert(key, next);
        let host = String::from_utf8_lossy(row.host);
        let who = match (row.pid, by_rank) {
            (Some(pid), _) if host.is_empty() => format!("process {pid}"),
            (Some(pid), _) => format!("{host}:{pid}"),
            (None, Some((rank, Some(nranks)))) => format!("rank {rank} of {nranks}"),
            (None, Some((rank, None))) => format!("rank {rank}"),
            (None, None) if host.is_empty() => "calls".to_owned(),
            (None, None) => host.into_owned(),
        };
        let name = format!("{who}, clock {}", String::from_utf8_lossy(clock));
        self.write_name("process_name", next, 0, &name)?;
        Ok(next)
    }

    /// Returns the number of a call's track.
    fn track_number(
        &mut self,
        row: &Row<'_>,
        pid: u64,
        start: u64,
        dur: Option<u64>,
    ) -> io::Result<u64> {
        let comm = || row.comm_id.map(|id| id.to_string());
        let of: TraceTrack = (row.stream, if row.stream.is_some() { None } else { comm() });
        let name = match &of {
            (Some(stream), _) => format!("stream {stream:#x}"),
            (None, Some(comm)) => format!("communicator {comm}"),
            (None, None) => "calls".to_owned(),
        };
        let next = self
            .tracks
            .values()
            .map(|lanes| lanes.0.len() as u64)
            .sum::<u64>()
            + 1;
        let TraceLanes(lanes) = self.tracks.entry((pid, of)).or_default();
        let end = start.saturating_add(dur.unwrap_or(0));
        // An instant needs no room.
        let free = lanes
            .iter_mut()
            .find(|(_, last)| dur.is_none() || *last <= start);
        if let Some((tid, last)) = free {
            *last = end.max(*last);
            return Ok(*tid);
        }
        if let (true, Some((tid, last))) = (lanes.len() >= MAX_LANES, lanes.last_mut()) {
            *last = end.max(*last);
            return Ok(*tid);
        }
        lanes.push((next, end));
        self.write_name("thread_name", pid, next, &name)?;
        Ok(next)
    }

    fn write_name(&mut self, what: &str, pid: u64, tid: u64, name: &str) -> io::Result<()> {
        self.write_event(&format!(
            "{{\"name\":\"{what}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{}}}}}",
            json!(name)
        ))
    }

    fn write_event(&mut self, event: &str) -> io::Result<()> {
        let begin = self.take_opening();
        self.out.write_all(begin)?;
        let comma: &[u8] = if self.events == 0 { b"\n" } else { b",\n" };
        self.events += 1;
        self.out.write_all(comma)?;
        self.out.write_all(event.as_bytes())
    }
}

/// Returns the ns since 1970 of a log's stamp, as if it were UTC: the stamp is the host's, mostly
/// in seconds.
fn stamp_ns(time: &[u8]) -> Option<u64> {
    let seconds = u64::try_from(parse_stamp_millis(time)?).ok()? / 1000;
    let fraction = time.get(20..).unwrap_or_default();
    let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
    let ns = digits.fold(0, |ns, digit| ns * 10 + u64::from(digit.wrapping_sub(b'0')));
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// Formats ns as us, exactly.
fn micros_text(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

impl Write for ChromeTrace<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|&b| b == b'\n') {
            self.open.extend_from_slice(line);
            if line.ends_with(b"\n") {
                let mut whole = std::mem::take(&mut self.open);
                self.write_line(&whole)?;
                whole.clear();
                self.open = whole;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// An integer as JSON: as text where it is too large for a number there.
fn json_integer(n: u128) -> serde_json::Value {
    u64::try_from(n).map_or_else(|_| n.to_string().into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(lines: &str) -> (serde_json::Value, u64) {
        let mut out = Vec::new();
        let mut chrome = ChromeTrace::new(&mut out);
        // In pieces, as a pipe may have it.
        for piece in lines.as_bytes().chunks(7) {
            chrome.write_all(piece).unwrap();
        }
        let untimed = chrome.finish().unwrap();
        (serde_json::from_slice(&out).unwrap(), untimed)
    }

    #[test]
    fn calls_are_slices_or_instants_of_valid_json() {
        let line = |more: &str| {
            format!(
                "{{\"op\":\"Send\",\"count\":4,\"datatype\":\"int8\",\"host\":\"a\\\"b\",\"pid\":7,{more}}}\n"
            )
        };
        let (all, untimed) = trace(
            &[
                line("\"start_ns\":5001,\"dur_ns\":2000,\"clock\":\"gpu\""),
                line("\"start_ns\":6000,\"dur_ns\":500,\"clock\":\"gpu\""),
                line("\"start_ns\":9000,\"clock\":\"gpu\""),
                line("\"time\":\"1970-01-01 00:00:02.000000500\""),
                line("\"time\":\"soon\""),
            ]
            .concat(),
        );
        let events: Vec<_> = all["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|e| e["ph"] != "M")
            .collect();
        let of = |key: &str| {
            events
                .iter()
                .map(|e| e[key].to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("ph"), ["\"X\"", "\"X\"", "\"i\"", "\"i\""]);
        assert_eq!(of("ts"), ["5.001", "6.0", "9.0", "2000000.5"]);
        // The second overlaps the first; the fourth is on another clock.
        assert_eq!(
            (of("pid"), of("tid")),
            (
                vec!["1".into(), "1".into(), "1".into(), "2".into()],
                vec!["1".into(), "2".into(), "1".to_owned(), "3".into()]
            )
        );
        assert_eq!((untimed, &events[0]["args"]["bytes"]), (1, &json!(4)));
        assert_eq!(all["traceEvents"][0]["args"]["name"], "a\"b:7, clock gpu");
        assert_eq!(trace("").0["traceEvents"], json!([]));
    }
}
