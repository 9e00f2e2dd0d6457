//! Which file uses which, and where they go round in a circle.

use super::sources::Source;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the circles between files: for each, the files that reach each other by what they use.
pub(super) fn find_circles(sources: &[Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<String, usize> = sources
        .iter()
        .enumerate()
        .filter(|(_, source)| !source.name.starts_with("src/bin/"))
        .map(|(number, source)| (module(&source.name), number))
        .collect();
    let mut uses: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); sources.len()];
    for (name, &number) in &modules {
        for path in used_paths(&sources[number].code) {
            let target = resolve(name, &path).and_then(|path| file_of(&modules, &path));
            // A module's own items through a file of its own are no use of another file.
            if let Some(target) = target.filter(|&target| target != number) {
                uses[number].insert(target);
            }
        }
    }
    let mut circles = Vec::new();
    for group in strongly_connected(&uses) {
        if group.len() > 1 {
            circles.push(group.iter().map(|&n| sources[n].name.clone()).collect());
        }
    }
    circles
}

/// The module of a file: `src/engine/log/mod.rs` is `engine::log`, `src/stages/mod.rs` is `::stages`.
fn module(name: &str) -> String {
    let path = name.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod").trim_end_matches("/lib");
    let path = path.replace('/', "::");
    let first = path.split("::").next().unwrap();
    match first {
        "engine" | "grammar" | "synth" => path,
        "lib" => "main".to_owned(),
        _ => format!("main::{path}"),
    }
}

/// Every path that a file's code names from `crate`, `super` or `self`; the groups of `use` taken apart.
fn used_paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let start = Regex::new(r"\b(?:crate|super|self)::").unwrap();
    let mut at = 0;
    while let Some(found) = start.find_at(code, at) {
        take_apart(&code[found.start()..], String::new(), &mut paths);
        at = found.end();
    }
    paths
}

/// Reads a path and its groups in braces. Returns where it ends.
fn take_apart(text: &str, prefix: String, paths: &mut Vec<String>) -> usize {
    let mut name = prefix;
    let mut at = 0;
    loop {
        let word = text[at..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .count();
        name.push_str(&text[at..at + word]);
        at += word;
        if !text[at..].starts_with("::") {
            break;
        }
        at += 2;
        name.push_str("::");
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += text[at..].len() - text[at..].trim_start().len();
                if text[at..].starts_with('}') || at >= text.len() {
                    at += 1;
                    break;
                }
                at += take_apart(&text[at..], name.clone(), paths);
                let skip = text[at..].find([',', '}', ';']).unwrap_or(text.len() - at);
                at += skip;
                if text[at..].starts_with(',') {
                    at += 1;
                }
                if text[at..].starts_with(';') {
                    break;
                }
            }
            return at.min(text.len());
        }
    }
    paths.push(name);
    at
}

/// The whole path of what `module` calls `path`.
fn resolve(module: &str, path: &str) -> Option<String> {
    let mut base: Vec<&str> = module.split("::").collect();
    let mut parts = path.split("::").peekable();
    match parts.next()? {
        "crate" => base.truncate(1),
        "super" => {
            base.pop()?;
            while parts.peek() == Some(&"super") {
                parts.next();
                base.pop()?;
            }
        }
        _ => {}
    }
    let all: Vec<&str> = base.into_iter().chain(parts).collect();
    // The crates' modules under the name that the main crate gives them.
    let all = all.join("::");
    Some(match all.strip_prefix("main::") {
        Some(rest) if ["grammar", "synth"].contains(&rest.split("::").next()?) => rest.to_owned(),
        Some(rest) if ENGINE.contains(&rest.split("::").next()?) => format!("engine::{rest}"),
        _ => match all.strip_prefix("engine::grammar") {
            Some(rest) => format!("grammar{rest}"),
            None => all,
        },
    })
}

/// The engine's rooms that the main crate names as its own.
const ENGINE: [&str; 9] = [
    "calls", "count", "error", "formats", "log", "members", "output", "report", "source",
];

/// The file that has what a path names: of the longest module in it.
fn file_of(modules: &BTreeMap<String, usize>, path: &str) -> Option<usize> {
    let mut path = path;
    loop {
        if let Some(&number) = modules.get(path) {
            return Some(number);
        }
        path = &path[..path.rfind("::")?];
    }
}

/// The groups of files that reach each other (Tarjan's algorithm).
fn strongly_connected(uses: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    struct Walk<'a> {
        uses: &'a [BTreeSet<usize>],
        index: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        on_stack: Vec<bool>,
        next: usize,
        groups: Vec<Vec<usize>>,
    }
    impl Walk<'_> {
        fn visit(&mut self, node: usize) {
            self.index[node] = Some(self.next);
            self.low[node] = self.next;
            self.next += 1;
            self.stack.push(node);
            self.on_stack[node] = true;
            for &to in &self.uses[node] {
                match self.index[to] {
                    None => {
                        self.visit(to);
                        self.low[node] = self.low[node].min(self.low[to]);
                    }
                    Some(index) if self.on_stack[to] => {
                        self.low[node] = self.low[node].min(index);
                    }
                    Some(_) => {}
                }
            }
            if Some(self.low[node]) == self.index[node] {
                let mut group = Vec::new();
                while let Some(top) = self.stack.pop() {
                    self.on_stack[top] = false;
                    group.push(top);
                    if top == node {
                        break;
                    }
                }
                group.sort_unstable();
                self.groups.push(group);
            }
        }
    }
    let size = uses.len();
    let mut walk = Walk {
        uses,
        index: vec![None; size],
        low: vec![0; size],
        stack: Vec::new(),
        on_stack: vec![false; size],
        next: 0,
        groups: Vec::new(),
    };
    for node in 0..size {
        if walk.index[node].is_none() {
            walk.visit(node);
        }
    }
    walk.groups
}
