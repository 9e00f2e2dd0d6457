//! Plugins: what was looked for, loaded and given up.
//!
//! ```text
//! NET/Plugin: Could not find: libnccl-net.so                                  2.22+
//! NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
//! NET/Plugin: Failed to find ncclCollNetPlugin_v5 symbol.
//! NET/Plugin: Loaded net plugin AWS Libfabric (v6)
//! TUNER/Plugin: Using tuner plugin x, PROFILER/Plugin: Loaded Inspector (v5)
//! ENV/Plugin: Closing env plugin ncclEnvDefault
//! Initialized NET plugin Socket, Failed to initialize NET plugin IB, Assigned NET plugin IB to comm
//! Successfully loaded external network plugin /opt/libnccl-net.so
//! P2P plugin v11 IBext_v11                                                    nccl-rdma-sharp-plugins
//! ```
//!
//! From `src/plugin` (`src/misc/{net,tuner}.cc` and `src/net.cc` before 2.25).

use crate::token::{PResult, dec_u32, is_name_byte, until, whole};
use memchr::memmem;

/// One line about a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginMessage<'a> {
    /// Its purpose, as printed in front of `/Plugin`: `NET`, `TUNER`, `PROFILER`, `ENV`,
    /// `GIN`, `RMA`; or `external` and `P2P` if the line has no more.
    pub kind: &'a [u8],
    /// What became of it.
    pub event: PluginEvent,
    /// Its name, file or symbol; the whole text if it is neither, and empty if there is none.
    pub name: &'a [u8],
    /// The version of the interface.
    pub api: Option<u32>,
}

/// What became of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginEvent {
    /// No such file.
    NotFound,
    /// The file is there, but cannot be loaded.
    OpenFailed,
    /// The file has no such symbol.
    NoSymbol,
    /// Loaded.
    Loaded,
    /// Initialised.
    Initialized,
    /// Could not be initialised.
    InitFailed,
    /// A communicator uses it.
    Assigned,
    /// Named by the environment.
    Named,
    /// Unloaded.
    Closed,
    /// Something else, in words.
    Other,
}

/// Any line about a plugin.
pub(crate) fn parse_plugin(body: &[u8]) -> Option<PluginMessage<'_>> {
    if let Some((kind, text)) = split_label(body) {
        return Some(plugin_of_label(kind, text));
    }
    let (kind, event, name) = PLUGIN_SHAPES.iter().find_map(|&(start, kind, event)| {
        Some((kind, event, body.strip_prefix(start)?.trim_ascii()))
    })?;
    let (kind, event, name) = match (kind, event) {
        (b"", event) => {
            let (rest, kind) = until(" plugin ", "a kind of plugin")(name).ok()?;
            let rest = match event {
                PluginEvent::Assigned => rest.strip_suffix(b" to comm")?,
                _ => rest,
            };
            (kind, event, rest)
        }
        known => (known.0, known.1, name),
    };
    let (api, name) = split_interface_prefix(kind, name);
    (!name.is_empty()).then_some(PluginMessage {
        kind,
        event,
        name,
        api,
    })
}

/// Lines without a label; an empty kind is in the line itself.
const PLUGIN_SHAPES: [(&[u8], &[u8], PluginEvent); 12] = [
    (b"Initialized ", b"", PluginEvent::Initialized),
    (b"Failed to initialize ", b"", PluginEvent::InitFailed),
    (b"Assigned ", b"", PluginEvent::Assigned),
    (
        b"Successfully loaded external network plugin ",
        b"NET",
        PluginEvent::Loaded,
    ),
    (
        b"Successfully loaded external tuner plugin ",
        b"TUNER",
        PluginEvent::Loaded,
    ),
    (
        b"Successfully loaded external profiler plugin ",
        b"PROFILER",
        PluginEvent::Loaded,
    ),
    (
        b"Successfully loaded external env plugin ",
        b"ENV",
        PluginEvent::Loaded,
    ),
    (
        b"Successfully loaded external plugin ",
        b"external",
        PluginEvent::Loaded,
    ),
    (b"Using tuner plugin", b"TUNER", PluginEvent::Loaded),
    (b"P2P plugin ", b"P2P", PluginEvent::Loaded),
    (b"Plugin Path : ", b"NET", PluginEvent::Loaded),
    (b"Plugin name set by env to ", b"NET", PluginEvent::Named),
];

