//! The effects of settings, read from `setting_effects.txt`. The beginning of that file describes its rows.

use super::hosts::fact_meaning::is_nonzero_number;
use std::sync::LazyLock;

/// The effect of a variable, where it has some of these values.
pub(super) struct SettingEffect {
    name: &'static str,
    values: &'static str,
    pub(super) effect: &'static str,
    pub(super) advice: &'static str,
}

const SETTING_EFFECTS_TEXT: &str = include_str!("setting_effects.txt");

static SETTING_EFFECTS: LazyLock<Vec<SettingEffect>> = LazyLock::new(|| {
    let rows = SETTING_EFFECTS_TEXT.split("\n\n").skip(1);
    rows.filter_map(parse_row).collect()
});

/// Parses a row; `None` if a part of it is missing.
fn parse_row(row: &'static str) -> Option<SettingEffect> {
    let mut lines = row.lines();
    let (name, values) = lines.next()?.split_once(' ')?;
    Some(SettingEffect {
        name,
        values,
        effect: lines.next()?.strip_prefix("means ")?,
        advice: lines.next()?.strip_prefix("do ")?,
    })
}

/// Finds the known effect of a variable with this value.
pub(super) fn find_effect(name: &str, value: &[u8]) -> Option<&'static SettingEffect> {
    let is_value = |values: &str| match values {
        "*" => true,
        "on" => is_nonzero_number(value),
        these => these
            .split(' ')
            .any(|this| value.eq_ignore_ascii_case(this.as_bytes())),
    };
    let mut all = SETTING_EFFECTS.iter();
    all.find(|known| known.name == name && is_value(known.values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        let rows = SETTING_EFFECTS_TEXT.split("\n\n").skip(1).count();
        assert_eq!((rows, SETTING_EFFECTS.len()), (22, 22));
        for known in SETTING_EFFECTS.iter() {
            let value = known.values.split(' ').next().unwrap();
            let value = if value == "on" { "1" } else { value };
            assert!(
                find_effect(known.name, value.as_bytes()).is_some(),
                "{}",
                known.name
            );
        }
        assert!(find_effect("NCCL_P2P_DISABLE", b"0").is_none());
    }
}
