//! What was set, and by whom.
//!
//! ```text
//! NCCL_IB_TIMEOUT set by environment to 18.                    numbers have a full stop
//! NCCL_SOCKET_IFNAME set by environment to eth0                texts have none
//! NCCL_IB_HCA set to mlx5_0,mlx5_1
//! Invalid value x for NCCL_BUFFSIZE, using default 4194304.
//! Comm config Blocking set to 1                                the program's ncclConfig_t
//! Comm config minCTAs reset to NCCL_MIN_CTAS=4                 2.27+
//! Warning: ENV NCCL_X is unused. Setting it has no effect.     2.30+
//! minCTAs 64 is larger than #channels upper limit 32, cap it to 32      a field of ncclConfig_t
//! minCTAs 8 is larger than maxCTAs 4, set both to 4                     2.27+
//! splitShare 5 is not a valid value 0/1, set it to 0
//! nvlsCTAs -1 is not a valid value, NCCL will decide the default value automatically
//! ```
//!
//! From `ncclLoadParam` in `src/misc/param.cc`, its callers, `parseCommConfig` in `src/init.cc` and
//! `ncclParamCheckFlag` in `src/param/c_api.cc`. `/etc/nccl.conf` and `~/.nccl.conf` only fill the
//! environment: what they set
//! reads `set by environment`.

use crate::token::{PResult, dec_i64, fail, until, whole, word};
use memchr::memmem;

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<'a> {
    /// Its name: `NCCL_ALGO`, or a field of the program's `ncclConfig_t` such as `Blocking`.
    pub name: &'a [u8],
    /// Its value, as far as it is printed.
    pub value: &'a [u8],
    /// Where it comes from.
    pub by: SettingSource<'a>,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSource<'a> {
    /// The environment, or a `nccl.conf`.
    Environment,
    /// `set to`: the line does not name the source.
    Unsaid,
    /// The program, by its `ncclConfig_t`.
    Config,
    /// The program's `ncclConfig_t`, overruled by this variable.
    Overruled(&'a [u8]),
    /// The default, for this value could not be read.
    Default(&'a [u8]),
    /// NCCL's own choice, for this value of the program's is not possible. The value is empty where NCCL
    /// decides it later.
    Corrected(&'a [u8]),
    /// Nothing reads it; its value is not printed.
    Unused,
}

/// The text in place of a secret.
pub const HIDDEN_VALUE: &[u8] = b"(hidden)";

impl Setting<'_> {
    /// True if the variable's name suggests that its value is secret. Programs print
    /// all variables that begin with `NCCL_`, also those that NCCL does not know.
    pub fn is_secret(&self) -> bool {
        let variable = match self.by {
            SettingSource::Overruled(variable) => variable,
            _ => self.name,
        };
        is_secret_name(self.name) || is_secret_name(variable)
    }
}

/// True for a name such as `NCCL_API_TOKEN`. `NCCL_IB_PKEY` is the number of a partition.
fn is_secret_name(name: &[u8]) -> bool {
    let has = |word: &str| memmem::find(name, word.as_bytes()).is_some();
    let words = [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "AUTH",
    ];
    let key = memmem::find_iter(name, b"KEY").any(|at| !name[..at].ends_with(b"_P"));
    key || words.iter().any(|word| has(word))
}

/// A line of NCCL's with the value of a secret hidden, if it holds one.
pub fn mask_secret(line: &[u8]) -> Option<Vec<u8>> {
    // Up to 2.2 NCCL's name is not in front of the level.
    const LEVEL: &[u8] = b"INFO ";
    let setting = memmem::find_iter(line, LEVEL).find_map(|at| {
        let setting = parse_setting(&line[at + LEVEL.len()..]);
        setting.filter(Setting::is_secret)
    })?;
    let given = match setting.by {
        SettingSource::Default(given) => given,
        _ => NO_VALUE,
    };
    let mut line = line.to_vec();
    for value in [setting.value, given] {
        if !value.is_empty() {
            line = replace_value(&line, value);
        }
    }
    Some(line)
}

/// `line` with [`HIDDEN`] for every `value`.
fn replace_value(line: &[u8], value: &[u8]) -> Vec<u8> {
    let (mut out, mut from) = (Vec::with_capacity(line.len()), 0);
    for at in memmem::find_iter(line, value) {
        out.extend_from_slice(&line[from..at]);
        out.extend_from_slice(HIDDEN_VALUE);
        from = at + value.len();
    }
    out.extend_from_slice(&line[from..]);
    out
}

/// Any of the lines above.
pub(crate) fn parse_setting(body: &[u8]) -> Option<Setting<'_>> {
    let setting = if let Some(rest) = body.strip_prefix(b"Comm config ") {
        config(rest)
    } else if let Some(rest) = body.strip_prefix(b"Invalid value ") {
        invalid(rest)
    } else if let Some(rest) = body.strip_prefix(b"Warning: ENV ") {
        unused(rest)
    } else if may_be_corrected(body) {
        corrected_field(body)
    } else {
        variable(body)
    };
    setting.ok().map(|(_, setting)| setting)
}

const NO_VALUE: &[u8] = b"";

fn variable(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" set ", "a variable's name")(input)?;
    let (i, by) = match i.strip_prefix(b"by environment to ") {
        Some(i) => (i, SettingSource::Environment),
        None => (
            word("to ", "what it is set to")(i)?.0,
            SettingSource::Unsaid,
        ),
    };
    let known = name.starts_with(b"NCCL_") || name.starts_with(b"RCCL_");
    if !known || !name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') {
        return fail(input, "a variable's name");
    }
    let value = strip_full_stop(i);
    Ok((NO_VALUE, Setting { name, value, by }))
}

