//! Bytes into events.

use super::predict::FramePrediction;
use super::{FrameHead, flag, kind, other};
use crate::error::Malformed;
use crate::event::{
    CallBegun, CommFacts, Event, KernelSpan, ProcessFacts, ProxyEnded, RecordedShape, TaskBegun,
    TimedEvent,
};
use crate::limits::{FORMAT_VERSION, MAX_COMMS, MAX_NAME_BYTES, MAX_SHAPES};
use crate::varint::BodyBytes;

/// Decodes the events of a file, frame by frame.
#[derive(Debug, Default)]
pub(crate) struct EventDecoder {
    shapes: Vec<RecordedShape>,
    frame: FramePrediction,
}

/// A part of a body.
#[derive(Debug)]
pub(crate) enum DecodedItem {
    /// A communicator's facts, which replace earlier ones of its number.
    Comm(u32, CommFacts),
    /// An event, and the system's number of its thread.
    Event(u32, TimedEvent),
}

impl ProcessFacts {
    /// Reads the body of the first frame.
    pub(crate) fn decode(body: &[u8]) -> Result<ProcessFacts, Malformed> {
        let mut bytes = BodyBytes(body);
        if bytes.take_varint()? != FORMAT_VERSION {
            return Err(Malformed("a newer nccl-pipe wrote it"));
        }
        let (pid, host) = (bytes.take_u32()?, bytes.take_text(MAX_NAME_BYTES)?.into());
        let (realtime_ns, monotonic_ns) = (bytes.take_varint()?, bytes.take_varint()?);
        let (interface, event_mask) = (bytes.take_u32()?, bytes.take_u32()?);
        let mut take_optional = || bytes.take_u32().map(|number| number.checked_sub(1));
        Ok(ProcessFacts {
            pid,
            host,
            realtime_ns,
            monotonic_ns,
            interface,
            event_mask,
            rank: take_optional()?,
            world_size: take_optional()?,
        })
    }
}

impl FrameHead {
    /// Reads what stands before the events of a frame, and returns the bytes of those.
    pub(crate) fn decode(body: &[u8]) -> Result<(FrameHead, &[u8]), Malformed> {
        let mut bytes = BodyBytes(body);
        let head = FrameHead {
            is_fresh: bytes.take_byte()? == 1,
            base_ns: bytes.take_varint()?,
        };
        Ok((head, bytes.0))
    }
}

impl EventDecoder {
    /// Gives the events of a frame to `take`, up to the first that is malformed.
    pub(crate) fn decode_events(
        &mut self,
        head: FrameHead,
        bytes: &[u8],
        mut take: impl FnMut(DecodedItem),
    ) -> Result<(), Malformed> {
        self.frame = FramePrediction::from_base(head.base_ns);
        if head.is_fresh {
            self.shapes.clear();
        }
        let mut bytes = BodyBytes(bytes);
        while let Some(tag) = bytes.next_byte() {
            if let Some(item) = self.take_item(tag, &mut bytes)? {
                take(item);
            }
        }
        Ok(())
    }

    /// Takes what follows a first byte; none of what only changes how the next is read.
    fn take_item(
        &mut self,
        tag: u8,
        bytes: &mut BodyBytes<'_>,
    ) -> Result<Option<DecodedItem>, Malformed> {
        let event = match tag & kind::BITS {
            kind::OTHER => match tag >> other::SHIFT {
                other::COMM => return take_comm(bytes).map(Some),
                other::SHAPE => return self.learn_shape(bytes).map(|()| None),
                other::COMM_BEGUN => Event::CommBegun(bytes.take_u32()?),
                other::COMM_ENDED => Event::CommEnded(bytes.take_u32()?),
                other::THREAD => {
                    self.frame.thread = bytes.take_u32()?;
                    return Ok(None);
                }
                other::DROPPED => Event::Dropped(bytes.take_varint()?),
                _ => return Err(Malformed("an event of an unknown kind")),
            },
            kind => {
                if tag & flag::COMM != 0 {
                    self.frame.comm = bytes.take_u32()?;
                }
                match kind {
                    kind::CALL => Event::Call(self.take_call(tag, bytes)?),
                    kind::TASK => Event::Task(self.take_task(tag, bytes)?),
                    kind::TASK_ENDED => self.take_task_ended(tag, bytes)?,
                    kind::KERNEL => self.take_kernel(bytes)?,
                    kind::PROXY => Event::Proxy(self.take_proxy(tag, bytes)?),
                    _ => return Err(Malformed("an event of an unknown kind")),
                }
            }
        };
        let time_ns = add_change(self.frame.time_ns, bytes.take_signed()?);
        self.frame.time_ns = time_ns;
        let timed = TimedEvent { time_ns, event };
        Ok(Some(DecodedItem::Event(self.frame.thread, timed)))
    }

    fn learn_shape(&mut self, bytes: &mut BodyBytes<'_>) -> Result<(), Malformed> {
        if self.shapes.len() > MAX_SHAPES {
            return Err(Malformed("too many shapes"));
        }
        let shape = RecordedShape {
            op: bytes.take_byte()?,
            datatype: bytes.take_byte()?,
            redop: bytes.take_byte()?,
            algo: bytes.take_byte()?,
            proto: bytes.take_byte()?,
            channels: u16::try_from(bytes.take_varint()?)
                .map_err(|_| Malformed("too many channels"))?,
            count: bytes.take_varint()?,
            peer: take_peer(bytes)?,
            stream: bytes.take_varint()?,
        };
        self.shapes.push(shape);
        Ok(())
    }

