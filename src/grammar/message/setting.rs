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
//! ```
//!
//! From `ncclLoadParam` in `src/misc/param.cc`, its callers, `parseCommConfig` in `src/init.cc` and
//! `ncclParamCheckFlag` in `src/param/c_api.cc`. `/etc/nccl.conf` and `~/.nccl.conf` only fill the environment: what they set
//! reads `set by environment`.

use crate::grammar::token::{PResult, dec_i64, fail, until, whole, word};

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<'a> {
    /// Its name: `NCCL_ALGO`, or a field of the program's `ncclConfig_t` such as `Blocking`.
    pub name: &'a [u8],
    /// Its value, as far as it is printed.
    pub value: &'a [u8],
    /// Where it comes from.
    pub by: By<'a>,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    /// The environment, or a `nccl.conf`.
    Environment,
    /// `set to`: the line does not say by whom.
    Unsaid,
    /// The program, by its `ncclConfig_t`.
    Config,
    /// The program's `ncclConfig_t`, overruled by this variable.
    Overruled(&'a [u8]),
    /// The default, for this value could not be read.
    Default(&'a [u8]),
    /// Nothing reads it; its value is not printed.
    Unused,
}

/// Any of the lines above.
pub fn setting(body: &[u8]) -> Option<Setting<'_>> {
    let setting = if let Some(rest) = body.strip_prefix(b"Comm config ") {
        config(rest)
    } else if let Some(rest) = body.strip_prefix(b"Invalid value ") {
        invalid(rest)
    } else if let Some(rest) = body.strip_prefix(b"Warning: ENV ") {
        unused(rest)
    } else {
        variable(body)
    };
    setting.ok().map(|(_, setting)| setting)
}

const NOTHING: &[u8] = b"";

fn variable(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" set ", "a variable's name")(input)?;
    let (i, by) = match i.strip_prefix(b"by environment to ") {
        Some(i) => (i, By::Environment),
        None => (word("to ", "what it is set to")(i)?.0, By::Unsaid),
    };
    let known = name.starts_with(b"NCCL_") || name.starts_with(b"RCCL_");
    if !known || !name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') {
        return fail(input, "a variable's name");
    }
    let value = number(i);
    Ok((NOTHING, Setting { name, value, by }))
}

fn config(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" ", "a field's name")(input)?;
    if let Some(value) = i.strip_prefix(b"set to ") {
        let by = By::Config;
        return Ok((NOTHING, Setting { name, value, by }));
    }
    let (i, _) = word("reset to ", "what it is set to")(i)?;
    // `NAME=value`, or `value by NAME=its own value`.
    let (own, stated) = match until(" by ", "a variable")(i) {
        Ok((i, value)) => (i, Some(value)),
        Err(_) => (i, None),
    };
    let (value, variable) = until("=", "a variable")(own)?;
    let (value, by) = (stated.unwrap_or(value), By::Overruled(variable));
    Ok((NOTHING, Setting { name, value, by }))
}

fn invalid(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, given) = until(" for ", "a value")(input)?;
    let (i, name) = until(", using default ", "a variable's name")(i)?;
    let (value, by) = (number(i), By::Default(given));
    Ok((NOTHING, Setting { name, value, by }))
}

fn unused(input: &[u8]) -> PResult<'_, Setting<'_>> {
    let (i, name) = until(" is unused", "a variable's name")(input)?;
    let (i, _) = word(". Setting it has no effect.", "that it has no effect")(i)?;
    let (value, by) = (NOTHING, By::Unused);
    Ok((i, Setting { name, value, by }))
}

/// A value without the full stop that ends a number's line. A text may end in one itself.
fn number(value: &[u8]) -> &[u8] {
    match value.strip_suffix(b".") {
        Some(number) if whole(dec_i64(number)).is_some() => number,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> (&'static str, &'static str, By<'static>) {
        let setting = setting(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        (text(setting.name), text(setting.value), setting.by)
    }

    #[test]
    fn every_form_names_its_source() {
        let by = By::Environment;
        let text = "NCCL_IB_TIMEOUT set by environment to 18.";
        assert_eq!(of(text), ("NCCL_IB_TIMEOUT", "18", by));
        let text = "NCCL_ALGO set by environment to Tree,Ring,,CollnetDirect";
        assert_eq!(of(text), ("NCCL_ALGO", "Tree,Ring,,CollnetDirect", by));
        let text = "NCCL_TOPO_FILE set by environment to /x/y.";
        assert_eq!(of(text), ("NCCL_TOPO_FILE", "/x/y.", by));
        let text = "NCCL_IB_HCA set to mlx5_0,mlx5_1";
        assert_eq!(of(text), ("NCCL_IB_HCA", "mlx5_0,mlx5_1", By::Unsaid));
        let text = "Comm config Blocking set to 1";
        assert_eq!(of(text), ("Blocking", "1", By::Config));
        let text = "Comm config minCTAs reset to NCCL_MIN_CTAS=4";
        let by = By::Overruled(b"NCCL_MIN_CTAS");
        assert_eq!(of(text), ("minCTAs", "4", by));
        let text = "Comm config graphUsageMode reset to 2 by NCCL_GRAPH_MIXING_SUPPORT=1";
        let by = By::Overruled(b"NCCL_GRAPH_MIXING_SUPPORT");
        assert_eq!(of(text), ("graphUsageMode", "2", by));
        let text = "Invalid value x for NCCL_BUFFSIZE, using default -2.";
        assert_eq!(of(text), ("NCCL_BUFFSIZE", "-2", By::Default(b"x")));
        let text = "Warning: ENV NCCL_X is unused. Setting it has no effect.";
        assert_eq!(of(text), ("NCCL_X", "", By::Unused));
    }

    #[test]
    fn prose_is_no_setting() {
        for text in [
            "The NCCL_ALGO set by environment to x",
            "NCCL_ALGO set by",
            "x set to y",
        ] {
            assert_eq!(setting(text.as_bytes()), None, "{text}");
        }
    }
}