fn config(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" ", "a field's name")(input)?;
    if let Some(value) = i.strip_prefix(b"set to ") {
        let by = SettingSource::Config;
        return Ok((NO_VALUE, Setting { name, value, by }));
    }
    let (i, _) = word("reset to ", "what it is set to")(i)?;
    // `NAME=value`, or `value by NAME=its own value`.
    let (own, stated) = match until(" by ", "a variable")(i) {
        Ok((i, value)) => (i, Some(value)),
        Err(_) => (i, None),
    };
    let (value, variable) = until("=", "a variable")(own)?;
    let (value, by) = (stated.unwrap_or(value), SettingSource::Overruled(variable));
    Ok((NO_VALUE, Setting { name, value, by }))
}

fn invalid(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, given) = until(" for ", "a value")(input)?;
    let (i, name) = until(", using default ", "a variable's name")(i)?;
    let (value, by) = (strip_full_stop(i), SettingSource::Default(given));
    Ok((NO_VALUE, Setting { name, value, by }))
}

/// The fields that NCCL corrects (`envConfigOverride` in `src/init.cc`).
const CORRECTED_FIELDS: [&[u8]; 9] = [
    b"minCTAs ",
    b"maxCTAs ",
    b"cgaClusterSize ",
    b"splitShare ",
    b"shrinkShare ",
    b"collnetEnable ",
    b"CTAPolicy ",
    b"nvlsCTAs ",
    b"nChannelsPerNetPeer ",
];

/// Returns true for a text that begins with a field that NCCL corrects.
fn may_be_corrected(body: &[u8]) -> bool {
    CORRECTED_FIELDS.iter().any(|field| body.starts_with(field))
}

fn corrected_field(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" ", "a field's name")(input)?;
    let (i, given) = until(" is ", "a value")(i)?;
    if !i.starts_with(b"larger than ") && !i.starts_with(b"not a valid value") {
        return fail(i, "what is wrong with it");
    }
    let to = [&b", cap it to "[..], b", set both to ", b", set it to "]
        .iter()
        .find_map(|words| Some(&i[memmem::find(i, words)? + words.len()..]));
    let value = match to {
        Some(value) if whole(dec_i64(value)).is_some() => value,
        None if i.ends_with(b", NCCL will decide the default value automatically") => NO_VALUE,
        _ => return fail(i, "what it is set to"),
    };
    let by = SettingSource::Corrected(given);
    Ok((NO_VALUE, Setting { name, value, by }))
}

fn unused(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" is unused", "a variable's name")(input)?;
    let (i, _) = word(". Setting it has no effect.", "that it has no effect")(i)?;
    let (value, by) = (NO_VALUE, SettingSource::Unused);
    Ok((i, Setting { name, value, by }))
}

