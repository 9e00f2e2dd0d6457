//! Tests all recognisers on real logs: they must find all steps and nothing else.

use super::{Recogniser, TrainerMark};

/// The contents of the logs as read by eye. A file and the number of its marks that are no steps,
/// then its steps in order, each run of them after the name of its trainer: number, time in
/// seconds, TFLOP/s.
const EXPECTED: &str = "
axolotl 0
  hf 281 282 283 284
colossalai 0
  colossalai 1 2
composer_llmfoundry 1 # the other mark is a rate
  composer 1 2 5 1 50
deepspeed 0
  deepspeed 40 40 50 50 2650 2700 50 100 34 35
  hf 1999
  deepspeed 2000 2000 200,0.936
fairseq 0
  fairseq 2800 2900 100 445 33700
gpt_neox 0
  gpt-neox 1,10.921,9.8
  deepspeed 2
  gpt-neox 2,6.5247,16.4
  deepspeed 11 11
  gpt-neox 11,4.6229,100.2 34,4.1031,112.9
hf_trainer 0
  hf 1 2 3 4 5 1 2 3 3 4 5 5
interleaved 0
  megatron-deepspeed 6,0.3065,33.65
litgpt 0
  litgpt 610140 610150 610160 1 1631,0.56194 1632,0.56315
maxtext 0
  maxtext 0,1.353,1674.038 1,12.444,182.028 2,0.002,917442.589 3,11.715,193.354 4,11.645,194.526
  0,44.923,17.022 1,0.319,2400.734 2,5.658,135.158 3,5.402,141.542 4,5.669,134.884
  5,5.668,134.909 6,5.668,134.914 7,5.669,134.882 8,5.668,134.911 9,5.667,134.924 8,0.159,43.43
  9,0.166,41.524 1,0.631,5688.282 2,10.228,350.869 3,10.344,346.932
megatron_bridge 10 # the first two are wrapped before their time; the other marks are `Step Time :`
  megatron 10 20 50,9.089 100,3.7386
megatron_deepspeed 0
  deepspeed 199
  megatron-deepspeed 199,14.2875,69.85
  deepspeed 200 200
  megatron-deepspeed 5426,4.2479,78.36 5427,4.2258,78.77 5,344.6561,153.38 6,347.3192,152.2
  4,15.2328,25.55
megatron_lm 0
  megatron 43,5.4449,239.8 44,5.5338,236 45,5.7186,228.4 122,86.5452 123,87.8716 30,0.1234
  1,271.607,40.4 4,270.1254,449.6 300,131.0641,412.3 1370,4.8123 1,20.2891
metaseq 0
mlperf 4 # the other marks are the beginnings and ends of two evaluations
  mlperf 2000 2080 2160 2240 1152,54.71267318725586 2304,57.626834869384766
  3456,54.96613311767578
nanotron 0
  nanotron 991,0.045,0.00869 992,0.0412,0.0095 1,4.71,0.0000187 2,0.0118,0.00744
nccl_tests 0
nemo1_pbar 0
  nemo1 8999,0.615 794 99,3.13 99,11.2 49,12.8 49,24 56,11.3 115,11.2 6,49.5 1999,1.9 1999,68.7
  4,10.4
nemo2 0
  nemo2 45,6.08,1249 46,6.061,1252 47,6.082,1248 48,6.071,1250 49,6.06,1253 28,0.189 29,0.1903
  30,0.1915 528,2.443 529,2.127 120,0.03146 121,0.03163 49,2.693 0,10.31 1,7.549 2,7.556 3,7.561
  4,7.566 5,7.559 6,7.568 7,7.565 8,7.572 9,7.572 10,7.568 11,7.578 12,7.577 13,7.575 14,7.58
  15,7.578 16,7.578 17,7.584 18,7.579 19,7.592
olmo_core 0
  olmo-core 1 2 1 2 3
openrlhf 0
  openrlhf 1 2 2 2
torchtitan 0
  torchtitan 96,,10.92 97,,12.14 4,,314.71 4,,314.69 4,,314.68 5,,313.36 200,,339.16 210,,323.92
  700,,0 14,,0.52 97,,12.14
torchtune 0 # a bar without its description is recognised as Hugging Face's
  hf 1
  torchtune 1 1 2 2 1 0 1
verl 0
  verl 2,96.551 2 0 1
";

type ExpectedStep = (String, u64, Option<f64>, Option<f64>);

/// Reads one line of steps; a line that names no trainer continues the one before.
fn parse_steps(line: &str, steps: &mut Vec<ExpectedStep>) {
    let mut trainer = steps.last().map(|step| step.0.clone()).unwrap_or_default();
    for word in line.split_whitespace() {
        if word.starts_with(char::is_alphabetic) {
            trainer = word.to_owned();
            continue;
        }
        let mut values = word.split(',');
        let step = values.next().unwrap().parse().unwrap();
        let mut next = || values.next().and_then(|value| value.parse().ok());
        steps.push((trainer.clone(), step, next(), next()));
    }
}

/// Returns each file with its steps and the number of its other marks.
fn expected_files() -> Vec<(&'static str, Vec<ExpectedStep>, usize)> {
    let mut files: Vec<(&str, Vec<_>, usize)> = Vec::new();
    for line in EXPECTED.lines().filter(|line| !line.is_empty()) {
        if line.starts_with(' ') {
            parse_steps(line, &mut files.last_mut().unwrap().1);
        } else {
            let mut words = line.split(' ');
            let (name, others) = (words.next().unwrap(), words.next().unwrap());
            files.push((name, Vec::new(), others.parse().unwrap()));
        }
    }
    files
}

#[test]
fn every_step_of_the_real_logs_is_found_and_nothing_else() {
    let Some(folder) = crate::shared::data("trainers") else {
        return;
    };
    let mut files = std::fs::read_dir(&folder).unwrap().count();
    for (name, want, others) in expected_files() {
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let mut found = Vec::new();
        for line in log
            .split(|&b| b == b'\n')
            .filter(|line| !line.starts_with(b"#@"))
        {
            Recogniser::all().marks(line, &mut found);
        }
        let got: Vec<ExpectedStep> = found
            .iter()
            .filter_map(|found| match found.mark {
                TrainerMark::Step(l) => {
                    Some((l.trainer.name().to_owned(), l.step, l.time_s, l.tflops))
                }
                _ => None,
            })
            .collect();
        assert_eq!(got, want, "steps of {name}");
        assert_eq!(found.len() - got.len(), others, "other marks of {name}");
        files -= 1;
    }
    assert_eq!(files, 0, "logs without a list");
}
