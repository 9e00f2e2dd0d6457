//! COLL and CALL lines, by version of the library.
//!
//! The format string is that of `ncclEnqueueCheck` in `src/enqueue.cc`, the same from NCCL
//! 2.4.2 to 2.30.7; only its arguments differ.

use crate::job::call::{CallOp, ScheduledCall};
use crate::job::{JobProcess, SynthJob};
use crate::options::Nccl;

/// Where a COLL line can be cut, as offsets into the buffer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CutOffsets {
    /// First byte of the operation.
    pub body: usize,
    /// The byte after the opCount's first digit: a line cut from here on is still recognised as a call.
    pub named: usize,
    /// First byte of the stream: a line cut before it is recognised as cut.
    pub stream: usize,
}

/// The fixed fronts of a rank's lines.
#[derive(Debug)]
pub(crate) struct LineFronts {
    forward: Vec<u8>,
    backward: Vec<u8>,
    call_forward: Vec<u8>,
    call_backward: Vec<u8>,
}

impl LineFronts {
    /// `host:pid:tid [dev] NCCL INFO ` and `host:pid:tid NCCL CALL ` (no device there).
    pub(crate) fn new(proc: &JobProcess) -> Self {
        let info = |tid: u64| {
            format!("{}:{}:{tid} [{}] NCCL INFO ", proc.host, proc.pid, proc.dev).into_bytes()
        };
        let call = |tid: u64| format!("{}:{}:{tid} NCCL CALL ", proc.host, proc.pid).into_bytes();
        Self {
            forward: info(proc.pid),
            backward: info(proc.backward_tid),
            call_forward: call(proc.pid),
            call_backward: call(proc.backward_tid),
        }
    }

    /// The front of a COLL line.
    pub(crate) fn info_front(&self, backward: bool) -> &[u8] {
        if backward {
            &self.backward
        } else {
            &self.forward
        }
    }

    /// The front of a CALL line.
    pub(crate) fn call_front(&self, backward: bool) -> &[u8] {
        if backward {
            &self.call_backward
        } else {
            &self.call_forward
        }
    }
}

/// The values on a call's line besides the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLineFields {
    /// NCCL's counter.
    pub op_count: u64,
    /// Elements.
    pub count: u64,
    /// Send buffer; 0 is nil.
    pub send: u64,
    /// Receive buffer; 0 is nil.
    pub recv: u64,
}

impl CallLineFields {
    /// A Send's buffer stands under `recvbuff` since the API entry points pass it there
    /// (`src/collectives/sendrecv.cc`, `ncclFuncSend`; nccl#734); before, under `sendbuff`.
    pub(crate) fn new(
        nccl: Nccl,
        call: &ScheduledCall,
        op_count: u64,
        count: u64,
        buffer: u64,
    ) -> Self {
        let (send, recv) = match call.op {
            CallOp::Send if !nccl.since(Nccl::V2_12) => (buffer, 0),
            CallOp::Send | CallOp::Recv => (0, buffer),
            // In place, as Megatron's all-reduces are.
            CallOp::AllReduce | CallOp::Broadcast => (buffer, buffer),
            _ => (buffer, buffer + 0x4000_0000),
        };
        Self {
            op_count,
            count,
            send,
            recv,
        }
    }
}

fn write_decimal(buf: &mut Vec<u8>, n: u64) {
    buf.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

fn write_hex(buf: &mut Vec<u8>, n: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0u8; 16];
    let mut at = 16;
    let mut n = n;
    loop {
        at -= 1;
        text[at] = DIGITS[(n & 15) as usize];
        n >>= 4;
        if n == 0 || at == 0 {
            break;
        }
    }
    buf.extend_from_slice(&text[at..]);
}

/// glibc's `%p`.
fn write_pointer(buf: &mut Vec<u8>, n: u64) {
    if n == 0 {
        buf.extend_from_slice(b"(nil)");
    } else {
        buf.extend_from_slice(b"0x");
        write_hex(buf, n);
    }
}

