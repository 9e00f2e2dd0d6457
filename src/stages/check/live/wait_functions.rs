//! Where a process is, by the functions of its main thread.

use crate::formats::stacks::{ThreadFrame, ThreadStack};

/// What the main thread of a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StackPlace {
    /// It waits for its GPU, which may wait for another rank.
    GpuWait,
    /// It is in a call of a communication library.
    CommunicationCall,
    /// It waits for something else: data, a lock, a process, or it sleeps.
    OtherWait,
    /// It computes, or waits in a function that is not known.
    Unknown,
}

/// A function, by the begin of its name and the end or a part of its file's path.
struct FunctionRow {
    function: &'static str,
    file: &'static str,
    place: StackPlace,
}

const fn row(function: &'static str, file: &'static str, place: StackPlace) -> FunctionRow {
    FunctionRow {
        function,
        file,
        place,
    }
}

/// The functions in which processes wait. The first row that fits the innermost frames counts.
const FUNCTIONS: [FunctionRow; 29] = {
    use StackPlace::*;
    [
        row("synchronize", "torch/cuda/", GpuWait),
        row("wait", "torch/cuda/", GpuWait),
        row("synchronize", "torch/accelerator/", GpuWait),
        row("synchronize", "torch_npu/", GpuWait),
        row("block_until_ready", "", GpuWait),
        row("cudaStreamSynchronize", "", GpuWait),
        row("cudaDeviceSynchronize", "", GpuWait),
        row("cudaEventSynchronize", "", GpuWait),
        row("cuStreamSynchronize", "", GpuWait),
        row("cuCtxSynchronize", "", GpuWait),
        row("cuEventSynchronize", "", GpuWait),
        row("cuMemcpyDtoH", "", GpuWait),
        row("hipStreamSynchronize", "", GpuWait),
        row("hipDeviceSynchronize", "", GpuWait),
        row("hipEventSynchronize", "", GpuWait),
        row("at::native::_local_scalar_dense", "", GpuWait),
        row("", "torch/distributed/distributed_c10d", CommunicationCall),
        row(
            "",
            "torch/distributed/_functional_collectives",
            CommunicationCall,
        ),
        row("", "deepspeed/comm/", CommunicationCall),
        row("c10d::", "", CommunicationCall),
        row("nccl", "", CommunicationCall),
        row("", "torch/utils/data/", OtherWait),
        row("", "threading.py", OtherWait),
        row("", "queue.py", OtherWait),
        row("", "selectors.py", OtherWait),
        row("", "subprocess.py", OtherWait),
        row("", "socket.py", OtherWait),
        row("", "multiprocessing/", OtherWait),
        row("", "bdb.py", OtherWait),
    ]
};

impl FunctionRow {
    fn fits_frame(&self, frame: &ThreadFrame) -> bool {
        frame.function.starts_with(self.function) && frame.file.contains(self.file)
    }
}

/// Returns what a main thread does: the first known function from the innermost frame to the program's own one. A
/// thread without such a function that is idle waits for something else.
pub(super) fn find_place(stack: &ThreadStack) -> StackPlace {
    let end = stack.frames.iter().position(is_own_frame);
    let end = end.map_or(stack.frames.len(), |at| at + 1);
    let known = stack.frames[..end].iter().find_map(|frame| {
        let row = FUNCTIONS.iter().find(|row| row.fits_frame(frame))?;
        Some(row.place)
    });
    known.unwrap_or(match stack.is_idle {
        Some(true) => StackPlace::OtherWait,
        _ => StackPlace::Unknown,
    })
}

/// What a process does in a function of NCCL's, or of CUDA's beside it. The first row with a function of the stack counts.
const LIBRARY_WORK: [(&str, &str); 7] = [
    (
        "bootstrapNetAccept",
        "it waits for another rank to connect to it (NCCL's bootstrap)",
    ),
    (
        "bootstrap",
        "it exchanges addresses with the other ranks (NCCL's bootstrap)",
    ),
    ("ncclCommInitRank", "it makes a communicator"),
    (
        "ncclCommDestroy",
        "it destroys a communicator, and waits for NCCL's own threads or other ranks",
    ),
    ("ncclCommAbort", "it aborts a communicator"),
    (
        "ncclCommFinalize",
        "it ends a communicator, which all ranks do together",
    ),
    (
        "cudaLaunchKernel",
        "it starts a kernel, and waits if the GPU has not begun the many before it",
    ),
];

