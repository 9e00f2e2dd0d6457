//! Expectations about a job, as a list for CI: `net=ib,gdr=on,versions=1,step_time_p95<6.5`.
//!
//! Each is met, violated, or not answered by this log: nothing is guessed.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::str::FromStr;

pub use super::facts::LogFacts;

/// A list of expectations.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectations(Vec<Expectation>);

#[derive(Debug, Clone, PartialEq)]
struct Expectation {
    text: String,
    name: &'static str,
    op: Comparator,
    value: String,
    number: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparator {
    Is,
    IsNot,
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Two letters first: `<=` is not `<`.
const COMPARATORS: [(&str, Comparator); 7] = [
    ("<=", Comparator::AtMost),
    (">=", Comparator::AtLeast),
    ("!=", Comparator::IsNot),
    ("==", Comparator::Is),
    ("=", Comparator::Is),
    ("<", Comparator::Below),
    (">", Comparator::Above),
];

/// Expectations with a word as value, and the words; `net` takes [`KNOWN_NETWORKS`] and names.
const WORD_FACTS: [(&str, &[&str]); 4] = [
    ("net", &KNOWN_NETWORKS),
    ("gdr", &["on", "off", "mixed"]),
    ("nvls", &["used", "created", "available", "off"]),
    ("pxn", &["used", "off"]),
];

/// Networks: NCCL's own, the providers of aws-ofi-nccl, and plugins as they call themselves. Of those
/// in [`VERSIONED_NET_PREFIXES`] the name may go on.
const KNOWN_NETWORKS: [&str; 15] = [
    "ib",
    "infiniband",
    "roce",
    "socket",
    "efa",
    "cxi",
    "tcp",
    "verbs",
    "ibext",
    "ucx",
    "aws libfabric",
    "fastsocket",
    "gpudirecttcpx",
    "fastrak",
    "gib",
];

/// What begins the names of plugins: `ibext_v10`, `ucx-rma`, `gpudirecttcpx_v7`.
const VERSIONED_NET_PREFIXES: [&str; 3] = ["ibext", "ucx", "gpudirecttcpx"];

/// What names any other plugin, by what it prints: `plugin:mynet`.
const NET_PLUGIN_PREFIX: &str = "plugin:";

/// Whether a network may be called so.
fn is_network_name(value: &str) -> bool {
    let name = value
        .strip_prefix(NET_PLUGIN_PREFIX)
        .is_some_and(|name| !name.is_empty());
    name || KNOWN_NETWORKS.contains(&value)
        || VERSIONED_NET_PREFIXES
            .iter()
            .any(|start| value.starts_with(start))
}

/// Expectations with a number as value.
const NUMBER_FACTS: [&str; 15] = [
    "versions",
    "nodes",
    "ranks",
    "mismatch",
    "warn",
    "step_time_mean",
    "step_time_min",
    "step_time_p50",
    "step_time_p95",
    "step_time_max",
    "tflops_mean",
    "tflops_min",
    "tflops_p50",
    "tflops_p95",
    "tflops_max",
];

impl FromStr for Expectations {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let all: Vec<Expectation> = parts.map(parse_expectation).collect::<Result<_>>()?;
        if all.is_empty() {
            return Err(Error::Usage("--expect is empty".to_owned()));
        }
        Ok(Expectations(all))
    }
}

impl Expectations {
    /// All of several lists; `None` where there is no list.
    pub fn join_lists(lists: &[Expectations]) -> Option<Expectations> {
        let all: Vec<Expectation> = lists.iter().flat_map(|list| list.0.clone()).collect();
        (!all.is_empty()).then_some(Expectations(all))
    }
}

fn parse_expectation(text: &str) -> Result<Expectation> {
    let wrong = |why: String| Err(Error::Usage(format!("expectation \"{text}\": {why}")));
    let Some(at) = text.find(['<', '>', '=', '!']) else {
        return wrong("expected NAME=VALUE; the operators are = != < <= > >=".to_owned());
    };
    let (name, rest) = (text[..at].trim(), &text[at..]);
    let Some((op, value)) = COMPARATORS
        .iter()
        .find_map(|(word, op)| Some((*op, rest.strip_prefix(word)?.trim())))
    else {
        return wrong("expected =, !=, <, <=, > or >=".to_owned());
    };
    let done = |name, value: String, number| {
        Ok(Expectation {
            text: text.to_owned(),
            name,
            op,
            value,
            number,
        })
    };
    if let Some(&(name, values)) = WORD_FACTS.iter().find(|word| word.0 == name) {
        let value = value.to_ascii_lowercase();
        return match op {
            Comparator::Is | Comparator::IsNot if value.is_empty() => {
                wrong("the value is missing".to_owned())
            }
            Comparator::Is | Comparator::IsNot if values.contains(&value.as_str()) => {
                done(name, value, None)
            }
            Comparator::Is | Comparator::IsNot if name == "net" && is_network_name(&value) => {
                done(name, value, None)
            }
            Comparator::Is | Comparator::IsNot => {
                let or = match name {
                    "net" => ", or plugin:NAME for the name of another plugin",
                    _ => "",
                };
                wrong(format!("{name} must be one of {}{or}", values.join(", ")))
            }
            _ => wrong(format!("{name} is a word: = or !=")),
        };
    }
    if let Some(&name) = NUMBER_FACTS.iter().find(|known| **known == name) {
        return match value.parse::<f64>() {
            Ok(number) if number.is_finite() => done(name, value.to_owned(), Some(number)),
            _ => wrong(format!("{name} is a number")),
        };
    }
    let words = WORD_FACTS.iter().map(|word| word.0);
    let known: Vec<&str> = words.chain(NUMBER_FACTS).collect();
    wrong(format!(
        "unknown name; expected one of {}",
        known.join(", ")
    ))
}

/// What became of an expectation. The worst comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpectVerdict {
    /// The log reports it.
    Met,
    /// The log does not show it.
    Unanswerable,
    /// The log shows something else.
    Violated,
}