/// Appends the COLL line of a call to `buf`.
pub(crate) fn write_coll_line(
    buf: &mut Vec<u8>,
    nccl: Nccl,
    job: &SynthJob,
    proc: &JobProcess,
    fronts: &LineFronts,
    call: &ScheduledCall,
    shown: CallLineFields,
) -> CutOffsets {
    let member = &proc.members[call.slot];
    buf.extend_from_slice(fronts.info_front(call.backward));
    let body = buf.len();
    buf.extend_from_slice(call.op.name().as_bytes());
    buf.extend_from_slice(b": opCount ");
    let named = buf.len() + 1;
    write_hex(buf, shown.op_count);
    buf.extend_from_slice(b" sendbuff ");
    write_pointer(buf, shown.send);
    buf.extend_from_slice(b" recvbuff ");
    write_pointer(buf, shown.recv);
    if nccl == Nccl::Rccl2_27 {
        buf.extend_from_slice(b" acc (nil)");
    }
    buf.extend_from_slice(b" count ");
    write_decimal(buf, shown.count);
    buf.extend_from_slice(b" datatype ");
    write_decimal(buf, call.dtype as u64);
    buf.extend_from_slice(b" op ");
    write_decimal(buf, u64::from(call.redop));
    buf.extend_from_slice(b" root ");
    write_decimal(buf, call.root as u64);
    buf.extend_from_slice(b" comm ");
    write_pointer(buf, member.ptr);
    buf.extend_from_slice(b" [nranks=");
    write_decimal(buf, job.comms[member.comm].ranks.len() as u64);
    buf.extend_from_slice(b"] stream ");
    let stream = buf.len();
    write_pointer(
        buf,
        if nccl == Nccl::Rccl2_27 {
            0
        } else {
            proc.stream
        },
    );
    if nccl.is_rccl() {
        // RCCL `src/enqueue.cc`: the tasks waiting in the group, and the rank.
        buf.extend_from_slice(b" task ");
        write_decimal(buf, u64::from(call.task));
        buf.extend_from_slice(b" globalrank ");
        write_decimal(buf, member.rank as u64);
    }
    CutOffsets {
        body,
        named,
        stream,
    }
}

/// Writes the CALL line of a call: buffers without `0x`, communicator and stream with.
pub(crate) fn write_call_line(
    buf: &mut Vec<u8>,
    proc: &JobProcess,
    fronts: &LineFronts,
    call: &ScheduledCall,
    shown: CallLineFields,
) {
    buf.extend_from_slice(fronts.call_front(call.backward));
    buf.extend_from_slice(b"nccl");
    buf.extend_from_slice(call.op.name().as_bytes());
    buf.push(b'(');
    write_hex(buf, shown.send);
    buf.push(b',');
    write_hex(buf, shown.recv);
    for n in [
        shown.count,
        call.dtype as u64,
        u64::from(call.redop),
        call.root as u64,
    ] {
        buf.push(b',');
        write_decimal(buf, n);
    }
    for n in [proc.members[call.slot].ptr, proc.stream] {
        buf.extend_from_slice(b",0x");
        write_hex(buf, n);
    }
    buf.push(b')');
}

#[cfg(test)]
mod tests {
    use super::{CallLineFields, LineFronts, write_coll_line};
    use crate::job::SynthJob;
    use crate::job::call::{CallCount, CallDtype, CallOp, ScheduledCall};
    use crate::options::{Nccl, Options};

    fn line(nccl: Nccl, op: CallOp, redop: u32) -> String {
        let mut job = SynthJob::new(&Options::default(), 0);
        let proc = &mut job.procs[1];
        (proc.pid, proc.stream, proc.members[0].ptr) = (77, 0xabc0, 0x5500);
        let proc = &job.procs[1];
        let call = ScheduledCall {
            op,
            slot: 0,
            count: CallCount::Fixed(10),
            dtype: CallDtype::Fp32,
            redop,
            root: 0,
            backward: false,
            task: 0,
            more: false,
            every: 1,
            cell: 0,
        };
        let mut buf = Vec::new();
        let shown = CallLineFields::new(nccl, &call, 26, 10, 0x7f00);
        let marks = write_coll_line(
            &mut buf,
            nccl,
            &job,
            proc,
            &LineFronts::new(proc),
            &call,
            shown,
        );
        assert!(buf[marks.body..].starts_with(op.name().as_bytes()));
        assert!(buf[..marks.named].ends_with(b"opCount 1"));
        assert!(buf[..marks.stream].ends_with(b"stream "));
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn a_line_has_ncclenqueuecheck_s_shape() {
        assert_eq!(
            line(Nccl::V2_28, CallOp::AllReduce, 2),
            "node01:77:77 [1] NCCL INFO AllReduce: opCount 1a sendbuff 0x7f00 recvbuff 0x7f00 \
             count 10 datatype 7 op 2 root 0 comm 0x5500 [nranks=8] stream 0xabc0"
        );
    }

    #[test]
    fn rccl_adds_its_tail() {
        assert!(
            line(Nccl::Rccl2_22, CallOp::AllReduce, 0)
                .ends_with("stream 0xabc0 task 0 globalrank 1")
        );
        let new = line(Nccl::Rccl2_27, CallOp::AllReduce, 0);
        assert!(new.contains("recvbuff 0x7f00 acc (nil) count 10"));
        assert!(new.ends_with("stream (nil) task 0 globalrank 1"));
    }

    #[test]
    fn a_send_s_buffer_moved() {
        assert!(line(Nccl::V2_7, CallOp::Send, 0).contains("sendbuff 0x7f00 recvbuff (nil)"));
        assert!(line(Nccl::V2_16, CallOp::Send, 0).contains("sendbuff (nil) recvbuff 0x7f00"));
    }
}