    fn take_shape(&self, bytes: &mut BodyBytes<'_>) -> Result<RecordedShape, Malformed> {
        let number = bytes.take_varint()? as usize;
        let shape = self.shapes.get(number).copied();
        shape.ok_or(Malformed("a shape that is not defined"))
    }

    fn take_call(&mut self, tag: u8, bytes: &mut BodyBytes<'_>) -> Result<CallBegun, Malformed> {
        let number = take_change(tag, flag::NUMBER, bytes)?;
        let ordinal = take_change(tag, flag::SECOND, bytes)?;
        let shape = self.take_shape(bytes)?;
        let comm = self.frame.comm;
        let next = self.frame.comm_mut(comm);
        let call = CallBegun {
            comm,
            number: add_change(next.call, number),
            ordinal: add_change(next.predict_ordinal(shape.op), ordinal),
            shape,
            is_captured: tag & flag::CAPTURED != 0,
            is_launch: tag & flag::LAUNCH != 0,
        };
        next.learn_call(&call);
        Ok(call)
    }

    fn take_task(&mut self, tag: u8, bytes: &mut BodyBytes<'_>) -> Result<TaskBegun, Malformed> {
        let number = take_change(tag, flag::NUMBER, bytes)?;
        let call = take_change(tag, flag::SECOND, bytes)?;
        let seq = match tag & flag::SEQ {
            0 => None,
            _ => Some(bytes.take_varint()?.checked_sub(1)),
        };
        let shape = self.take_shape(bytes)?;
        let comm = self.frame.comm;
        let next = self.frame.comm_mut(comm);
        let task = TaskBegun {
            comm,
            number: add_change(next.task, number),
            call: add_change(next.parent, call),
            seq: seq.unwrap_or_else(|| next.predict_seq(shape.op)),
            shape,
        };
        next.learn_task(&task);
        Ok(task)
    }

    fn take_task_ended(&mut self, tag: u8, bytes: &mut BodyBytes<'_>) -> Result<Event, Malformed> {
        let changed = take_change(tag, flag::NUMBER, bytes)?;
        let comm = self.frame.comm;
        let next = self.frame.comm_mut(comm);
        let number = add_change(next.ended, changed);
        next.ended = number.wrapping_add(1);
        Ok(Event::TaskEnded { comm, number })
    }

    fn take_kernel(&mut self, bytes: &mut BodyBytes<'_>) -> Result<Event, Malformed> {
        let comm = self.frame.comm;
        let next = self.frame.comm_mut(comm);
        let number = add_change(next.last, bytes.take_signed()?);
        next.last = number;
        let mut span = KernelSpan {
            begun: bytes.take_u32()?,
            ended: bytes.take_u32()?,
            ..KernelSpan::default()
        };
        for gpu_ns in [&mut span.start_ns, &mut span.stop_ns] {
            *gpu_ns = add_change(self.frame.gpu_ns, bytes.take_signed()?);
            if *gpu_ns > 0 {
                self.frame.gpu_ns = *gpu_ns;
            }
        }
        Ok(Event::Kernel { comm, number, span })
    }

    fn take_proxy(&mut self, tag: u8, bytes: &mut BodyBytes<'_>) -> Result<ProxyEnded, Malformed> {
        let comm = self.frame.comm;
        let next = self.frame.comm_mut(comm);
        let mut task = None;
        if tag & flag::SECOND != 0 {
            next.last = add_change(next.last, bytes.take_signed()?);
            task = Some(next.last);
        }
        Ok(ProxyEnded {
            comm,
            task,
            peer: take_peer(bytes)?,
            channel: bytes.take_byte()?,
            is_send: tag & flag::SEND != 0,
            steps: bytes.take_u32()?,
            chunk_bytes: bytes.take_u32()?,
            ended: bytes.take_u32()?,
            dur_ns: bytes.take_varint()?,
            bytes: bytes.take_varint()?,
            waits_ns: [
                bytes.take_varint()?,
                bytes.take_varint()?,
                bytes.take_varint()?,
            ],
        })
    }
}

fn take_comm(bytes: &mut BodyBytes<'_>) -> Result<DecodedItem, Malformed> {
    let number = bytes.take_u32()?;
    if number >= MAX_COMMS {
        return Err(Malformed("too many communicators"));
    }
    let facts = CommFacts {
        id: bytes.take_varint()?,
        name: bytes.take_text(MAX_NAME_BYTES)?.into(),
        nranks: bytes.take_u32()?,
        nnodes: bytes.take_u32()?,
        rank: bytes.take_u32()?.checked_sub(1),
    };
    Ok(DecodedItem::Comm(number, facts))
}

fn take_peer(bytes: &mut BodyBytes<'_>) -> Result<i32, Malformed> {
    i32::try_from(bytes.take_signed()?).map_err(|_| Malformed("a rank is too large"))
}

/// Takes the difference from what was predicted; 0 without its flag.
fn take_change(tag: u8, flag: u8, bytes: &mut BodyBytes<'_>) -> Result<i64, Malformed> {
    match tag & flag {
        0 => Ok(0),
        _ => bytes.take_signed(),
    }
}

fn add_change(value: u64, change: i64) -> u64 {
    value.wrapping_add(change as u64)
}