/// Describes what a thread does in NCCL: `a thread is in ncclCommDestroy: it destroys a communicator`.
pub(super) fn describe_library_work(stack: &ThreadStack) -> Option<String> {
    let of_row = |(function, work): &(&str, &str)| {
        let mut frames = stack.frames.iter();
        let frame = frames.find(|frame| frame.function.starts_with(function))?;
        Some(format!("a thread is in {}: {work}", frame.function))
    };
    LIBRARY_WORK.iter().find_map(of_row)
}

/// True for a frame of the program itself: a line of Python outside of the libraries.
fn is_own_frame(frame: &ThreadFrame) -> bool {
    let is_library = LIBRARIES.iter().any(|part| frame.file.contains(part));
    frame.line.is_some() && frame.file.ends_with(".py") && !is_library
}

/// Parts of paths of libraries, as py-spy shortens them.
const LIBRARIES: [&str; 22] = [
    "torch/",
    "torch_npu/",
    "site-packages/",
    "dist-packages/",
    "deepspeed/",
    "accelerate/",
    "transformers/",
    "lightning/",
    "ray/",
    "jax/",
    "multiprocessing/",
    "concurrent/",
    "asyncio/",
    "importlib/",
    "contextlib.py",
    "threading.py",
    "queue.py",
    "selectors.py",
    "subprocess.py",
    "socket.py",
    "functools.py",
    "runpy.py",
];

/// Describes where a stack is: `in synchronize from train.py:76`, `in layer (train.py:39)`.
pub(super) fn describe_place(stack: &ThreadStack) -> String {
    let known = |frame: &&ThreadFrame| FUNCTIONS.iter().any(|row| row.fits_frame(frame));
    let own = stack.frames.iter().find(|frame| is_own_frame(frame));
    let Some(first) = stack.frames.first() else {
        return "in no frame".to_owned();
    };
    let place = |frame: &ThreadFrame| match (&*frame.file, frame.line) {
        ("", _) => String::new(),
        (file, Some(line)) => format!("{file}:{line}"),
        (file, None) => file.to_owned(),
    };
    // Below a known function of a native library there are only the system's own.
    let named = match first.line {
        Some(_) => first,
        None => stack.frames.iter().find(known).unwrap_or(first),
    };
    match own {
        Some(own) if own == named => format!("in {} ({})", own.function, place(own)),
        Some(own) => format!("in {} from {}", named.function, place(own)),
        None if named.file.is_empty() => format!("in {}", named.function),
        None => format!("in {} ({})", named.function, place(named)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::stacks::parse_stacks;

    /// What the main thread of py-spy's text does, and its words.
    fn place_of(frames: &str, state: &str) -> (StackPlace, String) {
        let text = format!("Process 1: a\nPython v3\nThread 1 ({state}): \"MainThread\"\n{frames}");
        let read = parse_stacks(text.as_bytes(), "");
        let main = read.processes[0].main_thread().unwrap();
        (find_place(main), describe_place(main))
    }

    #[test]
    fn waits_are_told_apart() {
        let sync = "    synchronize (torch/cuda/__init__.py:1162)\n    <module> (train.py:76)\n";
        assert_eq!(
            place_of(sync, "active"),
            (
                StackPlace::GpuWait,
                "in synchronize from train.py:76".into()
            )
        );
        let barrier = "    barrier (torch/distributed/distributed_c10d.py:5030)\n    _exception_logger.<locals>.wrapper \
                       (torch/distributed/c10d_logger.py:83)\n    <module> (train.py:84)\n";
        assert_eq!(
            place_of(barrier, "active"),
            (
                StackPlace::CommunicationCall,
                "in barrier from train.py:84".into()
            )
        );
        let data = "    wait (threading.py:355)\n    _try_get_data (torch/utils/data/dataloader.py:1243)\n    main (train.py:9)\n";
        assert_eq!(
            place_of(data, "idle"),
            (StackPlace::OtherWait, "in wait from train.py:9".into())
        );
        let own = "    layer (train.py:39)\n    synchronize (torch/cuda/__init__.py:1162)\n";
        assert_eq!(
            place_of(own, "active"),
            (StackPlace::Unknown, "in layer (train.py:39)".into())
        );
        assert_eq!(place_of(own, "idle").0, StackPlace::OtherWait);
        let native = "    sched_yield (libc.so.6)\n    cuStreamSynchronize (libcuda.so.1)\n    item (train.py:7)\n";
        assert_eq!(
            place_of(native, "active"),
            (
                StackPlace::GpuWait,
                "in cuStreamSynchronize from train.py:7".into()
            )
        );
        assert_eq!(place_of("", "active").1, "in no frame");
    }
}
