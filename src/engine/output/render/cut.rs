//! Texts that are too wide for their place, and those of a column that would look alike once they are cut: kernels'
//! names differ at their ends.

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
    let mut kept = String::new();
    let mut free = width.saturating_sub(1);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > free {
            break;
        }
        free -= wide;
        kept.push(c);
    }
    kept.push('…');
    kept.into()
}

/// Omits what different texts have in common at their start where they are equal after being cut to `width`
/// characters: each begins with the part in which they differ.
pub(super) fn tell_cut_texts_apart(texts: &mut [&mut String], width: usize) {
    let mut alike: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for text in texts.iter() {
        let cut = cut_text(text, width);
        if cut != text.as_str() {
            alike
                .entry(cut.into_owned())
                .or_default()
                .insert((*text).clone());
        }
    }
    for text in texts {
        let Some(group) = alike.get(&*cut_text(text, width)) else {
            continue;
        };
        // Texts are in order, so the first and the last have the least in common.
        if let (Some(first), Some(last)) = (group.first(), group.last())
            && first != last
            && cut_text(text, width) != text.as_str()
        {
            let begin = find_part_start(first, last);
            **text = format!("…{}", &text[begin..]);
        }
    }
}

/// Returns where the part begins in which two texts differ.
fn find_part_start(one: &str, other: &str) -> usize {
    let same = one.char_indices().zip(other.chars());
    let same = same.take_while(|((_, a), b)| a == b);
    let mut begin = 0;
    for ((at, c), _) in same {
        if PART_STARTS.contains(&c) {
            begin = at + c.len_utf8();
        }
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: &[&str], width: usize) -> Vec<String> {
        let mut texts: Vec<String> = texts.iter().map(|&t| t.to_owned()).collect();
        let mut each: Vec<&mut String> = texts.iter_mut().collect();
        tell_cut_texts_apart(&mut each, width);
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
            "…vectorized_elementwise_kernel<4>",
            "…reduce_kernel<512>",
            names[2],
            names[3],
        ];
        assert_eq!(told(&names, 16), expected);
        // There is room for all.
        assert_eq!(told(&names, 60), names);
        // Equal texts stay.
        assert_eq!(told(&[names[0], names[0]], 16), [names[0], names[0]]);
        assert_eq!(told(&["ééé", "éèé"], 2), ["…ééé", "…éèé"]);
    }
}
