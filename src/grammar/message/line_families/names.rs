//! Families by the names of source files and functions, for lines that no beginning fits.

use crate::message::MessageFamily;
use memchr::memmem;

/// NCCL's source files by what they are about; the first with its words in a path counts.
const FAMILIES_OF_FILES: [(&[u8], MessageFamily); 26] = [
    (b"proxy", MessageFamily::Proxy),
    (b"bootstrap", MessageFamily::Bootstrap),
    (b"nvls", MessageFamily::Nvls),
    (b"mnnvl", MessageFamily::Mnnvl),
    (b"net_", MessageFamily::Net),
    (b"/net", MessageFamily::Net),
    (b"socket", MessageFamily::Net),
    (b"gin", MessageFamily::Net),
    (b"rma", MessageFamily::Net),
    (b"ibv", MessageFamily::Net),
    (b"coll_net", MessageFamily::Net),
    (b"p2p", MessageFamily::P2p),
    (b"shm", MessageFamily::Memory),
    (b"alloc", MessageFamily::Memory),
    (b"register", MessageFamily::Memory),
    (b"mem", MessageFamily::Memory),
    (b"dev_runtime", MessageFamily::Memory),
    (b"tuning", MessageFamily::Tuning),
    (b"tuner", MessageFamily::Tuning),
    (b"graph/", MessageFamily::Topology),
    (b"nvml", MessageFamily::Topology),
    (b"ras/", MessageFamily::Ras),
    (b"diagnostics", MessageFamily::Diagnostics),
    (b"plugin", MessageFamily::Plugin),
    (b"param", MessageFamily::Setting),
    (b"transport", MessageFamily::Channel),
];

/// The family of a line that names its source file in front of a text that is not known.
pub(in crate::message) fn family_of_file(file: &[u8]) -> Option<MessageFamily> {
    // Of an absolute path only NCCL's own folders count.
    let from = memmem::rfind(file, b"src/").unwrap_or(0);
    let known = FAMILIES_OF_FILES
        .iter()
        .find(|(words, _)| memmem::find(&file[from..], words).is_some());
    Some(known.map_or(MessageFamily::Init, |(_, family)| *family))
}

/// Parts of NCCL by the names of their functions: `ncclRmaProxyPutLaunch enqueued Desc: ...`.
const FAMILIES_OF_FUNCTIONS: [(&[u8], MessageFamily); 12] = [
    (b"Topo", MessageFamily::Topology),
    (b"Nvml", MessageFamily::Topology),
    (b"Pci", MessageFamily::Topology),
    (b"Dlopen", MessageFamily::Plugin),
    (b"Dlsym", MessageFamily::Plugin),
    (b"Rma", MessageFamily::Net),
    (b"Gin", MessageFamily::Net),
    (b"Net", MessageFamily::Net),
    (b"Ib", MessageFamily::Net),
    (b"Socket", MessageFamily::Net),
    (b"Proxy", MessageFamily::Proxy),
    (b"Mem", MessageFamily::Memory),
];

/// The family of a text that begins with the name of one of NCCL's functions.
pub(super) fn family_of_function(text: &[u8]) -> Option<MessageFamily> {
    let name = text.strip_prefix(b"nccl")?;
    let end = name
        .iter()
        .position(|b| !b.is_ascii_alphanumeric())
        .filter(|&end| end > 0)?;
    let (name, after) = (&name[..end], name[end]);
    let is_name = name[0].is_ascii_uppercase() && matches!(after, b':' | b'(' | b' ');
    let known = FAMILIES_OF_FUNCTIONS
        .iter()
        .find(|(part, _)| memmem::find(name, part).is_some());
    is_name.then(|| known.map_or(MessageFamily::Init, |(_, family)| *family))
}
