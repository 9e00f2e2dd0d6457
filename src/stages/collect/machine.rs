//! What this machine has beside a log: versions, settings, topology, the messages of its kernel and its GPUs. A tool or a file
//! that is not there is left out.

use super::limits::{MAX_MACHINE_BYTES, MAX_TOOL_TIME, TOOL_POLL_INTERVAL};
use std::env;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Something of the machine, under the name that it gets in the archive.
#[derive(Debug)]
pub(super) struct MachineFile {
    pub(super) name: String,
    pub(super) text: Vec<u8>,
}

/// Tools that report of the machine, each with the name of its output. The programs recognise those of the kernel, of GPUs and
/// of the topology; a reader needs the others.
const TOOLS: [(&str, &[&str]); 8] = [
    ("nvidia-smi", &["nvidia-smi", "-q"]),
    ("topology", &["nvidia-smi", "topo", "-m"]),
    ("nvlink", &["nvidia-smi", "nvlink", "-s"]),
    ("rocm-smi", &["rocm-smi", "--showtopo"]),
    ("dmesg", &["dmesg", "--time-format", "iso"]),
    ("ibv_devinfo", &["ibv_devinfo", "-v"]),
    ("interfaces", &["ip", "-brief", "address"]),
    ("shm", &["df", "-h", "/dev/shm"]),
];

/// Files of the machine, each with the name that it gets.
const FILES: [(&str, &str); 6] = [
    ("driver", "/proc/driver/nvidia/version"),
    ("kernel", "/proc/version"),
    ("system", "/etc/os-release"),
    ("limits", "/proc/self/limits"),
    ("nccl.conf", "/etc/nccl.conf"),
    ("modules", "/proc/modules"),
];

/// How the names of settings begin that decide how NCCL, its plugins and PyTorch's use of it work.
const SETTINGS: [&str; 12] = [
    "NCCL_",
    "RCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "TORCH_DISTRIBUTED_",
    "CUDA_",
    "HIP_",
    "HSA_",
    "FI_",
    "UCX_",
    "OFI_",
    "GLOO_",
];

/// Settings that name files of a job: its logs, the dumps of PyTorch's flight recorder, the machine's topology.
const FILE_SETTINGS: [&str; 5] = [
    "NCCL_DEBUG_FILE",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE",
];

/// Returns what the machine `host` has, and what it does not.
pub(super) fn collect_machine(host: &str) -> (Vec<MachineFile>, Vec<String>) {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let named = |what: &str| format!("machine/{what}.{host}.txt");
    let mut add = |name: String, text: Result<Vec<u8>, String>| match text {
        Ok(text) if text.is_empty() => left_out.push(format!("{name}: it is empty")),
        Ok(text) => found.push(MachineFile { name, text }),
        Err(why) => left_out.push(format!("{name}: {why}")),
    };
    for (what, command) in TOOLS {
        add(named(what), run_tool(command));
    }
    for (what, path) in FILES {
        add(named(what), read_file(Path::new(path)));
    }
    if let Some(home) = env::var_os("HOME") {
        add(
            named("nccl.conf-of-the-user"),
            read_file(&Path::new(&home).join(".nccl.conf")),
        );
    }
    add(named("settings"), Ok(list_settings()));
    add(named("libraries"), Ok(list_libraries()));
    (found, left_out)
}

/// The files of a job that settings of this process name: logs, dumps, topologies.
pub fn find_files_of_settings() -> Vec<PathBuf> {
    let named = FILE_SETTINGS.iter().filter_map(|name| env::var(name).ok());
    let mut all: Vec<PathBuf> = named
        .flat_map(|pattern| find_files_like(&pattern))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The files with names that begin as a pattern does, up to NCCL's `%h` and `%p`; PyTorch appends a rank to its own.
fn find_files_like(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern.split('%').next().unwrap_or(pattern));
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let begins = |path: &PathBuf| {
        let own = path.file_name().unwrap_or_default();
        own.as_encoded_bytes().starts_with(name.as_encoded_bytes()) && path.is_file()
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(begins).collect()
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut text = Vec::new();
        File::open(path)?
            .take(MAX_MACHINE_BYTES)
            .read_to_end(&mut text)?;
        Ok(text)
    };
    read().map_err(|e: std::io::Error| format!("{} cannot be read: {e}", path.display()))
}

/// Runs a tool and returns its output, unless it takes too long.
fn run_tool(command: &[&str]) -> Result<Vec<u8>, String> {
    let shown = command.join(" ");
    let failed = |e: std::io::Error| format!("{shown}: {e}");
    // A file takes any amount: a pipe that is not read would stop the tool.
    let mut out = tempfile::tempfile().map_err(failed)?;
    let mut tool = Command::new(command[0]);
    let tool = tool
        .args(&command[1..])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut running = tool
        .stdout(out.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let began = Instant::now();
    let ended = loop {
        match running.try_wait().map_err(failed)? {
            Some(ended) => break ended,
            None if began.elapsed() > MAX_TOOL_TIME => {
                // A process that hangs in the driver cannot be ended: it is left behind.
                let _ = running.kill();
                return Err(format!("{shown} took too long"));
            }
            None => std::thread::sleep(TOOL_POLL_INTERVAL),
        }
    };
    let mut text = Vec::new();
    out.rewind().map_err(failed)?;
    out.take(MAX_MACHINE_BYTES)
        .read_to_end(&mut text)
        .map_err(failed)?;
    match ended.success() || !text.is_empty() {
        true => Ok(text),
        false => Err(format!("{shown} failed: {ended}")),
    }
}

/// The settings of this process, a line each.
fn list_settings() -> Vec<u8> {
    let is_one = |name: &str| SETTINGS.iter().any(|begin| name.starts_with(begin));
    let all = env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    let mut lines: Vec<String> = all
        .filter(|(name, _)| is_one(name))
        .map(|(name, value)| format!("{name}={}\n", value.to_string_lossy()))
        .collect();
    lines.sort();
    lines.concat().into_bytes()
}

/// NCCL's libraries in the folders where the loader looks, with the files that they are links to.
fn list_libraries() -> Vec<u8> {
    let own = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let system = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/cuda/lib64",
        "/opt/rocm/lib",
    ];
    let folders = env::split_paths(&own).chain(system.map(PathBuf::from));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ["libnccl", "librccl", "libcuda.so", "libibverbs.so"]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    let entries = folders
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten();
    let mut lines: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(is_ours)
        .map(|path| match path.canonicalize() {
            Ok(real) if real != path => format!("{} -> {}\n", path.display(), real.display()),
            _ => format!("{}\n", path.display()),
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines.concat().into_bytes()
}
