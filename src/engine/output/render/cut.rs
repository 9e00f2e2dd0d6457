//! Texts that are too wide for their place, and those of a column that would look alike once they are cut: kernels'
//! names differ at their ends.

use crate::output::limits::MIN_SHOWN_PLACE;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Where a part of a C++ name, a path or a sentence may begin.
const PART_STARTS: [char; 8] = [':', '<', '(', ',', ' ', '/', '_', '.'];

/// Returns the beginning of a text that is too wide, with a mark that more follows.
pub fn cut_text(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return text.into();
    }
    format!("{}…", take_width(text, width.saturating_sub(1))).into()
}

/// Cuts texts to `width` characters so that different ones stay different: those that begin alike show the places
/// where they part, with a mark for the text between.
pub(super) fn cut_texts_apart(texts: &mut [&mut String], width: usize) {
    let whole: BTreeSet<String> = texts.iter().map(|text| (*text).clone()).collect();
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    let mut shown: Vec<String> = whole
        .iter()
        .map(|t| cut_text(t, width).into_owned())
        .collect();
    // First only what parts texts of one beginning; then, where ends of different beginnings are equal, all.
    for has_all in [false, true] {
        for group in group_equal_texts(&shown) {
            let all = Vec::from_iter(0..whole.len());
            let among = if has_all { &all } else { &group };
            let among = Vec::from_iter(among.iter().map(|&at| whole[at]));
            for &at in &group {
                let places = find_parting_places(whole[at], &among);
                shown[at] = show_places(whole[at], &places, width);
            }
        }
    }
    for text in texts {
        if let Ok(at) = whole.binary_search(&text.as_str()) {
            text.clone_from(&shown[at]);
        }
    }
}

/// Returns the numbers of equal texts, two or more together.
fn group_equal_texts(texts: &[String]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, text) in texts.iter().enumerate() {
        groups.entry(text).or_default().push(at);
    }
    groups
        .into_values()
        .filter(|group| group.len() > 1)
        .collect()
}

/// Returns where a text differs from each of the others, from the left.
fn find_parting_places(text: &str, among: &[&str]) -> BTreeSet<usize> {
    let others = among.iter().filter(|&&other| other != text);
    let places = others.map(|other| {
        let mut both = text.char_indices().zip(other.chars());
        let parted = both.find(|((_, a), b)| a != b);
        parted.map_or(text.len().min(other.len()), |((at, _), _)| at)
    });
    places.collect()
}

/// Shows a text's places in `width` characters, each from the beginning of its part where that fits.
fn show_places(text: &str, places: &BTreeSet<usize>, width: usize) -> String {
    let most = (width / MIN_SHOWN_PLACE).max(1);
    let places = Vec::from_iter(places.iter().copied().take(most));
    let mut shown = String::new();
    let mut end = 0;
    for (number, &place) in places.iter().enumerate() {
        let free = width.saturating_sub(shown.width()) / (places.len() - number);
        if place < end {
            continue;
        }
        let fits = |begin: &usize| text[*begin..place].width() + MIN_SHOWN_PLACE / 2 < free;
        let next = places.get(number + 1).map_or(text.len(), |&next| next);
        let fits_all = |begin: &usize| text[*begin..next].width() < free;
        let starts = text[end..place].char_indices();
        let starts = starts.filter(|(_, c)| PART_STARTS.contains(c));
        let mut starts = starts.map(|(at, c)| end + at + c.len_utf8());
        let begin = Some(end).filter(fits);
        let begin = begin.or_else(|| starts.clone().find(fits_all));
        let begin = begin.or_else(|| starts.rfind(fits));
        let begin = begin.unwrap_or(place);
        let mark = if begin > end { "…" } else { "" };
        let piece = take_width(&text[begin..], free.saturating_sub(mark.width() + 1));
        shown = shown + mark + piece;
        end = begin + piece.len();
    }
    let free = width.saturating_sub(shown.width());
    shown + &cut_text(&text[end..], free)
}

/// Returns as much of a text's beginning as fits.
fn take_width(text: &str, width: usize) -> &str {
    let mut free = width;
    let fits = |c: char| {
        let left = free.checked_sub(c.width().unwrap_or(0));
        free = left.unwrap_or(free);
        left.is_some()
    };
    let end = text
        .char_indices()
        .zip(text.chars().map(fits))
        .find(|(_, fits)| !fits);
    &text[..end.map_or(text.len(), |((at, _), _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: &[&str], width: usize) -> Vec<String> {
        let mut texts: Vec<String> = texts.iter().map(|&t| t.to_owned()).collect();
        let mut each: Vec<&mut String> = texts.iter_mut().collect();
        cut_texts_apart(&mut each, width);
        texts
    }

    #[test]
    fn names_with_one_beginning_show_where_they_differ() {
        let names = [
            "void at::native::vectorized_elementwise_kernel<4>",
            "void at::native::reduce_kernel<512>",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            "short",
        ];
        let expected = [
            "…vectorized_ele…",
            "…reduce_kernel<…",
            "ncclDevKernel_A…",
            "short",
        ];
        assert_eq!(told(&names, 16), expected);
        // There is room for all.
        assert_eq!(told(&names, 60), names);
        // Equal texts stay equal.
        let cut = "void at::native…";
        assert_eq!(told(&[names[0], names[0]], 16), [cut, cut]);
    }

    #[test]
    fn short_ends_stand_behind_as_much_as_fits() {
        let names = [
            "nvjet_sm90_tst_64x8_2x1_v_bz_NNN",
            "nvjet_sm90_tst_64x8_2x1_v_bz_TNT",
        ];
        let expected = ["…64x8_2x1_v_bz_NNN", "…64x8_2x1_v_bz_TNT"];
        assert_eq!(told(&names, 20), expected);
    }

    #[test]
    fn names_that_part_more_than_once_stay_different() {
        let names = [
            "void at::native::elementwise_kernel<128, 2, at::native::Copy<float>>(int, A)",
            "void at::native::elementwise_kernel<128, 2, at::native::Copy<half>>(int, A)",
            "void at::native::elementwise_kernel<128, 4, at::native::Copy<float>>(int, A)",
            "void at::native::elementwise_kernel<128, 4, at::native::Copy<half>>(int, A)",
            "void at::fused::elementwise_kernel<128, 4, at::native::Copy<half>>(int, A)",
        ];
        let expected = [
            "…2, at::nat…float>>(int…",
            "…2, at::nat…half>>(int,…",
            "…4, at::nat…float>>(int…",
            "…4, at::nat…half>>(int,…",
            "void at::fused::element…",
        ];
        assert_eq!(told(&names, 24), expected);
    }
}
