//! The figures of the house, each with its places.

use super::circles::find_circles;
use super::sources::{Source, read_sources};
use regex::Regex;
use std::collections::BTreeMap;
use std::path::Path;

/// What is counted in the sources.
pub(super) struct Figures {
    sources: Vec<Source>,
    pub(super) long_files: Vec<String>,
    pub(super) long_functions: Vec<String>,
    pub(super) large_folders: Vec<String>,
    pub(super) circles: Vec<Vec<String>>,
    pub(super) tuple_parameters: Vec<String>,
    pub(super) constants: Vec<String>,
    pub(super) unfinished: Vec<String>,
    pub(super) unsafe_elsewhere: Vec<String>,
    types: BTreeMap<String, Vec<String>>,
    functions: Vec<String>,
    hard: Vec<String>,
    comment_words: usize,
}

/// The phrases of the private English that comments were written in, as whole words in lower case.
const HARD: &str = r"\b(say|says|said|saying|tell|tells|told|telling|who|whose|whoever|so many|of which|what is|whatever|nobody|stands? for|behind it)\b";

impl Figures {
    /// Returns the lines of code of a folder, at any depth, or of a file.
    pub(super) fn room(&self, folder: &str) -> usize {
        let is_in = |source: &&Source| {
            source
                .name
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.sources.iter().filter(is_in).map(Source::lines).sum()
    }

    /// Returns how many of 100 types have the name of another one. Those of each program are alike by intention.
    pub(super) fn shared_percent(&self) -> f64 {
        let all: usize = self.types.values().map(Vec::len).sum();
        let shared = self
            .types
            .values()
            .map(Vec::len)
            .filter(|&places| places > 1);
        shared.sum::<usize>() as f64 * 100.0 / all as f64
    }

    /// Returns how many of 100 functions have a name of one word.
    pub(super) fn one_word_percent(&self) -> f64 {
        let one = self
            .functions
            .iter()
            .filter(|name| !name.trim_matches('_').contains('_'));
        one.count() as f64 * 100.0 / self.functions.len() as f64
    }

    /// Returns the hard phrases in 1,000 words of comments.
    pub(super) fn hard_per_thousand(&self) -> f64 {
        self.hard.len() as f64 * 1000.0 / self.comment_words as f64
    }

    /// Returns every place that a figure counts, a line each.
    pub(super) fn places(&self) -> String {
        let circles: Vec<String> = self.circles.iter().map(|files| files.join(" ")).collect();
        let shared: Vec<String> = self
            .types
            .iter()
            .filter(|(_, places)| places.len() > 1)
            .map(|(name, places)| format!("{name} {}", places.join(" ")))
            .collect();
        let lists = [
            ("file", &self.long_files),
            ("function", &self.long_functions),
            ("folder", &self.large_folders),
            ("circle", &circles),
            ("type", &shared),
            ("tuple", &self.tuple_parameters),
            ("constant", &self.constants),
            ("hard", &self.hard),
            ("unfinished", &self.unfinished),
            ("unsafe", &self.unsafe_elsewhere),
        ];
        let mut lines = Vec::new();
        for (kind, places) in lists {
            lines.extend(places.iter().map(|place| format!("{kind}: {place}")));
        }
        lines.join("\n")
    }
}

/// Reads the sources and counts.
pub(super) fn measure(root: &Path) -> Figures {
    let sources = read_sources(root);
    let mut figures = Figures {
        long_files: Vec::new(),
        long_functions: Vec::new(),
        large_folders: large_folders(&sources),
        circles: find_circles(&sources),
        tuple_parameters: Vec::new(),
        constants: Vec::new(),
        unfinished: Vec::new(),
        unsafe_elsewhere: Vec::new(),
        types: BTreeMap::new(),
        functions: Vec::new(),
        hard: Vec::new(),
        comment_words: 0,
        sources: Vec::new(),
    };
    let patterns = Patterns::new();
    for source in &sources {
        count_code(&mut figures, source, &patterns);
        count_comments(&mut figures, source, &patterns);
    }
    figures.sources = sources;
    figures
}

/// What is looked for in code.
struct Patterns {
    types: Regex,
    functions: Regex,
    tuples: Regex,
    constants: Regex,
    unfinished: Regex,
    unsafe_code: Regex,
    hard: Regex,
}

impl Patterns {
    fn new() -> Self {
        let pattern = |pattern: &str| Regex::new(pattern).unwrap();
        Self {
            types: pattern(
                r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait) ([A-Z]\w*)|^(?:pub(?:\([a-z]+\))? )?type ([A-Z]\w*)",
            ),
            functions: pattern(r"\bfn (\w+)"),
            tuples: pattern(r"[(,]\s*(?:mut )?\((?:&?\w+,?\s*)+\):"),
            constants: pattern(
                r"(?:const|static) ([A-Z]\w*): (?:[ui](?:8|16|32|64|128|size)|f64|f32|Duration)\b",
            ),
            unfinished: pattern(r"\b(?:todo|unimplemented)!"),
            unsafe_code: pattern(r"\bunsafe (?:\{|fn|impl)"),
            hard: pattern(HARD),
        }
    }
}

