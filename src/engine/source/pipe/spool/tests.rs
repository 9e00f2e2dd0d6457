use super::*;
use memchr::memchr_iter;
use proptest::prelude::*;

/// Lines that may be let go: where they are, and their notes.
struct List(Vec<(u64, Option<Vec<u8>>)>, usize);

impl NotedLines for List {
    fn next_line_start(&mut self) -> Option<u64> {
        self.0.get(self.1).map(|line| line.0)
    }

    fn take_note(&mut self) -> Option<&[u8]> {
        self.1 += 1;
        self.0.get(self.1 - 1)?.1.as_deref()
    }

    fn is_alone(&self, line: &[u8]) -> bool {
        line.ends_with(b"x\n")
    }
}

fn text(thin: &PipeSpool, most: usize) -> Vec<u8> {
    let (mut reader, mut all, mut piece) = (thin.open_reader(), Vec::new(), vec![0; most]);
    loop {
        match reader.read(&mut piece).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&piece[..n]),
        }
    }
}

/// The same with blanks where lines were let go: as many bytes and lines.
fn same(text: &[u8], whole: &[u8], gone: &[(usize, usize)]) -> bool {
    let lines = |text: &[u8]| memchr_iter(b'\n', text).count();
    // Lines that follow each other are blank together.
    let mut all: Vec<(usize, usize)> = Vec::new();
    for &(from, to) in gone {
        match all.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => all.push((from, to)),
        }
    }
    let mut at = 0;
    let mut ends = all.iter().copied().chain([(whole.len(), whole.len())]);
    text.len() == whole.len()
        && ends.all(|(from, to)| {
            let is_kept = from < at || text[at..from] == whole[at..from];
            let is_blank = text[from..to].iter().all(u8::is_ascii_whitespace);
            at = to;
            is_kept && is_blank && lines(&text[..to]) == lines(&whole[..to])
        })
}

proptest! {
    /// Lines that are let go, kept with a note or not named, looked through in steps of any size, and
    /// then sifted.
    #[test]
    fn what_is_let_go_is_blank_and_all_else_is_as_it_was(
        lines in proptest::collection::vec((0..4_u8, 0..90_usize), 0..60),
        steps in proptest::collection::vec((1..900_usize, 0..900_u64), 1..20),
        most in 1..300_usize,
        ends: bool,
    ) {
        let (mut whole, mut list) = (Vec::new(), Vec::new());
        let (mut gone, mut sifted) = (Vec::new(), Vec::new());
        for (at, (kind, len)) in lines.iter().enumerate() {
            let from = whole.len();
            whole.extend(std::iter::repeat_n(b'a' + (at % 20) as u8, *len));
            whole.extend_from_slice(if kind % 2 == 0 { b"x\n" } else { b"yx\n" });
            let note = match kind {
                0 => None,
                1 => Some(vec![1, at as u8]),
                2 => Some(vec![2, at as u8]),
                _ => continue,
            };
            gone.extend(note.is_none().then_some((from, whole.len())));
            sifted.extend((*kind < 2).then_some((from, whole.len())));
            list.push((from as u64, note));
        }
        if !ends {
            // The last line has no end: it is kept.
            whole.pop();
            gone.retain(|line| line.1 <= whole.len());
            sifted.retain(|line| line.1 <= whole.len());
        }
        let thin = PipeSpool::new().unwrap();
        let (mut notes, mut read) = (List(list.clone(), 0), 0);
        for (n, until) in steps.iter().cycle().take(4000) {
            let next = whole.len().min(read + n);
            thin.push_bytes(&whole[read..next]);
            read = next;
            let until = (read as u64).saturating_sub(*until);
            let at = thin.scan_until(until, &mut notes).unwrap();
            notes.1 = list.partition_point(|line| line.0 < at);
        }
        prop_assert!(same(&text(&thin, most), &whole, &[]) || !gone.is_empty());
        thin.scan_to_end(&mut notes).unwrap();
        prop_assert!(same(&text(&thin, most), &whole, &gone));
        let kept = |all: &[(u64, Option<Vec<u8>>)], kind: u8| -> Vec<Vec<u8>> {
            let notes = all.iter().filter_map(|line| line.1.clone());
            notes.filter(|note| note[0] >= kind).collect()
        };
        let seen = || {
            let mut seen = Vec::new();
            thin.for_each_note(|note| seen.push(note.to_vec())).unwrap();
            seen
        };
        prop_assert_eq!(seen(), kept(&list, 1));
        thin.drop_unwanted_lines(|note| note[0] == 2).unwrap();
        prop_assert!(same(&text(&thin, most), &whole, &sifted));
        prop_assert_eq!(seen(), kept(&list, 2));
    }
}

#[test]
fn what_is_kept_is_packed_and_what_is_let_go_takes_no_room() {
    for (line, is_let_go) in [
        ("a line let go x\n", true),
        ("a line that is kept\n", false),
    ] {
        let thin = PipeSpool::new().unwrap();
        let lines = line.repeat(1000);
        let all = 300 * lines.len() as u64;
        for n in 0..300_u64 {
            let from = n * lines.len() as u64;
            let each = (0..1000).map(|at| (from + at * line.len() as u64, None));
            let mut notes = List(each.collect(), 0);
            thin.push_bytes(lines.as_bytes());
            thin.scan_until(from + lines.len() as u64, &mut notes)
                .unwrap();
        }
        assert!(thin.packed_bytes() < all / 20);
        assert_eq!(thin.packed_bytes() == 0, is_let_go);
        assert_eq!(text(&thin, 1 << 16).len() as u64, all);
    }
}

#[test]
fn the_rest_of_a_line_that_is_too_long_takes_no_room() {
    let piece = vec![b'y'; 1 << 20];
    for scanned in [false, true] {
        let thin = PipeSpool::new().unwrap();
        thin.push_bytes(b"first\n");
        for _ in 0..40 {
            thin.push_bytes(&piece);
        }
        thin.push_bytes(b"yy\nlast x\n");
        let held = |block: &UnscannedBlock| match block {
            UnscannedBlock::Text(text) => text.len(),
            UnscannedBlock::Blanks(_) => 0,
        };
        let held: usize = lock_mutex(&thin.0.fresh).blocks.iter().map(held).sum();
        assert!(held < MAX_LINE_BYTES + 100);
        if scanned {
            thin.scan_to_end(&mut List(vec![(6 + (40 << 20) + 3, None)], 0))
                .unwrap();
        }
        let text = text(&thin, 1 << 16);
        let (line, rest) = text[6..].split_at(40 << 20);
        assert!(line[..MAX_LINE_BYTES].iter().all(|&byte| byte == b'y'));
        assert!(line[MAX_LINE_BYTES..].iter().all(|&byte| byte == b' '));
        let last: &[u8] = if scanned { b"       \n" } else { b"last x\n" };
        assert_eq!(rest.len(), 3 + 7);
        assert_eq!(
            (&rest[..3], &rest[3..]),
            (&b"  \n"[..], &last[last.len() - 7..])
        );
    }
}