/// A value without the full stop that ends a number's line. A text may end in one itself.
fn strip_full_stop(value: &[u8]) -> &[u8] {
    match value.strip_suffix(b".") {
        Some(number) if whole(dec_i64(number)).is_some() => number,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> (&'static str, &'static str, SettingSource<'static>) {
        let setting = parse_setting(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(setting.name), text(setting.value), setting.by)
    }

    #[test]
    fn every_form_names_its_source() {
        let by = SettingSource::Environment;
        let text = "NCCL_IB_TIMEOUT set by environment to 18.";
        assert_eq!(of(text), ("NCCL_IB_TIMEOUT", "18", by));
        let text = "NCCL_ALGO set by environment to Tree,Ring,,CollnetDirect";
        assert_eq!(of(text), ("NCCL_ALGO", "Tree,Ring,,CollnetDirect", by));
        let text = "NCCL_TOPO_FILE set by environment to /x/y.";
        assert_eq!(of(text), ("NCCL_TOPO_FILE", "/x/y.", by));
        let text = "NCCL_IB_HCA set to mlx5_0,mlx5_1";
        assert_eq!(
            of(text),
            ("NCCL_IB_HCA", "mlx5_0,mlx5_1", SettingSource::Unsaid)
        );
        let text = "Comm config Blocking set to 1";
        assert_eq!(of(text), ("Blocking", "1", SettingSource::Config));
        let text = "Comm config minCTAs reset to NCCL_MIN_CTAS=4";
        let by = SettingSource::Overruled(b"NCCL_MIN_CTAS");
        assert_eq!(of(text), ("minCTAs", "4", by));
        let text = "Comm config graphUsageMode reset to 2 by NCCL_GRAPH_MIXING_SUPPORT=1";
        let by = SettingSource::Overruled(b"NCCL_GRAPH_MIXING_SUPPORT");
        assert_eq!(of(text), ("graphUsageMode", "2", by));
        let text = "Invalid value x for NCCL_BUFFSIZE, using default -2.";
        assert_eq!(
            of(text),
            ("NCCL_BUFFSIZE", "-2", SettingSource::Default(b"x"))
        );
        let text = "Warning: ENV NCCL_X is unused. Setting it has no effect.";
        assert_eq!(of(text), ("NCCL_X", "", SettingSource::Unused));
        for (text, name, value, given) in [
            (
                "minCTAs 64 is larger than #channels upper limit 32, cap it to 32",
                "minCTAs",
                "32",
                "64",
            ),
            (
                "minCTAs 8 is larger than maxCTAs 4, set both to 4",
                "minCTAs",
                "4",
                "8",
            ),
            (
                "splitShare 5 is not a valid value 0/1, set it to 0",
                "splitShare",
                "0",
                "5",
            ),
            (
                "nvlsCTAs -1 is not a valid value, NCCL will decide the default value automatically",
                "nvlsCTAs",
                "",
                "-1",
            ),
        ] {
            let by = SettingSource::Corrected(given.as_bytes());
            assert_eq!(of(text), (name, value, by));
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for (name, secret) in [
            ("NCCL_API_TOKEN", true),
            ("NCCL_PLUGIN_LICENSE_KEY", true),
            ("NCCL_X_PASSWORD", true),
            ("NCCL_IB_PKEY", false),
            ("NCCL_ALGO", false),
        ] {
            let line = format!("n0:7:8 [0] NCCL INFO {name} set by environment to abc");
            let masked = mask_secret(line.as_bytes());
            assert_eq!(masked.is_some(), secret, "{name}");
            let says = format!("{name} set by environment to (hidden)");
            assert!(masked.is_none_or(|line| line.ends_with(says.as_bytes())));
        }
        let old = mask_secret(b"n0:7:8 [0] INFO NCCL_API_TOKEN set by environment to abc");
        assert!(old.is_some_and(|line| line.ends_with(b" to (hidden)")));
        let invalid = b"n0:7:8 [0] NCCL INFO Invalid value abc for NCCL_A_KEY, using default -2.";
        let says = b"Invalid value (hidden) for NCCL_A_KEY, using default (hidden).";
        assert!(mask_secret(invalid).is_some_and(|line| line.ends_with(says)));
    }

    #[test]
    fn prose_is_no_setting() {
        for text in [
            "The NCCL_ALGO set by environment to x",
            "NCCL_ALGO set by",
            "x set to y",
            "minCTAs 8 is larger than maxCTAs 4, set bo",
            "minCTAs 8 is not a valid value",
            "minCTAs 8 is here",
        ] {
            assert_eq!(parse_setting(text.as_bytes()), None, "{text}");
        }
    }
}