/// `v11 IBext_v11` has its interface in front.
fn split_interface_prefix<'a>(kind: &[u8], name: &'a [u8]) -> (Option<u32>, &'a [u8]) {
    let name = name.strip_prefix(b":").unwrap_or(name).trim_ascii();
    let number = |text: &'a [u8]| -> PResult<'a, u32> { dec_u32(text) };
    match name.strip_prefix(b"v").map(number) {
        Some(Ok((rest, api))) if kind == b"P2P" && rest.starts_with(b" ") => {
            (Some(api), rest.trim_ascii())
        }
        _ => (None, strip_quotes(name)),
    }
}

/// `KIND/Plugin: text`, or `KIND/Plugin : text` before 2.22, or without a colon.
fn split_label(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memmem::find(&body[..body.len().min(24)], b"/Plugin")?;
    let kind = &body[..at];
    let rest = body[at + b"/Plugin".len()..].trim_ascii_start();
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let kind_is_one = !kind.is_empty() && kind.iter().all(|&b| is_name_byte(b));
    (kind_is_one && !rest.is_empty()).then(|| (kind, rest.trim_ascii()))
}

/// Reads a line with a label.
fn plugin_of_label<'a>(kind: &'a [u8], text: &'a [u8]) -> PluginMessage<'a> {
    let plugin = |event, name| {
        let (name, api) = split_interface_suffix(name);
        let name = strip_quotes(name);
        PluginMessage {
            kind,
            event,
            name,
            api,
        }
    };
    let behind = |start: &[u8]| text.strip_prefix(start).map(<[u8]>::trim_ascii);
    if let Some(names) = behind(b"Could not find:") {
        // `. Using internal network plugin.` may follow, or a full stop alone.
        let names = memmem::find(names, b". Using ").map_or(names, |at| &names[..at]);
        return plugin(
            PluginEvent::NotFound,
            names.strip_suffix(b".").unwrap_or(names),
        );
    }
    // `dlerror=... No plugin found (x), using internal implementation` reports it at its end.
    if let Some(at) = memmem::find(text, b"No plugin found") {
        let rest = &text[at + b"No plugin found".len()..];
        return plugin(
            PluginEvent::NotFound,
            text_in_parentheses(rest).unwrap_or_default(),
        );
    }
    if let Some(rest) = behind(b"Plugin load") {
        return plugin(
            PluginEvent::OpenFailed,
            text_in_parentheses(rest).unwrap_or_default(),
        );
    }
    for start in [&b"Failed to find "[..], b"Could not find "] {
        if let Some(rest) = behind(start) {
            let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
            return plugin(PluginEvent::NoSymbol, &rest[..end]);
        }
    }
    if let Some(name) = behind(b"Plugin name set by env to ") {
        return plugin(PluginEvent::Named, name);
    }
    if memmem::find(text, b"cannot open shared object file").is_some()
        || memmem::find(text, b"undefined symbol").is_some()
    {
        let name = text.strip_prefix(b"dlerror=").unwrap_or(text);
        let end = memchr::memchr(b':', name).unwrap_or(name.len());
        return plugin(PluginEvent::OpenFailed, &name[..end]);
    }
    for (start, event) in [
        (&b"Loaded "[..], PluginEvent::Loaded),
        (b"Using ", PluginEvent::Loaded),
        (b"Assigned plugin ", PluginEvent::Assigned),
        (b"Closing ", PluginEvent::Closed),
        (b"Unloading plugin ", PluginEvent::Closed),
        (b"Failed to initialize ", PluginEvent::InitFailed),
    ] {
        if let Some(name) = behind(start) {
            // `Loaded net plugin X`, `Loaded X`, `Closing tuner: 'X'`.
            let name = [&b" plugin "[..], b": "]
                .iter()
                .find_map(|word| memmem::find(name, word).map(|at| &name[at + word.len()..]))
                .unwrap_or(name);
            return plugin(event, name);
        }
    }
    PluginMessage {
        kind,
        event: PluginEvent::Other,
        name: text,
        api: None,
    }
}