impl ExpectVerdict {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            ExpectVerdict::Met => "met",
            ExpectVerdict::Unanswerable => "unanswerable",
            ExpectVerdict::Violated => "violated",
        }
    }

    /// The worst of all.
    pub fn worst_of(answers: &[ExpectAnswer]) -> ExpectVerdict {
        let worst = answers.iter().map(|answer| answer.verdict).max();
        worst.unwrap_or(ExpectVerdict::Met)
    }

    /// The program's exit code: 0 met, 1 violated, 3 not answerable from this log.
    pub fn exit_code(self) -> u8 {
        match self {
            ExpectVerdict::Met => 0,
            ExpectVerdict::Violated => 1,
            ExpectVerdict::Unanswerable => 3,
        }
    }
}

/// An expectation with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectAnswer {
    /// As given.
    pub expectation: String,
    /// The value in the log.
    pub found: Option<String>,
    /// What became of it.
    pub verdict: ExpectVerdict,
    /// Why.
    pub why: String,
}

/// An answer for each expectation, in order.
pub fn answer_all(expect: &Expectations, facts: &LogFacts) -> Vec<ExpectAnswer> {
    expect
        .0
        .iter()
        .map(|of| answer_expectation(of, facts))
        .collect()
}

/// Returns the value in the log, and whether it is the expected one; `None` if that is unknown.
type FactMatch = (Option<String>, Option<bool>, &'static str);

fn answer_expectation(of: &Expectation, facts: &LogFacts) -> ExpectAnswer {
    let (found, is, why) = match (of.name, of.number) {
        ("net", _) => match_network(&of.value, facts),
        ("gdr", _) => match_gdr(&of.value, facts),
        ("nvls", _) => match_nvls(&of.value, facts),
        ("pxn", _) => match_pxn(&of.value, facts),
        (name, Some(number)) => match_number(name, of.op, number, facts),
        (_, None) => (None, None, "it is not a number"),
    };
    // Numbers are already compared.
    let is = match (of.op, of.number) {
        (Comparator::IsNot, None) => is.map(|is| !is),
        _ => is,
    };
    let verdict = match is {
        Some(true) => ExpectVerdict::Met,
        Some(false) => ExpectVerdict::Violated,
        None => ExpectVerdict::Unanswerable,
    };
    ExpectAnswer {
        expectation: of.text.clone(),
        why: match (verdict, &found) {
            (ExpectVerdict::Unanswerable, _) | (_, None) => match &facts.unjudged {
                // The log's own reason: the settings of the advice may be set already.
                Some(why) if of.name == "mismatch" => why.clone(),
                _ => why.to_owned(),
            },
            (_, Some(found)) => format!("the log reports {found}"),
        },
        found,
        verdict,
    }
}

fn join_words(words: &BTreeSet<String>) -> String {
    words.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// `ib` is NCCL's network over verbs, its own or a plugin's, be the NICs InfiniBand or RoCE;
/// `infiniband` and `roce` ask for the NICs too.
fn match_network(value: &str, facts: &LogFacts) -> FactMatch {
    let Some(networks) = &facts.networks else {
        return (
            None,
            None,
            "no line names the network: NCCL_DEBUG_SUBSYS=INIT,NET",
        );
    };
    let all = |is: &dyn Fn(&str) -> bool| networks.iter().all(|net| is(&net.to_ascii_lowercase()));
    let ib = all(&|net| net == "ib" || net.starts_with("ibext"));
    let link = |link: &str| match &facts.links {
        _ if !ib => Some(false),
        None => None,
        Some(links) => Some(links.iter().all(|l| l == link)),
    };
    let found = match &facts.links {
        Some(links) if ib => {
            let links = join_words(links).replace("IB", "InfiniBand");
            format!("{} over {links}", join_words(networks))
        }
        _ => join_words(networks),
    };
    let is = match value {
        "ib" => Some(ib),
        "infiniband" => link("IB"),
        "roce" => link("RoCE"),
        "ibext" | "ucx" | "gpudirecttcpx" => Some(all(&|net| net.starts_with(value))),
        other => {
            let name = other.strip_prefix(NET_PLUGIN_PREFIX).unwrap_or(other);
            Some(all(&|net| net == name))
        }
    };
    (
        Some(found),
        is,
        "no line lists the NICs: NCCL_DEBUG_SUBSYS=INIT,NET",
    )
}

fn match_gdr(value: &str, facts: &LogFacts) -> FactMatch {
    let why = "no line reports a connection: NCCL_DEBUG_SUBSYS=INIT,NET,P2P";
    let Some(found) = &facts.gdr else {
        return (None, None, why);
    };
    let word = match found.as_str() {
        "on" => "on",
        "off" => "off",
        part if part.starts_with("on for ") => "mixed",
        _ => {
            return (
                Some(found.clone()),
                None,
                "the job has no network connections",
            );
        }
    };
    (Some(found.clone()), Some(word == value), why)
}

fn match_nvls(value: &str, facts: &LogFacts) -> FactMatch {
    let why = "no line reports it: NCCL_DEBUG_SUBSYS=INIT,NVLS,TUNING";
    let Some(found) = &facts.nvls else {
        return (None, None, why);
    };
    // How far it goes, at least and at most: 0 not available, 1 available, 2 created, 3 used.
    let (least, most) = match found.as_str() {
        "used" => (3, 3),
        text if text.starts_with("created; its use") => (2, 3),
        text if text.starts_with("created") => (2, 2),
        text if text.starts_with("available on some") => (0, 0),
        text if text.starts_with("available") => (1, 1),
        _ => (0, 0),
    };
    let asked = match value {
        "used" => 3,
        "created" => 2,
        "available" => 1,
        // Nothing was made for it.
        _ => return (Some(found.clone()), Some(most < 2), why),
    };
    let is = match (least >= asked, most >= asked) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    };
    let why =
        "only TUNING lines report the algorithm of a call: NCCL_DEBUG_SUBSYS=INIT,NVLS,TUNING";
    (Some(found.clone()), is, why)
}

fn match_pxn(value: &str, facts: &LogFacts) -> FactMatch {
    let Some(found) = &facts.pxn else {
        let why = "no line reports a connection: NCCL_DEBUG_SUBSYS=INIT,NET,P2P";
        return (None, None, why);
    };
    let is = match found.as_str() {
        "used" => Some(value == "used"),
        "not used" => Some(value != "used"),
        _ => None,
    };
    (
        Some(found.clone()),
        is,
        "the job has no network connections",
    )
}

fn match_number(name: &str, op: Comparator, number: f64, facts: &LogFacts) -> FactMatch {
    let count = |n: Option<u64>| n.map(|n| n as f64);
    let (found, why) = match name {
        "versions" => (count(facts.versions), "no line names NCCL's version"),
        "nodes" => (count(facts.nodes), "no line names a host"),
        "ranks" => (
            count(facts.ranks),
            "no INIT line names a communicator: NCCL_DEBUG_SUBSYS=INIT",
        ),
        "mismatch" => (
            count(facts.mismatch),
            "the calls of the ranks cannot be compared: NCCL_DEBUG_SUBSYS=INIT,COLL on all ranks",
        ),
        "warn" => (count(facts.warn), "the log has no line of NCCL"),
        other => {
            let (spread, stat, why) = match other.strip_prefix("step_time_") {
                Some(stat) => (
                    facts.step_time,
                    stat,
                    "no step line reports the time of a step",
                ),
                None => {
                    let stat = other.strip_prefix("tflops_").unwrap_or_default();
                    (facts.tflops, stat, "no step line reports TFLOP/s per GPU")
                }
            };
            let value = spread.map(|spread| match stat {
                "mean" => spread.mean,
                "min" => spread.min,
                "p50" => spread.p50,
                "p95" => spread.p95,
                _ => spread.max,
            });
            (value, why)
        }
    };
    let Some(found) = found else {
        return (None, None, why);
    };
    let is = match op {
        Comparator::Is => found == number,
        Comparator::IsNot => found != number,
        Comparator::Below => found < number,
        Comparator::AtMost => found <= number,
        Comparator::Above => found > number,
        Comparator::AtLeast => found >= number,
    };
    // More versions than were seen there may be, fewer not.
    if name == "versions" && facts.versions_unsaid > 0 {
        let sure = match op {
            Comparator::Is | Comparator::AtMost => (found > number).then_some(false),
            Comparator::Below => (found >= number).then_some(false),
            Comparator::IsNot => (found > number).then_some(true),
            Comparator::Above | Comparator::AtLeast => is.then_some(true),
        };
        let why =
            "not every host prints its version: NCCL_DEBUG=INFO on all ranks, NCCL 2.22 or later";
        return (Some(found.to_string()), sure, why);
    }
    (Some(found.to_string()), Some(is), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::spread::ValueSpread;

    #[test]
    fn why_mismatches_are_not_known_is_what_the_log_shows() {
        let why = |facts: &LogFacts| {
            answer_all(&"mismatch=0".parse().unwrap(), facts)[0]
                .why
                .clone()
        };
        assert!(why(&LogFacts::default()).contains("NCCL_DEBUG_SUBSYS=INIT,COLL"));
        let unjudged = Some("of 1 communicator: Ray omitted lines".to_owned());
        let facts = LogFacts {
            unjudged: unjudged.clone(),
            ..LogFacts::default()
        };
        assert_eq!(Some(why(&facts)), unjudged);
    }

    fn facts() -> LogFacts {
        let words = |list: &[&str]| Some(list.iter().map(|w| (*w).to_owned()).collect());
        LogFacts {
            networks: words(&["IBext_v10"]),
            links: words(&["RoCE"]),
            gdr: Some("on for 3 of 4 network connections".to_owned()),
            nvls: Some("created; its use is unknown".to_owned()),
            pxn: Some("not used".to_owned()),
            versions: Some(1),
            nodes: Some(16),
            mismatch: Some(0),
            step_time: ValueSpread::from_values([&[5.0][..], &[6.0; 17], &[6.5, 7.25]].concat()),
            ..LogFacts::default()
        }
    }

    /// The verdicts' first letters.
    fn verdicts(expect: &str, facts: &LogFacts) -> String {
        let all = answer_all(&expect.parse().unwrap(), facts);
        all.iter()
            .filter_map(|a| a.verdict.name().chars().next())
            .collect()
    }

    #[test]
    fn each_is_met_violated_or_not_answerable() {
        let f = facts();
        let cases = [
            (
                "net=ib, net=IB,net=roce,net=infiniband,net=socket,net!=socket",
                "mmmvvm",
            ),
            ("gdr=on,gdr=mixed,gdr!=off,gdr=off", "vmmv"),
            ("nvls=used,nvls=created,nvls=available,nvls=off", "ummv"),
            ("pxn=used,pxn=off", "vm"),
            (
                "versions=1,versions<2,versions!=1,nodes=16,nodes>=17",
                "mmvmv",
            ),
            ("ranks=128,mismatch=0,warn=0", "umu"),
            (
                "step_time_p95<6.5,step_time_p95<=6.5,step_time_max>7,tflops_mean>400",
                "vmmu",
            ),
        ];
        for (expect, want) in cases {
            assert_eq!(verdicts(expect, &f), want, "{expect}");
        }
        let all = answer_all(&"step_time_max<7,ranks=8".parse().unwrap(), &f);
        assert_eq!(all[0].found.as_deref(), Some("7.25"));
        assert_eq!(
            (
                ExpectVerdict::worst_of(&all),
                ExpectVerdict::worst_of(&all).exit_code()
            ),
            (ExpectVerdict::Violated, 1)
        );
        assert_eq!(ExpectVerdict::worst_of(&all[1..]).exit_code(), 3);
    }

    #[test]
    fn versions_that_a_host_does_not_say_may_be_more() {
        let f = LogFacts {
            versions_unsaid: 3,
            ..facts()
        };
        let expect = "versions=1,versions<1,versions>=1,versions!=2,versions<=2";
        assert_eq!(verdicts(expect, &f), "uvmuu");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let wrong = |text: &str| text.parse::<Expectations>().unwrap_err().to_string();
        assert!(
            wrong("colour=red")
                .contains("unknown name; expected one of net, gdr, nvls, pxn, versions")
        );
        assert!(wrong("gdr=maybe").contains("gdr must be one of on, off, mixed"));
        assert!(
            wrong("net=foobar").contains("net must be one of ib, infiniband, roce, socket, efa")
        );
        for net in ["efa", "IBext_v10", "ucx-rma", "plugin:foobar"] {
            assert!(
                format!("net={net}").parse::<Expectations>().is_ok(),
                "{net}"
            );
        }
        assert!(wrong("net<ib").contains("net is a word"));
        assert!(wrong("nodes=many").contains("nodes is a number"));
        assert!(wrong("nodes=nan").contains("nodes is a number"));
        assert!(wrong("nodes").contains("expected NAME=VALUE"));
        assert!(wrong(" , ").contains("--expect is empty"));
        assert!(wrong("nodes!16").contains("expected ="));
        let lists: Vec<Expectations> = ["nodes=16", "net=ib,warn=0"]
            .map(|list| list.parse().unwrap())
            .into();
        assert_eq!(
            answer_all(&Expectations::join_lists(&lists).unwrap(), &facts()).len(),
            3
        );
        assert_eq!(Expectations::join_lists(&[]), None);
        assert!("net=ib,gdr=on,nvls=used,versions=1,nodes=16,ranks=128,mismatch=0,warn=0,step_time_p95<6.5"
            .parse::<Expectations>()
            .is_ok());
    }
}
