//! Numbers as Python writes them, because the trainers do.

/// Returns the mantissa and the exponent of `v`, rounded to `digits` significant digits.
fn scientific(v: f64, digits: usize) -> (String, i32) {
    let text = format!("{v:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

fn strip_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn format_exponent(mantissa: &str, exp: i32, letter: char) -> String {
    let sign = if exp < 0 { '-' } else { '+' };
    format!("{mantissa}{letter}{sign}{:02}", exp.abs())
}

/// `f"{v:.4}"` as NeMo 2's ProgressPrinter writes metrics: without a type letter Python turns
/// to the exponent one digit early (1000.0 is `1e+03`) and keeps a point (427.0 is `427.0`).
pub(super) fn format_dot4(v: f64) -> String {
    let (mantissa, exp) = scientific(v, 4);
    if !(-4..3).contains(&exp) {
        return format_exponent(strip_zeros(&mantissa), exp, 'e');
    }
    let text = format!("{v:.*}", (3 - exp) as usize);
    let short = strip_zeros(&text);
    if short.contains('.') {
        short.to_owned()
    } else {
        format!("{short}.0")
    }
}

/// `repr(v)` of a positive float.
pub(super) fn format_repr(v: f64) -> String {
    if (1e-4..1e16).contains(&v) {
        return format!("{v:?}");
    }
    let text = format!("{v:e}");
    let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
    format_exponent(mantissa, exp.parse().unwrap_or(0), 'e')
}

/// `f"{v:.3g}"`
pub(super) fn format_g3(v: f64) -> String {
    let (mantissa, exp) = scientific(v, 3);
    if !(-4..3).contains(&exp) {
        return format_exponent(strip_zeros(&mantissa), exp, 'e');
    }
    strip_zeros(&format!("{v:.*}", (2 - exp) as usize)).to_owned()
}

/// `f"{v:.{digits}E}"`
pub(super) fn format_upper_e(v: f64, digits: usize) -> String {
    let (mantissa, exp) = scientific(v, digits + 1);
    format_exponent(&mantissa, exp, 'E')
}

/// Lightning's `Tqdm.format_num` of a float: three digits at most, padded to five characters,
/// tqdm's short exponent. `plain` is Python's own text of the number.
pub(super) fn format_tqdm(v: f64, plain: &str) -> String {
    let short = format_g3(v).replace("e+0", "e+").replace("e-0", "e-");
    let mut text = if short.len() < plain.len() {
        short
    } else {
        plain.to_owned()
    };
    if !text.contains('e') {
        if !text.contains('.') && text.len() < 5 {
            text.push('.');
        }
        while text.len() < 5 {
            text.push('0');
        }
    }
    text
}

/// nanotron's `human_format`: three digits and a suffix.
pub(super) fn format_human(v: f64) -> String {
    if v < 1.0 {
        return format_g3(v);
    }
    let mut n: f64 = format_g3(v).parse().unwrap_or(v);
    let mut suffixes = ["", "K", "M", "B", "T", "P", "E"].iter();
    let mut suffix = suffixes.next();
    while n >= 1000.0 {
        n /= 1000.0;
        suffix = suffixes.next().or(suffix);
    }
    format!(
        "{}{}",
        strip_zeros(&format!("{n:.6}")),
        suffix.unwrap_or(&"")
    )
}

/// `f"{v:,.{digits}f}"`
pub(super) fn format_commas(v: f64, digits: usize) -> String {
    let text = format!("{v:.digits$}");
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::{
        format_commas, format_dot4, format_g3, format_human, format_repr, format_tqdm,
        format_upper_e,
    };

    // Every expected text was printed by CPython.
    #[test]
    fn numbers_are_python_s() {
        let dots = [
            6.08, 427.04, 999.96, 1249.3, 0.1903, 6.897e-6, 11.955, 100.04,
        ]
        .map(format_dot4);
        assert_eq!(
            dots,
            [
                "6.08",
                "427.0",
                "1e+03",
                "1.249e+03",
                "0.1903",
                "6.897e-06",
                "11.96",
                "100.0"
            ]
        );
        assert_eq!(
            [format_g3(4710.0), format_g3(45.0), format_g3(0.0000187)],
            ["4.71e+03", "45", "1.87e-05"]
        );
        assert_eq!(
            [format_upper_e(8.6e-6, 6), format_upper_e(1.825_991, 6)],
            ["8.600000E-06", "1.825991E+00"]
        );
        assert_eq!(
            [format_repr(4.5e-7), format_repr(20.9), format_repr(21.0)],
            ["4.5e-07", "20.9", "21.0"]
        );
    }

    #[test]
    fn bars_and_suffixes_lose_digits_as_they_do_in_real_logs() {
        assert_eq!(
            [format_tqdm(6.08, "6.08"), format_tqdm(44.0, "44.0")],
            ["6.080", "44.00"]
        );
        assert_eq!(
            [format_tqdm(105.0, "105.0"), format_tqdm(9000.0, "9000.0")],
            ["105.0", "9e+3"]
        );
        assert_eq!(
            [
                format_human(4712.0),
                format_human(441.26),
                format_human(634_000.0)
            ],
            ["4.71K", "441", "634K"]
        );
        assert_eq!(
            [format_commas(1_541_366.4, 0), format_commas(1004.313, 2)],
            ["1,541,366", "1,004.31"]
        );
    }
}