fn count_code(figures: &mut Figures, source: &Source, patterns: &Patterns) {
    let Source { name, code, .. } = source;
    let lines = source.lines();
    if lines > 400 {
        figures.long_files.push(format!("{name} {lines}"));
    }
    let place = |at: usize| format!("{name}:{}", source.line_of(at));
    for found in patterns.types.captures_iter(code) {
        let type_name = found.get(1).or(found.get(2)).unwrap();
        let places = figures
            .types
            .entry(type_name.as_str().to_owned())
            .or_default();
        places.push(place(type_name.start()));
    }
    for found in patterns.functions.captures_iter(code) {
        let function = found.get(1).unwrap();
        figures.functions.push(function.as_str().to_owned());
        let (parameters, body) = signature(&code[function.end()..]);
        let tuples = patterns.tuples.find_iter(parameters).count();
        let tuple = || format!("{} {}", place(function.start()), function.as_str());
        figures
            .tuple_parameters
            .extend((0..tuples).map(|_| tuple()));
        let length = body.lines().filter(|line| !line.trim().is_empty()).count();
        if length > 80 {
            figures.long_functions.push(format!(
                "{} {} {length}",
                place(function.start()),
                function.as_str()
            ));
        }
    }
    let judges = name.starts_with("src/engine") || name.starts_with("src/stages");
    if judges && !name.ends_with("/limits.rs") {
        for found in patterns.constants.captures_iter(code) {
            let constant = found.get(1).unwrap();
            figures
                .constants
                .push(format!("{} {}", place(constant.start()), constant.as_str()));
        }
    }
    for found in patterns.unfinished.find_iter(code) {
        figures.unfinished.push(place(found.start()));
    }
    let is_allowed = [
        "src/engine/source/",
        "src/profiler/abi/",
        "src/profiler/system.rs",
    ];
    if !is_allowed.iter().any(|room| name.starts_with(room)) {
        for found in patterns.unsafe_code.find_iter(code) {
            figures.unsafe_elsewhere.push(place(found.start()));
        }
    }
}

fn count_comments(figures: &mut Figures, source: &Source, patterns: &Patterns) {
    let text = source.comments.to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    figures.comment_words += words.len();
    // A phrase may go on in the next line.
    let text = words.join(" ");
    for found in patterns.hard.find_iter(&text) {
        let after: String = text[found.start()..].chars().take(50).collect();
        figures.hard.push(format!("{}: {after}", source.name));
    }
    if source.comments.contains("TODO") || source.comments.contains("FIXME") {
        figures.unfinished.push(source.name.clone());
    }
}

/// The parameters of a function and its body, from the text after its name.
fn signature(text: &str) -> (&str, &str) {
    let open = text.find('(').unwrap_or(0);
    let close = closing(&text[open..]) + open;
    let after = &text[close..];
    let Some(start) = after
        .find(['{', ';'])
        .filter(|&at| after[at..].starts_with('{'))
    else {
        return (&text[open..close], "");
    };
    (
        &text[open..close],
        &after[start..start + closing(&after[start..])],
    )
}

/// The place after the bracket that closes the first one.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

fn large_folders(sources: &[Source]) -> Vec<String> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        let folder = source
            .name
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    folders.remove("src/bin");
    let large = folders.into_iter().filter(|&(_, files)| files > 14);
    large
        .map(|(folder, files)| format!("{folder} {files}"))
        .collect()
}
