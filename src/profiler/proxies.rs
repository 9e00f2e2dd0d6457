//! Operations of the proxy thread: their steps become sums, one event an operation.

use crate::calls::{Handle, HandleKind};
use crate::limits::MAX_OPEN_PROXIES;
use nccl_pipe_recording::ProxyEnded;
use std::collections::HashMap;

/// An operation begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProxyBegun {
    /// Its task, if that is of this process.
    pub(crate) task: Handle,
    pub(crate) peer: i32,
    pub(crate) channel: u8,
    pub(crate) is_send: bool,
    pub(crate) steps: u32,
    pub(crate) chunk_bytes: u32,
}

/// What a step waits for, at its place in [`ProxyEnded::waits_ns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepWait {
    Gpu = 0,
    Peer = 1,
    Network = 2,
}

/// A change of a step, or of an operation of interfaces 1 to 3.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProxyState {
    /// What it waits for from now on.
    pub(crate) wait: Option<StepWait>,
    /// Bytes that it has moved.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct OpenProxy {
    ended: ProxyEnded,
    begun_ns: u64,
}

#[derive(Debug)]
struct OpenStep {
    proxy: Handle,
    wait: Option<StepWait>,
    since_ns: u64,
    bytes: u64,
}

/// What a thread has open. NCCL begins and ends an operation on one thread.
#[derive(Debug, Default)]
pub(crate) struct OpenProxies {
    proxies: HashMap<u64, OpenProxy>,
    steps: HashMap<u64, OpenStep>,
    next: u64,
}

impl OpenProxies {
    /// Begins an operation.
    pub(crate) fn begin(&mut self, comm: u32, begun: ProxyBegun, now_ns: u64) -> Handle {
        if self.proxies.len() >= MAX_OPEN_PROXIES {
            return Handle::NONE;
        }
        let handle = Handle::new(HandleKind::Proxy, comm, self.next);
        self.next += 1;
        let ended = ProxyEnded {
            comm,
            task: begun.task.number_of(HandleKind::Task),
            peer: begun.peer,
            channel: begun.channel,
            is_send: begun.is_send,
            steps: begun.steps,
            chunk_bytes: begun.chunk_bytes,
            ..ProxyEnded::default()
        };
        self.proxies.insert(
            handle.0,
            OpenProxy {
                ended,
                begun_ns: now_ns,
            },
        );
        handle
    }

    /// Begins a step.
    pub(crate) fn begin_step(&mut self, proxy: Handle, now_ns: u64) -> Handle {
        let is_known = self.proxies.contains_key(&proxy.0);
        if !is_known || self.steps.len() >= MAX_OPEN_PROXIES {
            return Handle::NONE;
        }
        let handle = Handle::new(HandleKind::Step, proxy.comm(), self.next);
        self.next += 1;
        let step = OpenStep {
            proxy,
            wait: None,
            since_ns: now_ns,
            bytes: 0,
        };
        self.steps.insert(handle.0, step);
        handle
    }

    /// Takes a change of a step or an operation.
    pub(crate) fn change(&mut self, handle: Handle, state: ProxyState, now_ns: u64) {
        if let Some(open) = self.proxies.get_mut(&handle.0) {
            open.ended.bytes = open.ended.bytes.max(state.bytes);
        }
        let Some(step) = self.steps.get_mut(&handle.0) else {
            return;
        };
        step.bytes = step.bytes.max(state.bytes);
        let (wait, since_ns) = (step.wait, step.since_ns);
        (step.wait, step.since_ns) = (state.wait, now_ns);
        let proxy = step.proxy;
        self.add_wait(proxy, wait, now_ns.saturating_sub(since_ns));
    }

    /// Ends a step.
    pub(crate) fn end_step(&mut self, handle: Handle, now_ns: u64) {
        let Some(step) = self.steps.remove(&handle.0) else {
            return;
        };
        self.add_wait(step.proxy, step.wait, now_ns.saturating_sub(step.since_ns));
        if let Some(open) = self.proxies.get_mut(&step.proxy.0) {
            open.ended.ended += 1;
            open.ended.bytes += step.bytes;
        }
    }

    /// Ends an operation; `None` if another thread began it.
    pub(crate) fn end(&mut self, handle: Handle, now_ns: u64) -> Option<ProxyEnded> {
        let open = self.proxies.remove(&handle.0)?;
        Some(ProxyEnded {
            dur_ns: now_ns.saturating_sub(open.begun_ns),
            ..open.ended
        })
    }

    fn add_wait(&mut self, proxy: Handle, wait: Option<StepWait>, waited_ns: u64) {
        if let (Some(open), Some(wait)) = (self.proxies.get_mut(&proxy.0), wait) {
            open.ended.waits_ns[wait as usize] += waited_ns;
        }
    }
}
