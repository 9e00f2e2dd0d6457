//! Made logs whose truth is known: what the programs print is what was written.

use crate::support::{Account, Csv, Work, arg, count_lines, run, run_in};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A made log with its truth.
struct Made {
    work: Work,
    truth: Value,
    options: String,
}

type Sums = BTreeMap<String, (u128, u128)>;

/// A number of the truth; those that may be large are strings.
fn number(value: &Value) -> u128 {
    match value {
        Value::String(text) => text.parse().unwrap(),
        Value::Null => 0,
        number => number.as_u64().unwrap().into(),
    }
}

/// What to call a row of the truth: its fields, joined.
fn name(row: &Value, fields: &[&str]) -> String {
    let text = |f: &&str| match &row[*f] {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    fields.iter().map(text).collect::<Vec<_>>().join(" ")
}

impl Made {
    fn new(options: &str) -> Made {
        let work = Work::new();
        let per_rank = options.contains("per-rank");
        let to = if per_rank { "logs" } else { "logs/job.log" };
        std::fs::create_dir(work.dir().join("logs")).unwrap();
        let mut args: Vec<&str> = options.split_whitespace().collect();
        args.extend(["-o", to, "--truth", "truth.json"]);
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
        Made {
            work,
            truth: serde_json::from_slice(&truth).unwrap(),
            options: options.to_owned(),
        }
    }

    fn run(&self, program: &str, args: &[&str]) -> crate::support::Out {
        run_in(self.work.dir(), program, &[&["logs"], args].concat())
    }

    fn of(&self, field: &str) -> u128 {
        number(&self.truth[field])
    }

    /// Calls that may be joined, and those of which only the end of the stream is missing.
    fn slack(&self) -> (u128, u128) {
        let joinable = self.truth["joinable"].as_object().unwrap();
        let joinable = joinable.values().map(number).sum();
        (joinable, number(&self.truth["lost"]["in_stream_only"]))
    }

    /// Calls whose stream runs on into the digits of a host that was written behind it: where the one
    /// ends and the other begins, the bytes do not say.
    fn run_on(&self) -> u128 {
        if !self.truth["damage"]
            .as_object()
            .unwrap()
            .contains_key("overwritten")
        {
            return 0;
        }
        let runs = regex::bytes::Regex::new(" stream 0x[0-9a-f]{13,}[0-9a-z-]*:[0-9]+:").unwrap();
        let files = crate::support::files(&self.work.dir().join("logs"));
        let texts = files.iter().map(|path| std::fs::read(path).unwrap());
        texts
            .map(|text| runs.find_iter(&text).count() as u128)
            .sum()
    }

    /// Compares calls and bytes by name. `missing` calls may be absent in all, and `more` too
    /// many: what could not be joined, and what looks whole.
    fn same(&self, what: &str, got: &Sums, truth: &Sums, missing: u128, more: u128) -> Vec<String> {
        let mut wrong = Vec::new();
        let none = (0, 0);
        let (mut less, mut beyond) = (0, 0);
        for key in truth
            .keys()
            .chain(got.keys().filter(|k| !truth.contains_key(*k)))
        {
            let (g, t) = (
                got.get(key).unwrap_or(&none),
                truth.get(key).unwrap_or(&none),
            );
            less += t.0.saturating_sub(g.0);
            beyond += g.0.saturating_sub(t.0);
            let exact = missing == 0 && more == 0;
            let other = (missing == 0 || more == 0) && g.0 == t.0 && g.1 != t.1;
            if (exact && g != t) || other {
                wrong.push(format!("{}: {what} {key}: {g:?}, not {t:?}", self.options));
            }
        }
        if less > missing || beyond > more {
            let seen = format!("{less} of {missing} missing, {beyond} of {more} too many");
            wrong.push(format!("{}: {what}: {seen}", self.options));
        }
        wrong
    }

    /// All that the programs get wrong about this log.
    fn wrong(&self) -> Vec<String> {
        let (joinable, in_stream) = self.slack();
        let comms = self.run("nccl-comms", &["-v"]);
        if comms.is_wild() || comms.code == Some(2) {
            return vec![format!(
                "{}: {:?} {}",
                self.options, comms.code, comms.stderr
            )];
        }
        let table = Csv::of(&comms);
        let found = table.rows.len() as u128;
        let mut wrong = self.accounted(&comms, found);
        let whole = self.of("intact_calls");
        let lost = number(&self.truth["lost"]["calls"]);
        assert_eq!(
            whole + lost + joinable,
            self.of("calls"),
            "{}",
            self.options
        );
        let run_on = self.run_on();
        if found + run_on < whole || found > whole + joinable + in_stream {
            let seen = format!("{found} calls, {whole} + {joinable} + {in_stream} possible");
            wrong.push(format!("{}: {seen}", self.options));
        }
        let missing = (whole + joinable).saturating_sub(found);
        let missing = if in_stream > 0 { joinable } else { missing } + run_on;
        let truths = &self.truth;
        let sums = |out: &crate::support::Out, key: &[&str], bytes: &str| -> Sums {
            let table = Csv::of(out);
            let mut sums = Sums::new();
            for row in &table.rows {
                let key: Vec<&str> = key.iter().map(|k| table.get(row, k)).collect();
                let sum = sums.entry(key.join(" ")).or_default();
                sum.0 += table.get(row, "calls").parse::<u128>().unwrap();
                sum.1 += table.get(row, bytes).parse::<u128>().unwrap_or(0);
            }
            sums
        };
        let rows = |rows: &Value, key: &[&str]| -> Sums {
            let mut sums = Sums::new();
            for row in rows.as_array().unwrap() {
                let sum = sums.entry(name(row, key)).or_default();
                sum.0 += number(&row["calls"]);
                sum.1 += number(&row["bytes"]);
            }
            sums
        };
        // By operation.
        let ops = self.run("nccl-ops", &[]);
        let of_ops: Sums = truths["ops"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(op, row)| (op.clone(), (number(&row["calls"]), number(&row["bytes"]))))
            .collect();
        let got = sums(&ops, &["op"], "total_bytes");
        wrong.extend(self.same("nccl-ops", &got, &of_ops, missing, in_stream));
        if missing == 0 && in_stream == 0 {
            let table = Csv::of(&ops);
            for row in &table.rows {
                let truth = &truths["ops"][table.get(row, "op")];
                for column in ["min_bytes", "max_bytes"] {
                    if table.get(row, column) != number(&truth[column]).to_string() {
                        wrong.push(format!("{}: {column} of {row:?}", self.options));
                    }
                }
            }
        }
        // By size.
        let hist = self.run("nccl-hist", &[]);
        let key = ["op", "bucket"];
        let got = sums(&hist, &key, "total_bytes");
        let truth = rows(&truths["buckets"], &key);
        wrong.extend(self.same("nccl-hist", &got, &truth, missing, in_stream));
        // Equal calls.
        let agg = self.run("nccl-agg", &[]);
        let key = ["op", "count", "datatype"];
        let got: Sums = sums(&agg, &key, "bytes")
            .into_iter()
            .map(|(k, v)| (k, (v.0, 0)))
            .collect();
        let truth = rows(&truths["cells"], &key)
            .into_iter()
            .map(|(k, v)| (k, (v.0, 0)))
            .collect();
        wrong.extend(self.same("nccl-agg", &got, &truth, missing, in_stream));
        wrong.extend(self.communicators(&table, missing, in_stream));
        // Step lines overtake what buffers hold back.
        if !self.options.contains("--layout blocks") {
            wrong.extend(self.steps(missing));
        }
        wrong
    }

    /// Every line is in the account, and what was not damaged is not called so.
    fn accounted(&self, comms: &crate::support::Out, found: u128) -> Vec<String> {
        let mut wrong = Vec::new();
        let account = Account::of(comms);
        let mut lines = 0;
        let mut files = 0;
        for path in crate::support::files(&self.work.dir().join("logs")) {
            lines += count_lines(&std::fs::read(path).unwrap());
            files += 1;
        }
        let mut expect = |what: &str, got: u128, want: u128| {
            if got != want {
                wrong.push(format!("{}: {what}: {got}, not {want}", self.options));
            }
        };
        // Where a launcher's tags cut lines, the joined ones are counted.
        if !self.options.contains("glued-cut=0.1 --prefix mpirun") {
            expect("lines", account.lines.into(), lines.into());
        }
        expect("calls", account.calls.into(), found);
        let (joinable, _) = self.slack();
        let lost = number(&self.truth["lost"]["calls"]);
        let damage = self.truth["damage"].as_object().unwrap();
        let harmless = ["crlf", "glued"];
        let is_blocks = self.options.contains("--layout blocks");
        if is_blocks {
            expect("damaged", account.damaged.into(), 0);
            expect("code", comms.code.unwrap() as u128, 0);
            expect("lines are joined", u128::from(account.repaired > 0), 1);
            return wrong;
        }
        if damage.keys().all(|k| harmless.contains(&k.as_str())) {
            expect("damaged", account.damaged.into(), 0);
            expect("repaired", account.repaired.into(), 0);
            expect("code", comms.code.unwrap() as u128, 0);
        }
        if damage.is_empty() && self.of("lines") == u128::from(lines) {
            let records = &self.truth["records"];
            let of = |name: &str| number(&records[name]);
            expect("call lines", account.call_lines.into(), of("coll"));
            let other = of("call") + of("other");
            expect("other lines", account.other.into(), other);
            if of("behind_a_bar") == 0 && files == 1 {
                let foreign = of("step") + of("foreign");
                expect("foreign lines", account.foreign.into(), foreign);
            }
        }
        if lost > 0 && !damage.contains_key("overwritten") {
            // Each lost call leaves at least a part of itself on some line.
            let least = u128::from(account.damaged) * 2 >= lost;
            expect("lost calls are counted", u128::from(least), 1);
            expect("code", comms.code.unwrap() as u128, 1);
        }
        // A line may be overwritten at byte 128, and then looks torn.
        if joinable == 0 && !damage.contains_key("overwritten") {
            expect("repaired", account.repaired.into(), 0);
        }
        wrong
    }

    /// Calls by communicator, with each member's rank and the shared id.
    fn communicators(&self, table: &Csv, missing: u128, more: u128) -> Vec<String> {
        if self.options.contains("orphan") {
            // A body without a header does not say who speaks.
            return Vec::new();
        }
        let mut wrong = Vec::new();
        let mut members: BTreeMap<String, (usize, String, String)> = BTreeMap::new();
        let mut truth = Sums::new();
        for (i, comm) in self.truth["communicators"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            for member in comm["members"].as_array().unwrap() {
                let key = name(member, &["host", "pid", "comm"]);
                let value = (i, name(member, &["rank"]), name(comm, &["comm_id"]));
                if members.insert(key.clone(), value).is_some() {
                    panic!("{}: {key} is in two communicators", self.options);
                }
            }
            truth.insert(
                i.to_string(),
                (number(&comm["calls"]), number(&comm["bytes"])),
            );
        }
        truth.retain(|_, sum| sum.0 > 0);
        let mut got = Sums::new();
        let (mut ranks, mut ids) = (0, 0);
        for row in &table.rows {
            let get = |column| table.get(row, column);
            let key = format!("{} {} {}", get("host"), get("pid"), get("comm"));
            let Some((comm, rank, id)) = members.get(&key) else {
                wrong.push(format!("{}: nobody is {key}", self.options));
                continue;
            };
            let sum = got.entry(comm.to_string()).or_default();
            sum.0 += 1;
            sum.1 += get("bytes").parse::<u128>().unwrap();
            ranks += usize::from(!get("rank").is_empty());
            ids += usize::from(!get("comm_id").is_empty());
            if !get("rank").is_empty() && get("rank") != rank {
                wrong.push(format!("{}: rank of {key}: {}", self.options, get("rank")));
            }
            if !get("comm_id").is_empty() && get("comm_id") != id {
                wrong.push(format!("{}: id of {key}: {}", self.options, get("comm_id")));
            }
        }
        wrong.extend(self.same("communicator", &got, &truth, missing, more));
        let damaged = !self.truth["damage"].as_object().unwrap().is_empty();
        let known = !self.options.contains("--no-init");
        if !damaged && known && ranks != table.rows.len() {
            wrong.push(format!(
                "{}: rank in {ranks} of {}",
                self.options,
                table.rows.len()
            ));
        }
        if !known && ranks + ids > 0 {
            wrong.push(format!("{}: ranks or ids from nowhere", self.options));
        }
        wrong.truncate(5);
        wrong
    }

    /// Steps with their calls, times and speeds.
    fn steps(&self, missing: u128) -> Vec<String> {
        let mut wrong = Vec::new();
        let truth = self.truth["steps"].as_array().unwrap();
        let list = self.run("nccl-steps", &["--list"]);
        if truth.is_empty() {
            if list.code != Some(2) {
                wrong.push(format!("{}: steps from nowhere", self.options));
            }
            return wrong;
        }
        if list.is_wild() || list.code == Some(2) {
            return vec![format!("{}: {}", self.options, list.stderr)];
        }
        let per_rank = self.options.contains("per-rank");
        let table = Csv::of(&list);
        let mut seen: Vec<(String, (u128, u128), String)> = Vec::new();
        let (mut between, mut after) = ((0, 0), (0, 0));
        for row in &table.rows {
            let get = |column| table.get(row, column);
            let sum = (
                get("calls").parse::<u128>().unwrap(),
                get("total_bytes").parse::<u128>().unwrap(),
            );
            let add = |to: &mut (u128, u128)| *to = (to.0 + sum.0, to.1 + sum.1);
            match get("step") {
                "between" => add(&mut between),
                "after" => add(&mut after),
                "" | "before" => {}
                step => {
                    let key = format!("{}:{step} x{}", get("segment"), get("steps"));
                    let values = format!("{} {}", get("time_s"), get("tflops_per_gpu"));
                    // Each rank's file has its row; the step line is in one.
                    match seen.iter_mut().find(|of| per_rank && of.0 == key) {
                        Some(of) => {
                            add(&mut of.1);
                            if of.2 == " " {
                                of.2 = values;
                            }
                        }
                        None => seen.push((key, sum, values)),
                    }
                }
            }
        }
        if seen.len() != truth.len() {
            let count = format!("{} steps, not {}", seen.len(), truth.len());
            wrong.push(format!("{}: {count}", self.options));
        }
        let shown = |v: &Value| v.as_f64().map_or(String::new(), |x| x.to_string());
        let close = |a: &str, b: &str| {
            // A time from stamps of milliseconds may differ in the last bits.
            a == b
                || a.split(' ').zip(b.split(' ')).all(|(x, y)| {
                    x == y
                        || matches!((x.parse::<f64>(), y.parse::<f64>()),
                        (Ok(x), Ok(y)) if (x - y).abs() < 0.0015)
                })
        };
        let timing = self.run("nccl-timing", &["--per-step"]);
        let said_whence = timing
            .stderr
            .contains("these step lines print no step time");
        let mut less = 0;
        // What an attempt left without a step line is after its last one.
        let mut unfinished = (0, 0);
        for stretch in self.truth["between_stretches"].as_array().unwrap() {
            if stretch["what"] == "unfinished" {
                let sum = (number(&stretch["calls"]), number(&stretch["bytes"]));
                unfinished = (unfinished.0 + sum.0, unfinished.1 + sum.1);
            }
        }
        let mut segments = BTreeSet::new();
        for ((key, sum, values), step) in seen.iter().zip(truth) {
            let want = format!("{}:{} x{}", step["segment"], step["step"], step["steps"]);
            // How many steps the first line after a restart is of, no line shows.
            let is_first = segments.insert(step["segment"].as_u64().unwrap());
            let begins_again = is_first && unfinished.0 > 0;
            if *key != want && !begins_again {
                wrong.push(format!("{}: step {key}, not {want}", self.options));
            }
            let calls = (number(&step["calls"]), number(&step["bytes"]));
            less += calls.0.saturating_sub(sum.0);
            // Where calls are lost, files without step lines have no steps.
            let apart = per_rank && self.options.contains("--damage");
            if missing == 0 && !apart && *sum != calls || !per_rank && sum.0 > calls.0 {
                wrong.push(format!("{}: {key}: {sum:?}, not {calls:?}", self.options));
            }
            let said = format!("{} {}", shown(&step["time_s"]), shown(&step["tflops"]));
            // Without a printed time, that of the lines' stamps or clocks will do if it is said.
            let stamped = step["time_s"].is_null()
                && said_whence
                && values.split(' ').nth(1) == said.split(' ').nth(1);
            if !close(values, &said) && !stamped {
                wrong.push(format!("{}: {key}: `{values}`, not `{said}`", self.options));
            }
        }
        if !per_rank {
            for (what, sum) in [("between", between), ("after", after)] {
                let truth = &self.truth[what];
                let mut truth = (number(&truth["calls"]), number(&truth["bytes"]));
                truth = match what {
                    "between" => (truth.0 - unfinished.0, truth.1 - unfinished.1),
                    _ => (truth.0 + unfinished.0, truth.1 + unfinished.1),
                };
                less += truth.0.saturating_sub(sum.0);
                if missing == 0 && sum != truth || sum.0 > truth.0 {
                    wrong.push(format!("{}: {what}: {sum:?}, not {truth:?}", self.options));
                }
            }
            if less > missing {
                wrong.push(format!("{}: {less} missing in steps", self.options));
            }
        }
        wrong.truncate(6);
        wrong
    }
}

/// Fails with all that is wrong about the logs of `options`.
#[track_caller]
fn true_for(options: &[&str]) {
    let wrong: Vec<String> = options.iter().flat_map(|o| Made::new(o).wrong()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_truth_of_every_trainer_is_found() {
    true_for(&[
        "--ranks 4 --steps 6 --layers 2 --trainer nemo2",
        "--ranks 4 --steps 6 --layers 2 --trainer nemo1",
        "--ranks 4 --steps 6 --layers 2 --trainer megatron",
        "--ranks 4 --steps 6 --layers 2 --trainer megatron-bridge",
        "--ranks 4 --steps 6 --layers 2 --trainer megatron-deepspeed",
        "--ranks 4 --steps 6 --layers 2 --trainer gpt-neox",
        "--ranks 4 --steps 6 --layers 2 --trainer deepspeed",
        "--ranks 4 --steps 6 --layers 2 --trainer torchtitan",
        "--ranks 4 --steps 6 --layers 2 --trainer maxtext",
        "--ranks 4 --steps 6 --layers 2 --trainer nanotron",
        "--ranks 4 --steps 6 --layers 2 --trainer hf",
        "--ranks 4 --steps 6 --layers 2 --trainer none",
        "--ranks 4 --steps 6 --layers 2 --trainer torchtitan --every-rank",
        "--ranks 4 --steps 6 --layers 2 --trainer maxtext --every-rank",
    ]);
}

#[test]
fn the_truth_of_every_version_is_found() {
    true_for(&[
        "--ranks 4 --steps 3 --layers 2 --nccl 2.4 --seed 2",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.7 --pp 2 --seed 3",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.12 --trace",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.16",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.18 --timestamps iso",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.20",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.21",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.22",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.23",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.24",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.27 --nodes 2",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.28 --ep 2",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.29",
        "--ranks 4 --steps 3 --layers 2 --nccl 2.30 --trace",
        "--ranks 4 --steps 3 --layers 2 --nccl rccl-2.22",
        "--ranks 4 --steps 3 --layers 2 --nccl rccl-2.27",
    ]);
}

#[test]
fn the_truth_behind_every_prefix_and_stamp_is_found() {
    true_for(&[
        "--ranks 4 --steps 3 --layers 2 --prefix srun --host-style digits",
        "--ranks 4 --steps 3 --layers 2 --prefix mpirun --host-style dashes",
        "--ranks 4 --steps 3 --layers 2 --prefix torchrun --trainer torchtitan",
        "--ranks 4 --steps 3 --layers 2 --prefix ray",
        "--ranks 4 --steps 3 --layers 2 --prefix hydra --host-style dots",
        "--ranks 4 --steps 3 --layers 2 --prefix cloudwatch --trainer megatron",
        "--ranks 4 --steps 3 --layers 2 --prefix kubectl --trainer nanotron",
        "--ranks 4 --steps 3 --layers 2 --timestamps default --host-style digits",
        "--ranks 4 --steps 3 --layers 2 --timestamps time --prefix srun",
        "--ranks 4 --steps 3 --layers 2 --timestamps epoch --prefix mpirun",
        "--ranks 4 --steps 3 --layers 2 --timestamps iso --trace --trainer hf",
        "--ranks 4 --steps 3 --layers 2 --prefix srun --trainer nemo1",
        "--ranks 4 --steps 3 --layers 2 --prefix kubectl --trainer hf",
    ]);
}

#[test]
fn the_truth_of_a_log_written_in_blocks_is_found() {
    true_for(&[
        "--layout blocks --ranks 4 --steps 8",
        "--layout blocks --ranks 4 --steps 8 --trainer hf",
        "--layout blocks --ranks 4 --steps 8 --trainer megatron --timestamps default",
        "--layout blocks --ranks 8 --nodes 2 --steps 6 --nccl 2.30 --trainer torchtitan",
        "--layout blocks --ranks 8 --nodes 4 --host-style digits --steps 6 --trace",
        "--layout blocks --ranks 4 --steps 12 --restart-at 8 --trainer nanotron",
    ]);
}

#[test]
fn the_truth_of_every_shape_of_a_job_is_found() {
    true_for(&[
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --steps 4",
        "--ranks 16 --nodes 4 --tp 2 --pp 2 --ep 2 --steps 3 --zero-counts",
        "--ranks 8 --tp 1 --ep 8 --steps 3 --nccl 2.22 --zero-counts",
        "--ranks 8 --steps 3 --no-init",
        "--ranks 8 --nodes 2 --steps 5 --layout per-rank",
        "--ranks 8 --nodes 2 --steps 5 --layout per-rank --trainer megatron --prefix srun",
        "--ranks 4 --steps 12 --restart-at 8",
        "--ranks 4 --steps 12 --restart-at 8 --trainer megatron --eval-every 3",
        "--ranks 4 --steps 12 --restart-at 8 --trainer maxtext",
        "--ranks 4 --steps 12 --restart-at 8 --trainer hf",
        "--ranks 4 --steps 12 --eval-every 4 --tail-calls",
        "--ranks 4 --steps 12 --eval-every 4 --tail-calls --trainer nemo1",
        "--ranks 4 --steps 12 --eval-every 4 --trainer hf",
        "--ranks 4 --steps 30 --log-interval 10 --trainer megatron",
        "--ranks 4 --steps 30 --log-interval 10 --trainer torchtitan",
        "--ranks 4 --steps 20 --log-interval 5 --restart-at 14 --trainer gpt-neox",
        "--ranks 4 --steps 12 --epoch-steps 5",
        "--ranks 4 --steps 5 --first-step 4500",
        "--ranks 4 --steps 5 --first-step 4500 --trainer maxtext",
    ]);
}

#[test]
fn what_was_damaged_is_repaired_or_counted_and_nothing_else_is_lost() {
    true_for(&[
        "--ranks 4 --steps 6 --nccl 2.29 --damage torn=0.05",
        "--ranks 8 --steps 6 --nccl 2.30 --damage torn=0.3 --trainer megatron",
        "--ranks 8 --steps 6 --nccl 2.29 --damage torn=0.1 --no-init",
        "--ranks 4 --steps 6 --damage spliced=1",
        "--ranks 4 --steps 6 --damage spliced=0.5 --trainer megatron --prefix srun",
        "--ranks 4 --steps 6 --damage spliced=1 --trainer torchtitan",
        "--ranks 4 --steps 6 --damage spliced=1 --trainer nanotron",
        "--ranks 4 --steps 6 --damage cut=0.1",
        "--ranks 4 --steps 6 --damage cut=0.1 --layout per-rank",
        "--ranks 4 --steps 6 --damage glued=0.2",
        "--ranks 4 --steps 6 --damage glued=0.2 --prefix srun --host-style digits",
        "--ranks 16 --nodes 2 --steps 2 --damage glued=0.3",
        "--ranks 16 --nodes 4 --steps 2 --damage glued-cut=0.3 --host-style dashes",
        "--ranks 4 --steps 6 --damage glued-cut=0.1",
        "--ranks 4 --steps 6 --damage glued-cut=0.1 --prefix mpirun",
        "--ranks 64 --tp 8 --nodes 8 --layers 1 --steps 1 --nccl 2.22 --damage truncated=1",
        "--ranks 4 --steps 6 --damage crlf=1",
        "--ranks 4 --steps 6 --damage crlf=1 --trainer hf --eval-every 2",
        "--ranks 4 --steps 6 --damage overwritten=1",
        "--ranks 8 --nodes 2 --steps 6 --damage overwritten=1 --trainer none",
        "--ranks 4 --steps 6 --nccl 2.4 --damage orphan=0.1",
        "--ranks 4 --steps 6 --damage cut=0.03 --damage glued=0.03 --damage glued-cut=0.03",
        "--ranks 4 --steps 6 --nccl 2.29 --damage torn=0.03 --damage cut=0.03 --damage spliced=0.5",
    ]);
}

#[test]
fn the_truth_of_a_job_with_a_fault_is_found() {
    true_for(&[
        "--ranks 8 --steps 6 --fault die --prefix srun",
        "--ranks 8 --steps 6 --fault stall --trainer megatron --timestamps iso",
        "--ranks 8 --steps 8 --fault skip,comm=world,step=2 --seed 3",
        "--ranks 8 --pp 2 --steps 6 --fault recv --trainer maxtext",
        "--ranks 8 --steps 6 --fault order --layout per-rank",
        "--ranks 8 --steps 6 --fault count --damage cut=0.05 --trace",
        "--ranks 8 --steps 6 --fault skip --nccl 2.29 --damage torn=0.1",
        "--ranks 8 --steps 6 --fault redop --damage spliced=1 --eval-every 2",
        "--ranks 16 --nodes 2 --tp 4 --steps 3 --net ib --nvls --fault sockets",
        "--ranks 16 --nodes 2 --tp 4 --steps 3 --fault channels --layout blocks",
    ]);
}

#[test]
fn most_of_what_was_torn_is_joined() {
    for (options, share) in [
        ("--ranks 8 --steps 6 --nccl 2.29 --damage torn=0.05", 0.9),
        ("--ranks 4 --steps 10 --damage spliced=1", 0.9),
    ] {
        let made = Made::new(options);
        let (joinable, _) = made.slack();
        assert!(joinable > 0, "{options}");
        let out = made.run("nccl-comms", &["-v"]);
        let joined = u128::from(Account::of(&out).calls) - made.of("intact_calls");
        let got = joined as f64 / joinable as f64;
        assert!(got >= share, "{options}: {joined} of {joinable}");
    }
}

#[test]
fn a_shared_file_is_recognised_and_said() {
    let made = Made::new("--ranks 4 --steps 6 --damage overwritten=1");
    for program in ["nccl-hist", "nccl-comms", "nccl-steps"] {
        let out = made.run(program, &[]).calm();
        out.says(&["shared one NCCL_DEBUG_FILE", "not a missing call"]);
    }
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let work = Work::new();
    let make = |seed: &str, to: &str| {
        let args = ["--ranks", "4", "--steps", "3", "--seed", seed, "-o", to];
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        std::fs::read(work.dir().join(to)).unwrap()
    };
    let once = make("7", "a.log");
    assert!(once == make("7", "b.log"));
    assert!(once != make("8", "c.log"));
    let out = run(
        "nccl-synth",
        &["--ranks", "4", "--steps", "3", "--seed", "7"],
    )
    .ends(0);
    assert!(out.stdout == once);
}

#[test]
fn a_size_is_reached_and_the_truth_of_it_is_found() {
    let made = Made::new("--ranks 8 --size 3M --layers 2");
    let log = made.work.dir().join("logs/job.log");
    let size = Path::new(arg(&log)).metadata().unwrap().len();
    assert!((3 << 20..4 << 20).contains(&size) || (3_000_000..4_000_000).contains(&size));
    let wrong = made.wrong();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "a long sweep over seeds: SEEDS=1..50 cargo test --test it -- --ignored"]
fn the_truth_of_many_seeds_is_found() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..10".to_owned());
    let (from, to) = seeds.split_once("..").unwrap();
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    let shapes = [
        "--ranks 8 --steps 5 --nccl 2.29 --damage torn=0.2 --damage spliced=0.5",
        "--ranks 8 --nodes 2 --steps 5 --nccl 2.30 --damage torn=0.1 --trace --timestamps iso",
        "--ranks 8 --steps 5 --nccl 2.29 --no-init --damage torn=0.3 --trainer torchtitan",
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --steps 3 --damage glued=0.1 --damage glued-cut=0.1",
        "--ranks 8 --steps 5 --damage overwritten=1",
        "--ranks 8 --nodes 4 --steps 5 --damage overwritten=1 --host-style digits --trace",
        "--ranks 4 --steps 9 --damage spliced=1 --damage cut=0.1 --trainer megatron",
        "--ranks 4 --steps 9 --damage spliced=1 --trainer nemo1 --prefix srun",
        "--ranks 4 --steps 9 --restart-at 6 --eval-every 2 --trainer hf --damage crlf=1",
        "--ranks 4 --steps 20 --restart-at 12 --log-interval 3 --trainer deepspeed",
        "--ranks 8 --steps 6 --nccl 2.4 --damage orphan=0.2 --damage glued-cut=0.1",
        "--ranks 8 --tp 2 --ep 4 --steps 4 --nccl 2.28 --zero-counts --prefix hydra --trace",
        "--ranks 4 --steps 9 --trainer maxtext --every-rank --damage cut=0.05 --eval-every 3",
        "--ranks 4 --steps 9 --trainer torchtitan --every-rank --damage spliced=1",
        "--ranks 8 --steps 4 --nccl 2.29 --damage torn=0.4 --host-style digits --damage cut=0.2",
    ];
    let mut wrong = Vec::new();
    for seed in from..=to {
        for shape in shapes {
            wrong.extend(Made::new(&format!("{shape} --seed {seed}")).wrong());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