/// The text in parentheses at the start, after a blank: ` (libnccl-net.so) returned 2`.
fn text_in_parentheses(text: &[u8]) -> Option<&[u8]> {
    let inner = text.trim_ascii_start().strip_prefix(b"(")?;
    Some(&inner[..memchr::memchr(b')', inner)?])
}

/// A name without the interface after it, `(v11)`.
fn split_interface_suffix(name: &[u8]) -> (&[u8], Option<u32>) {
    let inner = name.strip_suffix(b")").and_then(|text| {
        let at = memmem::rfind(text, b" (v")?;
        Some((text[..at].trim_ascii(), whole(dec_u32(&text[at + 3..]))?))
    });
    inner.map_or((name, None), |(name, api)| (name, Some(api)))
}

fn strip_quotes(name: &[u8]) -> &[u8] {
    let inner = name.strip_prefix(b"'").and_then(|n| n.strip_suffix(b"'"));
    inner.unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text is, in words: `NET NotFound libnccl-net.so 6`.
    fn of(text: &str) -> String {
        match parse_plugin(text.as_bytes()) {
            Some(p) => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let api = p.api.map_or(String::new(), |api| format!(" {api}"));
                format!("{} {:?} {}{api}", text(p.kind), p.event, text(p.name))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn every_shape_says_what_became_of_which() {
        for case in [
            "NET/Plugin: Could not find: libnccl-net.so = NET NotFound libnccl-net.so",
            "NET/Plugin: Could not find: a.so. Using internal x = NET NotFound a.so",
            "PROFILER/Plugin: Could not find: p.so. = PROFILER NotFound p.so",
            "NET/Plugin : No plugin found (a.so), using x = NET NotFound a.so",
            "NET/Plugin : No plugin found, using internal implementation = NET NotFound ",
            "NET/Plugin : dlerror=a No plugin found (b.so), using x = NET NotFound b.so",
            "NET/Plugin : Plugin load (b.so) returned 2 : b.so: cannot open = NET OpenFailed b.so",
            "NET/Plugin: Failed to find x_v5 symbol. = NET NoSymbol x_v5",
            "NET/Plugin: Loaded net plugin AWS L (v6) = NET Loaded AWS L 6",
            "PROFILER/Plugin: Loaded Inspector (v5) = PROFILER Loaded Inspector 5",
            "NET/Plugin: Closing net plugin 'IBext_v9' = NET Closed IBext_v9",
            "ENV/Plugin: Closing env plugin e = ENV Closed e",
            "NET/Plugin: c.so: cannot open shared object file: x = NET OpenFailed c.so",
            "NET/Plugin: Plugin name set by env to x.so = NET Named x.so",
            "NET/Plugin: all is well = NET Other all is well",
            "Initialized NET plugin Socket = NET Initialized Socket",
            "Failed to initialize NET plugin IB = NET InitFailed IB",
            "Assigned RMA plugin GIN_IB_PROXY to comm = RMA Assigned GIN_IB_PROXY",
            "Using tuner plugin: 'nccl_ofi_tuner' = TUNER Loaded nccl_ofi_tuner",
            "P2P plugin v11 IBext_v11 = P2P Loaded IBext_v11 11",
            "P2P plugin IBext = P2P Loaded IBext",
            "Plugin Path : /opt/x.so = NET Loaded /opt/x.so",
            "Assigned NET plugin IB to c = none",
            "a b/Plugin: x = none",
            "NET/Plugin = none",
            "P2P plugin = none",
        ] {
            let (text, expected) = case.split_once(" = ").unwrap();
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
